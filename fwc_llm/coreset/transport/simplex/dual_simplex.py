"""A long-step dual simplex method for the inner problem, exact even if rows tie.

The dual function  D(u) = Σ_i r_i min_g (c_ig − u_g) + R min_{w fair} ⟨u, w⟩,  R = Σ_i r_i, is concave and
piecewise linear in the G prices `u`. The method walks along its edges. A *basis* has G ties that fix the
prices. In a tie, row `i` costs the same in its key cell and in another one; or two vertices of the parity set
cost the same; or, at the start, the price of a cell is held (an artificial tie, free to leave). The masses on
the ties balance the flow into every cell. While a mass is negative, its tie leaves the basis, and the prices
move along the edge that keeps the other ties. Rows (and the vertex) change their key on the way as long as D
rises. The change at which D stops rising becomes the new tie. If no mass is negative, the plan is feasible
and, because of the ties, optimal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, Ints, ParitySet
from fwc_llm.coreset.transport.simplex.exact_plan import Basis
from fwc_llm.coreset.transport.simplex.long_step import VERTEX, Choices, Pairs, vertex_turns, walk
from fwc_llm.coreset.transport.tilt import Tilt
from fwc_llm.errors import InputError

HELD = -2  # owner of an artificial tie, which only holds a price
_MAX_PIVOTS = 20_000
_NONE = Choices.of(np.zeros((0, 0)))


class InfeasibleError(InputError):
    """No plan satisfies the parity limit."""


@dataclass(frozen=True)
class Vertex:
    """An optimal vertex: every row is in its key cell, except for the parts that the splits move."""

    prices: Floats  # (G,)
    untilted: Floats  # (G,) the prices at which the same ties hold without the tilt
    key: Ints  # (N,) cell of each row
    split_row: Ints  # (s,) rows that are split, possibly several times
    split_cell: Ints  # (s,) where a part of the row goes
    split_mass: Floats  # (s,) how much of the row's mass goes there
    pivots: int


@dataclass(frozen=True)
class _Equations:
    """The ties of a basis as linear equations: `basis @ load` is added to the cells' masses."""

    basis: Floats  # (G, G)
    part: Floats  # (G, G) `part @ load` is the mass on each tie
    size: Floats  # (G,) a unit of that mass moves the cells' masses by at least this
    owners: Ints  # (o,) the rows (or VERTEX) that are tied
    key_part: Floats  # (o, G) `whole - key_part @ load` is the mass left on the owner's key
    key_size: Floats  # (o,)
    whole: Floats  # (o,)


@dataclass(frozen=True)
class Leaving:
    """A tie that leaves the basis."""

    slot: int
    empties_key: bool  # the mass of its owner's key is negative, not its own
    edge: Floats  # (G,) the direction of the prices that breaks it and keeps the other ties
    slope: float  # of D along the edge


