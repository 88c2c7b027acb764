"""A good start for a coreset of rows: many local optima of a sample, the best of them on all rows.

The objectives of local optima differ by several per cent after a descent, and by one after swaps. On a sample
of some thousand rows swaps take hundredths of a second, so that some starts can be tried. The best optima are
improved on a larger sample, and then on all rows.
"""

from operator import attrgetter

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.fwc_swaps import RowOptimum, RowSwaps, Swaps
from fwc_llm.coreset.search.start import missed, sample_rows, start_rows
from fwc_llm.coreset.threads import Threads

_SAMPLE = 2048  # rows on which optima are tried
STARTS = 4
_FINALISTS = 4  # optima that are improved on the larger sample
_LARGER = 6144  # rows of the larger sample
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
    small = RowSubsample(problem.subset(rows, priority))
    optima = sorted(threads.over(small.explore, rng.spawn(starts)), key=attrgetter("objective"))
    ends = [optimum.objective for optimum in optima]
    finalists = [rows[optimum.rows] for optimum in optima[:_FINALISTS]]
    priority = problem.priorities(rng)
    more = sample_rows(problem, min(_LARGER, problem.table.n), rng, priority)
    rows = np.unique(np.concatenate([more, *finalists]))
    large = RowSubsample(problem.subset(rows, priority))
    seeds = rng.spawn(len(finalists))

    def settle(q: int) -> RowOptimum:
        return large.settle(np.searchsorted(rows, finalists[q]), seeds[q], _LARGER_ROUNDS)

    best = min(threads.over(settle, range(len(finalists))), key=attrgetter("objective"))
    descent = descend(steps, rows[best.rows], max_iter)
    if missed(descent.history[0], best.objective, len(rows) / problem.m):
        again = descend(steps, start_rows(problem, "k-means++", rng, threads), max_iter)
        descent = min(descent, again, key=attrgetter("objective"))
    return descent, ends


class RowSubsample:
    """Some rows as a problem of their own, whose local optima are found by swaps."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._swaps = Swaps(problem, Threads(1))

    def explore(self, rng: np.random.Generator) -> RowOptimum:
        """The optimum from one start."""
        return self.settle(start_rows(self._problem, "k-means++", rng), rng, _ROUNDS)

    def settle(self, rows: np.ndarray, rng: np.random.Generator, rounds: int) -> RowOptimum:
        """Improves `rows` (m,) by swaps."""
        steps = CompiledSteps(self._problem, Threads(1))  # of its own, for a thread
        swaps = RowSwaps(steps, self._swaps, max_iter=0)
        return swaps.settle(swaps.descend(rows), rng, rounds)
