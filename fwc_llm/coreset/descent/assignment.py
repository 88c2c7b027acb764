"""Compiled kernels that find each row's nearest representative in every cell.

Bounds make most distances unnecessary. Results are the same for any number of threads. Bounds are
distances in a metric (for root L2, the root of the cost). For row i and cell g two numbers are
kept:

    cost[i, g]    cost of the nearest representative of g, or a lower bound of it, after the last
                  iteration
    second[i, g]  lower bound of the distance to all other ones of g, plus `drift[g]`

An iteration lowers cost[i, g] by the move of the nearest representative, and raises `drift[g]` by
the longest move of any representative of g (Hamerly 2010, per cell). Bounds may be wrong by the
rounding of float32; the kernels may then choose another representative that is equally near within
this rounding. `find_nearest` is exact.
"""

from typing import Any, NamedTuple

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import kernel, part
from fwc_llm.coreset.problem.ground_cost import (
    ROWS,
    WIDTH,
    Tiles,
    pair_cost,
    tile_costs,
)
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads

# States of a cost: a lower bound; up to date; to be computed.
STALE = 0
FRESH = 1
WANTED = 2
BITS = 2  # the lowest bits of `packed` hold the state, the others the index within the cell
STATES = 4

AT_ONCE = 4096  # rows per call
FAR = np.float32(1e30)  # farther than any row; infinity would turn bounds into NaN


class Rows(NamedTuple):
    """Rows `x` (n, p) float32, their `cell` (n,), and the state of each pair of a row and a
    cell.
    """

    x: Any
    cell: Any
    chosen: Any  # (n,) cell that carried the row in the last plan
    cost: Any  # (n, G) feature cost plus `move`, or a lower bound of it
    packed: Any  # (n, G) nearest representative and state (see `BITS`)
    second: Any  # (n, G) see the module


class Representatives(NamedTuple):
    """Representatives `points` (m, p) float32, and how far they moved."""

    points: Any
    tiles: Tiles
    first: Any  # (G + 1,) first representative of each cell
    step: Any  # (m,) distance moved since the last iteration
    longest: Any  # (G,) the largest of these steps in each cell
    drift: Any  # (G,) the sum of these over all iterations


@part
def _find_two(  # type: ignore[no-untyped-def]
    block, tiles, g, features, far, out, best, next_best, nearest
):
    """Find the two representatives of cell g nearest to the rows in `block`, `far` without any."""
    for lane in range(ROWS):
        best[lane] = far
        next_best[lane] = far
        nearest[lane] = -1
    for t in range(tiles.start[g], tiles.start[g + 1]):
        tile_costs(block, tiles.values, t, features, out)
        for w in range(WIDTH):
            j = tiles.label[t, w]
            if j < 0:
                break
            for lane in range(ROWS):
                value = out[w, lane]
                next_best[lane] = min(next_best[lane], max(value, best[lane]))
                nearest[lane] = (
                    j if value < best[lane] else nearest[lane]
                )  # the first on ties
                best[lane] = min(value, best[lane])


@part
def _scan(rows, reps, features, move, g, queue, count, work):  # type: ignore[no-untyped-def]
    """Find the two nearest in cell g of the first `count` rows in `queue[g]`."""
    x, cell, _, cost, packed, second = rows
    begin = reps.first[g]
    root = features.root
    block, out, best, next_best, nearest = work
    for lane in range(ROWS):
        i = queue[g, lane if lane < count else 0]  # loops of fixed length are faster
        for k in range(x.shape[1]):
            block[k, lane] = x[i, k]
    _find_two(block, reps.tiles, g, features, FAR, out, best, next_best, nearest)
    for lane in range(count):
        i = queue[g, lane]
        far = next_best[lane]
        packed[i, g] = ((nearest[lane] - begin) << BITS) + FRESH
        cost[i, g] = best[lane] + move[cell[i], g]
        second[i, g] = (np.sqrt(far) if root else far) + reps.drift[g]


