"""The inner problem of weighted rows: against repeated rows, and with weights of any size."""

from typing import Any

import numpy as np
import pytest

from fwc_llm.coreset.transport.inner_problem import fair_transport
from tests.coreset.programs import certified, violation_of


def test_a_row_of_weight_zero_counts_nothing_and_keeps_its_place() -> None:
    rng = np.random.default_rng(3)
    cost = rng.random((50, 4))
    weights = rng.random(50)
    weights[::3] = 0
    cost[0] = [np.inf, np.inf, 5.0, 1.0]
    kept = weights > 0
    found = certified(cost, [0.3, 0.7], 0.01, weights)
    without = certified(cost[kept], [0.3, 0.7], 0.01, weights[kept])
    assert (found.objective, found.violation) == (without.objective, without.violation)
    assert np.array_equal(found.cell[kept], without.cell)
    assert found.cell[0] == (cost[0] - found.prices).argmin()


def test_a_table_that_is_narrowed() -> None:
    rng = np.random.default_rng(5)
    cost = rng.random((60_000, 4))
    weights = rng.integers(1, 4, 60_000)
    weights[7] = 3000
    found = certified(cost, [0.3, 0.7], 0.01, weights)
    repeated = certified(np.repeat(cost, weights, axis=0), [0.3, 0.7], 0.01)
    assert found.objective == pytest.approx(repeated.objective, rel=1e-9)


@pytest.mark.parametrize("kind", ["one", "few", "half", "log"])
@pytest.mark.parametrize("light", [1e-6, 1e-12, 1e-24])
def test_weights_of_any_size_keep_the_limit(kind: str, light: float) -> None:
    rng = np.random.default_rng(1)
    for turn in range(20):
        n = int(rng.integers(8, 120))
        levels = int(rng.integers(2, 4))
        outcomes = int(rng.integers(2, 4))
        weights = np.full(n, light)
        if kind == "log":
            weights = light ** rng.random(n)
        else:
            weights[: {"one": 1, "few": 3, "half": n // 2}[kind]] = 1.0
        cost = rng.random((n, levels * outcomes))
        target = rng.dirichlet(np.full(outcomes, 4.0))
        certified(cost, target, (0.0, 0.01, 0.3)[turn % 3], weights)


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_far_rows_of_hardly_any_weight_do_not_blur_the_certificate(far: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        cost = rng.random((24, 6))
        weights = rng.random(24)
        cost[:8] *= far
        weights[:8] /= far
        certified(cost, rng.dirichlet(np.full(3, 4.0)), 0.01, weights)


def check_groups(
    cost: np.ndarray, groups: np.ndarray, epsilon: float, weights: Any
) -> None:
    """The plan of two outcomes keeps the limit in every group, and has its bound."""
    target = np.array([0.4, 0.6])
    found = fair_transport(
        cost, 4, 2, target, epsilon, groups=groups, sample_weight=weights
    )
    mass = groups @ found.mass.reshape(4, 2)
    assert violation_of(mass, target) <= epsilon + 1e-9
    close = 1e-9 * max(1, found.objective)
    assert found.objective == pytest.approx(found.lower_bound, abs=close)


def test_groups_without_mass_have_a_plan() -> None:
    for seed in range(24):
        rng = np.random.default_rng(seed)
        groups = (rng.random((3, 4)) < 0.4).astype(
            float
        )  # levels in no group, and empty groups
        if seed % 2:
            weight = None
        else:
            weight = rng.choice([1, 1, 1e-6], 60)
        cost = rng.random((60, 8))
        check_groups(cost, groups, 0.01, weight)


@pytest.mark.parametrize("seed", [0, 6, 19, 39, 83, 98, 99])
def test_groups_may_have_rows_of_hardly_any_weight(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    cost = rng.random((40, 8))
    epsilon = (0.0, 0.01, 0.2)[seed % 3]
    if seed % 2:
        cost = np.rint(5 * cost)
    weights = np.exp(12 * rng.normal(size=40))
    if seed % 3 == 0:
        weights = np.where(rng.random(40) < 0.2, 10.0 ** -rng.integers(3, 14, 40), 1.0)
    check_groups(cost, groups, epsilon, weights)
