"""A random sample of a table in blocks: without replacement, and enough rows of every group.

Every row has a random key, by the seed and its place in the table; the rows with the smallest keys are taken.
So the sample depends neither on the order or the length of the blocks nor on the number of threads. Where
rows have weights, keys are those of priority sampling (Duffield, Lund and Thorup 2007).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.entry import pick
from fwc_llm.coreset.streaming.blocks import Block
from fwc_llm.coreset.streaming.columns.groups import BlockGroups, Key


@dataclass(frozen=True)
class Piece:
    """Rows of one block in the sample: their `places` (k,) ascending, keys, groups and, if any, weights."""

    index: int
    places: np.ndarray
    keys: np.ndarray
    group: np.ndarray
    rows: Any
    weights: np.ndarray | None

    def take(self, kept: np.ndarray) -> "Piece":
        """Some of these rows (k,) bool."""
        chosen = np.flatnonzero(kept)
        weights = None if self.weights is None else self.weights[chosen]
        return Piece(
            self.index, self.places[chosen], self.keys[chosen], self.group[chosen],
            pick(self.rows, chosen), weights,
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How rows are drawn: those with the `most` smallest keys, and the `least` smallest of each group.

    `limit` is a key that more than `most` rows are below, infinite where that is not known.
    """

    most: int
    least: int
    limit: float
    seed: int

    @classmethod
    def of(cls, sample: int, rows: int | None, seed: int, least: int = 0) -> "Plan":
        """For about `sample` rows; a group gets some more in the end than it has among the `sample` first."""
        most = sample + sample // 4 + 1000
        limit = np.inf if rows is None or 1.1 * most >= rows else 1.1 * most / rows
        return cls(most, max(min(512, sample), least), limit, seed)

    def keys(self, block: Block, n: int) -> np.ndarray:
        """Random numbers (n,) from 0 to below 1 for the rows of a block."""
        if block.first is None:
            return np.random.default_rng([self.seed, block.index]).random(n)
        # Philox counts in fours: the stream goes on from the row's place in the table.
        before, skipped = divmod(block.first, 4)
        stream = np.random.Generator(np.random.Philox(key=self.seed).advance(before))
        return stream.random(skipped + n)[skipped:]


