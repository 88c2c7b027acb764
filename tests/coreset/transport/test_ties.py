"""Costs that often tie are solved as fast and as exactly as others, and HiGHS agrees."""

import numpy as np
import pytest

from fwc_llm.coreset.transport.column_generation import CostTable
from fwc_llm.coreset.transport.inner_problem import fair_transport
from fwc_llm.coreset.transport.linear_program import linear_program, parity_set
from tests.coreset.programs import certified


def drawn(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Costs that tie: whole numbers, mismatches of equal or of two weights, or with barred
    cells.
    """
    if kind == "whole":
        return rng.integers(0, 6, shape).astype(float)
    costs = rng.binomial(6, 0.5, shape).astype(float)
    if kind == "halves":
        costs += 0.5 * rng.integers(0, 2, shape)
    if kind == "barred":
        costs[rng.random(shape) < 0.1] = np.inf
        costs[:, 0] = rng.integers(0, 6, len(costs))
    return costs


@pytest.mark.parametrize("kind", ["whole", "mismatches", "halves", "barred"])
@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("terms", ["limit", "weights", "penalty", "levels' limits"])
def test_ties_have_the_optimum_of_the_program(
    kind: str, levels: int, terms: str
) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        n = 400
        cost = drawn(kind, (n, 2 * levels), rng)
        share = np.array([0.35, 0.65])
        if terms == "weights":
            weights = rng.integers(1, 9, n).astype(float)
        else:
            weights = None
        epsilon = {"penalty": None, "levels' limits": rng.random(levels) / 5}.get(
            terms, 0.05
        )
        penalty = 0.7 if terms == "penalty" else None
        assert CostTable(cost, np.ones(n)).step in (1.0, 0.5)
        found = fair_transport(
            cost, levels, 2, share, epsilon, sample_weight=weights, penalty=penalty
        )
        fair = parity_set(share, epsilon, penalty, levels, None)
        mass = np.ones(n) if weights is None else weights
        vertex = linear_program(cost, mass, fair)
        best = CostTable(cost, mass).optimum(vertex)
        expected = (best.cost + fair.charge(best.load)) / mass.sum()
        assert found.objective == pytest.approx(expected, rel=1e-8)
        if terms in ("limit", "weights"):
            certified(found, cost, share, epsilon, weights)


def test_a_step_is_known_only_where_costs_tie_on_a_grid() -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 9, (900, 4))
    mass = np.ones(900)
    assert CostTable(whole.astype(np.float32), mass).step == 1
    assert CostTable(0.25 * whole, mass).step == 0.25
    assert CostTable(rng.random((900, 4)), mass).step is None
    assert (
        CostTable(whole + 0.1234567 * rng.integers(0, 2, whole.shape), mass).step
        is None
    )
    assert CostTable(np.zeros((900, 4)), mass).step is None
