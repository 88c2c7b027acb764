"""The descent: assign rows, solve the inner problem, move representatives.

Algorithm 1 of the paper (majority minimisation) with the exact inner problem (docs/method.md, "The
problem").
"""

from dataclasses import dataclass, replace

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.descent.assignment import nearest_points
from fwc_llm.coreset.descent.updates import Centres, Changes, RowAssignment, medoids
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.transport.inner_problem import Transport
from fwc_llm.coreset.weights import Masses

_IDLE = 5  # iterations without a gain that end a descent
# rows from which a representative moves twice as far; with fewer rows it could lose them all
_LARGE = 4


def share_out(inner: Transport, label: Array, m: int, masses: Masses) -> RowAssignment:
    """Turn a plan to cells into a plan to points; `label` (G, n): each row's nearest point in
    every cell.
    """
    parts = inner.split_row, label[inner.split_cell, inner.split_row], inner.split_share
    nearest = label[inner.cell, np.arange(len(inner.cell))]
    return RowAssignment(nearest, *parts, m, masses, inner.row_mass)


class Steps:
    """The steps of an iteration in float64, for small tables."""

    def __init__(self, problem: Problem, threads: Threads | None = None) -> None:
        self.problem = problem
        self.prices = np.zeros(problem.cells.n_cells)  # of the last inner problem
        self._threads = threads or Threads(1)
        self._centres = Centres(problem.table, problem.cost, problem.m, self._threads)
        self._changes = Changes(problem.table.n)
        self._last_rows = np.full(problem.m, -1)

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Return the float64 cost (n, G) and index (G, n) of each cell's nearest point."""
        return nearest_points(self.problem, points, self._threads)

    def certify(self, points: Array) -> tuple[Transport, RowAssignment]:
        """Solve the inner problem for `points` (m, p) in float64; return its plan, to cells and
        to points.
        """
        cost, label = self.nearest(points)
        inner = self.problem.transport(cost, self.prices)
        self.prices = inner.prices
        return inner, share_out(inner, label, self.problem.m, self.problem.masses)

    def solve(self, points: Array) -> tuple[Transport, RowAssignment]:
        """`certify`, perhaps in less precision."""
        return self.certify(points)

    def rest(self) -> None:
        """Free the memory of the rows' state."""

    def move_points(self, shares: RowAssignment, points: Array) -> Array:
        """Return (m, p) the points of least cost for the rows that each representative carries."""
        return self._centres.move(shares, points)

    def move_rows(self, shares: RowAssignment, rows: Array) -> Array:
        """Return (m,) the candidates of least cost among the rows that each representative
        carries; one that carries the same rows as before stays.
        """
        changed = self._changes.find(shares) | (rows != self._last_rows)
        self._last_rows = medoids(self.problem, shares, rows, np.flatnonzero(changed))
        return self._last_rows.copy()


@dataclass(frozen=True)
class Descent:
    """The result of a descent."""

    points: Array  # (m, p) the best points
    rows: Array | None  # (m,) their positions; None for free points
    history: tuple[
        float, ...
    ]  # objective of the start and of every iteration that lowered it
    converged: bool  # whether the descent ended by itself, before `max_iter`

    @property
    def objective(self) -> float:
        """The last and lowest objective."""
        return self.history[-1]

    def after(self, earlier: "Descent") -> "Descent":
        """This descent with the history of an earlier one, which ended at a higher objective, in
        front.
        """
        lower = tuple(
            objective for objective in self.history if objective < earlier.objective
        )
        return replace(self, history=earlier.history + lower)


def descend(
    steps: Steps, start: Array, max_iter: int, tolerance: float = 0.0
) -> Descent:
    """Move the representatives at most `max_iter` times, from rows (m,) or points (m, p).

    The descent ends when no representative moves, when an iteration lowers the objective by less
    than the share `tolerance`, or after five iterations in a row without a gain. With a tolerance,
    free points first move twice as far, to avoid poor local optima (over-relaxation; Xiao 2010).
    """
    table = steps.problem.table
    if steps.problem.support != "free":
        rows = start
    else:
        rows = None
    far = tolerance > 0 and rows is None
    points = points_at(table, start)
    inner, shares = steps.solve(points)
    best = (points, rows)
    history = [inner.objective]
    converged = False
    idle = 0
    for _ in range(max_iter):
        if rows is not None:
            moved_rows = steps.move_rows(shares, rows)
            converged = bool((moved_rows == rows).all())
            rows = moved_rows
            moved = points_at(table, moved_rows)
        else:
            moved = steps.move_points(shares, points)
            if far:
                large = np.bincount(shares.label, minlength=shares.m) >= _LARGE
                moved[large, : table.n_numeric] += (moved - points)[
                    large, : table.n_numeric
                ]
            if (
                steps.problem.to_ranks
            ):  # a column's best rank is the one nearest to its best value
                moved = steps.problem.to_ranks(moved)
            converged = bool((moved == points).all())
        if converged:
            break
        points = moved
        del shares  # free the memory for the next one
        inner, shares = steps.solve(points)
        objective = inner.objective
        gain = history[-1] - objective
        if gain > 0:
            best = (points, rows)
            idle = 0
            history.append(objective)
        else:
            idle += 1
        if idle == _IDLE or (gain <= tolerance * abs(objective) and tolerance > 0):
            if not far:
                converged = True
                break
            far = False
            if gain <= 0:  # ordinary moves only gain: start them from the lowest points
                points = best[0]
                _, shares = steps.solve(points)  # noqa: RUF059 - the next turn uses it
    return Descent(*best, tuple(history), converged)


def points_at(table: EncodedTable, start: Array) -> Array:
    """Return points (m, p) as float64, from points or from rows (m,) of the table."""
    if start.ndim == 1:
        return table.values_of(start)
    return np.array(start, dtype=np.float64)
