"""Critical values, variances and powers are those of known formulas and tables."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from fwc_llm.metrics.arm_comparison import ComparedArms, adjust, of_error
from fwc_llm.metrics.intervals import (
    coverage_of_pairs,
    critical_value,
    p_value,
    range_critical_value,
)
from fwc_llm.metrics.planning import (
    Assumptions,
    Design,
    smallest_of,
    steps_needed,
    variance_of,
)
from fwc_llm.metrics.variance import ArmArrays, area, rate_shares
from tests.metrics.worlds import once


@pytest.mark.parametrize("freedom", [3.0, 8.5, 40.0, np.inf])
def test_two_groups_are_compared_by_students_distribution(freedom: float) -> None:
    expected = norm() if freedom == np.inf else t(freedom)
    assert critical_value(2, freedom=freedom) == pytest.approx(expected.ppf(0.975))
    assert critical_value(2, freedom=freedom, level=0.9) == pytest.approx(
        expected.ppf(0.95)
    )
    assert p_value(2.3, freedom=freedom) == pytest.approx(2 * expected.sf(2.3))
    assert coverage_of_pairs(1.7, 2, freedom=freedom) == pytest.approx(
        1 - 2 * expected.sf(1.7)
    )
    if (
        freedom == np.inf
    ):  # two independent pairs together: each must hold with probability √0.95
        assert critical_value(2, 2) == pytest.approx(
            expected.ppf((1 + np.sqrt(0.95)) / 2), rel=1e-6
        )
    assert range_critical_value(0.0, freedom) == pytest.approx(expected.ppf(0.975))
    assert range_critical_value(99.0, freedom) == pytest.approx(
        expected.ppf(0.95), rel=1e-4
    )
    wide = range_critical_value(2.0, freedom)
    assert expected.cdf(wide + 2.0) - expected.cdf(-wide) == pytest.approx(0.95)


def arm(rng: np.random.Generator, n: int, share: float) -> ArmArrays:
    return once(rng.random(n) < share, np.arange(n) % 2, rng.integers(0, 2, n))


def test_weighted_shares_have_the_freedom_and_the_variance_of_their_parts() -> None:
    shares = rate_shares(
        sample := arm(np.random.default_rng(1), 200, 0.3),
        "selection_rate",
        sample.group,
        2,
        False,
    )
    known = replace(
        shares, variance=np.array([0.01, 0.02]), freedom=np.array([10.0, 20.0])
    )
    freedom = known.spread(np.array([0]), np.array([1]))[1]
    assert freedom == np.floor(0.03**2 / (0.01**2 / 10 + 0.02**2 / 20))
    weight = np.array([0.4, 0.6])
    both = known.combined(np.zeros(2, int), weight, 1)
    assert both.values == pytest.approx(weight @ shares.values)
    assert both.variance == pytest.approx(weight**2 @ known.variance)


def test_the_influence_on_an_area_is_its_derivative() -> None:
    rng = np.random.default_rng(2)
    label = (rng.random(40) < 0.25).astype(int)
    score = rng.random(40).round(1)
    step = 1e-6
    weight = np.ones(40)
    value, influence = area(score, label, weight)
    slopes = [
        (area(score, label, weight + step * (np.arange(40) == i))[0] - value) / step
        for i in range(40)
    ]
    assert influence == pytest.approx(np.array(slopes), abs=1e-5)


def test_differences_are_widened_for_their_number_and_found_as_often_as_hoped() -> None:
    error = 0.14
    one = of_error(0.1, error, np.inf)
    assert one.detectable == pytest.approx((norm.ppf(0.975) + norm.ppf(0.8)) * error)
    own = {"accuracy": one}
    tests = adjust(
        [ComparedArms("a", name, "these examples", own, {}) for name in "bcde"]
    )
    low = tests[0]["accuracy"].low
    assert low == pytest.approx(0.1 - norm.ppf(1 - 0.025 / 4) * error)


def test_a_strategy_is_told_apart_by_its_sets_alone_where_rows_are_endless() -> None:
    rows = np.full((2, 2), 1e12)
    design = Design(("a", "b"), rows, 2 * rows, repeats=9)
    found = smallest_of(
        "accuracy", design, Assumptions(examples_sd=0.06), strategy=True
    )
    assert found == pytest.approx(
        (t(8).ppf(0.975) + t(8).ppf(0.8)) * 0.06 / 3, rel=1e-4
    )


def test_the_least_number_of_rows_is_found_among_all_numbers() -> None:
    rows = np.array([[5.0, 5], [5, 5]])
    step = Design(("a", "b"), rows, 40 * rows, 1)
    assumed = Assumptions(correlation=0.0)
    found = [
        smallest_of("gap", replace(step, rows=n * rows), assumed, False)
        for n in range(1, 41)
    ]
    for n in range(1, 41):
        assert steps_needed(found[n - 1], "gap", step, assumed, False) == n
    assert (
        steps_needed(found[1], "gap", replace(step, table=rows), assumed, False) is None
    )


def test_the_variance_of_a_gap_is_that_of_its_two_groups_each_of_its_own_rows() -> None:
    rows = np.array([[10.0, 30.0], [40.0, 120.0]])
    design = Design(("a", "b"), rows, 2 * rows, repeats=1)
    assumptions = Assumptions()
    of_labels = [(assumptions.variance / n / 4).sum() for n in rows]
    assert variance_of("gap_of_one", design, assumptions) == pytest.approx(
        sum(of_labels)
    )
    total = rows.sum(1, keepdims=True)
    at_random = replace(design, rows=total, table=2 * total)
    of_groups = (assumptions.variance / total).sum()
    assert variance_of("gap_of_one", at_random, assumptions) == pytest.approx(of_groups)
