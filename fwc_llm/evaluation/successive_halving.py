"""Successive halving for `tune`: more rows for likely winners."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import TABLE
from fwc_llm.metrics.intervals import LEVEL, Z
from fwc_llm.metrics.planning import POWER
from fwc_llm.runs.splits import cells_of_rows, interleave_cells

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


Floats = npt.NDArray[np.float64]
Value = TypeVar("Value", float, Floats)
TARGETS = {
    metric.key: metric.title
    for metric in TABLE
    if metric.headline and metric.kind != "share"
}
_DIGITS = 9  # decimals by which values are compared: further ones depend on the order of summation


@dataclass(frozen=True)
class Goal:
    """A fairness metric, its target, and the largest acceptable loss of accuracy (a share)."""

    metric: str = "dp_gap"
    target: float = 0.1
    max_loss: float = 0.03

    @property
    def words(self) -> str:
        """The goal in words."""
        if self.metric == "dp_ratio":
            side = "at least"
        else:
            side = "at most"
        return (
            f"{TARGETS[self.metric]} {side} {self.target:g}, at most {100 * self.max_loss:g} "
            f"points lost"
        )

    def shortfall(self, value: Value) -> Value:
        """How far values of the metric miss the target; 0 or less means reached."""
        if self.metric == "dp_ratio":
            return self.target - value
        return value - self.target


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
        value = float(text)
    except ValueError:
        raise FwcError(
            f"the target {name}={text} has no number: write {name}=0.1"
        ) from None
    within, span = (
        (0.0 < value <= 1.0, "(0, 1]")
        if name == "dp_ratio"
        else (0.0 <= value < 1.0, "[0, 1)")
    )
    if not within:
        raise FwcError(
            f"the target {name}={text} is outside {span}: write a share, such as 0.1"
        )
    if not 0.0 <= max_loss <= 100.0:
        raise FwcError(
            f"max-loss is {max_loss}: give points of accuracy from 0 to 100, such as 3"
        )
    return Goal(name, value, max_loss / 100.0)


class InfluenceEstimate(NamedTuple):
    """A value from n answers, or a difference of two values; influences (n,) of the rows.

    The standard error is the root of the sum of squared influences.
    """

    value: float
    influence: Floats

    def less(self, other: "InfluenceEstimate") -> "InfluenceEstimate":
        """This estimate minus another one on the same rows."""
        return InfluenceEstimate(
            self.value - other.value, self.influence - other.influence
        )

    @property
    def error(self) -> float:
        """The standard error."""
        return float(np.sqrt(np.sum(self.influence**2)))

    def interval(self, low: float = 0.0, high: float = 1.0) -> list[float]:
        """The 95 % interval from the standard error, cut to [`low`, `high`]."""
        wide = Z * self.error
        return [max(low, self.value - wide), min(high, self.value + wide)]


class Measured(NamedTuple):
    """Accuracy and the goal's metric of one candidate's answers."""

    accuracy: InfluenceEstimate
    metric: InfluenceEstimate


def measure_many(
    goal: Goal,
    yes: Floats,
    labels: npt.NDArray[np.int8],
    groups: npt.NDArray[np.str_],
    counts: Floats,
) -> tuple[Floats, Floats]:
    """Accuracy and metric (b, c) of c candidates' answers `yes` (c, n) to n rows.

    `counts` (b, n) has b sets of weights of the rows. An unread answer (NaN) counts as wrong and as
    not yes, so that no candidate gains by unread answers.
    """
    share = (yes == 1.0).astype(np.float64)
    right = (yes == labels).astype(np.float64)
    accuracy = counts @ right.T / counts.sum(1, keepdims=True)
    if goal.metric in ("eo_gap", "label_gap"):
        parts = [labels == 1, labels == 0]
    else:
        parts = [np.ones(len(labels), dtype=bool)]
    of_parts = []
    for part in parts:  # groups are compared within each part of the rows
        members = [part & (groups == group) for group in np.unique(groups[part])]
        rates = [
            counts[:, rows] @ share[:, rows].T / counts[:, rows].sum(1)[:, None]
            for rows in members
        ]
        if rates:
            of_parts.append(np.array(rates))
    if goal.metric == "label_gap" and len({len(rates) for rates in of_parts}) == 1:
        of_parts = [np.mean(of_parts, axis=0)]
    metrics = []
    for rates_of_part in of_parts:
        low = rates_of_part.min(0)
        high = rates_of_part.max(0)
        ratio = np.divide(low, high, out=np.ones_like(low), where=high > 0.0)
        metrics.append(ratio if goal.metric == "dp_ratio" else high - low)
    return accuracy, np.max(metrics, axis=0)


def rank(
    goal: Goal, metric: Floats, accuracy: Floats, allowed: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Indices (…, c) of candidates, best first; mask (…, c), in input order: goal reached.

    Candidates that reach the target with acceptable accuracy come first, by accuracy. Others with
    acceptable accuracy follow, nearest to the target first; then all others, by accuracy. `allowed`
    (…, 1) is the lowest acceptable accuracy.
    """
    accuracy = accuracy.round(_DIGITS)
    short = goal.shortfall(metric).round(_DIGITS)
    within = accuracy >= allowed.round(_DIGITS)
    reached = within & (short <= 0.0)
    near = within & ~reached
    kind = np.where(reached, 0, np.where(within, 1, 2))
    keys = np.where(near, -accuracy, short), np.where(near, short, -accuracy), kind
    return np.lexsort(keys, axis=-1), reached


