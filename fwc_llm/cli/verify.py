"""`fwc-llm verify`: whether a folder still says what its journal and its table say."""

from pathlib import Path

from fwc_llm.cli.options import DATA_DIR, JSON, argument, command, option, print_json, switch


@command("verify")
def verify(
    folder: Path = argument(
        "The folder of a run, of several models, of an unpacked bundle, or of audits (`audit --out`)."
    ),
    task: str | None = option("The task file (.toml) of the run, where the task is not built in."),
    data_dir: Path | None = DATA_DIR,
    everything: bool = switch("Also list what is the same.", "--all"),
    as_json: bool = JSON,
) -> None:
    """Make every number of a folder again from its journal and table, and check hashes; needs no network.

    Exit code 5 where something differs. What cannot be checked, because it is not here, is named.
    """
    from fwc_llm.cli.console import lines
    from fwc_llm.errors import GateFailedError
    from fwc_llm.report.verify import DIFFERS, SAME
    from fwc_llm.report.verify import verify as verified
    from fwc_llm.runs.listing import expanded

    documents = [verified(path, task, data_dir) for path in expanded([folder])]
    if as_json:
        print_json({"format": "fwc-llm-verify/1", "folders": documents})
    for document in () if as_json else documents:
        for row in document["findings"]:
            if everything or row["status"] != SAME:
                lines(f"{row['status']}: {row['file']}: {row['detail']}")
        same = len(document["findings"]) - document["differs"] - document["not_verified"]
        counts = f"{document['differs']} differ, {document['not_verified']} not verified, {same} the same."
        lines(counts, style="bold")
        for name, digest in document["sha256"].items():
            lines(f"sha256 of {name}: {digest} (compare it with the one that you were given)")
    findings = [finding for document in documents for finding in document["findings"]]
    if first := next((row for row in findings if row["status"] == DIFFERS), None):
        raise GateFailedError(f"{folder} was changed: {first['file']}: {first['detail']}")
