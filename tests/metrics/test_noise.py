"""The noise floor against the exact distribution of two binomial shares."""

import numpy as np
import pytest
from scipy.stats import binom

from fwc_llm.metrics.noise import noise_floor


def exact_gap(p: float, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """All gaps |j/m − k/n| and their probabilities when both groups share the rate p."""
    gaps = np.abs(np.arange(m + 1)[:, None] / m - np.arange(n + 1)[None, :] / n)
    weight = binom.pmf(np.arange(m + 1), m, p)[:, None] * binom.pmf(np.arange(n + 1), n, p)[None, :]
    return gaps.ravel(), weight.ravel()


@pytest.mark.parametrize(("p", "m", "n"), [(0.22, 100, 100), (0.55, 98, 95), (0.4, 40, 150)])
def test_agrees_with_the_exact_distribution(p: float, m: int, n: int) -> None:
    gaps, weight = exact_gap(p, m, n)
    deviations = np.sqrt(p * (1 - p) / np.array([m, n]))
    order = np.argsort(gaps)
    exact_95 = gaps[order][np.searchsorted(np.cumsum(weight[order]), 0.95)]
    floor = noise_floor(0.15, deviations)
    assert floor.expected == pytest.approx(gaps @ weight, abs=0.002)
    assert floor.percentile_95 == pytest.approx(exact_95, abs=0.011)  # the gap moves in steps
    assert floor.p_value == pytest.approx(weight[gaps >= 0.15 - 1e-12].sum(), abs=0.015)


@pytest.mark.parametrize("rate", [0.2, 0.35, 0.5])
def test_the_protocols_numbers(rate: float) -> None:
    """With 200 rows the expected |DP| is 0.045 to 0.056, its 95th percentile 0.11 to 0.14."""
    floor = noise_floor(0.0, np.sqrt(np.full(2, rate * (1 - rate) / 100)))
    assert 0.044 <= floor.expected <= 0.0575
    assert 0.11 <= floor.percentile_95 <= 0.14
    assert floor.p_value == 1.0


def test_more_groups_show_more_noise_and_few_repeats_more_than_many() -> None:
    two, four = noise_floor(0.1, np.full(2, 0.05)), noise_floor(0.1, np.full(4, 0.05))
    assert four.expected > 1.5 * two.expected
    assert noise_floor(0.1, np.full(2, 0.05), freedom=4.0).percentile_95 > 1.4 * two.percentile_95


@pytest.mark.parametrize("freedom", [np.inf, 4.0])
@pytest.mark.parametrize("groups", [2, 3])
def test_a_gap_above_the_floor_is_one_with_a_small_p_value(groups: int, freedom: float) -> None:
    deviations = np.linspace(0.03, 0.06, groups)
    floor = noise_floor(0.1, deviations, freedom).percentile_95
    assert noise_floor(1.01 * floor, deviations, freedom).p_value < 0.05
    assert noise_floor(0.99 * floor, deviations, freedom).p_value > 0.05


def test_undefined_without_two_groups_that_answered() -> None:
    assert np.isnan(noise_floor(np.nan, np.array([0.1, np.nan])).expected)
    assert np.isnan(noise_floor(np.nan, np.array([0.1])).p_value)
