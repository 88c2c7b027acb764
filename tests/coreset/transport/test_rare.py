"""What a plan and a coreset publish is exact: parity of the masses themselves, the bound, every scale."""

import warnings
from typing import Any

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset, FairWASP
from fwc_llm.coreset.transport.fair import fair_transport
from fwc_llm.errors import FwcError

LIMITS = [0.0, 1e-6, 0.01, 0.3]


def target_of(rng: np.random.Generator, outcomes: int, least: float) -> np.ndarray:
    target = np.exp(rng.uniform(np.log(least), 0, outcomes))
    return np.asarray(target / target.sum())


def violation_of(mass: np.ndarray, target: np.ndarray) -> float:
    table = mass.reshape(-1, len(target))
    table = table[table.any(axis=1)]
    return float(np.abs(table / table.sum(axis=1, keepdims=True) / target - 1).max())


def instance(seed: int, rows: int, least: float = 1e-9) -> tuple[Any, ...]:
    """Costs of one of four kinds, up to 14 levels and 4 outcomes, shares from `least`, a limit."""
    rng = np.random.default_rng([7, seed])
    levels, outcomes, n = (
        int(rng.integers(1, 15)),
        int(rng.integers(1, 5)),
        int(rng.integers(1, rows)),
    )
    cells = levels * outcomes
    cost = [
        lambda: rng.random((n, cells)),
        lambda: rng.integers(0, 4, (n, cells)).astype(float),
        lambda: rng.random((n, cells)) + (rng.integers(0, cells, n)[:, None] != np.arange(cells)),
        lambda: np.exp(4 * rng.normal(size=(n, cells))),
    ][rng.integers(0, 4)]()
    return cost, levels, outcomes, target_of(rng, outcomes, least), LIMITS[rng.integers(0, 4)]


@pytest.mark.slow
def test_hundreds_of_plans_keep_parity_and_their_bound() -> None:
    for seed in range(250):
        cost, levels, outcomes, target, epsilon = instance(seed, 30 if seed % 6 else 200)
        found = fair_transport(cost, levels, outcomes, target, epsilon)
        mass = np.zeros(levels * outcomes)
        np.add.at(mass, found.cell, 1.0)
        np.subtract.at(mass, found.cell[found.split_row], found.split_share)
        np.add.at(mass, found.split_cell, found.split_share)
        violation = violation_of(mass, target)
        assert violation <= epsilon + 1e-9, seed
        assert found.violation == pytest.approx(violation, abs=1e-11), seed
        assert found.lower_bound <= found.objective, seed
        assert found.objective - found.lower_bound <= 1e-9 * max(1.0, found.objective), seed


@pytest.mark.parametrize("seed", [56, 83, 222, 383, 557, 2170, 2498])
def test_plans_that_were_wrong_once(seed: int) -> None:
    cost, levels, outcomes, target, epsilon = instance(seed, 200)
    found = fair_transport(cost, levels, outcomes, target, epsilon)
    assert violation_of(found.mass, target) <= epsilon + 1e-9
    assert 0 <= found.objective - found.lower_bound <= 1e-9 * max(1.0, found.objective)


