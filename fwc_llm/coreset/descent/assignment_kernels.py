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
from numba import njit

from fwc_llm.coreset.descent.tile import ROWS, WIDTH, l1_pair, l1_tile, sqeuclidean_pair, sqeuclidean_tile
from fwc_llm.coreset.problem.compiled_cost import column_cost

STALE, FRESH, DOUBTFUL = 0, 1, 2  # a lower bound; exact in float32; nearest one in doubt

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


@njit(nogil=True, cache=True)
def _error(value, squared, relative, absolute):  # type: ignore[no-untyped-def]
    """How far a float32 cost may be off."""
    inputs = absolute
    if squared:
        inputs *= np.float32(2) * np.sqrt(value) + absolute
    return relative * value + inputs


@njit(nogil=True, cache=True)
def _scan(rows, reps, costs, g, queue, count, work):  # type: ignore[no-untyped-def]
    """Finds the two nearest representatives in cell g of the first `count` rows of `queue`."""
    if count == 0:
        return
    block, out, best, next_best, place = work
    p = rows.x.shape[1]
    for lane in range(count):
        for k in range(p):
            block[k, lane] = rows.x[queue[lane], k]
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
    for lane in range(count):
        i = queue[lane]
        near, far = best[lane], next_best[lane]
        rows.label[i, g] = place[lane]
        rows.cost[i, g] = near + costs.move[rows.cell[i], g]
        error = _error(near, costs.squared, costs.relative, costs.absolute)
        error += _error(far, costs.squared, costs.relative, costs.absolute)
        doubt = costs.relative > 0 and far - near <= error
        rows.fresh[i, g] = DOUBTFUL if doubt else FRESH
        if costs.squared:
            near, far = np.sqrt(near), np.sqrt(far)
        rows.first[i, g] = near + reps.way[place[lane]]
        rows.second[i, g] = far + reps.reach[g]


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def assign_rows(rows, reps, costs, prices, margin, everything, low, high):  # type: ignore[no-untyped-def]
    """Brings the costs of rows low … high − 1 up to date, as far as they can matter.

    A cell whose lower bound, at the prices (G,), exceeds the value of the row's chosen cell by more than
    `margin` keeps the bound as its cost and is marked STALE. Returns how many pairs are DOUBTFUL.
    """
    # As locals: numba counts references whenever a tuple of arrays changes hands.
    x, cell, chosen, cost, fresh, label, first, second = rows
    points, _, _, tile_start, way, reach = reps
    n_numeric, squared, move, relative, absolute = costs
    cells = len(prices)
    queue = np.empty((cells, ROWS), np.int64)
    waiting = np.zeros(cells, np.int64)
    work = _make_work(x.shape[1])
    for i in range(low, high):
        own = cell[i]
        if everything:
            for g in range(cells):
                queue[g, waiting[g]] = i
                waiting[g] += 1
        else:
            g0 = chosen[i]
            j = label[i, g0]
            value, other = _look(
                x, points, n_numeric, squared, i, j, second[i, g0], reach[g0], relative, absolute
            )
            cost[i, g0] = value + move[own, g0]
            fresh[i, g0] = FRESH
            first[i, g0] = (np.sqrt(value) if squared else value) + way[j]
            if other:
                queue[g0, waiting[g0]] = i
                waiting[g0] += 1
            limit = value + move[own, g0] - prices[g0] + margin
            for g in range(cells):
                if g == g0 or tile_start[g] == tile_start[g + 1]:
                    continue
                j = label[i, g]
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
                if other:
                    queue[g, waiting[g]] = i
                    waiting[g] += 1
        for g in range(cells):
            if waiting[g] == ROWS:
                _scan(rows, reps, costs, g, queue[g], ROWS, work)
                waiting[g] = 0
    for g in range(cells):
        _scan(rows, reps, costs, g, queue[g], waiting[g], work)
    doubtful = 0
    for i in range(low, high):
        for g in range(cells):
            doubtful += fresh[i, g] == DOUBTFUL
    return doubtful


@njit(nogil=True, cache=True)
def _make_work(p):  # type: ignore[no-untyped-def]
    return (
        np.zeros((p, ROWS), np.float32),
        np.empty((WIDTH, ROWS), np.float32),
        np.empty(ROWS, np.float32),
        np.empty(ROWS, np.float32),
        np.empty(ROWS, np.int32),
    )


@njit(nogil=True, cache=True)
def freshen(rows, reps, costs, row, cell, low, high):  # type: ignore[no-untyped-def]
    """Makes the STALE pairs (row[q], cell[q]), low ≤ q < high, exact in float32."""
    work = _make_work(rows.x.shape[1])
    queue = np.empty(ROWS, np.int64)
    for g in range(len(reps.reach)):
        waiting = 0
        for q in range(low, high):
            if cell[q] == g:
                queue[waiting] = row[q]
                waiting += 1
                if waiting == ROWS:
                    _scan(rows, reps, costs, g, queue, ROWS, work)
                    waiting = 0
        _scan(rows, reps, costs, g, queue, waiting, work)


@njit(nogil=True, cache=True)
def settle(rows, reps, costs, values, points, low, high):  # type: ignore[no-untyped-def]
    """Decides the DOUBTFUL pairs of rows low … high − 1 in float64: `values` (n, p), `points` (m, p)."""
    p = values.shape[1]
    for i in range(low, high):
        for g in range(len(reps.reach)):
            if rows.fresh[i, g] != DOUBTFUL:
                continue
            best, place = np.inf, -1
            for t in range(reps.tile_start[g], reps.tile_start[g + 1]):
                for w in range(WIDTH):
                    j = reps.tile_label[t, w]
                    if j < 0:
                        break
                    total = 0.0
                    for k in range(p):
                        apart = np.float64(values[i, k]) - points[j, k]
                        total += column_cost(apart, k < costs.n_numeric, costs.squared)
                    if total < best:
                        best, place = total, j
            if place != rows.label[i, g]:
                # What was second is first now, and the other way about: both are as near as float32 can tell.
                rows.label[i, g] = place
                near = np.float32(best)
                rows.cost[i, g] = near + costs.move[rows.cell[i], g]
                length = np.sqrt(near) if costs.squared else near
                rows.first[i, g] = length + reps.way[place]
                rows.second[i, g] = length + reps.reach[g]
            rows.fresh[i, g] = FRESH


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def exact_costs(rows, costs, move, values, points, out, low, high):  # type: ignore[no-untyped-def]
    """The float64 costs of rows low … high − 1 to their labels, (n, G) `out`; inf without label.

    `move` (G, G) float64: `costs` has it rounded.
    """
    cell, label = rows.cell, rows.label
    n_numeric, squared = costs.n_numeric, costs.squared
    p = values.shape[1]
    for i in range(low, high):
        for g in range(out.shape[1]):
            j = label[i, g]
            if j < 0:
                out[i, g] = np.inf
                continue
            total = 0.0
            for k in range(n_numeric):
                total += column_cost(np.float64(values[i, k]) - points[j, k], True, squared)
            for k in range(n_numeric, p):
                total += column_cost(np.float64(values[i, k]) - points[j, k], False, squared)
            out[i, g] = total + move[cell[i], g]


@njit(nogil=True, cache=True)
def pick(rows, cell, label, low, high):  # type: ignore[no-untyped-def]
    """Writes the labels of rows low … high − 1 in their `cell` (n,), −1 for STALE ones; counts these."""
    stale = 0
    for i in range(low, high):
        if rows.fresh[i, cell[i]] == STALE:
            label[i] = -1
            stale += 1
        else:
            label[i] = rows.label[i, cell[i]]
    return stale
