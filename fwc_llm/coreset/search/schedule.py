"""Chooses steps, sample sizes and swaps for a fit."""

from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.fwc_swaps import RowOptimum, RowSwaps, Swaps, swap_on_sample
from fwc_llm.coreset.search.local_search import STARTS, search
from fwc_llm.coreset.search.start import missed, sampling_order, start_rows
from fwc_llm.coreset.threads import Threads

TINY = 4000  # n · m up to which the plain steps are as fast; many starts are compared there, to all digits
WORTH = 10**9  # pairs of numbers to compare from which a search on samples pays
_PASSES = 10  # of the assignment in a descent, about
_SWAPPED = 2**18  # rows up to which rows are swapped on all rows
SEARCHED = 4096  # rows above which many starts are tried on samples, where these hold enough of them:
_FOR_EACH = 24  # rows for every representative
_SMALLEST = 2048  # sample to grow from
_ROUNDS = 3  # of swaps and descents
_SAMPLES = 3  # on which swaps are sought, at most
_GROWN = 64  # rows a free representative from which a start grows
_PROGRESSIVE = 100_000  # rows from which it grows with a support of rows
_TRIES = 2  # starts on the smallest sample
_GROWTH = 4  # of the sample, from one level to the next
_FEW = 1000  # n · m up to which repeated starts need no swaps
_NUMBERS = 2**20  # n · m up to which free points of a table of numbers start from rows that were swapped
# Gains of the objective that end the descent on a level, on all rows, and on these of free points, which move
# further.
LEVEL_TOLERANCE, ROWS_TOLERANCE, FREE_TOLERANCE = 3e-4, 2e-5, 1e-4


@dataclass(frozen=True)
class Effort:
    """The caller's limits: `swaps` and `progressive` may be "auto", `n_jobs` None (all processors)."""

    max_iter: int
    swaps: bool | str
    progressive: bool | str
    n_jobs: int | None