@dataclass
class Drawn:
    """The rows drawn from the blocks read so far; `groups` numbers their groups."""

    plan: Plan
    pieces: list[Piece]
    groups: dict[Key, int]
    _bound: int = field(default=0)

    @classmethod
    def of(
        cls, plan: Plan, block: Block, groups: BlockGroups, used: np.ndarray | None, weights: Any
    ) -> "Drawn":
        """Those of a block; where weights count, of its rows `used` alone, of these `weights`."""
        keys = plan.keys(block, len(groups.place))
        numbers = {key: k for k, key in enumerate(groups.keys)}
        keys, group = (keys, groups.place) if used is None else (keys[used], groups.place[used])
        if weights is not None:
            plan = replace(plan, limit=np.inf)
            keys = np.log(keys + 2.0**-54) - np.log(weights)  # of u / w, which may be beyond float64
        kept = np.flatnonzero(_kept(keys, group, plan, len(groups.counts)))
        places = kept if used is None else used[kept]
        chosen = None if weights is None else weights[kept]
        piece = Piece(block.index, places, keys[kept], group[kept], _copied(block.rows, places), chosen)
        return cls(plan, [piece], numbers)

    def add(self, other: "Drawn") -> None:
        """Those of other blocks; what no longer counts is forgotten now and then."""
        numbers = [self.groups.setdefault(key, len(self.groups)) for key in other.groups]
        renamed = np.array(numbers, np.int64)
        self.pieces += [replace(piece, group=renamed[piece.group]) for piece in other.pieces]
        held = sum(len(piece.keys) for piece in self.pieces)
        if held > max(2 * self.plan.most + 4 * self.plan.least * len(self.groups), self._bound):
            self._forget()
            self._bound = 2 * sum(len(piece.keys) for piece in self.pieces)

    def _forget(self) -> None:
        keys, group = (np.concatenate([getattr(p, part) for p in self.pieces]) for part in ("keys", "group"))
        kept = np.split(
            _kept(keys, group, self.plan, len(self.groups)),
            np.cumsum([len(p.keys) for p in self.pieces])[:-1],
        )
        self.pieces = [
            piece if mine.all() else piece.take(mine)
            for piece, mine in zip(self.pieces, kept, strict=True)
            if mine.any()
        ]

    def first(self, count: int, group_cell: np.ndarray, n_cells: int) -> np.ndarray:
        """How many of the `count` rows with the smallest keys of all are in each cell (G,)."""
        keys = np.concatenate([piece.keys for piece in self.pieces])
        cell = group_cell[np.concatenate([piece.group for piece in self.pieces])]
        return np.bincount(cell[np.argsort(keys, kind="stable")[:count]], minlength=n_cells)

    def chosen(self, wanted: np.ndarray, group_cell: np.ndarray, unit: float | None) -> list[Piece]:
        """The `wanted` (G,) rows with the smallest keys of every cell, by block; `group_cell` (c,).

        Where a weight of 1 counts `unit`, their weights are the masses that they stand for: with them, sums
        over a cell are unbiased.
        """
        self._forget()  # now a group's rows are those of its smallest keys, without a gap
        pieces = sorted(self.pieces, key=lambda piece: piece.index)
        keys = np.concatenate([piece.keys for piece in pieces])
        cell = group_cell[np.concatenate([piece.group for piece in pieces])]
        ranks = _ranks(keys, cell)
        kept = ranks < wanted[cell]
        next_keys = np.full(len(wanted), np.inf)
        after = ranks == wanted[cell]
        next_keys[cell[after]] = keys[after]
        parts = np.split(kept, np.cumsum([len(piece.keys) for piece in pieces])[:-1])
        found = [
            replace(piece, group=group_cell[piece.group]).take(mine)
            for piece, mine in zip(pieces, parts, strict=True)
        ]
        if unit is None:
            return found
        least = np.exp(np.log(unit) - next_keys)
        return [
            replace(piece, weights=np.maximum(piece.weights * unit, least[piece.group]))
            for piece in found
            if piece.weights is not None
        ]


def _kept(keys: np.ndarray, group: np.ndarray, plan: Plan, n_groups: int) -> np.ndarray:
    """Which rows may still be in the sample."""
    below = keys < plan.limit
    if np.count_nonzero(below) > plan.most and np.isinf(plan.limit):
        below = keys <= np.partition(keys, plan.most - 1)[plan.most - 1]
    # The rows below come first, so that the rank among the others leaves them their room.
    room = np.maximum(plan.least + 1 - np.bincount(group[below], minlength=n_groups), 0)
    if room.any():
        some = _likely(keys, group, below, room)
        below[some[_ranks(keys[some], group[some]) < room[group[some]]]] = True
    return below


def _likely(keys: np.ndarray, group: np.ndarray, below: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The rows that are not `below`, with the `room` (c,) smallest keys of every group among them."""
    others = np.bincount(group[~below], minlength=len(room))
    lowest = keys[~below].min(initial=np.inf)
    bound = lowest + np.minimum(1.0, 2 * (room + 20) / np.maximum(others, 1))
    bound[room == 0] = -np.inf
    some = np.flatnonzero(~below & (keys < bound[group]))
    enough = np.bincount(group[some], minlength=len(room)) >= np.minimum(room, others)
    return some if enough.all() else np.flatnonzero(~below & (room > 0)[group])


def _ranks(keys: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The rank (n,) of every key within its group, from 0."""
    order = np.lexsort((keys, group))
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))[:-1]]) if len(group) else np.zeros(1, int)
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - starts[group[order]]
    return ranks


def _copied(rows: Any, places: np.ndarray) -> Any:
    """Some of the rows, without the others in memory."""
    return rows.iloc[places] if hasattr(rows, "iloc") else np.asarray(rows)[places]
