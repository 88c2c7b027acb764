"""The points that stand, the two nearest of every row, and what swaps of them would change."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.compiled import kernel, part, read_only
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.tile import ROWS, WIDTH, l1_tile, sqeuclidean_tile

_WORTH_SHARING = 2_000_000  # comparisons of two values: about half a millisecond


@dataclass(frozen=True)
class Space:
    """n rows, and the prices of the cells.

    The cost of a row at a point of cell g is F less the price of g, or F² less it, where F is a metric. In L1
    and L2 F is the distance of the numbers, plus 1 for every code that differs, plus what `move` says of the
    two cells; in L2 it is the root of such a sum of squares. The cost "sqeuclidean" is F² of L2.

    `values` (n, p) float32 are `n_numeric` columns of numbers, then codes. `cell` (n,) is each row's cell,
    `move` (G, G) symmetric, `prices` (G,), and `cost` "l1", "l2" or "sqeuclidean". `mass` (n,)
    float32 says how much each row counts, `units` (c,) what a mismatch of codes
    costs; None stands for 1.
    """

    values: np.ndarray
    n_numeric: int
    cell: np.ndarray
    move: np.ndarray
    prices: np.ndarray
    cost: str
    mass: np.ndarray | None = None
    units: np.ndarray | None = None

    @property
    def mismatch(self) -> np.ndarray:
        """(c,) float32, what a mismatch costs in each column of codes."""
        codes = self.values.shape[1] - self.n_numeric
        return read_only(np.ones(codes, np.float32) if self.units is None else self.units)


@dataclass(frozen=True)
class Points:
    """m points: `values` (m, p) float32, `cells` (m,), and `keys` (m,), −1 for what is no row."""

    values: np.ndarray
    cells: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Nearest:
    """The two nearest points of every row: `first` and `second` (n,), and what the row costs there.

    A single point has no second: −1, and a cost that no row can exceed.
    """

    first: np.ndarray
    second: np.ndarray
    d_first: np.ndarray
    d_second: np.ndarray

    def removal(self, m: int, mass: np.ndarray | None) -> np.ndarray:
        """(m,) by how much the loss of rows of this `mass` rises without each point."""
        rises = self.d_second.astype(np.float64) - self.d_first
        if mass is not None:
            rises *= mass
        return np.bincount(self.first, rises, minlength=m)


@dataclass(frozen=True)
class Sorted:
    """All rows in chunks of 32 that have one nearest point, those of a point by falling reach.

    `slot` (C,) is a chunk's point, and `reach` (C,) how far from it a candidate may be and still matter to a
    row of the chunk. Chunks are filled up with rows that no candidate can come closer to: their costs at
    the nearest and second point, `d_first` and `d_second` (n',), are −inf. `blocks` (B, p, ROWS) are the
    rows' values, and `cell` (n',) their cells. `removal` (m,): see `Nearest`. `mass` (n',) says how
    much each counts, 0 for those that fill up.
    """

    blocks: np.ndarray
    cell: np.ndarray
    d_first: np.ndarray
    d_second: np.ndarray
    slot: np.ndarray
    reach: np.ndarray
    removal: np.ndarray
    mass: np.ndarray


class Standing:
    """Some points of a space; `threads` share the work."""

    def __init__(self, space: Space, points: Points, threads: Threads) -> None:
        self._threads = threads
        values = read_only(np.ascontiguousarray(space.values, np.float32))
        self._space = replace(space, values=values, move=space.move.astype(np.float32))
        self.prices = space.prices.astype(np.float32)
        self._points, self._cell_of = points.values.astype(np.float32), points.cells
        self._n = n = len(values)
        places, costs = np.empty((2, n), np.int32), np.empty((2, n), np.float32)
        self._nearest = Nearest(*places, *costs)
        self._sorted: Sorted | None = None  # until something is compared
        self._find_nearest(np.arange(n))

    @property
    def labels(self) -> np.ndarray:
        """(n,) the nearest point of every row."""
        return self._nearest.first

    def loss(self) -> float:
        """The sum of the rows' costs, each as often as its mass says."""
        costs, mass = self._nearest.d_first, self._space.mass
        return float(costs.sum(dtype=np.float64) if mass is None else costs.astype(np.float64) @ mass)

    def compare(self, candidates: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate (q, p), to stand for a cell (q,), the best point to exchange, and the change."""

        rows = self._sorted = self._sorted or self._sort()

        def exchanges(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            standing = rows, self._space, self.prices, self._points, self._cell_of
            return best_exchanges(*standing, candidates[part], cells[part])

        everything = np.arange(len(candidates))
        if self._threads.count == 1 or self._n * candidates.size < _WORTH_SHARING:
            return exchanges(everything)
        parts = np.array_split(everything, min(self._threads.count, len(everything)))
        slots, changes = zip(*self._threads.over(exchanges, parts), strict=True)
        return np.concatenate(slots), np.concatenate(changes)

    def swap(self, slots: np.ndarray, values: np.ndarray, prices: np.ndarray | None = None) -> None:
        """Puts other `values` (k, p) in the place of the points `slots` (k,); sets new prices, if given."""
        self._points[slots] = values
        if prices is not None:
            self.set_prices(prices.astype(np.float32))
            return
        gone = np.zeros(len(self._points), bool)
        gone[slots] = True
        stale = gone[self._nearest.first] | gone[self._nearest.second]
        self._find_nearest(np.flatnonzero(~stale), slots)
        self._find_nearest(np.flatnonzero(stale))

    def set_prices(self, prices: np.ndarray) -> None:
        """Sets other prices, (G,) float32."""
        self.prices = prices
        self._find_nearest(np.arange(self._n))

    def state(self) -> tuple[Any, ...]:
        """What stands now, for `restore`."""
        near = self._nearest
        found = Nearest(near.first.copy(), near.second.copy(), near.d_first.copy(), near.d_second.copy())
        return self._points.copy(), self.prices, found, self._sorted

    def restore(self, state: tuple[Any, ...]) -> None:
        """Makes what stood then stand again."""
        self._points, self.prices, self._nearest, self._sorted = state

    def _find_nearest(self, rows: np.ndarray, slots: np.ndarray | None = None) -> None:
        """Finds the two nearest points of the rows, of all or, beside those known, of some that are new."""
        near = self._nearest
        self._sorted = None

        def find(part: np.ndarray) -> None:
            two_nearest(*(self._space, self.prices, self._points, self._cell_of, slots, part, near))

        work = len(rows) * (self._points if slots is None else self._points[slots]).size
        count = self._threads.count if work >= _WORTH_SHARING else 1
        if count > 1:
            self._threads.over(find, np.array_split(rows, count))
        else:
            find(rows)
        if len(self._points) == 1:  # no second point: F(i, x) ≤ F(i, s) + F(x, s), where s is the single one
            price = self.prices[self._cell_of[0]]
            near.d_second[:] = 4 * (near.d_first.max() + price) - price + 1

    def _sort(self) -> Sorted:
        """The rows sorted, as `best_exchanges` takes them.

        A candidate x of cell g matters to row i of point s if F(i, x) < F₂, what the second costs without its
        price, and F(i, x) ≥ F(x, s) − F(i, s): if F(x, s) < F(i, s) + F₂, the reach of the row.
        """
        near, m = self._nearest, len(self._points)
        first = near.d_first + self.prices[self._cell_of[near.first]]
        second = near.d_second + self.prices[self._cell_of].max()
        if self._space.cost == "sqeuclidean":
            first, second = np.sqrt(np.maximum(first, 0)), np.sqrt(np.maximum(second, 0))
        return sort_rows(self._space, near, first + second, m)


_CHUNK = 32  # rows of one point that are summed up together: half a block
_IN_BLOCK = ROWS // _CHUNK
_AT_ONCE = 64  # blocks that are copied at once
_SLACK = np.float32(1.0 - 1e-5)  # distances are rounded: a bound must not cut off what just matters


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
    for b in range(0, len(blocks), _AT_ONCE):
        some = rows[b * ROWS : (b + _AT_ONCE) * ROWS]
        blocks[b : b + _AT_ONCE] = space.values[some].reshape(-1, ROWS, p).transpose(0, 2, 1)
    far = np.float32(-np.inf)
    return Sorted(
        blocks=blocks,
        cell=space.cell[rows].astype(np.uint16),
        d_first=np.where(full, nearest.d_first[rows], far),
        d_second=np.where(full, nearest.d_second[rows], far),
        slot=slot,
        reach=np.where(full, reach[rows], far)[::_CHUNK],
        removal=removal,
        mass=full.astype(np.float32) if space.mass is None else np.where(full, space.mass[rows], 0),
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
        *(space.mismatch, space.cost == "l1", space.cost == "l2", space.move, prices),
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
        *(slots is None, space.mismatch, space.cost == "l1", space.cost == "l2", space.move, prices),
        *(np.empty((space.values.shape[1], ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)),
        *(found.first, found.second, found.d_first, found.d_second),
    )


def _in_groups(values: np.ndarray, size: int) -> np.ndarray:
    """(ceil(q / size), p, size) of the points (q, p); the last group is filled up with the last point."""
    count = -(-len(values) // size)
    places = np.minimum(np.arange(count * size), len(values) - 1).reshape(count, size)
    return np.ascontiguousarray(values[places].transpose(0, 2, 1))


@part(fastmath={"reassoc", "nsz"})
def _gains(tile, w, d_first, d_second, mass, first, low, size):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over `size` rows from `low`, each by its mass.

    `tile[w]` begins at `first`. The numbers are unsigned, so that numba does not ask whether an index counts
    from the end; and the inner loop has no rest. Both make it vectors.
    """
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
    unit, l1, l2, move, prices, tile, limit, gain, slots, changes,
):  # fmt: skip
    """Writes `slots` and `changes` (q,); `tile`, `limit` (WIDTH, m) and `gain` (WIDTH, m) are room."""
    m = len(cell_of)
    for t in range(len(tiles)):
        width = min(WIDTH, len(cells) - t * WIDTH)
        for b in range(len(point_blocks)):
            if l1:
                l1_tile(point_blocks[b], tiles, t, unit, tile)
            else:
                sqeuclidean_tile(point_blocks[b], tiles, t, unit, tile)
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
                l1_tile(blocks[b], tiles, t, unit, tile)
            else:
                sqeuclidean_tile(blocks[b], tiles, t, unit, tile)
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
                    added, change = _gains(tile, w, d_first, d_second, mass, first, low, size)
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
def _two_nearest(  # type: ignore[no-untyped-def]
    values, cell, rows, tiles, slots, cell_of, anew, unit, l1, l2, move, prices, block, tile,
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
                l1_tile(block, tiles, t, unit, tile)
            else:
                sqeuclidean_tile(block, tiles, t, unit, tile)
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
