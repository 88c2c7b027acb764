"""Swaps at fixed prices: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n · m.

Costs are computed when they are needed, a candidate's n at a time, and never kept. Candidates are tried in
batches, shared by threads; the best of a batch is swapped in at once if it lowers the loss. Batches grow
while nothing is found.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.exchange.kernels import (
    L1,
    L2,
    SQUARED,
    best_exchanges,
    two_nearest,
    update_nearest,
)
from fwc_llm.coreset.threads import Threads

KINDS = {"l1": L1, "l2": L2, "sqeuclidean": SQUARED}
_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512
_MOST_TIMES = 4  # a code may be written, to cost as much
_WORTH_SHARING = 2_000_000  # comparisons of two cells: about a millisecond


@dataclass(frozen=True)
class Space:
    """n rows and what it costs to stand for them: F less the price of a cell, or F² less it.

    `numbers` (k, n) float32 and `codes` (c, n) of a small type, a mismatch of which costs `unit`; `cell` (n,)
    each row's cell, `move` (G, G) what cells are apart, and `price` (G,). `cost` is "l1", "l2" or
    "sqeuclidean".
    """

    numbers: np.ndarray
    codes: np.ndarray
    unit: np.float32
    cell: np.ndarray
    move: np.ndarray
    price: np.ndarray
    cost: str


@dataclass(frozen=True)
class Exchanged:
    """`rows` (m,) the row that now stands at each place, −1 where the first point still does; `labels` (n,)
    which place is nearest; `losses`: the sum of the costs at the start and after every swap; `converged`: no
    swap with any candidate lowers it.
    """

    rows: np.ndarray
    labels: np.ndarray
    losses: list[float]
    converged: bool


@dataclass(frozen=True)
class Points:
    """m points: `numbers` (k, m), `codes` (c, m), `cells` (m,), and `keys` (m,), −1 for what is no row."""

    numbers: np.ndarray
    codes: np.ndarray
    cells: np.ndarray
    keys: np.ndarray


def as_columns(
    numbers: np.ndarray, codes: np.ndarray, squared: bool
) -> tuple[np.ndarray, np.ndarray, np.float32]:
    """A table (n, k), (n, c) by columns: numbers (k', n) float32, codes (c', n), and what a mismatch costs.

    A column of two numbers is a code too, and codes in a small type are compared several times as fast. So
    one-hot columns become codes. Where a mismatch of these costs 1 / t, every other code is repeated t times,
    so that its mismatch still costs 1.
    """
    columns = np.ascontiguousarray(numbers.T, dtype=np.float32)
    low, high = columns.min(axis=1, keepdims=True), columns.max(axis=1, keepdims=True)
    costs = (high - low)[:, 0].astype(np.float64) ** (2 if squared else 1)
    two = ((columns == low) | (columns == high)).all(axis=1) & (costs > 0)
    unit = min(costs[two], default=1.0)
    times = round(1 / unit)
    if 1 <= times <= _MOST_TIMES and np.isclose(times * unit, 1.0, rtol=1e-6):
        two &= np.isclose(costs, unit, rtol=1e-6)
    else:
        two[:], times = False, 1
    kinds = np.concatenate([columns[two] == high[two], *[codes.T] * times])
    # The type must hold the codes, and their number.
    small = np.uint8 if kinds.max(initial=0) < 256 and len(kinds) < 256 else np.int32
    return columns[~two], np.ascontiguousarray(kinds, small), np.float32(1 / times)


def exchange(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    keys: np.ndarray,
    threads: Threads,
    max_passes: int,
    least: float = 1e-9,
) -> Exchanged:
    """Swaps candidates in for points of their cell until none lowers the loss by the share `least` of it.

    `candidates` (q,) rows in the order to try, `cells` (q,) what they stand for, `keys` (q,): one whose key
    stands already is passed over. `max_passes` bounds the rounds over all candidates.
    """
    state = _State(space, points)
    rows, standing = np.full(len(points.cells), -1), points.keys.copy()
    losses = [state.loss()]
    since_swap, seen, size = 0, 0, _SMALLEST_BATCH
    while since_swap < len(candidates) and seen < max_passes * len(candidates):
        batch = np.arange(seen, seen + min(size, len(candidates) - since_swap)) % len(candidates)
        seen, since_swap = seen + len(batch), since_swap + len(batch)
        batch = batch[~np.isin(keys[batch], standing)]
        if len(batch) == 0:
            continue
        best, slot, change = state.best_swap(candidates[batch], cells[batch], threads)
        if change >= -least * abs(losses[-1]):
            size = min(2 * size, _LARGEST_BATCH)
            continue
        rows[slot], standing[slot] = candidates[batch[best]], keys[batch[best]]
        state.swap(slot, rows[slot])
        losses.append(state.loss())
        since_swap, size = 0, max(size // 2, _SMALLEST_BATCH)
    return Exchanged(rows, state.nearest, losses, since_swap >= len(candidates))


class _State:
    """The points that stand now, and the two nearest of every row."""

    def __init__(self, space: Space, points: Points) -> None:
        self.kind = KINDS[space.cost]
        self.unit, self.price = space.unit, space.price.astype(np.float32)
        self.table = (space.numbers, space.codes, space.move[:, space.cell].astype(np.float32))
        self.points = (points.numbers.copy(order="C"), points.codes.copy(order="C"), points.cells)
        self.apart = space.move[:, points.cells].astype(np.float32)
        self.nearest, self.second, self.d_nearest, self.d_second = two_nearest(
            self.table, self.points, self.price, self.kind, self.unit
        )
        self._sort()

    def loss(self) -> float:
        """The sum of the rows' costs."""
        return float(self.d_nearest.sum(dtype=np.float64))

    def best_swap(
        self, candidates: np.ndarray, cells: np.ndarray, threads: Threads
    ) -> tuple[int, int, float]:
        """The best exchange of a point for a candidate: (place of the candidate, slot, change of loss)."""
        numbers, codes, _ = self.table
        work = len(candidates) * codes.shape[1] * (len(numbers) + len(codes))
        count = 1 if work < _WORTH_SHARING else min(threads.count, len(candidates))

        def exchanges(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = candidates[part]
            found: tuple[np.ndarray, np.ndarray] = best_exchanges(
                *(self.sorted_table, self.sorted_rows, self.points, numbers[:, rows], codes[:, rows]),
                *(cells[part], self.price, self.kind, self.apart, self.unit),
            )
            return found

        parts = np.array_split(np.arange(len(candidates)), count)
        found = [exchanges(parts[0])] if count == 1 else threads.over(exchanges, parts)
        slots, changes = (np.concatenate([part[side] for part in found]) for side in (0, 1))
        best = int(np.argmin(changes))
        return best, int(slots[best]), float(changes[best])

    def swap(self, slot: int, row: int) -> None:
        """Puts the row in the place of point `slot`."""
        self.points[0][:, slot], self.points[1][:, slot] = self.table[0][:, row], self.table[1][:, row]
        update_nearest(
            *(self.table, self.points, self.price, self.kind, self.unit, slot),
            *(self.nearest, self.second, self.d_nearest, self.d_second),
        )
        self._sort()

    def _sort(self) -> None:
        """The table sorted by nearest point and falling reach, as `best_exchanges` takes it.

        A candidate x of cell g matters to row i of point s if F(i, x) < F₂, what the second costs without its
        price, and F(i, x) ≥ F(x, s) − F(i, s): if F(x, s) < F(i, s) + F₂.
        """
        m = len(self.points[2])
        if m == 1:  # a single point has no second: a finite cost that no row can exceed
            self.d_second[:] = 2.0 * self.d_nearest.max() + 1.0
        first = self.d_nearest + self.price[self.points[2][self.nearest]]
        second = self.d_second + self.price[self.points[2]].max()
        if self.kind == SQUARED:
            first, second = np.sqrt(np.maximum(first, 0)), np.sqrt(np.maximum(second, 0))
        reach = first + second
        order = np.argsort(self.nearest * (2.0 * float(reach.max()) + 1.0) - reach)
        starts = np.zeros(m + 1, np.int64)
        np.cumsum(np.bincount(self.nearest, minlength=m), out=starts[1:])
        self.sorted_table = tuple(np.take(part, order, axis=1) for part in self.table)
        self.sorted_rows = (starts, reach[order], self.d_nearest[order], self.d_second[order])
