"""The descent: assign, solve the inner problem, move the representatives, until they stay put.

Algorithm 1 of the paper (majority minimisation) with the exact inner problem; method.md, sections 1 to 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.assignment import Nearest
from fwc_llm.coreset.cells import Cells
from fwc_llm.coreset.encoding import Table
from fwc_llm.coreset.transport import Transport, fair_transport
from fwc_llm.coreset.updates import Medoids, Shares, means, medians


@dataclass(frozen=True)
class Problem:
    """All that stays fixed while the representatives move.

    `cell_of` (m,) is each representative's cell, ascending; `target` (|Y|,) is p_T; `pools[g]` are the
    rows that may stand for cell g, and `ids` (n,) are equal for rows that count as the same.
    """

    table: Table
    cells: Cells
    cell_of: np.ndarray
    target: np.ndarray
    epsilon: float | None
    cost: str
    support: str
    pools: list[np.ndarray]
    ids: np.ndarray

    @property
    def m(self) -> int:
        """Number of representatives."""
        return len(self.cell_of)


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: `points` (m, p), `row_index` (m,) or None, `weights` (m,) summing to m."""

    points: np.ndarray
    row_index: np.ndarray | None
    weights: np.ndarray
    objective: float
    lower_bound: float
    violation: float
    history: tuple[float, ...]
    converged: bool


Assign = Callable[[np.ndarray, np.ndarray], Nearest]


def descend(
    problem: Problem, assign: Assign, medoids: Medoids | None, start: np.ndarray, max_iter: int
) -> Descent:
    """Runs the descent from `start`: points (m, p), or rows (m,) where `medoids` picks real rows."""
    rows = start if medoids is not None else None
    points = _points(problem.table, start)
    history: list[float] = []
    warm: np.ndarray | None = None
    converged = False
    while True:
        nearest = assign(points, problem.cell_of)
        inner = solve_inner(problem, nearest, warm)
        warm = inner.dual
        history.append(inner.objective)
        shares = share_out(inner, nearest, problem.m)
        if len(history) > max_iter:
            break
        if medoids is not None and rows is not None:
            moved_rows = medoids.move(shares, rows, problem.cell_of)
            converged = bool((moved_rows == rows).all())
            rows, moved = moved_rows, _points(problem.table, moved_rows)
        else:
            update = medians if problem.cost == "l1" else means
            moved = update(problem.table, shares, points)
            converged = bool((moved == points).all())
        if converged:
            break
        points = moved
    weights = np.add.reduceat(np.append(shares.weight, 0.0), shares.start[:-1])
    weights[shares.start[:-1] == shares.start[1:]] = 0.0
    return Descent(
        points,
        rows,
        weights * (problem.m / weights.sum()),
        inner.objective,
        inner.lower_bound,
        inner.violation,
        tuple(history),
        converged,
    )


def _points(table: Table, start: np.ndarray) -> np.ndarray:
    """Points (m, p) float64, given as such or as rows (m,)."""
    return np.array(table.values[start] if start.ndim == 1 else start, dtype=np.float64)


def solve_inner(problem: Problem, nearest: Nearest, warm: Any) -> Transport:
    """The inner problem for these representatives."""
    return fair_transport(
        nearest.cost,
        problem.cells.n_levels,
        problem.cells.n_outcomes,
        problem.target,
        problem.epsilon,
        warm,
    )


def share_out(inner: Transport, nearest: Nearest, m: int) -> Shares:
    """The plan, row to cell, as each representative's share of the rows."""
    plan = inner.plan.tocoo()
    keep = plan.data > 0
    row, cell = plan.coords[0][keep], plan.coords[1][keep]
    weight = plan.data[keep] * len(nearest.cost)
    representative = nearest.label[row, cell]
    order = np.argsort(representative, kind="stable")
    start = np.searchsorted(representative[order], np.arange(m + 1))
    return Shares(row[order], weight[order], start)
