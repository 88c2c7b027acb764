"""The caller's table of costs, read in blocks."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.column_generation import Columns, Optimum, Scan, Supply
from fwc_llm.coreset.transport.dual_simplex import Vertex
from fwc_llm.coreset.transport.parity import Floats, Ints
from fwc_llm.coreset.transport.tie_breaking import GOLDEN, Tilt, parts_of
from fwc_llm.errors import InputError

_IN_MEMORY = 20_000  # up to this many entries a second copy of the costs is cheap
AT_ONCE = 8192  # rows that are copied at once
BLOCK = 65_536  # rows per block of a scan, whose sums are added in order


@dataclass(frozen=True)
class CostTable:
    """A `Supply` over (n, G) costs, float32 or float64; a large table is never copied as a whole.

    `mass` (n,) is positive; None stands for a mass of 1 for each row.
    """

    cost: np.ndarray
    slope: Floats | None = None  # (G,) of a tilt of the costs, see `tilt`
    mass: Floats | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.cost)

    @cached_property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self.size) if self.mass is None else float(self.mass.sum())

    def table(self) -> Supply | Columns:
        """Return the table to solve: a checked copy in memory if it is small, else the table itself."""
        if self.cost.size > _IN_MEMORY:
            return self
        _check(self.cost, 0)
        return self._columns(np.arange(self.size), self.mass)

    def is_large(self) -> bool:
        """Whether the simplex method alone would be slow."""
        return self.cost.size > _IN_MEMORY

    def noise(self) -> float:
        """Return the largest change of costs that breaks ties: far less than the certificate's 1e-9.

        The scale is the second smallest cost of the rows, so that a few huge costs do not count; nor do those
        of rows with hardly any mass.
        """
        every = slice(None, None, max(1, self.size // 1000))
        some = np.abs(self.cost[every], dtype=np.float64)
        mass = None if self.mass is None else self.mass[every]
        two = np.sort(some, axis=1)[:, :2]
        second = two[:, -1][np.isfinite(two[:, -1])]
        for costs in (second, some[np.isfinite(some)], np.ones(1)):
            if costs.any():
                break
        return min(1e-12 * float(costs.mean()), 1e-11 * max(1.0, float(np.average(two[:, 0], weights=mass))))

    def nearest(self) -> Optimum:
        """Return the plan without a parity limit: every row goes to its (first) cheapest cell."""
        prices = np.zeros(self.cost.shape[1])
        scan = self.scan(prices, -np.inf)  # no row is in doubt, however large the costs are
        none = np.zeros(0, dtype=np.intp)
        vertex = Vertex(prices, prices, scan.key, none, none, np.zeros(0), 0)
        return Optimum(vertex, scan.kept_cost, scan.kept_cost, scan.kept)

    def sample(self, count: int) -> Columns:
        """Take every k-th row or, of rows with masses, those at equal steps of mass."""
        if self.mass is None:
            rows = np.arange(0, self.size, max(1, self.size // count))
            mass = np.full(len(rows), self.size / len(rows))
        else:
            upto = np.cumsum(self.mass)
            steps = upto.searchsorted((np.arange(count) + 0.5) * (upto[-1] / count))
            rows, times = np.unique(np.minimum(steps, self.size - 1), return_counts=True)
            mass = times * (self.total / count)
        found = self._columns(rows, mass)
        _check(found.cost.T, None)
        return found

    def _columns(self, rows: Ints, mass: Floats | None) -> Columns:
        """These rows as columns, tilted; without masses they have 1 each."""
        columns = np.empty((self.cost.shape[1], len(rows)))
        for low in range(0, len(rows), AT_ONCE):
            columns[:, low : low + AT_ONCE] = self.cost[rows[low : low + AT_ONCE]].T
        mass = np.ones(len(rows)) if mass is None else mass
        if self.slope is None:
            return Columns(columns, mass)
        tilt = Tilt(self.slope, parts_of(rows))
        for own, slope in zip(columns, tilt.slope.tolist(), strict=True):
            own += slope * tilt.parts
        return Columns(columns, mass, 0, tilt)

    def judge(self, found: Optimum) -> Optimum:
        """The sums of a plan and its prices by the true costs."""
        true = replace(self, slope=None)
        vertex, prices = found.vertex, found.vertex.untilted
        scan = true.scan(prices, -np.inf)
        total = float(vertex.split_mass @ self._extra(vertex))
        for low in range(0, self.size, BLOCK):
            key = vertex.key[low : low + BLOCK]
            own = self.cost[np.arange(low, low + len(key)), key]
            mass = None if self.mass is None else self.mass[low : low + BLOCK]
            total += float(own.sum(dtype=np.float64) if mass is None else mass @ own.astype(np.float64))
        bound = scan.kept_cost - float(scan.kept @ prices)
        return Optimum(replace(vertex, prices=prices), total, bound, found.load)

    def _extra(self, vertex: Vertex) -> Floats:
        """What the splits cost more than their row's key."""
        row = vertex.split_row
        to, key = self.cost[row, vertex.split_cell], self.cost[row, vertex.key[row]]
        return np.asarray(to.astype(np.float64) - key)

    def scan(self, prices: Floats, margin: float) -> Scan:
        """See `Supply`."""
        mass = np.ones(0) if self.mass is None else self.mass
        slope = np.ones(0) if self.slope is None else self.slope
        key, unsure = np.empty(self.size, dtype=np.int32), np.empty(self.size, dtype=np.bool_)
        blocks = -(-self.size // BLOCK)
        # Each block's sums have a line of the processors' caches to themselves: threads write them.
        kept, kept_cost = np.zeros((blocks, len(prices) + 8)), np.zeros(blocks)
        faulty = np.zeros(blocks, dtype=np.bool_)
        terms = read_only(mass), prices, slope, margin, key, unsure, kept, kept_cost, faulty

        def scan_block(block: int) -> None:
            end = min((block + 1) * BLOCK, self.size)
            for low in range(block * BLOCK, end, AT_ONCE):
                # Of one type and layout: numba would compile the kernel for each.
                some = np.ascontiguousarray(self.cost[low : min(low + AT_ONCE, end)], np.float64)
                scan(read_only(some), *terms, low, block)

        Threads(1 if blocks == 1 else None).over(scan_block, range(blocks))
        for block in np.flatnonzero(faulty).tolist():
            _check(self.cost[block * BLOCK : (block + 1) * BLOCK], block * BLOCK)
        rows = np.flatnonzero(unsure)
        del unsure
        columns = self._columns(rows, None if self.mass is None else self.mass[rows])
        return Scan(key, rows, columns, kept[:, : len(prices)].sum(axis=0), float(kept_cost.sum()))


def _check(cost: np.ndarray, first: int | None) -> None:
    """Refuse invalid costs; `first` is the index of the first row, or None if rows are not consecutive."""
    bad = np.argwhere(np.isnan(cost) | np.isneginf(cost))
    if len(bad):
        row, cell = bad[0]
        where = "" if first is None else f" of row {first + row}"
        raise InputError(
            f"cost{where} to cell {cell} is {cost[row, cell]}: give a number, or inf where a cell has no "
            "representative"
        )
    lost = np.flatnonzero(np.isinf(cost).all(axis=1))
    if len(lost):
        where = "a row" if first is None else f"row {first + lost[0]}"
        raise InputError(f"{where} has no cell to go to: its cost to every usable cell is inf")


@kernel
def scan(  # type: ignore[no-untyped-def]
    cost, mass, prices, slope, margin, key, unsure, kept, kept_cost, faulty, low, block
):
    """Find each row's cheapest cell  argmin_g (cost_ig − prices_g)  and whether the next is within `margin`.

    Row i costs `parts_of(i) · slope[g]` more in cell g, unless there is no slope; the sums are without that.
    `mass` (n,) are the rows' masses; empty, it stands for 1 each. `cost` (r, G) are those of the rows from
    `low` on: it writes key[low:], marks the doubtful rows in unsure[low:], and adds the mass (kept[block, g])
    and cost (kept_cost[block]) of the others.
    """
    cells = cost.shape[1]
    total = kept_cost[block]
    fault = faulty[block]
    weighted, tilted = len(mass) > 0, len(slope) > 0
    for r in range(len(cost)):
        i = low + r
        best, second, cell = np.inf, np.inf, 0
        part = i * GOLDEN
        part -= np.floor(part)
        for g in range(cells):
            value = cost[r, g] - (prices[g] - part * slope[g] if tilted else prices[g])
            less = value < best
            second = min(second, best if less else value)
            cell = g if less else cell
            best = value if less else best
            fault |= value != value
        fault |= not np.isfinite(best)
        key[i] = cell
        unsure[i] = second <= best + margin
        if not unsure[i]:
            own = mass[i] if weighted else 1.0
            kept[block, cell] += own
            total += own * cost[r, cell]
    kept_cost[block] = total
    faulty[block] = fault
