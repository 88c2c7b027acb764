"""Counterfactual flips counted by hand; planted variances found again."""

import numpy as np
import pytest

from fwc_llm.metrics.intervals import wilson
from fwc_llm.metrics.probes import flips


def test_flips_by_direction() -> None:
    answers = [1, 1, 0, 0, 1, 0, np.nan]
    changed = [0, 1, 1, 0, 0, np.nan, 1]
    groups = ["F", "F", "F", "M", "M", "M", "M"]
    told_as = ["M", "M", "M", "F", "F", "F", "F"]
    to_men, to_women = flips(answers, changed, groups, told_as)
    assert (to_men.group, to_men.told_as, to_men.n, to_men.to_yes, to_men.to_no) == ("F", "M", 3, 1, 1)
    assert to_men.rate == pytest.approx(2 / 3)
    low, high = wilson(2 / 3, 3)
    assert to_men.interval == pytest.approx((float(low), float(high)))
    assert (to_women.n, to_women.to_yes, to_women.to_no) == (2, 0, 1)


def test_a_direction_without_answered_pairs_is_undefined() -> None:
    (only,) = flips([np.nan], [1], ["F"], ["M"])
    assert only.n == 0
    assert np.isnan(only.rate)
    assert np.isnan(only.interval).all()
