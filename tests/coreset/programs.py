"""The problems solved by trying all, what every plan must keep, plans that split rows, and the
memory of a call.
"""

import tracemalloc
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from evals.bench.constraints import Instance, by_highs
from evals.plans import plan_of
from fwc_llm.coreset.descent.updates import RowAssignment
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.transport.inner_problem import Transport, fair_transport
from fwc_llm.coreset.weights import Masses


def by_cell(full: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
    """(n, cells) least cost of each row to the representatives of each cell."""
    return np.stack(
        [full[:, cell == g].min(axis=1, initial=np.inf) for g in range(cells)], axis=1
    )


def optimum(
    cost: np.ndarray,
    target: Any,
    epsilon: Any = None,
    weights: Any = None,
    penalty: float | None = None,
) -> float:
    """Least cost of moving rows to cells, by HiGHS over all pairs of a row and a cell."""
    levels = cost.shape[1] // len(target)
    mass = np.ones(len(cost)) if weights is None else weights
    limits = None if epsilon is None else np.broadcast_to(epsilon, levels)
    return by_highs(Instance(cost, np.asarray(target), limits, penalty, mass))


def best_of_all(problem: Problem) -> float:
    """The least objective of all choices of candidates, each solved by itself."""
    apart = cost_matrix(problem.table, problem.table, problem.cost)
    move = problem.move[problem.cells.cell]
    candidates, of = problem.candidates()
    nearest = [
        [
            apart[:, list(rows)].min(axis=1, initial=np.inf) + move[:, g]
            for rows in combinations(candidates[of == g], seats)
        ]
        for g, seats in enumerate(problem.seats)
    ]
    return min(
        problem.transport(np.stack(pick, axis=1), None).objective
        for pick in product(*nearest)
    )


def peak(run: Callable[[], object]) -> int:
    """The most bytes that a call holds at a time, beside what is there before."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def violation_of(mass: np.ndarray, target: Any) -> float:
    """The largest relative distance of a level's shares to the target, of the levels that carry
    mass.
    """
    table = mass.reshape(-1, len(target))
    table = table[table.any(axis=1)]
    return float(
        np.abs(table / table.sum(axis=1, keepdims=True) / target - 1).max(initial=0.0)
    )


def certified(
    cost: np.ndarray,
    target: Any,
    epsilon: float | None,
    weights: Any = None,
    prices: Any = None,
) -> Transport:
    """Solve the inner problem, and check the certificate on the plan itself, from nothing but the
    plan, the costs and the weights.
    """
    shape = cost.shape[1] // len(target), len(target)
    found = fair_transport(cost, *shape, target, epsilon, prices, sample_weight=weights)
    cost = cost.astype(float)
    if weights is None:
        mass = np.full(len(cost), 1 / len(cost))
    else:
        mass = weights / weights.sum()
    plan = plan_of(found).toarray()
    scale = max(1.0, abs(found.objective))
    assert (plan >= 0).all()
    assert (
        np.abs(plan.sum(axis=1) - mass).max() <= 1e-9 * mass.max()
    )  # the lightest may be left out
    assert plan_of(found).nnz <= sum(cost.shape)
    own = plan[np.arange(len(plan)), found.cell]
    assert (own >= plan.max(axis=1) - 1e-9 * mass).all()  # a cell has the largest part
    np.testing.assert_allclose(found.mass, plan.sum(axis=0), rtol=1e-9, atol=1e-15)
    value = plan[plan > 0] @ cost[plan > 0]
    assert found.objective == pytest.approx(value, rel=1e-11, abs=1e-11 * scale)
    assert 0 <= found.objective - found.lower_bound <= 1e-9 * scale
    assert found.violation == pytest.approx(
        violation_of(plan.sum(axis=0), target), abs=1e-11
    )
    assert epsilon is None or found.violation <= epsilon + 1e-9
    return found


def alike(n: int) -> tuple[Masses, np.ndarray]:
    """Equal masses of n rows."""
    return Masses(np.ones(n)), np.full(n, 1 / n)


def whole(label: np.ndarray, m: int) -> RowAssignment:
    none = np.zeros(0, np.int64)
    return RowAssignment(
        label.astype(np.int32), none, none, np.zeros(0), m, *alike(len(label))
    )


def torn(label: np.ndarray, m: int, rng: np.random.Generator) -> RowAssignment:
    """Some rows split between two or three representatives, as plans do."""
    row = np.repeat(
        rng.permutation(len(label))[: min(len(label), 4)], rng.integers(1, 3)
    )
    return RowAssignment(
        label.astype(np.int32),
        row,
        rng.integers(0, m, len(row)),
        rng.random(len(row)).round(2) / 2,
        m,
        *alike(len(label)),
    )
