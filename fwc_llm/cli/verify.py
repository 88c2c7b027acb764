"""`fwc-llm verify`: recompute a run folder and compare it with its files."""

from pathlib import Path
from typing import Any

from fwc_llm.cli.flags import DATA_DIR, JSON, argument, command, option, print_json, read, switch, words
from fwc_llm.runs.settings import JUDGED, Settings


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

    Give your own task, table and settings: everything that only the folder says is listed as stated. Files
    that cannot be checked here are listed as not verified. Exit code 5 if something differs. Needs no
    network.
    """
    from fwc_llm.cli.console import lines
    from fwc_llm.cli.eval import evaluate
    from fwc_llm.cli.experiment import read_experiment
    from fwc_llm.errors import GateFailedError
    from fwc_llm.report.verification import DIFFERS, SAME, Checker
    from fwc_llm.report.verification import verify as verified
    from fwc_llm.runs.listing import expanded

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
                lines(f"{row['status']}: {row['file']}: {row['detail']}")
        differs, unverified, stated = (document[key] for key in ("differs", "not_verified", "stated"))
        same = len(document["findings"]) - differs - unverified - stated
        counts = f"{differs} differ, {unverified} not verified, {stated} stated by the folder alone"
        lines(f"{counts}, {same} the same.", style="bold")
        for name, digest in document["sha256"].items():
            lines(f"sha256 of {name}: {digest} (compare it with the one that you were given)")
    findings = [finding for document in documents for finding in document["findings"]]
    if first := next((row for row in findings if row["status"] == DIFFERS), None):
        raise GateFailedError(f"{folder} was changed: {first['file']}: {first['detail']}")