def test_a_rare_outcome_keeps_parity_in_the_weights() -> None:
    rng = np.random.default_rng(0)
    x, y, d = rng.normal(size=(13, 2)), np.arange(13) % 2, np.arange(13) // 7
    target = np.array([0.9999, 0.0001])
    coreset = FairCoreset(6, epsilon=0.0, target=target, random_state=0).fit(x, y, d)
    weighed = FairWASP(epsilon=0.0, target=target).fit(x, y, d)
    by_cell = np.bincount(coreset.sensitive_ * 2 + coreset.y_, coreset.weights_, 4)
    assert violation_of(by_cell, target) <= 1e-12
    assert coreset.violation_ == pytest.approx(violation_of(by_cell, target), abs=1e-15)
    assert violation_of(np.bincount(d * 2 + y, weighed.weights_, 4), target) <= 1e-12


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("warm", ["none", "own", "other", "huge"])
def test_every_scale_gives_the_same_plan_from_any_prices(scale: float, warm: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            rng = np.random.default_rng(seed)
            cost, target = rng.random((60 if seed else 2500, 6)), np.array([0.7, 0.3])
            plain = fair_transport(cost, 3, 2, target, 0.01)
            prices = {
                "none": None,
                "own": plain.prices * scale,
                "other": rng.normal(size=6),
                "huge": 1e30 * rng.normal(size=6),
            }
            found = fair_transport(cost * scale, 3, 2, target, 0.01, prices[warm])
            assert found.objective == pytest.approx(plain.objective * scale, rel=1e-9)
            assert found.lower_bound <= found.objective
            assert found.violation <= 0.01 + 1e-9


def test_shares_that_double_precision_does_not_balance_are_exact_or_refused() -> None:
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(30):
        target = target_of(rng, 4, 1e-14)
        try:
            assert fair_transport(rng.random((20, 20)), 5, 4, target, 0.01).violation <= 0.01 + 1e-9
        except FwcError:
            refused += 1
    assert refused < 10


def coreset_of(seed: int) -> tuple[FairCoreset, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([11, seed])
    levels, outcomes = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    cells, n = levels * outcomes, int(rng.integers(2 * levels * outcomes, 80))
    x = rng.normal(size=(n, 3)) if seed % 3 else rng.integers(0, 9, (n, 3)) + rng.random((n, 1))
    x = x * 10.0 ** (int(rng.integers(-30, 31)) if seed % 4 == 0 else 0)
    cell = np.concatenate([np.arange(cells), np.arange(cells), rng.integers(0, cells, n - 2 * cells)])
    target = target_of(rng, outcomes, 1e-9)
    coreset = FairCoreset(
        cells + int(rng.integers(0, 6)),
        epsilon=LIMITS[rng.integers(0, 4)],
        target=target,
        cost=["l1", "sqeuclidean"][rng.integers(0, 2)],
        support=["free", "rows", "features"][rng.integers(0, 3)],
        slots="equal",
        swaps=[True, False, "auto"][rng.integers(0, 3)],
        n_init=1,
        random_state=seed,
    )
    return coreset.fit(x, cell % outcomes, cell // outcomes), target, cell


@pytest.mark.slow
def test_many_coresets_publish_what_holds_of_their_weights() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(40):
            coreset, target, cell = coreset_of(seed)
            mass = np.bincount(
                coreset.sensitive_ * len(target) + coreset.y_, coreset.weights_, int(cell.max()) + 1
            )
            violation = violation_of(mass, target)
            assert violation <= coreset.epsilon + 1e-9, seed
            assert coreset.violation_ == pytest.approx(violation, abs=1e-12), seed
            assert coreset.lower_bound_ <= coreset.objective_ == coreset.history_[-1], seed
            assert (np.diff(coreset.history_) <= 0).all(), seed
            assert coreset.weights_.min() >= 0, seed
            assert coreset.weights_.sum() == pytest.approx(coreset.m, rel=1e-12), seed


def test_costs_beyond_double_precision_name_the_column() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2)) * np.array([1.0, 1e200])
    y, d = np.arange(20) % 2, np.arange(20) // 10
    with pytest.raises(FwcError, match=r"column 1 of X are up to .* too large for double precision"):
        FairCoreset(4, cost="sqeuclidean", scale=False).fit(x, y, d)
    assert np.isfinite(FairCoreset(4, scale=False).fit(x, y, d).objective_)


def test_one_outlier_does_not_take_the_digits_of_the_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((3000, 1))
    x[17] = 1e8
    y, d = rng.integers(0, 2, 3000), rng.integers(0, 2, 3000)
    centre = FairCoreset(4).problem(x, y, d).table.centre
    rest = np.delete(x, 17, axis=0)
    kept = (rest - centre).astype(np.float32).astype(np.float64) + centre
    assert np.abs(kept - rest).max() < 1e-7
