"""Feature costs of a block of rows to a tile of representatives, and of one row to one, as plain loops.

`hand_laid_tile` holds the same functions for the machine; these take twice as long, and work with any numba.
"""

import numpy as np

from fwc_llm.coreset.compiling.kernel import part

ROWS = 64  # rows of a block
WIDTH = 4  # representatives of a tile


@part
def l1_tile(block, tiles, t, n_numeric, out):  # type: ignore[no-untyped-def]
    """L1 costs `out` (WIDTH, ROWS) of the rows `block` (p, ROWS) to tile t of the `tiles` (T, p, WIDTH).

    The first `n_numeric` columns are numbers; a mismatch in any other costs 1. All arrays are float32.
    """
    for w in range(WIDTH):
        for lane in range(ROWS):
            out[w, lane] = 0
        for k in range(n_numeric):
            for lane in range(ROWS):
                out[w, lane] += abs(block[k, lane] - tiles[t, k, w])
    _add_mismatches(block, tiles, t, n_numeric, out)


@part
def sqeuclidean_tile(block, tiles, t, n_numeric, out):  # type: ignore[no-untyped-def]
    """Squared L2 costs, see `l1_tile`."""
    for w in range(WIDTH):
        for lane in range(ROWS):
            out[w, lane] = 0
        for k in range(n_numeric):
            for lane in range(ROWS):
                difference = block[k, lane] - tiles[t, k, w]
                out[w, lane] += difference * difference
    _add_mismatches(block, tiles, t, n_numeric, out)


@part
def _add_mismatches(block, tiles, t, n_numeric, out):  # type: ignore[no-untyped-def]
    for w in range(WIDTH):
        for k in range(n_numeric, len(block)):
            for lane in range(ROWS):
                if block[k, lane] != tiles[t, k, w]:
                    out[w, lane] += 1


@part
def l1_pair(x, i, points, j, n_numeric):  # type: ignore[no-untyped-def]
    """The L1 cost between `x[i]` and `points[j]`, rows of float32 matrices; sums differ by rounding."""
    total = _mismatches(x, i, points, j, n_numeric)
    for k in range(n_numeric):
        total += abs(x[i, k] - points[j, k])
    return total


@part
def sqeuclidean_pair(x, i, points, j, n_numeric):  # type: ignore[no-untyped-def]
    """The squared L2 cost, see `l1_pair`."""
    total = _mismatches(x, i, points, j, n_numeric)
    for k in range(n_numeric):
        difference = x[i, k] - points[j, k]
        total += difference * difference
    return total


@part
def _mismatches(x, i, points, j, n_numeric):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for k in range(n_numeric, x.shape[1]):
        if x[i, k] != points[j, k]:
            total += np.float32(1)
    return total
