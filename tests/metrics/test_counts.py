"""The main table's numbers: against fairlearn where it defines them, NaN with a reason where
nothing does.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, studentized_range

from evals.coverage.against_fairlearn import farthest
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import COUNTED
from fwc_llm.metrics.intervals import (
    clopper_pearson,
    coverage_of_pairs,
    critical_value,
    ratio_limits,
    verdict,
    wilson,
)
from fwc_llm.metrics.perturbation_effects import flips
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.sampling_design import SamplingDesign
from tests.metrics.worlds import answers_of, metrics_of, once

METRICS = ("dp_gap", "dp_ratio", "eo_gap")


def test_values_of_random_tables_are_fairlearns_weights_included() -> None:
    assert farthest(250) < 1e-9


def test_unparsed_answers_count_for_coverage_and_nothing_else() -> None:
    predicted = [1, 0, np.nan, 1, 1, np.nan, np.nan, 0]
    labels = [1, 0, 1, 0, 1, 0, 0, 1]
    groups = list("aaaabbbb")
    ours = metrics_of(predicted, labels, groups)
    assert ours.coverage == 5 / 8
    assert ours.coverage_by_group == {"a": 3 / 4, "b": 2 / 4}
    assert ours.accuracy == 3 / 5
    assert ours.rates == {"a": 2 / 3, "b": 1 / 2}
    assert ours.dp_gap == pytest.approx(1 / 6)


NAN = np.nan


@pytest.mark.parametrize(
    ("predicted", "labels", "groups", "undefined", "reason", "accuracy"),
    [
        (
            [1, 0, NAN, NAN],
            [1, 0, 1, 0],
            "aabb",
            METRICS[:2],
            "no parsed answer in group b",
            1.0,
        ),
        (
            [0, 0, 0, 0],
            [1, 0, 1, 0],
            "aabb",
            METRICS[1:2],
            "",
            0.5,
        ),  # while the difference is 0
        # As at base-rate parity 1, where one group has only no and the other only yes.
        (
            [1, 0, 1, 0],
            [0, 0, 1, 1],
            "FFMM",
            METRICS[2:],
            "with label yes in group F",
            0.5,
        ),
        ([1, 0], [1, 1], "aa", METRICS, "", 0.5),
    ],
)
def test_what_is_undefined_is_no_zero_and_has_a_reason(
    predicted: list[float],
    labels: list[int],
    groups: str,
    undefined: Any,
    reason: str,
    accuracy: float,
) -> None:
    ours = metrics_of(predicted, labels, list(groups))
    for name in undefined:
        assert np.isnan(getattr(ours, name))
        assert reason in ours.reasons[name]
    assert (ours.accuracy, "accuracy" in ours.reasons) == (accuracy, False)
    assert METRICS[0] in undefined or ours.reasons.keys().isdisjoint(METRICS[:1])


HEADLINE = ("accuracy", *METRICS)


def answers_with_gaps(
    seed: int, levels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"g{level}" for level in range(levels)], 8)
    labels = np.tile([0, 1], 4 * levels)
    predicted = rng.integers(0, 2, len(groups)).astype(float)
    predicted[rng.choice(len(groups), 7, replace=False)] = np.nan
    return predicted, labels, groups


def bounds(
    predicted: np.ndarray, labels: np.ndarray, groups: Any
) -> dict[str, tuple[float, float]]:
    member = np.unique(groups, return_inverse=True)[1]
    sample = once(predicted, member, labels, design=SamplingDesign(labels_fixed=True))
    return {
        metric.key: ArmEstimates(sample)[metric.key].readings[0] for metric in COUNTED
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [2, 3])
def test_bounds_hold_over_every_filling_and_the_worst_is_attained(
    seed: int, levels: int
) -> None:
    predicted, labels, groups = answers_with_gaps(seed, levels)
    gaps = np.flatnonzero(np.isnan(predicted))
    seen: dict[str, list[float]] = {name: [] for name in HEADLINE}
    for filling in product([0.0, 1.0], repeat=len(gaps)):
        filled = predicted.copy()
        filled[gaps] = filling
        metrics = metrics_of(filled, labels, groups)
        for name in HEADLINE:
            seen[name].append(getattr(metrics, name))
    found = bounds(predicted, labels, groups)
    for name in HEADLINE:
        low, high = found[name]
        assert low <= np.nanmin(seen[name]) + 1e-12, name
        assert high >= np.nanmax(seen[name]) - 1e-12, name
    assert found["accuracy"] == pytest.approx(
        (min(seen["accuracy"]), max(seen["accuracy"]))
    )
    for name in ("dp_gap", "eo_gap"):
        assert found[name][1] == pytest.approx(max(seen[name])), name
    assert found["dp_ratio"][0] == pytest.approx(np.nanmin(seen["dp_ratio"]))


# --- Counterfactual flips counted by hand


def flips_of(
    before: list[float], after: list[float], groups: str, told_as: str
) -> dict[tuple[str, str], Record]:
    factual = answers_of(before)
    found = flips(
        replace(factual, group=np.array([*groups])),
        replace(
            factual,
            group=np.array([*groups]),
            answer=np.array(after),
            variant=[f"as:{t}" for t in told_as],
        ),
    )
    return {(record.against, record.metric): record for record in found}


def test_flips_by_direction() -> None:
    found = flips_of(
        [1, 1, 0, 0, 1, 0, NAN], [0, 1, 1, 0, 0, NAN, 1], "FFFMMMM", "MMMFFFF"
    )
    to_men = found["F", "changed"]
    assert (to_men.group, to_men.n) == ("M", 3)
    assert to_men.value == pytest.approx(2 / 3)
    assert to_men.ends == pytest.approx(np.ravel(wilson(2 / 3, 3)))
    counts = {at: one.value for at, one in found.items() if "changed_to" in at[1]}
    assert counts == {
        ("F", "changed_to_yes"): 1,
        ("F", "changed_to_no"): 1,
        ("M", "changed_to_yes"): 0,
        ("M", "changed_to_no"): 1,
    }
    assert found["M", "changed"].n == 2
    unanswered = flips_of([NAN], [1], "F", "M")["F", "changed"]
    assert unanswered.n == 0
    assert np.isnan([unanswered.value, *unanswered.ends]).all()


# --- Limits against scipy and against their own equations


@given(st.integers(1, 400), st.floats(0, 1))
def test_clopper_and_pearsons_limits_are_scipys(n: int, share: float) -> None:
    k = round(share * n)
    low, high = clopper_pearson(k / n, n)
    expected = binomtest(k, n).proportion_ci(method="exact")
    assert (float(low), float(high)) == pytest.approx(
        (expected.low, expected.high), abs=1e-9
    )


def test_effective_rows_need_not_be_whole() -> None:
    between = clopper_pearson(0.3, 20.5)
    for side in (0, 1):
        ends = sorted(float(clopper_pearson(0.3, n)[side]) for n in (20, 21))
        assert ends[0] < float(between[side]) < ends[1]
    assert np.isnan(clopper_pearson(0.0, 0.0)).all()


@given(
    st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.01, 1), st.floats(0.01, 1)
)
def test_the_ratios_limit_solves_its_equation(
    p: float, q: float, down: float, up: float
) -> None:
    below = down * p
    above = up * (1 - q)
    r = float(ratio_limits(np.array(p), np.array(below), np.array(q), np.array(above)))
    assert 0 <= r <= p / q
    assert p - r * q == pytest.approx(np.hypot(below, r * above), abs=1e-7)
    assert (
        float(ratio_limits(np.array(0.0), np.array(0.0), np.array(q), np.array(above)))
        == 0.0
    )


@pytest.mark.parametrize(
    ("groups", "freedom"), [(3, np.inf), (4, 10.0), (3, 4.0), (6, 19.0)]
)
def test_several_pairs_reach_as_far_as_tukeys_quantile(
    groups: int, freedom: float
) -> None:
    expected = studentized_range.ppf(0.95, groups, freedom) / np.sqrt(2)
    assert critical_value(groups, 1, freedom) == pytest.approx(expected, rel=0.002)
    assert coverage_of_pairs(
        critical_value(groups, 1, freedom), groups, 1, freedom
    ) == pytest.approx(0.95)


@given(st.integers(1, 400), st.floats(0, 1))
def test_wilsons_limits_are_scipys_but_where_few_events_are_expected(
    n: int, share: float
) -> None:
    k = round(share * n)
    low, high = map(float, wilson(k / n, n))
    test = binomtest(k, n)
    expected, exact = (
        test.proportion_ci(method=method) for method in ("wilson", "exact")
    )
    assert low == pytest.approx(
        expected.low if n * expected.low >= 3 else exact.low, abs=1e-9
    )
    assert high == pytest.approx(
        expected.high if n * (1 - expected.high) >= 3 else exact.high, abs=1e-9
    )


def test_one_verdict_of_an_interval() -> None:
    assert verdict(0.01, 0.3, 0.05) == "differs"
    assert (
        verdict(0.0, 0.04, 0.05)
        == verdict(-0.04, 0.05, 0.05)
        == "no difference that matters"
    )
    assert (
        verdict(0.0, 0.06, 0.05)
        == verdict(-0.06, 0.01, 0.05)
        == "not settled: too few rows"
    )
    assert (
        verdict(0.01, 0.05, 0.05)
        == verdict(-0.04, -0.01, 0.05)
        == "differs, but by less than the margin"
    )
    assert verdict(np.nan, 1.0, 0.05) is None
