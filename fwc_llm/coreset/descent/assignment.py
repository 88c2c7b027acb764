"""Compiled kernels of the assignment: nearest representative per cell, with bounds that skip most of it.

Results are the same for any number of threads. The bounds live in the metric of the cost (its square root for
squared L2). Of a row and a cell, two numbers are kept:

    cost[i, g]    of the nearest representative, or a lower bound of it, after the last iteration
    second[i, g]  least distance to another one in g, in an iteration that is known

What the nearest one comes in an iteration is taken off the first at once. The other has lost at most the
longest way that a representative of g has come since then (Hamerly 2010, per cell and iteration). Bounds may
be wrong by the rounding of float32: then another one, as near as float32 can tell, is taken for the nearest.
"""

from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.compiled import kernel, part
from fwc_llm.coreset.problem.ground_cost import ROWS, WIDTH, exact_cost, pair_cost, tile_costs

# A cost is a lower bound; up to date; its nearest one is in doubt; or it must be brought up to date.
STALE, FRESH, DOUBTFUL, WANTED = 0, 1, 2, 3
BOUNDED, EVERY = -1, -2  # the pairs to look at, or WANTED ones
AGES = 16  # iterations for which the places of the representatives are kept
# Above the BITS of iteration (modulo AGES) and state is the nearest one's place in its cell.
BITS, STATES = 6, 4

FAR = np.float32(1e30)  # further than any row: no infinity, which would turn bounds into NaN


class Rows(NamedTuple):
    """The rows: `x` (n, p) float32, their `cell` (n,), and the state of each row and cell."""

    x: Any
    cell: Any
    chosen: Any  # (n,) cell that carried the row last
    cost: Any  # (n, G) feature cost plus `move`, or a lower bound of it
    packed: Any  # (n, G) nearest one, iteration and state (`BITS`): STALE, FRESH, DOUBTFUL or WANTED
    second: Any  # (n, G)


class Representatives(NamedTuple):
    """The representatives: `points` (m, p) float32, tiled by cell, and how far they have come."""

    points: Any
    tiles: Any  # (T, p, WIDTH)
    tile_label: Any  # (T, WIDTH), -1 where a tile is not full
    tile_start: Any  # (G + 1,)
    first: Any  # (G,) the cell's first one
    step: Any  # (m,) how far it has come since the last iteration
    now: int  # this iteration modulo AGES
    come: Any  # (AGES, G) the longest way since each iteration


class Costs(NamedTuple):
    """The cost: of features and cells, and what float32 may get wrong (relative, and in the inputs).

    With these errors the nearest ones that it cannot tell are DOUBTFUL; with none, they are what it says.
    """

    features: Any  # `FeatureCost`
    move: Any  # (G, G)
    relative: Any
    absolute: Any


