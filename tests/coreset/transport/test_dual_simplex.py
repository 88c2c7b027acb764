"""The dual simplex method against HiGHS."""

import numpy as np
import pytest

from fwc_llm.coreset.transport.column_generation import Columns
from fwc_llm.coreset.transport.dual_simplex import InfeasibleError, dual_simplex
from fwc_llm.coreset.transport.linear_program import linear_program
from fwc_llm.coreset.transport.parity import ParitySet, violation


@pytest.mark.parametrize(("levels", "outcomes", "n"), [(1, 2, 20), (2, 2, 300), (3, 4, 200), (16, 2, 300)])
@pytest.mark.parametrize("kind", ["continuous", "whole"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.05])
def test_vertices_are_optimal(levels: int, outcomes: int, n: int, kind: str, epsilon: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng([seed, levels])
        cells = levels * outcomes
        cost = (
            rng.random((cells, n)) if kind == "continuous" else rng.integers(0, 4, (cells, n)).astype(float)
        )
        cost[rng.random(cost.shape) < 0.1] = np.inf
        cost[0] = np.where(np.isinf(cost).all(axis=0), 1.0, cost[0])
        target = rng.dirichlet(np.full(outcomes, 3.0))
        fair, mass = ParitySet(target, epsilon, levels), rng.uniform(0.5, 2, n)
        table = Columns(cost, mass)
        vertex = dual_simplex(cost, mass, np.zeros(cells), fair, 1e-12)
        found = table.optimum(vertex)
        expected = table.optimum(linear_program(cost.T, mass, fair))
        assert vertex.pivots > 0
        assert found.cost == pytest.approx(expected.cost, rel=1e-8, abs=1e-8 * mass.sum())
        bound = found.bound + mass.sum() * fair.best(vertex.prices)[0]
        assert bound == pytest.approx(found.cost, rel=1e-9, abs=1e-10 * mass.sum())
        np.testing.assert_allclose(found.load.sum(), mass.sum(), rtol=1e-12)
        assert violation(found.load, target) <= epsilon + 1e-9


def test_what_has_no_plan_is_named() -> None:
    cost = np.full((4, 10), np.inf)
    cost[0], cost[:, 0] = 1.0, 1.0
    fair = ParitySet(np.array([0.5, 0.5]), 0.1, 2)
    with pytest.raises(InfeasibleError, match="parity limit"):
        dual_simplex(cost, np.ones(10), np.zeros(4), fair, 1e-12)
    with pytest.raises(InfeasibleError, match="parity limit"):
        linear_program(cost.T, np.ones(10), fair)
