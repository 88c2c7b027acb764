"""`fwc-llm bundle`: pack a run into one file that others can verify."""

from pathlib import Path

from fwc_llm.cli.flags import DATA_DIR, argument, command, option, switch


@command("bundle")
def bundle(
    run: Path = argument("Folder of a run."),
    out: Path = option("Zip file to write.", "--out", "-o", default=Path("evidence.zip")),
    no_rows: bool = switch("Replace rows, prompts, replies and examples by their hashes.", "--no-rows"),
    data_dir: Path | None = DATA_DIR,
) -> None:
    """Put a run's report, results, journal, experiment file, hashes and a model card (CycloneDX) in a zip."""
    from fwc_llm.cli.console import notes
    from fwc_llm.report.evidence_bundle import write_bundle

    names, digest = write_bundle(run, out, not no_rows, data_dir)
    notes(f"wrote {out}: {len(names)} files, sha256 {digest}")
