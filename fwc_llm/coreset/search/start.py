"""Choose starts of the descent, and samples of rows.

See docs/method.md, "Starts and local optima".
"""

from dataclasses import replace

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.problem.encoded_table import first_of_each
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import random_order

# largest ratio of objectives, see `missed`
_MISSED = 1.15
_SUITED = 3.0


def start_rows(
    problem: Problem, init: str, rng: Rng, threads: Threads | None = None
) -> Array:
    """Choose rows (m,) to start from, in cell order: by "k-means++", or distinct ones "random"
    by mass.
    """
    if init == "k-means++":
        return _spread_rows(problem, rng, threads or Threads(1))
    chosen = []
    for pool, count in zip(problem.pools, problem.seats.tolist(), strict=True):
        if problem.masses.equal:
            drawn = rng.permutation(len(pool))
        else:
            drawn = random_order(problem.masses.values[pool], rng)
        first = first_of_each(problem.ids[pool[drawn]])[:count]
        chosen.append(pool[drawn[first]])
    return np.concatenate(chosen)


def _spread_rows(problem: Problem, rng: Rng, threads: Threads) -> Array:
    """Choose rows (m,) by greedy k-means++ within each cell, in cell order.

    Arthur and Vassilvitskii 2007, with the cost itself instead of the squared distance. Of 2 +
    ln(count) draws, the one that lowers the cost most is kept.
    """
    table = problem.table
    cells = []
    for pool, count in zip(problem.pools, problem.seats.tolist(), strict=True):
        if count > 0:
            mass = problem.masses.values[pool]
            if problem.masses.equal:
                first = int(rng.integers(len(pool)))
            else:
                first = int(_drawn(mass, rng.random(1))[0])
            cells.append(
                (pool, first, rng.random((count - 1, 2 + int(np.log(count)))), mass)
            )

    def choose(cell: tuple[Array, int, Array, Array]) -> Array:
        pool, first, uniform, mass = cell
        values = np.ascontiguousarray(table.values_of(pool).T)
        ids = problem.ids[pool]
        chosen = [first]
        nearest = problem.feature_cost.between(values, values[:, first])
        free = ids != ids[first]
        for draws in uniform:
            weight = free * nearest * mass
            # If all free rows cost 0, draw evenly: they differ from chosen rows only by id.
            tried = _drawn(
                weight if weight.any() else free.astype(float), draws
            ).tolist()
            reached = [
                np.minimum(nearest, problem.feature_cost.between(values, values[:, i]))
                for i in tried
            ]
            best = int(np.argmin([costs @ mass for costs in reached]))
            chosen.append(tried[best])
            nearest = reached[best]
            free = free & (ids != ids[tried[best]])
        return np.asarray(pool[chosen])

    return np.concatenate(threads.over(choose, cells))


def _drawn(weight: Array, at: Array) -> Array:
    """Return the indices at the quantiles `at` (t,) of the cumulative weights."""
    cumulative = np.cumsum(weight)
    draws = np.searchsorted(cumulative, at * cumulative[-1], side="right")
    return np.asarray(np.minimum(draws, np.flatnonzero(weight)[-1]))


def kicked(problem: Problem, descent: Descent, rng: Rng) -> Descent:
    """Replace up to a fourth of the representatives (or one) by random candidates of their
    cells.
    """
    points = descent.points.copy()
    if descent.rows is None:
        rows = None
    else:
        rows = descent.rows.copy()
    count = 1 + int(rng.integers(max(1, problem.m // 4)))
    for slot in rng.choice(problem.m, count, replace=False).tolist():
        row = int(rng.choice(problem.pools[problem.cell_of[slot]]))
        if rows is not None:
            if (problem.ids[rows] == problem.ids[row]).any():
                continue
            rows[slot] = row
        points[slot] = problem.table.values_of(np.array([row]))[0]
    return replace(descent, points=points, rows=rows)


def missed(objective: float, reached: float, rows_per_point: float) -> bool:
    """Whether a sample lacked far rows that make much of the `objective` on the larger table.

    `reached` is the objective on the sample. The fewer sampled rows per representative, the larger
    `objective` / `reached` may be without far rows.
    """
    return objective > (_MISSED + _SUITED / rows_per_point) * reached


def sampling_order(problem: Problem, rng: Rng, priority: Array | None = None) -> Array:
    """Order all rows at random, or by falling `priority` (n,), to be sampled from the first on.

    Four distinct candidates per seat of every cell come first.
    """
    if priority is None:
        order = rng.permutation(problem.table.n)
    else:
        order = np.argsort(-priority, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    first = []
    for pool, seats in zip(problem.pools, problem.seats.tolist(), strict=True):
        early = pool[np.argsort(rank[pool])]
        first.append(early[first_of_each(problem.ids[early])[: 4 * seats]])
    rank[np.concatenate(first)] = -1
    return np.argsort(rank, kind="stable")
