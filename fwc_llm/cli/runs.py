"""`fwc-llm runs`, `rescore`, `bundle` and `verify`: what is done with finished runs."""

from pathlib import Path
from typing import Any

from fwc_llm.cli import console
from fwc_llm.cli.flags import DATA_DIR, JSON, argument, command, option, print_json, read, switch, words
from fwc_llm.errors import FwcError, GateFailedError
from fwc_llm.files import is_file
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.listing import expanded, list_runs
from fwc_llm.runs.settings import JUDGED, Settings


@command("runs")
def runs(
    folder: Path = argument("Folder with runs at any depth.", default=Path("runs"), metavar="DIR"),
    as_json: bool = JSON,
) -> None:
    """List runs with task, model, arms, start time and completeness."""
    listed = list_runs(folder)
    if as_json:
        print_json({"format": "fwc-llm-runs/1", "runs": listed})
        return
    if not listed:
        console.notes(f"{folder} holds no run")
    for run in listed:
        path = Path(run["folder"])
        where = path.relative_to(folder) if path != folder else path
        state = "complete" if run["complete"] else f"{run['answered']:,} of {run['requests']:,} answered"
        mark = ", simulated" if run["simulated"] else ""
        when = run["created"][:16].replace("T", " ")
        console.lines(f"{where}: {run['problem'] or state}", style="" if run["problem"] else "bold")
        if not run["problem"]:
            console.lines(f"  {run['task']} · {run['model']}{mark} · {', '.join(run['arms'])} · {when}")


@command("rescore")
def rescore(run: Path = argument("Folder of a run, or of several models."), as_json: bool = JSON) -> None:
    """Recompute answers.csv and results.json from a run's journal, without requests, key or data."""
    from fwc_llm.cli.eval_output import reparsed, run_json
    from fwc_llm.models.recorded import FILE_NAME
    from fwc_llm.report.terminal import run_table
    from fwc_llm.runs.journal import Journal
    from fwc_llm.runs.recorded_run import score_run

    scored = []
    for path in expanded([run]):
        folder = RunFolder.existing(path)
        if not is_file(folder.path / FILE_NAME):
            # Opening a missing journal would create an empty one, and scoring would delete all answers.
            raise FwcError(
                f"{folder.path / FILE_NAME} is missing: restore it, or ask again by the same `fwc-llm eval` "
                f"command with --out {run}"
            )
        with Journal(folder.path) as journal:
            results = score_run(folder, journal)
        if as_json:
            scored.append(run_json(folder.path, results))
        else:
            if results["unanswered"] < results["requests"]:
                console.out.print(run_table(folder.path))
            console.notes(*reparsed(results))
        if missing := results["unanswered"]:
            console.notes(
                f"{missing:,} of {results['requests']:,} requests have no reply; the same `fwc-llm eval` "
                f"command with --out {run} sends them"
            )
    if as_json:
        print_json({"format": "fwc-llm-rescore/1", "runs": scored})


@command("bundle")
def bundle(
    run: Path = argument("Folder of a run."),
    out: Path = option("Zip file to write.", "--out", "-o", default=Path("evidence.zip")),
    no_rows: bool = switch("Replace rows, prompts, replies and examples by their hashes.", "--no-rows"),
    data_dir: Path | None = DATA_DIR,
) -> None:
    """Put a run's report, results, journal, experiment file, hashes and a model card (CycloneDX) in a zip."""
    from fwc_llm.report.evidence_bundle import write_bundle

    names, digest = write_bundle(run, out, not no_rows, data_dir)
    console.notes(f"wrote {out}: {len(names)} files, sha256 {digest}")


@command("verify", Settings, names=JUDGED)
def verify(
    folder: Path = argument("Folder of a run, models, an unpacked bundle, or audits (`audit --out`)."),
    experiment: Path | None = option("Your own experiment file (TOML), whose settings the run must match."),
    task: str | None = option("Your own task or task file. [default: a built-in one, else the folder's]"),
    data_dir: Path | None = DATA_DIR,
    data: Path | None = option("Your own table: an audit's, or Parquet files for a task."),
    everything: bool = switch("Also list findings without a difference.", "--all"),
    as_json: bool = JSON,
    **options: Any,
) -> None:
    """Recompute every number in a run folder from its journal and table, and check the hashes.

    What only the folder says is listed as stated: pass your own task, table and settings to check them.
    Files that cannot be checked here are listed as not verified. Exit code 5 if something differs. Needs no
    network.
    """
    from fwc_llm.cli.eval import evaluate
    from fwc_llm.cli.experiment import read_experiment
    from fwc_llm.report.verification import DIFFERS, SAME, Checker
    from fwc_llm.report.verification import verify as verified

    given = read_experiment(experiment, evaluate) if experiment else {}
    for name in ("until_decided", "template" * ("," in given.get("template", ""))):
        given.pop(name, None)  # run.json has them in another form: they are listed as stated
    settings = read(Settings, given | {name: value for name, value in options.items() if value is not None})
    expected = {
        name: value for name, value in settings.as_json().items() if name in settings.model_fields_set
    }
    expected |= {"model": words(given["model"])[0]} if "model" in given else {}
    table = task or given.get("task"), data_dir or given.get("data_dir"), data or given.get("data")
    documents = [verified(path, Checker(*table, expected)) for path in expanded([folder])]
    if as_json:
        print_json({"format": "fwc-llm-verify/1", "folders": documents})
    for document in () if as_json else documents:
        for row in document["findings"]:
            if everything or row["status"] != SAME:
                console.lines(f"{row['status']}: {row['file']}: {row['detail']}")
        differs, unverified, stated = (document[key] for key in ("differs", "not_verified", "stated"))
        same = len(document["findings"]) - differs - unverified - stated
        counts = f"{differs} differ, {unverified} not verified, {stated} stated by the folder alone"
        console.lines(f"{counts}, {same} the same.", style="bold")
        for name, digest in document["sha256"].items():
            console.lines(f"sha256 of {name}: {digest} (compare it with the one that you were given)")
    findings = [finding for document in documents for finding in document["findings"]]
    if first := next((row for row in findings if row["status"] == DIFFERS), None):
        raise GateFailedError(f"{folder} was changed: {first['file']}: {first['detail']}")
