"""Swaps of a problem's representatives for its rows (see `fwc_llm.coreset.fasterpam.engine`).

The prices stay while rows are swapped. The descent that follows says whether the swaps gained, and sets new
prices. Free representatives are exchanged for rows of a sample, from which the descent moves them on.
"""

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from fwc_llm.coreset.descent.loop import Descent, Steps, descend
from fwc_llm.coreset.fasterpam.engine import Patience, estimate, exchange
from fwc_llm.coreset.fasterpam.medoids import Points, Space
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import sample_rows
from fwc_llm.coreset.threads import Threads

_SCREEN = 2048  # rows on which a swap's gain is estimated
_SCREENED, _SCREENED_EACH = 1024, 16  # candidates that are worth a look at all rows, for a representative
_LOOKED_AT = 2**17  # candidates of which these are chosen
_PATIENCE = Patience(passes=1, least=1e-6, again=63, batch=128)
_SAMPLE = 8192  # rows at least
_EACH = 24  # rows for every representative


class Swaps:
    """A problem's rows as candidates for its representatives."""

    def __init__(self, problem: Problem, threads: Threads, centre: np.ndarray | None = None) -> None:
        """`centre` (p,): of which the values are taken less, for representatives that need not be rows."""
        self.problem, self._threads = problem, threads
        self.candidates, self.cells = problem.candidates()
        table = problem.table
        mass = None if problem.masses is None else problem.masses.values.astype(np.float32)
        values = table.single if centre is None else table.about(centre)
        prices = np.zeros(problem.cells.n_cells)
        terms = problem.cells.cell, problem.move, prices, problem.cost, mass, table.mismatch
        self._space = Space(values, table.n_numeric, *terms)

    def keys(self, cells: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Keys of all that can stand for a cell: the cell and the id."""
        return np.asarray(cells * (int(self.problem.ids.max()) + 1) + ids)

    def on_rows(self, rows: np.ndarray) -> Points:
        """The representatives at these rows (m,)."""
        cells = self.problem.cell_of
        return Points(self._space.values[rows], cells, self.keys(cells, self.problem.ids[rows]))

    def seek(self, points: Points, prices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The rows (m,) that swaps at these prices put in the place of the points, −1 where one stays.

        Of many candidates, those are tried that gain most on some of the rows.
        """
        space = replace(self._space, prices=prices)
        order = rng.permutation(len(self.candidates))[:_LOOKED_AT]
        tried = max(_SCREENED, _SCREENED_EACH * len(points.keys))
        if len(order) > 2 * tried:
            n = self.problem.table.n
            rows = np.sort(rng.choice(n, _SCREEN, replace=False)) if n > 2 * _SCREEN else np.arange(n)
            some = self.candidates[order], self.cells[order]
            changes = estimate(space, points, *some, rows, self._threads)
            order = order[np.argsort(changes, kind="stable")[:tried]]
        candidates, cells = self.candidates[order], self.cells[order]
        keys = self.keys(cells, self.problem.ids[candidates])
        return exchange(space, points, candidates, cells, keys, _PATIENCE, self._threads).rows


@dataclass(frozen=True)
class RowOptimum:
    """The end of a descent on rows, and the prices (G,) at which to seek swaps from there.

    `prices` are the mean of those of the descent and those at which its start was found. At the descent's own
    prices alone swaps overshoot: they swing between two sides, and the objective rises.
    """

    descent: Descent
    prices: np.ndarray

    @property
    def objective(self) -> float:
        """The objective of the descent."""
        return self.descent.objective

    @property
    def rows(self) -> np.ndarray:
        """The rows (m,) where it ended."""
        return np.asarray(self.descent.rows)


class RowSwaps:
    """Swaps of rows and descents of at most `max_iter` moves, by turns."""

    def __init__(self, steps: Steps, swaps: Swaps, max_iter: int) -> None:
        self._steps, self._swaps, self._max_iter = steps, swaps, max_iter

    def descend(self, rows: np.ndarray, prices: np.ndarray | None = None) -> RowOptimum:
        """Descends from rows (m,) that swaps at `prices` have found."""
        descent = descend(self._steps, rows, self._max_iter)
        own = self._steps.prices
        return RowOptimum(descent, own if prices is None else (prices + own) / 2)

    def settle(self, optimum: RowOptimum, rng: np.random.Generator, rounds: int) -> RowOptimum:
        """Swaps for at most so many rounds; a round that does not gain is followed by another."""
        last = best = optimum
        for _ in range(rounds):
            self._steps.rest()  # the rows in another order, for the swaps, are as much
            swapped = self._swaps.seek(self._swaps.on_rows(last.rows), last.prices, rng)
            if (swapped < 0).all():
                break
            last = self.descend(np.where(swapped < 0, last.rows, swapped), last.prices)
            best = min(best, last, key=attrgetter("objective"))
        return best


def swap_on_sample(
    problem: Problem, descent: Descent, prices: np.ndarray, rng: np.random.Generator, threads: Threads
) -> np.ndarray:
    """Swaps from a descent and its prices (G,): to points (m, p), or rows (m,) if it is on rows."""
    priority = problem.priorities(rng)
    sample = sample_rows(problem, min(problem.table.n, max(_SAMPLE, _EACH * problem.m)), rng, priority)
    part, cells = problem.subset(sample, priority), problem.cell_of
    swaps = Swaps(part, threads, part.table.centre)
    keys = np.full(len(cells), -1) if descent.rows is None else swaps.keys(cells, problem.ids[descent.rows])
    points = Points((descent.points - part.table.centre).astype(np.float32), cells, keys)
    rows = swaps.seek(points, prices, rng)
    if descent.rows is not None:
        return np.where(rows < 0, descent.rows, sample[rows])
    moved = descent.points.copy()
    moved[rows >= 0] = part.table.values_of(rows[rows >= 0])
    return moved
