"""How often to start: a small table is solved again and again, until its best optimum seems to be the best.

One start ends in a local optimum: it finds the best of all coresets for two in three tables of 14 to 18 rows.
Where there are few coresets of rows, all are compared (`enumeration`). Elsewhere the starts that agree on the
best found say how sure it is. Measured in docs/method.md.
"""

from itertools import combinations
from math import comb, prod
from typing import NamedTuple

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.problem.table import Table
from fwc_llm.coreset.search.schedule import Solver

_SMALL = 4000  # n · m up to which starts are repeated
_MOST = 30  # starts, or
_WORK = {"free": 40_000, "rows": 16_000, "features": 13_000}  # n · m over all starts: rows are swapped, too
_LEAST = 4  # starts of a small table
_REPEATED = 3  # starts of a table that is larger, with free representatives that are swapped
_AGREE = 4  # starts that end at the best objective, from which on there are no more
_EQUAL = 1e-9  # relative difference of objectives that is rounding


class Found(NamedTuple):
    """The best descent, the number of starts, how many ended at its objective, and whether none is better.

    `spread`: by how much the objectives at which the starts ended exceed the least of them, on average and
    relative to it. A single start has ends of its own, on a sample, or the spread is unknown (None).
    """

    best: Descent
    starts: int
    agreeing: int
    proven: bool
    spread: float | None


def best_start(solver: Solver, init: str, rng: np.random.Generator, starts: int | None) -> Found:
    """The best descent from `starts` starts.

    `starts` None: where there are few coresets of rows, one, and then the best of all of them; else until
    four agree on a small table, one on a large one.
    """
    best = solver.from_name(init, rng)
    if starts is None:
        optimum = best_of_all(solver.steps, best)
        if optimum:
            return Found(optimum, 1, 1, True, 0.0)
    most = starts or _most(solver)
    found = [best.objective]
    while len(found) < most and (starts or agreeing(found) < _AGREE):
        descent = solver.from_name(init, rng)
        found.append(descent.objective)
        best = min(best, descent, key=lambda one: one.objective)
    ends = found if len(found) > 1 else solver.ends
    spread = float(np.mean(ends) / min(ends) - 1) if len(ends) > 1 and min(ends) > 0 else None
    return Found(best, len(found), agreeing(found), False, spread)


def _most(solver: Solver) -> int:
    """How many starts there are at most."""
    problem = solver.problem
    size = problem.table.n * problem.m
    if size > _SMALL:
        return _REPEATED if solver.repeated else 1
    return min(_MOST, max(_LEAST, _WORK[problem.support] // size))


def agreeing(objectives: list[float]) -> int:
    """How many of the objectives equal the least one, up to rounding."""
    least = min(objectives)
    return sum(one <= least + _EQUAL * abs(least) for one in objectives)


_COMPARED = 30_000  # coresets at most
_NUMBERS = 3_000_000  # coresets · rows at most
_SOLVED = 60  # inner problems at most
_SAME = 1e-11  # relative difference that is rounding


def best_of_all(steps: Steps, found: Descent) -> Descent | None:
    """The best of all coresets of rows, starting from one that was found; None where there are too many."""
    problem = steps.problem
    if problem.support == "free" or found.rows is None:
        return None
    choices = _few_choices(problem)
    if choices is None:
        return None
    cells = [g for g in range(problem.cells.n_cells) if len(choices[g])]
    nearest = _nearest(problem, cells, choices)
    shape = tuple(len(choices[g]) for g in cells)
    bounds = np.full(prod(shape), -np.inf)
    best, rows, known = found.objective, found.rows, set()
    prices = [steps.certify(found.points)[0].prices]
    for _ in range(_SOLVED):
        if prices:
            np.maximum(bounds, _dual(problem, cells, nearest, prices.pop()), out=bounds)
        place = int(bounds.argmin())
        if bounds[place] >= best - _SAME * abs(best):
            return _at(problem.table, rows, best, found)
        if place in known:  # its bound has a gap: rounding
            bounds[place] = np.inf
            continue
        known.add(place)
        picks = np.unravel_index(place, shape)
        cost = np.full((problem.table.n, problem.cells.n_cells), np.inf)
        for g, near, pick in zip(cells, nearest, picks, strict=True):
            cost[:, g] = near[pick]
        inner = problem.transport(cost, prices=None)
        prices.append(inner.prices)
        if inner.objective < best - _SAME * abs(best):
            best = inner.objective
            rows = np.concatenate([choices[g][pick] for g, pick in zip(cells, picks, strict=True)])
    return None


def _few_choices(problem: Problem) -> list[np.ndarray] | None:
    """The sets of rows (K, seats) that may represent each cell; None if there are too many altogether."""
    seats = np.bincount(problem.cell_of, minlength=problem.cells.n_cells).tolist()
    rows, of = problem.candidates()
    count = prod(comb(int((of == g).sum()), seats[g]) for g in range(len(seats)) if seats[g])
    if count > min(_COMPARED, _NUMBERS // problem.table.n):
        return None
    return [
        np.array(list(combinations(rows[of == g].tolist(), seats[g])), dtype=np.intp)
        if seats[g]
        else np.zeros((0, 0), dtype=np.intp)
        for g in range(len(seats))
    ]


def _nearest(problem: Problem, cells: list[int], choices: list[np.ndarray]) -> list[np.ndarray]:
    """For each cell the cost (K, n) of every row to the nearest row of each of its sets."""
    apart = cost_matrix(problem.table, problem.table, problem.cost)
    move = problem.move[problem.cells.cell]
    return [apart[:, choices[g]].min(axis=2).T + move[:, g] for g in cells]


def _dual(problem: Problem, cells: list[int], nearest: list[np.ndarray], prices: np.ndarray) -> np.ndarray:
    """D at the prices (G,) of every coreset, the last cell's set changing fastest."""
    least = np.full((1, problem.table.n), np.inf)
    for g, near in zip(cells, nearest, strict=True):
        least = np.minimum(least[:, None], near - prices[g]).reshape(-1, problem.table.n)
    masses = problem.masses
    bound = least.mean(axis=1) if masses is None else least @ (masses.values / masses.total)
    if problem.fair:
        bound += problem.fair.best(prices)[0]
    return np.asarray(bound)


def _at(table: Table, rows: np.ndarray, objective: float, found: Descent) -> Descent:
    """The descent that ends at these rows."""
    if rows is found.rows:
        return found
    points = table.values_of(rows)
    return Descent(points, rows, (*found.history, objective), True)
