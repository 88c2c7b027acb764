"""Swaps: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n · m.

Costs are computed when they are needed, and never kept. Candidates are tried in batches, which threads
share. The best of a batch is swapped in at once if it lowers the loss. Batches grow while nothing is found.

The loss is that of fixed prices, Σ_i min_j (c_ij − u_g(j)). At the prices u of the inner problem, the
objective after a swap is at least

    D(u) = (1/n) Σ_i min_j (c_ij − u_g(j)) + min_{w fair} ⟨u, w⟩    (docs/method.md, "The inner problem")

and before the swap, D(u) is the objective. So only swaps that lower the loss can gain. A judge solves the
inner problem after every swap: it says whether the swap gained, and sets the prices. Without a judge the
prices stay.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.coreset.swaps.state import Points, Space, Standing
from fwc_llm.coreset.threads import Threads

_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512
_ESTIMATED = 8192  # candidates at once, whose values are copied twice
_ENOUGH = 0.5  # of what swaps should gain, each alone, that they have to gain together


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
    """How long swaps are sought.

    At most `passes` over all candidates. A swap must lower the loss by the share `least` of it. After a swap
    the `again` next best of a batch are compared again. `batch` is the size of the smallest batch. So many
    `refusals` by a judge, one after the other, end a batch.
    """

    passes: int
    least: float = 1e-7
    again: int = 0
    batch: int = _SMALLEST_BATCH
    refusals: int = 6


@dataclass(frozen=True)
class Exchanged:
    """The points after all swaps.

    `rows` (m,) are the rows that replaced the points, −1 where a point still stands. `labels` (n,) say which
    of them is nearest. `losses` are the sums of the costs at the start and after every swap. `converged`: no
    swap with any candidate lowers the loss.
    """

    rows: np.ndarray
    labels: np.ndarray
    losses: list[float]
    converged: bool


@np.errstate(over="ignore", invalid="ignore")  # what float32 cannot hold gains nothing
def exchange(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    keys: np.ndarray,
    patience: Patience,
    threads: Threads,
    judge: Judge | None = None,
) -> Exchanged:
    """Swaps candidates in for points of their cell until none lowers the loss.

    `candidates` (q,) are rows in the order to try, to stand for `cells` (q,). One whose key in `keys` (q,)
    stands already is passed over. `threads` share the work.
    """
    standing = Standing(space, points, threads)
    key = np.unique(np.concatenate([points.keys, keys]), return_inverse=True)[1]
    own, key = np.split(key, [len(points.keys)])
    swapping = _Swapping(standing, space.values, candidates, cells, own, key, patience, judge)
    since_swap, seen, size = 0, 0, patience.batch
    while since_swap < len(candidates) and seen < patience.passes * len(candidates):
        batch = np.arange(seen, seen + min(size, len(candidates) - since_swap)) % len(candidates)
        seen, since_swap = seen + len(batch), since_swap + len(batch)
        batch = batch[swapping.taken[key[batch]] == 0]
        if len(batch) == 0:
            continue
        if swapping.take_best(batch):
            since_swap, size = 0, max(size // 2, patience.batch)
        else:
            size = min(2 * size, _LARGEST_BATCH)
    return Exchanged(swapping.rows, standing.labels, swapping.losses, since_swap >= len(candidates))


@np.errstate(over="ignore", invalid="ignore")  # what float32 cannot hold gains nothing
def estimate(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    rows: np.ndarray,
    threads: Threads,
) -> np.ndarray:
    """(q,) by how much the best swap with each candidate changes the loss of some `rows`."""
    mass = None if space.mass is None else space.mass[rows]
    part = replace(space, values=space.values[rows], cell=space.cell[rows], mass=mass)
    standing = Standing(part, points, threads)
    changes = np.empty(len(candidates))
    for low in range(0, len(candidates), _ESTIMATED):
        some = slice(low, low + _ESTIMATED)
        changes[some] = standing.compare(space.values[candidates[some]], cells[some])[1]
    return changes


@dataclass
class _Swapping:
    """What stands, and how the best of a batch is swapped in.

    `own` (m,) and `key` (q,) number the keys of points and candidates.
    """

    standing: Standing
    values: np.ndarray
    candidates: np.ndarray
    cells: np.ndarray
    own: np.ndarray
    key: np.ndarray
    patience: Patience
    judge: Judge | None

    def __post_init__(self) -> None:
        self.rows = np.full(len(self.own), -1)
        self.losses = [self.standing.loss()]
        self.taken = np.bincount(self.own, minlength=len(self.own) + len(self.key))
        self._lowest = self.judge.objective if self.judge else 0.0
        self._prices = self.standing.prices  # those that belong to what stands
        self._slack = 0.0  # of the bound at the present prices: what it is below the objective
        self._most = 1 + self.patience.again  # swaps at once

    def take_best(self, batch: np.ndarray) -> bool:
        """Swaps in the best candidates, by their places, while some of them gain; whether some did.

        Candidates that fail say at which prices they do. These bound all others too, so that the next one
        tried is the best by all bounds.
        """
        improved, refused = False, 0
        bound, slot = np.full(len(batch), -np.inf), np.zeros(len(batch), np.int64)
        while len(batch) and refused < self.patience.refusals:
            slots, changes = self._compare(batch)
            slot = np.where(changes - self._slack > bound, slots, slot)
            bound = np.maximum(changes - self._slack, bound)
            ranking = np.argsort(bound, kind="stable")[: 1 + self.patience.again]
            scale = self._lowest if self.judge else abs(self.losses[-1])
            ranking = ranking[bound[ranking] < -self.patience.least * scale]
            if len(ranking) == 0:
                break
            batch, bound, slot = batch[ranking], bound[ranking], slot[ranking]
            many = self._apart(batch, slot)
            gained = self._swap(slot[many], batch[many], float(bound[many].sum()))
            if gained:
                improved, refused, bound = True, 0, np.full(len(batch), -np.inf)
                self._most = min(2 * len(many), 2 * self._most)
            elif len(many) > 1:
                self._most = len(many) // 4 or 1
            else:
                refused += 1
            left = self.taken[self.key[batch]] == 0
            left[0] &= len(many) > 1
            batch, bound, slot = batch[left], bound[left], slot[left]
        if refused:
            self.standing.set_prices(self._prices)
            self._slack = 0.0
        return improved

    def _apart(self, batch: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """The first candidates whose swaps should not be in each other's way, at most `_most`, by position.

        Each takes another point away, comes closer to the rows of another, and has another key.
        """
        chosen: list[int] = []
        touched: set[int] = set()
        keys: set[int] = set()
        near = self.standing.labels[self.candidates[batch]].tolist()
        for q, (own, key) in enumerate(zip(slot.tolist(), self.key[batch].tolist(), strict=True)):
            if own not in touched and near[q] not in touched and key not in keys:
                chosen.append(q)
                touched |= {own, near[q]}
                keys.add(key)
            if len(chosen) == self._most:
                break
        return np.array(chosen)

    def _compare(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best point to exchange for each candidate, and the change."""
        near = self.standing.labels[self.candidates[batch]]
        order = np.argsort(near, kind="stable")  # neighbours together
        rows, slots, changes = batch[order], np.empty(len(batch), np.int64), np.empty(len(batch))
        compared = self.standing.compare(self.values[self.candidates[rows]], self.cells[rows])
        slots[order], changes[order] = compared
        return slots, changes

    def _swap(self, slots: np.ndarray, places: np.ndarray, expected: float) -> bool:
        """Puts candidates in the places of points, if the judge agrees or the loss falls as `expected`."""
        standing, judge, alone = self.standing, self.judge, len(slots) == 1
        rows, state = self.rows.copy(), standing.state()
        self.rows[slots] = self.candidates[places]
        objective, prices = judge.ask(self.rows) if judge else (0.0, None)
        refused = judge is not None and objective >= self._lowest * (1 - self.patience.least)
        if alone or not refused:
            standing.swap(slots, self.values[self.rows[slots]], prices)
        if judge is None and not alone:
            refused = standing.loss() - self.losses[-1] > _ENOUGH * expected
        if refused:
            fair = objective - standing.loss()  # n · min ⟨u, w⟩ over fair w, if the judge refused one alone
            standing.restore(state)
            if prices is not None and alone:
                standing.set_prices(prices)
                self._slack = self._lowest - standing.loss() - fair
            self.rows = rows
            return False
        if judge:
            self._lowest, self._slack, self._prices = objective, 0.0, standing.prices
        np.subtract.at(self.taken, self.own[slots], 1)
        self.own[slots] = self.key[places]
        np.add.at(self.taken, self.own[slots], 1)
        self.losses.append(standing.loss())
        return True
