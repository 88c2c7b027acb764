"""Racing: many candidates on few rows, and on more those that may still win when all rows are asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fwc_llm.evaluation.tuning.goal import Floats, Goal, Measured, measure, measure_many, rank

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task

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

    def beaten(one: Measured) -> bool:
        return any(
            other.accuracy >= one.accuracy
            and goal.shortfall(other.metric) <= goal.shortfall(one.metric)
            and (other.accuracy, other.metric) != (one.accuracy, one.metric)
            for other in finalists.values()
        )

    return {name for name, one in finalists.items() if not beaten(one)}
