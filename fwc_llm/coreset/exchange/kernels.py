"""The kernels of swaps at fixed prices: the best swap of a batch of candidates, the two nearest points.

The cost of a row at a point of cell g is a metric F between them less the price of g. F is L1 or L2 over the
numbers, where a mismatch of two codes costs `unit` and the way from the row's cell to g what `between` says;
or it is L2 and the cost its square less the price. (k-medoids has one cell, no way and no price.)

Tables lie column by column, `numbers` (k, n) float32 and `codes` (c, n) of a small integer type, so that the
inner loops run along rows. The kernels are serial; `best_exchanges` lets go of the GIL, for plain threads to
share a batch. (numba's own threads wait by spinning, which on a busy machine costs more than the work.)
"""

import numpy as np
from numba import njit

L1, L2, SQUARED = 0, 1, 2
_BLOCK = 2048
_SLACK = np.float32(
    1.0 - 1e-5
)  # distances are rounded to float32: a bound must not cut off what just matters


@njit(cache=True)
def _metric(numbers, codes, unit, between, values, kinds, start, stop, kind, mismatches, out):  # type: ignore[no-untyped-def]
    """out[i - start] = Σ_k |x_ik − values_k| (or squares, or the root), with codes and `between` (n,)."""
    size = stop - start
    for i in range(size):
        mismatches[i] = 0
    for c in range(codes.shape[0]):
        column, code = codes[c, start:stop], kinds[c]
        for i in range(size):
            mismatches[i] += column[i] != code
    for i in range(size):
        out[i] = unit * np.float32(mismatches[i]) + between[start + i]
    for k in range(numbers.shape[0]):
        numeric, value = numbers[k, start:stop], values[k]
        if kind == L1:
            for i in range(size):
                out[i] += abs(numeric[i] - value)
        else:
            for i in range(size):
                out[i] += (numeric[i] - value) * (numeric[i] - value)
    if kind == L2:
        for i in range(size):
            out[i] = np.sqrt(out[i])


@njit(cache=True, fastmath={"reassoc", "nsz"})
def _gains(out, price, d_nearest, d_second, start, stop):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over one point's rows start to stop, d = out − price."""
    added, gain = 0.0, 0.0
    for i in range(stop - start):
        d, nearest, second = out[i] - price, d_nearest[start + i], d_second[start + i]
        closer = np.float64(d) - np.float64(nearest)
        added += closer if closer < 0.0 else 0.0
        change = np.float64(d if d > nearest else nearest) - np.float64(second)
        gain += change if change < 0.0 else 0.0
    return added, gain


@njit(cache=True)
def _swap_change(  # type: ignore[no-untyped-def]
    table, rows, points, values, kinds, cell, removal, price, kind, apart, unit
):
    """The point whose exchange for a candidate changes the loss most, and by how much (FastPAM1).

    A row whose point goes costs min(d, d₂) instead of d₁, any other min(d, d₁). Rows are sorted by point and,
    within, by how far a candidate may be from it and still matter, farthest first: as
    F ≥ F(candidate, point) − F(row, point), those that reach less far than F(candidate, point) do not.
    """
    numbers, codes, between = table
    starts, reach, d_nearest, d_second = rows
    centres, centre_codes, cell_of = points
    gain = removal.copy()
    added = 0.0
    out, mismatches = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, codes.dtype)
    away = np.empty(len(gain), np.float32)
    for first in range(0, len(gain), _BLOCK):
        last = min(len(gain), first + _BLOCK)
        _metric(centres, centre_codes, unit, apart[cell], values, kinds, first, last, kind, mismatches, out)
        away[first:last] = np.sqrt(out[: last - first]) if kind == SQUARED else out[: last - first]
    for slot in range(len(gain)):
        end = _reached(starts[slot], starts[slot + 1], reach, away[slot] * _SLACK)
        for start in range(starts[slot], end, _BLOCK):
            stop = min(end, start + _BLOCK)
            _metric(numbers, codes, unit, between[cell], values, kinds, start, stop, kind, mismatches, out)
            closer, change = _gains(out, price[cell], d_nearest, d_second, start, stop)
            added += closer
            gain[slot] += change
    best, least = 0, np.inf
    for slot in range(len(gain)):
        if cell_of[slot] == cell and gain[slot] < least:
            best, least = slot, gain[slot]
    return best, least + added


@njit(cache=True)
def _reached(start, end, reach, limit):  # type: ignore[no-untyped-def]
    """The end of those rows from start whose reach, falling, is above the limit."""
    while start < end:
        middle = (start + end) // 2
        if reach[middle] > limit:
            start = middle + 1
        else:
            end = middle
    return start


