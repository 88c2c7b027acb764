"""The points that stand, the two nearest of every row, and what swaps of them would change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.compiled import kernel, part, read_only
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.tile import ROWS, WIDTH, in_groups, tile_costs

_WORTH_SHARING = 2_000_000  # comparisons of two values: about half a millisecond


@dataclass(frozen=True)
class Space:
    """n rows, and the prices of the cells.

    A row costs `cost` and what `move` says of the two cells at a point of cell g, or with `root` the root of
    this sum, less the price of g.

    `values` (n, p) float32 are numbers, then codes. `cell` (n,) is each row's cell, `move` (G, G) symmetric,
    `prices` (G,). `mass` (n,) float32 says how much each row counts (None: 1).
    """

    values: np.ndarray
    cost: FeatureCost
    cell: np.ndarray
    move: np.ndarray
    prices: np.ndarray
    mass: np.ndarray | None = None
    root: bool = False


@dataclass(frozen=True)
class Points:
    """m points: `values` (m, p) float32, `cells` (m,), and `keys` (m,), −1 for points that are not rows."""

    values: np.ndarray
    cells: np.ndarray
    keys: np.ndarray


_CHUNK = 32  # rows of one point that are summed up together: half a block
_IN_BLOCK = ROWS // _CHUNK
_AT_ONCE = 64  # blocks that are copied at once
_SLACK = np.float32(1.0 - 1e-5)  # distances are rounded: a bound must not cut off what just matters


class Medoids:
    """Some points of a space, and the two nearest of every row; `threads` share the work."""

    def __init__(self, space: Space, points: Points, threads: Threads) -> None:
        self._threads, self._space = threads, space
        self._values = read_only(np.ascontiguousarray(space.values, np.float32))
        self.prices = space.prices.astype(np.float32)
        self._points, self._cell_of = points.values.astype(np.float32), points.cells
        self._cost = space.cost, space.root, space.move.astype(np.float32)
        self._n = n = len(space.values)
        # Of every row the nearest point, the second, and what the row costs there. A single point has no
        # second: −1, and a cost that no row can exceed.
        places, costs = np.empty((2, n), np.int32), np.empty((2, n), np.float32)
        self._nearest: tuple[np.ndarray, ...] = (*places, *costs)
        self._sorted: tuple[np.ndarray, ...] | None = None  # until something is compared
        self._find_nearest(np.arange(n))

    @property
    def labels(self) -> np.ndarray:
        """(n,) the nearest point of every row."""
        return self._nearest[0]

    def loss(self) -> float:
        """The sum of the rows' costs, each as often as its mass says."""
        costs, mass = self._nearest[2], self._space.mass
        return float(costs.sum(dtype=np.float64) if mass is None else costs.astype(np.float64) @ mass)

    def compare(self, candidates: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate (q, p), to stand for a cell (q,), the best point to exchange, and the change.

        FastPAM1: a row whose point goes costs min(d, d₂) instead of d₁, any other min(d, d₁). Candidates that
        lie together should stand together.
        """
        self._sorted = rows = self._sorted or self._sort()
        m, points = len(self._points), in_groups(self._points, ROWS)
        slots, changes = np.empty(len(cells), np.int64), np.empty(len(cells))

        def compare_part(part: np.ndarray) -> None:
            tiles = points, self._cell_of, in_groups(candidates[part], WIDTH), cells[part]
            room = np.empty((WIDTH, ROWS), np.float32), np.empty((WIDTH, m), np.float32), np.empty((WIDTH, m))
            own = slots[part[0] : part[-1] + 1], changes[part[0] : part[-1] + 1]
            best_exchanges(*rows, *tiles, *self._cost, self.prices, *room, *own)

        self._share(compare_part, np.arange(len(cells)), self._n * candidates.size)
        return slots, changes

    def swap(self, slots: np.ndarray, values: np.ndarray) -> None:
        """Puts other `values` (k, p) in the place of the points `slots` (k,)."""
        self._points[slots] = values
        gone = np.zeros(len(self._points), bool)
        gone[slots] = True
        stale = gone[self._nearest[0]] | gone[self._nearest[1]]
        self._find_nearest(np.flatnonzero(~stale), slots)
        self._find_nearest(np.flatnonzero(stale))

    def state(self) -> tuple[Any, ...]:
        """The state, for `restore`."""
        return self._points.copy(), tuple(own.copy() for own in self._nearest), self._sorted

    def restore(self, state: tuple[Any, ...]) -> None:
        """Makes what stood then stand again."""
        self._points, self._nearest, self._sorted = state

    def _share(self, task: Callable[[np.ndarray], None], items: np.ndarray, work: int) -> None:
        """Does the task for parts of the items, in threads where it is worth it."""
        count = min(self._threads.count, len(items)) if work >= _WORTH_SHARING else 1
        self._threads.over(task, np.array_split(items, count) if count > 1 else [items])

    def _find_nearest(self, rows: np.ndarray, slots: np.ndarray | None = None) -> None:
        """Finds the two nearest points of the rows, of all or, beside those known, of some that are new."""
        self._sorted = None
        only = np.arange(len(self._points)) if slots is None else slots
        tiles = in_groups(self._points[only], WIDTH), only, self._cell_of[only], slots is None
        p = self._values.shape[1]

        def find(part: np.ndarray) -> None:
            room = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
            terms = *tiles, *self._cost, self.prices, *room
            two_nearest(self._values, self._space.cell, part, *terms, *self._nearest)

        self._share(find, rows, len(rows) * len(only) * p)
        if len(self._points) == 1:  # no second point: F(i, x) ≤ F(i, s) + F(x, s), where s is the single one
            price = self.prices[self._cell_of[0]]
            self._nearest[3][:] = 4 * (self._nearest[2].max() + price) - price + 1

    def _sort(self) -> tuple[np.ndarray, ...]:
        """All rows in chunks that have one nearest point, those of a point by falling reach: a candidate x of
        cell g matters to row i of point s only if F(x, s) < F(i, s) + F₂, what the second costs without its
        price.
        """
        space, (nearest, _, d_first, d_second) = self._space, self._nearest
        (n, p), m = self._values.shape, len(self._points)
        first = d_first + self.prices[self._cell_of[nearest]]
        second = d_second + self.prices[self._cell_of].max()
        if space.cost.squared and not space.root:
            first, second = np.sqrt(np.maximum(first, 0)), np.sqrt(np.maximum(second, 0))
        reach = first + second
        rises = d_second.astype(np.float64) - d_first
        removal = np.bincount(nearest, rises if space.mass is None else rises * space.mass, minlength=m)
        order = np.argsort(nearest * (2.0 * float(reach.max()) + 1.0) - reach)
        count = np.bincount(nearest, minlength=m)
        chunks = -(-count // _CHUNK)
        slot = np.repeat(np.arange(m), chunks)
        slot = np.append(slot, np.zeros(-len(slot) % _IN_BLOCK, int))
        rows, full = np.zeros(len(slot) * _CHUNK, np.int64), np.zeros(len(slot) * _CHUNK, bool)
        before, chunks_before = np.cumsum(count) - count, np.cumsum(chunks) - chunks
        place = np.arange(n) + np.repeat(_CHUNK * chunks_before - before, count)
        rows[place], full[place] = order, True
        del order, place  # beside the blocks nothing else should be held
        blocks = np.empty((len(rows) // ROWS, p, ROWS), np.float32)
        for b in range(0, len(blocks), _AT_ONCE):
            some = rows[b * ROWS : (b + _AT_ONCE) * ROWS]
            blocks[b : b + _AT_ONCE] = self._values[some].reshape(-1, ROWS, p).transpose(0, 2, 1)
        far = np.float32(-np.inf)
        mass = full.astype(np.float32) if space.mass is None else np.where(full, space.mass[rows], 0)
        costs = (np.where(full, own[rows], far) for own in (d_first, d_second))
        reach = np.where(full, reach[rows], far)[::_CHUNK]
        return blocks, space.cell[rows].astype(np.uint16), *costs, slot, reach, removal, mass


@part(fastmath={"reassoc", "nsz"})
def _gains(tile, w, d_first, d_second, mass, first, low, size):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over `size` rows from `low`, each by its mass. Unsigned
    numbers, and an inner loop without rest, let numba make vectors of both.
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
def best_exchanges(  # type: ignore[no-untyped-def]
    blocks, cell, d_first, d_second, slot, reach, removal, mass, point_blocks, cell_of, tiles, cells,
    cost, root, move, prices, tile, limit, gain, slots, changes,
):  # fmt: skip
    """Writes `slots` and `changes` (q,); `tile`, `limit` (WIDTH, m) and `gain` (WIDTH, m) are room.

    `blocks` (B, p, ROWS) are the rows in chunks of `_CHUNK`, `cell` (n',) their cells, `d_first` and
    `d_second` (n',) their costs at the nearest and second point, and `mass` (n',) how much each counts. Rows
    that fill up have no mass, and costs that no candidate lowers: −inf. `slot` (C,) is a chunk's point, and
    `reach` (C,) how far from it a candidate may be and still matter. The loss rises by `removal` (m,) without
    each point.
    """
    m = len(cell_of)
    for t in range(len(tiles)):
        width = min(WIDTH, len(cells) - t * WIDTH)
        for b in range(len(point_blocks)):
            tile_costs(point_blocks[b], tiles, t, cost, tile)
            for w in range(width):
                for s in range(b * ROWS, min(b * ROWS + ROWS, m)):
                    away = tile[w, s - b * ROWS] + move[cells[t * WIDTH + w], cell_of[s]]
                    limit[w, s] = (np.sqrt(away) if cost.squared else away) * _SLACK
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
            tile_costs(blocks[b], tiles, t, cost, tile)
            first = np.uint64(b * ROWS)
            for w in range(width):
                g = cells[t * WIDTH + w]
                price = prices[g]
                for lane in range(ROWS):
                    tile[w, lane] += move[g, cell[first + np.uint64(lane)]]
                if root:
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
def two_nearest(  # type: ignore[no-untyped-def]
    values, cell, rows, tiles, slots, cell_of, anew, cost, root, move, prices, block, tile,
    nearest, second, d_nearest, d_second,
):  # fmt: skip
    """Writes the last four (n,) for the `rows`; `block` (p, ROWS) and `tile` are room.

    `slots` (q,) are the points of the `tiles` and `cell_of` (q,) their cells; `anew`: no others exist.
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
            tile_costs(block, tiles, t, cost, tile)
            for w in range(min(WIDTH, m - t * WIDTH)):
                j = slots[t * WIDTH + w]
                g = cell_of[t * WIDTH + w]
                for lane in range(count):
                    i = rows[start + lane]
                    d = tile[w, lane] + move[g, cell[i]]
                    d = (np.sqrt(d) if root else d) - prices[g]
                    if d < d_nearest[i]:
                        second[i], d_second[i] = nearest[i], d_nearest[i]
                        nearest[i], d_nearest[i] = j, d
                    elif d < d_second[i]:
                        second[i], d_second[i] = j, d
