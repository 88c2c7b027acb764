"""The reports of the terminal: the sections that answer the question, in the order in which they are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report import sections
from fwc_llm.report.ablation_steps import ablation
from fwc_llm.report.narrative import (
    all_alike,
    findings,
    four_fifths,
    lost_lines,
    low_coverage,
    what_was_run,
    wording_lines,
)
from fwc_llm.report.probability_sections import calibration, notes, probabilities, thresholds
from fwc_llm.report.table_model import Section, terminal
from fwc_llm.report.threshold_section import at_threshold, threshold_section
from fwc_llm.runs.ablation_arms import ARMS

if TYPE_CHECKING:
    from fwc_llm.runs.recorded_run import Run

_NO_PROBABILITY = (
    "--logprobs: no reply came with the probabilities of its words, so that there is no P(yes) to judge."
)


def run_table(folder: str | Path) -> RenderableType:
    """Return a run's results for rich to print: sentences, values and rates with intervals, and what to know.

    Raises `FwcError` as `read_run` does.
    """
    from fwc_llm.report.reference_models import references_of
    from fwc_llm.runs.recorded_run import read_run

    run = read_run(folder)
    title = Text(f"{run.task} · {run.results['model']}", style="bold")
    if run.simulated:
        what = "ANSWERS" if run.simulated_answers else "TABLE"
        title.append(f"  SIMULATED {what}", style="bold black on yellow")
    if run.reference:
        title.append("  REFERENCE, NO LANGUAGE MODEL", style="bold black on cyan")
    stats = statistics(run.answered, references_of(run))
    asked = (run.described.get("parameters") or {}).get("logprobs")
    lines = [what_was_run(run, stats), *wording_lines(run.results), *lost_lines(run.results.get("rows"))]
    if asked and not any(arm["probabilities"] for arm in stats["arms"]):
        lines.append(_NO_PROBABILITY)
    further = [at_threshold(threshold_section(run)), *([ablation(stats)] if run.arms == ARMS else [])]
    tables = [statistics_table(stats), *(terminal(section) for section in further if section)]
    low = low_coverage(run.results["arms"], run.described["settings"]["min_coverage"])
    warnings = (Text(line["text"], style="bold") for line in low)
    return Group(title, *warnings, *tables, *(Text(line, style="dim") for line in lines))


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
    lines = [f"{label}: {said['arm']} {said['text']}" for label, stats in shown for said in all_alike(stats)]
    lines += ["In brackets 95 % intervals.", sections.legend(shown[0][1])]
    if len(runs) > 1:
        folders = " ".join(quote(str(run.folder)) for run in runs[:2])
        lines.append(f"Whether two models differ: fwc-llm compare {folders}")
    tables = [sections.overview(shown, "")]
    tables += [at_threshold(threshold_section(run), f"{run.label}, at its threshold") for run in runs]
    parts = (terminal(table) for table in tables if table)
    return Group(title, *parts, *(Text(line, style="dim") for line in lines))


def statistics_table(stats: Mapping[str, Any], view: Mapping[str, Any] | None = None) -> RenderableType:
    """Return sentences and values with intervals for rich to print; `stats` is what `Audit.to_dict` returns.

    `view`, one of the `attributes` of `impact_tables`, adds what lies below four fifths, and the further
    gaps. Below stand the counterfactual probe, P(yes), agreement with itself and the reference lines,
    of answers that have them.
    """
    shown = [sections.results(stats), sections.rates(stats), sections.attributes(stats)]
    shown += [sections.coverage(stats)] * any(arm["coverage"] < 1 for arm in stats["arms"])
    p, more = probabilities(stats), sections.further(stats)
    shown += [Section(more.title, more.headings, more.rows)] if view else []
    shown += [sections.flips(stats), *sections.probes(stats), Section(p.title, p.headings, p.rows)]
    shown += [sections.repetition(stats), sections.references(stats)]
    sentences = [*(four_fifths(view) if view else ()), *findings(stats)]
    lines = (Text(f"{finding['arm']} {finding['text']}".strip()) for finding in sentences)
    return Group(*lines, *(terminal(section) for section in shown if section))


def probability_tables(stats: Mapping[str, Any]) -> RenderableType:
    """Return calibration per group and what thresholds would answer, for rich; nothing without P(yes)."""
    parts = [terminal(part) for part in (calibration(stats), thresholds(stats)) if part]
    return Group(*parts, *(Text(note, style="dim") for note in notes(stats)))
