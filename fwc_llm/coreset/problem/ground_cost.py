"""The ground cost: what it costs to move a row to a point (docs/method.md, "Ground cost and scaling").

    c((x, d, y), (x', d', y')) = Σ_numeric |x_k − x'_k| (or squared) + Σ_categorical v_k [x_k ≠ x'_k]
                                 + cost_sensitive [d ≠ d'] + cost_outcome [y ≠ y']

Of `column_weights`, those of numbers are in the numbers, and v_k is that of a category times
`table.MISMATCH`.
All code that needs this cost takes it from here. Compiled loops, and `fwc_llm.coreset.tile`, repeat it, for
speed. All agree (tests/coreset/problem/test_ground_cost.py).
"""

import numpy as np

from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoded_table import EncodedTable

COSTS = ("l1", "sqeuclidean")
_BLOCK = 2048  # rows per step: with a few dozen columns they fit into the cache


def column_costs(
    numbers: np.ndarray, codes: np.ndarray, point: np.ndarray, kinds: np.ndarray, cost: str, unit: np.ndarray
) -> np.ndarray:
    """(n,) feature cost of rows, columns first, to one point, or of each row to its own point.

    The rows are `numbers` (k, n) and `codes` (c, n), of any type. One point is `point` (k,) and `kinds` (c,);
    n points, one per row, are (k, n) and (c, n). `unit` (c,) is what a mismatch costs.
    """
    if point.ndim == 1:
        point, kinds = point[:, None], kinds[:, None]
    difference = numbers - point
    if cost == "l1":
        np.abs(difference, out=difference)
    else:
        np.multiply(difference, difference, out=difference)
    total = difference.sum(0, dtype=np.float64)
    if len(codes):
        total += unit.astype(np.float64) @ (codes != kinds)
    return np.asarray(total)


def feature_costs(values: np.ndarray, point: np.ndarray, cost: str, unit: np.ndarray) -> np.ndarray:
    """`column_costs` for rows and points as one matrix of numbers and codes: (p, n), (p,) or (p, n)."""
    q = len(values) - len(unit)
    return column_costs(values[:q], values[q:], point[:q], point[q:], cost, unit)


def cost_matrix(rows: EncodedTable, points: EncodedTable, cost: str) -> np.ndarray:
    """(n, m) feature costs of every row to every point; `points` are encoded as the rows are."""
    matrix = np.empty((rows.n, points.n))
    for block in blocks(rows.n):
        numbers, codes = (np.ascontiguousarray(part[block].T) for part in (rows.numbers, rows.codes))
        for j in range(points.n):
            point = points.numbers[j], points.codes[j]
            matrix[block, j] = column_costs(numbers, codes, *point, cost, rows.mismatch)
    return matrix


def blocks(n: int) -> list[slice]:
    """Blocks of n rows."""
    return [slice(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]


def between_cells(cells: Cells, cost_sensitive: float, cost_outcome: float) -> np.ndarray:
    """(G, G) cost of moving a row from one cell to another, without the features."""
    level, outcome = np.divmod(np.arange(cells.n_cells), cells.n_outcomes)
    return np.asarray(
        cost_sensitive * (level[:, None] != level) + cost_outcome * (outcome[:, None] != outcome), dtype=float
    )
