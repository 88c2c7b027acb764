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


@pytest.mark.parametrize(
    ("yes", "parsed"), [((20, 24), (100, 100)), ((45, 60), (98, 95)), ((3, 30), (12, 150))]
)
def test_agrees_with_the_exact_distribution(yes: tuple[int, int], parsed: tuple[int, int]) -> None:
    gaps, weight = exact_gap(sum(yes) / sum(parsed), *parsed)
    floor = noise_floor(yes, parsed, draws=200_000)
    assert floor.expected == pytest.approx(gaps @ weight, abs=0.0005)
    order = np.argsort(gaps)
    exact_95 = gaps[order][np.searchsorted(np.cumsum(weight[order]), 0.95)]
    assert floor.percentile_95 == pytest.approx(exact_95, abs=0.011)  # the gap moves in steps of 0.01
    observed = abs(yes[0] / parsed[0] - yes[1] / parsed[1])
    assert floor.p_value == pytest.approx(weight[gaps >= observed - 1e-12].sum(), abs=0.004)


@pytest.mark.parametrize("rate", [20, 35, 50])
def test_the_protocols_numbers(rate: int) -> None:
    """docs/protocol.md, "n = 200 is small": expected |DP| 0.045–0.056, 95th percentile 0.11–0.14."""
    floor = noise_floor([rate, rate], [100, 100])
    assert 0.044 <= floor.expected <= 0.0575
    assert 0.11 <= floor.percentile_95 <= 0.14


def test_more_groups_show_more_noise_and_more_repeats_less_spread() -> None:
    two, four = noise_floor([30] * 2, [100] * 2), noise_floor([30] * 4, [100] * 4)
    assert four.expected > 1.5 * two.expected
    repeats = noise_floor([[30, 30]] * 5, [[100, 100]] * 5)
    assert repeats.expected == pytest.approx(two.expected, abs=0.002)
    assert repeats.percentile_95 < two.percentile_95


def test_undefined_without_two_groups_that_answered() -> None:
    assert np.isnan(noise_floor([3, 0], [10, 0]).expected)
    assert np.isnan(noise_floor([3], [10]).expected)
