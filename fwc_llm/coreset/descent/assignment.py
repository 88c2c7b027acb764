"""Find each row's nearest representative in every cell, in compiled code."""

from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.problem.ground_cost import ROWS, WIDTH, Tiles, tile_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads

_AT_ONCE = 4096  # rows per call


@kernel
def find_nearest(  # type: ignore[no-untyped-def]
    values, tiles, features, cost, label, block, work
):
    """Find the nearest representative of every cell for rows `values` (r, p).

    `cost` (r, G) gets the feature cost, `label` (r, G) the index, the first on ties; inf and −1 in
    cells without representatives. `block` and `work` are work arrays.
    """
    out, best, nearest = work
    for low in range(0, len(values), ROWS):
        count = min(ROWS, len(values) - low)
        for lane in range(ROWS):
            for k in range(values.shape[1]):
                block[k, lane] = values[low + min(lane, count - 1), k]
        for g in range(cost.shape[1]):
            for lane in range(ROWS):
                best[lane] = np.inf
                nearest[lane] = -1
            for t in range(tiles.start[g], tiles.start[g + 1]):
                tile_costs(block, tiles.values, t, features, out)
                for w in range(WIDTH):
                    j = tiles.label[t, w]
                    if j < 0:
                        break
                    for lane in range(ROWS):
                        value = out[w, lane]
                        nearest[lane] = j if value < best[lane] else nearest[lane]
                        best[lane] = min(value, best[lane])
            for lane in range(count):
                cost[low + lane, g] = best[lane]
                label[low + lane, g] = nearest[lane]


def nearest_points(
    problem: Problem, points: Array, threads: Threads, single: bool = False
) -> tuple[Array, Array]:
    """Return the cost (n, G) and index (G, n) of the nearest of the points (m, p) in each cell.

    Computed in float64, or in float32 if `single`.
    """
    table = problem.table
    cells = problem.move.shape[1]
    kind: Any = np.float64
    if single:
        kind = np.float32
        points = points - table.origin
    tiles = Tiles.of(np.array(points, kind), problem.cell_of, cells)
    move = problem.move.astype(kind)
    cost = np.empty((table.n, cells), kind)
    label = np.empty((table.n, cells), np.int32)

    def find(low: int) -> None:
        part = slice(low, low + _AT_ONCE)
        block = np.empty((table.p, ROWS), kind)
        work = (
            np.empty((WIDTH, ROWS), kind),
            np.empty(ROWS, kind),
            np.empty(ROWS, np.int32),
        )
        if single:
            values = read_only(table.single[part])
        else:
            values = table.values_of(part)
        features = problem.feature_cost
        find_nearest(values, tiles, features, cost[part], label[part], block, work)
        cost[part] += move[problem.cells.cell[part]]

    threads.over(find, range(0, table.n, _AT_ONCE))
    return cost, label.T
