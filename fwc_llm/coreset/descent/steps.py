"""The steps of an iteration in compiled code: for tables large enough to be worth a compiler's while.

Rows and representatives are compared in float32; where it cannot tell which is nearer, float64 decides. Pairs
of a row and a cell that cannot matter keep a lower bound as their cost: where the plan of the inner problem
uses none of these, it is optimal for the true costs too, and where it uses some, they are made exact and the
inner problem solved again. `certify` evaluates everything, in float64.
"""

from collections.abc import Iterable

import numpy as np

from fwc_llm.coreset.compiled import read_only
from fwc_llm.coreset.descent.assignment import (
    AGES,
    BITS,
    BOUNDED,
    DOUBTFUL,
    EVERY,
    FRESH,
    MOST,
    STALE,
    STATES,
    WANTED,
    Costs,
    Representatives,
    Rows,
    assign_rows,
    find_exactly,
    make_work,
    pick,
)
from fwc_llm.coreset.descent.loop import Steps, share_out
from fwc_llm.coreset.descent.medians import Means, Medians
from fwc_llm.coreset.descent.medoids import CompiledMedoids
from fwc_llm.coreset.descent.updates import Shares, modes
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.tile import WIDTH
from fwc_llm.coreset.transport.fair import Transport

_FEW = 2048  # rows at once, where few are looked at
SMALL = 2 * 10**7  # pairs of numbers that are compared faster than the inner problem is solved again
_HALF_ULP = 2.0**-24
_PLACES = 2 ** (16 - BITS) - 1  # of representatives in a cell that two bytes hold beside the rest
_SOME = 16  # rows and representatives that say how far they are apart, about
_FURTHER = 8  # times as far a distance is still kept to the unit


