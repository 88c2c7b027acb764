"""`fwc-llm rescore` and `verify`: finished runs are scored again."""

from pathlib import Path

from fwc_llm.cli import console
from fwc_llm.cli.flags import DATA_DIR, JSON, argument, command, option, print_json
from fwc_llm.errors import FwcError, GateFailedError
from fwc_llm.files import in_shell, is_file
from fwc_llm.runs.folder import RunFolder, expanded, without_reply


@command("rescore")
def rescore(
    run: Path = argument("Folder of a run, or of several models."), as_json: bool = JSON
) -> None:
    """Recompute answers.csv and results.json from a run's journal, without requests, key or
    data.
    """
    from fwc_llm.cli.eval_output import reparsed, run_json
    from fwc_llm.evaluation.result import Result
    from fwc_llm.models.recorded import FILE_NAME
    from fwc_llm.report.terminal import runs_table
    from fwc_llm.runs.journal import Journal
    from fwc_llm.runs.recorded_run import score_run

    documents = []
    for path in expanded([run]):
        folder = RunFolder.existing(path)
        if not is_file(folder.path / FILE_NAME):
            # Opening a missing journal would create an empty one, and scoring would delete all
            # answers.
            raise FwcError(
                f"{folder.path / FILE_NAME} is missing: restore it, or ask again by the same "
                f"`fwc-llm eval` "
                f"command with --out {in_shell(run)}"
            )
        with Journal(folder.path) as journal:
            results, found = score_run(folder, journal)
        if as_json:
            documents.append(run_json(Result(folder.path, results, scored=found)))
        else:
            if found is not None:
                console.out.print(runs_table([found]))
            console.notes(*reparsed(results))
        missing = without_reply(results)
        if missing:
            console.notes(
                f"{missing}; the same `fwc-llm eval` command with --out {in_shell(run)} sends them"
            )
    if as_json:
        print_json({"format": "fwc-llm-rescore/1", "runs": documents})


@command("verify")
def verify(
    folder: Path = argument("Folder of a run or models, or an audit (`audit --out`)."),
    task: str | None = option(
        "Your own task or task file. [default: a built-in one, else the folder's]"
    ),
    data_dir: Path | None = DATA_DIR,
    data: Path | None = option("Your own table of decisions, for audits."),
    as_json: bool = JSON,
) -> None:
    """Recompute a run from its journal and table, or an audit from its table, and list what
    differs.

    Compares file by file with a new copy in a temporary folder.
    Files that nothing else confirms are listed as not checked. Exit code 5 if something differs.
    Needs no network.
    """
    from fwc_llm.evaluation import verification

    documents = [
        verification.verify(path, task, data_dir, data) for path in expanded([folder])
    ]
    findings = [finding for document in documents for finding in document["findings"]]
    lines = ["{status}: {file}: {detail}".format(**finding) for finding in findings]
    different = [line for line in lines if line.startswith(verification.DIFFERS)]
    if as_json:
        print_json({"format": verification.FORMAT, "folders": documents})
    else:
        console.lines(*lines, f"Differences: {len(different)}.")
    if different:
        raise GateFailedError(f"{folder} is not what is computed now: {different[0]}")
