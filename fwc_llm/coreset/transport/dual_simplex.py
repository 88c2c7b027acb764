"""A long-step dual simplex method for the inner problem, exact even if rows tie.

The dual function  D(u) = Σ_i r_i min_g (c_ig − u_g) + R min_{w fair} ⟨u, w⟩,  R = Σ_i r_i, is concave and
piecewise linear in the G prices `u`. The method walks along its edges. A *basis* has G ties that fix the
prices. In a tie, row `i` costs the same in its key cell and in another one; or two vertices of the parity set
cost the same; or, at the start, the price of a cell is held (an artificial tie, free to leave). The masses on
the ties balance the flow into every cell. While a mass is negative, its tie leaves the basis, and the prices
move along the edge that keeps the other ties. Rows (and the vertex) change their key on the way as long as D
rises. The change at which D stops rising becomes the new tie. If no mass is negative, the plan is feasible
and, because of the ties, optimal.

`pivots` walks; here are the start and, from the last basis, the prices and the plan.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.transport.parity import Floats, Ints, ParitySet, violation
from fwc_llm.coreset.transport.pivots import HELD, OPTIMAL, RISES_FOR_EVER, VERTEX, lay_out, pivot
from fwc_llm.coreset.transport.tie_breaking import Tilt
from fwc_llm.errors import InputError

_MAX_PIVOTS = 20_000
_RANDOM = np.random.default_rng(0).random(4099)  # breaks ties
_ROUNDING = 2e-13  # of the parity, that calls for more digits
_NOTHING = 1e-14  # share of all mass below which a level that rounding alone fills has none


class InfeasibleError(InputError):
    """No plan satisfies the parity limit."""


class StalledError(InputError):
    """Rounding has led the method astray: a basis is singular, or the pivots do not end."""


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
class _Basis:
    """The ties of an optimal basis, one in each of G slots."""

    key: Ints  # (N,) cell of each row
    owner: Ints  # (G,) the row that is tied, VERTEX or HELD
    cell: Ints  # (G,) the other cell of such a row
    load: Floats  # (G,) mass of such a row in that cell, up to the rounding of all mass
    levels: list[int]  # (k,) of the key vertex and the tied ones
    leans: list[Floats]  # (k,) how far (Y,) each leans from the target


def dual_simplex(
    cost: Floats,
    mass: Floats,
    prices: Floats,
    fair: ParitySet,
    noise: float,
    width: float = np.inf,
    anchors: int = 0,
    tilt: Tilt | None = None,
    turn: int = 0,
) -> Vertex:
    """Minimise the `cost` (G, N) of moving rows of these masses (N,) to cells, from the `prices` (G,).

    A row may go to cells that cost at most `width` more than its cheapest one; the last `anchors` rows may go
    anywhere. Random changes of the costs, of at most `noise`, break ties: a simplex method stalls and cycles
    if more ties meet than it has slots, as in tables of whole numbers. The result's error is of that order.
    Another `turn` draws others. The costs contain the `tilt`.
    """
    cells, n = cost.shape
    start, key, own = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(n)
    random = np.roll(_RANDOM, 97 * turn)
    terms = cost, prices, width, anchors, noise, random
    count = lay_out(*terms, np.empty(0, np.int64), np.empty(0), start, key, own)
    cell, excess = np.empty(count, np.int64), np.empty(count)
    lay_out(*terms, cell, excess, start, key, own)
    moving = prices + noise * np.resize(random, cells)
    shift = moving - prices
    top = fair.best(moving)[1]
    level = np.array([fair.level(top)])
    lean = top[1].reshape(fair.n_levels, -1)[level[0]].copy()
    owner, pair = np.full(cells, HELD), np.zeros(cells, np.int64)
    tie_level, tie_lean = np.zeros(cells, np.int64), np.zeros((cells, len(lean)))
    square, of_cells = np.zeros((2, cells, cells)), np.zeros((11, cells))
    room = square, np.zeros((cells, 2 * cells)), of_cells, np.zeros((3, cells), np.int64)
    reason, pivots = pivot(
        *(cell, excess, start, key, own, mass, moving, owner, pair, fair.target, fair.epsilon),
        *(float(mass.sum()), level, lean, tie_level, tie_lean, _MAX_PIVOTS),
        *(*room, np.zeros((1, n + 1)), np.zeros((4, n + 1), np.int64)),
    )
    if reason == RISES_FOR_EVER:
        raise InfeasibleError("no plan satisfies the parity limit: too many costs are inf")
    if reason != OPTIMAL:
        raise StalledError("the inner problem does not settle: rescale the cost, or drop outliers")
    turns = np.flatnonzero(owner == VERTEX)
    levels = [int(level[0]), *tie_level[turns].tolist()]
    basis, inverse, load = square[0], square[1], of_cells[-1]
    ties = _Basis(key, owner, cell[pair], load, levels, [lean, *tie_lean[turns]])
    owed, tilted = _owed(ties, cost, moving - shift, tilt)
    untilted = found = _prices(owed, basis, inverse)
    if tilt is not None:
        untilted = _prices(owed - tilted, basis, inverse)
    splits = _split(ties, mass, fair)
    return Vertex(found, untilted, key, *splits, int(pivots))


def _owed(ties: _Basis, cost: Floats, prices: Floats, tilt: Tilt | None) -> tuple[Floats, Floats]:
    """What each tie's cell costs more than its key, and how much of that is the tilt's; held prices."""
    slots = np.flatnonzero(ties.owner >= 0)
    row, to = ties.owner[slots], ties.cell[slots]
    owed, tilted = np.where(ties.owner == HELD, prices, 0.0), np.zeros(len(prices))
    owed[slots] = cost[to, row] - cost[ties.key[row], row]
    if tilt is not None:
        tilted[slots] = tilt.between(row, to, ties.key[row])
    return owed, tilted


def _prices(owed: Floats, basis: Floats, inverse: Floats) -> Floats:
    """The prices at which each tie costs what it owes, without the rounding of the way to them."""
    prices = owed @ inverse
    for _ in range(2):
        prices += (owed - prices @ basis) @ inverse
    return np.asarray(prices)


def _split(ties: _Basis, mass: Floats, fair: ParitySet) -> tuple[Ints, Ints, Floats]:
    """The splits of a basis as in `Vertex`; a split row's `key` becomes the cell of its largest part."""
    slots, key, cells = np.flatnonzero(ties.owner >= 0), ties.key, len(ties.owner)
    rows, at = np.unique(ties.owner[slots], return_inverse=True)
    supply, part = mass[rows], ties.load[slots]
    own = np.concatenate([at, np.arange(len(rows))])
    to = np.concatenate([ties.cell[slots], key[rows]])
    unsplit = mass.copy()
    unsplit[rows] = 0.0
    settled = np.bincount(key, unsplit, cells)
    amount = np.append(part, supply - np.bincount(at, part, len(rows))).clip(0.0)
    if violation(settled + np.bincount(to, amount, cells), fair.target) > fair.epsilon + _ROUNDING:
        amount = _balance(ties, fair, own, to, supply, settled)
    # A row's key has its largest part: what the other parts leave of the row is then no small difference.
    order = np.lexsort((-amount, own))
    largest = order[np.unique(own[order], return_index=True)[1]]
    key[rows] = to[largest]
    amount[largest] = 0.0
    real = amount > 0
    return rows[own[real]], to[real], amount[real]


