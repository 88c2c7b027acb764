"""Compiled gains of swaps: what replacing a representative by a candidate row would save, at fixed prices."""

import numpy as np
from numba import njit

from fwc_llm.coreset.descent.tile import ROWS, WIDTH, l1_tile, sqeuclidean_tile


@njit(nogil=True, cache=True)
def swap_losses(  # type: ignore[no-untyped-def]
    blocks, owner, extra, nearest, second, tiles, cells, n_numeric, squared, shared, own, low, high
):
    """Changes of Σ_i min_j (c_ij + extra) by the candidates of tiles low … high − 1.

    `blocks` (B, p, ROWS) float32 are the rows, those whose nearest representative is j in the blocks with
    `owner[b] = j`; `nearest` and `second` (B, ROWS) their costs to the two nearest representatives;
    `extra` (G, B, ROWS) what is added to the feature cost in each cell. All candidates of tile t stand for
    cell `cells[t]`. A candidate w of tile t changes the sum by `shared[t, w]` if nobody leaves, and by
    `shared[t, w] + own[t, w, j]` if j does.
    """
    out = np.empty((WIDTH, ROWS), np.float32)
    gain = np.empty((WIDTH, ROWS), np.float32)
    loss = np.empty((WIDTH, ROWS), np.float32)
    for t in range(low, high):
        more = extra[cells[t]]
        for w in range(WIDTH):
            shared[t, w] = 0.0
        own[t] = 0.0
        for b in range(len(blocks)):
            if squared:
                sqeuclidean_tile(blocks[b], tiles, t, n_numeric, out)
            else:
                l1_tile(blocks[b], tiles, t, n_numeric, out)
            for w in range(WIDTH):
                for lane in range(ROWS):
                    cost = out[w, lane] + more[b, lane]
                    kept = min(cost, nearest[b, lane])
                    gain[w, lane] = kept - nearest[b, lane]
                    loss[w, lane] = min(cost, second[b, lane]) - kept
                shared[t, w] += _sum(gain[w])
                own[t, w, owner[b]] += _sum(loss[w])


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def _sum(values):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for lane in range(ROWS):
        total += values[lane]
    return total


@njit(nogil=True, cache=True)
def _two_nearest(features, extra, cell_of, owner, first, second):  # type: ignore[no-untyped-def]
    """The nearest representative of every row, and the costs of the two nearest."""
    m, n = features.shape
    owner[:] = 0
    first[:] = np.float32(1e30)
    second[:] = np.float32(1e30)
    for j in range(m):
        more = extra[cell_of[j]]
        cost = features[j]
        for i in range(n):
            value = cost[i] + more[i]
            second[i] = min(second[i], max(value, first[i]))
            owner[i] = j if value < first[i] else owner[i]
            first[i] = min(value, first[i])


@njit(nogil=True, cache=True)
def _arrange(columns, extra, owner, first, second, m):  # type: ignore[no-untyped-def]
    """The rows in blocks by owner: (blocks, owner of each, extra, first, second), see `swap_losses`."""
    p, n = columns.shape
    start = np.zeros(m + 1, np.int64)
    for i in range(n):
        start[owner[i] + 1] += 1
    for j in range(m):
        start[j + 1] = start[j] + -(-start[j + 1] // ROWS)
    count = start[m]
    blocks = np.zeros((count, p, ROWS), np.float32)
    block_owner = np.empty(count, np.int64)
    block_extra = np.zeros((len(extra), count, ROWS), np.float32)
    block_first = np.full((count, ROWS), np.float32(-1e30))
    block_second = np.full((count, ROWS), np.float32(-1e30))
    for j in range(m):
        block_owner[start[j] : start[j + 1]] = j
    place = start[:m] * ROWS
    for i in range(n):
        b, lane = divmod(place[owner[i]], ROWS)
        place[owner[i]] += 1
        for k in range(p):
            blocks[b, k, lane] = columns[k, i]
        for g in range(len(extra)):
            block_extra[g, b, lane] = extra[g, i]
        block_first[b, lane] = first[i]
        block_second[b, lane] = second[i]
    return blocks, block_owner, block_extra, block_first, block_second


@njit(nogil=True, cache=True)
def swap_eagerly(  # type: ignore[no-untyped-def]
    columns, extra, rows, cell_of, ids, candidates, tile_cells, n_numeric, squared, sweeps, least
):
    """FasterPAM at fixed prices: takes every tile's best swap at once, in place in `rows` (m,).

    `columns` (p, n) float32 are the rows, `candidates` (T, WIDTH) rows among them, −1 where a tile is not
    full, `ids` (n,) equal for rows that count as the same. Ends when no swap lowers Σ_i min_j (c_ij + extra)
    by `least`, or after `sweeps` times all candidates.
    """
    p, n = columns.shape
    m = len(rows)
    features = np.empty((m, n), np.float32)
    owner = np.empty(n, np.int32)
    first, second = np.empty(n, np.float32), np.empty(n, np.float32)
    tiles = np.zeros((1, p, WIDTH), np.float32)
    shared, own = np.empty((1, WIDTH)), np.empty((1, WIDTH, m))
    for j in range(m):
        _feature_costs(columns, rows[j], n_numeric, squared, features[j])
    _two_nearest(features, extra, cell_of, owner, first, second)
    blocks, block_owner, block_extra, block_first, block_second = _arrange(
        columns, extra, owner, first, second, m
    )
    quiet = 0
    for t in range(sweeps * len(candidates)):
        t %= len(candidates)
        quiet += 1
        if quiet > len(candidates):
            break
        g = tile_cells[t]
        for w in range(WIDTH):
            for k in range(p):
                tiles[0, k, w] = columns[k, max(candidates[t, w], 0)]
        swap_losses(
            blocks, block_owner, block_extra, block_first, block_second, tiles, tile_cells[t : t + 1],
            n_numeric, squared, shared, own, 0, 1,
        )  # fmt: skip
        best, best_w, best_j = -least, -1, -1
        for w in range(WIDTH):
            row = candidates[t, w]
            if row < 0:
                break
            known = False
            for j in range(m):
                known |= cell_of[j] == g and ids[rows[j]] == ids[row]
            if known:
                continue
            for j in range(m):
                if cell_of[j] == g and shared[0, w] + own[0, w, j] < best:
                    best, best_w, best_j = shared[0, w] + own[0, w, j], w, j
        if best_j >= 0:
            quiet = 0
            rows[best_j] = candidates[t, best_w]
            _feature_costs(columns, rows[best_j], n_numeric, squared, features[best_j])
            _two_nearest(features, extra, cell_of, owner, first, second)
            blocks, block_owner, block_extra, block_first, block_second = _arrange(
                columns, extra, owner, first, second, m
            )


@njit(nogil=True, cache=True)
def _feature_costs(columns, row, n_numeric, squared, out):  # type: ignore[no-untyped-def]
    out[:] = 0
    for k in range(len(columns)):
        value = columns[k, row]
        for i in range(len(out)):
            difference = columns[k, i] - value
            if k >= n_numeric:
                out[i] += np.float32(difference != 0)
            elif squared:
                out[i] += difference * difference
            else:
                out[i] += abs(difference)