@njit(cache=True, nogil=True)
def best_exchanges(table, rows, points, values, kinds, cells, price, kind, apart, unit):  # type: ignore[no-untyped-def]
    """For every candidate the point to exchange for it, and the change of the loss: (batch,) each.

    `table` is (numbers, codes, between (G, n)), and `rows` (starts (m + 1,), reach, costs to the nearest and
    the second point (n,)), both sorted by nearest point, those of s from starts[s] to starts[s + 1], and
    within by reach, largest first. `points` is (numbers (k, m), codes (c, m), cells (m,)), the candidates are
    `values` (k, batch), `kinds` (c, batch) and `cells` (batch,); `apart` (G, m) is between cells and points.
    """
    starts, _, d_nearest, d_second = rows
    m, size = len(starts) - 1, len(cells)
    removal = np.zeros(m)
    for slot in range(m):
        for i in range(starts[slot], starts[slot + 1]):
            removal[slot] += np.float64(d_second[i]) - np.float64(d_nearest[i])
    slots, changes = np.zeros(size, np.int64), np.zeros(size)
    for b in range(size):
        slots[b], changes[b] = _swap_change(
            table, rows, points, values[:, b], kinds[:, b], cells[b], removal, price, kind, apart, unit
        )
    return slots, changes


@njit(cache=True)
def _two_smallest(costs, m):  # type: ignore[no-untyped-def]
    """Places and values of the two smallest of the first m entries; −1 and inf if there is only one."""
    first, second = -1, -1
    d_first, d_second = np.float32(np.inf), np.float32(np.inf)
    for slot in range(m):
        d = costs[slot]
        if d < d_first:
            second, d_second = first, d_first
            first, d_first = slot, d
        elif d < d_second:
            second, d_second = slot, d
    return first, second, d_first, d_second


@njit(cache=True)
def _two_nearest_of_row(table, points, price, kind, unit, i, way, mismatches, costs):  # type: ignore[no-untyped-def]
    """The two nearest points of row i, and its costs there."""
    numbers, codes, between = table
    centres, centre_codes, cell_of = points
    m = len(cell_of)
    for slot in range(m):
        way[slot] = between[cell_of[slot], i]
    _metric(centres, centre_codes, unit, way, numbers[:, i], codes[:, i], 0, m, kind, mismatches, costs)
    for slot in range(m):
        costs[slot] -= price[cell_of[slot]]
    return _two_smallest(costs, m)


@njit(cache=True)
def two_nearest(table, points, price, kind, unit):  # type: ignore[no-untyped-def]
    """(n,) places of the nearest and second nearest point, and (n,) costs of both."""
    codes, m = table[1], len(points[2])
    n = codes.shape[1]
    nearest, second = np.empty(n, np.int64), np.empty(n, np.int64)
    d_nearest, d_second = np.empty(n, np.float32), np.empty(n, np.float32)
    way, costs, mismatches = np.empty(m, np.float32), np.empty(m, np.float32), np.empty(m, codes.dtype)
    for i in range(n):
        nearest[i], second[i], d_nearest[i], d_second[i] = _two_nearest_of_row(
            table, points, price, kind, unit, i, way, mismatches, costs
        )
    return nearest, second, d_nearest, d_second


@njit(cache=True)
def update_nearest(table, points, price, kind, unit, slot, nearest, second, d_nearest, d_second):  # type: ignore[no-untyped-def]
    """`slot` holds a new point: bring the two nearest points of every row up to date, in place."""
    numbers, codes, between = table
    centres, centre_codes, cell_of = points
    n, m, cell = codes.shape[1], len(cell_of), cell_of[slot]
    to_new, of_block = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, codes.dtype)
    way, costs, mismatches = np.empty(m, np.float32), np.empty(m, np.float32), np.empty(m, codes.dtype)
    values, kinds = centres[:, slot], centre_codes[:, slot]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        _metric(numbers, codes, unit, between[cell], values, kinds, start, stop, kind, of_block, to_new)
        for i in range(start, stop):
            d = to_new[i - start] - price[cell]
            if nearest[i] == slot or second[i] == slot:
                nearest[i], second[i], d_nearest[i], d_second[i] = _two_nearest_of_row(
                    table, points, price, kind, unit, i, way, mismatches, costs
                )
            elif d < d_nearest[i]:
                second[i], d_second[i] = nearest[i], d_nearest[i]
                nearest[i], d_nearest[i] = slot, d
            elif d < d_second[i]:
                second[i], d_second[i] = slot, d
