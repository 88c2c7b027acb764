"""Choose steps, sample sizes and swaps for a fit.

Prices are fixed during swaps. The descent that follows shows whether the swaps lowered the objective, and
sets new prices. Swaps replace free representatives by rows, from which the descent moves them on.
"""

from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.fasterpam import Points, Space, estimate, exchange
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import kicked, missed, sample_rows, sampling_order, start_rows
from fwc_llm.coreset.threads import Threads

TINY = 4000  # n · m up to which numpy is as fast, and starts are compared in all digits
_SWAPPED = 2**18  # rows up to which swaps use all rows; also the size of the last sample of a larger table
_KICKED = 8192  # rows up to which starts are repeated, free points swapped, and the best optimum kicked
_KICKS, _KICK_ROWS = 100_000, 2500  # a table of n rows gets _KICKS // (n + _KICK_ROWS) kicks
_SMALLEST = 2048  # rows of the smallest sample, at least
_ROUNDS = 3  # rounds of swaps and descents
_GROWN = 64  # rows per free representative from which samples grow
_PROGRESSIVE = 8192  # rows from which samples grow with support "rows" or "features"
_TRIES = 2  # starts on the smallest sample
_GROWTH = 4  # ratio of the sizes of successive samples
_FEW = 1000  # n · m up to which free points are not swapped
_NUMBERS = 2**20  # n · m up to which free points are swapped, or start from swapped rows, without categories
# Relative gains of an iteration that end the descent: on a sample, on all rows, and for free points that move
# twice as far.
LEVEL_TOLERANCE, ROWS_TOLERANCE, FREE_TOLERANCE = 3e-4, 2e-5, 1e-4
_SCREEN = 2048  # rows on which the gains of swaps are estimated
_SCREENED, _SCREENED_EACH = 1024, 16  # candidates tried on all rows: at least, and per representative
_LOOKED_AT = 2**17  # candidates whose gains are estimated, at most
_LEAST, _AGAIN, _BATCH = 1e-6, 63, 128  # terms of `exchange`
_SAMPLE = 8192  # rows on which free points are swapped, at least
_EACH = 24  # rows per representative on which free points are swapped, at least


