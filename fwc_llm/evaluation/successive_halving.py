"""Successive halving for `tune`: more rows for the better candidates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_comparison import ComparedArms, adjust, compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, TABLE
from fwc_llm.metrics.intervals import Interval
from fwc_llm.metrics.run_answers import unknown_of
from fwc_llm.metrics.variance import arrays_of
from fwc_llm.number_format import in_points
from fwc_llm.runs.splits import cells_of_rows, interleave_cells

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


Floats = npt.NDArray[np.float64]
TARGETS = {
    metric.key: metric.title
    for metric in TABLE
    if metric.headline and metric.kind != "share"
}
ZERO = "zero"
BALANCED = "balanced"
FEWEST_KEPT = 4
# For each round: the share of the candidates, and of the pool rows that they have answered then.
ROUNDS = ((1.0, 0.3), (0.3, 0.6), (0.15, 1.0))
_DIGITS = 9  # decimals by which values are compared: further ones depend on the order of summation


@dataclass(frozen=True)
class Goal:
    """A fairness metric, its target, and the largest acceptable loss of accuracy (a share)."""

    metric: str = "dp_gap"
    target: float = 0.1
    max_loss: float = 0.03

    @property
    def is_ratio(self) -> bool:
        """Whether higher values of the metric are better."""
        return BY_KEY[self.metric].kind == "ratio"

    @property
    def words(self) -> str:
        """The goal in words."""
        metric = BY_KEY[self.metric]
        limit = f"at most {in_points(self.target)}"
        if self.is_ratio:
            limit = f"at least {self.target:g}"
        return f"{metric.title} {limit}, at most {in_points(self.max_loss)} lost"

    def shortfall(self, value: float) -> float:
        """How far a value of the metric misses the target; 0 or less means reached."""
        if np.isnan(value):
            return np.inf
        short = self.target - value if self.is_ratio else value - self.target
        return round(short, _DIGITS)


def read_goal(target_dp: float | None, target: str | None, max_loss: float) -> Goal:
    """Parse a goal: a DP gap, or "eo_gap=0.1", "dp_ratio=0.8"; `max_loss` is in points."""
    if (target_dp is None) == (target is None):
        raise FwcError(
            "name one target: --target-dp 0.1, or --target with label_gap=0.1 or dp_ratio=0.8"
        )
    name, _, text = (
        part.strip() for part in (target or f"dp_gap={target_dp}").partition("=")
    )
    if name not in TARGETS:
        raise FwcError(
            f"the target {target!r} names no metric: choose one of {', '.join(TARGETS)}"
        )
    try:
        goal = Goal(name, float(text), max_loss / 100.0)
    except ValueError:
        raise FwcError(
            f"the target {name}={text} has no number: write {name}=0.1"
        ) from None
    worst, span = (0.0, "(0, 1]") if goal.is_ratio else (1.0, "[0, 1)")
    if not 0.0 <= goal.target <= 1.0 or goal.target == worst:
        raise FwcError(
            f"the target {name}={text} is outside {span}: write a share, such as 0.1"
        )
    if not 0.0 <= max_loss <= 100.0:
        raise FwcError(
            f"max-loss is {max_loss}: give points of accuracy from 0 to 100, such as 3"
        )
    return goal


class Measured(NamedTuple):
    """Accuracy and metric of a candidate's answers to `rows`, with 95 % intervals.

    The values are the worst, and the intervals hold, for all answers that replies without one
    might have had: no candidate gains by them.
    """

    estimates: ArmEstimates
    rows: int
    accuracy: float
    metric: float
    accuracy_interval: Interval
    metric_interval: Interval


@dataclass(frozen=True)
class Pool:
    """The pool rows that compare candidates, in the order of asking."""

    rows: "pd.DataFrame" = field(repr=False)
    labels: npt.NDArray[np.int8] = field(repr=False)
    groups: npt.NDArray[np.str_] = field(repr=False)

    @classmethod
    def of(cls, task: "Task", rows: "pd.DataFrame") -> "Pool":
        """Reorder `rows` so that all prefixes have nearly the same shares of each cell."""
        ordered = rows.iloc[interleave_cells(cells_of_rows(task, rows))]
        return cls(ordered, task.labels(ordered), task.sensitive(ordered))

    def measure(self, goal: Goal, yes: Floats) -> Measured:
        """Accuracy and metric of answers `yes` (k,), 1, 0 or NaN, to the first k rows."""
        k = len(yes)
        sample, groups = arrays_of(yes, self.labels[:k], self.groups[:k])
        estimates = ArmEstimates(replace(sample, unknown=unknown_of(groups)))
        (accuracies, accuracy_limits), (metrics, metric_limits) = (
            estimates[key].readings for key in ("accuracy", goal.metric)
        )
        worst = metrics[0 if goal.is_ratio else 1]
        return Measured(
            estimates, k, accuracies[0], worst, accuracy_limits, metric_limits
        )


def ranked(measured: Mapping[str, Measured], goal: Goal) -> list[tuple[str, bool]]:
    """Candidates, best first, and whether each reaches the goal; `balanced` is among them.

    Those that reach the target with acceptable accuracy come first, by accuracy. Others with
    acceptable accuracy follow, nearest to the target first; then all others, by accuracy.
    """
    least = round(measured[BALANCED].accuracy - goal.max_loss, _DIGITS)
    places = dict[str, tuple[float, ...]]()
    for name, of in measured.items():
        accuracy = round(of.accuracy, _DIGITS)
        short = goal.shortfall(of.metric)
        if accuracy >= least and short <= 0.0:
            places[name] = (0, -accuracy, short)
        elif accuracy >= least:
            places[name] = (1, short, -accuracy)
        else:
            places[name] = (2, -accuracy, short)
    return [
        (name, places[name][0] == 0) for name in sorted(places, key=places.__getitem__)
    ]


Ask = Callable[[Iterable[str], int], Mapping[str, Floats]]


def schedule(candidates: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield, for each round, the number of candidates that are left, and of rows."""
    for kept, share in ROUNDS:
        yield max(FEWEST_KEPT, round(kept * candidates)), max(1, round(share * rows))


