"""Exact optima of tables too large to solve at once: narrow down to the rows whose cell is in doubt.

1. Solve a sample of the rows: its prices are off by sampling noise only.
2. Scan all rows at these prices. A row whose cheapest cell beats the others by more than a margin keeps
   it; the kept rows of one cell become one heavy row (an *anchor*) that may move, but at the margin's cost.
3. Solve the rows in doubt together with the anchors. That is a relaxation; if no anchor moves, its
   optimum is the optimum of the whole table. Otherwise go on from its prices with a wider margin.

Prices from a similar table can replace the sample's. They may be much better, so small margins are tried
first; if these fail, a sample is solved.

Each step solves a smaller table of the same kind, so the method calls itself until a table is small
enough for the simplex method. A large table is read once or twice, more often only if the prices are bad.
"""

from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import Protocol

import numpy as np

from fwc_llm.coreset.compiling.ready import is_ready
from fwc_llm.coreset.transport.equal_rows import find_groups, ungroup
from fwc_llm.coreset.transport.parity import Flags, Floats, Ints, ParitySet
from fwc_llm.coreset.transport.simplex.dual_simplex import DualSimplex, InfeasibleError, Vertex
from fwc_llm.coreset.transport.simplex.long_step import Choices
from fwc_llm.coreset.transport.tilt import Tilt

_SMALL = 600  # rows, or
_FEW = 16_000  # costs, up to which the simplex method solves a table directly
_MANY = 2_000  # number of rows from which equal rows are merged
_DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices
_PATIENT = 5  # attempts before the rows in doubt become many
_WHOLE = 10.0  # share in doubt from which no row is kept
_MOST = 2  # times as many rows make a table worth narrowing
_EASY = 16_000_000  # costs
_WORTH = 30_000_000  # cells · costs of a direct solution from which compiling pays
_KERNELS = "fwc_llm.coreset.transport.simplex.pivot_kernels"
_PART = 65_536  # costs whose pairs are listed at once
_ATTEMPTS = 20  # of the simplex method, each from the prices of the last
EXACT = 1e-10  # gap between cost and bound, relative to the costs, that needs no second attempt
_WARM = (1 / 30, 1 / 5, 1)  # fractions of the share in doubt, tried in this order from given prices


@dataclass(frozen=True)
class Scan:
    """All rows at given prices: the ones in doubt, and the ones that keep their cheapest cell."""

    key: Ints  # (N,) cheapest cell of every row
    doubt: Ints  # rows whose next cell costs at most the margin more
    rows: "Columns"  # these rows
    kept: Floats  # (G,) mass of the other rows in their cell
    kept_cost: float  # cost of that mass


class Supply(Protocol):
    """Rows to move to cells."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def sample(self, count: int) -> "Columns":
        """About `count` rows that represent all."""

    def scan(self, prices: Floats, margin: float) -> Scan:
        """Read every row once; rows whose two cheapest cells differ by at most `margin` are in doubt."""


@dataclass(frozen=True)
class Columns:
    """A table in memory, with masses; its last `anchors` rows are heavy and in every sample."""

    cost: Floats  # (G, N), a column for each row
    mass: Floats  # (N,)
    anchors: int = 0
    tilt: Tilt | None = None  # contained in the costs
    room: Floats | None = None  # (G, ≥ N + G) memory that begins with the costs, for anchors beside them

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.mass)

    def beside(self, other: Floats) -> Floats:
        """The costs, and further columns."""
        if self.room is None:
            return np.concatenate([self.cost, other], axis=1)
        end = self.size + other.shape[1]
        self.room[:, self.size : end] = other
        return self.room[:, :end]

    def sample(self, count: int) -> "Columns":
        """Take every k-th row and all anchors; the total mass stays."""
        light = self.size - self.anchors
        rows = np.arange(0, light, max(1, light // count))
        mass = self.mass[rows]
        mass *= self.mass[:light].sum() / mass.sum()
        rows = np.concatenate([rows, np.arange(light, self.size)])
        return replace(self._only(rows), mass=np.concatenate([mass, self.mass[light:]]), anchors=self.anchors)

    def _only(self, rows: Ints) -> "Columns":
        """Some rows, none of them an anchor."""
        return Columns(self.cost[:, rows], self.mass[rows], 0, self.tilt and self.tilt.of(rows))

    def margin(self, prices: Floats, share: float) -> float:
        """By how much the two cheapest cells differ for this share of the rows (no anchors) at most."""
        _, least, second = two_cheapest(self.cost[:, : self.size - self.anchors], prices)
        gaps = second - least
        place = min(int(share * len(gaps)), len(gaps) - 1)
        return float(np.partition(gaps, place)[place])

    def is_cheapest(self, vertex: Vertex, noise: float) -> bool:
        """Whether every row is in its cheapest cell at the vertex's prices."""
        own = self.cost[vertex.key, np.arange(self.size)] - vertex.prices[vertex.key]
        least = two_cheapest(self.cost, vertex.prices)[1]
        return bool((own <= least + 4 * noise).all())

    def scan(self, prices: Floats, margin: float) -> Scan:
        """See `Supply`."""
        key, least, second = two_cheapest(self.cost, prices)
        near = second <= least + margin
        doubt, kept = np.flatnonzero(near), np.flatnonzero(~near)
        mass, cell = self.mass[kept], key[kept]
        return Scan(
            key,
            doubt,
            self._only(doubt),
            np.bincount(cell, mass, len(prices)),
            float(mass @ self.cost[cell, kept]),
        )

    def optimum(self, vertex: Vertex) -> "Optimum":
        """The sums of an optimal vertex of this table."""
        own = self.cost[vertex.key, np.arange(self.size)]
        extra = self.cost[vertex.split_cell, vertex.split_row] - own[vertex.split_row]
        load = np.bincount(vertex.key, self.mass, len(self.cost))
        np.add.at(load, vertex.split_cell, vertex.split_mass)
        np.subtract.at(load, vertex.key[vertex.split_row], vertex.split_mass)
        return Optimum(
            vertex,
            float(self.mass @ own + vertex.split_mass @ extra),
            float(self.mass @ two_cheapest(self.cost, vertex.prices)[1]),
            load,
        )


