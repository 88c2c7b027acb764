"""The kernels of k-medoids: the best swap of a batch of candidates, the two nearest medoids of every row.

Tables lie column by column, `numbers` (k, n) float32 and `codes` (c, n) of a small integer type, so that the
inner loops run along rows; a mismatch of two codes costs `unit`. The kernels are serial; `best_exchanges`
lets go of the GIL, for plain threads to share a batch. (numba's own threads wait by spinning, which on a busy
machine costs more than the work.)
"""

import numpy as np
from numba import njit

_BLOCK = 2048
_SLACK = np.float32(
    1.0 - 1e-5
)  # distances are rounded to float32: a bound must not cut off what just matters


@njit(cache=True)
def _distances(numbers, codes, unit, values, kinds, start, stop, euclidean, mismatches, out):  # type: ignore[no-untyped-def]
    """out[i - start] = Σ_k |x_ik − values_k| (or √Σ squares), with `unit` for every code but kinds_c."""
    size = stop - start
    for i in range(size):
        mismatches[i] = 0
    for c in range(codes.shape[0]):
        column, code = codes[c, start:stop], kinds[c]
        for i in range(size):
            mismatches[i] += column[i] != code
    for i in range(size):
        out[i] = unit * np.float32(mismatches[i])
    for k in range(numbers.shape[0]):
        numeric, value = numbers[k, start:stop], values[k]
        if euclidean:
            for i in range(size):
                out[i] += (numeric[i] - value) * (numeric[i] - value)
        else:
            for i in range(size):
                out[i] += abs(numeric[i] - value)
    if euclidean:
        for i in range(size):
            out[i] = np.sqrt(out[i])


@njit(cache=True, fastmath={"reassoc", "nsz"})
def _gains(out, d_nearest, d_second, start, stop):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over one medoid's rows start to stop."""
    added, gain = 0.0, 0.0
    for i in range(stop - start):
        d, nearest, second = out[i], d_nearest[start + i], d_second[start + i]
        closer = np.float64(d) - np.float64(nearest)
        added += closer if closer < 0.0 else 0.0
        change = np.float64(d if d > nearest else nearest) - np.float64(second)
        gain += change if change < 0.0 else 0.0
    return added, gain


@njit(cache=True)
def _swap_change(  # type: ignore[no-untyped-def]
    numbers,
    codes,
    unit,
    values,
    kinds,
    starts,
    d_nearest,
    d_second,
    centres,
    centre_codes,
    removal,
    euclidean,
):
    """The medoid whose exchange for a point changes the loss most, and by how much (FastPAM1).

    A row whose medoid goes costs min(d, d₂) instead of d₁, any other min(d, d₁). Rows are sorted by medoid
    and, within, by d₁ + d₂, largest first: as d ≥ d(point, medoid) − d₁, those below d(point, medoid) do not
    matter.
    """
    gain = removal.copy()
    added = 0.0
    out, mismatches = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, codes.dtype)
    away = np.empty(len(gain), np.float32)
    for first in range(0, len(gain), _BLOCK):
        last = min(len(gain), first + _BLOCK)
        _distances(centres, centre_codes, unit, values, kinds, first, last, euclidean, mismatches, out)
        away[first:last] = out[: last - first]
    for slot in range(len(gain)):
        end = _reached(starts[slot], starts[slot + 1], d_nearest, d_second, away[slot] * _SLACK)
        for start in range(starts[slot], end, _BLOCK):
            stop = min(end, start + _BLOCK)
            _distances(numbers, codes, unit, values, kinds, start, stop, euclidean, mismatches, out)
            closer, change = _gains(out, d_nearest, d_second, start, stop)
            added += closer
            gain[slot] += change
    best = np.argmin(gain)
    return best, gain[best] + added


@njit(cache=True)
def _reached(start, end, d_nearest, d_second, limit):  # type: ignore[no-untyped-def]
    """The end of those rows from start whose d₁ + d₂, falling, is above the limit."""
    while start < end:
        middle = (start + end) // 2
        if d_nearest[middle] + d_second[middle] > limit:
            start = middle + 1
        else:
            end = middle
    return start


