"""Bounds against every way of filling the gaps in."""

from itertools import product

import numpy as np
import pytest

from fwc_llm.metrics import group_metrics
from fwc_llm.metrics.cells import count_cells
from fwc_llm.metrics.unparsed import TREATMENTS, bounds, treated

METRICS = (
    "accuracy",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
)


def answers_with_gaps(seed: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"g{level}" for level in range(levels)], 8)
    labels = np.tile([0, 1], 4 * levels)
    predicted = rng.integers(0, 2, len(groups)).astype(float)
    predicted[rng.choice(len(groups), 7, replace=False)] = np.nan
    return predicted, labels, groups


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [2, 3])
def test_bounds_hold_over_every_filling_and_the_worst_is_attained(seed: int, levels: int) -> None:
    predicted, labels, groups = answers_with_gaps(seed, levels)
    gaps = np.flatnonzero(np.isnan(predicted))
    seen: dict[str, list[float]] = {name: [] for name in METRICS}
    for filling in product([0.0, 1.0], repeat=len(gaps)):
        filled = predicted.copy()
        filled[gaps] = filling
        metrics = group_metrics(filled, labels, groups)
        for name in METRICS:
            seen[name].append(getattr(metrics, name))
    found = bounds(count_cells(predicted, labels, groups).counts)
    for name in METRICS:
        low, high = found[name]
        assert low <= np.nanmin(seen[name]) + 1e-12, name
        assert high >= np.nanmax(seen[name]) - 1e-12, name
    assert found["accuracy"] == pytest.approx((min(seen["accuracy"]), max(seen["accuracy"])))
    for name in ("demographic_parity_difference", "equalized_odds_difference"):
        assert found[name][1] == pytest.approx(max(seen[name])), name
    assert found["demographic_parity_ratio"][0] == pytest.approx(np.nanmin(seen["demographic_parity_ratio"]))


def test_treatments_are_what_they_say() -> None:
    predicted, labels, groups = answers_with_gaps(0, 2)
    counts = count_cells(predicted, labels, groups).counts
    for treatment, value in zip(TREATMENTS, (np.nan, 0.0, 1.0), strict=True):
        filled = np.where(np.isnan(predicted), value, predicted)
        expected = group_metrics(filled, labels, groups)
        found = treated(counts, treatment)
        for name in METRICS:
            assert getattr(found, name)[0] == pytest.approx(getattr(expected, name)), (treatment, name)


def test_without_gaps_the_bounds_are_the_value() -> None:
    predicted, labels, groups = answers_with_gaps(1, 2)
    predicted = np.nan_to_num(predicted)
    expected = group_metrics(predicted, labels, groups)
    for name, (low, high) in bounds(count_cells(predicted, labels, groups).counts).items():
        assert low == pytest.approx(high) == getattr(expected, name)


def test_a_group_that_never_answered_is_bounded_all_the_same() -> None:
    found = bounds(count_cells([1, 0, np.nan, np.nan], [1, 0, 1, 0], list("aabb")).counts)
    assert found["demographic_parity_difference"] == (0.0, 0.5)
    assert found["accuracy"] == (0.5, 1.0)


def test_one_group_has_no_gap() -> None:
    found = bounds(count_cells([1, np.nan], [1, 0], ["a", "a"]).counts)
    assert np.isnan(found["demographic_parity_difference"]).all()
    assert found["accuracy"] == (0.5, 1.0)
