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

from fwc_llm.coreset.exchange.space import Points, Space
from fwc_llm.coreset.exchange.standing import Standing
from fwc_llm.coreset.threads import Threads

_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512


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
    """What stands in the end.

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
    threads: Threads | None,
    judge: Judge | None = None,
) -> Exchanged:
    """Swaps candidates in for points of their cell until none lowers the loss.

    `candidates` (q,) are rows in the order to try, to stand for `cells` (q,). One whose key in `keys` (q,)
    stands already is passed over. `threads` share the compiled work; None means numpy alone.
    """
    swapping = _Swapping(space, points, candidates, cells, keys, patience, threads, judge)
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
    labels = swapping.standing.labels
    return Exchanged(swapping.rows, labels, swapping.losses, since_swap >= len(candidates))


@np.errstate(over="ignore", invalid="ignore")  # what float32 cannot hold gains nothing
def estimate(
    space: Space,
    points: Points,
    candidates: np.ndarray,
    cells: np.ndarray,
    rows: np.ndarray,
    threads: Threads | None,
) -> np.ndarray:
    """(q,) by how much the best swap with each candidate changes the loss of some `rows`."""
    part = replace(space, values=space.values[rows], cell=space.cell[rows])
    return Standing(part, points, threads).compare(space.values[candidates], cells)[1]


class _Swapping:
    """What stands, and how the best of a batch is swapped in."""

    def __init__(
        self,
        space: Space,
        points: Points,
        candidates: np.ndarray,
        cells: np.ndarray,
        keys: np.ndarray,
        patience: Patience,
        threads: Threads | None,
        judge: Judge | None,
    ) -> None:
        self.standing = Standing(space, points, threads)
        self.rows = np.full(len(points.keys), -1)
        self.losses = [self.standing.loss()]
        self._values, self._candidates, self._cells = space.values, candidates, cells
        self._patience, self._judge = patience, judge
        _, key = np.unique(np.concatenate([points.keys, keys]), return_inverse=True)
        self._key_of, self._key = key[: len(points.keys)].copy(), key[len(points.keys) :]
        self._taken = np.bincount(self._key_of, minlength=len(key))
        self._lowest = judge.objective if judge else 0.0
        self._kept = self.standing.prices  # those that belong to what stands
        self._slack = 0.0  # of the bound at the present prices: what it is below the objective

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
            slots, changes = self._compare(batch)
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
            self.standing.set_prices(self._kept)
            self._slack = 0.0
        return found

    def _compare(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best point to exchange for each candidate, and the change."""
        order = np.argsort(
            self.standing.labels[self._candidates[batch]], kind="stable"
        )  # neighbours together
        rows, slots, changes = batch[order], np.empty(len(batch), np.int64), np.empty(len(batch))
        slots[order], changes[order] = self.standing.compare(
            self._values[self._candidates[rows]], self._cells[rows]
        )
        return slots, changes

    def _swap(self, slot: int, place: int) -> bool:
        """Puts a candidate in the place of a point, if the judge agrees."""
        standing, judge = self.standing, self._judge
        row, values = self.rows[slot], standing.values(slot)
        self.rows[slot] = self._candidates[place]
        objective, prices = judge.ask(self.rows) if judge else (0.0, None)
        standing.swap(slot, self._values[self.rows[slot]], prices)
        if judge:
            if objective >= self._lowest * (1 - self._patience.least):
                fair = objective - standing.loss()  # n · min ⟨u, w⟩ over fair w
                standing.swap(slot, values)
                self.rows[slot] = row
                self._slack = self._lowest - standing.loss() - fair
                return False
            self._lowest, self._slack, self._kept = objective, 0.0, standing.prices
        self._taken[self._key_of[slot]] -= 1
        self._key_of[slot] = self._key[place]
        self._taken[self._key_of[slot]] += 1
        self.losses.append(standing.loss())
        return True