def successive_halving(
    names: Sequence[str],
    pool: Pool,
    goal: Goal,
    ask: Ask,
    rounds: Iterable[tuple[int, int]],
) -> dict[str, Floats]:
    """Ask zero-shot, balanced and the best candidates so far in `rounds`; return answers.

    `ask(names, k)` returns each candidate's answers about the first k rows of the pool: 1, 0 or
    NaN. A single round with all candidates and rows is exhaustive search.
    """
    left = list(names)
    answers: dict[str, Floats] = {}
    for count, k in rounds:
        left = left[:count]
        answers |= ask([ZERO, BALANCED, *left], k)
        measured = {
            name: pool.measure(goal, answers[name]) for name in (*left, BALANCED)
        }
        left = [name for name, _ in ranked(measured, goal) if name != BALANCED]
    return answers


def compared_with_zero(
    answers: Mapping[str, Floats], names: Sequence[str], goal: Goal, pool: Pool
) -> dict[str, ComparedArms]:
    """Each candidate compared with zero-shot on the rows that it answered, candidate minus zero.

    Limits and p-values are corrected for the number of all candidates.
    """
    tests = []
    for name in names:
        yes = answers[name]
        zero = pool.measure(goal, answers[ZERO][: len(yes)]).estimates
        both = (zero, pool.measure(goal, yes).estimates)
        tests.append(compare(both, ZERO, name, metrics=("accuracy", goal.metric)))
    return dict(zip(names, adjust(tests), strict=True))


def better(test: ComparedArms, goal: Goal) -> bool:
    """Whether a candidate is significantly better than zero-shot in accuracy or in the metric."""
    low, high = test[goal.metric].decisive
    gains = low > 0.0 if goal.is_ratio else high < 0.0
    return gains or test["accuracy"].decisive[0] > 0.0


def smallest_gains(
    tests: Iterable[ComparedArms], goal: Goal
) -> tuple[float, float] | None:
    """The gains in metric and accuracy that these comparisons detect with power 80 %.

    The median over candidates. None if none of them changed an answer.
    """
    changed = [test for test in tests if not test.same]
    if not changed:
        return None
    keys = (goal.metric, "accuracy")
    both = [
        [test[key].detectable + test[key].unread_effect for key in keys]
        for test in changed
    ]
    of_metric, of_accuracy = np.nanmedian(both, axis=0)
    return float(of_metric), float(of_accuracy)
