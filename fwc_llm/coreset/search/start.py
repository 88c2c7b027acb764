"""Chooses starts of the descent: k-means++ within cells, or random rows; and the sample of rows.

See docs/method.md, "Starts and local optima".
"""

from dataclasses import replace

import numpy as np

from fwc_llm.coreset.compiled import kernel, part
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
            mass = None if problem.masses is None else problem.masses.values[pool]
            first = int(rng.integers(len(pool))) if mass is None else int(_drawn(mass, rng.random(1))[0])
            cells.append((pool, first, rng.random((count - 1, 2 + int(np.log(count)))), mass))

    def choose(cell: tuple[np.ndarray, int, np.ndarray, np.ndarray | None]) -> np.ndarray:
        pool, first, uniform, mass = cell
        values = np.ascontiguousarray(table.values_of(pool).T)
        n, (more, trials) = values.shape[1], uniform.shape
        chosen = np.full(more + 1, first, np.int64)
        room = np.empty(n, bool), np.empty(trials, np.int64), np.empty(n), np.empty(n), np.empty((trials, n))
        rows = values, problem.ids[pool].astype(np.int64), np.empty(0) if mass is None else mass, uniform
        spread(*rows, problem.feature_cost, chosen, *room)
        return np.asarray(pool[chosen])

    return np.concatenate(threads.over(choose, cells))


def _drawn(weight: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places at these quantiles (t,) of the weights."""
    cumulative = np.cumsum(weight)
    draws = np.searchsorted(cumulative, at * cumulative[-1], side="right")
    return np.asarray(np.minimum(draws, np.flatnonzero(weight)[-1]))


@kernel
def spread(  # type: ignore[no-untyped-def]
    values, ids, mass, uniform, cost, chosen, free, draws, upto, nearest, reached
):
    """Writes the rows `chosen` (c,) after the first one, see `_spread_rows`.

    `values` (p, n) are the rows, columns first; `ids` (n,) are equal for rows that count as the same, `mass`
    (n,) is empty where each row has the mass 1, and `uniform` (c − 1, t) are the draws. The rest is room:
    `free`, `upto` and `nearest` (n,), `draws` (t,), `reached` (t, n).
    """
    n, trials = values.shape[1], uniform.shape[1]
    for i in range(n):
        nearest[i] = 1e308
    _reach(values, chosen[0], cost, nearest, reached[0])
    for i in range(n):
        nearest[i], free[i] = reached[0, i], ids[i] != ids[chosen[0]]
    for c in range(1, len(chosen)):
        total, last = 0.0, 0
        for even in range(2):  # where what is left equals a chosen row in all but its id, it is drawn evenly
            for i in range(n if total == 0 else 0):
                weight = 0.0
                if free[i]:
                    weight = 1.0 if even else nearest[i]
                    if len(mass) and not even:
                        weight *= mass[i]
                    last = i if weight > 0 else last
                total += weight
                upto[i] = total
        for t in range(trials):
            low, high, goal = 0, n, uniform[c - 1, t] * total
            while low < high:
                middle = (low + high) // 2
                if upto[middle] <= goal:
                    low = middle + 1
                else:
                    high = middle
            draws[t] = min(low, last)
        best, least = 0, 0.0
        for t in range(trials):
            _reach(values, draws[t], cost, nearest, reached[t])
            total = 0.0
            for i in range(n):
                total += reached[t, i] * (mass[i] if len(mass) else 1.0)
            if t == 0 or total < least:
                best, least = t, total
        chosen[c] = draws[best]
        for i in range(n):
            nearest[i] = reached[best, i]
            free[i] = free[i] and ids[i] != ids[chosen[c]]


@part
def _reach(values, draw, cost, nearest, own):  # type: ignore[no-untyped-def]
    """Writes the least of `nearest` (n,) and the cost from the row `draw` to `own` (n,).

    The sums over columns have numpy's order, see `FeatureCost.to_points`.
    """
    unit = cost.unit
    n_numeric = len(values) - len(unit)
    for i in range(len(own)):
        own[i] = 0.0
    for k in range(n_numeric):
        column = values[k]
        value = column[draw]
        if cost.squared:
            for i in range(len(own)):
                own[i] += (column[i] - value) * (column[i] - value)
        else:
            for i in range(len(own)):
                own[i] += abs(column[i] - value)
    if n_numeric < len(values):
        for i in range(len(own)):
            apart = 0.0
            for k in range(n_numeric, len(values)):
                apart += unit[k - n_numeric] if values[k, i] != values[k, draw] else 0.0
            own[i] += apart
    for i in range(len(own)):
        own[i] = min(nearest[i], own[i])


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

    A few rows far from all others can make most of the objective. Elsewhere too the first is above the
    second: the more, the fewer rows (`each`) the sample has for a representative.
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
