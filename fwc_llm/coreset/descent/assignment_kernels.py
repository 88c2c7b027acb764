"""Compiled kernels of the assignment: nearest representative per cell, with bounds that skip most of it.

Threads share no output rows, and no sum depends on how rows are shared out: results are the same for any
number of threads. Compiled code is kept in numba's cache on disk.

The bounds live in the metric of the cost (the cost itself for L1, its square root for squared L2; a
categorical mismatch is a squared Euclidean distance between half-scaled one-hot columns). With R_j the
length of representative j's way so far and S_g the sum over the moves of the longest step in cell g,

    first[i, g]  = distance of row i to its label in g, plus R_label    at its last evaluation
    second[i, g] = distance to the nearest other one in g, plus S_g     at its last scan

so `first − R_label` and `second − S_g` are lower bounds of those distances now (Hamerly 2010, per cell).
"""

from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.compiling.compiled_cost import column_cost
from fwc_llm.coreset.compiling.kernel import kernel, part
from fwc_llm.coreset.compiling.tile import ROWS, WIDTH, l1_pair, l1_tile, sqeuclidean_pair, sqeuclidean_tile

# A cost is a lower bound; exact in float32; its nearest one is in doubt; or it must be made exact.
STALE, FRESH, DOUBTFUL, WANTED = 0, 1, 2, 3
BOUNDED, EVERY = -1, -2  # the pairs to look at, or WANTED ones

FAR = np.float32(1e30)  # further than any row: no infinity, which would turn bounds into NaN
_BOUND_ERROR = np.float32(1e-6)  # of the sums and differences in a bound, relative to its largest term


class Rows(NamedTuple):
    """The rows: `x` (n, p) float32, their `cell` (n,), and the state of each row and cell."""

    x: Any
    cell: Any
    chosen: Any  # (n,) cell that carried the row last
    cost: Any  # (n, G) feature cost plus `move`, or a lower bound of it
    fresh: Any  # (n, G) STALE, FRESH or DOUBTFUL
    label: Any  # (n, G)
    first: Any  # (n, G)
    second: Any  # (n, G)


class Representatives(NamedTuple):
    """The representatives: `points` (m, p) float32, tiled by cell, and how far they have come."""

    points: Any
    tiles: Any  # (T, p, WIDTH)
    tile_label: Any  # (T, WIDTH), -1 where a tile is not full
    tile_start: Any  # (G + 1,)
    way: Any  # (m,)
    reach: Any  # (G,)


class Costs(NamedTuple):
    """The cost: kind of columns, cells, and what float32 may get wrong (relative, and in the inputs)."""

    n_numeric: int
    squared: bool
    move: Any  # (G, G)
    relative: Any
    absolute: Any


