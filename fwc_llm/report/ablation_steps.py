"""The steps of an ablation: each part of FWC, and its effect on gap and accuracy."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from fwc_llm.metrics.arm_comparison import adjust
from fwc_llm.metrics.counts import plain
from fwc_llm.report.number_format import DASH, interval, p_value, signed
from fwc_llm.report.sections import COMPARED, MARKS
from fwc_llm.report.table_model import Section
from fwc_llm.runs.ablation_arms import STEPS


def ablation_steps(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of the ablation's steps in `stats`; [] for other runs."""
    tests = {(test["first"], test["second"]): test for test in stats["comparisons"]}
    steps = [
        deepcopy(tests[step.first, step.second]) | {"part": step.part, "words": step.words}
        for step in STEPS
        if (step.first, step.second) in tests
    ]
    for step in steps:
        for metric, *_ in COMPARED:
            for key, value in step[metric].items():
                step[metric][key] = np.nan if value is None and key != "worst_case" else value
    adjust(steps)  # for these comparisons only, because the steps were fixed in advance
    made: list[dict[str, Any]] = plain(steps)
    return made


def ablation(stats: Mapping[str, Any]) -> Section:
    """A table of the steps: part of FWC, change, effect on gap and accuracy."""
    steps = ablation_steps(stats)
    shown = list(reversed(COMPARED))
    rows = [
        [step["part"], step["words"], *(_change(step[m], digits, scale) for m, digits, scale in shown)]
        for step in steps
    ]
    notes = [
        "Each step's difference, on the same rows, with a 95 % interval that also covers other draws of the "
        "examples. ≠ differs, ≈ no difference shown, ≠≈ differs by less than the margin, ? not settled by "
        "these data; verdicts are adjusted for the number of steps. The steps from slots to order add up to "
        "all of FWC.",
        *dict.fromkeys(step["reason"] for step in steps if step["reason"]),
    ]
    headings = ("Part", "What changes", "DP gap", "Accuracy, points")
    return Section("What each part of FWC does", headings, rows, notes, keys=2)


def _change(test: Mapping[str, Any], digits: int, scale: float) -> str:
    if test["difference"] is None:
        return DASH
    shown = signed(test["difference"], digits, scale)
    if test["p_adjusted"] is None:
        return shown
    limits = interval((test["low"], test["high"]), digits, scale)
    return f"{MARKS[test['verdict']]} {shown} ({limits}; p {p_value(test['p_adjusted'])})"