class Solver:
    """Solves one problem from any start, with `n_jobs` threads (None: one per processor)."""

    def __init__(
        self, problem: Problem, max_iter: int, swaps: bool | str, progressive: bool | str, n_jobs: int | None
    ) -> None:
        self.problem, self._max_iter = problem, max_iter
        self._solver_of = partial(Solver, max_iter=max_iter, swaps=swaps, n_jobs=n_jobs)  # of another problem
        n, p, m = problem.table.n, problem.table.p, problem.m
        fits = problem.table.fits_single
        self._swaps = bool(swaps) and problem.support != "free" and n <= _SWAPPED and fits
        # If starts are cheap, or end far apart as with categories, free representatives are swapped, or start
        # from swapped rows.
        mixed = problem.table.n_numeric < p or n * m <= _NUMBERS
        auto = problem.support == "free" and swaps == "auto" and fits and mixed and n * m > _FEW
        auto = auto and progressive == "auto"  # growing samples need no swaps
        repeated = auto and n <= _KICKED
        self._from_rows = auto and n > _KICKED
        self._sampled_swaps = (swaps is True or repeated) and not self._swaps and fits
        self.kicks = _KICKS // (n + _KICK_ROWS) if repeated or (self._swaps and n <= _KICKED) else 0
        self._progressive = (
            n >= (max(_GROWN * m, _GROWTH * _SMALLEST) if problem.support == "free" else _PROGRESSIVE)
            if progressive == "auto"
            else bool(progressive) and n > _SMALLEST
        )
        large = progressive == "auto" and n * m > _NUMBERS and not self._sampled_swaps
        self._tolerance = FREE_TOLERANCE if large and problem.support == "free" else 0.0
        self.ends: list[float] = []  # objectives at which starts ended on a sample
        # The choice depends on the problem alone: compiled code in the cache must not change the result.
        plain = not fits or n * m <= TINY
        self._threads = Threads(1 if plain else n_jobs)
        self.steps: Steps = Steps(problem) if plain else CompiledSteps(problem, self._threads)

    def from_name(self, init: str, rng: np.random.Generator) -> Descent:
        """Start from "k-means++" or "random", descend and swap."""
        if self._from_rows:
            rows = self._solver_of(replace(self.problem, support="rows"), progressive="auto")
            start, self.ends = np.asarray(rows.from_name(init, rng).rows), rows.ends
            del rows
            return descend(self.steps, start, self._max_iter)
        if self._progressive:
            return self._grow(init, rng)
        return self.from_start(start_rows(self.problem, init, rng, self._threads), rng, self._tolerance)

    def from_start(self, start: np.ndarray, rng: np.random.Generator, tolerance: float = 0.0) -> Descent:
        """Start from given rows (m,) or points (m, p), descend and swap."""
        return self._improve(descend(self.steps, start, self._max_iter, tolerance), rng)

    def kick(self, descent: Descent, rng: np.random.Generator) -> Descent:
        """Repeatedly replace some representatives at random, swap and descend; keep the best descent."""
        if not self.kicks or self._max_iter == 0:
            return descent
        self.steps.solve(descent.points)
        prices = self.steps.prices
        for _ in range(self.kicks):
            from_there = kicked(self.problem, descent, rng)
            start = swap(self.problem, from_there, prices, rng, self._threads)
            again = descend(self.steps, start, self._max_iter)
            if again.objective < descent.objective:
                descent, prices = again.after(descent), self.steps.prices
        return descent

    def _improve(self, descent: Descent, rng: np.random.Generator) -> Descent:
        """Alternate swaps and descents, if swaps are wanted; return the best descent.

        Swaps of real rows use the mean of the last prices and those before: the last prices alone overshoot.
        """
        on_rows = self._swaps and descent.rows is not None
        if not (on_rows or self._sampled_swaps) or self._max_iter == 0:
            return descent
        if on_rows:
            self.steps.solve(descent.points)
        best, last, prices = descent, descent, self.steps.prices
        for _ in range(_ROUNDS):
            if on_rows:
                self.steps.rest()  # swaps need as much memory for sorted rows
            start = swap(self.problem, last, prices, rng, self._threads, sampled=not on_rows)
            if on_rows and (start == last.rows).all():
                break
            last = descend(self.steps, start, self._max_iter)
            prices = (prices + self.steps.prices) / 2 if on_rows else self.steps.prices
            if last.objective < best.objective * (1 if on_rows else 1 - LEVEL_TOLERANCE):
                best = last.after(descent if on_rows else best)
            elif not on_rows:
                break
        return best

    def _grow(self, init: str, rng: np.random.Generator) -> Descent:
        """Descend on a sample, on larger samples that contain it, and last on all rows."""
        problem = self.problem
        sizes = [min(problem.table.n, _SWAPPED)]
        while sizes[0] / _GROWTH >= max(_SMALLEST, 16 * problem.m):
            sizes.insert(0, sizes[0] // _GROWTH)
        if problem.table.n > _SWAPPED:
            sizes.append(problem.table.n)
        priority = problem.priorities(rng)
        order = sampling_order(problem, sizes[0], rng, priority)
        start: np.ndarray | None = None
        reached = np.inf

        def descend_on(part: Solver, rows: np.ndarray) -> Descent:
            if start is None:
                first = start_rows(part.problem, init, rng, part._threads)
            else:
                first = np.searchsorted(rows, start) if start.ndim == 1 else start
            tolerance = 10 * self._tolerance or LEVEL_TOLERANCE
            return part._improve(part._go_on(first, reached, tolerance, rng), rng)

        for size in sizes[:-1]:
            rows = np.sort(order[:size])
            part = self._solver_of(problem.subset(rows, priority), progressive=False)
            tries = [descend_on(part, rows) for _ in range(1 if self.ends else _TRIES)]
            best = min(tries, key=attrgetter("objective"))
            if not self.ends:
                self.ends, best = [descent.objective for descent in tries], part.kick(best, rng)
            start, reached = best.points if best.rows is None else rows[best.rows], best.objective
            del part, tries, best, rows  # free memory for the next sample
        del order
        if start is None:
            start = start_rows(problem, init, rng, self._threads)
        return self._improve(self._go_on(start, reached, self._tolerance or ROWS_TOLERANCE, rng), rng)

    def _go_on(
        self, start: np.ndarray, reached: float, tolerance: float, rng: np.random.Generator
    ) -> Descent:
        """Descend from `start`, the end of a sample's descent; `reached` is its objective on the sample.

        If the sample missed far rows, descend from k-means++ too, and return the better descent.
        """
        descent = descend(self.steps, start, self._max_iter, tolerance)
        each = self.problem.table.n / _GROWTH / self.problem.m  # rows of that sample per representative
        if not missed(descent.history[0], reached, each):
            return descent
        anew = start_rows(self.problem, "k-means++", rng, self._threads)
        again = descend(self.steps, anew, self._max_iter, tolerance)
        return min(descent, again, key=attrgetter("objective"))


def swap(
    problem: Problem,
    descent: Descent,
    prices: np.ndarray,
    rng: np.random.Generator,
    threads: Threads,
    sampled: bool = True,
) -> np.ndarray:
    """Swap representatives of a descent for candidates, at prices (G,), on all rows or on a sample.

    Returns points (m, p), or rows (m,) if the descent has rows.
    """
    part, sample, cell_of = problem, np.arange(problem.table.n), problem.cell_of
    if sampled:
        priority = problem.priorities(rng)
        count = min(problem.table.n, max(_SAMPLE, _EACH * problem.m))
        sample = sample_rows(problem, count, rng, priority)
        part = problem.subset(sample, priority)
    table, n = part.table, part.table.n
    centre = np.zeros(table.p) if table.is_single and not sampled else table.centre
    values = table.about(centre) if sampled else table.single
    mass = None if part.masses is None else part.masses.values.astype(np.float32)
    space = Space(values, part.feature_cost, part.cells.cell, part.move, prices, mass)
    size = int(problem.ids.max()) + 1
    taken = np.full(problem.m, -1) if descent.rows is None else cell_of * size + problem.ids[descent.rows]
    points = Points((descent.points - centre).astype(np.float32), cell_of, taken)
    candidates, cells = part.candidates()
    order = rng.permutation(len(candidates))[:_LOOKED_AT]
    tried = max(_SCREENED, _SCREENED_EACH * problem.m)
    if len(order) > 2 * tried:
        some = np.sort(rng.choice(n, _SCREEN, replace=False)) if n > 2 * _SCREEN else np.arange(n)
        changes = estimate(space, points, candidates[order], cells[order], some, threads)
        order = order[np.argsort(changes, kind="stable")[:tried]]
    candidates, cells = candidates[order], cells[order]
    keys = cells * size + part.ids[candidates]
    rows = exchange(space, points, candidates, cells, keys, threads, 1, _LEAST, _AGAIN, _BATCH).rows
    if descent.rows is not None:
        return np.where(rows < 0, descent.rows, sample[rows])
    moved = descent.points.copy()
    moved[rows >= 0] = table.values_of(rows[rows >= 0])
    return moved
