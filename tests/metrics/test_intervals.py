"""Limits that a t distribution gives are Student's, and those without degrees of freedom are normal."""

import numpy as np
import pytest
from scipy.stats import norm, t

from fwc_llm.metrics.intervals import coverage_of_pairs, critical_value, p_value, range_critical_value
from fwc_llm.metrics.planning import Assumptions, Design, smallest_of
from fwc_llm.metrics.sequential import GroupSequential


@pytest.mark.parametrize("freedom", [3.0, 8.5, 40.0, np.inf])
def test_two_groups_are_compared_by_students_distribution(freedom: float) -> None:
    expected = norm() if freedom == np.inf else t(freedom)
    assert critical_value(2, freedom=freedom) == pytest.approx(expected.ppf(0.975))
    assert critical_value(2, freedom=freedom, level=0.9) == pytest.approx(expected.ppf(0.95))
    assert p_value(2.3, freedom=freedom) == pytest.approx(2 * expected.sf(2.3))
    assert coverage_of_pairs(1.7, 2, freedom=freedom) == pytest.approx(1 - 2 * expected.sf(1.7))
    if freedom == np.inf:  # two independent pairs together: each must hold with probability √0.95
        assert critical_value(2, 2) == pytest.approx(expected.ppf((1 + np.sqrt(0.95)) / 2), rel=1e-6)
    assert range_critical_value(0.0, freedom) == pytest.approx(expected.ppf(0.975))
    assert range_critical_value(99.0, freedom) == pytest.approx(expected.ppf(0.95), rel=1e-4)
    wide = range_critical_value(2.0, freedom)
    assert expected.cdf(wide + 2.0) - expected.cdf(-wide) == pytest.approx(0.95)


def test_every_look_is_less_strict_than_the_one_before() -> None:
    looks = GroupSequential((100, 200, 300, 400))
    strict = [looks.critical_value(rows) for rows in (*looks.rows, 999)]
    assert strict == sorted(strict, reverse=True)
    assert len(set(strict)) == 4, "the last look's own value is that of all rows, and of more"


def test_a_strategy_is_told_apart_by_its_sets_alone_where_rows_are_endless() -> None:
    rows = np.full((2, 2), 1e12)
    design = Design(("a", "b"), rows, 2 * rows, repeats=9)
    found = smallest_of("accuracy", design, Assumptions(examples_sd=0.06), strategy=True)
    assert found == pytest.approx((t(8).ppf(0.975) + t(8).ppf(0.8)) * 0.06 / 3, rel=1e-4)
