"""Swaps: after the descent, replace a representative by a better row of its cell, wherever that row is.

At the prices u of the inner problem, Lagrange's bound says that the objective after a swap is at least

    D(u) = (1/n) Σ_i min_j (c_ij − u_g(j)) + min_{w fair} ⟨u, w⟩,

and before it, that is the objective. So only swaps that lower Σ_i min_j (c_ij − u_g(j)) can gain, and their
gains are found as in FasterPAM (Schubert and Rousseeuw 2021): one pass over the rows for a candidate gives
its gain in the place of any representative. After a swap the inner problem is solved again: it says whether
it gained, and sets new prices.

The rows' costs to all representatives are kept, (m, n): swaps are for tables of some ten thousand rows.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.descent.loop import Steps, points_at
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.gains import Gains

_LEAST = 1e-6  # gain of the objective, relative, below which a swap is not worth its bookkeeping
_BATCH = 512  # candidates that are compared before the best of them are taken
_SCREENED = 1024  # candidates that are worth a look at all rows
_AGAIN = 32  # candidates that are compared again after a swap
_REFUSED = 6  # candidates of a batch that may fail in a row


def swap_rows(
    steps: Steps, rows: np.ndarray, gains: Gains, screen: Gains, rng: np.random.Generator, sweeps: int
) -> np.ndarray:
    """Rows (m,) that no swap improves, or what `sweeps` looks at the candidates made of `rows`.

    A look takes the candidates that `screen`, which may estimate, finds best, and compares them by `gains`.
    """
    problem = steps.problem
    candidates, cells = problem.candidates()
    objective, _ = steps.solve(points_at(problem.table, rows))
    state = SwapState(problem, rows, steps.prices, objective)
    for _ in range(sweeps):
        order = rng.permutation(len(candidates))
        losses = [
            screen.best(state, candidates[part], cells[part])[0]
            for part in np.array_split(order, -(-len(order) // _BATCH))
        ]
        order = order[np.argsort(np.concatenate(losses), kind="stable")][:_SCREENED]
        before = objective
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            objective = _take_best(steps, state, gains, candidates[batch], cells[batch], objective)
        if objective == before:
            break
    return state.rows


def _take_best(
    steps: Steps,
    state: "SwapState",
    gains: Gains,
    candidates: np.ndarray,
    cells: np.ndarray,
    objective: float,
) -> float:
    """Swaps in the best candidates while one of them lowers the objective; returns the objective.

    A candidate that fails says at which prices it does. These bound all others too, so that the next one
    tried is the best by both bounds.
    """
    prices, refused = steps.prices, 0
    bound = np.full(len(candidates), -np.inf)
    leaving = np.zeros(len(candidates), np.int64)
    while len(candidates):
        loss, place = gains.best(state, candidates, cells)
        loss += state.bound() - objective
        leaving = np.where(loss > bound, place, leaving)
        bound = np.maximum(loss, bound)
        ranking = np.argsort(bound, kind="stable")[:_AGAIN]
        ranking = ranking[bound[ranking] < -_LEAST * objective]
        if len(ranking) == 0 or refused == _REFUSED:
            break
        candidates, cells, bound, leaving = (a[ranking] for a in (candidates, cells, bound, leaving))
        rows = state.rows.copy()
        state.swap(int(leaving[0]), int(candidates[0]))
        found, _ = steps.solve(points_at(steps.problem.table, state.rows))
        state.set_prices(steps.prices, found)
        if found < objective * (1 - _LEAST):
            objective, prices, refused = found, steps.prices, 0
            bound = np.full(len(bound), -np.inf)
        else:
            refused += 1
            state.restore(rows)
        candidates, cells, bound, leaving = (a[1:] for a in (candidates, cells, bound, leaving))
    if refused:
        steps.prices = prices
        state.set_prices(prices, objective)
    return objective


@dataclass
class _Nearest:
    """The costs of every row to its two nearest representatives, prices taken off, and the nearest one."""

    owner: np.ndarray
    first: np.ndarray
    second: np.ndarray


class SwapState:
    """The rows that are representatives, and the costs of all rows to them."""

    def __init__(self, problem: Problem, rows: np.ndarray, prices: np.ndarray, objective: float) -> None:
        self.problem = problem
        self.rows = rows.copy()
        self._columns = np.ascontiguousarray(problem.table.values.T, dtype=np.float32)
        self._features = np.stack([self._cost_to(row) for row in rows])
        self.set_prices(prices, objective)

    def set_prices(self, prices: np.ndarray, objective: float) -> None:
        """New prices, optimal for the present rows, whose objective is given.

        `extra` (G, n) is what a cell adds to a row's feature cost: the move less the price.
        """
        self.extra = (self.problem.move[:, self.problem.cells.cell] - prices[:, None]).astype(np.float32)
        self._sort()
        self._fair = objective - self._mean()  # min ⟨u, w⟩ over fair w

    def bound(self) -> float:
        """D(u) for the present rows: a lower bound of their objective."""
        return self._mean() + self._fair

    def _mean(self) -> float:
        return float(self.nearest.first.mean(dtype=np.float64))

    def swap(self, j: int, row: int) -> None:
        """Puts `row` in the place of representative j."""
        self.rows[j] = row
        self._features[j] = self._cost_to(row)
        self._sort()

    def restore(self, rows: np.ndarray) -> None:
        """Goes back to other `rows` (m,)."""
        for j in np.flatnonzero(rows != self.rows):
            self.rows[j] = rows[j]
            self._features[j] = self._cost_to(rows[j])
        self._sort()

    def _cost_to(self, row: int) -> np.ndarray:
        table, cost = self.problem.table, self.problem.cost
        return feature_costs(self._columns, table.n_numeric, self._columns[:, row], cost).astype(np.float32)

    def _sort(self) -> None:
        costs = self._features + self.extra[self.problem.cell_of]
        places = np.arange(costs.shape[1])
        owner = costs.argmin(axis=0)
        first = costs[owner, places]
        costs[owner, places] = np.inf
        self.nearest = _Nearest(owner, first, costs.min(axis=0))
