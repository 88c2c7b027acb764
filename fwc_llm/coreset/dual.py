"""A long-step dual simplex method for the inner problem, exact also where rows tie.

The dual function  D(u) = Σ_i r_i min_g (c_ig − u_g) + R min_{w fair} ⟨u, w⟩,  R = Σ_i r_i, is concave and
piecewise linear in the G prices `u`. The method walks along its edges. A *basis* holds G ties that fix
the prices: row `i` costs the same in its key cell and in another one; two vertices of the parity set
cost the same; or, at the start, the price of a cell is held (an artificial tie, free to leave). The
masses that the ties carry balance the flow into every cell. While one is negative, its tie is given
up and the prices move along the edge that keeps the others; rows (and the vertex) change their key on the
way as long as D still rises; the one at which it stops rising becomes the new tie. When no
mass is negative the plan is feasible and, tied as it is, optimal.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.parity import ParitySet
from fwc_llm.errors import FwcError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_VERTEX, _HELD = -1, -2  # owners of ties that are no rows
_MAX_PIVOTS = 20_000
_DUST = 1e-11  # a part of a row below this share of it comes from rounding


@dataclass(frozen=True)
class Vertex:
    """An optimal vertex: every row sits in its key cell, but for what the splits move elsewhere."""

    prices: Floats  # (G,)
    key: Ints  # (N,) cell of each row
    split_row: Ints  # (s,) rows that are split, possibly several times
    split_cell: Ints  # (s,) where a part of the row goes
    split_mass: Floats  # (s,) how much of the row's mass goes there
    pivots: int


@dataclass(frozen=True)
class _Ties:
    """The ties of a basis as linear equations: `basis @ load` is what they add to the cells' masses."""

    basis: Floats  # (G, G)
    part: Floats  # (G, G) `part @ load` is the mass on each tie
    size: Floats  # (G,) how far a unit of that mass moves the cells' masses at least
    owners: Ints  # (o,) who is tied
    key_part: Floats  # (o, G) `whole - key_part @ load` is the mass left on the owner's key
    key_size: Floats  # (o,)
    whole: Floats  # (o,)


