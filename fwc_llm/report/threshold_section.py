"""Compares answers at a threshold with the model's own answers (docs/protocol.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.run_answers import samples_of
from fwc_llm.report.number_format import DASH, number, percent
from fwc_llm.report.sections import COMPARED
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
_RULES = {
    "fit": "the most accurate",
    "base-rate": "the one at which the share of yes is nearest to the share of labels that are yes",
}


def threshold_section(run: Run) -> dict[str, Any] | None:
    """The effects of the run's threshold, paired by row; None without a threshold."""
    rule = run.results.get("threshold")
    if rule is None or not run.at_threshold:
        return None
    chosen = {arm["arm"]: arm.get("threshold") for arm in run.results["arms"]}
    arms = [_arm(run, arm, chosen[arm]) for arm in run.arms if chosen.get(arm)]
    if arms:
        return {"rule": rule, "words": _words(rule, arms), "arms": arms}
    return None


def _arm(run: Run, arm: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    answers = run.answered.answers[arm]
    both = {"given": answers, "moved": replace(run.at_threshold[arm], examples=answers.examples)}
    samples = samples_of(
        both, run.groups, replace(run.answered.design, min_group=1, sequential=None)
    )
    described: dict[str, Any] = {
        "arm": arm,
        **{k: chosen.get(k) for k in ("per_repeat", "ties", "unknown")},
    }
    if not all(sample.parsed.any() for sample in samples.values()):
        return described
    first, second = (ArmEstimates(samples[name]) for name in both)
    described["coverage"] = second["coverage"].value
    tests = compare(first, second).of_these
    for metric, *_ in COMPARED:
        described[metric] = {
            name: getattr(tests[metric], name) for name in ("difference", "low", "high")
        }
        for side, of_side in (("given", first[metric]), ("at_threshold", second[metric])):
            described[metric][side] = of_side.ends
    return described


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


def at_threshold(section: Mapping[str, Any] | None, title: str = "At the threshold") -> Section:
    """`threshold_section` as a table; empty for a run without a threshold."""
    rows: list[Row] = []
    for arm in section["arms"] if section else ():
        each = arm["per_repeat"]
        cells: list[TableCell | str] = [arm["arm"], _thresholds(each), _pool_rows(each)]
        for metric, digits, scale in COMPARED:
            if metric in arm:
                sides = (
                    valued(arm[metric][side], digits, scale) for side in ("given", "at_threshold")
                )
                cells += [*sides, difference(arm[metric], digits, scale)]
            else:
                cells += [DASH] * 3
        rows.append([*cells, str(arm["ties"]), percent(arm.get("coverage"))])
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
