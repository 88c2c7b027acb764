"""The candidates of a tuning as lines of a table: what each one is, what it reached, where it dropped out."""

from collections.abc import Mapping, Sequence
from typing import Any

from fwc_llm.evaluation.tuning.goal import Goal, Measured
from fwc_llm.evaluation.tuning.race import BALANCED, ZERO, Standing, front

_WIDTH = 1.959964  # of a 95 % interval, in standard errors


def describe_front(
    candidates: Sequence[Mapping[str, Any]],
    standing: Mapping[str, Standing],
    measured: Mapping[str, Measured],
    finalists: Mapping[str, Measured],
    goal: Goal,
    winner: str | None,
) -> list[dict[str, Any]]:
    """One object per candidate and arm: those asked about all rows first, nearest to the target first.

    `metric` and `accuracy` come with 95 % intervals by their standard errors. They are of the rows on which
    the winner was chosen, so the winner's are too good; the test is honest.
    """
    best = front(finalists, goal)
    described = {str(one["candidate"]): dict(one) for one in candidates}
    lines = []
    for name, one in measured.items():
        about = described.get(name, {"candidate": name, "kind": name, "strategy": name})
        lines.append(
            {
                **about,
                "rows": len(standing[name].hard),
                "dropped": standing[name].dropped_after is not None,
                "accuracy": one.accuracy,
                "accuracy_interval": _interval(one.accuracy, one.accuracy_error),
                "metric": one.metric,
                "metric_interval": _interval(one.metric, one.metric_error),
                "front": name in best,
                "chosen": name == winner,
            }
        )
    fixed = {ZERO, BALANCED}
    return sorted(
        lines,
        key=lambda line: (
            line["dropped"], line["candidate"] in fixed, -line["rows"], goal.shortfall(line["metric"]),
        ),
    )  # fmt: skip


def _interval(value: float, error: float) -> list[float]:
    return [max(0.0, value - _WIDTH * error), min(1.0, value + _WIDTH * error)]
