"""What `fwc-llm eval` says: what a run would cost, and its results, for a model or several."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from fwc_llm.cli.options import print_json
from fwc_llm.cli.power import plan_lines, smallest_json
from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, ProviderError, Scored

if TYPE_CHECKING:
    from fwc_llm.evaluation.job import Job
    from fwc_llm.evaluation.result import Result
    from fwc_llm.models.openai.prices import Price
    from fwc_llm.runs.budget import Forecast
    from fwc_llm.runs.group import Group


def print_forecast(jobs: "Sequence[Job]", as_json: bool) -> None:
    """Print what a run would ask and cost."""
    from fwc_llm.cli.console import out

    forecasts = [_forecast(job) for job in jobs]
    dollars = [0.0 if numbers is None else numbers.dollars_most for numbers in forecasts]
    total = None if None in dollars else sum(filter(None, dollars))
    if as_json:
        models = [_forecast_json(job, numbers) for job, numbers in zip(jobs, forecasts, strict=True)]
        document = {"format": "fwc-llm-forecast/1", "models": models, "dollars_most": total}
        print_json({**document, "smallest": smallest_json(jobs[0].plan)})
        return
    lines = [line for job, n in zip(jobs, forecasts, strict=True) for line in _forecast_lines(job, n)]
    if len(jobs) > 1 and all(dollars):
        lines.append(f"all {len(jobs)} models: at most ${total:.2f}")
    for line in (*lines, *plan_lines(jobs[0].plan)):
        out.print(line, soft_wrap=True, highlight=False)


def _forecast(job: "Job") -> "Forecast | None":
    """Return the tokens and dollars of a run; None for one that costs nothing."""
    from fwc_llm.cli.console import working
    from fwc_llm.models import traits

    model = traits(job.model)
    if model.reference or model.local or (model.simulated and job.client.base_url is None):
        return None
    with working("counting tokens"):
        return job.forecast()


def _writes_text(job: "Job") -> bool:
    """Whether the replies are text whose tokens count: not those of a decision model, nor of a function."""
    from fwc_llm.models import traits

    return traits(job.model).api == "chat" and not _is_function(job)


def _forecast_lines(job: "Job", numbers: "Forecast | None") -> Iterator[str]:
    plan, name = job.plan, job.model.name
    if numbers is None:
        yield f"{plan.n_calls:,} requests to {name} ({_where(job)}): they cost nothing"
        return
    exact = "" if numbers.exact else " (an estimate: the tokens of this model cannot be counted here)"
    yield f"{numbers.calls:,} requests to {name} ({_where(job)})"
    if pool_calls := plan.n_threshold_calls:
        share = None if numbers.dollars is None else numbers.dollars * pool_calls / numbers.calls
        cost = "" if share is None else f", about ${share:.2f}"
        yield f"{pool_calls:,} of them are about rows of the pool, to choose the threshold{cost}"
    if plan.settings.counterfactual:
        yield "this includes the counterfactual probe, which asks every row again for each other level"
    if (samples := plan.settings.samples) > 1:
        yield f"this includes that every prompt is asked {samples} times"
    yield f"{numbers.prompt_tokens:,} prompt tokens{exact}, the longest prompt {numbers.longest_prompt:,}"
    if not _is_function(job):
        yield f"{numbers.cached_share:.0%} of them can come from the provider's prompt cache"
    if _writes_text(job):
        yield f"at most {numbers.completion_tokens:,} completion tokens"
    if numbers.dollars is None or numbers.dollars_most is None or numbers.price is None:
        if _is_function(job):
            yield f"cost unknown: {name} is a function of yours, which alone knows what it asks"
        else:
            yield f"cost unknown: no price of {name} is known; give a price file with --prices"
        return
    least, most = f"${numbers.dollars:.2f}", f"${numbers.dollars_most:.2f}"
    cost = most if least == most else f"{least} with the cache, {most} without"
    batches = ", as batches" if job.client.batch else ""
    yield f"{cost}{batches}, by prices of {numbers.price.date} ({numbers.price.source})"


def _forecast_json(job: "Job", numbers: "Forecast | None") -> dict[str, Any]:
    """The forecast as plain values; tokens are None for a model that is not asked over a network."""
    return {
        "model": job.model.name,
        "where": _where(job),
        "requests": job.plan.n_calls,
        "threshold_requests": job.plan.n_threshold_calls,
        "prompt_tokens": numbers and numbers.prompt_tokens,
        "longest_prompt": numbers and numbers.longest_prompt,
        "cached_tokens": numbers and numbers.cached_tokens,
        "completion_tokens": numbers.completion_tokens if numbers and _writes_text(job) else None,
        "exact": numbers and numbers.exact,
        "dollars": 0.0 if numbers is None else numbers.dollars,
        "dollars_most": 0.0 if numbers is None else numbers.dollars_most,
        "price": asdict(numbers.price) if numbers and numbers.price else None,
    }


def _is_function(job: "Job") -> bool:
    """Whether a function of the user answers."""
    return job.model.name.startswith("python:")


def _where(job: "Job") -> str:
    """Who will answer: whether over a network, and whether it may cost something."""
    from fwc_llm.models import is_local, traits

    model = traits(job.model)
    url = model.address or job.client.base_url
    if model.reference:
        return "a reference, no language model, no network"
    if model.local:
        return "in this process: no network, no cost"
    if model.simulated:
        return f"a simulation, asked over the network at {url}" if url else "a simulation, no network"
    if _is_function(job):
        return "a function of yours, in this process"
    if is_local(url):
        return f"at {url}, on this machine"
    return f"at {url}, a service that may charge for them" if url else "a service that may charge for them"


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
    line = f"{job.plan.n_calls:,} requests to {job.model.name} ({_where(job)}); arms: {arms}"
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


def run_json(folder: Path, results: Mapping[str, Any], price: "Price | None" = None) -> dict[str, Any]:
    """A run as all commands show it: results.json, the statistics, the threshold, what it cost.

    Statistics and threshold are None where no request has a reply.
    """
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.cost import cost
    from fwc_llm.report.read import read_run
    from fwc_llm.report.reference_models import references_of
    from fwc_llm.report.thresholds import threshold_section

    found: dict[str, Any] = {
        "folder": str(folder),
        "results": dict(results),
        "statistics": None,
        "threshold": None,
        "cost": cost(results, price),
    }
    if results["unanswered"] < results["requests"]:
        run = read_run(folder)
        found["statistics"] = statistics(run.answered, references_of(run))
        found["threshold"] = threshold_section(run)
    return found


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


def ask_several(
    jobs: "Sequence[Job]",
    out: Path | None,
    ask: "Callable[[Job, Path, float], Result]",
    as_json: bool = False,
) -> dict[str, Scored]:
    """Ask each model and print all results beside each other; return each model's result.

    With `as_json` whole runs are the caller's to print, for their gates are in the document.

    `ask` runs one job in a folder; its last argument is what the others have cost, which counts towards the
    limit of cost. A model that its provider rejects does not keep the others from being asked.

    Errors: `FwcError` before any request for what no model, or one of them, cannot do; after the last
    request `ProviderError` for models that were rejected, else `IncompleteRunError` for missing replies.
    """
    from fwc_llm.cli import console

    group = _begin(jobs, out)
    used = {job.model.name: job.used(group.folder(job.model.name)) for job in jobs}
    results: dict[str, Scored] = {}
    rejected: dict[str, ProviderError] = {}
    for number, job in enumerate(jobs, 1):
        name = job.model.name
        console.err.print(f"model {number} of {len(jobs)}: {name}", style="bold")
        folder, others = group.folder(name), sum(used.values()) - used[name]
        try:
            results[name] = ask(replace(job, reference=False), folder, others)
        except InterruptedRunError as error:
            raise _interrupted(group, jobs, error) from None
        except ProviderError as error:
            console.err.print(f"{name}: {error}", soft_wrap=True)
            rejected[name] = error
            if error.result is not None:
                results[name] = error.result
        used[name] = job.used(folder)
    _add_references(jobs, results)
    if not as_json:
        _print_models(jobs, results, group)
    try:
        _raise_missing(jobs, results, rejected, group)
    except FwcError:
        if as_json:
            print_json(eval_json(jobs, results))
        raise
    return results


def _begin(jobs: "Sequence[Job]", out: Path | None) -> "Group":
    """Refuse what any model would refuse, then make the folder with its experiment file."""
    from fwc_llm.runs.folder import RunFolder
    from fwc_llm.runs.group import Group

    first, names = jobs[0], tuple(job.model.name for job in jobs)
    for job in jobs:
        if out is None or not RunFolder(Group(out, names).folder(job.model.name)).begun:
            job.refuse_early()
    group = Group.begin(out, first.plan.task.name, names)
    first.write_options(group.path, ",".join(names))
    return group


def _interrupted(group: "Group", jobs: "Sequence[Job]", error: InterruptedRunError) -> InterruptedRunError:
    """Say what is there, and how all models go on."""
    from fwc_llm.cli import console

    requests = len(jobs) * jobs[0].plan.n_calls
    answered = sum(job.answered(group.folder(job.model.name)) for job in jobs)
    console.err.print(f"{answered:,} of {requests:,} requests are answered")
    console.err.print(f"what was answered is in {group.path}", soft_wrap=True)
    return InterruptedRunError(f"interrupted; the same command with --out {quote(str(group.path))} continues")


def _answered(results: "Mapping[str, Scored]") -> dict[str, Scored]:
    """The results with any reply."""
    return {name: result for name, result in results.items() if result.unanswered < result.data["requests"]}


def _add_references(jobs: "Sequence[Job]", results: "Mapping[str, Scored]") -> None:
    """Make the reference lines once for all models: the questions are the same."""
    if jobs[0].reference and (shown := _answered(results)):
        from fwc_llm.report.reference_models import add_references

        add_references([result.folder for result in shown.values()], jobs[0].plan.task)


def _print_models(jobs: "Sequence[Job]", results: "Mapping[str, Scored]", group: "Group") -> None:
    """Print all models beside each other, and what each has cost."""
    from fwc_llm.cli import console
    from fwc_llm.report.cost import cost_line
    from fwc_llm.report.read import read_run
    from fwc_llm.report.terminal import models_table
    from fwc_llm.report.thresholds import threshold_table

    shown = _answered(results)
    for note in jobs[0].plan.task.notes:
        console.err.print(note, soft_wrap=True)
    if shown:
        console.out.print(models_table([read_run(result.folder) for result in shown.values()]))
    for name, one in shown.items():
        if (table := threshold_table(one.folder)) is not None:
            console.out.print(name, style="bold")
            console.out.print(table)
    for job in jobs:
        result = shown.get(job.model.name)
        if result is not None and not (result.data["simulated_answers"] or result.data["reference"]):
            console.err.print(f"{job.model.name}: {cost_line(result.data, job.price)}", soft_wrap=True)
    where = quote(str(group.path))
    console.err.print(f"everything is in {group.path}; see it with: fwc-llm report {where}", soft_wrap=True)


def _raise_missing(
    jobs: "Sequence[Job]",
    results: "Mapping[str, Scored]",
    rejected: Mapping[str, ProviderError],
    group: "Group",
) -> None:
    again = f"the same command with --out {quote(str(group.path))} asks again"
    if rejected:
        raise ProviderError(f"not asked to the end: {', '.join(rejected)} (see above); {again}")
    if stopped := [result.data["stopped"] for result in results.values() if result.data["stopped"]]:
        raise IncompleteRunError(stopped[-1])
    missing = {name: n for name, result in results.items() if (n := _n_missing(result))}
    if missing:
        shares = ", ".join(f"{name} {number:,}" for name, number in missing.items())
        requests = len(jobs) * jobs[0].plan.n_calls
        raise IncompleteRunError(
            f"{sum(missing.values()):,} of {requests:,} requests have no reply ({shares}); {again}"
        )


def _n_missing(result: Scored) -> int:
    """How many requests have no reply, those about rows of the pool included."""
    return int(result.unanswered + (result.data.get("pool_unanswered") or 0))
