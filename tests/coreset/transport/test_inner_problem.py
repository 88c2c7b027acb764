"""The inner problem against full linear programs, and the certificate on every kind of data."""

import warnings
from typing import Any

import numpy as np
import pytest

from fwc_llm.coreset.transport.inner_problem import fair_transport
from fwc_llm.errors import FwcError
from tests.coreset.programs import certified, full_program


def instance(
    rng: np.random.Generator, n: int, m: int, levels: int, outcomes: int, kind: str
) -> tuple[Any, Any]:
    """Costs (n, m) of rows to representatives and the representatives' cells; every cell has
    one.
    """
    cell = np.concatenate(
        [np.arange(levels * outcomes), rng.integers(0, levels * outcomes, m)]
    )[:m]
    if kind == "ties":
        full = rng.integers(0, 3, (n, m)).astype(float)
    elif kind == "duplicates":
        full = np.repeat(rng.random((-(-n // 5), m)), 5, axis=0)[:n]
    else:
        full = rng.random((n, m)) + (
            rng.integers(0, levels * outcomes, n)[:, None] != cell
        )
    return full, cell


def by_cell(full: np.ndarray, cell: np.ndarray, cells: int) -> np.ndarray:
    return np.stack(
        [full[:, cell == g].min(axis=1, initial=np.inf) for g in range(cells)], axis=1
    )


@pytest.mark.parametrize("kind", ["plain", "ties", "duplicates"])
@pytest.mark.parametrize("epsilon", [None, 0.0, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize(
    ("levels", "outcomes"), [(2, 2), (3, 3), (1, 2), (2, 1), (5, 2)]
)
def test_equals_the_full_linear_program(
    levels: int, outcomes: int, epsilon: float | None, kind: str
) -> None:
    for seed in range(2):
        rng = np.random.default_rng([seed, levels, outcomes])
        full, cell = instance(rng, 40, 14, levels, outcomes, kind)
        target = rng.dirichlet(np.full(outcomes, 3.0))
        cost = by_cell(full, cell, levels * outcomes)
        result = certified(
            fair_transport(cost, levels, outcomes, target, epsilon),
            cost,
            target,
            epsilon,
        )
        assert result.objective == pytest.approx(
            full_program(full, cell, levels, target, epsilon), abs=1e-9
        )


@pytest.mark.parametrize("missing", [[4], [3, 4, 5], [0, 4], [0, 1, 2, 4]])
def test_a_level_without_some_representatives_carries_nothing(
    missing: list[int],
) -> None:
    rng = np.random.default_rng(5)
    full, cell = instance(rng, 40, 20, 3, 3, "plain")
    kept = ~np.isin(cell, missing)
    full = full[:, kept]
    cell = cell[kept]
    cost = by_cell(full, cell, 9)
    target = np.array([0.2, 0.3, 0.5])
    result = certified(fair_transport(cost, 3, 3, target, 0.05), cost, target, 0.05)
    assert result.objective == pytest.approx(
        full_program(full, cell, 3, target, 0.05), abs=1e-9
    )
    lost = {g // 3 for g in missing}
    assert not result.mass.reshape(3, 3)[sorted(lost)].any()


@pytest.mark.parametrize(("levels", "outcomes"), [(2, 2), (3, 4), (16, 2)])
def test_rows_may_be_barred_from_cells(levels: int, outcomes: int) -> None:
    rng = np.random.default_rng(1)
    cells = levels * outcomes
    cost = rng.random((60, cells))
    cost[rng.random(cost.shape) < 0.3] = np.inf
    cost[:, 0] = np.where(np.isinf(cost).all(axis=1), 1.0, cost[:, 0])
    target = np.full(outcomes, 1 / outcomes)
    result = certified(
        fair_transport(cost, levels, outcomes, target, 0.1), cost, target, 0.1
    )
    big = np.where(np.isinf(cost), 1e3, cost)
    expected = full_program(big, np.arange(cells), levels, target, 0.1)
    assert result.objective == pytest.approx(expected, abs=1e-9)


def test_what_has_no_plan_is_named() -> None:
    barred = np.full((10, 4), np.inf)
    barred[:, 0], barred[0] = 1.0, 1.0
    with pytest.raises(FwcError, match="parity limit"):
        fair_transport(barred, 2, 2, [0.5, 0.5], 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "outcomes", "n"),
    [(32, 2, 1500), (8, 8, 800), (2, 32, 400), (1, 64, 300), (64, 1, 500)],
)
def test_sixty_four_cells(levels: int, outcomes: int, n: int) -> None:
    rng = np.random.default_rng(2)
    cost = rng.random((n, 64)) + 0.5 * rng.random(64)
    target = rng.dirichlet(np.full(outcomes, 5.0))
    certified(fair_transport(cost, levels, outcomes, target, 0.02), cost, target, 0.02)
    few = cost[:60]
    result = certified(
        fair_transport(few, levels, outcomes, target, 0.02), few, target, 0.02
    )
    assert result.objective == pytest.approx(
        full_program(few, np.arange(64), levels, target, 0.02), abs=1e-9
    )


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
                found = certified(
                    fair_transport(cost * scale, *terms, start),
                    cost * scale,
                    *terms[2:],
                )
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
    certified(
        fair_transport(cost, 3, 2, target, 0.01), cost.astype(float), target, 0.01
    )


good = np.ones((5, 4))
place = np.arange(20).reshape(5, 4)


@pytest.mark.parametrize(
    ("cost", "epsilon", "message"),
    [
        (np.where(place == 13, np.nan, 1.0), 0.1, "row 3 to the cells are .* nan"),
        (np.where(place < 4, np.inf, 1.0), 0.1, "row 0 to the cells are .inf"),
        (np.where(np.arange(4) % 2, np.inf, good), 0.1, "no protected level"),
        (good * np.inf, None, "no protected level"),
    ],
)
def test_costs_that_no_plan_can_use_are_named(
    cost: Any, epsilon: float | None, message: str
) -> None:
    with pytest.raises(FwcError, match=message):
        fair_transport(cost, 2, 2, [0.5, 0.5], epsilon)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("epsilon", [0.1, None])
def test_bad_rows_of_a_large_table_are_named(epsilon: float | None, bad: float) -> None:
    cost = np.random.default_rng(0).random((50_000, 4))
    cost[40_001, 2] = bad
    with pytest.raises(FwcError, match=f"row 40001 to the cells are .* {bad}"):
        fair_transport(cost, 2, 2, [0.5, 0.5], epsilon)
