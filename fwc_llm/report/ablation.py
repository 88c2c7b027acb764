"""The steps of an ablation as a table: each part of FWC, and its effect on the answers."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from fwc_llm.metrics.arm_comparison import adjust
from fwc_llm.report.format import DASH, interval, p_value, signed
from fwc_llm.report.sections import MARKS
from fwc_llm.report.tables import Section, terminal
from fwc_llm.runs.ablation import STEPS

HEADINGS = ("Part", "What changes", "DP gap", "Accuracy, points")
_METRICS = (("demographic_parity_difference", 3, 1.0), ("accuracy", 1, 100.0))


def ablation_steps(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the comparisons of the steps that `stats`, the statistics of a run, has; none of another run.

    Verdicts are made over the steps alone: they were named before anything was asked.
    """
    tests = {(test["first"], test["second"]): test for test in stats["comparisons"]}
    steps = [
        deepcopy(tests[step.first, step.second]) | {"part": step.part, "words": step.words}
        for step in STEPS
        if (step.first, step.second) in tests
    ]
    adjust(steps)
    return steps


def ablation_rows(stats: Mapping[str, Any]) -> list[list[str]]:
    """Return one row a step: the part, what changes, and its effect on DP gap and accuracy."""
    return [
        [
            step["part"],
            step["words"],
            *(_told(step[metric], digits, scale) for metric, digits, scale in _METRICS),
        ]
        for step in ablation_steps(stats)
    ]


def ablation_notes(stats: Mapping[str, Any]) -> list[str]:
    """Return notes on reading the rows."""
    steps = ablation_steps(stats)
    reasons = dict.fromkeys(step["reason"] for step in steps if step["reason"])
    return [
        "Differences of the second arm from the first, with 95 % intervals, on the same rows; they speak of "
        "other draws of the examples, too. ≠ differs, ≈ no difference shown, ? cannot be told, all steps "
        "together. The steps from slots to order add up to all of FWC.",
        *reasons,
    ]


def ablation_table(folder: str | Path) -> RenderableType:
    """Return the steps of a run's folder, for rich to print; raises `FwcError` as `read_run` does."""
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.read import read_run

    stats = statistics(read_run(folder).answered)
    rows, notes = ablation_rows(stats), ablation_notes(stats)
    return terminal(Section("What each part of FWC does", HEADINGS, rows, notes, keys=2))


def _told(test: Mapping[str, Any], digits: int, scale: float) -> str:
    if test["difference"] is None:
        return DASH
    shown = signed(test["difference"], digits, scale)
    if test["p_adjusted"] is None:
        return shown
    limits = interval((test["low"], test["high"]), digits, scale)
    return f"{MARKS[test['verdict']]} {shown} ({limits}; p {p_value(test['p_adjusted'])})"
