"""Samples of a problem's rows."""

import numpy as np

from fwc_llm.coreset.problem.problem import Problem

_MISSED, _SUITED = 1.15, 3.0  # times the sample's objective; more, the fewer rows a representative has


def missed(objective: float, reached: float, each: float) -> bool:
    """Whether a sample lacked rows that count, from the objectives of its optimum on all rows and on its own.

    A few rows that lie far from all others can make most of the objective. A sample without them ends in an
    optimum that has no representative near them. k-means++ on all rows draws such rows. Elsewhere too the
    first objective is above the second, since an optimum suits its own rows best: the more, the fewer rows
    (`each`) the sample has for a representative.
    """
    return objective > (_MISSED + _SUITED / each) * reached


def sample_rows(
    problem: Problem, count: int, rng: np.random.Generator, priority: np.ndarray | None = None
) -> np.ndarray:
    """`count` rows in order, each cell with its share and with enough candidates for its seats.

    Where a cell's share would hold too few, it gets more: the sample is then slightly richer in small cells.
    Rows of the highest `priority` (n,) are taken, or any.
    """
    n = problem.table.n
    chosen = np.zeros(n, bool)
    first = rng.choice(n, count, replace=False) if priority is None else np.argsort(-priority, kind="stable")
    chosen[first[:count]] = True
    for g, seats in enumerate(problem.seats):
        pool = problem.pools[g]
        _, first = np.unique(problem.ids[pool], return_index=True)
        have = len(np.unique(problem.ids[pool[chosen[pool]]]))
        if have < 4 * seats:
            chosen[rng.permutation(pool[first])[: 4 * seats]] = True
    return np.flatnonzero(chosen)


def sampling_order(
    problem: Problem, least: int, rng: np.random.Generator, priority: np.ndarray | None = None
) -> np.ndarray:
    """All rows in random order, but enough candidates for every cell among the first `least` of them.

    Rows of the highest `priority` (n,) come first.
    """
    order = rng.permutation(problem.table.n) if priority is None else np.argsort(-priority, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first = []
    for g, seats in enumerate(problem.seats):
        early = problem.pools[g][np.argsort(place[problem.pools[g]])]
        _, at = np.unique(problem.ids[early], return_index=True)
        first.append(early[np.sort(at)[: 2 * seats]])
    ahead = np.unique(np.concatenate(first))
    rest = order[~np.isin(order, ahead)]
    mixed = np.concatenate([ahead, rest[: max(0, least - len(ahead))]])
    return np.concatenate([rng.permutation(mixed), rest[max(0, least - len(ahead)) :]])
