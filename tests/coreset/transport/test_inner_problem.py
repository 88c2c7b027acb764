"""The inner problem against full linear programs, and the certificate on every kind of data."""

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from fwc_llm.coreset.transport.column_generation import CostTable
from fwc_llm.coreset.transport.inner_problem import fair_transport
from tests.coreset.programs import certified, optimum
from tests.refusals import refused


def drawn(kind: str, rng: np.random.Generator, cells: int) -> np.ndarray:
    """Costs (120, cells) of one of several kinds."""
    shape = 120, cells
    cost = rng.random(shape) + (rng.integers(0, cells, (120, 1)) != np.arange(cells))
    if kind == "ties":
        return rng.integers(0, 6, shape).astype(float)
    if kind == "halves":
        return rng.binomial(6, 0.5, shape) + 0.5 * rng.integers(0, 2, shape)
    if kind == "duplicates":
        return np.repeat(cost[:24], 5, axis=0)
    if kind == "barred":
        cost[:, 1:][rng.random((120, cells - 1)) < 0.3] = np.inf
    if kind == "ties, barred":
        cost = np.round(cost)
        cost[:, 1:][rng.random((120, cells - 1)) < 0.1] = np.inf
    if kind == "a cell without representatives":
        cost[:, -1] = np.inf
    return cost


KINDS = ("plain", "ties", "halves", "duplicates", "barred", "ties, barred")


@pytest.mark.parametrize(
    ("kind", "levels", "outcomes"),
    [
        *product(KINDS, (2, 3), (2, 3)),
        *product(("plain", "ties"), (1, 5), (2,)),
        ("plain", 2, 1),
        ("plain", 32, 2),
        ("plain", 1, 16),
        ("a cell without representatives", 3, 3),
        ("a cell without representatives", 2, 2),
    ],
)
@pytest.mark.parametrize(
    ("epsilon", "penalty", "weighted"),
    [
        (None, None, False),
        (0.0, None, True),
        (1e-6, None, False),
        (0.01, None, True),
        (0.3, None, False),
        (None, 0.7, False),
    ],
)
def test_the_optimum_is_that_of_the_linear_program(
    kind: str,
    levels: int,
    outcomes: int,
    epsilon: float | None,
    penalty: float | None,
    weighted: bool,
) -> None:
    rng = np.random.default_rng([levels, outcomes])
    cost = drawn(kind, rng, levels * outcomes)
    target = rng.dirichlet(np.full(outcomes, 3.0))
    weights = rng.integers(1, 9, 120).astype(float) if weighted else None
    if penalty is None:
        found = certified(cost, target, epsilon, weights)
    else:
        found = fair_transport(cost, levels, outcomes, target, None, penalty=penalty)
    expected = optimum(cost, target, epsilon, weights, penalty)
    assert found.objective == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("n", [60, 6000])
def test_shift_order_doubling_and_every_scale_from_any_prices(n: int) -> None:
    rng = np.random.default_rng(3)
    cost = rng.random((n, 6))
    terms = (2, 3, np.array([0.2, 0.3, 0.5]), 0.01)
    base = fair_transport(cost, *terms)
    shifted = fair_transport(cost + rng.random((n, 1)), *terms)
    assert shifted.mass == pytest.approx(base.mass, abs=1e-12)
    for same in (cost[rng.permutation(n)], np.repeat(cost, 2, axis=0)):
        assert fair_transport(same, *terms).objective == pytest.approx(
            base.objective, rel=1e-11
        )
    negative = fair_transport(cost - 7.0, *terms)
    assert negative.objective == pytest.approx(base.objective - 7.0, rel=1e-11)
    near = base.prices + rng.normal(0, 0.3, 6)
    far = rng.normal(size=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (1e-30, 1e-12, 1.0, 1e9, 1e30):
            for start in (
                None,
                base.prices * scale,
                near * scale,
                far,
                1e4 * far,
                1e30 * far,
            ):
                found = certified(cost * scale, *terms[2:], prices=start)
                assert found.objective == pytest.approx(
                    base.objective * scale, rel=1e-9
                )


def test_large_table_with_a_rare_level_and_ties() -> None:
    rng = np.random.default_rng(8)
    cost = (
        1
        + rng.random((200_000, 6))
        + (rng.integers(0, 6, (200_000, 1)) != np.arange(6))
    )
    cost = np.round(cost.astype(np.float32), 2)
    cost[:, 4:] += 50  # a level that hardly anybody moves to
    cost[:3, 4:] = 0
    target = [0.9, 0.1]
    certified(cost, target, 0.01)


good = np.ones((5, 4))
place = np.arange(20).reshape(5, 4)


@pytest.mark.parametrize(
    ("cost", "epsilon", "message"),
    [
        (np.where(place == 13, np.nan, 1.0), 0.1, "row 3 to the cells are .* nan"),
        (np.where(place < 4, np.inf, 1.0), 0.1, "row 0 to the cells are .inf"),
        (np.where(np.arange(4) % 2, np.inf, good), 0.1, "no protected level"),
        (good * np.inf, None, "no protected level"),
        (np.where((place > 3) & (place % 4 > 0), np.inf, 1.0), 0.1, "parity limit"),
    ],
)
def test_costs_that_no_plan_can_use_are_named(
    cost: Any, epsilon: float | None, message: str
) -> None:
    with refused(message):
        fair_transport(cost, 2, 2, [0.5, 0.5], epsilon)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("epsilon", [0.1, None])
def test_bad_rows_of_a_large_table_are_named(epsilon: float | None, bad: float) -> None:
    cost = np.random.default_rng(0).random((50_000, 4))
    cost[40_001, 2] = bad
    with refused(f"row 40001 to the cells are .* {bad}"):
        fair_transport(cost, 2, 2, [0.5, 0.5], epsilon)


def test_a_step_is_known_only_where_costs_tie_on_a_grid(rng: Generator) -> None:
    whole = rng.integers(0, 9, (900, 4))
    for cost, step in (
        (whole.astype(np.float32), 1),
        (0.25 * whole, 0.25),
        (rng.random((900, 4)), None),
        (whole + 0.1234567 * rng.integers(0, 2, whole.shape), None),
        (0.0 * whole, None),
    ):
        assert CostTable(cost, np.ones(900)).step == step
