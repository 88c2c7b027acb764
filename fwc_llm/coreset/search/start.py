"""Chooses starts of the descent: k-means++ within cells, or random rows; and the sample of rows.

See docs/method.md, "Starts and local optima".
"""

from dataclasses import replace

import numpy as np

from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import random_order

_MISSED, _SUITED = 1.15, 3.0  # times the sample's objective; more, the fewer rows a representative has


def start_rows(
    problem: Problem, init: str, rng: np.random.Generator, threads: Threads | None = None
) -> np.ndarray:
    """Rows (m,) to start from, in cell order: "k-means++" or "random".

    Random rows are drawn by mass within each cell, without repeating a value.
    """
    if init == "k-means++":
        return _spread_rows(problem, rng, threads or Threads(1))
    chosen, masses = [], problem.masses
    for pool, count in zip(problem.pools, problem.seats.tolist(), strict=True):
        drawn = rng.permutation(len(pool)) if masses is None else random_order(masses.values[pool], rng)
        _, first = np.unique(problem.ids[pool[drawn]], return_index=True)
        chosen.append(pool[drawn[np.sort(first)[:count]]])
    return np.concatenate(chosen)


def _spread_rows(problem: Problem, rng: np.random.Generator, threads: Threads) -> np.ndarray:
    """(m,) rows by greedy k-means++ within each cell, in cell order (Arthur and Vassilvitskii 2007, with the
    cost itself in the place of the squared distance): of 2 + ln(count) draws the one that lowers the total
    most is kept.
    """
    table, cells = problem.table, []
    for pool, count in zip(problem.pools, problem.seats.tolist(), strict=True):
        if count > 0:
            mass = np.ones(len(pool)) if problem.masses is None else problem.masses.values[pool]
            even = problem.masses is None
            first = int(rng.integers(len(pool))) if even else int(_drawn(mass, rng.random(1))[0])
            cells.append((pool, first, rng.random((count - 1, 2 + int(np.log(count)))), mass))

    def choose(cell: tuple[np.ndarray, int, np.ndarray, np.ndarray]) -> np.ndarray:
        pool, first, uniform, mass = cell
        values, ids, chosen = np.ascontiguousarray(table.values_of(pool).T), problem.ids[pool], [first]
        nearest, free = problem.feature_cost.between(values, values[:, first]), ids != ids[first]
        for draws in uniform:
            weight = free * nearest * mass
            # Where what is left equals a chosen row in all but its id, it is drawn evenly.
            tried = _drawn(weight if weight.any() else free.astype(float), draws).tolist()
            reached = [np.minimum(nearest, problem.feature_cost.between(values, values[:, i])) for i in tried]
            best = int(np.argmin([own @ mass for own in reached]))
            chosen.append(tried[best])
            nearest, free = reached[best], free & (ids != ids[tried[best]])
        return np.asarray(pool[chosen])

    return np.concatenate(threads.over(choose, cells))


def _drawn(weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places at these quantiles (t,) of the weights."""
    cumulative = np.cumsum(weight)
    draws = np.searchsorted(cumulative, at * cumulative[-1], side="right")
    return np.asarray(np.minimum(draws, np.flatnonzero(weight)[-1]))


def kicked(problem: Problem, descent: Descent, rng: np.random.Generator) -> Descent:
    """Some of the representatives, up to a fourth, replaced by random candidates of their cells."""
    points, rows = descent.points.copy(), None if descent.rows is None else descent.rows.copy()
    count = 1 + int(rng.integers(max(1, problem.m // 4)))
    for slot in rng.choice(problem.m, count, replace=False).tolist():
        row = int(rng.choice(problem.pools[problem.cell_of[slot]]))
        if rows is not None:
            if (problem.ids[rows] == problem.ids[row]).any():
                continue
            rows[slot] = row
        points[slot] = problem.table.values_of(np.array([row]))[0]
    return replace(descent, points=points, rows=rows)


def missed(objective: float, reached: float, each: float) -> bool:
    """Whether a sample lacked rows that count, from the objectives of its optimum on all rows and on its own.

    The first is above the second: the more, the fewer rows (`each`) the sample has for a representative.
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