def make_work(p: int, cells: int) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Buffers for the waiting rows of each cell, their number, and the needs of `_scan`."""
    # Arrays of their own: of parts of one, LLVM does not see that they do not overlap.
    work = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
    nearest = np.empty(ROWS, np.float32), np.empty(ROWS, np.float32), np.empty(ROWS, np.int32)
    return np.empty((cells, ROWS), np.int32), np.zeros(cells, np.int64), (*work, *nearest)


@part(forceinline=True)
def _error(value, squared, relative, absolute):  # type: ignore[no-untyped-def]
    """The error of a float32 cost."""
    inputs = absolute
    if squared:
        inputs *= np.float32(2) * np.sqrt(value) + absolute
    return relative * value + inputs


@part
def _scan(rows, reps, costs, g, queue, count, work):  # type: ignore[no-untyped-def]
    """Finds the two nearest representatives in cell g of the first `count` rows `queue[g]`.

    Returns how many are in doubt.
    """
    x, cell, _, cost, packed, second = rows
    begin, squared = reps.first[g], costs.features.squared
    block, out, best, next_best, place = work
    for lane in range(ROWS):
        i = queue[g, lane if lane < count else 0]  # loops of known length are faster
        for k in range(x.shape[1]):
            block[k, lane] = x[i, k]
        best[lane], next_best[lane], place[lane] = FAR, FAR, -1
    for t in range(reps.tile_start[g], reps.tile_start[g + 1]):
        tile_costs(block, reps.tiles, t, costs.features, out)
        for w in range(WIDTH):
            j = reps.tile_label[t, w]
            if j < 0:
                break
            for lane in range(ROWS):
                value = out[w, lane]
                next_best[lane] = min(next_best[lane], max(value, best[lane]))
                place[lane] = j if value < best[lane] else place[lane]  # of equal ones the first
                best[lane] = min(value, best[lane])
    doubtful = 0
    for lane in range(count):
        i = queue[g, lane]
        near, far = best[lane], next_best[lane]
        error = _error(near, squared, costs.relative, costs.absolute)
        error += _error(far, squared, costs.relative, costs.absolute)
        doubt = costs.relative > 0 and far - near <= error
        doubtful += doubt
        state = DOUBTFUL if doubt else FRESH
        packed[i, g] = ((place[lane] - begin) << BITS) + reps.now * STATES + state
        cost[i, g] = near + costs.move[cell[i], g]
        second[i, g] = np.sqrt(far) if squared else far
    return doubtful


@kernel
def assign_rows(rows, reps, costs, prices, margin, which, queue, waiting, work, low, high):  # type: ignore[no-untyped-def]
    """Brings the costs of rows low … high − 1 up to date, as far as they can matter.

    With `which` BOUNDED, a cell whose lower bound, at the prices (G,), exceeds the value of the row's chosen
    cell by more than `margin` keeps the bound as its cost and is marked STALE. With EVERY all pairs are
    looked at, with WANTED only those so marked. `make_work` makes `queue`, `waiting` and `work`. Returns 0 if
    no pair is DOUBTFUL.
    """
    # As locals: numba counts references whenever a tuple of arrays changes hands.
    x, cell, chosen, cost, packed, second = rows
    points, tile_start, first = reps.points, reps.tile_start, reps.first
    step, now, come = reps.step, reps.now, reps.come
    features, squared, move = costs.features, costs.features.squared, costs.move
    cells, doubtful = len(prices), 0
    for row in range(low, high):
        i: Any = np.uintp(row)  # without a sign: else every look-up asks whether it counts from the end
        own, chose = cell[i], chosen[i]
        limit = np.float32(0)
        full = row == high - 1
        for turn in range(cells):
            g = np.uintp(chose if turn == 0 else turn - (turn <= chose))  # the chosen cell sets the limit
            word = packed[i, g]
            state = word % STATES
            if tile_start[g] == tile_start[g + 1] or (which == WANTED and state != WANTED):
                continue
            if which == BOUNDED:
                j, age = first[g] + np.uintp(word >> BITS), np.uintp((word // STATES) % AGES)
                other = max(second[i, g] - come[age, g], np.float32(0))
                if age == now:  # AGES iterations ago: what came before is forgotten now
                    second[i, g] = other
                other = other * other if squared else other
                value = max(cost[i, g] - move[own, g], np.float32(0))
                if turn > 0:
                    bound = max((np.sqrt(value) if squared else value) - step[j], np.float32(0))
                    bound = min(bound * bound if squared else bound, other) + move[own, g]
                    if bound - prices[g] > limit:
                        cost[i, g] = bound
                        packed[i, g] = word - state + STALE
                        continue
                if step[j] > 0 or state != FRESH:
                    value = pair_cost(x, row, points, np.intp(j), features)
                if turn == 0:
                    limit = value + move[own, g] - prices[g] + margin
                if value < other or (come[age, g] == 0 and state == FRESH):
                    cost[i, g] = value + move[own, g]
                    packed[i, g] = word - state + FRESH
                    continue
            queue[g, waiting[g]] = i
            waiting[g] += 1
            full |= waiting[g] == ROWS
        for c in range(cells if full else 0):
            if waiting[c] == ROWS or (row == high - 1 and waiting[c] > 0):
                doubtful += _scan(rows, reps, costs, c, queue, waiting[c], work)
                waiting[c] = 0
    return doubtful


@kernel
def find_exactly(values, points, start, stop, cost, place, least):  # type: ignore[no-untyped-def]
    """The nearest of the points start[q] … stop[q] − 1 to the row `values[q]`, and its cost, in float64.

    `values` (d, p), `points` (m, p); writes `place` (d,), the first of equally near ones, and `least` (d,).
    Where there is no point these are −1 and inf.
    """
    for q in range(len(values)):
        best, nearest = np.inf, -1
        for j in range(start[q], stop[q]):
            total = exact_cost(values, q, points, j, cost)
            if total < best:
                best, nearest = total, j
        place[q], least[q] = nearest, best


@kernel
def pick(packed, first, cell, label, low, high):  # type: ignore[no-untyped-def]
    """Writes the labels of rows low … high − 1 in their `cell` (n,), −1 for STALE ones; counts these."""
    stale = 0
    for i in range(low, high):
        g = cell[i]
        word = packed[i, g]
        is_stale = word % STATES == STALE
        label[i] = -1 if is_stale else first[g] + (word >> BITS)
        stale += is_stale
    return stale