@kernel
def assign_rows(  # type: ignore[no-untyped-def]
    rows, reps, features, move, prices, margin, wanted, queue, waiting, work, low, high
):
    """Compute those costs of rows low … high − 1 that can matter.

    A pair is a row and a cell. If not `wanted`, costs are compared at the prices (G,): if the
    lower bound of a pair exceeds the value of the row's chosen cell by more than `margin`, the
    bound becomes the pair's cost, and the pair STALE. `wanted` computes only WANTED pairs
    in that state. `queue` (G, ROWS) holds rows that wait for `_scan`, `waiting` (G,) their numbers.
    """
    # Locals, because numba counts references whenever a tuple of arrays is passed.
    x, cell, chosen, cost, packed, second = rows
    points = reps.points
    tile_start = reps.tiles.start
    first = reps.first
    step = reps.step
    longest = reps.longest
    drift = reps.drift
    root = features.root
    cells = len(prices)
    for row in range(low, high):
        i: Any = np.uintp(
            row
        )  # unsigned: numba then skips the check for negative indices
        home = cell[i]
        chose = chosen[i]
        limit = np.float32(0)
        full = row == high - 1
        for turn in range(cells):
            g = np.uintp(
                chose if turn == 0 else turn - (turn <= chose)
            )  # the chosen cell sets the limit
            word = packed[i, g]
            state = word % STATES
            if tile_start[g] == tile_start[g + 1] or (wanted and state != WANTED):
                continue
            if not wanted:
                j = first[g] + np.uintp(word >> BITS)
                other = max(second[i, g] - drift[g], np.float32(0))
                other = other * other if root else other
                value = max(cost[i, g] - move[home, g], np.float32(0))
                if turn > 0:
                    bound = max(
                        (np.sqrt(value) if root else value) - step[j], np.float32(0)
                    )
                    bound = min(bound * bound if root else bound, other) + move[home, g]
                    if bound - prices[g] > limit:
                        cost[i, g] = bound
                        packed[i, g] = word - state + STALE
                        continue
                if step[j] > 0 or state != FRESH:
                    value = pair_cost(x, row, points, np.intp(j), features)
                if turn == 0:
                    limit = value + move[home, g] - prices[g] + margin
                if value < other or (longest[g] == 0 and state == FRESH):
                    cost[i, g] = value + move[home, g]
                    packed[i, g] = word - state + FRESH
                    continue
            queue[g, waiting[g]] = i
            waiting[g] += 1
            full |= waiting[g] == ROWS
        for c in range(cells if full else 0):
            if waiting[c] == ROWS or (row == high - 1 and waiting[c] > 0):
                _scan(rows, reps, features, move, c, queue, waiting[c], work)
                waiting[c] = 0


@kernel
def find_nearest(values, tiles, features, cost, label, block, work):  # type: ignore[no-untyped-def]
    """Find the nearest representative of every cell for rows `values` (r, p) float64.

    `cost` (r, G) gets the feature cost, `label` (r, G) the index, the first on ties; inf and −1 in
    cells without representatives. `block` and `work` are work arrays.
    """
    out, best, next_best, nearest = work
    for low in range(0, len(values), ROWS):
        count = min(ROWS, len(values) - low)
        for lane in range(ROWS):
            for k in range(values.shape[1]):
                block[k, lane] = values[low + min(lane, count - 1), k]
        for g in range(cost.shape[1]):
            _find_two(block, tiles, g, features, np.inf, out, best, next_best, nearest)
            for lane in range(count):
                cost[low + lane, g] = best[lane]
                label[low + lane, g] = nearest[lane]


def nearest_points(
    problem: Problem, points: Array, threads: Threads
) -> tuple[Array, Array]:
    """Return the float64 cost (n, G) and index (G, n) of the nearest of the points (m, p) in
    each cell.
    """
    table = problem.table
    cells = problem.move.shape[1]
    tiles = Tiles.of(np.array(points, np.float64), problem.cell_of, cells)
    cost = np.empty((table.n, cells))
    label = np.empty((table.n, cells), np.int32)

    def find(low: int) -> None:
        part = slice(low, low + AT_ONCE)
        block = np.empty((table.p, ROWS))
        work = (
            np.empty((WIDTH, ROWS)),
            np.empty(ROWS),
            np.empty(ROWS),
            np.empty(ROWS, np.int32),
        )
        values = table.values_of(part)
        features = problem.feature_cost
        find_nearest(values, tiles, features, cost[part], label[part], block, work)
        cost[part] += problem.move[problem.cells.cell[part]]

    threads.over(find, range(0, table.n, AT_ONCE))
    return cost, label.T
