"""How often to start: a small table is solved again and again, until its best optimum seems to be the best.

One start ends in a local optimum. Of 40 tables of 14 to 18 rows whose coresets were all enumerated, one start
finds the best of all for two in three; the starts that agree on the best found say how sure it is.
"""

import numpy as np

from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.search.schedule import Solver

_SMALL = 4000  # n · m up to which starts are repeated
_MOST = 30  # starts
_AGREE = 4  # starts that end at the best objective, from which on there are no more
_EQUAL = 1e-9  # relative difference of objectives that is rounding


def best_start(
    solver: Solver, init: str, rng: np.random.Generator, starts: int | None
) -> tuple[Descent, int, int]:
    """The best descent from `starts` starts, their number, and how many ended at its objective.

    `starts` None: until four agree on a small table, one on a large one.
    """
    most = starts or (_MOST if solver.problem.table.n * solver.problem.m <= _SMALL else 1)
    best = solver.from_name(init, rng)
    found = [best.objective]
    while len(found) < most and (starts or agreeing(found) < _AGREE):
        descent = solver.from_name(init, rng)
        found.append(descent.objective)
        best = min(best, descent, key=lambda one: one.objective)
    return best, len(found), agreeing(found)


def agreeing(objectives: list[float]) -> int:
    """How many of the objectives equal the least one, up to rounding."""
    least = min(objectives)
    return sum(one <= least + _EQUAL * abs(least) for one in objectives)
