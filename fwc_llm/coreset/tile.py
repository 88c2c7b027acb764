"""Compiled feature costs: of a block of rows to a tile of representatives, and of one row to one.

All arrays but those of `exact_cost` are float32; the last columns are codes, see `FeatureCost`.
"""

import numpy as np

from fwc_llm.coreset.compiled import part

ROWS = 64  # rows of a block
WIDTH = 4  # representatives of a tile


def in_groups(values: np.ndarray, size: int) -> np.ndarray:
    """(ceil(q / size), p, size) of the points (q, p); the last group is filled up with the last point."""
    count = -(-len(values) // size)
    places = np.minimum(np.arange(count * size), len(values) - 1).reshape(count, size)
    return np.ascontiguousarray(values[places].transpose(0, 2, 1))


@part(forceinline=True)
def tile_costs(block, tiles, t, cost, out):  # type: ignore[no-untyped-def]
    """Write the costs `out` (WIDTH, ROWS) of `block` (p, ROWS) to tile t of `tiles` (T, p, WIDTH)."""
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
    """Return the cost between `x[i]` and `points[j]`, rows of matrices."""
    total, n_numeric = x.dtype.type(0), x.shape[1] - len(cost.unit)
    for k in range(n_numeric):
        apart = x[i, k] - points[j, k]
        total += apart * apart if cost.squared else abs(apart)
    for k in range(n_numeric, x.shape[1]):
        total += cost.unit[k - n_numeric] if x[i, k] != points[j, k] else np.float32(0)
    return total


pair_cost = part(_pair_cost, forceinline=True, fastmath={"reassoc"})  # in any order, so that it is vectorised
exact_cost = part(_pair_cost)
