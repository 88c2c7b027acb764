"""The kernels of swaps: the best swap for each of some candidates, and the two nearest points of rows.

The cost of a row at a point of cell g is a metric F between them less the price of g. F is L1 or L2 over the
numbers, where a mismatch of two codes costs `unit` and the way between the cells what `between` says; or it
is L2 and the cost its square less the price. (k-medoids has one cell, no way and no price.)

A *table* is (numbers (k, n + m) float32, codes (c, n + m) of a small integer type, between (G, n + m)): by
columns, so that the inner loops run along rows, first the n rows and behind them the m points. `between` is
what every cell is apart from the cells of these. The kernels are serial; `best_exchanges` lets go of the GIL,
for plain threads to share a batch. (numba's own threads wait by spinning, which on a busy machine costs more
than the work.)
"""

import numpy as np

from fwc_llm.coreset.compiling.kernel import kernel, part
from fwc_llm.coreset.exchange.space import L1, L2, ROOM, SQUARED, Columns

_LANES = np.uint64(ROOM)  # loops of a constant length have no rest that is no vector
_BLOCK = 2048  # rows whose costs are computed together, and stay in the cache
_AT_ONCE = 16_384  # rows whose costs to a new point are computed together
_GAP = 64  # rows that are compared for nothing sooner than left out
_SLACK = np.float32(1.0 - 1e-5)  # distances are rounded: a bound must not cut off what just matters


@kernel
def _metric(table, unit, kind, start, stop, values, kinds, point, cell, mismatches, out):  # type: ignore[no-untyped-def]
    """out[i - start] = F, or F² if `kind` is SQUARED, between columns i and column `point` of others.

    The point is `values` (k, ·) and `kinds` (c, ·) there, and stands for `cell`. `mismatches` is room.
    """
    numbers, codes, between = table
    # Unsigned: numba then need not ask whether an index counts from the end, and the loops become vectors.
    blocks = range(np.uint64(0), np.uint64(stop - start), _LANES)
    start = np.uint64(start)
    for b in blocks:
        for i in range(_LANES):
            mismatches[b + i] = 0
    for c in range(codes.shape[0]):
        code = kinds[c, point]
        for b in blocks:
            for i in range(_LANES):
                mismatches[b + i] += codes[c, start + b + i] != code
    for b in blocks:
        for i in range(_LANES):
            out[b + i] = unit * np.float32(mismatches[b + i]) + between[cell, start + b + i]
    for k in range(numbers.shape[0]):
        value = values[k, point]
        if kind == L1:
            for b in blocks:
                for i in range(_LANES):
                    out[b + i] += abs(numbers[k, start + b + i] - value)
        else:
            for b in blocks:
                for i in range(_LANES):
                    out[b + i] += (numbers[k, start + b + i] - value) * (numbers[k, start + b + i] - value)
    if kind == L2:
        for b in blocks:
            for i in range(_LANES):
                out[b + i] = np.sqrt(out[b + i])