def make_work(p: int, cells: int) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Room for the rows that wait in each cell, for how many they are, and for what `_scan` needs."""
    # Arrays of their own: of parts of one, LLVM does not see that they do not overlap.
    work = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
    nearest = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32), np.empty(ROWS, np.int32)
    return np.empty((cells, ROWS), np.int32), np.zeros(cells, np.int64), (*work, *nearest)


@part(forceinline=True)
def _error(value, squared, relative, absolute):  # type: ignore[no-untyped-def]
    """How far a float32 cost may be off."""
    inputs = absolute
    if squared:
        inputs *= np.float32(2) * np.sqrt(value) + absolute
    return relative * value + inputs


@part
def _scan(rows, reps, costs, g, queue, work):  # type: ignore[no-untyped-def]
    """Finds the two nearest representatives in cell g of the queued rows; returns how many are in doubt."""
    x, cell, _, cost, fresh, label, first, second = rows
    block, out, best, next_best, place = work
    for lane in range(ROWS):
        for k in range(x.shape[1]):
            block[k, lane] = x[queue[lane], k]
    for lane in range(ROWS):
        best[lane] = FAR
        next_best[lane] = FAR
        place[lane] = -1
    for t in range(reps.tile_start[g], reps.tile_start[g + 1]):
        if costs.squared:
            sqeuclidean_tile(block, reps.tiles, t, costs.n_numeric, out)
        else:
            l1_tile(block, reps.tiles, t, costs.n_numeric, out)
        for w in range(WIDTH):
            j = reps.tile_label[t, w]
            if j < 0:
                break
            for lane in range(ROWS):
                value = out[w, lane]
                next_best[lane] = min(next_best[lane], max(value, best[lane]))
                place[lane] = j if value < best[lane] else place[lane]
                best[lane] = min(value, best[lane])
    doubtful = 0
    for lane in range(ROWS):
        i = queue[lane]
        near, far = best[lane], next_best[lane]
        label[i, g] = place[lane]
        cost[i, g] = near + costs.move[cell[i], g]
        error = _error(near, costs.squared, costs.relative, costs.absolute)
        error += _error(far, costs.squared, costs.relative, costs.absolute)
        doubt = costs.relative > 0 and far - near <= error
        doubtful += doubt
        fresh[i, g] = DOUBTFUL if doubt else FRESH
        if costs.squared:
            near, far = np.sqrt(near), np.sqrt(far)
        first[i, g] = near + reps.way[place[lane]]
        second[i, g] = far + reps.reach[g]
    return doubtful


@part(forceinline=True)
def _look(x, points, n_numeric, squared, i, j, second, reach, relative, absolute):  # type: ignore[no-untyped-def]
    """Cost of row i and its label j, and whether another one in the cell may be nearer."""
    value = sqeuclidean_pair(x, i, points, j, n_numeric) if squared else l1_pair(x, i, points, j, n_numeric)
    # What float32 may get wrong, in the bound as well, counts against skipping.
    other = second - reach - _BOUND_ERROR * second
    if other <= 0:
        return value, True
    if squared:
        other *= other
    error = _error(value, squared, relative, absolute) + _error(other, squared, relative, absolute)
    return value, value + error >= other


@kernel
def assign_rows(rows, reps, costs, prices, margin, which, queue, waiting, work, low, high):  # type: ignore[no-untyped-def]
    """Brings the costs of rows low … high − 1 up to date, as far as they can matter.

    With `which` BOUNDED, a cell whose lower bound, at the prices (G,), exceeds the value of the row's chosen
    cell by more than `margin` keeps the bound as its cost and is marked STALE. With EVERY all pairs are
    looked at, with WANTED only those so marked. `make_work` makes `queue`, `waiting` and `work`. Returns 0 if
    no pair is DOUBTFUL.
    """
    # As locals: numba counts references whenever a tuple of arrays changes hands.
    x, cell, chosen, cost, fresh, label, first, second = rows
    points, _, _, tile_start, way, reach = reps
    n_numeric, squared, move, relative, absolute = costs
    cells, doubtful = len(prices), 0
    for i in range(low, high):
        own, chose = cell[i], chosen[i]
        limit = np.float32(0)
        if which == EVERY:
            for g in range(cells):
                queue[g, waiting[g]] = i
                waiting[g] += tile_start[g] < tile_start[g + 1]
        for turn in range(cells if which != EVERY else 0):
            g = chose if turn == 0 else turn - 1 if turn <= chose else turn  # the chosen cell sets the limit
            if tile_start[g] == tile_start[g + 1] or (which == WANTED and fresh[i, g] != WANTED):
                continue
            if which == BOUNDED:
                j = label[i, g]
                if turn > 0:
                    bound = min(first[i, g] - way[j], second[i, g] - reach[g])
                    bound = max(bound - _BOUND_ERROR * (first[i, g] + second[i, g]), np.float32(0))
                    if squared:
                        bound *= bound
                    bound = max(bound - _error(bound, squared, relative, absolute), np.float32(0))
                    bound += move[own, g]
                    if bound - prices[g] > limit:
                        cost[i, g] = bound
                        fresh[i, g] = STALE
                        continue
                value, other = _look(
                    x, points, n_numeric, squared, i, j, second[i, g], reach[g], relative, absolute
                )
                cost[i, g] = value + move[own, g]
                fresh[i, g] = FRESH
                first[i, g] = (np.sqrt(value) if squared else value) + way[j]
                if turn == 0:
                    limit = value + move[own, g] - prices[g] + margin
                if not other:
                    continue
            queue[g, waiting[g]] = i
            waiting[g] += 1
        for g in range(cells):
            if waiting[g] == ROWS or (i == high - 1 and waiting[g] > 0):
                for lane in range(waiting[g], ROWS):
                    queue[g, lane] = queue[g, 0]  # looked at again: loops of known length are faster
                doubtful += _scan(rows, reps, costs, g, queue[g], work)
                waiting[g] = 0
    return doubtful


@kernel
def find_exactly(values, points, start, stop, n_numeric, squared, place, least):  # type: ignore[no-untyped-def]
    """The nearest of the points start[q] … stop[q] − 1 to the row `values[q]`, and its cost, in float64.

    `values` (d, p), `points` (m, p); writes `place` (d,), the first of equally near ones, and `least` (d,).
    Where there is no point these are −1 and inf.
    """
    for q in range(len(values)):
        best, nearest = np.inf, -1
        for j in range(start[q], stop[q]):
            total = 0.0
            for k in range(n_numeric):
                total += column_cost(values[q, k] - points[j, k], True, squared)
            for k in range(n_numeric, values.shape[1]):
                total += column_cost(values[q, k] - points[j, k], False, squared)
            if total < best:
                best, nearest = total, j
        place[q], least[q] = nearest, best


@kernel
def pick(fresh, labels, cell, label, low, high):  # type: ignore[no-untyped-def]
    """Writes the labels of rows low … high − 1 in their `cell` (n,), −1 for STALE ones; counts these."""
    stale = 0
    for i in range(low, high):
        g = cell[i]
        label[i] = labels[i, g] if fresh[i, g] != STALE else -1
        stale += fresh[i, g] == STALE
    return stale