class CompiledSteps(Steps):
    """The same as `Steps` for large tables; the results are equal."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        super().__init__(problem)
        self._threads = threads
        table, cells = problem.table, problem.cells
        self._shift, x = np.zeros(table.p) if table.is_single else table.centre, table.single
        self._cell = cells.cell.astype(np.int16)
        self._held: Rows | None = None
        largest = np.maximum(np.abs(x.min(axis=0)), np.abs(x.max(axis=0))).astype(np.float64)
        rounding = np.zeros(table.p) if table.is_single else 2 * _HALF_ULP * largest
        squared = problem.cost == "sqeuclidean"
        absolute = np.sqrt((rounding**2).sum()) if squared else rounding.sum()
        self._costs = Costs(
            read_only(table.mismatch),
            squared,
            problem.move.astype(np.float32),
            np.float32((table.p + 4) * _HALF_ULP),
            np.float32(absolute),
        )
        # Sums of whole numbers are exact in float32 up to 2^24: then even ties need no second look.
        bound = (2 * largest + 1) ** (2 if squared else 1)
        bound[table.n_numeric :] *= np.maximum(table.mismatch, 1.0)
        columns = *x.T, table.mismatch
        self._whole = bool(bound.sum() < 2**24) and all((own == np.rint(own)).all() for own in columns)
        self._reps: Representatives | None = None
        self._points = np.empty(0)
        self._repeated = problem.repeated()
        self._tiles = tiles_of(problem.cell_of, cells.n_cells)
        self._first = np.searchsorted(problem.cell_of, np.arange(cells.n_cells + 1))
        few = problem.m < 2**15 and int(np.diff(self._first).max()) < _PLACES
        self._word = np.uint16 if few else np.uint32
        self._unit = np.float32(1)
        self._small = table.n * problem.m * table.p < SMALL
        self._iteration = 0
        self._before = np.empty(0)  # (m, p, AGES) the representatives in the last iterations
        self._drift = np.inf
        self._objective = 0.0
        self._mover: Medians | Means | None = None
        self._medoids: CompiledMedoids | None = None

    @property
    def _rows(self) -> Rows:
        """The rows with what is known of them and each cell: there from the first use to `certify`."""
        if self._held is None:
            n = self.problem.table.n
            shape = n, self.problem.cells.n_cells
            self._held = Rows(
                read_only(self.problem.table.single),
                self._cell,
                np.zeros(n, np.int16),
                np.full(shape, np.inf, np.float32),
                np.full(shape, np.iinfo(self._word).max - WANTED, self._word),  # no nearest one, STALE
                np.zeros(shape, np.uint16),
            )
        return self._held

    def rest(self) -> None:
        """See `Steps`."""
        self._held = self._reps = None
        if self._medoids:
            self._medoids.rest()

    def _forget(self) -> None:
        """Lets go of all that another iteration would look up."""
        self._held = self._reps = self._mover = self._medoids = None
        vars(self.problem.table).pop("single", None)  # a copy, made again when it is asked for

    def solve(self, points: np.ndarray) -> tuple[float, Shares]:
        """See `Steps`."""
        reps, everything = self._place(points)
        margin = np.inf if self._small else 2 * self._drift + 0.01 * self._objective
        self._assign(reps, everything, margin)
        while True:
            inner = self.transport()
            self._drift = float(np.abs(inner.prices - self.prices).max())
            self.prices = inner.prices
            label = np.empty(self.problem.table.n, np.int32)
            known = self._rows.known
            stale = self._threads.over_rows(pick, known, reps.first, inner.cell, label, n=len(label))
            parts = known[inner.split_row, inner.split_cell] % STATES == STALE
            if not sum(stale) and not parts.any():
                break
            rows = np.flatnonzero(label < 0)
            for pairs in ((rows, inner.cell[rows]), (inner.split_row[parts], inner.split_cell[parts])):
                known[pairs] += WANTED - known[pairs] % STATES
            chunks = np.unique(np.concatenate([rows, inner.split_row[parts]]) // _FEW)
            self._look_at(reps, WANTED, 0.0, chunks * _FEW, _FEW)
        self._rows.chosen[:] = inner.cell
        self._objective = inner.objective
        part = known[inner.split_row, inner.split_cell].astype(np.int64) >> BITS
        parts = inner.split_row, self._first[inner.split_cell] + part, inner.split_share
        return inner.objective, Shares(label, *parts, self.problem.m, self.problem.masses, inner.row_mass)

    def transport(self) -> Transport:
        """The inner problem for the costs as they are."""
        if self._repeated is None:
            return self.problem.transport(self._rows.cost, self.prices)
        return self._repeated.solve(self._rows.cost, self.prices, self.problem.transport)

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Steps`: the costs (n, G) in float64, and the labels (G, n)."""
        reps, everything = self._place(points)
        self._assign(reps, everything, np.inf)
        known = self._rows.known
        label = known.view(np.int16 if known.dtype == np.uint16 else np.int32)  # in the same memory
        self._forget()  # room for the costs in float64
        cost = np.empty(label.shape)

        def make_exact(low: int, high: int) -> None:
            values = self.problem.table.values_of(slice(low, high))
            for g in range(cost.shape[1]):
                own = self._first[g] + (known[low:high, g].astype(np.int64) >> BITS)
                own[own >= self._first[g + 1]] = -1
                label[low:high, g] = own
                least = self._find_exactly(values, own, own + (own >= 0))[1]
                cost[low:high, g] = least + self.problem.move[self._cell[low:high], g]

        self._threads.over_rows(make_exact, n=len(cost), chunk=_FEW)
        return cost, label.T

    def certify(self, points: np.ndarray) -> tuple[Transport, Shares]:
        """See `Steps`."""
        cost, label = self.nearest(points)
        inner = self.problem.transport(cost, self.prices)
        return inner, share_out(inner, label, self.problem.m, self.problem.masses)

    @property
    def skipped(self) -> float:
        """The share of the pairs of a row and a cell that `solve` has left at a lower bound."""
        return float((self._rows.known % STATES == STALE).mean())

    def _place(self, points: np.ndarray) -> tuple[Representatives, bool]:
        """The representatives, and whether they came so far that bounds are of no use."""
        squared = self._costs.squared
        cell_of, cells = self.problem.cell_of, self.problem.cells.n_cells
        near = np.ascontiguousarray(points - self._shift, np.float32)
        whole = self._whole and bool((near == np.rint(near)).all())
        relative = np.float32(0.0 if whole else (near.shape[1] + 4) * _HALF_ULP)
        self._costs = self._costs._replace(relative=relative)
        old, m, now = self._reps, len(points), (self._iteration + 1) % AGES
        step = np.full(m, np.inf)
        if old is not None:
            step = feature_costs(near.T.astype(np.float64), old.points.T, self.problem.cost, self._costs.unit)
            step = np.sqrt(step) if squared else step
        typical = np.sqrt(self._objective) if squared else self._objective
        everything = old is None or bool(step.max() > typical / 2)
        if everything:
            self._before = np.repeat(near[:, :, None], AGES, axis=2)
            self._unit = self._find_unit(near)
        tile_label, tile_start = self._tiles
        tiles = np.ascontiguousarray(near[tile_label].transpose(0, 2, 1))
        come = np.zeros((AGES, cells), np.float32)
        np.maximum.at(come.T, cell_of, self._measure_ways(near))
        self._before[:, :, now] = near
        self._iteration += 1
        longest = (1.000001 * np.where(everything, 0.0, step)).astype(np.float32)
        self._points = np.array(points, np.float64, order="C")
        terms = tile_start, self._first.astype(np.uintp), step == 0, longest, now, come, self._unit
        self._reps = Representatives(near, tiles, tile_label, *terms)
        return self._reps, everything

    def _measure_ways(self, near: np.ndarray) -> np.ndarray:
        """How far each point (m, p) has come since the last AGES iterations, (m, AGES), rounded up."""
        squared, unit = self._costs.squared, self._costs.unit
        q = near.shape[1] - len(unit)
        apart = np.abs(near[:, :, None].astype(np.float64) - self._before)
        apart[:, q:] = (np.sqrt(unit) if squared else unit)[:, None] * (apart[:, q:] != 0)
        ways = (apart**2 if squared else apart).sum(axis=1)
        return np.asarray(1.000001 * (np.sqrt(ways) if squared else ways), dtype=np.float32)

    def _find_unit(self, near: np.ndarray) -> np.float32:
        """The unit of `second`, by how far some rows are from some representatives."""
        x = self.problem.table.single
        x, some = x[:: max(1, len(x) // _SOME)], near[:: max(1, len(near) // _SOME)]
        pairs = np.repeat(x.T, len(some), axis=1).astype(np.float64), np.tile(some.T, len(x))
        far = feature_costs(*pairs, self.problem.cost, self._costs.unit)
        typical = float(np.median(far)) or float(far.max()) or 1.0
        typical = typical**0.5 if self._costs.squared else typical
        return np.float32(2.0 ** int(np.ceil(np.log2(_FURTHER * typical / 2**16))))

    def _assign(self, reps: Representatives, everything: bool, margin: float) -> None:
        n = self.problem.table.n
        chunk = self._threads.share(n)
        self._look_at(reps, EVERY if everything else BOUNDED, margin, range(0, n, chunk), chunk)

    def _look_at(
        self, reps: Representatives, which: int, margin: float, starts: Iterable[int], chunk: int
    ) -> None:
        """Brings the costs of these chunks of rows up to date, see `assign_rows`."""
        (n, p), prices = self._rows.x.shape, self.prices.astype(np.float32)
        arguments = (self._rows, reps, self._costs, prices, np.float32(min(margin, 1e30)), which)

        def assign(low: int) -> int:
            work = make_work(p, len(prices))
            return int(assign_rows(*arguments, *work, low, min(low + chunk, n)))

        doubtful = self._threads.over(assign, starts)
        if sum(doubtful):
            self._settle(reps)

    def _settle(self, reps: Representatives) -> None:
        """Decides in float64 what float32 left in doubt."""
        all_rows, squared = self._rows, self._costs.squared
        known, first = all_rows.known, self._first

        def find(low: int, high: int) -> np.ndarray:
            return np.asarray(np.flatnonzero(known[low:high] % STATES == DOUBTFUL) + low * known.shape[1])

        pairs = np.concatenate(self._threads.over_rows(find, n=len(known)))
        doubtful, in_cell = np.divmod(pairs, known.shape[1])

        def settle(low: int, high: int) -> None:
            i, g = doubtful[low:high], in_cell[low:high]
            values = self.problem.table.values_of(i)
            place, least = self._find_exactly(values, first[g], first[g + 1])
            # What was second is first now, and the other way about: both are as near as float32 can tell.
            place -= first[g]
            word = known[i, g].astype(np.int64)
            known[i, g] = (place << BITS) + word % 2**BITS + (FRESH - DOUBTFUL)
            other = place != word >> BITS
            i, g, near = i[other], g[other], least[other].astype(np.float32)
            all_rows.cost[i, g] = near + self._costs.move[all_rows.cell[i], g]
            all_rows.second[i, g] = np.floor((np.sqrt(near) if squared else near) / reps.unit).clip(0, MOST)

        self._threads.over_rows(settle, n=len(doubtful), chunk=_FEW)

    def _find_exactly(
        self, values: np.ndarray, start: np.ndarray, stop: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of the points start … stop − 1 of each row, and its cost, in float64."""
        place, least, costs = np.empty(len(values), np.int64), np.empty(len(values)), self._costs
        find_exactly(*(values, self._points, start, stop, costs.unit, costs.squared, place, least))
        return place, least

    def move_points(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        table = self.problem.table
        if not table.n_numeric:
            return modes(table, shares, points.copy())
        if self._mover is None:
            self._mover = (
                Medians(table, shares.m, self._threads)
                if self.problem.cost == "l1"
                else Means(table, self._threads)
            )
        return modes(table, shares, self._mover.move(shares, points))

    def move_rows(self, shares: Shares, rows: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        problem = self.problem
        if self._medoids is None:
            self._medoids = CompiledMedoids(problem, self._threads)
        return self._medoids.move(shares, rows, problem.cell_of)


def tiles_of(cell_of: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Tiles (T, WIDTH) of representatives in the order of cells, −1 for none, and the cells' (G + 1,)."""
    own = [np.flatnonzero(cell_of == g).astype(np.int32) for g in range(cells)]
    tiles = [np.pad(j, (0, -len(j) % WIDTH), constant_values=-1).reshape(-1, WIDTH) for j in own]
    return np.concatenate(tiles), np.cumsum([0, *map(len, tiles)])
