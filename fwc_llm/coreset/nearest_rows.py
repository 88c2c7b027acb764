"""Compiled search for nearest rows (numba): imported only for tables large enough to be worth the import."""

import numpy as np

from fwc_llm.coreset.compiled import kernel

WIDTH = 16  # rows that are compared at once


def make_tiles(values: np.ndarray) -> np.ndarray:
    """The rows of `values` (K, p) as (T, p, WIDTH), the last tile filled up with the last row."""
    full = np.minimum(np.arange(-(-len(values) // WIDTH) * WIDTH), len(values) - 1)
    return np.ascontiguousarray(values[full].reshape(-1, WIDTH, values.shape[1]).transpose(0, 2, 1))


@kernel
def find_nearest(  # type: ignore[no-untyped-def]
    rows, tiles, names, n_numeric, squared, best, found, low, high
):
    """Find for `rows[low:high]` (q, p) the nearest row of `tiles` (T, p, WIDTH), if below `best` (q,).

    Writes its cost to `best`, and its entry of `names` (K,) to `found` (q,).
    """
    sums = np.empty(16)
    for q in range(low, high):
        least = best[q]
        for t in range(len(tiles)):
            for w in range(16):
                sums[w] = 0.0
            for k in range(rows.shape[1]):
                value = rows[q, k]
                if k >= n_numeric:
                    for w in range(16):
                        sums[w] += 1.0 if tiles[t, k, w] != value else 0.0
                elif squared:
                    for w in range(16):
                        sums[w] += (tiles[t, k, w] - value) * (tiles[t, k, w] - value)
                else:
                    for w in range(16):
                        sums[w] += abs(tiles[t, k, w] - value)
                if k % 4 == 3:
                    near = 0
                    for w in range(16):
                        near += 1 if sums[w] < least else 0
                    if near == 0:
                        break
            for w in range(16):
                if sums[w] < least:
                    least, found[q] = sums[w], names[t * 16 + w]
        best[q] = least
