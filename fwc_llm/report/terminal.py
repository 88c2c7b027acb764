"""The reports of the terminal: the sections that answer the question, in the order in which they are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report import sections
from fwc_llm.report.impact import selected
from fwc_llm.report.narrative import findings, four_fifths, lost_lines, wording_lines
from fwc_llm.report.probability import calibration, notes, probabilities, thresholds
from fwc_llm.report.tables import Section, as_text, terminal

if TYPE_CHECKING:
    from fwc_llm.report.read import Run

__all__ = [
    "as_text",
    "models_table",
    "probability_tables",
    "results_table",
    "selection_table",
    "statistics_lines",
    "statistics_table",
]


def results_table(results: Mapping[str, Any]) -> RenderableType:
    """Return the main table of a run for rich to print; `results` is the content of results.json.

    One line an arm: mean ± standard deviation over repeats and coverage; below it the rate of yes per group.
    An undefined value is a dash, explained below the table.
    """
    title = Text(f"{results['task']} · {results['model']}", style="bold")
    if results["simulated"]:
        what = "ANSWERS" if results.get("simulated_answers", results["simulated"]) else "TABLE"
        title.append(f"  SIMULATED {what}", style="bold black on yellow")
    if results.get("reference"):
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    values, rates = sections.summary(results)
    lines = [f"{arm}: {change}" for arm, change in (results.get("untrue") or {}).items()]
    lines += [*wording_lines(results), *lost_lines(results.get("rows"))]
    return Group(title, terminal(values), terminal(rates), *(Text(line, style="dim") for line in lines))


def models_table(runs: "Sequence[Run]") -> RenderableType:
    """Return the arms of several models that were asked the same questions, for rich to print.

    Values have 95 % intervals. The differences between two models are the comparison's.
    """
    shown = []
    for run in runs:
        mark = " (simulated)" if run.simulated_answers else " (reference)" if run.reference else ""
        shown.append((f"{run.label}{mark}", statistics(run.answered)))
    title = Text(f"{runs[0].task} · {len(runs)} models", style="bold")
    if any(run.simulated for run in runs):
        title.append("  SIMULATED", style="bold black on yellow")
    lines = ["In brackets 95 % intervals.", sections.legend(shown[0][1])]
    if len(runs) > 1:
        folders = " ".join(quote(str(run.folder)) for run in runs[:2])
        lines.append(f"Whether two models differ: fwc-llm compare {folders}")
    return Group(title, terminal(sections.overview(shown, "")), *(Text(line, style="dim") for line in lines))


def statistics_lines(folder: str | Path) -> RenderableType:
    """Return `statistics_table` of a run's folder; raises `FwcError` as `read_run` does."""
    from fwc_llm.report.read import read_run
    from fwc_llm.report.reference_models import references_of

    run = read_run(folder)
    stats = statistics(run.answered, references_of(run))
    asked = (run.described.get("parameters") or {}).get("logprobs")
    unanswered = asked and not any(arm["probabilities"] for arm in stats["arms"])
    missing = [Text(f"\n{sections.NO_PROBABILITY}.")] if unanswered else []
    return Group(statistics_table(stats), *missing)


def statistics_table(
    stats: Mapping[str, Any], rates: bool = False, view: Mapping[str, Any] | None = None
) -> RenderableType:
    """Return sentences and values with intervals for rich to print; `stats` is what `Audit.to_dict` returns.

    With `rates` also each group's rate of yes; `view`, one of the `attributes` of `impact_tables`, adds what
    lies below four fifths. Below stand the counterfactual probe, P(yes), where the
    spread comes from and the reference lines, of answers that have them.
    """
    shown = [sections.results(stats), *([sections.rates(stats)] if rates else [])]
    p = probabilities(stats)
    shown += [sections.attributes(stats)] if rates else []
    shown += [sections.flips(stats), Section(p.title, p.headings, p.rows), sections.spread(stats)]
    shown += [sections.references(stats)]
    sentences = [*(four_fifths(view) if view else ()), *findings(stats)]
    lines = (Text(f"{one['arm']} {one['text']}".strip()) for one in sentences)
    return Group(*lines, *(terminal(section) for section in shown if section))


def probability_tables(stats: Mapping[str, Any]) -> RenderableType:
    """Return calibration per group and what thresholds would answer, for rich; nothing without P(yes)."""
    parts = [terminal(part) for part in (calibration(stats), thresholds(stats)) if part]
    return Group(*parts, *(Text(note, style="dim") for note in notes(stats)))


def selection_table(view: Mapping[str, Any]) -> RenderableType:
    """Return the selection rates and impact ratios of one attribute of `impact_tables`, for rich to print."""
    return terminal(selected(view))
