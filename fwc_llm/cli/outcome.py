"""How `fwc-llm eval` asks one model, and what it says of the answers: whole, in part or interrupted."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.cli.as_json import print_json, run_json
from fwc_llm.cli.forecast import where
from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, Scored

if TYPE_CHECKING:
    from fwc_llm.evaluation.job import Job
    from fwc_llm.evaluation.result import Result


@contextmanager
def before_asking(out: Path | None) -> Iterator[None]:
    """Say what is kept where somebody interrupts before the first request."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"what is in {out} is as it was" if out is not None and out.exists() else "nothing is written"
        raise InterruptedRunError(f"interrupted before any request: {kept}") from None


def ask(job: "Job", out: Path | None, cancel_batch: bool, elsewhere: float = 0.0) -> "Result":
    """Run the plan under a progress bar."""
    from fwc_llm.cli import console
    from fwc_llm.runs.batch import batches_under_way

    arms = ", ".join(arm.name for arm in job.plan.arms)
    line = f"{job.plan.n_calls:,} requests to {job.model.name} ({where(job)}); arms: {arms}"
    console.err.print(line, soft_wrap=True)
    if out is not None and not cancel_batch and batches_under_way(out):
        console.err.print("a batch is under way: its replies come first (--cancel-batch ends it)")

    def resume(answered: int) -> None:
        left = job.plan.n_calls - answered
        rest = f"{left:,} to ask" if left else "nothing to ask"
        console.err.print(f"{answered:,} of {job.plan.n_calls:,} answered, {rest}")

    # What a function of the user prints is no output of ours.
    with console.asking(job.plan.n_calls) as progress, redirect_stdout(sys.stderr):
        return job.run(out, progress, cancel_batch, resume, elsewhere)


def ask_one(
    job: "Job", out: Path | None, cancel_batch: bool, closing: str = "", as_json: bool = False
) -> "Result":
    """Ask one model and print what the run found, then the closing words.

    With `as_json` a whole run is the caller's to print, for its gates are in the document.

    Errors: `IncompleteRunError` for a request without a reply, after what is there was printed.
    """
    from fwc_llm.cli import console

    try:
        result = ask(job, out, cancel_batch)
    except InterruptedRunError as error:
        _say_interrupted(error.result)
        raise
    except FwcError as error:
        if error.result is not None:
            _print_part(job, error.result, as_json)
        raise
    missing = _missing(result) or _pool_missing(result)
    if missing:
        _print_part(job, result, as_json)
    elif not as_json:
        _print_result(job, result)
    if closing and not as_json:
        console.out.print(closing, highlight=False)
    if missing:
        raise IncompleteRunError(missing)
    return result


def eval_json(jobs: "Sequence[Job]", results: Mapping[str, Scored]) -> dict[str, Any]:
    """What `fwc-llm eval --json` prints, before its gates are decided."""
    shown = {job.model.name: job.price for job in jobs if job.model.name in results}
    runs = [run_json(results[name].folder, results[name].data, price) for name, price in shown.items()]
    return {"format": "fwc-llm-eval/1", "runs": runs, "gates": [], "gate_notes": []}


def _print_part(job: "Job", result: Scored, as_json: bool) -> None:
    if as_json:
        print_json(eval_json([job], {job.model.name: result}))
    else:
        _print_result(job, result)


def _say_interrupted(result: Scored | None) -> None:
    """Say what is there; nothing of a part of the answers is shown as a result."""
    from fwc_llm.cli import console

    if result is None:
        return
    requests = int(result.data["requests"])
    console.err.print(f"{requests - result.unanswered:,} of {requests:,} requests are answered")
    console.err.print(f"what was answered is in {result.folder}", soft_wrap=True)


def _print_result(job: "Job", result: Scored) -> None:
    """Print what a run found, in whole or in part; nothing where no request has a reply."""
    from fwc_llm.cli import console
    from fwc_llm.report.ablation import ablation_table
    from fwc_llm.report.cost import cost_line
    from fwc_llm.report.terminal import results_table, statistics_lines
    from fwc_llm.report.thresholds import threshold_table
    from fwc_llm.runs.ablation import ARMS

    if result.unanswered >= result.data["requests"]:
        return
    for note in job.plan.task.notes:
        console.err.print(note, soft_wrap=True)
    console.out.print(results_table(result.data))
    console.out.print(statistics_lines(result.folder))
    if (table := threshold_table(result.folder)) is not None:
        console.out.print(table)
    if tuple(arm.name for arm in job.plan.arms) == ARMS:
        console.out.print(ablation_table(result.folder))
    if not (result.data["simulated_answers"] or result.data["reference"]):
        console.err.print(cost_line(result.data, job.price), soft_wrap=True)
    place = f"everything is in {result.folder}; see it with: fwc-llm report {result.folder}"
    console.err.print(place, soft_wrap=True)


def _why(result: Scored) -> str:
    """The most frequent reason why rows have no reply."""
    reasons = result.data["no_reply"]
    return f"; {reasons[0]['requests']} of them: {reasons[0]['reason']}" if reasons else ""


def _missing(result: "Result") -> str:
    """What stopped the run, or which rows have no reply, if some have none."""
    if not result.unanswered:
        return ""
    return result.data["stopped"] or (
        f"{result.unanswered} of {result.data['requests']} requests have no reply "
        f"({_first_missing(result)}{_why(result)}); the same command with --out {result.folder} asks them "
        "again"
    )


def _first_missing(result: "Result") -> str:
    """The first rows without a reply, by name."""
    from fwc_llm.runs.folder import RunFolder

    missing = (row for row in RunFolder(result.folder).read_answers() if row["reason"] == "error")
    names = [f"{row['arm']} {row['row']}" for row in islice(missing, 5)]
    more = result.unanswered - len(names)
    return ", ".join(names) + (f" and {more} more, see answers.csv" if more else "")


def _pool_missing(result: Scored) -> str:
    """That rows of the pool have no reply, if some have none."""
    missing, of = result.data.get("pool_unanswered") or 0, result.data.get("pool_requests") or 0
    if not missing:
        return ""
    return (
        f"{missing:,} of {of:,} requests about rows of the pool have no reply, so that the threshold rests "
        f"on fewer; the same command with --out {result.folder} asks them again"
    )
