"""The steps of an iteration with numpy alone: for small tables, which should not wait for a compiler.

The nearest representative of every cell for every row, c_ig = min over j in g of c_ij, is all that the inner
problem needs to know (docs/method.md, "The inner problem"). Of tiny tables more is kept: the many starts and
swaps there meet the same representatives again.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from fwc_llm.coreset.descent.updates import Better, Groups, Medoids, Shares, means, medians
from fwc_llm.coreset.problem.ground_cost import blocks, cost_matrix, feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.transport.fair import Transport
from fwc_llm.coreset.weights import Masses

_TINY = 512  # rows up to which the costs of all pairs of rows are kept
_REMEMBERED = 2**20  # numbers of inner problems that are kept, about


def share_out(inner: Transport, label: np.ndarray, m: int, masses: Masses | None = None) -> Shares:
    """The plan, rows to cells, as each representative's share; `label` (G, n): the nearest in each cell."""
    return Shares(
        label[inner.cell, np.arange(len(inner.cell))],
        inner.split_row,
        label[inner.split_cell, inner.split_row],
        inner.split_share,
        m,
        masses,
        inner.row_mass,
    )


class PlainSteps:
    """See `fwc_llm.coreset.descent.loop.Steps`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._columns = np.ascontiguousarray(problem.table.values_of(slice(None)).T)
        self.prices = np.zeros(problem.cells.n_cells)
        self._medoids: Medoids | None = None
        self._known: dict[bytes, tuple[Transport, Shares]] = {}

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cost (n, G) of each cell's nearest point, inf where it has none, and which, (G, n)."""
        problem = self.problem
        n = self._columns.shape[1]
        cost = np.full((problem.cells.n_cells, n), np.inf)
        label = np.full((problem.cells.n_cells, n), -1, np.int32)
        for rows in blocks(n):
            block = np.ascontiguousarray(self._columns[:, rows])
            for j, g in enumerate(problem.cell_of):
                costs = feature_costs(block, points[j], problem.cost, problem.table.mismatch)
                closer = costs < cost[g, rows]
                np.copyto(cost[g, rows], costs, where=closer)
                label[g, rows][closer] = j
        return cost.T + problem.move[problem.cells.cell], label

    def certify(self, points: np.ndarray) -> tuple[Transport, Shares]:
        """See `Steps`."""
        tiny = self.problem.table.n <= _TINY
        key = points.tobytes() if tiny else b""
        solved = self._known.get(key)
        if solved is None:
            cost, label = self.nearest(points)
            inner = self.problem.transport(cost, self.prices)
            solved = inner, share_out(inner, label, self.problem.m, self.problem.masses)
            if tiny and len(self._known) * (self.problem.table.n + points.size) < _REMEMBERED:
                self._known[key] = solved
        self.prices = solved[0].prices
        return solved

    def solve(self, points: np.ndarray) -> tuple[float, Shares]:
        """See `Steps`."""
        inner, shares = self.certify(points)
        return inner.objective, shares

    def rest(self) -> None:
        """See `Steps`: there is nothing."""

    def move_points(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        update = medians if self.problem.cost == "l1" else means
        return update(self.problem.table, shares, points)

    def move_rows(self, shares: Shares, rows: np.ndarray) -> np.ndarray:
        """See `Steps`."""
        problem = self.problem
        if self._medoids is None:
            kind = TinyMedoids if problem.table.n <= _TINY else Medoids
            self._medoids = kind(problem.table, problem.cost, problem.ids, problem.pools)
        return self._medoids.move(shares, rows, problem.cell_of)


class TinyMedoids(Medoids):
    """See `Medoids`; from the costs of all pairs of rows."""

    @cached_property
    def _apart(self) -> np.ndarray:
        return cost_matrix(self.table, self.table, self.cost)

    def _better(self, groups: Groups, row_index: np.ndarray, cell_of: np.ndarray) -> Iterator[Better]:
        carried = np.zeros((len(cell_of), self.table.n))
        carried[np.repeat(np.arange(len(cell_of)), np.diff(groups.start)), groups.rows] = (
            groups.units * groups.unit
        )
        costs = carried @ self._apart
        for j in np.flatnonzero(np.diff(groups.start)).tolist():
            pool = self.pools[cell_of[j]]
            yield Better(j, float(costs[j, row_index[j]]), pool, costs[j, pool])
