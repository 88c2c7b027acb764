"""Swaps: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n · m.

Costs are computed when they are needed, a candidate's n at a time, and never kept. Candidates are tried in
batches, shared by threads; the best of a batch is swapped in at once if it lowers the loss. Batches grow
while nothing is found.

The loss is that of fixed prices, Σ_i min_j (c_ij − u_g(j)). At the prices u of the inner problem, Lagrange's
bound says that the objective after a swap is at least

    D(u) = (1/n) Σ_i min_j (c_ij − u_g(j)) + min_{w fair} ⟨u, w⟩,

and before it, that is the objective. So only swaps that lower the loss can gain. Whether they do, and what
the prices are then, a judge may say after every swap; without one the prices stay.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.exchange import plain
from fwc_llm.coreset.exchange.space import KINDS, ROOM, SQUARED, Points, Space
from fwc_llm.coreset.threads import Threads

_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512
_WORTH_SHARING = 2_000_000  # comparisons of two cells: about a millisecond


@dataclass(frozen=True)
class Judge:
    """The inner problem, solved after every swap.

    `objective`, n times the mean, belongs to the points and prices given. `ask` takes the rows (m,) that
    stand after a swap, −1 for points that are none, and returns their objective and prices.
    """

    objective: float
    ask: Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Patience:
    """How long swaps are sought: `passes` over all candidates, at most; a swap must lower the loss by the
    share `least` of it; `again`: so many of a batch's next best are compared again after a swap; `batch`: the
    smallest; `refusals` by a judge, in a row, that end a batch.
    """

    passes: int
    least: float = 1e-9
    again: int = 0
    batch: int = _SMALLEST_BATCH
    refusals: int = 6


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


def exchange(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    keys: np.ndarray,
    patience: Patience,
    threads: Threads | None,
    judge: Judge | None = None,
) -> Exchanged:
    """Swaps candidates in for points of their cell until none lowers the loss.

    `candidates` (q,) rows in the order to try, `cells` (q,) what they stand for, `keys` (q,): one whose key
    stands already is passed over. `threads` share the compiled work; None: with numpy alone.
    """
    swapping = _Swapping(
        _State(space, points, threads), points.keys, candidates, cells, keys, patience, judge
    )
    since_swap, seen, size = 0, 0, patience.batch
    while since_swap < len(candidates) and seen < patience.passes * len(candidates):
        batch = np.arange(seen, seen + min(size, len(candidates) - since_swap)) % len(candidates)
        seen, since_swap = seen + len(batch), since_swap + len(batch)
        batch = swapping.without_standing(batch)
        if len(batch) == 0:
            continue
        if swapping.take_best(batch):
            since_swap, size = 0, max(size // 2, patience.batch)
        else:
            size = min(2 * size, _LARGEST_BATCH)
    state = swapping.state
    return Exchanged(swapping.rows, state.nearest, swapping.losses, since_swap >= len(candidates))


def estimate(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    rows: np.ndarray,
    threads: Threads | None,
) -> np.ndarray:
    """(q,) what the best swap with each candidate changes, by the loss of some `rows` only."""
    numbers, codes = (np.take(part, rows, axis=1) for part in (space.numbers, space.codes))
    part = replace(space, numbers=numbers, codes=codes, cell=space.cell[rows])
    return _State(part, points, threads).compare(candidates, cells, (space.numbers, space.codes))[1]


class _Swapping:
    """What stands, and how the best of a batch is swapped in."""

    def __init__(
        self,
        state: "_State",
        standing: np.ndarray,
        candidates: np.ndarray,
        cells: np.ndarray,
        keys: np.ndarray,
        patience: Patience,
        judge: Judge | None,
    ) -> None:
        self.state = state
        self.rows = np.full(len(standing), -1)
        self.losses = [state.loss()]
        self._candidates, self._cells = candidates, cells
        self._patience, self._judge = patience, judge
        _, key = np.unique(np.concatenate([standing, keys]), return_inverse=True)
        self._standing, self._key = key[: len(standing)].copy(), key[len(standing) :]
        self._taken = np.bincount(self._standing, minlength=len(key))
        self._lowest = judge.objective if judge else 0.0
        self._kept = state.price  # those that belong to what stands
        self._slack = 0.0  # of the bound at the state's prices: what it is below the objective

    def without_standing(self, batch: np.ndarray) -> np.ndarray:
        """Those of the candidates, by their places, whose key stands nowhere."""
        return np.asarray(batch[self._taken[self._key[batch]] == 0])

    def take_best(self, batch: np.ndarray) -> bool:
        """Swaps in the best candidates, by their places, while one of them gains; whether one did.

        A candidate that fails says at which prices it does. These bound all others too, so that the next one
        tried is the best by all bounds.
        """
        found, refused = False, 0
        bound, slot = np.full(len(batch), -np.inf), np.zeros(len(batch), np.int64)
        while len(batch) and refused < self._patience.refusals:
            slots, changes = self.state.compare(self._candidates[batch], self._cells[batch])
            slot = np.where(changes - self._slack > bound, slots, slot)
            bound = np.maximum(changes - self._slack, bound)
            ranking = np.argsort(bound, kind="stable")[: 1 + self._patience.again]
            scale = self._lowest if self._judge else abs(self.losses[-1])
            ranking = ranking[bound[ranking] < -self._patience.least * scale]
            if len(ranking) == 0:
                break
            batch, bound, slot = batch[ranking], bound[ranking], slot[ranking]
            if self._swap(int(slot[0]), int(batch[0])):
                found, refused, bound = True, 0, np.full(len(batch), -np.inf)
            else:
                refused += 1
            left = self._taken[self._key[batch]] == 0
            left[0] = False
            batch, bound, slot = batch[left], bound[left], slot[left]
        if refused:
            self.state.set_price(self._kept)
            self._slack = 0.0
        return found

    def _swap(self, slot: int, place: int) -> bool:
        """Puts a candidate in the place of a point, if the judge agrees."""
        state, judge = self.state, self._judge
        row, columns = self.rows[slot], state.columns(state.n + slot)
        self.rows[slot] = self._candidates[place]
        objective, prices = judge.ask(self.rows) if judge else (0.0, None)
        state.swap(slot, state.columns(self.rows[slot]), prices)
        if judge:
            if objective >= self._lowest * (1 - self._patience.least):
                fair = objective - state.loss()  # n · min ⟨u, w⟩ over fair w
                state.swap(slot, columns)
                self.rows[slot] = row
                self._slack = self._lowest - state.loss() - fair
                return False
            self._lowest, self._slack, self._kept = objective, 0.0, state.price
        self._taken[self._standing[slot]] -= 1
        self._standing[slot] = self._key[place]
        self._taken[self._standing[slot]] += 1
        self.losses.append(state.loss())
        return True


class _State:
    """The points that stand now, and the two nearest of every row."""

    def __init__(self, space: Space, points: Points, threads: Threads | None) -> None:
        self._kernels: Any = plain
        self._threads = threads
        if threads:
            from fwc_llm.coreset.exchange import kernels

            self._kernels = kernels
        self._kind, self._unit = KINDS[space.cost], space.unit
        self.price = space.price.astype(np.float32)
        self._cell, self._cell_of = space.cell, points.cells
        self.n = n = len(space.cell)
        room = np.zeros(ROOM, np.int64)
        cells = np.concatenate([space.cell, points.cells, room])
        # Contiguous, as compiled loops run along rows.
        self._table = (
            np.ascontiguousarray(np.concatenate([space.numbers, points.numbers, space.numbers[:, room]], 1)),
            np.ascontiguousarray(np.concatenate([space.codes, points.codes, space.codes[:, room]], 1)),
            np.ascontiguousarray(space.move[:, cells], np.float32),
        )
        self.nearest, self._second = np.empty(n, np.int64), np.empty(n, np.int64)
        self._d_nearest, self._d_second = np.empty(n, np.float32), np.empty(n, np.float32)
        self._find_nearest(np.arange(n))
        self._sort()

    def loss(self) -> float:
        """The sum of the rows' costs."""
        return float(self._d_nearest.sum(dtype=np.float64))

    def compare(
        self,
        candidates: np.ndarray,
        cells: np.ndarray,
        source: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate, a column of `source` (or a row), the best point to exchange, and the change."""
        numbers, codes = source or self._table[:2]

        def exchanges(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found: tuple[np.ndarray, np.ndarray] = self._kernels.best_exchanges(
                *(self._sorted_table, self._unit, self._kind, self.price, self._cell_of),
                *(self._sorted_rows, self._starts, numbers, codes, candidates[part], cells[part]),
            )
            return found

        work = len(candidates) * self.n * sum(map(len, self._table[:2]))
        everything = np.arange(len(candidates))
        if self._threads is None or self._threads.count == 1 or work < _WORTH_SHARING:
            return exchanges(everything)
        found = self._threads.over(exchanges, np.array_split(everything, self._threads.count))
        return np.concatenate([slots for slots, _ in found]), np.concatenate(
            [changes for _, changes in found]
        )

    def columns(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers and codes of a row, or of point `place` − n."""
        return self._table[0][:, place].copy(), self._table[1][:, place].copy()

    def swap(
        self, slot: int, columns: tuple[np.ndarray, np.ndarray], prices: np.ndarray | None = None
    ) -> None:
        """Puts other numbers and codes in the place of point `slot`, and sets new prices, if given."""
        for part, column in zip(self._table, columns, strict=False):
            part[:, self.n + slot] = column
        if prices is not None:
            self.set_price(prices.astype(np.float32))
            return
        stale = (self.nearest == slot) | (self._second == slot)
        self._come_closer(slot, ~stale)
        self._find_nearest(np.flatnonzero(stale))
        self._sort()

    def set_price(self, price: np.ndarray) -> None:
        """Sets other prices, (G,) float32."""
        self.price = price
        self._find_nearest(np.arange(self.n))
        self._sort()

    def _come_closer(self, slot: int, rows: np.ndarray) -> None:
        """Point `slot` is new: puts it where it is nearer than the two nearest of the `rows` (n,) bool."""
        cell = self._cell_of[slot]
        costs = self._kernels.costs_to(self._table, self._unit, self._kind, self.n, self.n + slot, cell)
        costs -= self.price[cell]
        first = rows & (costs < self._d_nearest)
        second = rows & ~first & (costs < self._d_second)
        self._second[first], self._d_second[first] = self.nearest[first], self._d_nearest[first]
        self.nearest[first], self._d_nearest[first] = slot, costs[first]
        self._second[second], self._d_second[second] = slot, costs[second]

    def _find_nearest(self, rows: np.ndarray) -> None:
        """Finds the two nearest points of the rows."""
        self._kernels.two_nearest(
            *(self._table, self._unit, self._kind, self.price, self._cell, self._cell_of, rows),
            *(self.nearest, self._second, self._d_nearest, self._d_second),
        )

    def _sort(self) -> None:
        """The table sorted by nearest point and falling reach, as `best_exchanges` takes it.

        A candidate x of cell g matters to row i of point s if F(i, x) < F₂, what the second costs without its
        price, and F(i, x) ≥ F(x, s) − F(i, s): if F(x, s) < F(i, s) + F₂.
        """
        m = len(self._cell_of)
        if m == 1:  # a single point has no second: a finite cost that no row can exceed
            self._d_second[:] = 2.0 * self._d_nearest.max() + 1.0
        first = self._d_nearest + self.price[self._cell_of[self.nearest]]
        second = self._d_second + self.price[self._cell_of].max()
        if self._kind == SQUARED:
            first, second = np.sqrt(np.maximum(first, 0)), np.sqrt(np.maximum(second, 0))
        reach = first + second
        order = np.argsort(self.nearest * (2.0 * float(reach.max()) + 1.0) - reach)
        self._starts = np.zeros(m + 1, np.int64)
        np.cumsum(np.bincount(self.nearest, minlength=m), out=self._starts[1:])
        with_points = np.concatenate([order, np.arange(self.n, self._table[0].shape[1])])
        self._sorted_table = tuple(np.take(part, with_points, axis=1) for part in self._table)
        self._sorted_rows = np.stack([reach, self._d_nearest, self._d_second])[:, order]