ZERO = "zero"
BALANCED = "balanced"
# For each round: the cumulative share of pool rows that are asked, and the share of candidates that
# are kept.
ROUNDS = ((0.3, 0.3), (0.6, 0.15), (1.0, 1.0))
FEWEST_KEPT = 4
_TIMES = 1000  # random draws: imputations of unasked rows, or exchanges of answers


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
        """Accuracy and metric of answers `yes` (k,), 1, 0 or NaN, to the first k rows.

        A row's influence is the derivative of the value with respect to the row's weight.
        """
        k = len(yes)
        step = 1e-6
        kinds = np.char.add(
            self.cells[:k], yes.astype(str)
        )  # equal rows have equal influence
        _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
        weights = np.ones((1 + len(first), k))
        weights[1 + np.arange(len(first)), first] += step
        both = measure_many(goal, yes[None], self.labels[:k], self.groups[:k], weights)
        values = (draws[:, 0] for draws in both)
        accuracy, metric = (
            InfluenceEstimate(float(draws[0]), ((draws[1:] - draws[0]) / step)[kind])
            for draws in values
        )
        return Measured(accuracy, metric)

    @property
    def cells(self) -> npt.NDArray[np.str_]:
        """The cell (group and label) of each row (n,)."""
        return np.char.add(self.groups, np.where(self.labels == 1, "+", "-"))


Ask = Callable[[Iterable[str], int], Mapping[str, Floats]]


def successive_halving(
    names: Sequence[str],
    pool: Pool,
    goal: Goal,
    ask: Ask,
    rounds: Sequence[tuple[float, float]] = ROUNDS,
) -> dict[str, Floats]:
    """Ask the candidates `names`, zero-shot and balanced in rounds; return answers.

    `ask(names, k)` returns each candidate's answers about the first k rows of the pool: 1, 0 or
    NaN. A single round with all rows is exhaustive search.
    """
    total = len(pool.rows)
    left = list(names)
    answers: dict[str, Floats] = {}
    for share, share_left in rounds:
        k = max(1, round(share * total))
        answers |= ask([ZERO, BALANCED, *left], k)
        if k == total:
            break
        most = max(FEWEST_KEPT, round(share_left * len(names)))
        stays = _promising(left, answers, pool, goal, k)[:most]
        left = [name for name in left if name in stays]
    return answers


def _promising(
    names: Sequence[str], answers: Mapping[str, Floats], pool: Pool, goal: Goal, k: int
) -> list[str]:
    """Candidates that may win once all rows are asked, most likely first.

    For each candidate, the answers about unasked rows are imputed 1,000 times from its answers
    about the first k rows, by cell; each imputation uses the same rows for all candidates.
    """
    yes = np.array([answers[name] for name in (*names, BALANCED)])
    accuracy, metric = measure_many(
        goal, yes, pool.labels[:k], pool.groups[:k], _completed(pool, k)
    )
    order = rank(goal, metric, accuracy, accuracy[:, -1:] - goal.max_loss)[0]
    won = np.bincount(order[:, 0], minlength=len(yes))[:-1]
    ranks = np.argsort(order, axis=1).mean(axis=0)[:-1]
    best = np.lexsort((ranks, -won))
    return [
        names[index] for at, index in enumerate(best) if won[index] or at < FEWEST_KEPT
    ]


