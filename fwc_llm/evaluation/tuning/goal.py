"""What tuning aims at, and how far one set of answers is from it (docs/tune.md)."""

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

Floats = npt.NDArray[np.float64]
Value = TypeVar("Value", float, Floats)
METRICS = {"dp": "DP gap", "eo": "EO gap", "dp_ratio": "DP ratio"}


@dataclass(frozen=True)
class Goal:
    """A fairness metric, its target, and the loss of accuracy (a share) that reaching it may cost."""

    metric: str = "dp"
    target: float = 0.1
    max_loss: float = 0.03

    @property
    def words(self) -> str:
        """The goal in words."""
        side = "at least" if self.metric == "dp_ratio" else "at most"
        return f"{METRICS[self.metric]} {side} {self.target:g}, at most {100 * self.max_loss:g} points lost"

    def shortfall(self, value: Value) -> Value:
        """How far a value of the metric, or each of many, is from the target; 0 or less: reached."""
        return self.target - value if self.metric == "dp_ratio" else value - self.target


def read_goal(target_dp: float | None, target: str | None, max_loss: float) -> Goal:
    """The goal that a caller names: a DP gap, or another metric by name ("eo=0.1", "dp_ratio=0.8").

    Errors: `FwcError` for none or two targets, an unknown metric, a target outside [0, 1) (a ratio: outside
    (0, 1]), and a loss that is negative or above 100 points.
    """
    if (target_dp is None) == (target is None):
        raise FwcError("name one target: --target-dp 0.1, or --target with eo=0.1 or dp_ratio=0.8")
    name, value = "dp", target_dp
    if target is not None:
        name, _, text = target.partition("=")
        name = name.strip()
        if name not in METRICS:
            raise FwcError(f"the target {target!r} names no metric: choose one of {', '.join(METRICS)}")
        try:
            value = float(text)
        except ValueError:
            raise FwcError(f"the target {target!r} has no number: write {name}=0.1") from None
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    ratio = name == "dp_ratio"
    if not known or not (0.0 < value <= 1.0 if ratio else 0.0 <= value < 1.0):  # type: ignore[operator]
        raise FwcError(f"the target {name}={value} is outside {'(0, 1]' if ratio else '[0, 1)'}")
    if not isinstance(max_loss, (int, float)) or not 0.0 <= max_loss <= 100.0:
        raise FwcError(f"max-loss is {max_loss}: give points of accuracy from 0 to 100, such as 3")
    return Goal(name, float(value), max_loss / 100.0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Measured:
    """Accuracy and metric of n answers, with the influence (n,) of each row on either.

    The influence of a row is what it adds to the value's first-order error, so that the standard error of a
    difference between two candidates asked about the same rows is the root of the summed squared difference
    of their influences.
    """

    accuracy: float
    metric: float
    on_accuracy: Floats
    on_metric: Floats

    @property
    def accuracy_error(self) -> float:
        """The standard error of the accuracy."""
        return float(np.sqrt(np.sum(self.on_accuracy**2)))

    @property
    def metric_error(self) -> float:
        """The standard error of the metric."""
        return float(np.sqrt(np.sum(self.on_metric**2)))


class Ranking(NamedTuple):
    """Candidates (…, c) by place, in the order of choice, and which reach the target within the loss."""

    order: npt.NDArray[np.int64]
    reached: npt.NDArray[np.bool_]


def measure(goal: Goal, yes: Floats, labels: npt.NDArray[np.int8], groups: npt.NDArray[np.str_]) -> Measured:
    """Accuracy and the goal's metric of answers `yes` (n,): 1, 0, a probability, or NaN.

    An answer that is neither yes nor no counts as wrong and as no yes, so that no candidate gains by
    answers that cannot be read.
    """
    said, right = _read(yes, labels)
    accuracy = float(right.mean())
    found = [_gap(goal.metric, said, groups, part) for part in _parts(goal, labels)]
    value, influence = max(found, key=lambda one: one[0])
    return Measured(accuracy, value, (right - accuracy) / len(yes), influence)


def measure_many(
    goal: Goal, yes: Floats, labels: npt.NDArray[np.int8], groups: npt.NDArray[np.str_], counts: Floats
) -> tuple[Floats, Floats]:
    """Accuracy and metric (b, c) of c candidates' answers `yes` (c, n), rows counted `counts` (b, n) times.

    Answers count as in `measure`.
    """
    said, right = _read(yes, labels)
    accuracy = counts @ right.T / counts.sum(1, keepdims=True)
    found = []
    for part in _parts(goal, labels):
        own = [part & (groups == group) for group in np.unique(groups[part])]
        rates = np.array(
            [counts[:, rows] @ said[:, rows].T / counts[:, rows].sum(1)[:, None] for rows in own]
        )
        low, high = rates.min(0), rates.max(0)
        ratio = np.divide(low, high, out=np.ones_like(low), where=high > 0.0)
        found.append(ratio if goal.metric == "dp_ratio" else high - low)
    return accuracy, np.max(found, axis=0)


def rank(goal: Goal, metric: Floats, accuracy: Floats, nearest: Floats, allowed: Floats) -> Ranking:
    """The order in which candidates (…, c) are chosen.

    Those that reach the target within the loss come first, by accuracy; then those within the loss, by how
    near they are; then the rest, by accuracy. `metric` (…, c) says who reaches the target, `nearest` (…, c)
    who is nearest to it, `allowed` (…, 1) is the lowest accuracy within the loss.
    """
    within = accuracy >= allowed
    short, near = goal.shortfall(metric), goal.shortfall(nearest)
    reached = within & (short <= 0.0)
    first = np.where(within & ~reached, near, -accuracy)
    second = np.where(reached, short, -accuracy)
    kind = np.where(reached, 0, np.where(within, 1, 2))
    return Ranking(np.lexsort((second, first, kind), axis=-1), reached)


def _read(yes: Floats, labels: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Answers (…, n) as yes, and as right; what is neither yes nor no is none of both."""
    said = np.where(np.isnan(yes), 0.0, yes)
    return said, np.where(np.isnan(yes), 0.0, np.where(labels == 1, said, 1.0 - said))


def _parts(goal: Goal, labels: npt.NDArray[np.int8]) -> list[npt.NDArray[np.bool_]]:
    """The rows (n,) within which the groups are compared: all, or for equalized odds those of each label."""
    every = np.ones(len(labels), dtype=bool)
    parts = [labels == 1, labels == 0] if goal.metric == "eo" else [every]
    return [part for part in parts if part.any()]


def _gap(
    metric: str, yes: Floats, groups: npt.NDArray[np.str_], part: npt.NDArray[np.bool_]
) -> tuple[float, Floats]:
    """The largest difference (or ratio) of the groups' rates of yes in a part of the rows; its influence."""
    rates: dict[str, float] = {}
    shares: dict[str, Floats] = {}
    for group in np.unique(groups):
        own = part & (groups == group)
        if own.any():
            rates[group] = float(yes[own].mean())
            shares[group] = np.where(own, (yes - rates[group]) / own.sum(), 0.0)
    low, high = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    if metric != "dp_ratio":
        return rates[high] - rates[low], shares[high] - shares[low]
    if rates[high] == 0.0:
        return 1.0, np.zeros(len(yes))
    ratio = rates[low] / rates[high]
    return ratio, (shares[low] - ratio * shares[high]) / rates[high]