@part(fastmath={"reassoc", "nsz"})
def _gains(out, first, price, d_nearest, d_second, start, stop):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over one point's rows, d = out − price.

    `out` starts at row `first`.
    """
    added, gain = 0.0, 0.0
    start, within, size = np.uint64(start), np.uint64(start - first), np.uint64(max(stop - start, 0))
    for i in range(size):
        d, nearest = out[within + i] - price, d_nearest[start + i]
        closer = np.float64(d) - np.float64(nearest)
        added += closer if closer < 0.0 else 0.0
        change = np.float64(d if d > nearest else nearest) - np.float64(d_second[start + i])
        gain += change if change < 0.0 else 0.0
    return added, gain


@part
def _reached(start, end, reach, limit):  # type: ignore[no-untyped-def]
    """The end of those rows from start whose reach, falling, is above the limit."""
    while start < end:
        middle = (start + end) // 2
        if reach[middle] > limit:
            start = middle + 1
        else:
            end = middle
    return start


@kernel
def best_exchanges(  # type: ignore[no-untyped-def]
    table, unit, kind, price, cell_of, rows, starts, values, kinds, candidates, cells
):
    """For every candidate the point to exchange for it, and the change of the loss: (batch,) each (FastPAM1).

    The rows of `table` are sorted by nearest point, those of s from starts[s] to starts[s + 1], and within by
    `reach`, how far a candidate may be from the point and still matter to them, farthest first. As
    F ≥ F(candidate, point) − F(row, point), those that reach less far than F(candidate, point) do not.
    `rows` is (reach, costs to the nearest and the second point), (3, n). `candidates` are columns of
    `values` (k, ·) and `kinds` (c, ·), to stand for `cells`. A row whose point goes costs min(d, d₂) instead
    of d₁, any other min(d, d₁).
    """
    reach, d_nearest, d_second = rows[0], rows[1], rows[2]
    m, n = len(cell_of), len(reach)
    room = max(_BLOCK, m) + ROOM
    out, mismatches = np.empty(room, np.float32), np.empty(room, table[1].dtype)
    end, near = np.empty(m, np.int64), np.empty(m, np.int64)
    removal, gain = np.zeros(m), np.empty(m)
    for slot in range(m):
        for i in range(starts[slot], starts[slot + 1]):
            removal[slot] += np.float64(d_second[i]) - np.float64(d_nearest[i])
    slots, changes = np.zeros(len(cells), np.int64), np.zeros(len(cells))
    for b in range(len(cells)):
        cell = cells[b]
        _metric(table, unit, kind, n, n + m, values, kinds, candidates[b], cell, mismatches, out)
        count = 0
        for slot in range(m):
            away = np.sqrt(out[slot]) if kind == SQUARED else out[slot]
            end[slot] = _reached(starts[slot], starts[slot + 1], reach, away * _SLACK)
            gain[slot] = removal[slot]
            if end[slot] > starts[slot]:
                near[count] = slot
                count += 1
        added = 0.0
        at, start = 0, 0
        while at < count:
            start = max(start, starts[near[at]])
            # Rows of points that follow without much of a gap are compared at once.
            last = at
            while (
                last + 1 < count
                and starts[near[last + 1]] - end[near[last]] < _GAP
                and starts[near[last + 1]] - start < _BLOCK
            ):
                last += 1
            stop = min(end[near[last]], start + _BLOCK)
            _metric(table, unit, kind, start, stop, values, kinds, candidates[b], cell, mismatches, out)
            for q in range(at, last + 1):
                slot = near[q]
                low, high = max(start, starts[slot]), min(stop, end[slot])
                closer, change = _gains(out, start, price[cell], d_nearest, d_second, low, high)
                added += closer
                gain[slot] += change
            at = last if stop < end[near[last]] else last + 1
            start = stop
        best, least = 0, np.inf
        for slot in range(m):
            if cell_of[slot] == cell and gain[slot] < least:
                best, least = slot, gain[slot]
        slots[b], changes[b] = best, least + added
    return slots, changes


@kernel
def two_nearest(table, unit, kind, price, cell, cell_of, rows, nearest, second, d_nearest, d_second):  # type: ignore[no-untyped-def]
    """Writes the places of the two nearest points of `rows`, and their costs there, to (n,) arrays.

    `cell` (n,) is that of each row, `cell_of` (m,) of each point. A single point has no second: −1 and inf.
    """
    n, m = len(cell), len(cell_of)
    room = m + ROOM
    costs, mismatches = np.empty(room, np.float32), np.empty(room, table[1].dtype)
    for i in rows:
        _metric(table, unit, kind, n, n + m, table[0], table[1], i, cell[i], mismatches, costs)
        nearest[i], second[i] = -1, -1
        d_nearest[i], d_second[i] = np.float32(np.inf), np.float32(np.inf)
        for slot in range(m):
            d = costs[slot] - price[cell_of[slot]]
            if d < d_nearest[i]:
                second[i], d_second[i] = nearest[i], d_nearest[i]
                nearest[i], d_nearest[i] = slot, d
            elif d < d_second[i]:
                second[i], d_second[i] = slot, d


def costs_to(table: Columns, unit: np.float32, kind: int, n: int, point: int, cell: int) -> np.ndarray:
    """(n,): F, or F², between the rows and column `point` of their own table."""
    costs, mismatches = np.empty(n + ROOM, np.float32), np.empty(_AT_ONCE + ROOM, table[1].dtype)
    for start in range(0, n, _AT_ONCE):
        stop = min(n, start + _AT_ONCE)
        _metric(table, unit, kind, start, stop, table[0], table[1], point, cell, mismatches, costs[start:])
    return costs[:n]
