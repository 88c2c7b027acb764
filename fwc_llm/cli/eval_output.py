"""Output of `fwc-llm eval`: forecast and results, for one or several models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fwc_llm.cli import console
from fwc_llm.cli.flags import print_json
from fwc_llm.errors import (
    FunctionError,
    FwcError,
    IncompleteRunError,
    InterruptedRunError,
    ProviderError,
)
from fwc_llm.files import in_shell
from fwc_llm.models import traits
from fwc_llm.models.openai.prices import Price
from fwc_llm.runs.budget import where_asked
from fwc_llm.runs.execute import UnreadError
from fwc_llm.runs.folder import Group, RunFolder, answered_requests
from fwc_llm.sanitize import Fields, Json

if TYPE_CHECKING:
    from fwc_llm.evaluation.evaluate import Job
    from fwc_llm.evaluation.result import Result


def print_forecast(jobs: "Sequence[Job]", as_json: bool) -> None:
    """Print the expected requests and cost of each model, and the design's power."""
    from fwc_llm.metrics.planning import smallest
    from fwc_llm.report.narrative import power_lines
    from fwc_llm.runs.splits import design_of

    with console.working("counting tokens"):
        models = [job.forecast() for job in jobs]
    dollars = [model.dollars_most for model in models]
    known = [price for price in dollars if price is not None]
    total = sum(known) if len(known) == len(dollars) else None
    plan = jobs[0].plan
    names = ("n_test", "base_parity", "repeats", "min_group")
    design = design_of(plan.task, *(getattr(plan.settings, name) for name in names))
    if as_json:
        more = {"threshold_requests": plan.n_threshold_calls}
        document = {
            "format": "fwc-llm-forecast/1",
            "models": [model.plain() | more for model in models],
        }
        print_json(document | {"dollars_most": total, "smallest": smallest(design)})
        return
    for job, model in zip(jobs, models, strict=True):
        console.lines(*model.lines(job.why_unpriced, job.client.batch))
    if len(jobs) > 1 and all(dollars):
        console.lines(f"all {len(jobs)} models: at most ${total:.2f}")
    console.lines(*power_lines(design, len(plan.arms)))


def ask_all(
    jobs: "Sequence[Job]",
    out: Path | None,
    cancel_batch: bool,
    closing: str = "",
    as_json: bool = False,
    verbose: bool = False,
) -> "dict[str, Result]":
    """Run each model with a progress bar, print the results, then the `closing` text.

    If a provider rejects a model, the other models still run. With `as_json`, nothing is printed
    for complete runs: the caller prints them with their gates.
    """
    if len(jobs) > 1:
        group = _begin(jobs, out)
    else:
        group = None
    results: dict[str, Result] = {}
    problem: FwcError | None = None
    rejected: list[str] = []
    for number, job in enumerate(jobs, 1):
        name = job.model.name
        folder = out
        elsewhere = 0.0
        if group:
            console.notes(f"model {number} of {len(jobs)}: {name}", style="bold")
            folder = group.folder(name)
            elsewhere = sum(
                other.used(group.folder(other.model.name))
                for other in jobs
                if other is not job
            )
        try:
            results[name] = _ask(job, folder, cancel_batch, elsewhere)
        except InterruptedRunError as error:
            raise _interrupted(jobs, group, error) from None
        except FwcError as error:
            if (
                isinstance(error, UnreadError | FunctionError)
                and error.result is not None
            ):  # no answers to show
                where = in_shell(error.result.folder)
                console.notes(f"the replies so far are in {where}")
            elif error.result is not None:
                results[name] = error.result  # type: ignore[assignment]
            if group is None or not isinstance(error, ProviderError):
                problem = error
                break
            console.notes(f"{name}: {error}")
            rejected.append(name)
    problem = problem or _problem(results, rejected, group, jobs[0].client.strict)
    if not as_json:
        _print_results(jobs, results, group, verbose)
    elif problem and results:
        print_json(eval_json(jobs, results))
    if problem:
        raise problem
    if closing and not as_json:
        console.lines(closing)
    return results


def _ask(
    job: "Job", out: Path | None, cancel_batch: bool, elsewhere: float
) -> "Result":
    """Run a job; `elsewhere` is the cost of the other models, in dollars."""
    from fwc_llm.runs.batch import batches_under_way

    arms = ", ".join(arm.name for arm in job.plan.arms)
    where = where_asked(job.model, job.client)
    console.notes(
        f"{job.plan.n_calls:,} requests to {job.model.name} ({where}), asked with {arms}"
    )
    if out is not None and not cancel_batch and batches_under_way(out):
        console.notes(
            "a batch is pending: this command first waits for it (--cancel-batch cancels it)"
        )

    def resume(answered: int) -> None:
        left = job.plan.n_calls - answered
        rest = f"{left:,} to ask" if left else "nothing to ask"
        console.notes(f"{answered:,} of {job.plan.n_calls:,} answered, {rest}")

    with console.asking(job.plan.n_calls) as progress, console.printing_aside():
        return job.run(out, progress, cancel_batch, resume, elsewhere)


def _begin(jobs: "Sequence[Job]", out: Path | None) -> "Group":
    """Check all models' options, then create the folder with its experiment file."""
    first = jobs[0]
    names = tuple(job.model.name for job in jobs)
    for job in jobs:
        if out is None or not RunFolder(Group(out, names).folder(job.model.name)).begun:
            job.preflight()
    group = Group.begin(out, first.plan.task.name, names)
    first.write_options(
        group.path, ",".join(traits(job.model).opened_as for job in jobs)
    )
    return group


