"""How often to start: a small table is solved again and again, until its best optimum seems to be the best.

One start ends in a local optimum: it finds the best of all coresets for two in three tables of 14 to 18 rows.
Where there are few coresets of rows, all are compared (`enumeration`). Elsewhere the starts that agree on the
best found say how sure it is. Measured in docs/method.md.
"""

from typing import NamedTuple

import numpy as np

from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.enumeration import best_of_all
from fwc_llm.coreset.search.schedule import Solver

_SMALL = 4000  # n · m up to which starts are repeated
_MOST = 30  # starts, or
_WORK = {"free": 80_000, "rows": 16_000, "features": 13_000}  # n · m over all starts: rows are swapped, too
_LEAST = 4  # starts of a small table
_AGREE = 4  # starts that end at the best objective, from which on there are no more
_EQUAL = 1e-9  # relative difference of objectives that is rounding


class Found(NamedTuple):
    """The best descent, the number of starts, how many ended at its objective, and whether none is better."""

    best: Descent
    starts: int
    agreeing: int
    proven: bool


def best_start(solver: Solver, init: str, rng: np.random.Generator, starts: int | None) -> Found:
    """The best descent from `starts` starts.

    `starts` None: where there are few coresets of rows, one, and then the best of all of them; else until
    four agree on a small table, one on a large one.
    """
    best = solver.from_name(init, rng)
    if starts is None:
        optimum = best_of_all(solver.steps, best)
        if optimum:
            return Found(optimum, 1, 1, True)
    most = starts or _most(solver.problem)
    found = [best.objective]
    while len(found) < most and (starts or agreeing(found) < _AGREE):
        descent = solver.from_name(init, rng)
        found.append(descent.objective)
        best = min(best, descent, key=lambda one: one.objective)
    return Found(best, len(found), agreeing(found), False)


def _most(problem: Problem) -> int:
    """How many starts there are at most."""
    size = problem.table.n * problem.m
    if size > _SMALL:
        return 1
    return min(_MOST, max(_LEAST, _WORK[problem.support] // size))


def agreeing(objectives: list[float]) -> int:
    """How many of the objectives equal the least one, up to rounding."""
    least = min(objectives)
    return sum(one <= least + _EQUAL * abs(least) for one in objectives)