@njit(cache=True, nogil=True)
def best_exchanges(  # type: ignore[no-untyped-def]
    numbers, codes, unit, starts, d_nearest, d_second, centres, centre_codes, values, kinds, euclidean
):
    """For every point of a batch the medoid to exchange for it, and the change of the loss: (batch,) each.

    The table and its two distances are sorted by medoid, those of slot s from starts[s] to starts[s + 1], and
    within by their sum, largest first; the medoids are `centres` (k, m) and `centre_codes` (c, m), the points
    `values` (k, batch) and `kinds` (c, batch).
    """
    m, size = len(starts) - 1, kinds.shape[1]
    removal = np.zeros(m)
    for slot in range(m):
        for i in range(starts[slot], starts[slot + 1]):
            removal[slot] += np.float64(d_second[i]) - np.float64(d_nearest[i])
    slots, changes = np.zeros(size, np.int64), np.zeros(size)
    for b in range(size):
        slots[b], changes[b] = _swap_change(
            numbers,
            codes,
            unit,
            values[:, b],
            kinds[:, b],
            starts,
            d_nearest,
            d_second,
            centres,
            centre_codes,
            removal,
            euclidean,
        )
    return slots, changes


@njit(cache=True)
def _two_smallest(distances, m):  # type: ignore[no-untyped-def]
    """Places and values of the two smallest of the first m entries; −1 and inf if there is only one."""
    first, second = -1, -1
    d_first, d_second = np.float32(np.inf), np.float32(np.inf)
    for slot in range(m):
        d = distances[slot]
        if d < d_first:
            second, d_second = first, d_first
            first, d_first = slot, d
        elif d < d_second:
            second, d_second = slot, d
    return first, second, d_first, d_second


@njit(cache=True)
def two_nearest(numbers, codes, unit, centres, centre_codes, euclidean):  # type: ignore[no-untyped-def]
    """(n,) slots of the nearest and second nearest medoid, and (n,) distances to both."""
    n, m = codes.shape[1], centre_codes.shape[1]
    nearest, second = np.empty(n, np.int64), np.empty(n, np.int64)
    d_nearest, d_second = np.empty(n, np.float32), np.empty(n, np.float32)
    out, mismatches = np.empty(m, np.float32), np.empty(m, codes.dtype)
    for i in range(n):
        _distances(centres, centre_codes, unit, numbers[:, i], codes[:, i], 0, m, euclidean, mismatches, out)
        nearest[i], second[i], d_nearest[i], d_second[i] = _two_smallest(out, m)
    return nearest, second, d_nearest, d_second


@njit(cache=True)
def update_nearest(  # type: ignore[no-untyped-def]
    numbers, codes, unit, centres, centre_codes, slot, nearest, second, d_nearest, d_second, euclidean
):
    """Slot `slot` holds a new medoid: bring the two nearest medoids of every row up to date, in place."""
    n, m = codes.shape[1], centre_codes.shape[1]
    to_new, of_block = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, codes.dtype)
    to_all, of_all = np.empty(m, np.float32), np.empty(m, codes.dtype)
    values, kinds = centres[:, slot], centre_codes[:, slot]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        _distances(numbers, codes, unit, values, kinds, start, stop, euclidean, of_block, to_new)
        for i in range(start, stop):
            d = to_new[i - start]
            if nearest[i] == slot or second[i] == slot:
                row, kind = numbers[:, i], codes[:, i]
                _distances(centres, centre_codes, unit, row, kind, 0, m, euclidean, of_all, to_all)
                nearest[i], second[i], d_nearest[i], d_second[i] = _two_smallest(to_all, m)
            elif d < d_nearest[i]:
                second[i], d_second[i] = nearest[i], d_nearest[i]
                nearest[i], d_nearest[i] = slot, d
            elif d < d_second[i]:
                second[i], d_second[i] = slot, d
