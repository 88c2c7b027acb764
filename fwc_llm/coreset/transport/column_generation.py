"""Exact optima of tables too large to solve at once: narrow down to the rows whose cell is in doubt.

1. Solve a sample of the rows: its prices are off by sampling noise only.
2. Scan all rows at these prices. A row whose cheapest cell beats the others by more than a margin keeps
   it; the kept rows of one cell become one heavy row (an *anchor*) that may move, but at the margin's cost.
3. Solve the rows in doubt together with the anchors. That is a relaxation; if no anchor moves, its
   optimum is the optimum of the whole table. Otherwise go on from its prices with a wider margin.

Prices from a similar table can replace the sample's. They may be much better, so small margins are tried
first; if these fail, a sample is solved. A large table is read once or twice, more often only if the prices
are bad.
"""

from dataclasses import dataclass, replace
from itertools import count as count_from
from typing import Protocol

import numpy as np

from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, StalledError, Vertex, dual_simplex
from fwc_llm.coreset.transport.parity import Floats, Ints, ParitySet
from fwc_llm.coreset.transport.tie_breaking import Tilt

_SMALL = 600  # rows, or
_FEW = 16_000  # costs, up to which the simplex method solves a table directly
_DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices
_PATIENT = 5  # attempts before the rows in doubt become many
_WHOLE = 10.0  # share in doubt from which no row is kept
_LARGEST = 16_000_000  # costs of a sample
_ATTEMPTS = 20  # of the simplex method, each from the prices of the last
_STALLS = 8  # attempts after which rounding is the reason
_WIDER = 4.0  # from one attempt to the next
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
    """A table in memory, with masses; its last `anchors` rows are heavy."""

    cost: Floats  # (G, N), a column for each row
    mass: Floats  # (N,)
    anchors: int = 0
    tilt: Tilt | None = None  # contained in the costs

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.mass)

    def margin(self, prices: Floats, share: float) -> float:
        """By how much the two cheapest cells differ for this share of the rows at most."""
        _, least, second = two_cheapest(self.cost, prices)
        gaps = second - least
        place = min(int(share * len(gaps)), len(gaps) - 1)
        return float(np.partition(gaps, place)[place])

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
    table: Supply | Columns,
    prices: Floats,
    fair: ParitySet,
    noise: float,
    warm: bool = False,
    tilted: bool = False,
) -> Optimum:
    """Solve a table exactly (up to `noise`, see `dual_simplex`).

    `prices` (G,) are the initial prices; `warm` says that they may be better than a sample's, `tilted` that
    they are so of the costs as they are tilted.
    """
    cells = len(prices)
    if isinstance(table, Columns):
        return solve_directly(table, prices, fair, noise)
    # A sample of s rows leaves about 1/√s of the rows in doubt; at this size both numbers are equal.
    count = max(_SMALL, int((_DOUBT * table.size) ** (2 / 3) * cells ** (1 / 3)))
    count = min(count, max(_SMALL, _LARGEST // cells))
    share = _DOUBT * (cells / count) ** 0.5
    if warm:
        few = table.sample(count // 8)
        for part in _WARM if tilted or few.tilt is None else ():
            proven, prices = narrow(table, prices, few.margin(prices, part * share), fair, noise)
            if proven:
                return proven
    sample = table.sample(count)
    # Given prices lack the tilt's part, but which rows tie they know.
    width = sample.margin(prices, share) if warm and sample.tilt else np.inf
    prices = solve_directly(sample, prices, fair, noise, width).vertex.prices
    margin = sample.margin(prices, share)
    del sample  # they are a good part of the memory, and seldom needed again
    for attempt in count_from(1):
        proven, prices = narrow(table, prices, margin, fair, noise)
        if proven:
            return proven
        # The prices are better now. While they still change much, more rows in doubt would only cost time.
        share = min(2 * share, max(0.6, share)) if attempt < _PATIENT else 4 * share
        margin = max(2 * margin, table.sample(count).margin(prices, share)) if share < _WHOLE else np.inf
    raise AssertionError


def narrow(
    table: Supply, prices: Floats, margin: float, fair: ParitySet, noise: float, most: float = np.inf
) -> tuple[Optimum | None, Floats]:
    """Solve for the rows whose cell is in doubt by this margin at these `prices`, if they are not too many.

    Return the optimum of the whole table, or None if it is not proven, and prices to continue from.
    """
    scan = table.scan(prices, margin)
    first = len(scan.doubt)  # index of the first anchor
    if first > most:
        return None, prices
    inner = _with_anchors(scan, prices, margin)
    scan = replace(scan, rows=inner)  # the rows without anchors need not be kept
    found = solve_directly(inner, prices, fair, noise, margin)
    vertex = found.vertex
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
        cost=np.concatenate([scan.rows.cost, cost], axis=1),
        mass=np.concatenate([scan.rows.mass, scan.kept[anchors]]),
        anchors=len(anchors),
        tilt=scan.rows.tilt and scan.rows.tilt.and_flat(len(anchors)),
    )


def solve_directly(
    table: Columns, prices: Floats, fair: ParitySet, noise: float, width: float = np.inf
) -> Optimum:
    """Solve by the simplex method alone, from `prices`.

    A row may first go only to cells that cost at most `width` more than its cheapest one: few of many. The
    bound, which knows all cells, says whether others are needed.
    """
    total = float(table.mass.sum())
    if len(prices) <= 2 or width <= 0:
        width = np.inf
    for attempt in range(_ATTEMPTS):
        wide = width == np.inf or attempt >= _ATTEMPTS - 2
        try:
            vertex = dual_simplex(
                table.cost,
                table.mass,
                prices,
                fair,
                noise,
                np.inf if wide else width,
                table.anchors,
                table.tilt,
                attempt,
            )
        except (InfeasibleError, StalledError) as error:
            if wide and (isinstance(error, InfeasibleError) or attempt >= _STALLS):
                raise
            width = np.inf
            continue
        found = table.optimum(vertex)
        # Where ties are nearly parallel, the way to the basis rounds; from its prices the way is short.
        gap = found.cost - found.bound - total * fair.best(vertex.prices)[0]
        if gap <= EXACT * max(noise / 1e-12 * total, abs(found.cost)):
            break
        prices, width = vertex.prices, _WIDER * width
    return found
