"""Terminal output: findings, one table and notes; with --verbose all sections."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report import sections
from fwc_llm.report.document import describe_run, sections_of
from fwc_llm.report.impact import selected
from fwc_llm.report.narrative import (
    all_alike,
    findings,
    keeping,
    lost_lines,
    low_coverage,
    missed,
    next_step,
    smallest_found,
    what_was_run,
)
from fwc_llm.report.reference_models import references_of
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.report.threshold_section import at_threshold, threshold_section
from fwc_llm.runs.recorded_run import read_run

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

MORE = "All tables and notes: --verbose."
_MOST_NOTES = 4
_MOST_GROUPS = 10
_NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to "
    "judge."
)


def run_table(folder: str | Path, verbose: bool = False) -> RenderableType:
    """A run's findings and first table, for rich to print; errors as in `read_run`."""
    run = read_run(folder)
    title = Text(f"{run.task} · {run.results['model']}", style="bold")
    if run.simulated:
        what = "ANSWERS" if run.simulated_answers else "TABLE"
        title.append(f"  SIMULATED {what}", style="bold black on yellow")
    if run.reference:
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    stats = statistics(run.answered, references_of(run))
    low = low_coverage(run.results["arms"], run.described["settings"]["min_coverage"])
    lines = [run.missing, *lost_lines(run.results.get("rows"))]
    asked = (run.described.get("parameters") or {}).get("logprobs")
    if asked and not any(arm["probabilities"] for arm in stats["arms"]):
        lines.append(_NO_PROBABILITY)
    thresholds = at_threshold(threshold_section(run))
    rest: list[RenderableType] = [Text(MORE, style="dim")]
    if verbose:
        rest = [Text(what_was_run(run, stats)), everything(describe_run(run))]
    return Group(
        title,
        *(Text(line["text"], style="bold") for line in low),
        summary(stats, run.created, verbose, keeping(run), run),
        *([terminal(thresholds)] if thresholds and not verbose else []),
        *(Text(line, style="dim") for line in lines if line),
        *rest,
    )


def answer(folder: str | Path) -> str:
    """The first of a run's `findings`."""
    run = read_run(folder)
    return ": ".join(
        filter(None, findings(statistics(run.answered), run.created, keeping(run))[0].values())
    )


def summary(
    stats: Mapping[str, Any],
    created: str = "",
    verbose: bool = False,
    kept: Collection[str] | None = None,
    run: "Run | None" = None,
) -> RenderableType:
    """The findings and the first table; `kept` and `run` are as in `next_step`."""
    return Group(
        *_sentences(stats, created, kept),
        Text(" ".join([*missed(stats), next_step(stats, kept, run)])),
        terminal(replace(sections.first(stats), title="")),
        *(Text(note, style="dim") for note in _notes(stats) if not verbose),
    )


def audit_summary(
    audits: Mapping[str, Mapping[str, Any]],
    views: Sequence[Mapping[str, Any]],
    predictions: str,
    created: str,
    verbose: bool,
    kept: Mapping[str, Collection[str] | None] = {},
) -> RenderableType:
    """The findings and first tables of audits by attribute; `views` as in `impact_tables`."""
    shown = list[RenderableType]()
    found = list[str]()
    notes = dict[str, None]()
    for (name, stats), view in zip(audits.items(), views, strict=True):
        of_groups = len(view["arms"]) == 1
        if of_groups:
            table = selected(view, most=_MOST_GROUPS)
        else:
            table = sections.first(stats)
        shown += [
            Text(f"{predictions} by {name}", style="bold"),
            *_sentences(stats, created, kept.get(name)),
        ]
        shown.append(terminal(replace(table, title="")))
        notes |= dict.fromkeys(_notes(stats))
        size = smallest_found([arm["dp_gap"] for arm in stats["arms"]])
        if size:
            found.append(f"{size} points by {name}")
    if found:
        last = [f"What these rows could have missed: gaps under {', '.join(found)}."]
    else:
        last = []
    keys = ("arms", "comparisons")
    together = {key: [one for stats in audits.values() for one in stats[key]] for key in keys}
    limits = [set(arms) for arms in kept.values() if arms is not None]
    last.append(next_step(together, set.intersection(*limits) if limits else None))
    shown.append(Text(" ".join(last)))
    for note in () if verbose else notes:
        names = [name for name, stats in audits.items() if note in stats["notes"]]
        about = f"By {', '.join(names)}: " * (len(names) < len(audits))
        shown.append(Text(f"{about}{note}", style="dim"))
    return Group(*shown)


def _sentences(
    stats: Mapping[str, Any], created: str, kept: Collection[str] | None = None
) -> Iterator[RenderableType]:
    return (Text(": ".join(filter(None, said.values()))) for said in findings(stats, created, kept))


def _notes(stats: Mapping[str, Any]) -> list[str]:
    of_one = tuple(f"{arm['arm']}{end}" for arm in stats["arms"] for end in ":,")
    notes = [note for note in stats["notes"] if not note.startswith(of_one)][:_MOST_NOTES]
    if any(arm["conditional_parity"] for arm in stats["arms"]):  # was asked for
        notes += [note for note in stats["notes"] if note.startswith(of_one) and " strat" in note]
    return notes


def everything(run: Mapping[str, Any]) -> RenderableType:
    """All sections except the first of a document's run, for rich to print."""
    return Group(*map(terminal, sections_of(run)[1:]))


def models_table(runs: "Sequence[Run]", verbose: bool = False) -> RenderableType:
    """The arms of several models with the same questions, for rich to print."""
    shown = []
    for run in runs:
        mark = " (simulated)" if run.simulated_answers else " (reference)" if run.reference else ""
        shown.append((f"{run.label}{mark}", statistics(run.answered)))
    title = Text(f"{runs[0].task} · {len(runs)} models", style="bold")
    if any(run.simulated for run in runs):
        title.append("  SIMULATED", style="bold black on yellow")
    tables: list[Section] = [sections.overview(shown, "")]
    tables += [
        at_threshold(threshold_section(run), f"{run.label}, at its threshold") for run in runs
    ]
    parts = (terminal(table) for table in tables if table)
    lines = (Text(line, style="dim") for line in _about_models(runs, shown))
    return Group(title, *parts, *lines, *(everything(describe_run(run)) for run in runs if verbose))


def _about_models(
    runs: "Sequence[Run]", shown: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[str]:
    for label, stats in shown:
        yield from (f"{label}: {said['arm']} {said['text']}" for said in all_alike(stats))
    yield sections.legend(shown[0][1]["margin"])
    if len(runs) > 1:
        folders = " ".join(quote(str(run.folder)) for run in runs[:2])
        yield f"Whether two models differ: fwc-llm compare {folders}"
