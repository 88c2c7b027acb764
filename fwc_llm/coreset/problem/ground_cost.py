"""The ground cost of moving a row to a point.

See docs/method.md, "Ground cost and scaling".

    c((x, d, y), (x', d', y')) = Σ_numeric |x_k − x'_k| (or squared) + Σ_categorical v_k [x_k ≠
                                 x'_k] + cost_sensitive [d ≠ d'] + cost_outcome [y ≠ y']

`column_weights` are included: in the encoded numbers, and in v_k of a categorical column. All that
the solver knows of a cost of numbers is in its object (`L1`, `SQUARED_L2`) and, for compiled code,
in `_term`. `FeatureCost` is the first line of the formula; kernels take it as an argument.
`tile_costs` and `pair_cost` are its compiled forms, for rows of numbers followed by codes. All
agree (tests/coreset/problem/test_ground_cost.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import part, read_only
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.medians import Groups, medians
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

ROWS = 64  # rows per block
WIDTH = 4  # representatives per tile
_BLOCK = 2048  # rows per step: with a few dozen columns they fit into the cache
_LARGEST = (
    1e303  # largest cost of a row whose sum over all rows stays below float64's maximum
)


@dataclass
class GroundCost:
    """The cost of the differences of numbers."""

    kind: int  # of `_term`
    root: bool  # whether the triangle inequality holds for the cost's root, not for the cost
    # rows of a sample per representative, with which a fit is within 0.1 % of one of all rows
    sampled: int
    of: Callable[[Array], Array]  # turns differences into costs, in place
    # The factor of a column's numbers that multiplies its cost by a weight.
    scale: Callable[[float], float]
    # The least and the largest points (g, k) of least cost for the rows of each group.
    centres: Callable[[Array, Groups, Threads], tuple[Array, Array]]
    # (r,) Σ_i w_i c(x_i, v) for every v among values (k, r), whose weighted means are 0.
    sums: Callable[[Array, Array], Array]


def _sums_of_distances(values: Array, weight: Array) -> Array:
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    weights = weight[order]
    below = np.cumsum(weights, axis=1)
    moment = np.cumsum(weights * ordered, axis=1)
    costs = ordered * (2 * below - below[:, -1:]) - (2 * moment - moment[:, -1:])
    return np.bincount(order.ravel(), costs.ravel(), len(weight))


def _sums_of_squares(values: Array, weight: Array) -> Array:
    squares = values * values
    within = (weight * squares).sum(1, keepdims=True)
    return np.asarray((weight.sum() * squares + within).sum(0))


def _means(numbers: Array, groups: Groups, threads: Threads) -> tuple[Array, Array]:
    means = np.zeros((groups.count, numbers.shape[1]))

    def find(j: int) -> None:
        rows, weight = groups.of(j)
        means[j] = weight @ numbers[rows].astype(np.float64) / weight.sum()

    threads.over(find, np.flatnonzero(np.diff(groups.start)))
    return means, means


L1 = GroundCost(
    kind=0,
    root=False,
    sampled=2000,
    of=lambda difference: np.abs(difference, out=difference),
    scale=lambda weight: weight,
    centres=medians,
    sums=_sums_of_distances,
)
SQUARED_L2 = GroundCost(
    kind=1,
    root=True,
    sampled=3200,
    of=lambda difference: np.multiply(difference, difference, out=difference),
    scale=lambda weight: float(weight**0.5),
    centres=_means,
    sums=_sums_of_squares,
)
COSTS = {"l1": L1, "sqeuclidean": SQUARED_L2}


def check_costs(table: EncodedTable, cost: str) -> None:
    """Raise `InputError` if the cost of a row may exceed float64."""
    with np.errstate(over="ignore"):
        costs = COSTS[cost].of(table.span.copy())
        total = costs.sum()
    if total > _LARGEST:
        k = int(costs.argmax())
        raise InputError(
            f"the numbers of column {k} of X are up to {table.span[k]:.3g} apart: the costs are "
            f"too large "
            "for double precision; scale that column"
        )


class FeatureCost(NamedTuple):
    """The cost between the features of two rows: numbers, then codes."""

    kind: int  # of the cost of numbers
    root: bool  # see `GroundCost`
    unit: Any  # (c,) float32 cost of a mismatch in each column of codes

    @classmethod
    def of(cls, table: EncodedTable, cost: str) -> "FeatureCost":
        """Make the cost of a table's columns; "l2" is "sqeuclidean", of which callers take the
        root.
        """
        numbers = COSTS["sqeuclidean" if cost == "l2" else cost]
        return cls(numbers.kind, numbers.root, read_only(table.mismatch))

    @property
    def numbers(self) -> GroundCost:
        """The cost of numbers."""
        return next(cost for cost in COSTS.values() if cost.kind == self.kind)

    def between(self, values: Array, points: Array) -> Array:
        """Return costs (n,) of rows `values` (p, n) to one point (p,), or to a point for each
        row (p, n).
        """
        k = len(values) - len(self.unit)
        points = points.reshape(len(values), -1)
        total = self.numbers.of(values[:k] - points[:k]).sum(0, dtype=np.float64)
        if len(self.unit):
            total += self.unit.astype(np.float64) @ (values[k:] != points[k:])
        return np.asarray(total)

    def matrix(self, rows: EncodedTable, points: Array) -> Array:
        """Return costs (n, m) of rows to points (m, p)."""
        costs = np.empty((rows.n, len(points)))
        for block in blocks(rows.n):
            values = np.ascontiguousarray(rows.values[block].T)
            for j, point in enumerate(points):
                costs[block, j] = self.between(values, point)
        return costs

    def at_rows(self, table: EncodedTable, rows: Array, weight: Array) -> Array:
        """(r,) Σ_i w_i c(x_i, v) for every row v among `rows` (r,), where i runs over the same
        rows.
        """
        total = weight.sum()
        numbers = np.ascontiguousarray(table.numbers[rows].T, np.float64)
        numbers -= (weight * numbers).sum(
            1, keepdims=True
        ) / total  # so that sums do not cancel
        costs = np.zeros(len(rows))
        for unit, codes in zip(self.unit, table.codes[rows].T, strict=True):
            costs += unit * (total - np.bincount(codes, weight)[codes])
        return np.asarray(costs + self.numbers.sums(numbers, weight))


def cost_matrix(rows: EncodedTable, points: EncodedTable, cost: str) -> Array:
    """(n, m) feature costs of every row to every point, encoded by the same encoder."""
    return FeatureCost.of(rows, cost).matrix(rows, points.values)


def blocks(n: int) -> list[slice]:
    """Divide n rows into slices of at most 2,048."""
    return [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]


def in_chunks(group: Array, groups: int, size: int) -> tuple[Array, Array]:
    """The members of each group in chunks (C, size), padded by −1, and the first chunk of each
    group (G + 1,); `group` (n,) is that of each member.
    """
    order = np.argsort(group.astype(np.min_scalar_type(groups)), kind="stable")
    count = np.bincount(group, minlength=groups)
    start = np.cumsum(np.append(0, -(-count // size)))
    ahead = size * start[:-1] - (np.cumsum(count) - count)
    chunks = np.full(size * start[-1], -1, np.int32)
    chunks[np.arange(len(group)) + np.repeat(ahead, count)] = order
    return chunks.reshape(-1, size), start


class Tiles(NamedTuple):
    """The representatives, in tiles of `WIDTH` by cell."""

    values: Any  # (T, p, WIDTH)
    label: Any  # (T, WIDTH) index of each representative, −1 for padding
    start: Any  # (G + 1,) first tile of each cell

    @classmethod
    def of(cls, points: Array, cell_of: Array, cells: int) -> "Tiles":
        """Lay out points (m, p), whose cells `cell_of` (m,) ascend."""
        label, start = in_chunks(cell_of, cells, WIDTH)
        values = np.ascontiguousarray(points[label].transpose(0, 2, 1))
        return cls(values, label, start)


@part(forceinline=True)
def _term(difference, kind):  # type: ignore[no-untyped-def]
    """Return the cost of a difference of numbers."""
    if kind == 1:
        return difference * difference
    return abs(difference)


@part(forceinline=True)
def tile_costs(block, tiles, t, cost, out):  # type: ignore[no-untyped-def]
    """Set `out` (WIDTH, ROWS): costs from `block` (p, ROWS) to tile t of `tiles` (T, p, WIDTH).

    Four columns are added in one inner loop, in their order: `out` is then read and written once
    for them.
    """
    n_numeric = len(block) - len(cost.unit)
    fours = n_numeric // 4 * 4
    kind = cost.kind
    for w in range(WIDTH):
        for lane in range(ROWS):
            out[w, lane] = 0
        for k in range(0, fours, 4):
            first = tiles[t, k, w]
            second = tiles[t, k + 1, w]
            third = tiles[t, k + 2, w]
            fourth = tiles[t, k + 3, w]
            for lane in range(ROWS):
                total = out[w, lane] + _term(block[k, lane] - first, kind)
                total += _term(block[k + 1, lane] - second, kind)
                total += _term(block[k + 2, lane] - third, kind)
                out[w, lane] = total + _term(block[k + 3, lane] - fourth, kind)
        for k in range(fours, n_numeric):
            value = tiles[t, k, w]
            for lane in range(ROWS):
                out[w, lane] += _term(block[k, lane] - value, kind)
        for k in range(n_numeric, len(block)):
            value = tiles[t, k, w]
            unit = cost.unit[k - n_numeric]
            for lane in range(ROWS):
                out[w, lane] += unit if block[k, lane] != value else np.float32(0)


@part(forceinline=True, fastmath={"reassoc"})  # in any order: vectorised
def pair_cost(x, i, points, j, cost):  # type: ignore[no-untyped-def]
    """Return the feature cost between the rows `x[i]` and `points[j]`."""
    total = x.dtype.type(0)
    n_numeric = x.shape[1] - len(cost.unit)
    for k in range(n_numeric):
        total += _term(x[i, k] - points[j, k], cost.kind)
    for k in range(n_numeric, x.shape[1]):
        total += cost.unit[k - n_numeric] if x[i, k] != points[j, k] else np.float32(0)
    return total
