"""Counterfactual flips counted by hand; planted variances found again."""

import numpy as np
import pytest

from fwc_llm.metrics.flips import flips
from fwc_llm.metrics.limits import clopper_pearson
from fwc_llm.metrics.variance import split_variance


def test_flips_by_direction() -> None:
    answers = [1, 1, 0, 0, 1, 0, np.nan]
    changed = [0, 1, 1, 0, 0, np.nan, 1]
    groups = ["F", "F", "F", "M", "M", "M", "M"]
    told_as = ["M", "M", "M", "F", "F", "F", "F"]
    to_men, to_women = flips(answers, changed, groups, told_as)
    assert (to_men.group, to_men.told_as, to_men.n, to_men.to_yes, to_men.to_no) == ("F", "M", 3, 1, 1)
    assert to_men.rate == pytest.approx(2 / 3)
    low, high = clopper_pearson(2 / 3, 3)
    assert to_men.interval == pytest.approx((float(low), float(high)))
    assert (to_women.n, to_women.to_yes, to_women.to_no) == (2, 0, 1)


def test_a_direction_without_answered_pairs_is_undefined() -> None:
    (only,) = flips([np.nan], [1], ["F"], ["M"])
    assert only.n == 0
    assert np.isnan(only.rate)
    assert np.isnan(only.interval).all()


def test_planted_variances_are_found_again() -> None:
    rng = np.random.default_rng(0)
    orders, repeats = 4, 4000
    repeat = rng.normal(0, 0.03, repeats) + rng.normal(0, 0.02, repeats)
    values = 0.7 + repeat + rng.normal(0, 0.01, (orders, repeats))
    found = split_variance(values, row_variance=0.03**2)
    assert found.examples == pytest.approx(0.02**2, rel=0.15)
    assert found.order == pytest.approx(0.01**2, rel=0.05)
    assert found.total == pytest.approx(0.03**2 + 0.02**2 + 0.01**2, rel=0.08)


def test_spread_of_rows_alone_leaves_nothing_for_the_examples() -> None:
    values = 0.7 + np.random.default_rng(1).normal(0, 0.03, 2000)
    found = split_variance(values, row_variance=0.03**2)
    assert found.examples < 0.1 * 0.03**2
    assert np.isnan(found.order)


def test_one_repeat_cannot_tell() -> None:
    found = split_variance([0.7], row_variance=0.001)
    assert np.isnan(found.examples)
    assert found.total == pytest.approx(0.001)
