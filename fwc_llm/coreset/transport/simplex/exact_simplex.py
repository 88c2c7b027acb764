"""The simplex method in exact arithmetic, for what double precision cannot balance.

Where outcomes or rows are rare, a mass on a tie may be smaller than the rounding of all mass, and its sign
decides whether the basis is optimal. Here masses, ties and edges are fractions of whole numbers. Prices and
costs stay in double precision: their rounding changes the objective by as little as it does elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, ParitySet
from fwc_llm.coreset.transport.simplex.dual_simplex import HELD, DualSimplex, Leaving, Vertex, infeasible
from fwc_llm.coreset.transport.simplex.long_step import VERTEX
from fwc_llm.errors import InputError

_MAX_PIVOTS = 2_000
_BLUR = 4e-16  # of an edge, the rounding of its exact components

Exact = dict[int, Fraction]  # a sparse vector, by place


@dataclass(frozen=True)
class _Ties:
    """The ties of a basis as columns: `Σ columns[k] · load[k]` is added to the cells' masses."""

    columns: list[Exact]
    parent: dict[int, int]  # of the slots of vertices: the slot to which it is tied, or VERTEX for the key


class ExactSimplex(DualSimplex):
    """The method's state, see `DualSimplex`; slower by orders of magnitude."""

    def solve(self) -> Vertex:
        """Pivot until every tie has a mass that is not negative."""
        masses = [Fraction(mass) for mass in self.mass.tolist()]
        total = sum(masses, Fraction(0))
        key = self.rows.key.copy()
        settled = [Fraction(0)] * len(self.prices)
        for mass, cell in zip(masses, key.tolist(), strict=True):
            settled[cell] += mass
        for pivots in range(_MAX_PIVOTS):
            for row in np.flatnonzero(key != self.rows.key).tolist():
                settled[key[row]] -= masses[row]
                settled[self.rows.key[row]] += masses[row]
            key = self.rows.key.copy()
            ties = self._ties()
            lack = [-mass for mass in settled]
            for cell, share in exact_masses(self.fair, self.vertex).items():
                lack[cell] += total * share
            load = solve_exactly(_transposed(ties.columns), lack)
            leaving = self._leaves(ties, load, masses, total)
            if leaving is None:
                return self._finished(ties, load, masses, pivots)
            self._pivot(leaving, _BLUR)
        raise InputError(
            f"the inner problem took more than {_MAX_PIVOTS} exact pivots: leave out rare outcomes and rows"
        )

    def _ties(self) -> _Ties:
        """Write the ties as columns, vertices as in `DualSimplex`."""
        columns: list[Exact] = []
        parent: dict[int, int] = {}
        first = {self.fair.level(self.vertex): VERTEX}
        for slot, owner in enumerate(self.owner.tolist()):
            if owner == HELD:
                column = {slot: Fraction(1)}
            elif owner == VERTEX:
                vertex = self.vertices[slot]
                parent[slot] = first.setdefault(self.fair.level(vertex), slot)
                if parent[slot] == slot:
                    parent[slot] = VERTEX
                other = self.vertex if parent[slot] == VERTEX else self.vertices[parent[slot]]
                column = exact_masses(self.fair, other)
                for cell, share in exact_masses(self.fair, vertex).items():
                    column[cell] = column.get(cell, Fraction(0)) - share
            else:
                column = {int(self.rows.cell[self.pair[slot]]): Fraction(1)}
                column[int(self.rows.key[owner])] = Fraction(-1)
            columns.append({cell: value for cell, value in column.items() if value})
        return _Ties(columns, parent)

    def _leaves(
        self, ties: _Ties, load: list[Fraction], masses: list[Fraction], total: Fraction
    ) -> Leaving | None:
        """The tie that lacks the largest mass; None at the optimum."""
        most, slot, empties_key, chosen = Fraction(0), -1, False, dict[int, Fraction]()
        for k, owner in enumerate(self.owner.tolist()):
            sign = Fraction(1 if owner == HELD and load[k] > 0 else -1)
            part = {k: sign} | {child: -sign for child, parent in ties.parent.items() if parent == k}
            lack = sum((load[j] * value for j, value in part.items()), Fraction(0))
            if lack > most:
                most, slot, empties_key, chosen = lack, k, False, part
        for owner in set(self.owner.tolist()) - {HELD}:
            mine = np.flatnonzero(self.owner == owner).tolist()
            part = {k: Fraction(1) for k in mine if ties.parent.get(k, VERTEX) == VERTEX}
            whole = total if owner == VERTEX else masses[owner]
            lack = sum((load[k] for k in part), -whole)
            if lack > most:
                most, slot, empties_key, chosen = lack, mine[0], True, part
        if slot < 0:
            return None
        self._edge = solve_exactly(ties.columns, [chosen.get(k, Fraction(0)) for k in range(len(load))])
        return Leaving(slot, empties_key, np.array([float(value) for value in self._edge]), float(most))

    def _drops(self, edge: Floats) -> Callable[[Floats, Floats], float | None]:
        """See `DualSimplex`; a change that takes nothing of the slope is one of rounding alone."""
        tied, total = bool((self.owner == VERTEX).any()), Fraction(self.total)

        def rise(vertex: Floats) -> Fraction:
            shares = exact_masses(self.fair, vertex)
            return sum((self._edge[cell] * share for cell, share in shares.items()), Fraction(0))

        def drop_of(vertex: Floats, other: Floats) -> float | None:
            drop = rise(vertex) - rise(other)
            return None if drop <= 0 else np.inf if tied else float(total * drop)

        return drop_of

    def _finished(self, ties: _Ties, load: list[Fraction], masses: list[Fraction], pivots: int) -> Vertex:
        """The prices that the ties fix, and the plan."""
        owed, tilted = self._owed()
        self.prices = self.untilted = _priced(ties, owed)
        if self.tilt is not None:
            self.untilted = _priced(ties, owed - tilted)
        slots = np.flatnonzero(self.owner >= 0)
        rows, owner = np.unique(self.owner[slots], return_inverse=True)
        rest = [masses[row] for row in rows.tolist()]
        for slot, own in zip(slots.tolist(), owner.tolist(), strict=True):
            rest[own] -= load[slot]
        amount = np.array([float(load[slot]) for slot in slots.tolist()] + [float(left) for left in rest])
        cell = np.concatenate([self.rows.cell[self.pair[slots]], self.rows.key[rows]])
        return self._plan(rows, np.concatenate([owner, np.arange(len(rows))]), cell, amount, pivots)


