"""Compiled kernels that find each row's nearest representative in every cell.

Bounds make most distances unnecessary. Results are the same for any number of threads. Bounds are
distances in a metric (for root L2, the root of the cost). For row i and cell g two numbers are
kept:

    cost[i, g]    cost of the nearest representative of g, or a lower bound of it, after the last
                  iteration
    second[i, g]  lower bound of the distance to all other ones of g, in the iteration that `packed`
                  notes

An iteration lowers cost[i, g] by the move of the nearest representative. The bound second[i, g] is
lowered by the longest move of any representative of g since the noted iteration (Hamerly 2010, per
cell and iteration). Bounds may be wrong by the rounding of float32; the kernels may then choose
another representative that is equally near within this rounding.
"""

from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.compiled import kernel, part
from fwc_llm.coreset.problem.ground_cost import ROWS, WIDTH, exact_cost, pair_cost, tile_costs

# States of a cost: lower bound; up to date; up to date, but the nearest is in doubt; to be
# computed.
STALE = 0
FRESH = 1
DOUBTFUL = 2
WANTED = 3
BOUNDED, EVERY = -1, -2  # which pairs to compute: those that bounds do not exclude, all, or WANTED
AGES = 16  # iterations for which the points of the representatives are kept
# The lowest BITS of `packed` hold iteration (modulo AGES) and state, the others the index within
# the cell.
BITS = 6
STATES = 4

FAR = np.float32(1e30)  # farther than any row; infinity would turn bounds into NaN


class Rows(NamedTuple):
    """Rows `x` (n, p) float32, their `cell` (n,), and the state of each pair of a row and a
    cell.
    """

    x: Any
    cell: Any
    chosen: Any  # (n,) cell that carried the row in the last plan
    cost: Any  # (n, G) feature cost plus `move`, or a lower bound of it
    packed: Any  # (n, G) nearest representative, iteration and state (see `BITS`)
    second: Any  # (n, G) see the module


class Representatives(NamedTuple):
    """Representatives `points` (m, p) float32, also as tiles by cell, and how far they moved."""

    points: Any
    tiles: Any  # (T, p, WIDTH)
    tile_label: Any  # (T, WIDTH) index of each representative, -1 for padding
    tile_start: Any  # (G + 1,) first tile of each cell
    first: Any  # (G + 1,) first representative of each cell
    step: Any  # (m,) distance moved since the last iteration
    now: int  # this iteration modulo AGES
    # (AGES, G) longest distance that a representative of the cell moved since each iteration
    come: Any


class Costs(NamedTuple):
    """The ground cost, and bounds of float32's relative error and of its absolute error in the
    inputs.

    With errors above 0, a nearest representative that float32 cannot determine is DOUBTFUL; with
    errors of 0, float32 decides.
    """

    features: Any  # `FeatureCost`
    move: Any  # (G, G) cost of moving between cells
    relative: Any
    absolute: Any


@part(forceinline=True)
def _error(value, root, relative, absolute):  # type: ignore[no-untyped-def]
    """The largest error of a float32 cost."""
    inputs = absolute
    if root:
        inputs *= np.float32(2) * np.sqrt(value) + absolute
    return relative * value + inputs


@part
def _scan(rows, reps, costs, g, queue, count, work):  # type: ignore[no-untyped-def]
    """Find the two nearest in cell g of the first `count` rows in `queue[g]`; return the number
    in doubt.
    """
    x, cell, _, cost, packed, second = rows
    begin = reps.first[g]
    root = costs.features.root
    block, out, best, next_best, place = work
    for lane in range(ROWS):
        i = queue[g, lane if lane < count else 0]  # loops of fixed length are faster
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
                place[lane] = j if value < best[lane] else place[lane]  # the first on ties
                best[lane] = min(value, best[lane])
    doubtful = 0
    for lane in range(count):
        i = queue[g, lane]
        near = best[lane]
        far = next_best[lane]
        error = _error(near, root, costs.relative, costs.absolute)
        error += _error(far, root, costs.relative, costs.absolute)
        doubt = costs.relative > 0 and far - near <= error
        doubtful += doubt
        state = DOUBTFUL if doubt else FRESH
        packed[i, g] = ((place[lane] - begin) << BITS) + reps.now * STATES + state
        cost[i, g] = near + costs.move[cell[i], g]
        second[i, g] = np.sqrt(far) if root else far
    return doubtful


@kernel
def assign_rows(rows, reps, costs, prices, margin, which, queue, waiting, work, low, high):  # type: ignore[no-untyped-def]
    """Compute those costs of rows low … high − 1 that can matter.

    Returns the number of DOUBTFUL pairs. A pair is a row and a cell. With `which` BOUNDED, costs
    are compared at the prices (G,): if the lower bound of a pair exceeds the value of the row's
    chosen cell by more than `margin`, the bound becomes the pair's cost, and the pair STALE. EVERY
    computes all pairs, WANTED only pairs in that state. `queue` (G, ROWS) holds rows that wait for
    `_scan`, `waiting` (G,) their numbers.
    """
    # Locals, because numba counts references whenever a tuple of arrays is passed.
    x, cell, chosen, cost, packed, second = rows
    points = reps.points
    tile_start = reps.tile_start
    first = reps.first
    step = reps.step
    now = reps.now
    come = reps.come
    features, root, move = costs.features, costs.features.root, costs.move
    cells = len(prices)
    doubtful = 0
    for row in range(low, high):
        i: Any = np.uintp(row)  # unsigned: numba then skips the check for negative indices
        own = cell[i]
        chose = chosen[i]
        limit = np.float32(0)
        full = row == high - 1
        for turn in range(cells):
            g = np.uintp(
                chose if turn == 0 else turn - (turn <= chose)
            )  # the chosen cell sets the limit
            word = packed[i, g]
            state = word % STATES
            if tile_start[g] == tile_start[g + 1] or (which == WANTED and state != WANTED):
                continue
            if which == BOUNDED:
                j = first[g] + np.uintp(word >> BITS)
                age = np.uintp((word // STATES) % AGES)
                other = max(second[i, g] - come[age, g], np.float32(0))
                if age == now:  # AGES iterations old: `come` forgets it now
                    second[i, g] = other
                other = other * other if root else other
                value = max(cost[i, g] - move[own, g], np.float32(0))
                if turn > 0:
                    bound = max((np.sqrt(value) if root else value) - step[j], np.float32(0))
                    bound = min(bound * bound if root else bound, other) + move[own, g]
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
    """For each row of `values` (d, p), find the nearest of the `points` (m, p) start[q] …
    stop[q] − 1.

    `place` (d,) gets the index, the first on ties, and `least` (d,) the cost; −1 and inf without
    points.
    """
    for q in range(len(values)):
        best = np.inf
        nearest = -1
        for j in range(start[q], stop[q]):
            total = exact_cost(values, q, points, j, cost)
            if total < best:
                best = total
                nearest = j
        place[q], least[q] = nearest, best
