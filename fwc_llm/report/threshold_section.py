"""Compares answers at a threshold with the model's own answers (docs/protocol.md)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import samples_of
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.metrics.variance import THESE_EXAMPLES
from fwc_llm.report.number_format import DASH, number, percent
from fwc_llm.report.table_model import Row, Section, TableCell, difference, valued
from fwc_llm.runs.recorded_run import Run
from fwc_llm.runs.threshold_selection import NEVER

_HEADINGS = (
    *(
        "Arm",
        "Threshold",
        "Pool rows",
        "Accuracy %, as given",
        "Accuracy %, at the threshold",
        "Difference",
    ),
    *("DP gap, as given", "DP gap, at the threshold", "Difference", "Ties", "Coverage"),
)
_METRICS = "accuracy", "dp_gap"
_RULES = {
    "fit": "the most accurate",
    "base-rate": "the one at which the share of yes is nearest to the share of labels that are yes",
}


def threshold_section(run: Run) -> dict[str, Any] | None:
    """The effects of the run's threshold, paired by row; None without a threshold.

    Keys: `rule`, `words`, `arms` (how each arm's thresholds were chosen), and `records`.
    """
    rule = run.results.get("threshold")
    if rule is None or not run.at_threshold:
        return None
    arms = [line for line in run.thresholds if line["arm"] in run.at_threshold]
    if not arms:
        return None
    records = [record for line in arms for record in _records(run, line["arm"], line["ties"])]
    return {"rule": rule, "words": _words(rule, arms), "arms": arms, "records": records}


def _records(run: Run, arm: str, ties: int) -> Iterator[Record]:
    answers = run.answered.answers[arm]
    both = {"given": answers, "moved": replace(run.at_threshold[arm], examples=answers.examples)}
    design = replace(run.answered.design, min_group=1, sequential=None)
    samples = samples_of(both, run.groups, design)
    of: Any = {"arm": arm, "scope": THESE_EXAMPLES}
    yield Record(metric="ties_at_threshold", value=ties, **of)
    if not all(sample.parsed.any() for sample in samples.values()):
        return
    first, second = (ArmEstimates(samples[name]) for name in both)
    yield Record(metric="coverage_at_threshold", value=second["coverage"].value, **of)
    tests = compare(first, second).of_these
    for key in _METRICS:
        attribute = run.answered.attribute if BY_KEY[key].kind == "gap" else ""
        cells: Any = {**of, "attribute": attribute}
        for name, found in (("", second[key]), ("_change", tests[key])):
            ends: Any = {"value": found.value, "low": found.low, "high": found.high}
            if not math.isnan(found.value):
                yield Record(metric=f"{key}_at_threshold{name}", **ends, **cells)


def _words(rule: float | str, arms: Sequence[Mapping[str, Any]]) -> str:
    how = "set beforehand"
    if str(rule) in _RULES:
        how = "chosen on pool rows that were asked first and are neither test rows nor examples: "
        how += _RULES[str(rule)] + (_shares(arms) if rule == "base-rate" else "")
    return (
        f"Here the answer is yes if P(yes) is at least the threshold. All groups share a "
        f"threshold, {how}. "
        "All other sections are about the answers as given. Intervals take the threshold as fixed, "
        "and hold "
        "for these examples. Ties are test rows with P(yes) exactly at the threshold."
    )


def _shares(arms: Sequence[Mapping[str, Any]]) -> str:
    """Share of yes and base rate of every arm; ties can make them differ."""
    shares = []
    for arm in arms:
        known = [
            repeat for repeat in arm["per_repeat"] or () if repeat.get("share_of_yes") is not None
        ]
        if known:
            yes, label = (
                fmean(repeat[name] for repeat in known) for name in ("share_of_yes", "base_rate")
            )
            shares.append(f"{arm['arm']} {percent(yes)} against {percent(label)}")
    if shares:
        return f" ({'; '.join(shares)})"
    return ""


def at_threshold(
    section: Mapping[str, Any] | None, stats: Statistics, title: str = "At the threshold"
) -> Section:
    """`threshold_section` as a table; empty for a run without a threshold."""
    rows: list[Row] = []
    for line in section["arms"] if section else ():
        arm = line["arm"]
        cells: list[TableCell | str] = [
            arm,
            _thresholds(line["per_repeat"]),
            _pool_rows(line["per_repeat"]),
        ]
        for key in _METRICS:
            how = BY_KEY[key].digits, BY_KEY[key].scale
            cells.append(valued(stats.of(key, arm), *how))
            cells.append(valued(stats.of(f"{key}_at_threshold", arm), *how))
            cells.append(difference(stats.of(f"{key}_at_threshold_change", arm), *how))
        coverage = stats.of("coverage_at_threshold", arm).value
        rows.append([*cells, str(line["ties"]), percent(coverage)])
    return Section(title, _HEADINGS, rows, intro=section["words"] if section else "")


def _thresholds(per_repeat: Sequence[Mapping[str, Any]]) -> str:
    """The threshold, or "lowest to highest" over several repeats."""
    known = sorted(
        {repeat["threshold"] for repeat in per_repeat if repeat["threshold"] is not None}
    )
    if not known:
        return DASH
    shown = ["never yes" if value >= NEVER else number(value, 3) for value in (known[0], known[-1])]
    if shown[0] == shown[1]:
        return shown[0]
    return " to ".join(shown)


def _pool_rows(per_repeat: Sequence[Mapping[str, Any]]) -> str:
    """The total number of validation rows, and of those without P(yes)."""
    rows = sum(repeat.get("rows") or 0 for repeat in per_repeat)
    unknown = rows - sum(repeat.get("known") or 0 for repeat in per_repeat)
    if rows:
        return f"{rows:,}" + (f", {unknown:,} without P(yes)" if unknown else "")
    return DASH