def _priced(ties: _Ties, owed: Floats) -> Floats:
    return np.array(
        [float(price) for price in solve_exactly(ties.columns, list(map(Fraction, owed.tolist())))]
    )


def exact_masses(fair: ParitySet, vertex: Floats) -> Exact:
    """The cells' masses of a vertex of the parity set, of sum 1; no other cell has any."""
    outcomes = len(fair.target)
    first = fair.level(vertex) * outcomes
    share = [Fraction(value) for value in fair.target.tolist()]
    total = sum(share, Fraction(0))
    share = [value / total for value in share]
    lean = []
    for own, value, exact in zip(
        fair.target.tolist(), vertex[1, first : first + outcomes].tolist(), share, strict=True
    ):
        lean.append(exact if value == own else -exact if value == -own else exact * Fraction(value / own))
    # The leans are of sum 0. What rounding left goes to the outcome that is between the limits, if any,
    # and beyond its limits to the one with the largest share.
    between = [k for k in range(outcomes) if abs(lean[k]) != share[k]]
    for k in [*between[:1], share.index(max(share))]:
        wish = lean[k] - sum(lean, Fraction(0))
        lean[k] = min(max(wish, -share[k]), share[k]) if k in between[:1] else wish
    epsilon = Fraction(fair.epsilon)
    return {first + k: share[k] + epsilon * lean[k] for k in range(outcomes)}


def solve_exactly(rows: list[Exact], right: list[Fraction]) -> list[Fraction]:
    """Solve linear equations of sparse rows by elimination, the emptiest row first."""
    rows, right = [dict(row) for row in rows], list(right)
    left = set(range(len(rows)))
    users: dict[int, set[int]] = {}
    for i, row in enumerate(rows):
        for k in row:
            users.setdefault(k, set()).add(i)
    order: list[tuple[int, int]] = []
    while left:
        i = min(left, key=lambda one: (len(rows[one]), one))
        row = rows[i]
        if not row:
            raise infeasible()  # ties that depend on one another: rounding in the prices chose them
        pivot = min(row, key=lambda k: (len(users[k]), k))
        left.remove(i)
        order.append((i, pivot))
        for k in row:
            users[k].discard(i)
        for other in users.pop(pivot):
            factor = rows[other].pop(pivot) / row[pivot]
            for k, value in row.items():
                if k == pivot:
                    continue
                changed = rows[other].get(k, 0) - factor * value
                if changed:
                    rows[other][k] = changed
                    users[k].add(other)
                else:
                    rows[other].pop(k, None)
                    users[k].discard(other)
            right[other] -= factor * right[i]
    found = [Fraction(0)] * len(rows)
    for i, pivot in reversed(order):
        rest = sum((value * found[k] for k, value in rows[i].items() if k != pivot), Fraction(0))
        found[pivot] = (right[i] - rest) / rows[i][pivot]
    return found


def _transposed(columns: list[Exact]) -> list[Exact]:
    rows: list[Exact] = [{} for _ in columns]
    for k, column in enumerate(columns):
        for cell, value in column.items():
            rows[cell][k] = value
    return rows
