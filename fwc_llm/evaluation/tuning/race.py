"""Racing: many candidates on few rows, the rest on more; who is clearly worse on the same rows drops out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fwc_llm.evaluation.tuning.goal import Floats, Goal, Measured, measure, score

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task

ZERO, AGAIN, BALANCED = "zero", "zero-again", "balanced"
# The share of the pool rows that each round has asked about at its end, and of the candidates that it keeps.
ROUNDS = ((0.25, 0.4), (0.5, 0.2), (1.0, 1.0))
FEWEST_KEPT = 4
_CLEARLY = 2.0  # standard errors of a paired difference
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
        cells = np.char.add(task.sensitive(rows), np.where(task.labels(rows) == 1, "+", "-"))
        place = np.empty(len(rows))
        for cell in np.unique(cells):
            own = np.flatnonzero(cells == cell)
            place[own] = (np.arange(len(own)) + 0.5) / len(own)
        ordered = rows.iloc[np.argsort(place, kind="stable")]
        return cls(ordered, task.labels(ordered), task.sensitive(ordered))


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
    P(yes) (NaN where unknown). In a round's end a candidate stays only among the best by its share, and not
    if it is worse than the best by more than two standard errors of their paired difference. P(yes) decides
    where all replies have it, since it varies less than answers do.
    `rounds` are the shares of rows and candidates; one round of all rows is exhaustive search.
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
        balanced = standing[BALANCED].measured(goal, pool, soft=True)
        scores = {
            name: score(goal, standing[name].measured(goal, pool, soft=True), balanced) for name in left
        }
        ranked = sorted(left, key=lambda name: scores[name].value)
        best = scores[ranked[0]]
        most = max(FEWEST_KEPT, round(kept * len(names)))
        stays = [
            name
            for place, name in enumerate(ranked)
            if place < FEWEST_KEPT or (place < most and scores[name].worse_by(best) <= _CLEARLY)
        ]
        for name in left:
            if name not in stays:
                standing[name].dropped_after = k
        left = [name for name in left if name in stays]
    return standing


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
    likely = {n: soft.get(n, one).accuracy for n, one in finalists.items()}
    allowed = soft.get(BALANCED, balanced).accuracy - goal.max_loss
    within = {n: one for n, one in finalists.items() if likely[n] >= allowed}
    reached = {n: one for n, one in within.items() if goal.shortfall(one.metric) <= 0.0}
    if reached:
        best = max(reached, key=lambda n: (likely[n], -goal.shortfall(reached[n].metric)))
        return best, True
    if within:
        nearest = {n: goal.shortfall(soft.get(n, one).metric) for n, one in within.items()}
        return min(within, key=lambda n: (nearest[n], -likely[n])), False
    return max(finalists, key=lambda n: likely[n]), False


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