def _balance(ties: _Basis, fair: ParitySet, own: Ints, to: Ints, supply: Floats, settled: Floats) -> Floats:
    """How much of each split row, `own` (e,), goes `to` (e,) some cell, in the digits of rare outcomes too.

    Each row gives all it has (its `supply`), and each cell, with what is `settled` there, gets its share of a
    mixture of vertices of the parity set. These equations are solved each at its own scale.
    """
    r, e, cells = len(supply), len(to), len(settled)
    total = float(settled.sum() + supply.sum())
    shapes = np.array(
        [fair.masses(fair.vertex(d, lean)) for d, lean in zip(ties.levels, ties.leans, strict=True)]
    )
    most = settled + np.bincount(to, supply[own], cells)  # that a cell can have
    size = most.reshape(fair.n_levels, -1).sum(axis=1)[ties.levels]
    system, right = np.zeros((r + cells, e + len(size))), np.concatenate([supply, -settled])
    system[own, np.arange(e)] = system[r + to, np.arange(e)] = supply[own]
    system[r:, e:] = -(shapes * np.where(size > 0, size, total)[:, None]).T
    scale = np.maximum(np.abs(system).max(axis=1), np.abs(right))
    scale[scale == 0] = 1.0
    amount = _solve(system / scale[:, None], right / scale)[:e].clip(0.0, 1.0) * supply[own]
    held = settled + np.bincount(to, amount, cells)
    empty = held.reshape(fair.n_levels, -1).sum(axis=1) <= _NOTHING * total
    amount[empty[to // len(fair.target)]] = 0.0
    return np.asarray(amount)


def _solve(system: Floats, right: Floats) -> Floats:
    """Solve linear equations, once refined; the nearest solution where they are not square or singular."""
    try:
        if system.shape[0] != system.shape[1]:
            raise np.linalg.LinAlgError
        found = np.linalg.solve(system, right)
        found += np.linalg.solve(system, right - system @ found)
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(system, right)[0]
        found += np.linalg.lstsq(system, right - system @ found)[0]
    return np.asarray(found)
