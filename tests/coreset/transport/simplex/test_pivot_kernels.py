"""Compiled pivots are the plain ones."""

import numpy as np
import pytest

from fwc_llm.coreset.transport.narrowing import Columns, two_cheapest
from fwc_llm.coreset.transport.parity import ParitySet
from fwc_llm.coreset.transport.simplex.dual_simplex import DualSimplex, InfeasibleError
from fwc_llm.coreset.transport.simplex.long_step import Choices


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "outcomes", "n"), [(1, 2, 20), (2, 2, 300), (3, 4, 200), (16, 2, 300)])
@pytest.mark.parametrize("kind", ["continuous", "whole"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.05])
def test_compiled_and_plain_pivots_agree(
    levels: int, outcomes: int, n: int, kind: str, epsilon: float
) -> None:
    for seed in range(3):
        rng = np.random.default_rng([seed, levels])
        cells = levels * outcomes
        cost = (
            rng.random((cells, n)) if kind == "continuous" else rng.integers(0, 4, (cells, n)).astype(float)
        )
        cost[rng.random(cost.shape) < 0.1] = np.inf
        cost[0] = np.where(np.isinf(cost).all(axis=0), 1.0, cost[0])
        fair, mass = ParitySet(rng.dirichlet(np.full(outcomes, 3.0)), epsilon, levels), rng.uniform(0.5, 2, n)
        prices = np.zeros(cells)
        key, least, _ = two_cheapest(cost, prices)
        plain, fast = (
            DualSimplex(Choices.of(cost - least), key, mass, prices, fair, 1e-12, None, compiled).solve()
            for compiled in (False, True)
        )
        one, other = (Columns(cost, mass).optimum(vertex) for vertex in (plain, fast))
        assert fast.pivots > 0
        assert other.cost == pytest.approx(one.cost, rel=1e-10, abs=1e-10 * mass.sum())
        bound = other.bound + mass.sum() * fair.best(fast.prices)[0]
        assert bound == pytest.approx(other.cost, rel=1e-9, abs=1e-10 * mass.sum())
        np.testing.assert_allclose(other.load.sum(), mass.sum(), rtol=1e-12)


@pytest.mark.slow
def test_compiled_pivots_notice_what_has_no_plan() -> None:
    cost = np.full((4, 10), np.inf)
    cost[0], cost[:, 0] = 1.0, 1.0
    simplex = DualSimplex(
        Choices.of(cost - 1.0),
        np.zeros(10, dtype=np.intp),
        np.ones(10),
        np.zeros(4),
        ParitySet(np.array([0.5, 0.5]), 0.1, 2),
        1e-12,
        None,
        True,
    )
    with pytest.raises(InfeasibleError, match="parity limit"):
        simplex.solve()
