"""Terminal output: findings, one table and notes; with --verbose all sections."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.files import in_shell
from fwc_llm.gates.decide import by_arm, checked
from fwc_llm.metrics.adverse_impact import Impact
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.report import sections
from fwc_llm.report.document import describe_run, of_runs, sections_of, subject_of
from fwc_llm.report.impact import selected
from fwc_llm.report.narrative import (
    IS_THAT_GOOD,
    Subject,
    findings,
    limits,
    lost_lines,
    low_coverage,
    missed,
    next_step,
    overall,
    step_of,
    what_was_run,
)
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.report.threshold_section import at_threshold, threshold_section

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

GOOD = f"Is that good? {IS_THAT_GOOD}"
_MOST_NOTES = 4
_MOST_GROUPS = 10
_NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to "
    "judge."
)


def run_table(run: "Run", verbose: bool = False) -> RenderableType:
    """A run's findings and first table, for rich to print."""
    title = Text(f"{run.task} · {run.results['model']}", style="bold")
    if run.simulated:
        subject = "ANSWERS" if run.simulated_answers else "TABLE"
        title.append(f"  SIMULATED {subject}", style="bold black on yellow")
    if run.reference:
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    stats = run.statistics
    low = low_coverage(stats, run.described["settings"]["min_coverage"])
    lines = [run.missing, *lost_lines(run.results.get("rows"))]
    logprobs = (run.described.get("parameters") or {}).get("logprobs")
    if logprobs and not any(stats.of("brier", arm.arm).known for arm in stats.arms):
        lines.append(_NO_PROBABILITY)
    thresholds = at_threshold(threshold_section(run), stats)
    rest: list[RenderableType] = []
    if verbose:
        rest = [Text(what_was_run(run)), everything(describe_run(run))]
    return Group(
        title,
        *(Text(line["text"], style="bold") for line in low),
        summary(stats, run.created, verbose, limits(run), run),
        *([terminal(thresholds)] if thresholds and not verbose else []),
        *(Text(line, style="dim") for line in lines if line),
        *rest,
    )


def answer(run: "Run") -> str:
    """The first of a run's `findings`."""
    return findings(run.statistics, run.created, limits(run))[0]["text"]


def summary(
    stats: Statistics,
    created: str = "",
    verbose: bool = False,
    conditions: Sequence[str] = (),
    run: "Run | None" = None,
) -> RenderableType:
    """The findings, the first table and the next step (`next_step`)."""
    table = sections.first(stats, by_arm(checked(stats, conditions)))
    notes = [] if verbose else _notes(stats)
    return Group(
        *_body(stats, created, conditions, table, notes),
        *_next(*next_step(stats, conditions, run), _page(run)),
        Text(GOOD, style="dim"),
    )


def _body(
    stats: Statistics,
    created: str,
    conditions: Sequence[str],
    table: Section,
    notes: Sequence[str],
) -> Iterator[RenderableType]:
    """The findings, a table with notes, and what the rows could have missed."""
    for number, finding in enumerate(findings(stats, created, conditions)):
        text = ": ".join(filter(None, finding.values()))
        yield Text(text, style="" if number else "bold")
    yield terminal(replace(table, title=""))
    yield from (Text(note, style="dim") for note in notes)
    yield from map(Text, missed(stats))


def _next(step: str, command: str, page: str) -> Iterator[RenderableType]:
    """A step, and on an unbroken line its command, or else that of the `page`."""
    if page and not command:
        step += "; all tables and notes"
        command = page
    yield Text(f"Next: {step}{':' if command else '.'}")
    if command:
        yield Text(f"    {command}", no_wrap=True, overflow="ignore")


def _page(run: "Run | None") -> str:
    return f"fwc-llm report {in_shell(run.folder)}" if run else ""


def audit_summary(
    audits: Sequence[Subject],
    impacts: Sequence[Impact],
    predictions: str,
    created: str,
    verbose: bool,
    left_out: Sequence[str] = (),
    page: str = "",
) -> RenderableType:
    """The findings and first tables of audits by attribute, and notes on rows `left_out`.

    `page` is a command that writes the page of these audits.
    """
    parts = list[RenderableType]()
    if len(audits) > 1:
        parts.append(Text(overall(audits), style="bold"))
    parts += map(Text, left_out)
    told = [*left_out]
    for audited, impact in zip(audits, impacts, strict=True):
        name, stats, conditions, _ = audited
        table = sections.first(stats, audited.outcomes)
        if len(stats.arms) == 1:
            table = selected(impact, stats.records, impact.views[-1], _MOST_GROUPS)
        notes = [note for note in _notes(stats) if not verbose and note not in told]
        told += notes
        parts.append(Text(f"{predictions} by {name}", style="bold"))
        parts += _body(stats, created, conditions, table, notes)
    return Group(*parts, *_next(*step_of(audits), page), Text(GOOD, style="dim"))


def _notes(stats: Statistics) -> list[str]:
    of_one = tuple(f"{arm.arm}{end}" for arm in stats.arms for end in ":,")
    notes = [note for note in stats.notes if not note.startswith(of_one)]
    strata = [note for note in stats.notes if note not in notes and " strat" in note]
    return [*notes[:_MOST_NOTES], *strata]


def everything(run: Mapping[str, Any]) -> RenderableType:
    """All sections except the first of a document's run, for rich to print."""
    return Group(*map(terminal, sections_of(run)[1:]))


def models_table(runs: "Sequence[Run]", verbose: bool = False) -> RenderableType:
    """The answers of several models to the same questions, for rich to print."""
    title = Text(f"{runs[0].task} · {len(runs)} models", style="bold")
    models = [subject_of(run) for run in runs]
    answer, *differences = of_runs(runs, models)
    doubts = list[str]()
    tables = [sections.grid([(one.name, one.stats, one.outcomes) for one in models])]
    for run, model in zip(runs, models, strict=True):
        least = run.described["settings"]["min_coverage"]
        low = [line["text"] for line in low_coverage(model.stats, least)]
        doubts += [f"{model.name}: {line}" for line in (*low, run.missing) if line]
        heading = f"{run.label}, at its threshold"
        tables.append(at_threshold(threshold_section(run), model.stats, heading))
    return Group(
        title,
        *(Text(line, style="bold") for line in (*doubts, answer)),
        *(terminal(table) for table in tables if table),
        *map(Text, differences),
        *_next(*step_of(models), _page(models[0].run)),
        Text(GOOD, style="dim"),
        *(everything(describe_run(run)) for run in runs if verbose),
    )