@dataclass
class DualSimplex:
    """The method's state; `solve` runs it to the end.

    `choices` have the cost of row i in cell g at the `prices` (G,), up to a constant per row, wherever it can
    go. `key` (N,) is the cheapest cell. `mass` (N,) is positive. Random changes of the costs, of at most
    `noise`, break ties: a simplex method stalls and cycles if more ties meet than it has slots, as in tables
    of whole numbers. The result's error is of that order.
    """

    choices: Choices
    key: Ints
    mass: Floats
    prices: Floats
    fair: ParitySet
    noise: float
    tilt: Tilt | None = None  # contained in the costs
    compiled: bool = False  # whether compiled code makes the pivots
    vertices: dict[int, Floats] = field(default_factory=dict)  # by slot, for ties of the parity set

    def __post_init__(self) -> None:
        cells, n = len(self.prices), len(self.mass)
        row, cell = self.choices.row, self.choices.cell
        rng = np.random.default_rng(0)
        excess = rng.uniform(0.0, self.noise, len(row))
        keys = np.flatnonzero(cell == self.key[row])
        excess[keys] = 0.0
        excess += self.choices.excess
        start = np.concatenate([[0], np.bincount(row, minlength=n).cumsum()])
        own = excess[keys]
        self.rows = Pairs(row, cell, excess, start, self.key.astype(np.intp), own, self.mass)
        self.shift = rng.uniform(0.0, self.noise, cells)
        self.start = self.prices
        self.prices = self.prices + self.shift
        self.cost = excess + self.prices[cell]  # (P,) fixed, while `excess` follows the prices
        self.total = float(self.mass.sum())
        self.owner = np.full(cells, HELD)  # of the tie in each slot
        self.pair = np.zeros(cells, dtype=np.intp)  # the second pair of a tie that a row owns
        self.vertex = self.fair.best(self.prices)[1]

    def solve(self) -> Vertex:
        """Pivot until every tie has a feasible mass."""
        done = self._pivot_compiled() if self.compiled else 0
        if done is None:
            return replace(self, prices=self.start, compiled=False, vertices={}).solve()
        self.choices = _NONE  # no longer needed
        for pivots in range(done, _MAX_PIVOTS):
            equations = self._equations()
            inverse = np.linalg.inv(equations.basis)
            lack = self.total * self.fair.masses(self.vertex) - np.bincount(
                self.rows.key, self.mass, len(self.prices)
            )
            load = inverse @ lack
            load += inverse @ (lack - equations.basis @ load)
            leaving = self._leaving(equations, inverse, load)
            if leaving is None:
                self._refresh(equations.basis, inverse)
                return self._result(equations, load, pivots)
            # Changes along an edge that are slower than this, relative to the fastest, may be rounding.
            condition = np.linalg.norm(equations.basis) * np.linalg.norm(inverse)
            self._pivot(leaving, max(1e-13, 1e-16 * float(condition)))
        raise InputError(
            f"the inner problem took more than {_MAX_PIVOTS} pivots: rescale the cost, or drop outliers"
        )

    def _pivot_compiled(self) -> int | None:
        """Pivot in compiled code; returns how often. What is left to do, if anything, is for `solve`.

        None where rounding has made the basis singular: the plain code, which rounds less, begins anew.
        """
        from fwc_llm.coreset.transport.simplex.pivot_kernels import RISES_FOR_EVER, SINGULAR, pivot

        rows, fair = self.rows, self.fair
        level = np.array([fair.level(self.vertex)])
        lean = self.vertex[1].reshape(fair.n_levels, -1)[level[0]].copy()
        slots = np.zeros(len(self.prices), dtype=np.intp)
        leans = np.zeros((len(slots), len(lean)))
        reason, pivots = pivot(
            *(rows.cell, rows.excess, rows.start, rows.key, rows.own, self.mass, self.prices),
            *(self.owner, self.pair, fair.target, fair.epsilon, self.total, level, lean, slots, leans),
            np.zeros(len(slots)),
            _MAX_PIVOTS,
        )
        if reason == RISES_FOR_EVER:
            raise infeasible()
        if reason == SINGULAR:
            return None
        self.vertex = fair.vertex(int(level[0]), lean)
        for slot in np.flatnonzero(self.owner == VERTEX).tolist():
            self.vertices[slot] = fair.vertex(int(slots[slot]), leans[slot])
        return int(pivots)

    def _equations(self) -> _Equations:
        """Write the ties as columns.

        Vertices of one level may differ by as little as ε. So each is tied to the level's first one (its
        parent), and only the first one to the key vertex: then no two columns are nearly parallel.
        """
        cells = len(self.prices)
        basis, part, size = np.zeros((cells, cells)), np.eye(cells), np.ones(cells)
        held, rows = np.flatnonzero(self.owner == HELD), np.flatnonzero(self.owner >= 0)
        basis[held, held] = 1.0
        basis[self.rows.cell[self.pair[rows]], rows] = 1.0
        basis[self.rows.key[self.owner[rows]], rows] -= 1.0
        owners, block = np.unique(self.owner[rows], return_inverse=True)
        key_part = np.zeros((len(owners), cells))
        key_part[block, rows] = 1.0
        key_size, whole = np.ones(len(owners)), self.mass[owners]
        slots = np.flatnonzero(self.owner == VERTEX)
        if slots.size:
            parents = {self.fair.level(self.vertex): VERTEX}
            vertex_part, vertex_size = np.zeros(cells), np.inf
            for slot in slots.tolist():
                vertex = self.vertices[slot]
                parent = parents.setdefault(self.fair.level(vertex), slot)
                to_key = parent in (slot, VERTEX)
                moved = self.fair.masses((self.vertex if to_key else self.vertices[parent]) - vertex)
                size[slot] = length = float(np.sqrt(moved @ moved))
                basis[:, slot] = moved / length
                part[slot, slot] = 1.0 / length
                if to_key:
                    vertex_part[slot] = 1.0 / length
                    vertex_size = min(vertex_size, length)
                else:
                    part[parent, slot] = -1.0 / length
                    size[parent] = min(float(size[parent]), length)
            owners = np.append(owners, VERTEX)
            key_part = np.vstack([key_part, vertex_part])
            key_size, whole = np.append(key_size, vertex_size), np.append(whole, self.total)
        return _Equations(basis, part, size, owners, key_part, key_size, whole)

    def _leaving(self, equations: _Equations, inverse: Floats, load: Floats) -> Leaving | None:
        """Choose the tie along whose edge D rises fastest (steepest edge); None at the optimum."""
        held = self.owner == HELD
        sign = np.where(held & (load > 0), 1.0, -1.0)
        edges = np.concatenate([sign[:, None] * (equations.part @ inverse), equations.key_part @ inverse])
        lack = np.concatenate([sign * (equations.part @ load), equations.key_part @ load - equations.whole])
        size = np.concatenate([equations.size, equations.key_size])
        length = np.sqrt((edges * edges).sum(axis=1))
        real = lack > self.total * np.maximum(1e-13 / size, 4e-15 * length)  # else it may come from rounding
        if not real.any():
            return None
        pick = int(np.where(real, lack / length, 0.0).argmax())
        slot, empties_key = pick, pick >= len(load)
        if empties_key:
            slot = int(np.flatnonzero(self.owner == equations.owners[pick - len(load)])[0])
        return Leaving(slot, empties_key, edges[pick], float(lack[pick]))

    def _pivot(self, leaving: Leaving, blur: float) -> None:
        """Walk along the edge and exchange the tie."""
        slot, edge = leaving.slot, leaving.edge
        if leaving.empties_key:
            self._rekey(slot)
        self.owner[slot] = HELD
        least = blur * float(np.abs(edge).max())
        edge[np.abs(edge) <= least] = 0.0
        rows = self.rows
        tied = np.zeros(len(rows.key), dtype=np.bool_)
        tied[self.owner[self.owner >= 0]] = True
        drop_of = self._drops(edge)
        turns = vertex_turns(self.fair, self.prices, self.vertex, edge, least, leaving.slope, drop_of)
        way = walk(rows, tied, edge, least, leaving.slope, turns)
        if way is None:
            raise infeasible()
        if way.time > 0:
            step = way.time * edge
            self.prices += step
            rows.excess[:] -= step[rows.cell]
            rows.own[:] -= step[rows.key]
        moved = rows.row[way.pairs]
        rows.key[moved] = rows.cell[way.pairs]  # if a row changes several times, the last change stays
        rows.own[moved] = rows.excess[way.pairs]
        if way.turns:
            self.vertex = turns[way.turns - 1].vertex
        self.owner[slot] = way.owner
        if way.owner == VERTEX:
            self.vertices[slot] = turns[way.target].vertex
        else:
            self.pair[slot] = way.target

    def _drops(self, edge: Floats) -> Callable[[Floats, Floats], float | None]:
        """How much less D rises along the edge after a change of the vertex; a tied vertex ends the walk."""
        if (self.owner == VERTEX).any():
            return lambda vertex, other: np.inf
        return lambda vertex, other: self.total * float(edge @ self.fair.masses(vertex - other))

    def _rekey(self, slot: int) -> None:
        """Make the tie in `slot` the key of its owner; the old key leaves."""
        owner = self.owner[slot]
        if owner == VERTEX:
            self.vertex = self.vertices[slot]
        else:
            self.rows.key[owner] = self.rows.cell[self.pair[slot]]
            self.rows.own[owner] = self.rows.excess[self.pair[slot]]

    def _refresh(self, basis: Floats, inverse: Floats) -> None:
        """Set the prices that the ties fix, without the rounding of the way to them."""
        owed, tilted = self._owed()
        self.prices = self.untilted = _divide(owed, basis, inverse)
        if self.tilt is not None:
            self.untilted = _divide(owed - tilted, basis, inverse)

    def _owed(self) -> tuple[Floats, Floats]:
        """What each tie's cell costs more than its key, and how much of that is the tilt's."""
        held, rows = np.flatnonzero(self.owner == HELD), np.flatnonzero(self.owner >= 0)
        owed, tilted = np.zeros(len(self.owner)), np.zeros(len(self.owner))
        owed[held] = self.prices[held]
        own, first = self.rows.pairs_of(self.owner[rows]) if len(rows) else (rows, rows)
        count = np.diff(np.append(first, len(own)))
        key = own[self.rows.cell[own] == np.repeat(self.rows.key[self.owner[rows]], count)]
        owed[rows] = self.cost[self.pair[rows]] - self.cost[key]
        if self.tilt is not None:
            owner = self.owner[rows]
            tilted[rows] = self.tilt.between(owner, self.rows.cell[self.pair[rows]], self.rows.key[owner])
        return owed, tilted

    def _result(self, equations: _Equations, load: Floats, pivots: int) -> Vertex:
        """Read the plan from the ties: which rows are split, and where their parts go."""
        slots, turns = np.flatnonzero(self.owner >= 0), np.flatnonzero(self.owner == VERTEX)
        vertices, parts = [self.vertex], np.array([self.total])
        if turns.size:
            vertices += [self.vertices[slot] for slot in turns.tolist()]
            parts = np.concatenate(
                [equations.whole[-1:] - equations.key_part[-1] @ load, (equations.part @ load)[turns]]
            )
        rows, owner = np.unique(self.owner[slots], return_inverse=True)
        key, unsplit = self.rows.key.copy(), self.mass.copy()
        unsplit[rows] = 0.0
        owner = np.concatenate([owner, np.arange(len(rows))])
        cell = np.concatenate([self.rows.cell[self.pair[slots]], key[rows]])
        basis = Basis(owner, cell, self.mass[rows], np.bincount(key, unsplit, len(self.prices)))
        return self._plan(rows, owner, cell, basis.amounts(self.fair, vertices, parts), pivots)

    def _plan(self, rows: Ints, owner: Ints, cell: Ints, amount: Floats, pivots: int) -> Vertex:
        """The vertex whose tied `rows` give each an `amount` to some `cell`; `owner` is a row's place."""
        key = self.rows.key.copy()
        # A row's key has its largest part: what the other parts leave of the row is then no small difference.
        order = np.lexsort((-amount, owner))
        largest = order[np.unique(owner[order], return_index=True)[1]]
        key[rows] = cell[largest]
        amount[largest] = 0.0
        real = amount > 0
        prices, untilted = self.prices - self.shift, self.untilted - self.shift
        return Vertex(prices, untilted, key, rows[owner[real]], cell[real], amount[real], pivots)


def _divide(owed: Floats, basis: Floats, inverse: Floats) -> Floats:
    """The prices at which each tie costs what it owes."""
    prices = owed @ inverse
    for _ in range(2):
        prices += (owed - prices @ basis) @ inverse
    return np.asarray(prices)


def infeasible() -> InfeasibleError:
    """The error of a table whose rows cannot go where the limit needs them."""
    return InfeasibleError("no plan satisfies the parity limit: too many costs are inf")
