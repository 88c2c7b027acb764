"""Confidence sequences: they hold at every look together, also near 0 and 1 and with groups in any order."""

import numpy as np
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.metrics.looks import Looks
from fwc_llm.metrics.sequences import gap, lowest_of_pairs, ratio, shares

PATHS, ROWS = 1_000, 400


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.97])
def test_a_rate_keeps_within_its_limits_at_all_looks_together(rate: float) -> None:
    yes = np.cumsum(np.random.default_rng(3).random((PATHS, ROWS)) < rate, axis=1)[:, ::5]
    n = np.broadcast_to(np.arange(1, ROWS + 1)[::5], yes.shape)
    low, high = (ends.reshape(yes.shape) for ends in shares(yes.ravel(), n.ravel()))
    left = ((low > rate) | (high < rate)).any(1).mean()
    assert left <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / PATHS)
    assert ((low <= yes / n) & (yes / n <= high)).all()
    at_the_end = (high - low)[:, -1].mean()
    fixed = 2 * 1.96 * np.sqrt(rate * (1 - rate) / ROWS)
    assert fixed < at_the_end < 2 * fixed + 8 / ROWS


def test_gaps_and_ratios_of_three_groups_hold_together_at_all_looks() -> None:
    rng = np.random.default_rng(4)
    rates, left = np.array([0.1, 0.3, 0.35]), 0
    for _ in range(150):
        group = np.where(np.arange(300) < 60, 0, rng.integers(0, 3, 300))  # the first group comes first
        answer = rng.random(300) < rates[group]
        for seen in range(20, 301, 20):
            counts = [np.bincount(group[:seen], part, 3) for part in (answer[:seen], np.ones(seen))]
            less, over = lowest_of_pairs(*counts)
            off = np.eye(3) == 0
            out = (less > rates[:, None] - rates)[off] | (over > rates[:, None] / rates)[off]
            if out.any():
                left += 1
                break
    assert left <= 0.05 * 150 + 2 * np.sqrt(0.05 * 0.95 * 150)


def test_limits_of_a_gap_and_a_ratio_enclose_them_and_tell_more_with_more_rows() -> None:
    few, many = gap([5, 10, 9], [50, 50, 50]), gap([500, 1000, 900], [5000, 5000, 5000])
    assert few[0] == 0.0 < many[0] < 0.1 < many[1] < few[1]
    assert ratio([5, 10], [50, 50])[0] < 0.5 < ratio([500, 1000], [5000, 5000])[1] < 0.65
    assert gap([0, 0], [0, 0]) == (0.0, 1.0)
    assert np.isnan(gap([3], [4])).all()
    assert gap([0, 60], [60, 60])[0] > 0.75  # the exact ends
    with pytest.raises(FwcError, match="from 0 to the trials"):
        gap([5, 3], [4, 4])


def test_exact_limits_are_those_of_the_asymptotic_sequence_in_the_middle() -> None:
    above = shares([300], [600])[1][0] - 0.5
    assert Looks(1, 2000).reach(600) * 0.5 / np.sqrt(600) == pytest.approx(above, rel=0.02)
