"""A good start for a coreset of rows: many local optima of a sample, the best of them on all rows.

The objectives of local optima differ by several per cent after a descent, and by one after swaps. On a sample
of some thousand rows swaps take hundredths of a second, so that many optima can be tried. From each of some
starts a few representatives are moved to random rows, again and again, and swaps follow (an iterated local
search). The best optima are improved on a larger sample, and then on all rows.
"""

from operator import attrgetter

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import missed, sample_rows, start_rows
from fwc_llm.coreset.search.swaps import Optimum, RowSwaps, Swaps
from fwc_llm.coreset.threads import Threads

_SAMPLE = 2048  # rows on which optima are tried
STARTS = 4
_KICKS = 3  # from one start
_KICKED = 3  # representatives that a kick moves to random rows
_FINALISTS = 4  # optima that are improved on the larger sample
_LARGER = 6144  # rows of the larger sample
_LARGER_KICKS = 3  # of the best one there
_ROUNDS = 3  # of swaps until nothing gains, and new prices
_LARGER_ROUNDS = 2


def search(
    problem: Problem,
    steps: Steps,
    rng: np.random.Generator,
    threads: Threads,
    max_iter: int,
    starts: int = STARTS,
    sample: int = _SAMPLE,
) -> tuple[Descent, list[float]]:
    """The best descent on all rows (`steps`) from what `starts` starts and swaps find on samples of rows.

    And the objectives at which the starts ended, on one sample.
    """
    priority = problem.priorities(rng)
    rows = sample_rows(problem, min(sample, problem.table.n), rng, priority)
    small = Sample(problem.subset(rows, priority))
    optima = sorted(threads.over(small.explore, rng.spawn(starts)), key=attrgetter("objective"))
    ends = [optimum.objective for optimum in optima]
    distinct: dict[tuple[int, ...], Optimum] = {}
    for optimum in optima:
        distinct.setdefault(tuple(np.sort(optimum.rows).tolist()), optimum)
    finalists = [rows[optimum.rows] for optimum in list(distinct.values())[:_FINALISTS]]
    priority = problem.priorities(rng)
    more = sample_rows(problem, min(_LARGER, problem.table.n), rng, priority)
    rows = np.unique(np.concatenate([more, *finalists]))
    large = Sample(problem.subset(rows, priority))
    seeds = rng.spawn(len(finalists))

    def settle(q: int) -> Optimum:
        return large.settle(np.searchsorted(rows, finalists[q]), seeds[q], _LARGER_ROUNDS)

    best = min(threads.over(settle, range(len(finalists))), key=attrgetter("objective"))
    best = large.wander(best, seeds[0], _LARGER_KICKS)
    descent = descend(steps, rows[best.rows], max_iter)
    if missed(descent.history[0], best.objective, len(rows) / problem.m):
        again = descend(steps, start_rows(problem, "k-means++", rng, threads), max_iter)
        descent = min(descent, again, key=attrgetter("objective"))
    return descent, ends


class Sample:
    """Some rows as a problem of their own, whose local optima are found by swaps."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._candidates = Swaps(problem, Threads(1))

    @property
    def _swaps(self) -> RowSwaps:
        """Swaps with steps of their own, for a thread."""
        return RowSwaps(CompiledSteps(self._problem, Threads(1)), self._candidates, max_iter=0)

    def explore(self, rng: np.random.Generator) -> Optimum:
        """The best optimum from one start and some kicks."""
        start = start_rows(self._problem, "k-means++", rng)
        return self.wander(self.settle(start, rng, _ROUNDS), rng, _KICKS)

    def settle(self, rows: np.ndarray, rng: np.random.Generator, rounds: int) -> Optimum:
        """Where swaps lead from `rows` (m,)."""
        swaps = self._swaps
        return swaps.settle(swaps.descend(rows), rng, rounds)

    def wander(self, best: Optimum, rng: np.random.Generator, kicks: int) -> Optimum:
        """The best optimum after some kicks, each of the best one so far."""
        swaps = self._swaps
        for _ in range(kicks):
            swapped = swaps.swap(self._kick(best.rows, rng), best.prices, rng)
            if (np.sort(swapped) != np.sort(best.rows)).any():
                best = min(best, swaps.descend(swapped, best.prices), key=attrgetter("objective"))
        return best

    def _kick(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A few of the representatives replaced by random candidates of their cells."""
        problem, kicked = self._problem, rows.copy()
        for j in rng.choice(len(rows), min(_KICKED, len(rows)), replace=False):
            g = problem.cell_of[j]
            pool = problem.pools[g]
            taken = problem.ids[kicked[problem.cell_of == g]]
            free = pool[~np.isin(problem.ids[pool], taken)]
            if len(free):
                kicked[j] = rng.choice(free)
        return kicked
