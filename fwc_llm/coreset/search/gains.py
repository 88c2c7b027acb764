"""What a swap would save: with numpy alone, or compiled (see `fwc_llm.coreset.search.swaps`)."""

from typing import Any, Protocol

import numpy as np

from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.problem.problem import Problem


class Nearest(Protocol):
    """The two nearest representatives of every row: (n,) the nearest, its cost, the second's cost."""

    owner: np.ndarray
    first: np.ndarray
    second: np.ndarray


class State(Protocol):
    """The present representatives: `rows` (m,), what cells add to a row's cost (G, n), and who is near."""

    rows: np.ndarray
    extra: np.ndarray
    nearest: Any


class Gains:
    """Compares candidates with numpy alone."""

    def __init__(self, problem: Problem, rows: np.ndarray | None = None) -> None:
        """The means are over `rows` (s,) only, if given: a quick estimate."""
        self.problem = problem
        self.rows = np.arange(problem.table.n) if rows is None else rows
        self._columns = np.ascontiguousarray(problem.table.values.T, dtype=np.float32)

    def best(self, state: State, candidates: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate row (c,) of a cell: the change of the mean cost in the best place, and which.

        The change is infinite where the candidate equals a representative of its cell that stays.
        """
        shared, own = self._losses(state, candidates, cells)
        problem = self.problem
        loss = shared[:, None] + own
        loss[cells[:, None] != problem.cell_of] = np.inf
        # A value that is there may only replace itself, which is no swap.
        equal = problem.ids[candidates][:, None] == problem.ids[state.rows]
        loss[(equal & (cells[:, None] == problem.cell_of)).any(axis=1)] = np.inf
        leaving = loss.argmin(axis=1)
        return loss[np.arange(len(loss)), leaving] / len(self.rows), leaving

    def _losses(
        self, state: State, candidates: np.ndarray, cells: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(c,) change of the summed cost if nobody leaves, and (c, m) what it costs if one does."""
        table, columns = self.problem.table, self._columns[:, self.rows]
        first, second = state.nearest.first[self.rows], state.nearest.second[self.rows]
        owner = state.nearest.owner[self.rows]
        shared, own = np.empty(len(candidates)), np.empty((len(candidates), self.problem.m))
        for q, (row, g) in enumerate(zip(candidates, cells, strict=True)):
            cost = feature_costs(columns, table.n_numeric, self._columns[:, row], self.problem.cost)
            cost = cost.astype(np.float32) + state.extra[g, self.rows]
            kept = np.minimum(cost, first)
            shared[q] = (kept - first).sum(dtype=np.float64)
            own[q] = np.bincount(owner, weights=np.minimum(cost, second) - kept, minlength=self.problem.m)
        return shared, own
