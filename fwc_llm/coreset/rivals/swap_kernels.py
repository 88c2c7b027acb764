"""The kernels of k-medoids: distances to one point, the best swap of a batch, the two nearest medoids.

Tables lie column by column, `numbers` (k, n) float32 and `codes` (c, n) int32, so that the inner loops run
along rows. Every sum is taken by one thread in a fixed order: results do not depend on the number of threads.
"""

import numpy as np
from numba import njit, prange

_BLOCK = 2048


@njit(cache=True)
def _distances(numbers, codes, point, start, stop, euclidean, out):  # type: ignore[no-untyped-def]
    """out[i - start] = Σ_k |x_ik − x_jk| (or √Σ squares) with 1 for every code that differs, j = point."""
    size = stop - start
    for i in range(size):
        out[i] = np.float32(0.0)
    for k in range(numbers.shape[0]):
        column = numbers[k, start:stop]
        value = numbers[k, point]
        if euclidean:
            for i in range(size):
                out[i] += (column[i] - value) * (column[i] - value)
        else:
            for i in range(size):
                out[i] += abs(column[i] - value)
    for c in range(codes.shape[0]):
        coded = codes[c, start:stop]
        code = codes[c, point]
        for i in range(size):
            out[i] += np.float32(coded[i] != code)
    if euclidean:
        for i in range(size):
            out[i] = np.sqrt(out[i])


@njit(cache=True)
def _swap_change(numbers, codes, point, nearest, d_nearest, d_second, removal, euclidean):  # type: ignore[no-untyped-def]
    """The medoid slot whose exchange for `point` changes the loss most, and by how much (FastPAM1)."""
    n = len(nearest)
    gain = removal.copy()
    added = 0.0
    out = np.empty(_BLOCK, np.float32)
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        _distances(numbers, codes, point, start, stop, euclidean, out)
        for i in range(start, stop):
            d = out[i - start]
            if d < d_second[i]:
                if d < d_nearest[i]:
                    added += np.float64(d) - np.float64(d_nearest[i])
                    gain[nearest[i]] += np.float64(d_nearest[i]) - np.float64(d_second[i])
                else:
                    gain[nearest[i]] += np.float64(d) - np.float64(d_second[i])
    slot = np.argmin(gain)
    return slot, gain[slot] + added


@njit(cache=True, parallel=True)
def best_swap(numbers, codes, batch, nearest, d_nearest, d_second, m, euclidean):  # type: ignore[no-untyped-def]
    """The best exchange of a medoid for a row of `batch`: (row, slot, change of the loss), row -1 if none."""
    removal = np.zeros(m)
    for i in range(len(nearest)):
        removal[nearest[i]] += np.float64(d_second[i]) - np.float64(d_nearest[i])
    slots = np.zeros(len(batch), np.int64)
    changes = np.zeros(len(batch))
    for b in prange(len(batch)):
        slots[b], changes[b] = _swap_change(
            numbers, codes, batch[b], nearest, d_nearest, d_second, removal, euclidean
        )
    best = -1
    for b in range(len(batch)):
        if changes[b] < 0.0 and (best < 0 or changes[b] < changes[best]):
            best = b
    if best < 0:
        return -1, -1, 0.0
    return batch[best], slots[best], changes[best]


@njit(cache=True)
def _between(numbers, codes, i, j, euclidean):  # type: ignore[no-untyped-def]
    """The distance of rows i and j, summed in the order of `_distances`."""
    d = np.float32(0.0)
    for k in range(numbers.shape[0]):
        difference = numbers[k, i] - numbers[k, j]
        d += difference * difference if euclidean else abs(difference)
    for c in range(codes.shape[0]):
        d += np.float32(codes[c, i] != codes[c, j])
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


@njit(cache=True, parallel=True)
def two_nearest(numbers, codes, medoids, euclidean):  # type: ignore[no-untyped-def]
    """(n,) slots of the nearest and second nearest medoid, and (n,) distances to both."""
    n = codes.shape[1]
    nearest, second = np.empty(n, np.int64), np.empty(n, np.int64)
    d_nearest, d_second = np.empty(n, np.float32), np.empty(n, np.float32)
    for i in prange(n):
        nearest[i], second[i], d_nearest[i], d_second[i] = _scan(numbers, codes, medoids, i, euclidean)
    return nearest, second, d_nearest, d_second


@njit(cache=True, parallel=True)
def update_nearest(numbers, codes, medoids, slot, nearest, second, d_nearest, d_second, euclidean):  # type: ignore[no-untyped-def]
    """Slot `slot` holds a new medoid: bring the two nearest medoids of every row up to date, in place."""
    for i in prange(codes.shape[1]):
        if nearest[i] == slot or second[i] == slot:
            nearest[i], second[i], d_nearest[i], d_second[i] = _scan(numbers, codes, medoids, i, euclidean)
            continue
        d = _between(numbers, codes, i, medoids[slot], euclidean)
        if d < d_nearest[i]:
            second[i], d_second[i] = nearest[i], d_nearest[i]
            nearest[i], d_nearest[i] = slot, d
        elif d < d_second[i]:
            second[i], d_second[i] = slot, d
