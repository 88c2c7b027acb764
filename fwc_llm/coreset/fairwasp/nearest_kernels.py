"""Compiled search for nearest rows (numba): imported only for tables large enough to be worth the import."""

import numpy as np

from fwc_llm.coreset.compiled import column_cost, kernel, part
from fwc_llm.coreset.tile import ROWS, WIDTH, l1_tile, sqeuclidean_tile


@part
def _bound(columns, count, low, high, n_numeric, squared, bound):  # type: ignore[no-untyped-def]
    """Writes `bound` (count,): the least that rows, of values `columns` (p, count), cost to a box."""
    none, one = np.float32(0), np.float32(1)
    for lane in range(count):
        bound[lane] = none
    for k in range(n_numeric):
        below, above = low[k], high[k]
        for lane in range(count):
            value = columns[k, lane]
            left, right = below - value, value - above
            away = left if left > right else right
            away = away if away > none else none
            bound[lane] += away * away if squared else away
    for k in range(n_numeric, len(columns)):
        below, above = low[k], high[k]
        for lane in range(count):
            value = columns[k, lane]
            bound[lane] += one if value < below or value > above else none


@part
def _cost(values, i, j, n_numeric, squared, limit):  # type: ignore[no-untyped-def]
    """The cost of rows i and j in float64, or more than `limit` if it is more."""
    total = 0.0
    for k in range(values.shape[1]):
        total += column_cost(values[i, k] - values[j, k], k < n_numeric, squared)
        if total > limit:
            break
    return total


@kernel
def find_nearest(  # type: ignore[no-untyped-def]
    x, values, error, rows, best, found, members, tiles, lows, highs, leaf_error, leaves, bounds,
    n_numeric, squared, scale, rounding, columns, reach, limit, bound, queue, block, near, out,
):  # fmt: skip
    """Find for each of `rows` (q,) the nearest of the `members` (K,) of the `leaves`, if below `best` (q,).

    Writes `best` and `found` (q,). `x` (n, p) and `tiles` (T, p, WIDTH) are float32 and choose what is
    compared; `values` (n, p) float64 are compared. `error` (n,) and `leaf_error` (L,) are what float32 takes
    from a row, and `rounding` what it adds to a sum, relative; a unit of `values` is `scale` of `x`.
    `leaves` (l,) are visited in this order; `bounds` (l,) say how far they are from all rows at least.
    The last eight are room.
    """
    p, count, in_leaf = x.shape[1], len(rows), 16
    for lane in range(count):
        i = rows[lane]
        for k in range(p):
            columns[k, lane] = x[i, k]
        reach[lane] = (np.sqrt(best[lane]) if squared else best[lane]) * scale + error[i]
    for place in range(len(leaves)):
        leaf = leaves[place]
        widest = np.float32(-1)
        for lane in range(count):
            far = reach[lane] + leaf_error[leaf]
            far = (far * far if squared else far) * rounding
            far = far if reach[lane] >= 0 else np.float32(-1)
            limit[lane] = far
            widest = far if far > widest else widest
        if bounds[place] > widest:
            continue
        _bound(columns, count, lows[leaf], highs[leaf], n_numeric, squared, bound)
        waiting = 0
        for lane in range(count):
            if bound[lane] <= limit[lane]:
                queue[waiting] = lane
                waiting += 1
            if waiting < ROWS and (lane < count - 1 or waiting == 0):
                continue
            for q in range(ROWS):
                source = queue[min(q, waiting - 1)]
                near[q] = limit[source] if q < waiting else np.float32(-1)
                for k in range(p):
                    block[k, q] = columns[k, source]
            for t in range(leaf * in_leaf, min((leaf + 1) * in_leaf, len(tiles))):
                if squared:
                    sqeuclidean_tile(block, tiles, t, n_numeric, out)
                else:
                    l1_tile(block, tiles, t, n_numeric, out)
                hits = np.int32(0)
                for w in range(WIDTH):
                    for q in range(ROWS):
                        hits += np.int32(1) if out[w, q] <= near[q] else np.int32(0)
                if hits == 0:
                    continue
                for w in range(min(WIDTH, len(members) - t * WIDTH)):
                    j = members[t * WIDTH + w]
                    for q in range(waiting):
                        if out[w, q] > near[q]:
                            continue
                        source = queue[q]
                        cost = _cost(values, rows[source], j, n_numeric, squared, best[source])
                        if cost < best[source]:
                            best[source], found[source] = cost, j
                            far = (np.sqrt(cost) if squared else cost) * scale + error[rows[source]]
                            reach[source] = far if cost > 0 else -1.0
                            far = reach[source] + leaf_error[leaf]
                            far = (far * far if squared else far) * rounding
                            near[q] = far if cost > 0 else np.float32(-1)
            waiting = 0
