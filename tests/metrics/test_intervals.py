"""Limits that a t distribution gives are Student's, and those without degrees of freedom are normal."""

import numpy as np
import pytest
from scipy.stats import norm, t

from fwc_llm.metrics.intervals import coverage_of_pairs, critical_value, p_value, range_critical_value


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
