"""Limits against scipy and against their own equations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm, studentized_range
from scipy.stats import t as student

from fwc_llm.metrics.intervals import (
    clopper_pearson,
    pairs_reach,
    pairs_within,
    ratio_limits,
    verdict,
    wilson,
)


@given(st.integers(1, 400), st.floats(0, 1))
def test_clopper_and_pearsons_limits_are_scipys(n: int, share: float) -> None:
    k = round(share * n)
    low, high = clopper_pearson(k / n, n)
    expected = binomtest(k, n).proportion_ci(method="exact")
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_effective_rows_need_not_be_whole() -> None:
    between = clopper_pearson(0.3, 20.5)
    for side in (0, 1):
        ends = sorted(float(clopper_pearson(0.3, n)[side]) for n in (20, 21))
        assert ends[0] < float(between[side]) < ends[1]
    assert np.isnan(clopper_pearson(0.0, 0.0)).all()


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.01, 1), st.floats(0.01, 1))
def test_the_ratios_limit_solves_its_equation(p: float, q: float, down: float, up: float) -> None:
    below, above = down * p, up * (1 - q)
    r = float(ratio_limits(np.array(p), np.array(below), np.array(q), np.array(above)))
    assert 0 <= r <= p / q
    assert p - r * q == pytest.approx(np.hypot(below, r * above), abs=1e-7)


def test_a_rate_of_zero_has_a_ratio_limit_of_zero() -> None:
    assert float(ratio_limits(np.array(0.0), np.array(0.0), np.array(0.5), np.array(0.1))) == 0.0


@pytest.mark.parametrize(("groups", "freedom"), [(3, np.inf), (4, 10.0), (3, 4.0), (6, 19.0)])
def test_several_pairs_reach_as_far_as_tukeys_quantile(groups: int, freedom: float) -> None:
    expected = studentized_range.ppf(0.95, groups, freedom) / np.sqrt(2)
    assert pairs_reach(groups, 1, freedom) == pytest.approx(expected, rel=0.002)
    assert pairs_within(pairs_reach(groups, 1, freedom), groups, 1, freedom) == pytest.approx(0.95)


def test_one_pair_reaches_as_far_as_the_normal_and_students_quantile() -> None:
    assert pairs_reach(2) == pytest.approx(norm.ppf(0.975))
    assert pairs_reach(2, 1, 4.0) == pytest.approx(student.ppf(0.975, 4))
    # Two independent pairs together: each must hold with probability √0.95.
    assert pairs_reach(2, 2) == pytest.approx(norm.ppf((1 + np.sqrt(0.95)) / 2), rel=1e-6)


@given(st.integers(1, 400), st.floats(0, 1))
def test_wilsons_limits_are_scipys_but_where_few_events_are_expected(n: int, share: float) -> None:
    k = round(share * n)
    low, high = map(float, wilson(k / n, n))
    test = binomtest(k, n)
    expected, exact = (test.proportion_ci(method=method) for method in ("wilson", "exact"))
    assert low == pytest.approx(expected.low if n * expected.low >= 3 else exact.low, abs=1e-9)
    assert high == pytest.approx(expected.high if n * (1 - expected.high) >= 3 else exact.high, abs=1e-9)


@pytest.mark.parametrize("n", [8, 30, 200])
def test_a_share_of_few_rows_is_covered_everywhere(n: int) -> None:
    """The exact coverage of Wilson's limits with Clopper and Pearson's at the edges."""
    low, high = wilson(np.arange(n + 1) / n, np.full(n + 1, n))
    shares = np.linspace(0.002, 0.5, 250)
    held = [binom.pmf(np.arange(n + 1), n, p)[(low <= p) & (p <= high)].sum() for p in shares]
    assert min(held) > 0.915
    assert np.mean(held) > 0.945


def test_one_verdict_of_an_interval() -> None:
    assert verdict(0.01, 0.3, 0.05) == "differs"
    assert verdict(0.0, 0.04, 0.05) == verdict(-0.04, 0.05, 0.05) == "no difference shown"
    assert verdict(0.0, 0.06, 0.05) == verdict(-0.06, 0.01, 0.05) == "cannot be told"
    assert verdict(0.5, 0.9, 0.8, 1.0) == "differs"
    assert verdict(0.85, 1.0, 0.8, 1.0) == "no difference shown"
    assert verdict(0.5, 1.0, 0.8, 1.0) == "cannot be told"
    assert verdict(np.nan, 1.0, 0.05) is None