class Solver:
    """Solves one problem from any number of starts."""

    def __init__(self, problem: Problem, effort: Effort, starts: int) -> None:
        self.problem = problem
        self.effort = effort
        n, p, m = problem.table.n, problem.table.p, problem.m
        fits = problem.table.fits_single
        self._swaps = bool(effort.swaps) and problem.support != "free" and n <= _SWAPPED and fits
        # Where starts cost little, or end far apart as with categories, free representatives are swapped or
        # start from rows that were.
        mixed = problem.table.n_numeric < p or n * m <= _NUMBERS
        auto = problem.support == "free" and effort.swaps == "auto" and fits and mixed and n * m > _FEW
        auto = auto and effort.progressive == "auto"  # the samples of a start that grows need no swaps
        self.repeated = auto and n <= SEARCHED
        self._from_rows = auto and SEARCHED < n <= _SWAPPED
        self._sampled_swaps = (effort.swaps is True or self.repeated) and not self._swaps and fits
        self._progressive = (
            n >= (max(_GROWN * m, _GROWTH * _SMALLEST) if problem.support == "free" else _PROGRESSIVE)
            if effort.progressive == "auto"
            else bool(effort.progressive) and n > _SMALLEST
        )
        large = effort.progressive == "auto" and n * m > _NUMBERS and not self._sampled_swaps
        self._tolerance = FREE_TOLERANCE if large and problem.support == "free" else 0.0
        candidates = sum(len(pool) for pool in {id(pool): pool for pool in problem.pools}.values())
        descents = starts * (1 + _SAMPLES if self._sampled_swaps else 1)
        work = n * p * (_PASSES * m * descents + (candidates if self._swaps else 0))
        self._searched = self._swaps and work >= WORTH and n > SEARCHED and _FOR_EACH * m <= SEARCHED // 2
        self.ends: list[float] = []  # objectives at which starts ended on a sample
        self.searches = STARTS  # of the search on samples
        import os
        self.kicks = int(os.environ.get("KICKS", 0))
        # By the problem alone: what this process has compiled must not change the result.
        plain = not fits or n * m <= TINY
        self._threads = Threads(1 if plain else effort.n_jobs)
        self.steps: Steps = Steps(problem) if plain else CompiledSteps(problem, self._threads)

    def from_name(self, init: str, rng: np.random.Generator) -> Descent:
        """The descent from "k-means++" or "random"."""
        if self._from_rows:
            rows = Solver(replace(self.problem, support="rows"), self.effort, 1)
            rows.searches = 3  # free points move on from there, so that less is at stake
            start, self.ends = np.asarray(rows.from_name(init, rng).rows), rows.ends
            del rows
            return descend(self.steps, start, self.effort.max_iter)
        if self._progressive:
            return self._grow(init, rng)
        if self._searched and init == "k-means++":
            terms = self.steps, rng, self._threads, self.effort.max_iter
            descent, self.ends = search(self.problem, *terms, self.searches)
            return self._improve(descent, rng)
        return self.from_start(start_rows(self.problem, init, rng, self._threads), rng, self._tolerance)

    def from_start(self, start: np.ndarray, rng: np.random.Generator, tolerance: float = 0.0) -> Descent:
        """The descent from given rows (m,) or points (m, p)."""
        return self._improve(descend(self.steps, start, self.effort.max_iter, tolerance), rng)

    def _improve(self, descent: Descent, rng: np.random.Generator) -> Descent:
        """Improves a descent by swaps, if wanted: a descent follows them, while that gains."""
        max_iter = self.effort.max_iter
        if max_iter == 0:
            return descent
        if self._swaps and descent.rows is not None:
            swaps = RowSwaps(self.steps, Swaps(self.problem, self._threads), max_iter)
            self.steps.solve(descent.points)
            better = swaps.settle(RowOptimum(descent, self.steps.prices), rng, _ROUNDS)
            better = swaps.kick(better, rng, self.kicks)
            return descent if better.descent is descent else better.descent.after(descent)
        for _ in range(_SAMPLES if self._sampled_swaps else 0):
            start = swap_on_sample(self.problem, descent, self.steps.prices, rng, self._threads)
            again = descend(self.steps, start, max_iter)
            if again.objective >= descent.objective * (1 - LEVEL_TOLERANCE):
                break
            descent = again.after(descent)
        return descent

    def _grow(self, init: str, rng: np.random.Generator) -> Descent:
        """Descends on a sample, on larger ones that contain it, and on all rows."""
        problem = self.problem
        sizes = [problem.table.n]
        while sizes[0] / _GROWTH >= max(_SMALLEST, 16 * problem.m):
            sizes.insert(0, sizes[0] // _GROWTH)
        priority = problem.priorities(rng)
        order = sampling_order(problem, sizes[0], rng, priority)
        start: np.ndarray | None = None
        reached = np.inf

        def descend_on(rows: np.ndarray) -> tuple[np.ndarray, float]:
            """The end, as rows (m,) of the whole table or points (m, p), and the objective there."""
            part = Solver(problem.subset(rows, priority), replace(self.effort, progressive=False), 1)
            if start is None:
                first = start_rows(part.problem, init, rng, part._threads)
            else:
                first = np.searchsorted(rows, start) if start.ndim == 1 else start
            descent = part._improve(
                part._go_on(first, reached, 10 * self._tolerance or LEVEL_TOLERANCE, rng), rng
            )
            return descent.points if descent.rows is None else rows[descent.rows], descent.objective

        for size in sizes[:-1]:
            rows = np.sort(order[:size])
            tries = [descend_on(rows) for _ in range(1 if self.ends else _TRIES)]
            self.ends = self.ends or [objective for _, objective in tries]
            start, reached = min(tries, key=itemgetter(1))
        del order
        if start is None:
            start = start_rows(problem, init, rng, self._threads)
        return self._improve(self._go_on(start, reached, self._tolerance or ROWS_TOLERANCE, rng), rng)

    def _go_on(
        self, start: np.ndarray, reached: float, tolerance: float, rng: np.random.Generator
    ) -> Descent:
        """The descent from where a sample's descent ended, at the objective `reached`, or from anew."""
        descent = descend(self.steps, start, self.effort.max_iter, tolerance)
        each = self.problem.table.n / _GROWTH / self.problem.m  # rows of that sample for a representative
        if not missed(descent.history[0], reached, each):
            return descent
        anew = start_rows(self.problem, "k-means++", rng, self._threads)
        again = descend(self.steps, anew, self.effort.max_iter, tolerance)
        return min(descent, again, key=attrgetter("objective"))
