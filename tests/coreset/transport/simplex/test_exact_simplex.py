"""The simplex method in exact arithmetic: rare outcomes and light rows, and as the fast one elsewhere."""

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fwc_llm.coreset.transport.cost_table import CostTable
from fwc_llm.coreset.transport.fair import fair_transport
from fwc_llm.coreset.transport.narrowing import solve
from fwc_llm.coreset.transport.parity import ParitySet, violation
from fwc_llm.coreset.transport.simplex.exact_simplex import exact_masses, solve_exactly
from fwc_llm.errors import FwcError


def rare(seed: int) -> tuple[Any, ...]:
    """Few rows, many cells, an outcome with a share from 1e-9 to 1e-7, and weights from 1e-10, or none."""
    rng = np.random.default_rng([21, seed])
    levels, outcomes, n = int(rng.integers(1, 15)), int(rng.integers(2, 5)), int(rng.integers(1, 40))
    shape = n, levels * outcomes
    cost = rng.integers(0, 4, shape).astype(float) if seed % 3 == 0 else rng.random(shape)
    target = np.exp(rng.uniform(np.log(1e-8), 0, outcomes))
    target[0] = 10 ** rng.uniform(-8.9, -7)
    weights = np.exp(rng.uniform(np.log(1e-10), 0, n)) if seed % 2 else None
    return cost, levels, outcomes, target / target.sum(), [0.0, 1e-6, 0.01, 0.3][seed // 2 % 4], weights


def certify(
    cost: np.ndarray, levels: int, outcomes: int, target: np.ndarray, epsilon: float, weights: Any
) -> None:
    """Solve, and check the plan from nothing but itself."""
    found = fair_transport(cost, levels, outcomes, target, epsilon, sample_weight=weights)
    plan = found.plan.toarray()
    each = np.full(len(cost), 1 / len(cost)) if weights is None else weights / weights.sum()
    assert np.abs(plan.sum(axis=1) - each).max() <= 1e-9
    assert (plan >= 0).all()
    assert violation(found.mass, target) <= epsilon + 1e-9
    np.testing.assert_allclose(found.mass, plan.sum(axis=0), rtol=1e-9, atol=1e-13)
    assert (plan * cost).sum() == pytest.approx(found.objective, rel=1e-9, abs=1e-12)
    assert 0 <= found.objective - found.lower_bound <= 1e-9 * max(1.0, abs(found.objective))


@pytest.mark.slow
def test_no_plan_is_refused_for_rare_outcomes_or_light_rows() -> None:
    for seed in range(120):
        certify(*rare(seed))


@pytest.mark.parametrize("seed", [1, 55, 95, 157, 219, 227])
def test_plans_that_were_refused_once(seed: int) -> None:
    certify(*rare(seed))


@pytest.mark.parametrize("tiny", [1e-12, 1e-100])
def test_shares_and_weights_may_be_tiny(tiny: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        target = np.array([tiny, 1e-9, 1.0 - 1e-9])
        weights = np.exp(rng.uniform(np.log(tiny), 0, 9))
        certify(rng.random((9, 12)), 4, 3, target, 0.01, weights)
        certify(rng.random((9, 12)), 4, 3, target, 0.0, None)


@pytest.mark.parametrize("n", [30, 3_000])
@pytest.mark.parametrize("kind", ["continuous", "whole"])
def test_exact_and_plain_steps_agree(kind: str, n: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        cost = rng.random((n, 8)) if kind == "continuous" else rng.integers(0, 5, (n, 8)).astype(float)
        fair = ParitySet(np.array([0.3, 0.7]), 0.01, 4)
        table = CostTable(cost).table()
        plain, exact = (solve(table, np.zeros(8), fair, 1e-12, exact=exact) for exact in (False, True))
        assert exact.cost == pytest.approx(plain.cost, rel=1e-10)
        assert exact.bound + n * fair.best(exact.vertex.prices)[0] == pytest.approx(exact.cost, rel=1e-9)
        np.testing.assert_allclose(exact.load.sum(), n, rtol=1e-12)


def test_what_is_below_the_least_numbers_is_refused_with_the_reason() -> None:
    cost = np.random.default_rng(0).random((9, 12))
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(FwcError, match=r"smallest share, 1e-318, is too small for double precision"),
    ):
        fair_transport(cost, 4, 3, [1e-318, 1e-9, 1 - 1e-9], 0.0)


def test_what_has_no_plan_is_named() -> None:
    barred = np.full((10, 4), np.inf)
    barred[:, 0], barred[0] = 1.0, 1.0
    with pytest.raises(FwcError, match="parity limit"):
        fair_transport(barred, 2, 2, [1e-9, 1 - 1e-9], 0.1, sample_weight=np.arange(1, 11) * 1e-9)


def test_fractions_are_solved_and_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((9, 9)) < 0.4, rng.integers(-3, 4, (9, 9)), 0) + 7 * np.eye(9, dtype=int)
    rows = [{k: Fraction(int(value)) for k, value in enumerate(row) if value} for row in matrix]
    found = solve_exactly(rows, [Fraction(k, 7) for k in range(9)])
    for k, row in enumerate(rows):
        assert sum(value * found[g] for g, value in row.items()) == Fraction(k, 7)
    for _ in range(50):
        target = rng.dirichlet(np.full(4, 0.3)) + 1e-12
        fair = ParitySet(target / target.sum(), 0.3, 3)
        masses = exact_masses(fair, fair.best(rng.normal(size=12))[1])
        share = [Fraction(value) for value in fair.target.tolist()]
        assert sum(masses.values()) == 1
        for cell, mass in masses.items():
            assert abs(mass / share[cell % 4] * sum(share) - 1) <= Fraction(0.3) + Fraction(1, 10**15)