def two_cheapest(cost: Floats, prices: Floats) -> tuple[Ints, Floats, Floats]:
    """Return each column's cheapest cell at the prices (the first if many), its cost, and the next cost."""
    least = cost[0] - prices[0]
    second = np.full(len(least), np.inf)
    key = np.zeros(len(least), dtype=np.intp)
    for cell in range(1, len(prices)):
        here = cost[cell] - prices[cell]
        key[here < least] = cell
        np.minimum(second, np.maximum(least, here), out=second)
        np.minimum(least, here, out=least)
    return key, least, second


@dataclass(frozen=True)
class Optimum:
    """An optimal vertex of a table, with the sums that certify it."""

    vertex: Vertex
    cost: float  # Σ mass · cost over the plan
    bound: float  # Σ_i r_i min_g (c_ig − u_g), the rows' part of the dual function
    load: Floats  # (G,) mass of each cell


def solve(
    table: Supply,
    prices: Floats,
    fair: ParitySet,
    noise: float,
    warm: bool = False,
    exact: bool = False,
    tilted: bool = False,
) -> Optimum:
    """Solve a table exactly (up to `noise`, see `DualSimplex`).

    `prices` (G,) are the initial prices; `warm` says that they may be better than a sample's, `tilted` that
    they are so of the costs as they are tilted. `exact` takes the arithmetic of `ExactSimplex`, for masses
    that double precision does not balance.
    """
    cells = len(prices)
    if isinstance(table, Columns) and table.size <= max(_SMALL, _FEW // cells, 2 * table.anchors):
        return _solve_directly(table, prices, fair, noise, exact)
    # A sample of s rows leaves about 1/√s of the rows in doubt; at this size both numbers are equal.
    count = max(_SMALL, int((_DOUBT * table.size) ** (2 / 3) * cells ** (1 / 3)))
    share = _DOUBT * (cells / count) ** 0.5
    if warm:
        few = table.sample(count // 8)
        for part in _WARM if tilted or few.tilt is None else ():
            margin = few.margin(prices, part * share)
            proven, prices = _narrow(table, prices, margin, fair, noise, exact)
            if proven:
                return proven
    sample = table.sample(count)
    if 2 * sample.size >= table.size and isinstance(table, Columns):
        few = table.sample(max(_SMALL, table.size // 4))
        if 2 * few.size > table.size:
            return _solve_directly(table, prices, fair, noise, exact)
        prices = _prices_of(few, prices, fair, noise, exact)
        return _solve_directly(table, prices, fair, noise, exact, few.margin(prices, 0.5))
    # Given prices lack the tilt's part, but which rows tie they know.
    width = sample.margin(prices, share) if warm and sample.tilt else None
    prices = _prices_of(sample, prices, fair, noise, exact, width)
    margin = sample.margin(prices, share)
    del sample  # they are a good part of the memory, and seldom needed again
    for attempt in count_from(1):
        proven, prices = _narrow(table, prices, margin, fair, noise, exact)
        if proven:
            return proven
        # The prices are better now. While they still change much, more rows in doubt would only cost time.
        share = min(2 * share, max(0.6, share)) if attempt < _PATIENT else 4 * share
        margin = max(2 * margin, table.sample(count).margin(prices, share)) if share < _WHOLE else np.inf
    raise AssertionError


def _prices_of(
    sample: Columns, prices: Floats, fair: ParitySet, noise: float, exact: bool, width: float | None = None
) -> Floats:
    """The best prices for a sample; if they are within this `width` of the given ones, these help."""
    try:
        if width is not None:
            return _solve_directly(sample, prices, fair, noise, False, width).vertex.prices
        return solve(sample, prices, fair, noise).vertex.prices
    except InfeasibleError:
        if exact:  # only rounding, then: the whole table will be solved without
            return prices
        raise


def _narrow(
    table: Supply, prices: Floats, margin: float, fair: ParitySet, noise: float, exact: bool
) -> tuple[Optimum | None, Floats]:
    """Solve for the rows whose cell is in doubt by this margin at these `prices`.

    Return the optimum of the whole table, or None if it is not proven, and prices to continue from.
    """
    scan = table.scan(prices, margin)
    inner = _with_anchors(scan, prices, margin)
    scan = replace(scan, rows=inner)  # the rows without anchors need not be kept
    if _MOST * inner.size > table.size or inner.cost.size <= _EASY:
        found = _solve_directly(inner, prices, fair, noise, exact, margin)
    else:
        found = solve(inner, prices, fair, noise, False, exact)
    vertex = found.vertex
    first = len(scan.doubt)  # index of the first anchor
    anchors = np.flatnonzero(scan.kept > 0)
    if (vertex.key[first:] != anchors).any() or (vertex.split_row >= first).any():
        return None, vertex.prices
    scan.key[scan.doubt] = vertex.key[:first]
    anchored = float(scan.kept[anchors] @ prices[anchors])  # an anchor's cost is its cell's price
    optimum = Optimum(
        replace(vertex, key=scan.key, split_row=scan.doubt[vertex.split_row]),
        found.cost + scan.kept_cost - anchored,
        found.bound + scan.kept_cost - anchored,
        found.load,
    )
    return optimum, vertex.prices


def _with_anchors(scan: Scan, prices: Floats, margin: float) -> Columns:
    """The rows in doubt, and the kept rows of each cell as one that may move at the margin's cost."""
    anchors = np.flatnonzero(scan.kept > 0)
    cost = np.repeat((prices + margin)[:, None], len(anchors), axis=1)
    cost[anchors, np.arange(len(anchors))] = prices[anchors]
    return replace(
        scan.rows,
        cost=scan.rows.beside(cost),
        room=None,
        mass=np.concatenate([scan.rows.mass, scan.kept[anchors]]),
        anchors=len(anchors),
        tilt=scan.rows.tilt and scan.rows.tilt.and_flat(len(anchors)),
    )


def _solve_directly(
    table: Columns, prices: Floats, fair: ParitySet, noise: float, exact: bool, width: float = np.inf
) -> Optimum:
    """Solve by the simplex method alone, from `prices`.

    A row may first go only to cells that cost at most `width` more than its cheapest one: few of many. The
    bound, which knows all cells, says whether others are needed.
    """
    groups = None
    if table.size > _MANY and table.tilt is None:
        groups = find_groups(table.cost, table.mass, table.anchors)
    few = table if groups is None else Columns(table.cost[:, groups.first], groups.mass, table.anchors)
    total = float(few.mass.sum())
    method = _exact_method() if exact else DualSimplex
    near: Flags | None = None
    least_cells = 2
    for attempt in range(_ATTEMPTS):
        key, least = two_cheapest(few.cost, prices)[:2]
        if width == np.inf or attempt >= _ATTEMPTS - 2:
            near = None
        elif near is None:
            near = np.zeros(few.cost.shape, dtype=np.bool_)
            near[:, few.size - few.anchors :] = True
        try:
            vertex = method(
                _choices(few.cost, prices, least, near, width, least_cells),
                key,
                few.mass,
                prices,
                fair,
                noise,
                few.tilt,
                _is_compiled(few.cost),
            ).solve()
        except InfeasibleError:
            if near is None:
                raise
            least_cells *= 4
            if least_cells >= few.cost.shape[0]:
                width = np.inf
            continue
        found = few.optimum(vertex)
        # Where ties are nearly parallel, the way to the basis rounds; from its prices the way is short.
        gap = found.cost - found.bound - total * fair.best(vertex.prices)[0]
        proven = gap <= EXACT * max(noise / 1e-12 * total, abs(found.cost))
        if proven and (near is None or few.is_cheapest(vertex, noise)):
            break
        prices = vertex.prices
    return found if groups is None else table.optimum(ungroup(vertex, groups, table.mass))


def _choices(
    cost: Floats, prices: Floats, least: Floats, near: Flags | None, width: float, cells: int
) -> Choices:
    """The pairs (row, cell) that are `near`, all if that is None; those that now are become so.

    A cell is near a row if it costs at most `width` more than the cheapest one, or is one of the row's
    cheapest `cells`.
    """
    parts = []
    step = max(1, _PART // len(cost))
    for low in range(0, cost.shape[1], step):
        some = slice(low, low + step)
        excess = cost[:, some] - prices[:, None]
        excess -= least[some]
        if near is not None:
            near[:, some] |= excess <= width
            if cells < len(cost):
                near[:, some] |= excess <= np.partition(excess, cells - 1, axis=0)[cells - 1]
        parts.append(Choices.of(excess, None if near is None else near[:, some], low))
    return Choices.joined(parts)


def _is_compiled(cost: Floats) -> bool:
    """Whether compiled code makes the pivots: for long ways, and wherever it is there already."""
    return cost.size * len(cost) >= _WORTH or is_ready(_KERNELS, "pivot")


def _exact_method() -> type[DualSimplex]:
    """The method in exact arithmetic, which is seldom needed."""
    from fwc_llm.coreset.transport.simplex.exact_simplex import ExactSimplex

    return ExactSimplex
