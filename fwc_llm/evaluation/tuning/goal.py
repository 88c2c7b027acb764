"""What tuning aims at, and how far one set of answers is from it (docs/tune.md)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

Floats = npt.NDArray[np.float64]
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

    def shortfall(self, value: float) -> float:
        """How far a value of the metric is from the target; 0 or less where it is reached."""
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


def measure(goal: Goal, yes: Floats, labels: npt.NDArray[np.int8], groups: npt.NDArray[np.str_]) -> Measured:
    """Accuracy and the goal's metric of answers `yes` (n,): 1, 0, a probability, or NaN.

    An answer that is neither yes nor no counts as wrong and as no yes, so that no candidate gains by
    answers that cannot be read.
    """
    said = np.where(np.isnan(yes), 0.0, yes)
    right = np.where(np.isnan(yes), 0.0, np.where(labels == 1, said, 1.0 - said))
    accuracy = float(right.mean())
    parts = [np.ones(len(yes), dtype=bool)] if goal.metric != "eo" else [labels == 1, labels == 0]
    found = [_gap(goal.metric, said, groups, part) for part in parts]
    value, influence = max(found, key=lambda one: one[0])
    return Measured(accuracy, value, (right - accuracy) / len(yes), influence)


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


@dataclass(frozen=True)
class Score:
    """How bad a candidate is: its shortfall, and heavily what it loses beyond the limit; lower is better."""

    value: float
    influence: Floats

    def worse_by(self, best: "Score") -> float:
        """How many standard errors of the paired difference this one is worse than `best`."""
        error = float(np.sqrt(np.sum((self.influence - best.influence) ** 2)))
        return (self.value - best.value) / max(error, 1e-12)


def score(goal: Goal, one: Measured, balanced: Measured) -> Score:
    """The score of a candidate against the `balanced` arm on the same rows.

    Shortfall of the metric, plus twice the loss of accuracy beyond the limit, minus a tenth of the accuracy,
    which decides among those that reach the target.
    """
    sign = -1.0 if goal.metric == "dp_ratio" else 1.0
    short = goal.shortfall(one.metric)
    lost = balanced.accuracy - one.accuracy - goal.max_loss
    value = max(short, 0.0) + 2.0 * max(lost, 0.0) - 0.1 * one.accuracy
    influence = -0.1 * one.on_accuracy
    if short > 0.0:
        influence = influence + sign * one.on_metric
    if lost > 0.0:
        influence = influence + 2.0 * (balanced.on_accuracy - one.on_accuracy)
    return Score(value, influence)
