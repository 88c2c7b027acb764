"""The race of `tune`: a goal, candidates measured on few rows, and more rows for those that may still win."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task


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


ZERO, AGAIN, BALANCED = "zero", "zero-again", "balanced"
# The share of the pool rows that each round has asked about at its end, and of the candidates that it keeps.
ROUNDS = ((0.3, 0.3), (0.6, 0.15), (1.0, 1.0))
FEWEST_KEPT = 4
_TIMES = 1000  # that the rows not yet asked are drawn
_ALPHA = 0.05


@dataclass(frozen=True)
class Pool:
    """The validation rows in the order they are asked, each round a balanced part of them."""

    rows: "pd.DataFrame" = field(repr=False)
    labels: npt.NDArray[np.int8] = field(repr=False)
    groups: npt.NDArray[np.str_] = field(repr=False)

    @classmethod
    def of(cls, task: "Task", rows: "pd.DataFrame") -> "Pool":
        """`rows`, with those of every cell of group and label spread evenly."""
        cells = _cells(task.labels(rows), task.sensitive(rows))
        place = np.empty(len(rows))
        for cell in np.unique(cells):
            own = np.flatnonzero(cells == cell)
            place[own] = (np.arange(len(own)) + 0.5) / len(own)
        ordered = rows.iloc[np.argsort(place, kind="stable")]
        return cls(ordered, task.labels(ordered), task.sensitive(ordered))

    @property
    def cells(self) -> npt.NDArray[np.str_]:
        """The cell of group and label of each row (n,)."""
        return _cells(self.labels, self.groups)


def _cells(labels: npt.NDArray[np.int8], groups: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    return np.char.add(groups, np.where(labels == 1, "+", "-"))


@dataclass
class Standing:
    """What is known of one candidate: its answers (k,) to the first k rows, hard and as probabilities."""

    name: str
    hard: Floats
    soft: Floats
    dropped_after: int | None = None  # rows

    @property
    def sure(self) -> bool:
        """Whether every answer has a P(yes)."""
        return not bool(np.isnan(self.soft).any())

    def measured(self, goal: Goal, pool: Pool, soft: bool = False) -> Measured:
        """Its metrics on the rows asked; `soft` takes probabilities where every reply has one."""
        k = len(self.hard)
        yes = self.soft if soft and self.sure else self.hard
        return measure(goal, yes, pool.labels[:k], pool.groups[:k])


Ask = Callable[[Iterable[str], int], Mapping[str, tuple[Floats, Floats]]]


def race(
    names: Sequence[str],
    pool: Pool,
    goal: Goal,
    ask: Ask,
    rounds: Sequence[tuple[float, float]] = ROUNDS,
) -> dict[str, Standing]:
    """Ask the candidates `names`, and the arms that they are measured against, in rounds.

    `ask(names, k)` returns each one's answers to the first k rows of the pool, hard (1, 0, NaN) and as
    P(yes) (NaN where unknown). In a round's end those candidates stay, up to their share, that are most
    likely to win when all rows are asked (see `_promising`). P(yes) decides where all replies have it, since
    it varies less than answers do. `rounds` are the shares of rows and candidates; one round of all rows is
    exhaustive search.
    """
    total, left = len(pool.rows), list(names)
    standing: dict[str, Standing] = {}
    for share, kept in rounds:
        k = max(1, round(share * total))
        fixed = [ZERO, AGAIN, BALANCED]
        for name, (hard, soft) in ask([*fixed, *left], k).items():
            standing[name] = Standing(name, hard, soft)
        if k == total:
            break
        most = max(FEWEST_KEPT, round(kept * len(names)))
        stays = _promising(left, standing, pool, goal, k)[:most]
        for name in left:
            if name not in stays:
                standing[name].dropped_after = k
        left = [name for name in left if name in stays]
    return standing


def _promising(
    names: Sequence[str], standing: Mapping[str, Standing], pool: Pool, goal: Goal, k: int
) -> list[str]:
    """Candidates that may win when all rows are asked, most likely first, from their answers to the first k.

    The rows not yet asked are drawn many times, in each cell of group and label from those that are, the same
    for all candidates: what is common to them cancels out. Those that never win are left out unless fewer
    than `FEWEST_KEPT` are left; then the mean rank counts.
    """
    field = [standing[name] for name in (*names, BALANCED)]
    hard = np.array([one.hard for one in field])
    likely = np.array([one.soft for one in field]) if all(one.sure for one in field) else hard
    labels, groups = pool.labels[:k], pool.groups[:k]
    counts = _completed(pool, k)
    accuracy, nearest = measure_many(goal, likely, labels, groups, counts)
    _, metric = measure_many(goal, hard, labels, groups, counts)
    order = rank(goal, metric, accuracy, nearest, accuracy[:, -1:] - goal.max_loss).order
    won = np.bincount(order[:, 0], minlength=len(field))[:-1]
    ranks = np.argsort(order, axis=1).mean(axis=0)[:-1]
    best = np.lexsort((ranks, -won))
    return [names[place] for at, place in enumerate(best) if won[place] or at < FEWEST_KEPT]


def _completed(pool: Pool, k: int) -> Floats:
    """How often each of the first k rows counts (times, k) when they stand in for the rows not yet asked."""
    rng = np.random.default_rng(k)
    cells = pool.cells
    counts = np.ones((_TIMES, k))
    for cell in np.unique(cells[:k]):
        own = np.flatnonzero(cells[:k] == cell)
        missing = int(np.sum(cells[k:] == cell))
        counts[:, own] += rng.multinomial(missing, np.full(len(own), 1.0 / len(own)), _TIMES)
    return counts


def moved(standing: Mapping[str, Standing], names: Iterable[str]) -> bool:
    """Whether a candidate's answers differ from zero-shot's more often than zero-shot's, asked again, do.

    Fisher's exact test on the shares of changed answers, one-sided, at 5 % with Bonferroni's correction.
    """
    from scipy.stats import fisher_exact

    known = [one for one in map(standing.get, names) if one is not None]
    zero, again = standing[ZERO].hard, standing[AGAIN].hard
    noise = _changed(zero, again)
    for one in known:
        k = len(one.hard)
        changed = _changed(zero[:k], one.hard)
        table = np.array([[changed, k - changed], [noise, len(zero) - noise]])
        if fisher_exact(table, alternative="greater").pvalue * len(known) < _ALPHA:
            return True
    return False


def _changed(first: Floats, second: Floats) -> int:
    both_unread = np.isnan(first) & np.isnan(second)
    return int(np.sum((first != second) & ~both_unread))


def choose(
    finalists: Mapping[str, Measured], goal: Goal, balanced: Measured, soft: Mapping[str, Measured]
) -> tuple[str, bool]:
    """The candidate to take, and whether it reaches the target within the loss.

    Of those that do, the one with the highest accuracy; if none does, the one nearest to the target within
    the loss, or, where all lose more, the one that loses least. `soft` are the measures by P(yes), if known:
    they judge the loss and which is nearest, as they vary less; the target is judged by the answers.
    """
    names = list(finalists)
    likely = [soft.get(name, finalists[name]) for name in names]
    allowed = soft.get(BALANCED, balanced).accuracy - goal.max_loss
    order, reached = rank(
        goal,
        np.array([finalists[name].metric for name in names]),
        np.array([one.accuracy for one in likely]),
        np.array([one.metric for one in likely]),
        np.array([allowed]),
    )
    return names[order[0]], bool(reached[order[0]])


def soft_measures(
    standing: Mapping[str, Standing], names: Iterable[str], goal: Goal, pool: Pool
) -> dict[str, Measured]:
    """The measures of `names` by P(yes); none at all unless every answer of each has one."""
    own = list(names)
    if not all(standing[name].sure for name in own):
        return {}
    return {name: standing[name].measured(goal, pool, soft=True) for name in own}


def front(finalists: Mapping[str, Measured], goal: Goal) -> set[str]:
    """The candidates that no other beats in both accuracy and metric."""

    values = {name: (each.accuracy, -goal.shortfall(each.metric)) for name, each in finalists.items()}
    return {
        name
        for name, (accuracy, near) in values.items()
        if not any(a >= accuracy and n >= near and (a, n) != (accuracy, near) for a, n in values.values())
    }


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
    described = {str(each["candidate"]): dict(each) for each in candidates}
    lines = [
        {
            **described.get(name, {"candidate": name, "kind": name, "strategy": name}),
            "rows": len(standing[name].hard),
            "dropped": standing[name].dropped_after is not None,
            "accuracy": values.accuracy,
            "accuracy_interval": _interval(values.accuracy, values.accuracy_error),
            "metric": values.metric,
            "metric_interval": _interval(values.metric, values.metric_error),
            "front": name in best,
            "chosen": name == winner,
        }
        for name, values in measured.items()
    ]

    def place(line: dict[str, Any]) -> tuple[Any, ...]:
        is_fixed = line["candidate"] in {ZERO, BALANCED}
        return line["dropped"], is_fixed, -line["rows"], goal.shortfall(line["metric"])

    return sorted(lines, key=place)


def _interval(value: float, error: float) -> list[float]:
    return [max(0.0, value - _WIDTH * error), min(1.0, value + _WIDTH * error)]
