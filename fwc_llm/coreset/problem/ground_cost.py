"""The ground cost of moving a row to a point.

See docs/method.md, "Ground cost and scaling".

    c((x, d, y), (x', d', y')) = Σ_numeric |x_k − x'_k| (or squared) + Σ_categorical v_k [x_k ≠ x'_k]
                                 + cost_sensitive [d ≠ d'] + cost_outcome [y ≠ y']

`column_weights` are included: in the encoded numbers, and in v_k of a categorical column. `FeatureCost` is
the first line of the formula; kernels take it as an argument. `tile_costs` and `pair_cost` are its compiled
forms, for rows of numbers followed by codes. All agree (tests/coreset/problem/test_ground_cost.py).
"""

from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.compiled import part, read_only
from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoded_table import SQUARED, EncodedTable

COSTS = ("l1", "sqeuclidean")
ROWS = 64  # rows per block
WIDTH = 4  # representatives per tile
_BLOCK = 2048  # rows per step: with a few dozen columns they fit into the cache


class FeatureCost(NamedTuple):
    """The cost between the features of two rows: numbers, then codes."""

    squared: bool  # whether differences of numbers are squared
    unit: Any  # (c,) float32 cost of a mismatch in each column of codes

    @classmethod
    def of(cls, table: EncodedTable, cost: str) -> "FeatureCost":
        """Make the cost "l1", "sqeuclidean" or "l2" (squared: callers take the root) of a table's columns."""
        return cls(SQUARED[cost], read_only(table.mismatch))

    def between(self, values: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return costs (n,) of rows `values` (p, n) to one point (p,), or to a point for each row (p, n)."""
        k, points = len(values) - len(self.unit), points.reshape(len(values), -1)
        difference = values[:k] - points[:k]
        if self.squared:
            np.multiply(difference, difference, out=difference)
        else:
            np.abs(difference, out=difference)
        total = difference.sum(0, dtype=np.float64)
        if len(self.unit):
            total += self.unit.astype(np.float64) @ (values[k:] != points[k:])
        return np.asarray(total)

    def at_rows(self, table: EncodedTable, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """(r,) Σ_i w_i c(x_i, v) for every row v among `rows` (r,), where i runs over the same rows."""
        total, costs = weight.sum(), np.zeros(len(rows))
        for unit, codes in zip(self.unit, table.codes[rows].T, strict=True):
            costs += unit * (total - np.bincount(codes, weight)[codes])
        # Centred at the weighted mean, so that the sums do not cancel.
        numeric = np.ascontiguousarray(table.numbers[rows].T, np.float64)
        numeric -= (weight * numeric).sum(1, keepdims=True) / total
        if self.squared:
            squares = numeric * numeric
            return np.asarray(costs + (total * squares + (weight * squares).sum(1, keepdims=True)).sum(0))
        order = np.argsort(numeric, axis=1)
        ordered, weights = numeric[np.arange(len(order))[:, None], order], weight[order]
        below, moment = np.cumsum(weights, axis=1), np.cumsum(weights * ordered, axis=1)
        of_column = ordered * (2 * below - below[:, -1:]) - (2 * moment - moment[:, -1:])
        return np.asarray(costs + np.bincount(order.ravel(), of_column.ravel(), len(rows)))


def cost_matrix(rows: EncodedTable, points: EncodedTable, cost: str) -> np.ndarray:
    """(n, m) feature costs of every row to every point, encoded by the same encoder."""
    matrix, feature_cost = np.empty((rows.n, points.n)), FeatureCost.of(rows, cost)
    for block in blocks(rows.n):
        values = np.ascontiguousarray(rows.values[block].T)
        for j, point in enumerate(points.values):
            matrix[block, j] = feature_cost.between(values, point)
    return matrix


def blocks(n: int) -> list[slice]:
    """Divide n rows into slices of at most 2,048."""
    return [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]


def between_cells(cells: Cells, cost_sensitive: float, cost_outcome: float) -> np.ndarray:
    """(G, G) cost of moving a row from one cell to another, without the feature cost."""
    level, outcome = np.divmod(np.arange(cells.n_cells), cells.n_outcomes)
    return np.asarray(
        cost_sensitive * (level[:, None] != level) + cost_outcome * (outcome[:, None] != outcome), dtype=float
    )


def in_groups(values: np.ndarray, size: int) -> np.ndarray:
    """Group points (q, p) as (ceil(q / size), p, size); copies of the last point fill the last group."""
    count = -(-len(values) // size)
    places = np.minimum(np.arange(count * size), len(values) - 1).reshape(count, size)
    return np.ascontiguousarray(values[places].transpose(0, 2, 1))


@part(forceinline=True)
def tile_costs(block, tiles, t, cost, out):  # type: ignore[no-untyped-def]
    """Set `out` (WIDTH, ROWS): costs from `block` (p, ROWS) to tile t of `tiles` (T, p, WIDTH)."""
    n_numeric = len(block) - len(cost.unit)
    for w in range(WIDTH):
        for lane in range(ROWS):
            out[w, lane] = 0
    for k in range(len(block)):
        for w in range(WIDTH):
            value = tiles[t, k, w]
            if k >= n_numeric:
                unit = cost.unit[k - n_numeric]
                for lane in range(ROWS):
                    out[w, lane] += unit if block[k, lane] != value else np.float32(0)
            elif cost.squared:
                for lane in range(ROWS):
                    out[w, lane] += (block[k, lane] - value) * (block[k, lane] - value)
            else:
                for lane in range(ROWS):
                    out[w, lane] += abs(block[k, lane] - value)


def _pair_cost(x, i, points, j, cost):  # type: ignore[no-untyped-def]
    """Return the feature cost between the rows `x[i]` and `points[j]`."""
    total, n_numeric = x.dtype.type(0), x.shape[1] - len(cost.unit)
    for k in range(n_numeric):
        apart = x[i, k] - points[j, k]
        total += apart * apart if cost.squared else abs(apart)
    for k in range(n_numeric, x.shape[1]):
        total += cost.unit[k - n_numeric] if x[i, k] != points[j, k] else np.float32(0)
    return total


pair_cost = part(_pair_cost, forceinline=True, fastmath={"reassoc"})  # in any order: vectorised
exact_cost = part(_pair_cost)
