"""Exact optima of tables too large to solve at once: narrow down to the rows whose cell is in doubt.

1. Solve a sample of the rows: its prices are off by sampling noise only.
2. Scan all rows at these prices. A row whose cheapest cell beats the others by more than a margin keeps
   it; the kept rows of one cell become one heavy row (an *anchor*) that may move, but at the margin's cost.
3. Solve the rows in doubt together with the anchors. That is a relaxation; if no anchor moves, its
   optimum is the optimum of the whole table. Otherwise go on from its prices with a wider margin.

Each step solves a smaller table of the same kind, so the method calls itself until a table is small
enough for the simplex method. A large table is read about once.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.dual import DualSimplex, Vertex
from fwc_llm.coreset.dual_walk import Floats, Ints
from fwc_llm.coreset.parity import ParitySet

_SMALL = 600  # rows that the simplex method solves at once
_DOUBT = 3.0  # width of the margin, in standard deviations of a sample's prices


@dataclass(frozen=True)
class Scan:
    """All rows at given prices: the ones in doubt, and the ones that keep their cheapest cell."""

    key: NDArray[np.integer]  # (N,) cheapest cell of every row
    doubt: Ints  # rows whose next cell costs at most the margin more
    cost: Floats  # (G, doubt) their costs
    mass: Floats  # (doubt,) their masses
    kept: Floats  # (G,) mass of the other rows in their cell
    kept_cost: float  # cost of that mass


class Table(Protocol):
    """Rows to move to cells."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def sample(self, count: int) -> "Columns":
        """About `count` rows that stand for all."""

    def scan(self, prices: Floats, margin: float) -> Scan:
        """Look at every row once; rows whose two cheapest cells differ by at most `margin` are in doubt."""


@dataclass(frozen=True)
class Columns:
    """A table in memory, with masses; its last `anchors` rows are heavy and never sampled away."""

    cost: Floats  # (G, N), a column for each row
    mass: Floats  # (N,)
    anchors: int = 0

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.mass)

    def sample(self, count: int) -> "Columns":
        """Take every k-th row and all anchors; the total mass stays."""
        light = self.size - self.anchors
        rows = np.arange(0, light, max(1, light // count))
        mass = self.mass[rows]
        mass *= self.mass[:light].sum() / mass.sum()
        rows = np.concatenate([rows, np.arange(light, self.size)])
        return Columns(self.cost[:, rows], np.concatenate([mass, self.mass[light:]]), self.anchors)

    def gaps(self, prices: Floats) -> Floats:
        """How much more the second cheapest cell costs than the cheapest, for each row but the anchors."""
        slack = self.cost[:, : self.size - self.anchors] - prices[:, None]
        if len(slack) == 1:
            return np.full(slack.shape[1], np.inf)
        two = np.partition(slack, 1, axis=0)[:2]
        return two[1] - two[0]

    def scan(self, prices: Floats, margin: float) -> Scan:
        """See `Table`."""
        slack = self.cost - prices[:, None]
        key = slack.argmin(axis=0)
        near = np.count_nonzero(slack <= slack.min(axis=0) + margin, axis=0) > 1
        doubt, kept = np.flatnonzero(near), np.flatnonzero(~near)
        mass = self.mass[kept]
        return Scan(
            key,
            doubt,
            self.cost[:, doubt],
            self.mass[doubt],
            np.bincount(key[kept], mass, len(prices)),
            float(mass @ self.cost[key[kept], kept]),
        )


@dataclass(frozen=True)
class Optimum:
    """An optimal vertex of a table, with the sums that certify it."""

    vertex: Vertex
    cost: float  # Σ mass · cost over the plan
    bound: float  # Σ_i r_i min_g (c_ig − u_g), the rows' part of the dual function


def solve(table: Table, prices: Floats, fair: ParitySet, noise: float) -> Optimum:
    """Solve a table exactly (up to `noise`, see `DualSimplex`), starting at `prices` (G,)."""
    if isinstance(table, Columns) and table.size <= max(_SMALL, 2 * table.anchors):
        return _solve_small(table, prices, fair, noise)
    cells = len(prices)
    count = max(_SMALL, int((_DOUBT * table.size) ** (2 / 3) * cells ** (1 / 3)))
    sample = table.sample(count)
    if 2 * sample.size >= table.size and isinstance(table, Columns):
        return _solve_small(table, prices, fair, noise)
    prices = solve(sample, prices, fair, noise).vertex.prices
    gaps = np.sort(sample.gaps(prices))
    share = _DOUBT * (cells / sample.size) ** 0.5
    while True:
        place = int(share * len(gaps))
        margin = float(gaps[place]) if place < len(gaps) else np.inf
        scan = table.scan(prices, margin)
        inner = _with_anchors(scan, prices, margin)
        small = 2 * inner.size <= table.size
        found = solve(inner, prices, fair, noise) if small else _solve_small(inner, prices, fair, noise)
        vertex = found.vertex
        first = len(scan.doubt)  # of the anchors
        anchors = np.flatnonzero(scan.kept > 0)
        if (vertex.key[first:] == anchors).all() and (vertex.split_row < first).all():
            break
        prices = vertex.prices
        share *= 4
    scan.key[scan.doubt] = vertex.key[:first]
    anchored = scan.kept[anchors] @ prices[anchors]  # the anchors cost what their cell's price is
    return Optimum(
        Vertex(
            vertex.prices,
            scan.key,
            scan.doubt[vertex.split_row],
            vertex.split_cell,
            vertex.split_mass,
            vertex.pivots,
        ),
        found.cost + scan.kept_cost - anchored,
        found.bound + scan.kept_cost - anchored,
    )


def _with_anchors(scan: Scan, prices: Floats, margin: float) -> Columns:
    anchors = np.flatnonzero(scan.kept > 0)
    cost = np.repeat((prices + margin)[:, None], len(anchors), axis=1)
    cost[anchors, np.arange(len(anchors))] = prices[anchors]
    return Columns(
        np.concatenate([scan.cost, cost], axis=1), np.concatenate([scan.mass, scan.kept[anchors]]), len(anchors)
    )


def _solve_small(table: Columns, prices: Floats, fair: ParitySet, noise: float) -> Optimum:
    slack = table.cost - prices[:, None]
    key = slack.argmin(axis=0)
    rows = np.arange(table.size)
    slack -= slack[key, rows]
    vertex = DualSimplex(slack, key, table.mass, prices, fair, noise).solve()
    own = table.cost[vertex.key, rows]
    extra = table.cost[vertex.split_cell, vertex.split_row] - own[vertex.split_row]
    least = (table.cost - vertex.prices[:, None]).min(axis=0)
    return Optimum(
        vertex, float(table.mass @ own + vertex.split_mass @ extra), float(table.mass @ least)
    )
