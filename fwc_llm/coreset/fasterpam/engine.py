"""Swaps: FasterPAM (Schubert, Rousseeuw 2021) in memory that grows with n, not with n · m.

Costs are computed when they are needed, and never kept. Candidates are tried in batches, which threads share
and which grow while nothing is found. The loss is that of fixed prices, Σ_i min_j (c_ij − u_g(j)): D(u) of
docs/method.md, "The inner problem", but for a constant, so that only swaps that lower it can gain.
"""

from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.coreset.fasterpam.medoids import Medoids, Points, Space
from fwc_llm.coreset.threads import Threads

_SMALLEST_BATCH, _LARGEST_BATCH = 16, 512
_ESTIMATED = 8192  # candidates at once, whose values are copied twice
_ENOUGH = 0.5  # of what swaps should gain, each alone, that they have to gain together


@dataclass(frozen=True)
class Patience:
    """At most `passes` over all candidates; a swap must lower the loss by the share `least` of it.

    After a swap the `again` next best of a batch are compared again. `batch` is the size of the smallest.
    """

    passes: int
    least: float = 1e-7
    again: int = 0
    batch: int = _SMALLEST_BATCH


@dataclass(frozen=True)
class Exchanged:
    """The points after all swaps.

    `rows` (m,) replaced the points, −1 where one still stands; `labels` (n,) say which is nearest; `losses`
    are those at the start and after every swap. `converged`: no swap lowers the loss.
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
) -> Exchanged:
    """Swaps candidates in for points of their cell until none lowers the loss.

    `candidates` (q,) are rows in the order to try, for `cells` (q,). One whose key in `keys` (q,) stands is
    passed over.
    """
    standing = Medoids(space, points, threads)
    key = np.unique(np.concatenate([points.keys, keys]), return_inverse=True)[1]
    own, key = np.split(key, [len(points.keys)])
    swapping = _Swapping(standing, space.values, candidates, cells, own, key, patience)
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
    standing = Medoids(part, points, threads)
    changes = np.empty(len(candidates))
    for low in range(0, len(candidates), _ESTIMATED):
        some = slice(low, low + _ESTIMATED)
        changes[some] = standing.compare(space.values[candidates[some]], cells[some])[1]
    return changes


@dataclass
class _Swapping:
    """Swaps the best of a batch into what stands; `own` (m,) and `key` (q,) number the keys."""

    standing: Medoids
    values: np.ndarray
    candidates: np.ndarray
    cells: np.ndarray
    own: np.ndarray
    key: np.ndarray
    patience: Patience

    def __post_init__(self) -> None:
        self.rows = np.full(len(self.own), -1)
        self.losses = [self.standing.loss()]
        self.taken = np.bincount(self.own, minlength=len(self.own) + len(self.key))
        self._most = 1 + self.patience.again  # swaps at once

    def take_best(self, batch: np.ndarray) -> bool:
        """Swaps in the best candidates, by their places, while some of them gain; whether some did."""
        improved = False
        while len(batch):
            slot, change = self._compare(batch)
            ranking = np.argsort(change, kind="stable")[: 1 + self.patience.again]
            ranking = ranking[change[ranking] < -self.patience.least * abs(self.losses[-1])]
            if len(ranking) == 0:
                break
            batch, slot, change = batch[ranking], slot[ranking], change[ranking]
            many = self._apart(batch, slot)
            if self._swap(slot[many], batch[many], float(change[many].sum())):
                improved = True
                self._most = min(2 * len(many), 2 * self._most)
            else:
                self._most = len(many) // 4 or 1
            left = self.taken[self.key[batch]] == 0
            left[0] &= len(many) > 1
            batch = batch[left]
        return improved

    def _apart(self, batch: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """The first candidates, at most `_most`, whose swaps touch different points and keys, by position."""
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
        """Puts candidates in the places of points, if the loss falls about as `expected`."""
        standing, state = self.standing, self.standing.state()
        standing.swap(slots, self.values[self.candidates[places]])
        loss = standing.loss()
        if len(slots) > 1 and loss - self.losses[-1] > _ENOUGH * expected:
            standing.restore(state)
            return False
        self.rows[slots] = self.candidates[places]
        np.subtract.at(self.taken, self.own[slots], 1)
        self.own[slots] = self.key[places]
        np.add.at(self.taken, self.own[slots], 1)
        self.losses.append(loss)
        return True
