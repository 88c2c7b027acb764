"""The outer bound: a lower bound for all choices of rows with the same slots.

Lagrangian relaxation: row i has the mass r_i, cell g has s_g slots, and candidate j of cell g(j)
may carry any part of a row. The constraint on the sum of row i's parts has the multiplier λ_i; the
constraint on the mass of cell g has the price u_g. For all multipliers and prices

    L(λ, u) = Σ_i r_i λ_i + Σ_g (the sum of the s_g least ρ_j in g) + min {⟨u, w⟩ : w fair, Σ_g w_g
        = 1}
    ρ_j     = Σ_i r_i min(0, c_ij − u_g(j) − λ_i)

is a lower bound. Without prices and the last term, L is Beasley's bound for p-medians (1985, *A
note on solving large p-median problems*). A subgradient method raises L, with the step lengths of
Polyak (1969) and the directions of Camerini, Fratta and Maffioli (1975). The relaxation is linear,
so even the best coreset may have an objective above the largest L.
"""

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.ground_cost import blocks
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.errors import InputError

# largest number of pairs of a row and a candidate; their costs are kept as float32
_PAIRS = 25_000_000
_AT_ONCE = 65_536  # pairs per block, which fit into the cache
_STEPS = 600  # steps, at most
_MEMORY = 0.7  # factor of the last direction in the next one
_PATIENCE = 15  # steps without a gain, after which the step length is halved
_SHORTEST = 1e-3  # step length below which the search ends
_ROUNDING = 2.0**-53


def check_pairs(problem: Problem) -> None:
    """Refuse a table with more than 25 million pairs of a row and a candidate."""
    n = problem.table.n
    q = len(problem.candidates()[0])
    if n * q > _PAIRS:
        raise InputError(
            f"a proof compares every row with every candidate: {n:,} rows and {q:,} "
            "candidates make "
            f"more than {_PAIRS:,} pairs; choose without a proof, or among fewer rows"
        )


def outer_bound(
    problem: Problem, rows: Array, prices: Array, objective: float
) -> float:
    """Return a lower bound of the objective of all coresets of rows with these slots.

    `rows` (m,) are a good coreset, in cell order; `prices` (G,) and `objective` solve its inner
    problem.
    """
    relaxation = _Relaxation(problem, prices)
    points = problem.table.values_of(rows)
    start = problem.costs(points, problem.cell_of) - prices[problem.cell_of]
    multipliers = np.sort(start, axis=1)[:, :2].mean(
        axis=1
    )  # midway between the two least costs
    where = top = np.append(multipliers, prices)
    direction = np.zeros(len(where))
    scale = np.append(relaxation.mass, np.ones(len(prices)))
    best = -np.inf
    length = 1.0
    idle = 0
    for _ in range(_STEPS):
        value, slopes = relaxation.evaluate(where)
        if value > best:
            best = value
            top = where
            idle = 0
        else:
            idle += 1
        if idle == _PATIENCE:
            length = length / 2
            idle = 0
            where = top
            direction = 0 * direction
            if length < _SHORTEST:
                break
            continue
        direction = slopes + _MEMORY * direction
        size = scale @ direction**2
        if size == 0 or value >= objective:  # nothing is left to gain
            break
        where = where + length * (objective - value) / size * direction
    return relaxation.certified(top)


class _Relaxation:
    """L and its slopes; the costs (n, q) of rows to candidates are float32, for speed."""

    def __init__(self, problem: Problem, prices: Array) -> None:
        self.problem = problem
        self.fair = problem.parity_set
        n = problem.table.n
        self.mass = problem.masses.values / problem.masses.total
        candidates, self.cell = problem.candidates()
        self.points = problem.table.values_of(candidates)
        self.cost = np.empty((n, len(self.cell)), np.float32)
        for block in blocks(n):
            self.cost[block] = problem.costs(self.points, self.cell, block)
        # For groups of levels HiGHS finds the minimum but not the masses that attain it: prices
        # stay fixed.
        self.moving = self.fair is not None and self.fair.groups is None
        self.least = 0.0
        self.wanted = np.zeros(problem.cells.n_cells)
        if self.fair is not None and not self.moving:
            self.least = self.fair.best(prices)[0]

    def evaluate(self, where: Array) -> tuple[float, Array]:
        """L in float32 precision at λ and u (n + G,), and its slopes, in λ per unit of mass."""
        multipliers, prices = np.split(where, [len(self.mass)])
        gain = np.zeros(len(self.cell))
        price = prices[self.cell].astype(np.float32)
        limit = multipliers.astype(np.float32)[:, None]
        mass = self.mass.astype(np.float32)
        height = max(1, _AT_ONCE // len(self.cell))
        for low in range(0, len(self.cost), height):
            block = self.cost[low : low + height] - limit[low : low + height]
            block -= price
            gain += mass[low : low + height] @ np.minimum(block, 0, out=block)
        chosen = self._least(gain)
        carried = self.cost[:, chosen] - price[chosen] < limit
        if self.fair is not None and self.moving:
            self.least, vertex = self.fair.best(prices)
            self.wanted = self.fair.masses(vertex)
        slope = self.wanted - np.bincount(
            self.cell[chosen], self.mass @ carried, len(prices)
        )
        value = self.mass @ multipliers + gain[chosen].sum() + self.least
        slopes = np.append(1.0 - carried.sum(axis=1), slope * self.moving)
        return float(value), slopes

    def certified(self, where: Array) -> float:
        """L in float64, minus an upper bound of the rounding error."""
        multipliers, prices = np.split(where, [len(self.mass)])
        gain = np.zeros(len(self.cell))
        table = self.problem.table
        for block in blocks(table.n):
            over = self.problem.costs(self.points, self.cell, block) - prices[self.cell]
            gain += self.mass[block] @ np.minimum(over - multipliers[block, None], 0)
        if self.fair is None:
            least = 0.0
        else:
            least = self.fair.best(prices)[0]
        size = float(self.mass @ np.abs(multipliers)) + float(np.abs(prices).max())
        error = _ROUNDING * (table.n + 2 * table.p + 16) * (self.problem.m + 2) * size
        return (
            float(self.mass @ multipliers)
            + float(gain[self._least(gain)].sum())
            + least
            - error
        )

    def _least(self, gain: Array) -> Array:
        """The candidates (m,) with the s_g least ρ of each cell g."""
        chosen = []
        for g in np.flatnonzero(self.problem.seats):
            members = np.flatnonzero(self.cell == g)
            count = self.problem.seats[g]
            chosen.append(members[np.argpartition(gain[members], count - 1)[:count]])
        return np.concatenate(chosen)