class DualSimplex:
    """The method's state; `solve` runs it to the end."""

    def __init__(
        self, slack: Floats, key: Ints, mass: Floats, prices: Floats, fair: ParitySet, noise: float
    ) -> None:
        """Start at `prices` (G,), where row i costs `slack[g, i] ≥ 0` more in cell g than in `key[i]`.

        `slack` (G, N) and `key` (N,) are working memory and changed; `mass` (N,) is positive. Ties are
        broken by random changes of the costs of at most `noise`: without them, tables of whole numbers
        make the method stall. The result's error is of that order.
        """
        cells = len(prices)
        self.slack, self.key, self.mass, self.fair = slack, key, mass, fair
        # A dual simplex method stalls and cycles where more ties meet than it has slots.
        rng = np.random.default_rng(0)
        slack += rng.uniform(0.0, noise, slack.shape)
        slack[key, np.arange(len(key))] = 0.0
        self.shift = rng.uniform(0.0, noise, cells)
        self.prices = prices + self.shift
        self.total = float(mass.sum())
        self.owner = np.full(cells, _HELD)
        self.cell = np.arange(cells)
        self.vertices: dict[int, Floats] = {}
        self.vertex = fair.best(self.prices)[1]

    def solve(self) -> Vertex:
        """Pivot until every tie carries a feasible mass."""
        for pivots in range(_MAX_PIVOTS):
            ties = self._ties()
            inverse = np.linalg.inv(ties.basis)
            lack = self.total * self.fair.masses(self.vertex) - np.bincount(self.key, self.mass, len(self.prices))
            load = inverse @ lack
            load += inverse @ (lack - ties.basis @ load)
            leaving = self._leaving(ties, inverse, load)
            if leaving is None:
                return self._result(load, pivots)
            # Slower changes along an edge, relative to the fastest, may come from rounding.
            condition = np.linalg.norm(ties.basis) * np.linalg.norm(inverse)
            self._pivot(*leaving, max(1e-13, 1e-16 * float(condition)))
        raise FwcError(f"the inner problem took more than {_MAX_PIVOTS} pivots; rescale the cost")

    def _ties(self) -> _Ties:
        """Write the ties as columns.

        Vertices of one level may differ by as little as ε: each is tied to the level's first one (its
        parent), and only that to the key vertex, so that no two columns are nearly parallel.
        """
        cells = len(self.prices)
        basis, part, size = np.zeros((cells, cells)), np.eye(cells), np.ones(cells)
        held, rows = np.flatnonzero(self.owner == _HELD), np.flatnonzero(self.owner >= 0)
        basis[held, held] = 1.0
        basis[self.cell[rows], rows] = 1.0
        basis[self.key[self.owner[rows]], rows] -= 1.0
        owners, block = np.unique(self.owner[rows], return_inverse=True)
        key_part = np.zeros((len(owners), cells))
        key_part[block, rows] = 1.0
        key_size, whole = np.ones(len(owners)), self.mass[owners]
        slots = np.flatnonzero(self.owner == _VERTEX)
        if slots.size:
            parents = {self.fair.level(self.vertex): _VERTEX}
            vertex_part, vertex_size = np.zeros(cells), np.inf
            for slot in slots.tolist():
                vertex = self.vertices[slot]
                parent = parents.setdefault(self.fair.level(vertex), slot)
                apart = (self.vertex if parent in (slot, _VERTEX) else self.vertices[parent]) - vertex
                moved = self.fair.masses(apart)
                size[slot] = length = np.sqrt(moved @ moved)
                basis[:, slot] = moved / length
                part[slot, slot] = 1.0 / length
                if parent in (slot, _VERTEX):
                    vertex_part[slot] = 1.0 / length
                    vertex_size = min(vertex_size, length)
                else:
                    part[parent, slot] = -1.0 / length
                    size[parent] = min(size[parent], length)
            owners = np.append(owners, _VERTEX)
            key_part = np.vstack([key_part, vertex_part])
            key_size, whole = np.append(key_size, vertex_size), np.append(whole, self.total)
        return _Ties(basis, part, size, owners, key_part, key_size, whole)

    def _leaving(self, ties: _Ties, inverse: Floats, load: Floats) -> tuple[int, bool, Floats, float] | None:
        """Choose the tie to give up: the one along whose edge D rises fastest.

        Returns its slot, whether it is the owner's key that becomes empty, the edge and D's slope on it.
        """
        held = self.owner == _HELD
        sign = np.where(held & (load > 0), 1.0, -1.0)
        edges = np.concatenate([sign[:, None] * (ties.part @ inverse), ties.key_part @ inverse])
        lack = np.concatenate([sign * (ties.part @ load), ties.key_part @ load - ties.whole])
        size = np.concatenate([ties.size, ties.key_size])
        length = np.sqrt((edges * edges).sum(axis=1))
        real = lack > self.total * np.maximum(1e-13 / size, 4e-15 * length)  # else it may come from rounding
        if not real.any():
            return None
        pick = int(np.where(real, lack / length, 0.0).argmax())
        if pick < len(load):
            return pick, False, edges[pick], float(lack[pick])
        owner = ties.owners[pick - len(load)]
        return int(np.flatnonzero(self.owner == owner)[0]), True, edges[pick], float(lack[pick])

    def _pivot(self, slot: int, empties_key: bool, edge: Floats, slope: float, blur: float) -> None:
        if empties_key:
            self._rekey(slot)
        self.owner[slot] = _HELD
        least = blur * float(np.abs(edge).max())
        edge[np.abs(edge) <= least] = 0.0
        rise = edge[:, None] - edge[self.key]  # how fast the slacks shrink
        time, changes, entering = self._walk(edge, least, rise, slope)
        if time > 0:
            self.prices += time * edge
            rise *= time
            self.slack -= rise
        for owner, target in changes:
            if owner == _VERTEX:
                self.vertex = target
        moved = {owner: target for owner, target in changes if owner != _VERTEX}
        rows, cells = np.array(list(moved), np.intp), np.array(list(moved.values()), np.intp)
        self.key[rows] = cells
        self.slack[:, rows] -= self.slack[cells, rows]
        owner, target = entering
        self.owner[slot] = owner
        if owner == _VERTEX:
            self.vertices[slot] = target
        else:
            self.cell[slot] = target

    def _rekey(self, slot: int) -> None:
        """Make the tie in `slot` the key of its owner; the old key is what is given up."""
        owner = self.owner[slot]
        if owner == _VERTEX:
            self.vertex = self.vertices[slot]
        else:
            key = self.key[owner] = self.cell[slot]
            self.slack[:, owner] -= self.slack[key, owner]

    def _walk(
        self, edge: Floats, least: float, rise: Floats, slope: float
    ) -> tuple[float, list[tuple[int, Any]], tuple[int, Any]]:
        """Follow the edge until D stops rising.

        Returns when, which owners change their key on the way and to what (a cell, or a vertex), and the
        change at which D stops rising: the new tie. An owner that is tied cannot change its key: the
        walk ends there at the latest.
        """
        tied = np.zeros(len(self.key), dtype=bool)
        tied[self.owner[self.owner >= 0]] = True
        turns = self._vertex_turns(edge, least, slope)
        limit = turns[-1][0] if turns and sum(turn[2] for turn in turns) >= slope else np.inf
        times = np.full(rise.shape, np.inf)
        np.divide(self.slack, rise, out=times, where=rise > least)
        first = np.maximum(times.min(axis=0), 0.0)
        within = np.count_nonzero(first <= min(limit, 1e300))
        count = min(64, within)
        while True:
            if count < within:
                rows = np.argpartition(first, count - 1)[:count]
                horizon = first[rows].max()
            else:
                rows = np.flatnonzero(first <= min(limit, 1e300))
                horizon = np.inf
            stop = self._stop(edge, least, slope, rows, first[rows], times, tied, turns, horizon)
            if stop is not None:
                return stop
            if count == within:
                raise FwcError("no plan satisfies the parity limit: too many costs are inf")
            count = min(8 * count, within)

    def _vertex_turns(self, edge: Floats, least: float, slope: float) -> list[tuple[float, Floats, float]]:
        """Changes of the vertex along the edge: when, to what, and by how much D's slope falls."""
        turns: list[tuple[float, Floats, float]] = []
        vertex, barrier = self.vertex, bool((self.owner == _VERTEX).any())
        while slope > 0:
            turn = self.fair.first_break(self.prices, edge, vertex, least)
            if turn is None:
                break
            drop = np.inf if barrier else self.total * float(edge @ self.fair.masses(vertex - turn[1]))
            turns.append((*turn, drop))
            slope -= drop
            vertex = turn[1]
        return turns

    def _stop(
        self,
        edge: Floats,
        least: float,
        slope: float,
        rows: Ints,
        first: Floats,
        times: Floats,
        tied: NDArray[np.bool_],
        turns: list[tuple[float, Floats, float]],
        horizon: float,
    ) -> tuple[float, list[tuple[int, Any]], tuple[int, Any]] | None:
        """Put the changes of `rows` and of the vertex in order; None if D still rises after the last."""
        cells = times[:, rows].argmin(axis=0)
        starts = self.key[rows]
        when = np.concatenate([first, [turn[0] for turn in turns]])
        who = np.concatenate([rows, np.full(len(turns), _VERTEX)])
        where = np.concatenate([cells, np.arange(len(turns))])
        drop = np.concatenate([self.mass[rows] * (edge[cells] - edge[starts]), [turn[2] for turn in turns]])
        drop[: len(rows)][tied[rows]] = np.inf
        fresh = np.arange(len(rows))  # changes whose row may change again
        while True:
            order = when.argsort(kind="stable")
            fall = drop[order].cumsum()
            end = int(fall.searchsorted(slope * (1 - 1e-12)))
            stop = when[order[end]] if end < len(order) else np.inf
            if stop > horizon:
                return None
            fresh = fresh[(when[fresh] < stop) & ~tied[who[fresh]]]
            again = self._next_changes(edge, least, who[fresh], where[fresh], when[fresh], stop)
            if again is None:
                break
            late, row, cell, fell = again
            fresh = np.arange(len(when), len(when) + len(row))
            when, who = np.concatenate([when, late]), np.concatenate([who, row])
            where, drop = np.concatenate([where, cell]), np.concatenate([drop, fell])
        if end == len(order):
            return None
        steps = [
            (int(who[k]), turns[where[k]][1] if who[k] == _VERTEX else int(where[k])) for k in order[: end + 1]
        ]
        return float(stop), steps[:-1], steps[-1]

    def _next_changes(
        self, edge: Floats, least: float, row: Ints, cell: Ints, since: Floats, stop: float
    ) -> tuple[Floats, Ints, Ints, Floats] | None:
        """The changes before `stop` of rows that were last changed to `cell`."""
        if not row.size:
            return None
        rise = edge[:, None] - edge[cell]
        lead = self.slack[:, row] - self.slack[cell, row]
        times = np.full(rise.shape, np.inf)
        np.divide(lead, rise, out=times, where=rise > least)
        target = times.argmin(axis=0)
        when = np.maximum(times[target, np.arange(len(row))], since)
        soon = when < stop
        if not soon.any():
            return None
        row, cell, target = row[soon], cell[soon], target[soon]
        return when[soon], row, target, self.mass[row] * (edge[target] - edge[cell])

    def _result(self, load: Floats, pivots: int) -> Vertex:
        """Read the plan off the ties; what is negative or dust by rounding is none."""
        slots = np.flatnonzero(self.owner >= 0)
        rows, cells = self.owner[slots], self.cell[slots]
        amount = np.where(load[slots] > _DUST * self.mass[rows], load[slots], 0.0)
        for row in set(rows.tolist()):
            mine = np.flatnonzero(rows == row)
            if self.mass[row] - amount[mine].sum() <= _DUST * self.mass[row]:
                whole = mine[amount[mine].argmax()]
                self.key[row] = cells[whole]
                amount[whole] = 0.0
        real = amount > 0
        return Vertex(self.prices - self.shift, self.key, rows[real], cells[real], amount[real], pivots)
