"""The descent: assign, solve the inner problem, move the representatives, until they stay put.

Algorithm 1 of the paper (majority minimisation) with the exact inner problem (docs/method.md, "The problem").
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fwc_llm.coreset.descent.updates import Changes, RowAssignment, centres, medoids
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import blocks
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.inner_problem import Transport
from fwc_llm.coreset.weights import Masses

_IDLE = 5  # iterations without a gain that end a descent
_LARGE = 4  # rows from which a representative may overshoot: with fewer it could lose them all


def share_out(inner: Transport, label: np.ndarray, m: int, masses: Masses | None = None) -> RowAssignment:
    """The plan, rows to cells, as each representative's share; `label` (G, n): the nearest in each cell."""
    return RowAssignment(
        label[inner.cell, np.arange(len(inner.cell))],
        inner.split_row,
        label[inner.split_cell, inner.split_row],
        inner.split_share,
        m,
        masses,
        inner.row_mass,
    )


class Steps:
    """The steps of an iteration with numpy alone: for small tables, which should not wait for a compiler.

    `prices` (G,) are those of the last inner problem.
    """

    def __init__(self, problem: Problem, threads: Threads | None = None) -> None:
        self.problem = problem
        self.prices = np.zeros(problem.cells.n_cells)
        self._threads = threads or Threads(1)
        self._changes = Changes()

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.problem.table.values_of(slice(None)).T)

    def nearest(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cost (n, G) of each cell's nearest point, inf where it has none, and which, (G, n); in float64."""
        problem = self.problem
        n = self._columns.shape[1]
        cost = np.full((problem.cells.n_cells, n), np.inf)
        label = np.full((problem.cells.n_cells, n), -1, np.int32)
        for rows in blocks(n):
            block = np.ascontiguousarray(self._columns[:, rows])
            for j, g in enumerate(problem.cell_of):
                costs = problem.feature_cost.between(block, points[j])
                closer = costs < cost[g, rows]
                np.copyto(cost[g, rows], costs, where=closer)
                label[g, rows][closer] = j
        return cost.T + problem.move[problem.cells.cell], label

    def certify(self, points: np.ndarray) -> tuple[Transport, RowAssignment]:
        """The same as `solve` in float64, with all that certifies it."""
        cost, label = self.nearest(points)
        inner = self.problem.transport(cost, self.prices)
        self.prices = inner.prices
        return inner, share_out(inner, label, self.problem.m, self.problem.masses)

    def solve(self, points: np.ndarray) -> tuple[float, RowAssignment]:
        """Objective of the inner problem for the representatives `points` (m, p), and its plan."""
        inner, shares = self.certify(points)
        return inner.objective, shares

    def rest(self) -> None:
        """Lets go of what is known of the rows: other steps need the memory more."""

    def move_points(self, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
        """The minimisers of the representatives' shares over all points, (m, p)."""
        only = self._changes.find(shares, points)
        moved = centres(self.problem.table, shares, points, self.problem.cost, only, self._threads)
        return self._changes.keep(moved)

    def move_rows(self, shares: RowAssignment, rows: np.ndarray) -> np.ndarray:
        """The minimisers of the representatives' shares over the candidates that they carry, (m,)."""
        return medoids(self.problem, shares, rows)


@dataclass(frozen=True)
class Descent:
    """The best of a descent: `points` (m, p), their `rows` (m,) if they are rows, and the way there.

    `history` are the objectives of the start and of every move that was kept: it falls. `converged` says
    whether it ended by itself.
    """

    points: np.ndarray
    rows: np.ndarray | None
    history: tuple[float, ...]
    converged: bool

    @property
    def objective(self) -> float:
        """The last objective."""
        return self.history[-1]

    def after(self, earlier: "Descent") -> "Descent":
        """This descent as the continuation of an earlier one that ended higher."""
        lower = tuple(objective for objective in self.history if objective < earlier.objective)
        return replace(self, history=earlier.history + lower)


def descend(steps: Steps, start: np.ndarray, max_iter: int, tolerance: float = 0.0) -> Descent:
    """Moves the representatives from `start`, rows (m,) or points (m, p), at most `max_iter` times.

    It ends when they stay put, when an iteration gains less than `tolerance` of the objective, or when some
    in a row gain nothing. With a tolerance, free points first move twice as far, which passes by poor local
    optima (over-relaxation; Xiao 2010).
    """
    table = steps.problem.table
    rows = start if steps.problem.support != "free" else None
    far = tolerance > 0 and rows is None
    points = points_at(table, start)
    objective, shares = steps.solve(points)
    best, history = (points, rows), [objective]
    converged, idle = False, 0
    for _ in range(max_iter):
        if rows is not None:
            moved_rows = steps.move_rows(shares, rows)
            converged = bool((moved_rows == rows).all())
            rows, moved = moved_rows, points_at(table, moved_rows)
        else:
            moved = steps.move_points(shares, points)
            if far:
                large = np.bincount(shares.label, minlength=shares.m) >= _LARGE
                moved[large, : table.n_numeric] += (moved - points)[large, : table.n_numeric]
            if steps.problem.to_ranks:  # in one column, what is nearest to the best point is the best rank
                moved = steps.problem.to_ranks(moved)
            converged = bool((moved == points).all())
        if converged:
            break
        points = moved
        del shares  # room for the next
        objective, shares = steps.solve(points)
        gain = history[-1] - objective
        if gain > 0:
            best, idle = (points, rows), 0
            history.append(objective)
        else:
            idle += 1
        if idle == _IDLE or (gain <= tolerance * abs(objective) and tolerance > 0):
            if not far:
                converged = True
                break
            far = False
            if gain <= 0:  # the ordinary moves that follow, which only gain, start from the lowest points
                points = best[0]
                objective, shares = steps.solve(points)  # noqa: RUF059 - the next turn uses them
    return Descent(*best, tuple(history), converged)


def points_at(table: EncodedTable, start: np.ndarray) -> np.ndarray:
    """Points (m, p) float64, given as such or as rows (m,)."""
    return table.values_of(start) if start.ndim == 1 else np.array(start, dtype=np.float64)
