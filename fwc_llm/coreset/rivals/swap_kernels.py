"""The kernels of k-medoids: the best swap of a batch of candidates, the two nearest medoids of every row.

Tables lie column by column, `numbers` (k, n) float32 and `codes` (c, n) of a small integer type, so that the
inner loops run along rows. The kernels are serial; `best_exchanges` lets go of the GIL, for plain threads to
share a batch. (numba's own threads wait by spinning, which on a busy machine costs more than the work.)
"""

import numpy as np
from numba import njit

_BLOCK = 2048


@njit(cache=True)
def _distances(numbers, codes, values, kinds, start, stop, euclidean, mismatches, out):  # type: ignore[no-untyped-def]
    """out[i - start] = Σ_k |x_ik − values_k| (or √Σ squares), with 1 for every code that is not kinds_c."""
    size = stop - start
    for i in range(size):
        mismatches[i] = 0
    for c in range(codes.shape[0]):
        column, code = codes[c, start:stop], kinds[c]
        for i in range(size):
            mismatches[i] += column[i] != code
    for i in range(size):
        out[i] = np.float32(mismatches[i])
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
def _swap_change(numbers, codes, values, kinds, starts, d_nearest, d_second, removal, euclidean):  # type: ignore[no-untyped-def]
    """The medoid whose exchange for a point changes the loss most, and by how much (FastPAM1).

    A row whose medoid goes costs min(d, d₂) instead of d₁, any other min(d, d₁). Rows are sorted by medoid.
    """
    gain = removal.copy()
    added = 0.0
    out, mismatches = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, codes.dtype)
    for slot in range(len(gain)):
        for start in range(starts[slot], starts[slot + 1], _BLOCK):
            stop = min(starts[slot + 1], start + _BLOCK)
            _distances(numbers, codes, values, kinds, start, stop, euclidean, mismatches, out)
            closer, change = _gains(out, d_nearest, d_second, start, stop)
            added += closer
            gain[slot] += change
    best = np.argmin(gain)
    return best, gain[best] + added


@njit(cache=True, nogil=True)
def best_exchanges(numbers, codes, starts, d_nearest, d_second, values, kinds, euclidean):  # type: ignore[no-untyped-def]
    """For every point of a batch the medoid to exchange for it, and the change of the loss: (batch,) each.

    The table and its two distances are sorted by medoid, those of slot s from starts[s] to starts[s + 1]; the
    points are `values` (k, batch) and `kinds` (c, batch).
    """
    m, size = len(starts) - 1, kinds.shape[1]
    removal = np.zeros(m)
    for slot in range(m):
        for i in range(starts[slot], starts[slot + 1]):
            removal[slot] += np.float64(d_second[i]) - np.float64(d_nearest[i])
    slots, changes = np.zeros(size, np.int64), np.zeros(size)
    for b in range(size):
        slots[b], changes[b] = _swap_change(
            numbers, codes, values[:, b], kinds[:, b], starts, d_nearest, d_second, removal, euclidean
        )
    return slots, changes


@njit(cache=True)
def _between(numbers, codes, i, j, euclidean):  # type: ignore[no-untyped-def]
    """The distance of rows i and j, summed in the order of `_distances`."""
    d = np.float32(0.0)
    for c in range(codes.shape[0]):
        d += np.float32(codes[c, i] != codes[c, j])
    for k in range(numbers.shape[0]):
        difference = numbers[k, i] - numbers[k, j]
        d += difference * difference if euclidean else abs(difference)
    return np.sqrt(d) if euclidean else d


@njit(cache=True)
def _scan(numbers, codes, medoids, i, euclidean):  # type: ignore[no-untyped-def]
    """Slots of and distances to the two medoids nearest to row i."""
    first, second = -1, -1
    d_first, d_second = np.float32(np.inf), np.float32(np.inf)
    for slot in range(len(medoids)):
        d = _between(numbers, codes, i, medoids[slot], euclidean)
        if d < d_first:
            second, d_second = first, d_first
            first, d_first = slot, d
        elif d < d_second:
            second, d_second = slot, d
    return first, second, d_first, d_second


@njit(cache=True)
def two_nearest(numbers, codes, medoids, euclidean):  # type: ignore[no-untyped-def]
    """(n,) slots of the nearest and second nearest medoid, and (n,) distances to both."""
    n = codes.shape[1]
    nearest, second = np.empty(n, np.int64), np.empty(n, np.int64)
    d_nearest, d_second = np.empty(n, np.float32), np.empty(n, np.float32)
    for i in range(n):
        nearest[i], second[i], d_nearest[i], d_second[i] = _scan(numbers, codes, medoids, i, euclidean)
    return nearest, second, d_nearest, d_second


@njit(cache=True)
def update_nearest(numbers, codes, medoids, slot, nearest, second, d_nearest, d_second, euclidean):  # type: ignore[no-untyped-def]
    """Slot `slot` holds a new medoid: bring the two nearest medoids of every row up to date, in place."""
    for i in range(codes.shape[1]):
        if nearest[i] == slot or second[i] == slot:
            nearest[i], second[i], d_nearest[i], d_second[i] = _scan(numbers, codes, medoids, i, euclidean)
            continue
        d = _between(numbers, codes, i, medoids[slot], euclidean)
        if d < d_nearest[i]:
            second[i], d_second[i] = nearest[i], d_nearest[i]
            nearest[i], d_nearest[i] = slot, d
        elif d < d_second[i]:
            second[i], d_second[i] = slot, d
