"""Compares answers at a threshold with the model's own answers (docs/protocol.md)."""

from collections.abc import Sequence

from fwc_llm.metrics.statistics import Statistics
from fwc_llm.metrics.threshold_effects import METRICS
from fwc_llm.number_format import DASH, number
from fwc_llm.report.table_model import Row, Section, TableCell, difference, valued
from fwc_llm.runs.recorded_run import Run
from fwc_llm.runs.results import NEVER
from fwc_llm.sanitize import Fields, Json

_HEADINGS = (
    *(
        "Asked",
        "Threshold",
        "Accuracy %, as given",
        "Accuracy %, at the threshold",
        "Difference",
    ),
    *("DP gap, as given", "DP gap, at the threshold", "Difference"),
)
_RULES = {
    "fit": "the most accurate",
    "base-rate": "the one at which the share of yes is nearest to the share of labels that are yes",
}


def threshold_section(run: Run) -> Json | None:
    """How each arm's thresholds were chosen, under `arms`; None without a threshold."""
    arms = run.thresholds
    if not arms:
        return None
    rule = run.results["threshold"]
    source = "the stated P(yes)" if run.stated else "P(yes)"
    how = "set beforehand"
    if str(rule) in _RULES:
        how = "chosen on pool rows that were asked first and are neither test rows nor examples: "
        how += _RULES[str(rule)]
    words = (
        f"Here the answer is yes if {source} is at least the threshold. All groups share a "
        f"threshold, {how}. All other sections are about the answers as given. Intervals take the "
        "threshold as fixed; those of the differences hold for these examples."
    )
    return {"rule": rule, "words": words, "arms": arms}


def at_threshold(
    section: Fields | None, stats: Statistics, title: str = "At the threshold"
) -> Section:
    """`threshold_section` as a table; empty for a run without a threshold."""
    rows: list[Row] = []
    for line in section["arms"] if section else ():
        arm = line["arm"]
        cells: list[TableCell | str] = [arm, _thresholds(line["per_repeat"])]
        for key in METRICS:
            cells.append(valued(stats.of(key, arm)))
            cells.append(valued(stats.of(f"{key}_at_threshold", arm)))
            cells.append(difference(stats.of(f"{key}_at_threshold_change", arm)))
        rows.append(cells)
    return Section(title, _HEADINGS, rows, intro=section["words"] if section else "")


def _thresholds(per_repeat: Sequence[Fields]) -> str:
    """The threshold, or "lowest to highest" over several repeats."""
    known = [
        repeat["threshold"] for repeat in per_repeat if repeat["threshold"] is not None
    ]
    if not known:
        return DASH
    ends = [
        "never yes" if value >= NEVER else number(value, 3)
        for value in (min(known), max(known))
    ]
    return " to ".join(dict.fromkeys(ends))
