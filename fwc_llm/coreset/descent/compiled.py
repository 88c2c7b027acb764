"""The steps of an iteration in compiled code: for tables large enough to be worth a compiler's while.

Rows and representatives are compared in float32; where it cannot tell which is nearer, float64 decides. Pairs
of a row and a cell that cannot matter keep a lower bound as their cost: where the plan of the inner problem
uses none of these, it is optimal for the true costs too, and where it uses some, they are made exact and the
inner problem solved again. `certify` evaluates everything, in float64.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from fwc_llm.coreset.compiling.kernel import read_only
from fwc_llm.coreset.descent import assignment_kernels as kernels
from fwc_llm.coreset.descent import move_kernels as moves
from fwc_llm.coreset.descent.assignment_kernels import (
    BOUNDED,
    DOUBTFUL,
    EVERY,
    STALE,
    WANTED,
    Costs,
    Representatives,
    Rows,
)
from fwc_llm.coreset.descent.medians import Medians, label_type
from fwc_llm.coreset.descent.plain import share_out
from fwc_llm.coreset.descent.tile import WIDTH
from fwc_llm.coreset.descent.updates import Groups, Medoids, Shares, modes, move_to_medians
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import CHUNK, Threads
from fwc_llm.coreset.transport.fair import Transport

_SAFE = 1e10  # largest magnitude whose square, summed over columns, is far from float32's end
_FEW = 2048  # rows at once, where few are looked at
SMALL = 10**8  # pairs of numbers that are compared faster than bounds are looked up
_HALF_ULP = 2.0**-24


def fits(values: np.ndarray, n_numeric: int) -> bool:
    """Whether float32 can hold the differences within the columns of `values` (n, p)."""
    low, high = (
        values[:, :n_numeric].min(axis=0, initial=np.inf),
        values[:, :n_numeric].max(axis=0, initial=-np.inf),
    )
    span = float((high.astype(np.float64) - low).max(initial=0.0))
    # float32 is used as it is, all else about its mean.
    offset = (
        float(np.maximum(np.abs(low), np.abs(high)).max(initial=0.0)) if values.dtype == np.float32 else 0.0
    )
    return bool(span == 0 or span > 1 / _SAFE) and max(span, offset) < _SAFE


class CompiledSteps:
    """See `fwc_llm.coreset.descent.loop.Steps`."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        self.problem = problem
        self._threads = threads
        table, cells = problem.table, problem.cells
        self._shift = np.zeros(table.p)
        exact = table.values.dtype == np.float32 and table.values.flags.c_contiguous
        if exact:
            x = read_only(table.values)
        else:
            self._shift[: table.n_numeric] = table.values[:, : table.n_numeric].mean(axis=0)
            x = np.ascontiguousarray(table.values - self._shift, dtype=np.float32)
        n, shape = table.n, (table.n, cells.n_cells)
        label = np.full(shape, -1, np.int16 if problem.m < 2**15 else np.int32)
        cost = np.full(shape, np.inf, np.float32)
        self._rows = Rows(
            x,
            cells.cell.astype(np.int16),
            np.zeros(n, np.int32),
            cost,
            np.zeros(shape, np.int8),
            label,
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
        )
        largest = np.maximum(np.abs(x.min(axis=0)), np.abs(x.max(axis=0))).astype(np.float64)
        rounding = np.zeros(table.p) if exact else 2 * _HALF_ULP * largest
        squared = problem.cost == "sqeuclidean"
        absolute = np.sqrt((rounding**2).sum()) if squared else rounding.sum()
        self._costs = Costs(
            table.n_numeric,
            squared,
            problem.move.astype(np.float32),
            np.float32((table.p + 4) * _HALF_ULP),
            np.float32(absolute),
        )
        # Sums of whole numbers are exact in float32 up to 2^24: then even ties need no second look.
        bound = (2 * largest + 1) ** (2 if squared else 1)
        self._whole = bool(bound.sum() < 2**24) and all((column == np.rint(column)).all() for column in x.T)
        self._reps: Representatives | None = None
        self._points = np.empty(0)
        self.prices = np.zeros(cells.n_cells)
        self._small = table.n * problem.m * table.p < SMALL
        self._drift = np.inf
        self._objective = 0.0
        self._unsplit_medians: Medians | None = None
        self._medoids: CompiledMedoids | None = None

    def solve(self, points: np.ndarray) -> tuple[float, Shares]:
        """See `Steps`."""
        reps, everything = self._place(points)
        self._assign(reps, everything, 2 * self._drift + 0.01 * self._objective)
        while True:
            inner = self.problem.transport(self._rows.cost, self.prices)
            self._drift = float(np.abs(inner.prices - self.prices).max())
            self.prices = inner.prices
            label = np.empty(self.problem.table.n, np.int32)
            fresh = self._rows.fresh
            stale = self._threads.over_rows(
                kernels.pick, fresh, self._rows.label, inner.cell, label, n=len(label)
            )
            parts = fresh[inner.split_row, inner.split_cell] == STALE
            if not sum(stale) and not parts.any():
                break
            rows = np.flatnonzero(label < 0)
            fresh[rows, inner.cell[rows]] = WANTED
            fresh[inner.split_row[parts], inner.split_cell[parts]] = WANTED
            chunks = np.unique(np.concatenate([rows, inner.split_row[parts]]) // _FEW)
            self._look_at(WANTED, 0.0, chunks * _FEW, _FEW)
        self._rows.chosen[:] = inner.cell
        self._objective = inner.objective
        part = self._rows.label[inner.split_row, inner.split_cell].astype(np.int64)
        return inner.objective, Shares(label, inner.split_row, part, inner.split_share, self.problem.m)

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `PlainSteps`: the costs (n, G) in float64, and the labels (G, n)."""
        reps, everything = self._place(points)
        self._assign(reps, everything, np.inf)
        cost, rows, costs = np.empty(self._rows.cost.shape), self._rows, self._costs

        def exact(low: int, high: int) -> None:
            part = slice(low, high)
            values = np.array(self.problem.table.values[part], np.float64, order="C")
            kernels.exact_costs(
                *(values, self._points, rows.label[part], rows.cell[part], self.problem.move),
                *(costs.n_numeric, costs.squared, cost[part]),
            )

        self._threads.over_rows(exact, n=len(cost))
        return cost, self._rows.label.T

    def certify(self, points: np.ndarray) -> tuple[Transport, Shares]:
        """See `Steps`."""
        self._unsplit_medians = None  # room for the costs in float64
        cost, label = self.nearest(points)
        inner = self.problem.transport(cost, self.prices)
        return inner, share_out(inner, label, self.problem.m)

    @property
    def skipped(self) -> float:
        """The share of the pairs of a row and a cell that `solve` has left at a lower bound."""
        return float((self._rows.fresh == STALE).mean())

    def _place(self, points: np.ndarray) -> tuple[Representatives, bool]:
        """The representatives, and whether they came so far that bounds are of no use."""
        squared = self._costs.squared
        cell_of, cells = self.problem.cell_of, self.problem.cells.n_cells
        near = np.ascontiguousarray(points - self._shift, np.float32)
        whole = self._whole and bool((near == np.rint(near)).all())
        relative = np.float32(0.0 if whole else (near.shape[1] + 4) * _HALF_ULP)
        self._costs = self._costs._replace(relative=relative)
        old = self._reps
        step = np.full(len(points), np.inf)
        if old is not None:
            step = feature_costs(
                near.T.astype(np.float64), self._costs.n_numeric, old.points.T, self.problem.cost
            )
            step = np.sqrt(step) if squared else step
        typical = np.sqrt(self._objective) if squared else self._objective
        everything = self._small or old is None or bool(step.max() > typical)
        way, reach = np.zeros(len(points), np.float32), np.zeros(cells, np.float32)
        if old is not None and not everything:
            longest = np.zeros(cells)
            np.maximum.at(longest, cell_of, step)
            way, reach = (
                (old.way + 1.000001 * step).astype(np.float32),
                (old.reach + 1.000001 * longest).astype(np.float32),
            )
        tiles, tile_label, tile_start = _tiles(near, cell_of, cells)
        self._points = np.array(points, np.float64, order="C")
        self._reps = Representatives(near, tiles, tile_label, tile_start, way, reach)
        return self._reps, everything

    def _assign(self, reps: Representatives, everything: bool, margin: float) -> None:
        chunks = range(0, self.problem.table.n, CHUNK)
        self._look_at(EVERY if everything else BOUNDED, margin, chunks, CHUNK)

    def _look_at(self, which: int, margin: float, starts: Iterable[int], chunk: int) -> None:
        """Brings the costs of these chunks of rows up to date, see `assign_rows`."""
        (n, p), prices = self._rows.x.shape, self.prices.astype(np.float32)
        arguments = (self._rows, self._reps, self._costs, prices, np.float32(min(margin, 1e30)), which)

        def assign(low: int) -> int:
            work = kernels.make_work(p, len(prices))
            return int(kernels.assign_rows(*arguments, *work, low, min(low + chunk, n)))

        doubtful = self._threads.over(assign, starts)
        if sum(doubtful):
            self._settle()

    def _settle(self) -> None:
        """Decides in float64 what float32 left in doubt."""
        fresh, values = self._rows.fresh, self.problem.table.values
        doubtful = np.unique(np.flatnonzero(fresh == DOUBTFUL) // fresh.shape[1])

        def settle(low: int, high: int) -> None:
            rows = doubtful[low:high]
            part = np.array(values[rows], np.float64, order="C")
            kernels.settle(self._rows, self._reps, self._costs, rows, part, self._points)

        self._threads.over_rows(settle, n=len(doubtful), chunk=_FEW)

    def move_points(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        move = self._medians if self.problem.cost == "l1" else self._means
        return move(shares, points)

    def _medians(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        table = self.problem.table
        m = shares.m
        if self._unsplit_medians is None:
            self._unsplit_medians = Medians(table, m, self._threads)
        label = shares.label.astype(label_type(m))
        label[shares.part_row] = m  # split rows count for none here
        moved = self._unsplit_medians.move(label, points)
        torn = np.unique(np.concatenate([shares.label[shares.part_row], shares.part_label]))
        moved[torn] = points[torn]
        groups = shares.grouped(torn)
        self._threads.over(lambda j: move_to_medians(table, groups, [j], moved), torn.tolist())
        return modes(table, shares, moved)

    def _means(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        table = self.problem.table

        def add(low: int, high: int) -> np.ndarray:
            sums = np.zeros((shares.m, table.n_numeric))
            values = np.array(table.numbers[low:high], np.float64, order="C")
            moves.sum_rows(values, shares.label[low:high], sums)
            return sums

        sums = self._threads.over_rows(add, n=table.n, chunk=max(CHUNK, -(-table.n // 64)))
        total = np.sum(sums, axis=0)
        parts = table.numbers[shares.part_row] * shares.part_weight[:, None]
        np.subtract.at(total, shares.label[shares.part_row], parts)
        np.add.at(total, shares.part_label, parts)
        weights = shares.weights()
        moved = points.copy()
        moved[weights > 0, : table.n_numeric] = total[weights > 0] / weights[weights > 0, None]
        return modes(table, shares, moved)

    def move_rows(self, shares: Shares, rows: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        problem = self.problem
        if self._medoids is None:
            self._medoids = CompiledMedoids(problem, self._threads)
        return self._medoids.move(shares, rows, problem.cell_of)


class CompiledMedoids(Medoids):
    """The same medoids from compiled tables, some representatives at a time."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        super().__init__(problem.table, problem.cost, problem.ids, problem.pools)
        self._threads = threads
        self._offset = np.concatenate([[0], np.cumsum([len(values) for values in self.values])])
        self._longest = max(len(values) for values in self.values)
        self._flat = np.concatenate(self.values).astype(np.float64)

    def costs(self, rows: np.ndarray, weight: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """See `Medoids`."""
        out = np.empty(candidates.shape[1])
        moves.medoid_costs(
            *(rows, weight, self.codes, self._flat, self._offset, self.table.n_numeric),
            *(self.cost == "sqeuclidean", candidates, np.empty(self._longest), out),
        )
        return out

    def _costs(
        self, groups: Groups, row_index: np.ndarray, cell_of: np.ndarray
    ) -> Iterator[tuple[int, float, np.ndarray]]:
        occupied = np.flatnonzero(np.diff(groups.start))
        batch = 4 * self._threads.count

        def one(j: int) -> tuple[int, float, np.ndarray]:
            rows, weight = groups.of(j)
            own = np.ascontiguousarray(self.codes[:, row_index[j : j + 1]])
            return (
                j,
                float(self.costs(rows, weight, own)[0]),
                self.costs(rows, weight, self.pool_codes[cell_of[j]]),
            )

        for start in range(0, len(occupied), batch):
            yield from self._threads.over(one, occupied[start : start + batch].tolist())


def _tiles(points: np.ndarray, cell_of: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points (m, p) in tiles (T, p, WIDTH), their places (T, WIDTH), and the cells' tiles (G + 1,)."""
    counts = np.bincount(cell_of, minlength=cells)
    start = np.concatenate([[0], np.cumsum(-(-counts // WIDTH))])
    label = np.full((int(start[-1]), WIDTH), -1, np.int32)
    first = np.cumsum(counts) - counts
    within = np.arange(len(points)) - first[cell_of]
    label[start[cell_of] + within // WIDTH, within % WIDTH] = np.arange(len(points))
    tiles = np.ascontiguousarray(points[label].transpose(0, 2, 1))
    return tiles, label, start
