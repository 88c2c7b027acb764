"""Answers counted as they come: of a million rows some hundred numbers."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fwc_llm.metrics.cells import METRICS

if TYPE_CHECKING:
    from fwc_llm.metrics import GroupMetrics

_VALUES = {"yes": 1.0, "no": 0.0, "": math.nan}

_Kind = tuple[int, str, str, str, str]  # repeat, group, label, answer, reason


class Tally:
    """How many answers to rows as they are each arm has of every kind."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[_Kind]] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count one row, a line of answers.csv or what has its `arm` to `reason`."""
        counts = self._counts.setdefault(row["arm"], Counter())
        if not row["variant"]:
            counts[int(row["repeat"]), row["group"], row["label"], row["answer"], row["reason"]] += 1

    def metrics(self, arm: str) -> dict[str, Any]:
        """The arm's metrics: the mean over repeats, the standard deviation, and each repeat."""
        counts = self._counts.get(arm, Counter())
        by_repeat: dict[int, Counter[_Kind]] = {}
        for kind, n in counts.items():
            by_repeat.setdefault(kind[0], Counter())[kind] = n
        measured = [_metrics(by_repeat[repeat]) for repeat in sorted(by_repeat)]
        found: dict[str, Any] = {"arm": arm, "n": sum(metrics.n for metrics in measured)}
        for metric in ("coverage", *METRICS):
            values = [getattr(metrics, metric) for metrics in measured]
            found[metric] = _null(fmean(values))
            found[f"{metric}_sd"] = _null(_spread(values))
            found.setdefault("per_repeat", [{} for _ in values])
            for each, value in zip(found["per_repeat"], values, strict=True):
                each[metric] = _null(value)
        groups = dict.fromkeys(
            group for metrics in measured for group in metrics.rates
        )  # a repeat may lack one
        found["rates"] = {
            group: _null(fmean(metrics.rates.get(group, math.nan) for metrics in measured))
            for group in groups
        }
        found["sizes"] = {group: sum(metrics.sizes.get(group, 0) for metrics in measured) for group in groups}
        found["coverage_by_group"] = {
            group: _null(fmean(metrics.coverage_by_group.get(group, math.nan) for metrics in measured))
            for group in groups
        }
        unparsed: Counter[str] = Counter()
        for (*_, reason), n in counts.items():
            if reason:
                unparsed[reason] += n
        found["unparsed"] = dict(unparsed)
        found["undefined"] = {metric: why for metrics in measured for metric, why in metrics.reasons.items()}
        return found


def arm_metrics(name: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of an arm whose answers these rows are; see `Tally`."""
    tally = Tally()
    for row in rows:
        tally.add({**row, "arm": name})
    return tally.metrics(name)


def _metrics(counts: "Counter[_Kind]") -> "GroupMetrics":
    import numpy as np

    from fwc_llm.metrics import group_metrics
    from fwc_llm.metrics.answers import names_of

    many = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    kinds = list(counts)
    groups = list(dict.fromkeys(group for _, group, *_ in kinds))
    place = {group: number for number, group in enumerate(groups)}
    return group_metrics(
        np.repeat([_VALUES[answer] for *_, answer, _ in kinds], many),
        np.repeat(np.array([label == "yes" for _, _, label, *_ in kinds], dtype=np.int8), many),
        names_of(np.repeat([place[group] for _, group, *_ in kinds], many), groups),
    )


def _spread(values: list[float]) -> float:
    """The standard deviation; NaN for a single value, and where one is undefined (as the mean then is)."""
    if len(values) < 2 or any(map(math.isnan, values)):
        return math.nan
    return stdev(values)


def _null(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else float(value)
