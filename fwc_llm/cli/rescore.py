"""`fwc-llm rescore`: parse the replies of a run again and recompute its numbers, without any request."""

from pathlib import Path

from fwc_llm.cli.eval_output import reparsed, run_json
from fwc_llm.cli.flags import JSON, argument, command, print_json


@command("rescore")
def rescore(run: Path = argument("Folder of a run, or of several models."), as_json: bool = JSON) -> None:
    """Recompute answers.csv and results.json from a run's journal, without requests, key or data."""
    from fwc_llm.cli.console import notes, out
    from fwc_llm.errors import FwcError
    from fwc_llm.files import is_file
    from fwc_llm.models.recorded import FILE_NAME
    from fwc_llm.report.terminal import run_table
    from fwc_llm.runs.folder import RunFolder
    from fwc_llm.runs.journal import Journal
    from fwc_llm.runs.listing import expanded
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
                out.print(run_table(folder.path))
            notes(*reparsed(results))
        if missing := results["unanswered"]:
            notes(
                f"{missing:,} of {results['requests']:,} requests have no reply; the same `fwc-llm eval` "
                f"command with --out {run} asks them"
            )
    if as_json:
        print_json({"format": "fwc-llm-rescore/1", "runs": scored})