def _interrupted(
    jobs: "Sequence[Job]", group: "Group | None", error: InterruptedRunError
) -> InterruptedRunError:
    """Print the number of answered requests; return the error for an interruption."""
    if group:
        folder = group.path
        runs = [group.folder(job.model.name) for job in jobs]
    elif error.result is None:
        return error
    else:
        folder = error.result.folder
        runs = [folder]
    answered = sum(map(answered_requests, runs))
    requests = len(jobs) * jobs[0].plan.n_calls
    console.notes(
        f"{answered:,} of {requests:,} requests are answered",
        f"the replies are in {folder}",
    )
    return InterruptedRunError(f"interrupted; {_again(folder)} continues")


def _again(folder: Path) -> str:
    return f"the same command with --out {in_shell(folder)}"


def _print_results(
    jobs: "Sequence[Job]",
    results: "Mapping[str, Result]",
    group: "Group | None",
    verbose: bool,
) -> None:
    from fwc_llm.report.cost import cost
    from fwc_llm.report.terminal import runs_table

    answered = {
        name: result
        for name, result in results.items()
        if result.unanswered < result.data["requests"]
    }
    if not answered:
        return
    console.notes(*jobs[0].plan.task.notes)
    console.notes(
        *(text for result in answered.values() for text in reparsed(result.data))
    )
    runs = [result.run for result in answered.values()]
    table = runs_table(runs, verbose)
    console.out.print(table)
    jobs_by_name = {job.model.name: job for job in jobs}
    for name, result in answered.items():
        console.notes(*(f"{name}: {remark}" for remark in result.remarks))
        if not (result.data["simulated_answers"] or result.data["reference"]):
            job = jobs_by_name[name]
            words = cost(result.data, job.client.params, job.price)["words"]
            console.notes(f"{name}: {words}" if group else words)
    where = group.path if group else runs[0].folder
    console.notes(
        f"everything is in {where}; see it with: fwc-llm report {in_shell(where)}"
    )


def _problem(
    results: "Mapping[str, Result]",
    rejected: Sequence[str],
    group: "Group | None",
    strict: bool,
) -> FwcError | None:
    """The error for rejected models, stopped runs, missing replies or low coverage."""
    again = f"{_again(group.path if group else next(iter(results.values())).folder)} asks again"
    if rejected:
        return ProviderError(
            f"incomplete: {', '.join(rejected)} (see the error above); {again}"
        )
    data = [result.data for result in results.values()]
    stopped = [run["stopped"] for run in data if run["stopped"]]
    if stopped:
        return IncompleteRunError(stopped[-1])
    missing = sum(run["unanswered"] + (run.get("pool_unanswered") or 0) for run in data)
    if not missing:
        return _unread(results) if strict else None
    requests = sum(run["requests"] + (run.get("pool_requests") or 0) for run in data)
    first = [
        run["no_reply"][0] for run in data if run["no_reply"]
    ]  # the most frequent reason
    why = "; ".join(
        f"{reason['requests']:,} of them: {reason['reason']}" for reason in first
    )
    return IncompleteRunError(
        f"{missing:,} of {requests:,} requests have no reply ({why}); {again}"
    )


def _unread(results: "Mapping[str, Result]") -> FwcError | None:
    """The error for arms with a coverage below `min_coverage`; None without such an arm."""
    from fwc_llm.report.narrative import low_coverage

    runs = [result.run for result in results.values()]
    low = [
        line
        for run in runs
        for line in low_coverage(
            run.statistics, run.described["settings"]["min_coverage"]
        )
    ]
    if low:
        return IncompleteRunError(" ".join(low))
    return None


def reparsed(results: Fields) -> list[str]:
    """A sentence on recorded answers that this version's parser reads differently, or []."""
    from fwc_llm.answers import PARSER

    counts: Mapping[str, int] = results.get("reparsed") or {}
    by_arm = ", ".join(f"{arm} {n:,}" for arm, n in counts.items())
    text = (
        f"parser version {PARSER} reads {sum(counts.values()):,} answers differently than before "
        f"({by_arm})"
    )
    return [text] * bool(counts)


def run_json(result: "Result", price: "Price | None" = None) -> Json:
    """A run in the JSON of commands; without any reply, it has no statistics."""
    from fwc_llm.metrics.counts import plain
    from fwc_llm.report.cost import cost

    results = result.data
    parameters = RunFolder(result.folder).describe().get("parameters") or {}
    facts = {name: value for name, value in results.items() if name != "records"}
    document: Json = {
        "folder": str(result.folder),
        "results": facts,
        "records": [],
        "statistics": None,
        "cost": cost(results, parameters, price),
    }
    if results["unanswered"] < results["requests"]:
        stats = result.run.statistics
        document["statistics"] = plain(stats)
        document["records"] = plain(stats.records)
    return document


def eval_json(jobs: "Sequence[Job]", results: "Mapping[str, Result]") -> Json:
    """The JSON of `fwc-llm eval --json`, before its gates are decided."""
    prices = {job.model.name: job.price for job in jobs if job.model.name in results}
    runs = [run_json(results[name], price) for name, price in prices.items()]
    return {"format": "fwc-llm-eval/2", "runs": runs, "gates": [], "gate_notes": []}
