"""What each part of FWC does to the answers: the steps of an ablation as a table."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fwc_llm.metrics.comparisons import adjust
from fwc_llm.report.numbers import DASH, interval, p_value, signed
from fwc_llm.runs.ablation import STEPS

HEADINGS = ("Part", "What changes", "DP gap", "Accuracy, points")
_METRICS = (("demographic_parity_difference", 3, 1.0), ("accuracy", 1, 100.0))


def ablation_steps(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The comparisons of the steps that `found`, the statistics of a run, has; none of another run.

    Holm's correction runs over the steps alone: they were named before anything was asked.
    """
    tests = {(test["first"], test["second"]): test for test in found["comparisons"]}
    steps = [
        deepcopy(tests[step.first, step.second]) | {"part": step.part, "words": step.words}
        for step in STEPS
        if (step.first, step.second) in tests
    ]
    adjust(steps)
    return steps


def ablation_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """One row a step: the part, what changes, and what that does to DP gap and accuracy."""
    return [
        [
            step["part"],
            step["words"],
            *(_told(step[metric], digits, scale) for metric, digits, scale in _METRICS),
        ]
        for step in ablation_steps(found)
    ]


def ablation_notes(found: Mapping[str, Any]) -> list[str]:
    """How to read the rows."""
    steps = ablation_steps(found)
    reasons = dict.fromkeys(step["reason"] for step in steps if step["reason"])
    return [
        "Differences of the second arm from the first, with 95 % intervals, on the same rows; they speak of "
        "other draws of the examples, too. ≠ significant, ≈ not significant (5 %, Holm's correction over "
        "these steps). The steps from slots to order add up to all of FWC.",
        *reasons,
    ]


def ablation_table(folder: str | Path) -> RenderableType:
    """The steps of a run's folder, for rich to print; raises `FwcError` as `read_run` does."""
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.read import read_run

    found = statistics(read_run(folder).answered)
    table = Table(*HEADINGS, title="What each part of FWC does", title_justify="left", title_style="bold")
    for row in ablation_rows(found):
        table.add_row(*map(Text, row))
    return Group(table, *(Text(note, style="dim") for note in ablation_notes(found)))


def _told(test: Mapping[str, Any], digits: int, scale: float) -> str:
    if test["difference"] is None:
        return DASH
    shown = signed(test["difference"], digits, scale)
    if test["p_adjusted"] is None:
        return shown
    mark = "≠" if test["distinguishable"] else "≈"
    limits = interval((test["low"], test["high"]), digits, scale)
    return f"{mark} {shown} ({limits}; p {p_value(test['p_adjusted'])})"
