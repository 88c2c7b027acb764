"""Terminal output: findings, one table and notes; with --verbose all sections."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.files import in_shell
from fwc_llm.metrics.adverse_impact import Impact
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.report import sections
from fwc_llm.report.document import describe_run, differences, sections_of, subject_of
from fwc_llm.report.impact import selected
from fwc_llm.report.narrative import (
    IS_THAT_GOOD,
    Subject,
    findings,
    limits,
    lost_lines,
    low_coverage,
    overall,
    step_of,
    what_was_run,
)
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.report.threshold_section import at_threshold, threshold_section
from fwc_llm.sanitize import Fields

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

GOOD = f"Is that good? {IS_THAT_GOOD}"
_MOST_NOTES = 6
_MOST_ROWS = 20  # of the first table
_NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to "
    "judge."
)


def runs_table(runs: "Sequence[Run]", verbose: bool = False) -> RenderableType:
    """The answers of one or several models to the same questions, for rich to print."""
    models = [subject_of(run) for run in runs]
    several = len(runs) > 1
    subject = f"{len(runs)} models" if several else runs[0].results["model"]
    title = Text(f"{runs[0].task} · {subject}", style="bold")
    if all(run.simulated for run in runs):
        simulated = "ANSWERS" if runs[0].simulated_answers else "TABLE"
        title.append(f"  SIMULATED {simulated}", style="bold black on yellow")
    if all(run.reference for run in runs):
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    doubts = list[str]()
    notes = list[str]()
    tables = list[Section]()
    for run, model in zip(runs, models, strict=True):
        who = f"{model.name}: " * several
        low = low_coverage(model.stats, run.described["settings"]["min_coverage"])
        doubts += [f"{who}{line}" for line in low]
        notes += [f"{who}{line}" for line in (run.missing, _unrated(run)) if line]
        heading = f"{run.label}, at its threshold" if several else "At the threshold"
        tables.append(at_threshold(threshold_section(run), model.stats, heading))
    if several:
        grid = sections.grid([(one.name, one.stats, one.conditions) for one in models])
        body = [Text(overall(models), style="bold"), terminal(grid)]
        body += map(Text, differences(runs))
    else:
        body = [*_body(models[0], runs[0].created, verbose=verbose)]
    notes += lost_lines(runs[0].results.get("rows"))
    rest: list[RenderableType] = []
    for run in runs if verbose else ():
        rest += [Text(what_was_run(run)), everything(describe_run(run))]
    return Group(
        title,
        *(Text(line, style="bold") for line in doubts),
        *body,
        *(terminal(table) for table in tables if table),
        *(Text(line, style="dim") for line in notes),
        *_end(models, f"fwc-llm report {in_shell((models[0].run or runs[0]).folder)}"),
        *rest,
    )


def _unrated(run: "Run") -> str:
    """A note on a run that asked for probabilities of words, and got none."""
    asked = (run.described.get("parameters") or {}).get("logprobs")
    arms = (arm.arm for arm in run.statistics.arms)
    if (
        not asked
        or run.stated
        or any(run.statistics.of("brier", arm).known for arm in arms)
    ):
        return ""
    return _NO_PROBABILITY


def answer(run: "Run") -> str:
    """The first of a run's `findings`."""
    return findings(run.statistics, run.created, limits(run))[0]


def summary(stats: Statistics) -> RenderableType:
    """The findings, the first table and the next step of an audit without a file."""
    audited = Subject("", stats)
    return Group(*_body(audited), *_end([audited]))


def _body(
    audited: Subject,
    created: str = "",
    table: Section | None = None,
    verbose: bool = False,
    above: Sequence[str] = (),
) -> Iterator[RenderableType]:
    """The findings, and the first table with notes but those `above`."""
    stats = audited.stats
    found = findings(stats, created, audited.conditions)
    yield Text(found[0], style="bold")
    yield from map(Text, found[1:])
    table = table or sections.first(stats, audited.conditions)
    if len(table.rows) > _MOST_ROWS:
        line = f"The first {_MOST_ROWS} rows are shown; the report has more."
        table = replace(table, rows=table.rows[:_MOST_ROWS], notes=[line])
    yield terminal(replace(table, title=""))
    notes = [] if verbose else _notes(stats, above)
    yield from (Text(note, style="dim") for note in notes)


def _end(several: Sequence[Subject], page: str = "") -> Iterator[RenderableType]:
    """The next step with its command, or else that of the `page`."""
    yield from next_lines(*step_of(several), page)
    yield Text(GOOD, style="dim")


def next_lines(step: str, command: str, page: str) -> Iterator[RenderableType]:
    """A step, and on an unbroken line its command, or else that of the `page`."""
    if page and not command:
        step += "; all tables and notes"
        command = page
    yield Text(f"Next: {step}{':' if command else '.'}")
    if command:
        yield Text(f"    {command}", no_wrap=True, overflow="ignore")


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
    above = [*left_out]
    for audited, impact in zip(audits, impacts, strict=True):
        stats = audited.stats
        table = None
        if len(stats.arms) == 1:
            table = selected(impact, stats.records, brief=True)
        parts.append(Text(f"{predictions} {audited.name}", style="bold"))
        parts += _body(audited, created, table, verbose, above)
        above += _notes(stats, above)
    return Group(*parts, *_end(audits, page))


def _notes(stats: Statistics, above: Sequence[str]) -> list[str]:
    """The first notes but those `above`, and the number of the others."""
    of_one = tuple(f"{arm.arm}{end}" for arm in stats.arms for end in ":,")
    told = [note for note in stats.notes if note not in above]
    notes = [note for note in told if not note.startswith(of_one)]
    strata = [note for note in told if note not in notes and " strat" in note]
    more = len(notes) - _MOST_NOTES
    rest = [f"{more} more notes: --verbose shows them."] * (more > 0)
    return [*notes[:_MOST_NOTES], *rest, *strata]


def everything(run: Fields) -> RenderableType:
    """All sections except the first of a document's run, for rich to print."""
    return Group(*map(terminal, sections_of(run)[1:]))
