"""The steps of an iteration in compiled code, for large tables.

Rows and representatives are compared in float32. A pair of a row and a cell that cannot matter
keeps a lower bound as its cost. If the plan uses such pairs, their costs are computed and the inner
problem is solved again. `certify` computes all pairs in float64.
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from fwc_llm.coreset.compiled import read_only
from fwc_llm.coreset.descent.assignment import (
    AGES,
    BITS,
    BOUNDED,
    DOUBTFUL,
    EVERY,
    STALE,
    STATES,
    WANTED,
    Costs,
    Representatives,
    Rows,
    assign_rows,
    find_exactly,
)
from fwc_llm.coreset.descent.loop import Steps
from fwc_llm.coreset.descent.updates import Changes, RowAssignment, medoids
from fwc_llm.coreset.problem.ground_cost import ROWS, WIDTH
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads

_FEW = 2048  # rows per call if only few are computed
SMALL = 2 * 10**7  # n · m · p below which computing all costs is faster than a second inner problem
_HALF_ULP = 2.0**-24


class CompiledSteps(Steps):
    """`Steps` for large tables, with the same results."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        super().__init__(problem, threads)
        table = problem.table
        cells = problem.cells
        self._shift = np.zeros(table.p) if table.is_single else table.centre
        self._cell = cells.cell.astype(np.int16)
        terms = problem.feature_cost, problem.move.astype(np.float32)
        self._costs = Costs(*terms, relative=np.float32(0), absolute=np.float32(0))
        self._reps: Representatives | None = None
        own = [np.flatnonzero(problem.cell_of == g).astype(np.int32) for g in range(cells.n_cells)]
        tiles = [
            np.pad(j, (0, -len(j) % WIDTH), constant_values=-1).reshape(-1, WIDTH) for j in own
        ]
        self._tiles = np.concatenate(tiles), np.cumsum([0, *map(len, tiles)])
        self._first = np.searchsorted(problem.cell_of, np.arange(cells.n_cells + 1))
        self._small = table.n * problem.m * table.p < SMALL
        self._iteration = 0
        self._before: list[
            np.ndarray
        ] = []  # (m, p) the representatives in each of the last AGES iterations
        self._drift = np.inf
        self._objective = 0.0
        self._changes = Changes()
        self._last_rows = np.full(problem.m, -1)

    @cached_property
    def _rows(self) -> Rows:
        """The rows and the state of each pair; made at the first use, freed by `rest`."""
        n = self.problem.table.n
        shape = n, self.problem.cells.n_cells
        return Rows(
            read_only(self.problem.table.single),
            self._cell,
            np.zeros(n, np.int16),
            np.full(shape, np.inf, np.float32),
            np.full(shape, STALE - 2**BITS, np.int32),  # no nearest representative
            np.zeros(shape, np.float32),
        )

    def rest(self) -> None:
        """See `Steps`."""
        vars(self).pop("_rows", None)
        self._reps = None

    def solve(self, points: np.ndarray) -> tuple[float, RowAssignment]:
        """See `Steps`."""
        reps, which = self._place(points)
        if self._small:
            margin = np.inf
        else:
            margin = 2 * self._drift + 0.01 * self._objective
        self._assign(self._costs, reps, which, margin)
        while True:
            inner = self.problem.transport(self._rows.cost, self.prices)
            self._drift = float(np.abs(inner.prices - self.prices).max())
            self.prices = inner.prices
            packed = self._rows.packed
            word = packed[np.arange(len(packed)), inner.cell]
            rows = np.flatnonzero(word % STATES == STALE)
            parts = packed[inner.split_row, inner.split_cell] % STATES == STALE
            if not len(rows) and not parts.any():
                break
            for pairs in (
                (rows, inner.cell[rows]),
                (inner.split_row[parts], inner.split_cell[parts]),
            ):
                packed[pairs] += WANTED - packed[pairs] % STATES
            chunks = np.unique(np.concatenate([rows, inner.split_row[parts]]) // _FEW)
            self._assign(self._costs, reps, WANTED, starts=chunks * _FEW)
        self._rows.chosen[:] = inner.cell
        self._objective = inner.objective
        label = (self._first[inner.cell] + (word >> BITS)).astype(np.int32)
        part = packed[inner.split_row, inner.split_cell] >> BITS
        parts = inner.split_row, self._first[inner.split_cell] + part, inner.split_share
        return inner.objective, RowAssignment(
            label, *parts, self.problem.m, self.problem.masses, inner.row_mass
        )

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`."""
        table = self.problem.table
        reps = self._place(points)[0]
        # The errors of rounding to float32, and of sums in float32.
        x = table.single
        root = self.problem.feature_cost.root
        largest = np.maximum(np.abs(x.min(axis=0)), np.abs(x.max(axis=0))).astype(np.float64)
        if table.is_single:
            rounding = np.zeros(table.p)
        else:
            rounding = 2 * _HALF_ULP * largest
        if root:
            absolute = np.sqrt((rounding**2).sum())
        else:
            absolute = rounding.sum()
        relative = np.float32((table.p + 4) * _HALF_ULP)
        costs = self._costs._replace(relative=relative, absolute=np.float32(absolute))
        self._assign(costs, reps, EVERY, np.inf)
        label = self._rows.packed
        self.rest()  # free memory for the costs in float64
        vars(table).pop("single", None)  # a cached copy
        cost = np.empty(label.shape)
        exact = np.array(points, np.float64, order="C")

        def make_exact(low: int) -> None:
            values = table.values_of(slice(low, low + _FEW))
            high = low + len(values)
            for g in range(cost.shape[1]):
                word, first, last = label[low:high, g], *self._first[g : g + 2]
                doubtful = word % STATES == DOUBTFUL
                own = first + (word >> BITS)
                start = np.where(doubtful, first, own)
                stop = np.where(doubtful, last, own + 1)
                if first == last:
                    stop = start
                place = np.empty(high - low, np.int64)
                least = np.empty(high - low)
                find_exactly(values, exact, start, stop, self.problem.feature_cost, place, least)
                label[low:high, g] = place
                cost[low:high, g] = least + self.problem.move[self._cell[low:high], g]

        self._threads.over(make_exact, range(0, len(cost), _FEW))
        return cost, label.T

    @property
    def skipped(self) -> float:
        """Share of the pairs of a row and a cell whose cost is a lower bound after `solve`."""
        return float((self._rows.packed % STATES == STALE).mean())

    def _place(self, points: np.ndarray) -> tuple[Representatives, int]:
        """Return the representatives, and BOUNDED, or EVERY if they moved too far for useful
        bounds.
        """
        cell_of = self.problem.cell_of
        cells = self.problem.cells.n_cells
        near = np.ascontiguousarray(points - self._shift, np.float32)
        old = self._reps
        now = (self._iteration + 1) % AGES
        if old is None:
            step = np.full(len(points), np.inf)
        else:
            step = self._measure_ways(near, old.points)
        if self.problem.feature_cost.root:
            typical = np.sqrt(self._objective)
        else:
            typical = self._objective
        everything = old is None or bool(step.max() > typical / 2)
        come = np.zeros((AGES, cells), np.float32)
        if everything:
            self._before, step = [near] * AGES, np.zeros(len(points))
        else:
            ways = self._measure_ways(np.tile(near, (AGES, 1)), np.concatenate(self._before))
            np.maximum.at(come.T, cell_of, ways.reshape(AGES, -1).T)
        self._before[now] = near
        self._iteration += 1
        tile_label, tile_start = self._tiles
        tiles = np.ascontiguousarray(near[tile_label].transpose(0, 2, 1))
        terms = self._first.astype(np.uintp), step.astype(np.float32), now, come
        self._reps = Representatives(near, tiles, tile_label, tile_start, *terms)
        return self._reps, EVERY if everything else BOUNDED

    def _measure_ways(self, near: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Distance (m,) from each earlier point in `before` (m, p) to its new point in `near`
        (m, p).
        """
        ways = self.problem.feature_cost.between(near.T.astype(np.float64), before.T)
        return np.sqrt(ways) if self.problem.feature_cost.root else ways

    def _assign(
        self,
        costs: Costs,
        reps: Representatives,
        which: int,
        margin: float = 0.0,
        starts: Iterable[int] | None = None,
    ) -> None:
        """Update the costs of all rows, or of `_FEW` rows from each of the `starts`, by
        `assign_rows`.
        """
        (n, p), prices = self._rows.x.shape, self.prices.astype(np.float32)
        if starts is None:
            chunk = self._threads.share(n)
        else:
            chunk = _FEW
        arguments = (self._rows, reps, costs, prices, np.float32(min(margin, 1e30)), which)

        def assign(low: int) -> None:
            queue = np.empty((len(prices), ROWS), np.int32)
            waiting = np.zeros(len(prices), np.int64)
            # Separate arrays, because LLVM cannot see that parts of one array do not overlap.
            work = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
            nearest = (
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.float32),
                np.empty(ROWS, np.int32),
            )
            assign_rows(*arguments, queue, waiting, (*work, *nearest), low, min(low + chunk, n))

        self._threads.over(assign, range(0, n, chunk) if starts is None else starts)

    def move_rows(self, shares: RowAssignment, rows: np.ndarray) -> np.ndarray:
        """See `Steps`; a representative that carries the same rows as before stays."""
        changed = self._changes.find(shares) | (rows != self._last_rows)
        self._last_rows = medoids(self.problem, shares, rows, np.flatnonzero(changed))
        return self._last_rows.copy()


def nearest_points(
    problem: Problem, points: np.ndarray, threads: Threads
) -> tuple[np.ndarray, np.ndarray]:
    """Return the float64 cost (n, G) and index (G, n) of the nearest of the points (m, p) in
    each cell.
    """
    steps = CompiledSteps(problem, threads) if problem.table.fits_single else Steps(problem)
    return steps.nearest(points)
