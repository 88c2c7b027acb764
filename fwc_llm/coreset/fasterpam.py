"""Swaps of medoids by FasterPAM (Schubert, Rousseeuw 2021).

Memory grows with n, not with n · m. Costs are computed when they are needed, and never kept.
Candidates are tried in batches, which threads share and which grow while no swap gains. Prices u
are fixed, so the loss Σ_i min_j (c_ij − u_g(j)) differs from n · D(u) of docs/method.md, "The inner
problem", by a constant: only swaps that lower the loss can lower the objective.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import kernel, part, read_only
from fwc_llm.coreset.problem.ground_cost import (
    ROWS,
    WIDTH,
    FeatureCost,
    Tiles,
    in_chunks,
    tile_costs,
)
from fwc_llm.coreset.threads import Threads

_LARGEST_BATCH = 512
_ESTIMATED = 8192  # candidates at once; their values are copied three times
_AT_ONCE = 64  # blocks that are copied at once
_ENOUGH = (
    0.5  # share of the sum of their single gains that several swaps must gain together
)
# comparisons of two values from which threads save time: half a millisecond
_WORTH_SHARING = 2_000_000
_CHUNK = 32  # rows with the same nearest point that are summed together: half a block
_IN_BLOCK = ROWS // _CHUNK


@dataclass(frozen=True)
class Space:
    """n rows, their ground cost, and the prices of the cells.

    A row of cell h costs `cost` + `move[h, g]` − `prices[g]` at a point of cell g; with `root`, the
    root of `cost` + `move[h, g]` replaces this sum.
    """

    values: Array  # (n, p) float32 numbers, then codes
    cost: FeatureCost
    cell: Array  # (n,)
    move: Array  # (G, G), symmetric
    prices: Array  # (G,)
    mass: Array  # (n,) float32 mass of each row
    root: bool = False


@dataclass(frozen=True)
class Points:
    """m points."""

    values: Array  # (m, p) float32
    cells: Array  # (m,)
    # (m,) equal for rows of a cell with equal features; −1 for points that are not rows
    keys: Array


@dataclass(frozen=True)
class Exchanged:
    """The result of all swaps."""

    rows: Array  # (m,) rows that replaced the points; −1 for a point that was not replaced
    labels: Array  # (n,) index of each row's nearest point
    losses: list[float]  # at the start and after every swap
    converged: bool  # whether no swap lowers the loss


@np.errstate(
    over="ignore", invalid="ignore"
)  # a swap whose values overflow gains nothing
def exchange(
    space: Space,
    points: Points,
    candidates: Array,
    cells: Array,
    keys: Array,
    threads: Threads,
    passes: int,
    least: float = 1e-7,
    again: int = 0,
    smallest: int = 16,
) -> Exchanged:
    """Replace points by candidates for the same cell until no swap lowers the loss by the share
    `least`.

    `candidates` (q,) are positions of rows, in the order in which they are tried, in at most
    `passes` passes; `cells` (q,) are the cells that they may represent. A candidate whose key in
    `keys` (q,) is that of a current point is skipped. After a swap the `again` next best candidates
    of a batch are compared again. `smallest` is the size of the smallest batch.
    """
    several = 1 + again
    terms = candidates, cells, keys, points.keys.copy(), least, several, several
    swapping = _Swapping(Medoids(space, points, threads), space.values, *terms)
    since_swap = 0
    seen = 0
    size = smallest
    while since_swap < len(candidates) and seen < passes * len(candidates):
        count = min(size, len(candidates) - since_swap)
        batch = np.arange(seen, seen + count) % len(candidates)
        seen += count
        since_swap += count
        if swapping.take_best(swapping.new(batch)):
            since_swap = 0
            size = max(size // 2, smallest)
        else:
            size = min(2 * size, _LARGEST_BATCH)
    converged = since_swap >= len(candidates)
    return Exchanged(swapping.rows, swapping.medoids.labels, swapping.losses, converged)


@np.errstate(
    over="ignore", invalid="ignore"
)  # a swap whose values overflow gains nothing
def estimate(
    space: Space,
    points: Points,
    candidates: Array,
    cells: Array,
    rows: Array,
    threads: Threads,
) -> Array:
    """Return (q,) the change of the loss, summed over some `rows`, by the best swap with each
    candidate.
    """
    part = replace(
        space, values=space.values[rows], cell=space.cell[rows], mass=space.mass[rows]
    )
    standing = Medoids(part, points, threads)
    changes = np.empty(len(candidates))
    for low in range(0, len(candidates), _ESTIMATED):
        some = slice(low, low + _ESTIMATED)
        changes[some] = standing.compare(space.values[candidates[some]], cells[some])[1]
    return changes


class Medoids:
    """The current points of a space, and every row's two nearest points; `threads` share the
    work.
    """

    def __init__(self, space: Space, points: Points, threads: Threads) -> None:
        self._threads = threads
        self._space = space
        self._values = read_only(np.ascontiguousarray(space.values, np.float32))
        self.prices = space.prices.astype(np.float32)
        self._points = points.values.astype(np.float32)
        self._cell_of = points.cells
        self._cost = space.cost, space.root, space.move.astype(np.float32)
        n = len(space.values)
        self._n = n
        # Of every row the nearest point, the second nearest, and the costs at both. With a single
        # point, the second nearest is −1, at a cost that no row can exceed.
        indices = np.empty((2, n), np.int32)
        costs = np.empty((2, n), np.float32)
        self._nearest: tuple[Array, ...] = (*indices, *costs)
        self._sorted: tuple[Array, ...] | None = None  # None until `compare` needs it
        self._find_nearest(np.arange(n))

    @property
    def labels(self) -> Array:
        """(n,) index of the nearest point of every row."""
        return self._nearest[0]

    def loss(self) -> float:
        """The sum of the rows' costs, weighted by mass."""
        costs = np.multiply(self._nearest[2], self._space.mass, dtype=np.float64)
        return float(costs.sum())

    def compare(self, candidates: Array, cells: Array) -> tuple[Array, Array]:
        """Find the best swap with each candidate: the point replaced, the change of loss.

        Both are (q,). `candidates` (q, p) are values, `cells` (q,) the cells that they may
        represent. FastPAM1: if a row's nearest point is replaced, the row costs min(d, d₂) instead
        of d₁, any other row min(d, d₁); d is the cost at the candidate, d₁ and d₂ are those at the
        nearest and second nearest point.
        """
        self._sorted = rows = self._sorted or self._sort()
        m = len(self._points)
        slots = np.empty(len(cells), np.int64)
        changes = np.empty(len(cells))

        def compare_part(part: Array) -> None:
            tiles = self._cell_of, _tiled(candidates[part]), cells[part]
            room = np.empty((WIDTH, ROWS), np.float32), np.empty((WIDTH, m))
            several = slice(part[0], part[-1] + 1)
            found = slots[several], changes[several]
            best_exchanges(*rows, *tiles, *self._cost, self.prices, *room, *found)

        self._share(compare_part, np.arange(len(cells)), self._n * candidates.size)
        return slots, changes

    def swap(self, slots: Array, values: Array) -> None:
        """Replace the points `slots` (k,) by `values` (k, p); earlier copies of this object do
        not change.
        """
        self._points = self._points.copy()
        self._nearest = tuple(values.copy() for values in self._nearest)
        self._points[slots] = values
        gone = np.zeros(len(self._points), bool)
        gone[slots] = True
        stale = gone[self._nearest[0]] | gone[self._nearest[1]]
        self._find_nearest(np.flatnonzero(~stale), slots)
        self._find_nearest(np.flatnonzero(stale))

    def _share(self, task: Callable[[Array], None], items: Array, work: int) -> None:
        """Run `task` on parts of the items, in several threads if it takes enough `work`
        (comparisons).
        """
        if work >= _WORTH_SHARING:
            count = min(self._threads.count, len(items))
        else:
            count = 1
        self._threads.over(task, np.array_split(items, count) if count > 1 else [items])

    def _find_nearest(self, rows: Array, slots: Array | None = None) -> None:
        """Find the two points nearest to each of `rows`; with `slots`, among these and the known
        two.
        """
        self._sorted = None
        only = slots
        if only is None:
            only = np.arange(len(self._points))
            for values, none in zip(
                self._nearest, (-1, -1, np.inf, np.inf), strict=True
            ):
                values[rows] = none
        tiles = _tiled(self._points[only]), only, self._cell_of[only]
        p = self._values.shape[1]

        def find(part: Array) -> None:
            room = np.empty((p, ROWS), np.float32), np.empty((WIDTH, ROWS), np.float32)
            terms = *tiles, *self._cost, self.prices, *room
            two_nearest(self._values, self._space.cell, part, *terms, *self._nearest)

        self._share(find, rows, len(rows) * len(only) * p)
        if (
            len(self._points) == 1
        ):  # no second point: F(i, x) ≤ F(i, s) + F(x, s), where s is the single one
            price = self.prices[self._cell_of[0]]
            self._nearest[3][:] = 4 * (self._nearest[2].max() + price) - price + 1

    def _sort(self) -> tuple[Array, ...]:
        """Sort all rows into chunks with the same nearest point."""
        space = self._space
        nearest, _, d_first, d_second = self._nearest
        m = len(self._points)
        rises = d_second.astype(np.float64) - d_first
        removal = np.bincount(nearest, rises * space.mass, minlength=m)
        chunks, start = in_chunks(nearest, m, _CHUNK)
        slot = np.repeat(np.arange(m), np.diff(start))
        missing = -len(slot) % _IN_BLOCK
        slot = np.append(slot, np.zeros(missing, int))
        rows = np.append(chunks, np.full(missing * _CHUNK, -1, np.int32))
        full = rows >= 0
        p = self._values.shape[1]
        blocks = np.empty((len(rows) // ROWS, p, ROWS), np.float32)
        for b in range(0, len(blocks), _AT_ONCE):
            some = rows[b * ROWS : (b + _AT_ONCE) * ROWS]
            values = np.take(self._values, some, axis=0)  # faster than an index
            blocks[b : b + _AT_ONCE] = values.reshape(-1, ROWS, p).transpose(0, 2, 1)
        far = np.float32(-np.inf)
        mass = np.where(full, space.mass[rows], 0)
        costs = (np.where(full, values[rows], far) for values in (d_first, d_second))
        return blocks, space.cell[rows].astype(np.uint16), *costs, slot, removal, mass


def _tiled(values: Array) -> Array:
    """Points (q, p) in tiles (T, p, WIDTH)."""
    tiles: Array = Tiles.of(values, np.zeros(len(values), int), 1).values
    return tiles


@dataclass
class _Swapping:
    """Swaps the best candidates of a batch."""

    medoids: Medoids
    values: Array  # of all rows
    candidates: Array  # rows
    cells: Array
    keys: Array
    present: Array  # (m,) keys of the points
    least: float
    compared: int  # candidates that are compared again
    together: int  # swaps that are tried together

    def __post_init__(self) -> None:
        self.rows = np.full(len(self.present), -1)
        self.losses = [self.medoids.loss()]

    def new(self, batch: Array) -> Array:
        """The candidates of `batch` (indices) with other keys than the points."""
        return batch[~np.isin(self.keys[batch], self.present)]

    def take_best(self, batch: Array) -> bool:
        """Swap in the best candidates of `batch` (indices) while swaps gain; return whether any
        gained.
        """
        improved = False
        while len(batch):
            values = self.values[self.candidates[batch]]
            slot, change = self.medoids.compare(values, self.cells[batch])
            ranking = np.argsort(change, kind="stable")[: self.compared]
            ranking = ranking[change[ranking] < -self.least * abs(self.losses[-1])]
            if len(ranking) == 0:
                break
            batch = batch[ranking]
            slot = slot[ranking]
            several = self._independent(batch, slot)
            expected = float(change[ranking][several].sum())
            if self._swap(slot[several], batch[several], expected):
                improved = True
                self.together = min(2 * len(several), 2 * self.together)
            else:
                self.together = len(several) // 4 or 1
            # A single best swap is not tried twice.
            batch = self.new(batch if len(several) > 1 else batch[1:])
        return improved

    def _independent(self, batch: Array, slot: Array) -> Array:
        """Index the first candidates of a batch whose swaps share no points or keys."""
        chosen: list[int] = []
        touched: set[int] = set()
        keys: set[int] = set()
        nearest = self.medoids.labels[self.candidates[batch]]
        swaps = zip(
            slot.tolist(), nearest.tolist(), self.keys[batch].tolist(), strict=True
        )
        for q, (point, neighbour, key) in enumerate(swaps):
            if not {point, neighbour} & touched and key not in keys:
                chosen.append(q)
                touched |= {point, neighbour}
                keys.add(key)
            if len(chosen) == self.together:
                break
        return np.array(chosen)

    def _swap(self, slots: Array, batch: Array, expected: float) -> bool:
        """Replace points by candidates; undo several swaps that together gain under half of
        `expected`.
        """
        before = copy(self.medoids)
        rows = self.candidates[batch]
        self.medoids.swap(slots, self.values[rows])
        loss = self.medoids.loss()
        if len(slots) > 1 and loss - self.losses[-1] > _ENOUGH * expected:
            self.medoids = before
            return False
        self.rows[slots] = rows
        self.present[slots] = self.keys[batch]
        self.losses.append(loss)
        return True


@part(fastmath={"reassoc", "nsz"})
def _gains(tile, w, d_first, d_second, mass, low, first):  # type: ignore[no-untyped-def]
    """Σ min(d − d₁, 0) and Σ min(max(d, d₁) − d₂, 0) over a chunk of rows, weighted by mass.

    `tile[w, low]` is of row `first`. Unsigned indices let numba vectorise both sums.
    """
    none = np.float32(0)
    added = none
    gain = none
    for lane in range(np.uint64(_CHUNK)):
        d = tile[w, low + lane]
        nearest = d_first[first + lane]
        weight = mass[first + lane]
        closer = d - nearest
        added += weight * (closer if closer < none else none)
        change = (d if d > nearest else nearest) - d_second[first + lane]
        gain += weight * (change if change < none else none)
    return np.float64(added), np.float64(gain)


@kernel
def best_exchanges(  # type: ignore[no-untyped-def]
    blocks,
    cell,
    d_first,
    d_second,
    slot,
    removal,
    mass,
    cell_of,
    tiles,
    cells,
    cost,
    root,
    move,
    prices,
    tile,
    gain,
    slots,
    changes,
):
    """Write the points that candidates best replace (`slots`), and the changes of the loss
    (`changes`), (q,).

    `blocks` (B, p, ROWS) are the rows in chunks of `_CHUNK`, `cell` (n',) their cells, `d_first`
    and `d_second` (n',) their costs at the nearest and second nearest point, and `mass` (n',) their
    masses. Padding rows have no mass, and costs of −inf, which no candidate lowers. `slot` (C,) is
    a chunk's nearest point, `removal` (m,) the rise of the loss without each point. `tile` and
    `gain` (WIDTH, m) are work arrays.
    """
    m = len(cell_of)
    for t in range(len(tiles)):
        width = min(WIDTH, len(cells) - t * WIDTH)
        for w in range(width):
            changes[t * WIDTH + w] = 0.0
            for s in range(m):
                gain[w, s] = removal[s]
        for b in range(len(blocks)):
            tile_costs(blocks[b], tiles, t, cost, tile)
            first = np.uint64(b * ROWS)
            for w in range(width):
                g = cells[t * WIDTH + w]
                price = prices[g]
                for lane in range(ROWS):
                    d = tile[w, lane] + move[g, cell[first + np.uint64(lane)]]
                    tile[w, lane] = (np.sqrt(d) if root else d) - price
                for c in range(_IN_BLOCK):
                    low = np.uint64(c * _CHUNK)
                    added, change = _gains(
                        tile, w, d_first, d_second, mass, low, first + low
                    )
                    changes[t * WIDTH + w] += added
                    gain[w, slot[b * _IN_BLOCK + c]] += change
        for w in range(width):
            best = 0
            least = np.inf
            for s in range(m):
                if cell_of[s] == cells[t * WIDTH + w] and gain[w, s] < least:
                    best = s
                    least = gain[w, s]
            slots[t * WIDTH + w] = best
            changes[t * WIDTH + w] += least


@kernel
def two_nearest(  # type: ignore[no-untyped-def]
    values,
    cell,
    rows,
    tiles,
    slots,
    cell_of,
    cost,
    root,
    move,
    prices,
    block,
    tile,
    nearest,
    second,
    d_nearest,
    d_second,
):
    """Update the two nearest points of the `rows`, and the costs there, in the last four arrays
    (n,).

    `slots` (q,) index the points in the `tiles`, and `cell_of` (q,) are their cells. `block` (p,
    ROWS) and `tile` are work arrays.
    """
    m = len(cell_of)
    for start in range(0, len(rows), ROWS):
        count = min(ROWS, len(rows) - start)
        for lane in range(ROWS):
            i = rows[start + min(lane, count - 1)]
            for k in range(values.shape[1]):
                block[k, lane] = values[i, k]
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
                        second[i] = nearest[i]
                        d_second[i] = d_nearest[i]
                        nearest[i] = j
                        d_nearest[i] = d
                    elif d < d_second[i]:
                        second[i] = j
                        d_second[i] = d
