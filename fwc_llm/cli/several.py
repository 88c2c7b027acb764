"""`fwc-llm eval --model a,b,c`: the same questions to several models, one by one, within one cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from fwc_llm.cli.as_json import print_json
from fwc_llm.cli.outcome import eval_json
from fwc_llm.cli.words import words
from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, ProviderError, Scored

if TYPE_CHECKING:
    from fwc_llm.evaluation.job import Job
    from fwc_llm.evaluation.result import Result
    from fwc_llm.runs.group import Group


def model_names(text: str | None) -> tuple[str, ...]:
    """The models that --model names, each once; without it the simulation."""
    if text is None:
        return ("surrogate",)
    names = words(text)
    if not names:
        raise FwcError("--model names no model: give a name, or several with commas between them")
    for name in names:
        if names.count(name) > 1:
            raise FwcError(f"--model names {name!r} twice: give each model once")
    return names


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
        _report(jobs, results, group)
    try:
        _raise(jobs, results, rejected, group)
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
        from fwc_llm.report.lines import add_references

        add_references([result.folder for result in shown.values()], jobs[0].plan.task)


def _report(jobs: "Sequence[Job]", results: "Mapping[str, Scored]", group: "Group") -> None:
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


def _raise(
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
    missing = {name: n for name, result in results.items() if (n := _missing(result))}
    if missing:
        shares = ", ".join(f"{name} {number:,}" for name, number in missing.items())
        requests = len(jobs) * jobs[0].plan.n_calls
        raise IncompleteRunError(
            f"{sum(missing.values()):,} of {requests:,} requests have no reply ({shares}); {again}"
        )


def _missing(result: Scored) -> int:
    """How many requests have no reply, those about rows of the pool included."""
    return int(result.unanswered + (result.data.get("pool_unanswered") or 0))
