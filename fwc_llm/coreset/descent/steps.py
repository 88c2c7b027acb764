"""The steps of an iteration in compiled code, for large tables.

Rows and representatives are compared in float32. A pair of a row and a cell that cannot matter
keeps a lower bound as its cost. If the plan uses such pairs, their costs are computed and the inner
problem is solved again. `certify` computes all pairs in float64.
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import read_only
from fwc_llm.coreset.descent.assignment import (
    AT_ONCE,
    BITS,
    STALE,
    STATES,
    WANTED,
    Representatives,
    Rows,
    assign_rows,
)
from fwc_llm.coreset.descent.loop import Steps
from fwc_llm.coreset.descent.updates import RowAssignment
from fwc_llm.coreset.problem.ground_cost import ROWS, WIDTH, Tiles
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.inner_problem import Transport

SMALL = (
    2 * 10**7
)  # n · m · p below which computing all costs is faster than a second inner problem


class CompiledSteps(Steps):
    """`Steps` for large tables, with the same results."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        super().__init__(problem, threads)
        table = problem.table
        self._costs = problem.feature_cost, problem.move.astype(np.float32)
        self._reps: Representatives | None = None
        self._first = np.searchsorted(
            problem.cell_of, np.arange(problem.cells.n_cells + 1)
        )
        self._small = table.n * problem.m * table.p < SMALL
        self._drift = np.inf
        self._objective = 0.0

    @cached_property
    def state(self) -> Rows:
        """The rows and the state of each pair; made at the first use, freed by `rest`."""
        n = self.problem.table.n
        shape = n, self.problem.cells.n_cells
        least = np.where(self.problem.seats > 0, 0, np.inf).astype(np.float32)
        return Rows(
            read_only(self.problem.table.single),
            self.problem.cells.cell.astype(np.int16),
            np.zeros(n, np.int16),
            np.tile(least, (n, 1)),
            np.full(shape, STALE, np.int32),
            np.zeros(shape, np.float32),
        )

    def rest(self) -> None:
        """See `Steps`."""
        vars(self).pop("state", None)
        self._reps = None

    def solve(self, points: Array) -> tuple[Transport, RowAssignment]:
        """See `Steps`."""
        reps = self._represent(points)
        if self._small:
            margin = np.inf
        else:
            margin = 2 * self._drift + 0.01 * self._objective
        self._assign(reps, margin)
        n = self.problem.table.n
        packed = self.state.packed
        while True:
            inner = self.problem.transport(self.state.cost, self.prices)
            self._drift = float(np.abs(inner.prices - self.prices).max())
            self.prices = inner.prices
            row = np.append(np.arange(n), inner.split_row)
            cell = np.append(inner.cell, inner.split_cell)
            word = packed[row, cell]
            stale = np.flatnonzero(word % STATES == STALE)
            if not len(stale):
                break
            packed[row[stale], cell[stale]] += WANTED - STALE
            chunks = np.unique(row[stale] // AT_ONCE)
            self._assign(reps, 0.0, chunks * AT_ONCE)
        self.state.chosen[:] = inner.cell
        self._objective = inner.objective
        label = (self._first[cell] + (word >> BITS)).astype(np.int32)
        return inner, RowAssignment(
            label[:n],
            inner.split_row,
            label[n:],
            inner.split_share,
            self.problem.m,
            self.problem.masses,
            inner.row_mass,
        )

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """See `Steps`."""
        self.rest()  # free memory for the costs in float64
        vars(self.problem.table).pop("single", None)  # a cached copy
        return super().nearest(points)

    def _represent(self, points: Array) -> Representatives:
        """Lay out the representatives, and measure how far they moved since the last call."""
        cost = self.problem.feature_cost
        cells = self.problem.cells.n_cells
        near = np.ascontiguousarray(points - self.problem.table.origin, np.float32)
        longest = np.zeros(cells, np.float32)
        drift = np.zeros(cells, np.float32)
        before = near
        if self._reps is not None:
            before = self._reps.points
            drift = self._reps.drift
        way = cost.between(near.T.astype(np.float64), before.T)
        step = (np.sqrt(way) if cost.root else way).astype(np.float32)
        np.maximum.at(longest, self.problem.cell_of, step)
        tiles = Tiles.of(near, self.problem.cell_of, cells)
        first = self._first.astype(np.uintp)
        steps = step, longest, drift + longest
        self._reps = Representatives(near, tiles, first, *steps)
        return self._reps

    def _assign(
        self, reps: Representatives, margin: float, starts: Iterable[int] | None = None
    ) -> None:
        """Update the costs of all rows, or the wanted ones of `AT_ONCE` rows from each of the
        `starts`, by `assign_rows`.
        """
        n, p = self.state.x.shape
        prices = self.prices.astype(np.float32)
        terms = (
            self.state,
            reps,
            *self._costs,
            prices,
            np.float32(min(margin, 1e30)),
            starts is not None,
        )

        def assign(low: int) -> None:
            queue = np.empty((len(prices), ROWS), np.int32)
            waiting = np.zeros(len(prices), np.int64)
            # Separate arrays, because LLVM cannot see that parts of one array do not overlap.
            work = (
                np.empty((p, ROWS), np.float32),
                np.empty((WIDTH, ROWS), np.float32),
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.int32),
            )
            assign_rows(*terms, queue, waiting, work, low, min(low + AT_ONCE, n))

        self._threads.over(assign, range(0, n, AT_ONCE) if starts is None else starts)
