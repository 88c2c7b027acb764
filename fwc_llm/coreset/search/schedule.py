"""Solve a problem from a start: descend, swap, kick, and grow samples, as the effort says."""

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search import effort
from fwc_llm.coreset.search.effort import TINY
from fwc_llm.coreset.search.start import kicked, missed, sampling_order, start_rows
from fwc_llm.coreset.search.swaps import swap
from fwc_llm.coreset.threads import Threads

_ROUNDS = 3  # rounds of swaps and descents, at most
_TRIES = 2  # starts on the smallest sample
_EACH = 16  # rows of the smallest sample per representative, at least
_GROWTH = 4  # ratio of the sizes of successive samples
_ROUND_PAYS = 1e-3  # relative gain from which another round follows
_PAYS = (
    2e-3  # relative gain of all kicks since the last one that paid, from which they pay
)


@dataclass
class Solver:
    """Solves one problem from any start, with `n_jobs` threads (None: one per processor).

    `tolerance` is the relative gain of an iteration that ends a descent; "auto": by the size of the
    table.
    """

    problem: Problem
    max_iter: int
    swaps: bool | str
    progressive: bool | str
    n_jobs: int | None
    tolerance: float | str = "auto"

    def __post_init__(self) -> None:
        problem = self.problem
        terms = self.swaps, self.progressive, self.tolerance
        self.effort = effort.choose(problem, *terms)
        self.ends: list[float] = []  # objectives at which starts ended on a sample
        # The choice depends on the problem alone: compiled code in the cache must not change the
        # result.
        plain = not problem.table.fits_single or problem.table.n * problem.m <= TINY
        self._threads = Threads(1 if plain else self.n_jobs)
        self.steps: Steps = (
            Steps(problem) if plain else CompiledSteps(problem, self._threads)
        )

    def from_name(self, init: str, rng: Rng) -> Descent:
        """Start from "k-means++" or "random", descend and swap."""
        if self.effort.from_rows:
            problem = replace(self.problem, support="rows")
            rows = replace(self, problem=problem, progressive="auto")
            start = np.asarray(rows.from_name(init, rng).rows)
            self.ends = rows.ends
            del rows
            return descend(self.steps, start, self.max_iter, self.effort.tolerance)
        if self.effort.grows:
            return self._grow(init, rng)
        return self.from_start(start_rows(self.problem, init, rng, self._threads), rng)

    def from_start(self, start: Array, rng: Rng) -> Descent:
        """Start from given rows (m,) or points (m, p), descend and swap."""
        tolerance = self.effort.rough or self.effort.tolerance
        return self._improve(descend(self.steps, start, self.max_iter, tolerance), rng)

    def finish(self, descent: Descent, rng: Rng, kicks: bool = True) -> Descent:
        """Kick an optimum as long as that pays, and descend from the best one to the last digit."""
        if kicks:
            descent = self.kick(descent, rng)
        if self.effort.rough:
            last = descend(
                self.steps, descent.points, self.max_iter, self.effort.tolerance
            )
            descent = min(descent, last.after(descent), key=attrgetter("objective"))
        return descent

    def kick(self, descent: Descent, rng: Rng) -> Descent:
        """Replace some representatives at random, swap and descend, as long as that pays.

        Kicks end when `patience` of them in a row gain less than 0.2 % together.
        """
        if not self.effort.patience or self.max_iter == 0:
            return descent
        self.steps.solve(descent.points)
        prices = self.steps.prices
        left = self.effort.patience
        paid = descent.objective
        while left > 0:
            other = kicked(self.problem, descent, rng)
            start = swap(self.problem, other, prices, rng, self._threads)
            again = descend(self.steps, start, self.max_iter, self.effort.rough)
            if again.objective < descent.objective:
                descent = again.after(descent)
                prices = self.steps.prices
            left -= 1
            if descent.objective < (1 - _PAYS) * paid:
                paid = descent.objective
                left = self.effort.patience
        return descent

    def _improve(self, descent: Descent, rng: Rng) -> Descent:
        """Alternate swaps and descents, if swaps are wanted; return the best descent.

        Swaps of real rows use the mean of the last prices and those before: the last prices alone
        overshoot.
        """
        if not self.effort.swaps or self.max_iter == 0:
            return descent
        on_rows = self.effort.swaps == "rows"
        if on_rows:
            self.steps.solve(descent.points)
        best = last = descent
        prices = self.steps.prices
        for _ in range(_ROUNDS):
            if on_rows:
                self.steps.rest()  # swaps need as much memory for sorted rows
            start = swap(
                self.problem, last, prices, rng, self._threads, sampled=not on_rows
            )
            last = descend(self.steps, start, self.max_iter, self.effort.rough)
            if on_rows:
                prices = (prices + self.steps.prices) / 2
            else:
                prices = self.steps.prices
            before = best.objective
            if last.objective < before:
                best = last.after(descent)
            if last.objective > (1 - _ROUND_PAYS) * before:
                break
        return best

    def _grow(self, init: str, rng: Rng) -> Descent:
        """Descend on a sample, on larger samples that contain it, and last on all rows."""
        problem = self.problem
        sizes = [min(problem.table.n, effort.SWAPPED)]
        while sizes[0] / _GROWTH >= max(effort.SMALLEST, _EACH * problem.m):
            sizes.insert(0, sizes[0] // _GROWTH)
        if problem.table.n > effort.SWAPPED:
            sizes.append(problem.table.n)
        priority = problem.priorities(rng)
        order = sampling_order(problem, rng, priority)
        start: Array | None = None
        reached = np.inf
        tolerance = max(10 * self.effort.tolerance, effort.SAMPLE_TOLERANCE)
        for size in sizes[:-1]:
            rows = np.sort(order[:size])
            some = problem.subset(rows, priority)
            part = replace(self, problem=some, progressive=False)
            if start is not None and start.ndim == 1:
                start = np.searchsorted(rows, start)
            terms = start, init, reached, tolerance, rng
            tries = [part._go_on(*terms) for _ in range(1 if self.ends else _TRIES)]
            best = min(tries, key=attrgetter("objective"))
            if not self.ends:
                self.ends = [descent.objective for descent in tries]
                best = part.kick(best, rng)
            start = best.points if best.rows is None else rows[best.rows]
            reached = best.objective
            del some, part, tries, best, rows  # free memory for the next sample
        del order
        return self._go_on(start, init, reached, self.effort.tolerance, rng)

    def _go_on(
        self, start: Array | None, init: str, reached: float, tolerance: float, rng: Rng
    ) -> Descent:
        """Descend from `start`, the end of a sample's descent, and swap; `reached` is its
        objective on the sample.

        If the sample missed far rows, descend from k-means++ too; the better descent counts.
        """
        if start is None:
            start = start_rows(self.problem, init, rng, self._threads)
        descent = descend(self.steps, start, self.max_iter, tolerance)
        rows_per_point = self.problem.table.n / _GROWTH / self.problem.m
        if missed(descent.history[0], reached, rows_per_point):
            anew = start_rows(self.problem, "k-means++", rng, self._threads)
            again = descend(self.steps, anew, self.max_iter, tolerance)
            descent = min(descent, again, key=attrgetter("objective"))
        return self._improve(descent, rng)
