"""Repeat starts on small tables until several agree on the best optimum.

A single start finds the best of all coresets for two in three tables of 14 to 18 rows. If only few
coresets of rows exist, `best_of_all` compares all. Otherwise the number of starts that end at the
best objective shows how certain this optimum is (docs/method.md, "Starts and local optima").
"""

from itertools import combinations
from math import comb, prod
from operator import attrgetter

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.descent.loop import Descent, Steps
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.effort import TINY
from fwc_llm.coreset.search.schedule import Solver

_WORK = {
    "free": 40_000,
    "rows": 16_000,
    "features": 13_000,
}  # sum of n · m over all starts of a small table
_LEAST = 4  # starts of a small table, at least
_AGREE = 4  # starts at the best objective that end the search
_EQUAL = 1e-9  # relative difference of objectives that counts as rounding


def best_start(
    solver: Solver, init: str, rng: Rng, starts: int | str
) -> tuple[Descent, int, int, bool, float | None]:
    """Run `starts` starts from `init`; "auto": as many as the size of the table suggests.

    Returns the best descent, the number of starts, how many ended at the best start's objective,
    whether all coresets were compared, and the starts' `spread_`.
    """
    best = solver.from_name(init, rng)
    problem = solver.problem
    agree = _AGREE if starts == "auto" else np.inf
    if starts == "auto":
        optimum = best_of_all(solver.steps, best)
        if optimum:
            return optimum, 1, 1, True, 0.0
        starts = solver.effort.starts
        size = problem.table.n * problem.m
        if size <= TINY:
            starts = min(starts, max(_LEAST, _WORK[problem.support] // size))
    objectives = [best.objective]
    while len(objectives) < int(starts) and agreeing(objectives) < agree:
        descent = solver.from_name(init, rng)
        objectives.append(descent.objective)
        best = min(best, descent, key=attrgetter("objective"))
    best = solver.finish(best, rng, kicks=agreeing(objectives) < _AGREE)
    ends = objectives if len(objectives) > 1 else solver.ends
    spread = None
    if len(ends) > 1 and min(ends) > 0:
        spread = float(np.mean(ends) / min(ends) - 1)
    return best, len(objectives), agreeing(objectives), False, spread


def agreeing(objectives: list[float]) -> int:
    """Count the objectives that equal the least one, up to rounding."""
    least = min(objectives)
    return sum(objective <= least + _EQUAL * abs(least) for objective in objectives)


_COMPARED = 30_000  # coresets at most
_NUMBERS = 3_000_000  # coresets · rows at most
_SOLVED = 60  # inner problems at most
_SAME = 1e-11  # relative difference that counts as rounding


def best_of_all(steps: Steps, descent: Descent) -> Descent | None:
    """Find the best of all coresets of rows, starting from a descent; None if this takes too
    long.
    """
    problem = steps.problem
    if descent.rows is None:
        return None
    candidates, of = problem.candidates()
    cells = np.flatnonzero(problem.seats).tolist()
    pools = [candidates[of == g].tolist() for g in cells]
    seats = problem.seats[cells].tolist()
    count = prod(map(comb, map(len, pools), seats))
    if count > min(_COMPARED, _NUMBERS // problem.table.n):
        return None
    choices = [
        np.array(list(combinations(pool, seat)), np.intp)
        for pool, seat in zip(pools, seats, strict=True)
    ]
    # For each cell the cost (K, n) from every row to the nearest row of each of its K sets of
    # candidates.
    between = cost_matrix(problem.table, problem.table, problem.cost)
    move = problem.move[problem.cells.cell]
    nearest = [
        between[:, sets].min(axis=2).T + move[:, g]
        for g, sets in zip(cells, choices, strict=True)
    ]
    bounds = np.full(count, -np.inf)
    best = descent.objective
    rows = descent.rows
    solved = set()
    prices = [steps.certify(descent.points)[0].prices]
    for _ in range(_SOLVED):
        if prices:
            np.maximum(bounds, _dual(problem, cells, nearest, prices.pop()), out=bounds)
        least = int(bounds.argmin())
        if bounds[least] >= best - _SAME * abs(best):
            if rows is descent.rows:
                return descent
            return Descent(
                problem.table.values_of(rows), rows, (*descent.history, best), True
            )
        if least in solved:  # rounding keeps its bound below its objective
            bounds[least] = np.inf
            continue
        solved.add(least)
        picks = np.unravel_index(least, [len(sets) for sets in choices])
        cost = np.full((problem.table.n, problem.cells.n_cells), np.inf)
        for g, near, pick in zip(cells, nearest, picks, strict=True):
            cost[:, g] = near[pick]
        inner = problem.transport(cost, None)
        prices.append(inner.prices)
        if inner.objective < best - _SAME * abs(best):
            best = inner.objective
            rows = np.concatenate(
                [sets[pick] for sets, pick in zip(choices, picks, strict=True)]
            )
    return None


def _dual(
    problem: Problem, cells: list[int], nearest: list[Array], prices: Array
) -> Array:
    """The bound D at the prices (G,) for every coreset; the set of the last cell changes
    fastest.
    """
    least = np.full((1, problem.table.n), np.inf)
    for g, near in zip(cells, nearest, strict=True):
        least = np.minimum(least[:, None], near - prices[g]).reshape(
            -1, problem.table.n
        )
    bound = least @ (problem.masses.values / problem.masses.total)
    if problem.parity_set:
        bound += problem.parity_set.best(prices)[0]
    return np.asarray(bound)
