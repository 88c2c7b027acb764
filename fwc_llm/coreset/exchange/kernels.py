"""The compiled kernels of swaps: the best swap for each candidate, and the two nearest points of rows.

Costs come from the tiles of `fwc_llm.coreset.compiling.tile`: of 64 rows to 4 points at once. The kernels are
serial and let go of Python's lock, so that plain threads share a batch. (numba's own threads wait by
spinning, which on a busy machine costs more than the work.)
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.compiling.kernel import kernel, part
from fwc_llm.coreset.compiling.tile import ROWS, WIDTH, l1_tile, sqeuclidean_tile
from fwc_llm.coreset.exchange.space import Nearest, Space

_CHUNK = 32  # rows of one point that are summed up together: half a block
_IN_BLOCK = ROWS // _CHUNK
_SLACK = np.float32(1.0 - 1e-5)  # distances are rounded: a bound must not cut off what just matters


@dataclass(frozen=True)
class Sorted:
    """All rows in chunks of 32 that have one nearest point, those of a point by falling reach.

    `slot` (C,) is a chunk's point, and `reach` (C,) how far from it a candidate may be and still matter to a
    row of the chunk. Chunks are filled up with rows that no candidate can come closer to: their costs at
    the nearest and second point, `d_first` and `d_second` (n',), are −inf. `blocks` (B, p, ROWS) are the
    rows' values, and `cell` (n',) their cells. `removal` (m,): see `Nearest`. `mass` (n',) is empty where
    every row counts the same.
    """

    blocks: np.ndarray
    cell: np.ndarray
    d_first: np.ndarray
    d_second: np.ndarray
    slot: np.ndarray
    reach: np.ndarray
    removal: np.ndarray
    mass: np.ndarray


def sort_rows(space: Space, nearest: Nearest, reach: np.ndarray, m: int) -> Sorted:
    """The rows of `space` sorted; beyond its `reach` (n,) no candidate matters to a row."""
    n, p = space.values.shape
    removal = nearest.removal(m, space.mass)
    order = np.argsort(nearest.first * (2.0 * float(reach.max()) + 1.0) - reach)
    count = np.bincount(nearest.first, minlength=m)
    chunks = -(-count // _CHUNK)
    slot = np.repeat(np.arange(m), chunks)
    slot = np.append(slot, np.zeros(-len(slot) % _IN_BLOCK, int))
    place = np.full(len(slot) * _CHUNK, n)  # n: a row that fills up
    before, chunks_before = np.cumsum(count) - count, np.cumsum(chunks) - chunks
    place[np.arange(n) + np.repeat(_CHUNK * chunks_before - before, count)] = order
    del order  # beside the blocks nothing else should be held
    full = place < n
    place[~full] = 0
    rows = place
    blocks = np.empty((len(rows) // ROWS, p, ROWS), np.float32)
    _lay_out(space.values, rows, blocks)
    far = np.float32(-np.inf)
    return Sorted(
        blocks=blocks,
        cell=space.cell[rows].astype(np.uint16),
        d_first=np.where(full, nearest.d_first[rows], far),
        d_second=np.where(full, nearest.d_second[rows], far),
        slot=slot,
        reach=np.where(full, reach[rows], far)[::_CHUNK],
        removal=removal,
        mass=np.zeros(0, np.float32) if space.mass is None else np.where(full, space.mass[rows], 0),
    )


def best_exchanges(
    rows: Sorted,
    space: Space,
    prices: np.ndarray,
    points: np.ndarray,
    cell_of: np.ndarray,
    candidates: np.ndarray,
    cells: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For every candidate the point to exchange for it, and the change of the loss: (q,) each (FastPAM1).

    `points` (m, p) stand for the cells `cell_of` (m,), `candidates` (q, p) are to stand for `cells` (q,). A
    row whose point goes costs min(d, d₂) instead of d₁, any other min(d, d₁). Four candidates share a tile:
    what matters to none of them is left out, so that candidates that lie together should stand together.
    """
    slots, changes = np.empty(len(cells), np.int64), np.empty(len(cells))
    room = np.empty((WIDTH, ROWS), np.float32), np.empty((WIDTH, len(points)), np.float32)
    _best_exchanges(
        *(
            rows.blocks,
            rows.cell,
            rows.d_first,
            rows.d_second,
            rows.slot,
            rows.reach,
            rows.removal,
            rows.mass,
        ),
        *(_in_groups(points, ROWS), cell_of, _in_groups(candidates, WIDTH), cells),
        *(space.n_numeric, space.cost == "l1", space.cost == "l2", space.move, prices),
        *(*room, np.empty((WIDTH, len(points))), slots, changes),
    )
    return slots, changes


def two_nearest(
    space: Space,
    prices: np.ndarray,
    points: np.ndarray,
    cell_of: np.ndarray,
    slots: np.ndarray | None,
    rows: np.ndarray,
    found: Nearest,
) -> None:
    """Writes which two points are nearest to the `rows`, and what the rows cost there.

    With `slots` only these points are looked at: they are new, and none of them is among those found.
    """
    only = np.arange(len(points)) if slots is None else slots
    _two_nearest(
        *(space.values, space.cell, rows, _in_groups(points[only], WIDTH), only, cell_of[only]),
        *(slots is None, space.n_numeric, space.cost == "l1", space.cost == "l2", space.move, prices),
        *(np.empty((space.values.shape[1], ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)),
        *(found.first, found.second, found.d_first, found.d_second),
    )


def _in_groups(values: np.ndarray, size: int) -> np.ndarray:
    """(ceil(q / size), p, size) of the points (q, p); the last group is filled up with the last point."""
    count = -(-len(values) // size)
    places = np.minimum(np.arange(count * size), len(values) - 1).reshape(count, size)
    return np.ascontiguousarray(values[places].transpose(0, 2, 1))


@part(fastmath={"reassoc", "nsz"})
def _gains(tile, w, d_first, d_second, first, low, size):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over `size` rows from `low`; tile[w] begins at `first`.

    The numbers are unsigned, so that numba does not ask whether an index counts from the end; and the inner
    loop has no rest. Both make it vectors.
    """
    none = np.float32(0)
    added, gain = none, none
    for start in range(np.uint64(0), size, np.uint64(_CHUNK)):
        for lane in range(np.uint64(_CHUNK)):
            i = low + start + lane
            d, nearest = tile[w, i], d_first[first + i]
            closer = d - nearest
            added += closer if closer < none else none
            change = (d if d > nearest else nearest) - d_second[first + i]
            gain += change if change < none else none
    return np.float64(added), np.float64(gain)


@part(fastmath={"reassoc", "nsz"})
def _weighted_gains(tile, w, d_first, d_second, mass, first, low, size):  # type: ignore[no-untyped-def]
    """The sums of `_gains`, each row as often as its mass says."""
    none = np.float32(0)
    added, gain = none, none
    for start in range(np.uint64(0), size, np.uint64(_CHUNK)):
        for lane in range(np.uint64(_CHUNK)):
            i = low + start + lane
            d, nearest, weight = tile[w, i], d_first[first + i], mass[first + i]
            closer = d - nearest
            added += weight * (closer if closer < none else none)
            change = (d if d > nearest else nearest) - d_second[first + i]
            gain += weight * (change if change < none else none)
    return np.float64(added), np.float64(gain)


@kernel
def _best_exchanges(  # type: ignore[no-untyped-def]
    blocks, cell, d_first, d_second, slot, reach, removal, mass, point_blocks, cell_of, tiles, cells,
    n_numeric, l1, l2, move, prices, tile, limit, gain, slots, changes,
):  # fmt: skip
    """Writes `slots` and `changes` (q,); `tile`, `limit` (WIDTH, m) and `gain` (WIDTH, m) are room."""
    m = len(cell_of)
    for t in range(len(tiles)):
        width = min(WIDTH, len(cells) - t * WIDTH)
        for b in range(len(point_blocks)):
            if l1:
                l1_tile(point_blocks[b], tiles, t, n_numeric, tile)
            else:
                sqeuclidean_tile(point_blocks[b], tiles, t, n_numeric, tile)
            for w in range(width):
                for s in range(b * ROWS, min(b * ROWS + ROWS, m)):
                    away = tile[w, s - b * ROWS] + move[cells[t * WIDTH + w], cell_of[s]]
                    limit[w, s] = (away if l1 else np.sqrt(away)) * _SLACK
                    gain[w, s] = removal[s]
        for w in range(width):
            changes[t * WIDTH + w] = 0.0
        for b in range(len(blocks)):
            matters = False
            for c in range(b * _IN_BLOCK, (b + 1) * _IN_BLOCK):
                for w in range(width):
                    matters |= reach[c] > limit[w, slot[c]]
            if not matters:
                continue
            if l1:
                l1_tile(blocks[b], tiles, t, n_numeric, tile)
            else:
                sqeuclidean_tile(blocks[b], tiles, t, n_numeric, tile)
            first = np.uint64(b * ROWS)
            for w in range(width):
                g = cells[t * WIDTH + w]
                price = prices[g]
                for lane in range(ROWS):
                    tile[w, lane] += move[g, cell[first + np.uint64(lane)]]
                if l2:
                    for lane in range(ROWS):
                        tile[w, lane] = np.sqrt(tile[w, lane])
                for lane in range(ROWS):
                    tile[w, lane] -= price
                for c in range(_IN_BLOCK):
                    low, size = np.uint64(c * _CHUNK), np.uint64(_CHUNK)
                    if len(mass):
                        added, change = _weighted_gains(tile, w, d_first, d_second, mass, first, low, size)
                    else:
                        added, change = _gains(tile, w, d_first, d_second, first, low, size)
                    changes[t * WIDTH + w] += added
                    gain[w, slot[b * _IN_BLOCK + c]] += change
        for w in range(width):
            best, least = 0, np.inf
            for s in range(m):
                if cell_of[s] == cells[t * WIDTH + w] and gain[w, s] < least:
                    best, least = s, gain[w, s]
            slots[t * WIDTH + w] = best
            changes[t * WIDTH + w] += least


@kernel
def _lay_out(values, rows, blocks):  # type: ignore[no-untyped-def]
    """Writes the `values` (n, p) of the `rows` to `blocks` (B, p, ROWS)."""
    for b in range(len(blocks)):
        for lane in range(ROWS):
            row = rows[b * ROWS + lane]
            for k in range(values.shape[1]):
                blocks[b, k, lane] = values[row, k]


@kernel
def _two_nearest(  # type: ignore[no-untyped-def]
    values, cell, rows, tiles, slots, cell_of, anew, n_numeric, l1, l2, move, prices, block, tile,
    nearest, second, d_nearest, d_second,
):  # fmt: skip
    """Writes the last four (n,) for the `rows`; `block` (p, ROWS) and `tile` are room.

    `slots` (q,) are the points of the `tiles` and `cell_of` (q,) their cells; `anew`: there are no others.
    """
    m = len(cell_of)
    for start in range(0, len(rows), ROWS):
        count = min(ROWS, len(rows) - start)
        for lane in range(ROWS):
            i = rows[start + min(lane, count - 1)]
            for k in range(values.shape[1]):
                block[k, lane] = values[i, k]
        if anew:
            for lane in range(count):
                i = rows[start + lane]
                nearest[i], second[i] = -1, -1
                d_nearest[i], d_second[i] = np.float32(np.inf), np.float32(np.inf)
        for t in range(len(tiles)):
            if l1:
                l1_tile(block, tiles, t, n_numeric, tile)
            else:
                sqeuclidean_tile(block, tiles, t, n_numeric, tile)
            for w in range(min(WIDTH, m - t * WIDTH)):
                j = slots[t * WIDTH + w]
                g = cell_of[t * WIDTH + w]
                for lane in range(count):
                    i = rows[start + lane]
                    d = tile[w, lane] + move[g, cell[i]]
                    d = (np.sqrt(d) if l2 else d) - prices[g]
                    if d < d_nearest[i]:
                        second[i], d_second[i] = nearest[i], d_nearest[i]
                        nearest[i], d_nearest[i] = j, d
                    elif d < d_second[i]:
                        second[i], d_second[i] = j, d