def _completed(pool: Pool, k: int) -> Floats:
    """Weights (1000, k) of the first k rows: 1 plus a random share of their cell's other rows."""
    rng = np.random.default_rng(k)
    cells = pool.cells
    counts = np.ones((_TIMES, k))
    for cell in np.unique(cells[:k]):
        in_cell = np.flatnonzero(cells[:k] == cell)
        missing = int(np.sum(cells[k:] == cell))
        counts[:, in_cell] += rng.multinomial(
            missing, np.full(len(in_cell), 1.0 / len(in_cell)), _TIMES
        )
    return counts


def any_better(
    answers: Mapping[str, Floats], names: Sequence[str], goal: Goal, pool: Pool
) -> bool:
    """Whether any candidate is significantly better than zero-shot.

    One-sided permutation tests at 5 %, with Bonferroni correction over all candidates and both
    metrics: if a candidate's prompt has no effect, its answer about a row and that of zero-shot are
    exchangeable.
    """
    rng = np.random.default_rng(0)
    n = len(pool.rows)
    every = np.ones((1, n))

    def gains(first: Floats, second: Floats) -> Floats:
        """Gains (2, b) in accuracy and metric of answers `first` (b, n) over `second`."""
        sides = [
            measure_many(goal, yes, pool.labels, pool.groups, every)
            for yes in (first, second)
        ]
        accuracy, metric = (np.vstack(pair) for pair in zip(*sides, strict=True))
        return np.vstack(
            [
                accuracy[0] - accuracy[1],
                goal.shortfall(metric[1]) - goal.shortfall(metric[0]),
            ]
        )

    zero = answers[ZERO]
    for name in names:
        yes = answers[name]
        if len(yes) < n or np.array_equal(yes, zero, equal_nan=True):
            continue
        observed = gains(yes[None], zero[None]) - 10.0**-_DIGITS
        as_good = np.ones((2, 1))
        times = 1
        for _ in range(
            1 + len(names) // 5
        ):  # times 1,000 exchanges: enough for the corrected level
            swap = rng.random((_TIMES, n)) < 0.5
            exchanged = gains(np.where(swap, zero, yes), np.where(swap, yes, zero))
            as_good += (exchanged >= observed).sum(1, keepdims=True)
            times += _TIMES
        if as_good.min() / times * 2 * len(names) < 1 - LEVEL:
            return True
    return False


def smallest_gains(
    answers: Mapping[str, Floats], names: Sequence[str], goal: Goal, pool: Pool
) -> tuple[float, float] | None:
    """The gains in metric and accuracy that `any_better` detects with power 80 %.

    They follow from the median standard error of the candidates asked about all rows. None if none
    of these changed an answer.
    """
    zero = pool.measure(goal, answers[ZERO])
    errors = list[tuple[float, float]]()
    for name in names:
        yes = answers[name]
        if len(yes) == len(pool.rows) and not np.array_equal(
            yes, answers[ZERO], equal_nan=True
        ):
            accuracy, metric = pool.measure(goal, yes)
            errors.append(
                (zero.metric.less(metric).error, zero.accuracy.less(accuracy).error)
            )
    if not errors:
        return None
    needed = ndtri(1 - (1 - LEVEL) / (2 * len(names))) + ndtri(POWER)
    of_metric, of_accuracy = needed * np.median(errors, axis=0)
    return float(of_metric), float(of_accuracy)


def choose(finalists: Mapping[str, Measured], goal: Goal) -> tuple[str, bool]:
    """The best candidate by `rank`, and whether it reaches the goal."""
    metric = np.array([finalist.metric.value for finalist in finalists.values()])
    accuracy = np.array([finalist.accuracy.value for finalist in finalists.values()])
    allowed = np.array([finalists[BALANCED].accuracy.value - goal.max_loss])
    order, reached = rank(goal, metric, accuracy, allowed)
    return list(finalists)[order[0]], bool(reached[order[0]])


def front(finalists: Mapping[str, Measured], goal: Goal) -> set[str]:
    """The Pareto front: candidates that no other one dominates."""
    values = {
        name: (
            round(finalist.accuracy.value, _DIGITS),
            round(-goal.shortfall(finalist.metric.value), _DIGITS),
        )
        for name, finalist in finalists.items()
    }
    return {
        name
        for name, (accuracy, near) in values.items()
        if not any(
            a >= accuracy and n >= near and (a, n) != (accuracy, near)
            for a, n in values.values()
        )
    }
