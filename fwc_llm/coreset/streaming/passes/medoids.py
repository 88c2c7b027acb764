"""Moves of representatives that are real rows: the best of a few rows of the sample, costed exactly.

The sample says which of its rows are promising. The reading that solves the inner problem costs these for all
rows that a representative keeps.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.descent.updates import column_table
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.streaming.collecting.collect import CandidateCosts
from fwc_llm.coreset.streaming.collecting.sums import BlockSums
from fwc_llm.coreset.streaming.passes.inner import Solved

_CANDIDATES = 12  # of each representative, its own row among them
_LOOKED_AT = 3000  # rows of the sample by which candidates of one representative are compared


@dataclass(frozen=True)
class Medoids:
    """The candidates of one reading."""

    problem: Problem  # of the sample
    rows: np.ndarray  # (m, c) of the sample; the first is the representative's own

    @classmethod
    def expected(cls, problem: Problem, rows: np.ndarray, label: np.ndarray) -> "Medoids":
        """Candidates for representatives on the `rows` (m,) that carry the sample as `label` (s,) says."""
        chosen = np.repeat(rows[:, None], _CANDIDATES, axis=1)
        order = np.argsort(label, kind="stable")
        start = np.searchsorted(label[order], np.arange(problem.m + 1))
        pools = [np.zeros(problem.table.n, bool) for _ in problem.pools]
        for allowed, pool in zip(pools, problem.pools, strict=True):
            allowed[pool] = True
        for j, g in enumerate(problem.cell_of):
            carried = order[start[j] : start[j + 1]]
            carried = carried[:: -(-len(carried) // _LOOKED_AT) or 1]
            among = carried[pools[g][carried]]
            among = among[np.unique(problem.ids[among], return_index=True)[1]]
            if len(among):
                best = among[np.argsort(_costs(problem, carried, among), kind="stable")[: _CANDIDATES - 1]]
                chosen[j, 1 : 1 + len(best)] = best
        return cls(problem, chosen)

    def collector(self) -> CandidateCosts:
        """What the reading has to collect."""
        values = self.problem.table.values[self.rows].astype(np.float64)
        return CandidateCosts(values, self.problem.table.n_numeric, self.problem.cost == "sqeuclidean")

    def move(self, solved: Solved) -> np.ndarray:
        """The representatives' rows (m,), moved one after another, distinct wherever they were."""
        found: BlockSums = solved.collected(0)
        costs, ids, cell_of = found.total(), self.problem.ids, self.problem.cell_of
        moved = self.rows[:, 0].copy()
        for j in range(len(moved)):
            taken = np.isin(ids[self.rows[j]], ids[moved[cell_of == cell_of[j]]])
            open_costs = np.where(taken, np.inf, costs[j])
            best = int(open_costs.argmin())
            if open_costs[best] < costs[j, 0] * (1 - 1e-12):
                moved[j] = self.rows[j, best]
        return moved


def _costs(problem: Problem, carried: np.ndarray, among: np.ndarray) -> np.ndarray:
    """What the rows that are `carried` cost at each of the rows `among` them."""
    weight = np.ones(len(carried)) if problem.masses is None else problem.masses.values[carried]
    total, table = np.zeros(len(among)), problem.table
    for k in range(table.p):
        numeric = k < table.n_numeric
        column = table.numbers[:, k] if numeric else table.codes[:, k - table.n_numeric]
        values, place = np.unique(column[carried], return_inverse=True)
        mass = np.bincount(place, weight, len(values))
        costs = column_table(mass, values, numeric, problem.cost)
        total += costs[np.searchsorted(values, column[among])]
    return total
