"""Two arms: tests that are their intervals, agree with their signs, and reject as often as they
say.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.random import Generator
from scipy.stats import binomtest

from fwc_llm.metrics.arm_comparison import COMPARED, ComparedArms, adjust, compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.intervals import Estimate
from fwc_llm.metrics.variance import ArmArrays
from tests.metrics.worlds import arms, losing, once, random_arms

USUAL = ((0.1, 0.5), (0.3, 0.7))


def compared(one: ArmArrays, other: ArmArrays, aligned: bool = True) -> ComparedArms:
    estimates = ArmEstimates(one), ArmEstimates(other)
    return compare(estimates, aligned=aligned, metrics=COMPARED)


def both(found: ComparedArms) -> dict[str, Estimate]:
    return {
        "accuracy": found["accuracy"],
        "parity": found["dp_gap"],
        "accuracy of these": found.of_these["accuracy"],
        "parity of these": found.of_these["dp_gap"],
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(random_arms())
def test_a_test_is_its_interval_and_agrees_with_the_difference(
    pair: list[ArmArrays],
) -> None:
    values = [ArmEstimates(one) for one in pair]
    found = compare(values, metrics=COMPARED)
    for name, test in both(found).items():
        metric = "accuracy" if name.startswith("accuracy") else "dp_gap"
        difference = values[1][metric].value - values[0][metric].value
        assert test.value == pytest.approx(difference, nan_ok=True), name
        if np.isnan(test.p_value):
            assert np.isnan([test.low, test.high]).all(), name
            continue
        assert -1 <= test.low <= test.value <= test.high <= 1, name
        assert 0 <= test.p_value <= 1, name
        assert (test.p_value < 0.05) == (test.low > 0 or test.high < 0), name


@settings(max_examples=60, deadline=None)
@given(random_arms())
def test_the_other_way_round_is_the_same_with_the_other_sign(
    pair: list[ArmArrays],
) -> None:
    there = both(compared(*pair))
    back = both(compared(*reversed(pair)))
    for name in there:
        assert there[name].p_value == pytest.approx(back[name].p_value, nan_ok=True), (
            name
        )
        assert there[name].low == pytest.approx(-back[name].high, nan_ok=True), name


@settings(max_examples=60, deadline=None)
@given(random_arms())
def test_an_arm_against_itself_is_the_same(pair: list[ArmArrays]) -> None:
    """Also where both gaps are 0: no division, no rejection."""
    for test in both(compared(pair[0], pair[0])).values():
        assert np.isnan(test.value) or test.value == 0
        assert np.isnan(test.p_value) or test.p_value == 1


@pytest.mark.parametrize(("better", "worse"), [(6, 0), (12, 3), (20, 12), (9, 8)])
def test_one_repeat_agrees_with_mcnemar(better: int, worse: int) -> None:
    """Of 200 rows `better` and `worse` changed; labels as they come, so that all are one
    stratum.
    """
    row = np.arange(200)
    label = np.tile([0, 1], 100)
    first = label.astype(float)
    second = first.copy()
    first[:better] = 1 - first[:better]
    second[100 : 100 + worse] = 1 - second[100 : 100 + worse]
    one, other = (once(answer, row % 2, label) for answer in (first, second))
    test = compared(one, other)["accuracy"]
    assert test.value == pytest.approx((better - worse) / 200)
    assert test.p_value == pytest.approx(
        binomtest(better, better + worse).pvalue, abs=0.03, rel=0.3
    )


def test_fixed_examples_against_redrawn_ones_is_a_question_about_the_strategy(
    rng: Generator,
) -> None:
    (redrawn,) = arms(rng, USUAL, repeats=8, shift=0.05)
    found = compared(redrawn, *arms(rng, USUAL, repeats=8))
    assert found.scope == "this strategy"
    wide = found["accuracy"]
    narrow = found.of_these["accuracy"]
    assert wide.high - wide.low > narrow.high - narrow.low


def test_arms_that_share_no_row_are_independent(rng: Generator) -> None:
    first, second = arms(rng, USUAL, USUAL)
    apart = replace(second, row=second.row + int(first.row.max()) + 1)
    test = compared(first, apart, aligned=False)["accuracy"]
    assert compared(first, first).same
    assert not compared(first, first.where(first.row > 0)).same, "of one row, nothing"
    own = [ArmEstimates(one)["accuracy"] for one in (first, second)]
    expected = np.hypot(*((one.high - one.low) / 2 for one in own))
    assert (test.high - test.low) / 2 == pytest.approx(expected, rel=0.1)


def test_a_reply_without_an_answer_in_either_arm_opens_the_verdict_to_all_readings() -> (
    None
):
    rng = np.random.default_rng(2)
    whole, some = arms(rng, USUAL, USUAL)
    one, other = map(ArmEstimates, (whole, losing(rng, some, 0.2)))
    assert all(
        compare(pair)["accuracy"].worst_case for pair in ((one, other), (other, one))
    )


def test_a_row_asked_in_three_repeats_is_better_or_worse_once() -> None:
    """Row 0 is better in all three, row 1 worse in one, row 2 lost once by the second arm."""
    row = np.tile(np.arange(3), 3)
    repeat = np.repeat(np.arange(3), 3)
    nothing = np.zeros(9, dtype=int)
    first = np.array([1.0, 0, 0, 1, 0, 0, 1, 0, 0])
    second = np.array([0.0, 0, np.nan, 0, 1, 0, 0, 0, 0])
    one, other = (
        ArmEstimates(ArmArrays(a, nothing, nothing, repeat, row, 1))
        for a in (first, second)
    )
    found = compare((one, other), "one", "other")
    assert (found.n, found.better, found.worse) == (9, 1, 1)
    assert np.isnan(found["dp_gap"].p_value)


def test_simultaneous_intervals_decide_and_each_metric_by_itself() -> None:
    rng = np.random.default_rng(1)
    usual = ((0.3, 0.6), (0.3, 0.6))
    better = ((0.1, 0.8), (0.1, 0.8))
    first, *others = map(ArmEstimates, arms(rng, usual, better, usual))
    tests = [compare((first, other), "a", "b") for other in others]
    adjusted = adjust(tests)
    for test, wide in zip(tests, adjusted, strict=True):
        for metric, one in test.tests.items():
            judged = wide[metric]
            if np.isnan(one.p_value):
                continue
            assert judged.p_value == pytest.approx(min(1.0, 2 * one.p_value))
            assert judged.low <= one.low <= one.high <= judged.high
            assert not judged.detectable < 1.1 * one.detectable
            outside = judged.low > 0 or judged.high < 0
            assert outside == (judged.p_value < 0.05)
            assert judged.verdict is None or outside == (judged.verdict == "differs")
    assert [wide["accuracy"].verdict == "differs" for wide in adjusted] == [True, False]
    metrics = {record.metric for record in adjusted[0].records("sex", False)}
    assert metrics >= {
        "eo_gap_difference",
        "dp_ratio_difference",
        "accuracy_difference",
    }


def test_a_difference_of_unknown_shares_is_no_comparison() -> None:
    rng = np.random.default_rng(3)
    losses = (0.1, "refused"), (0.2, "refused"), (0.1, "")
    samples = zip(arms(rng, USUAL, USUAL, USUAL), losses, strict=True)
    first, *others = (ArmEstimates(losing(rng, arm, *lost)) for arm, lost in samples)
    tests = [compare((first, one), metrics=("refused", "coverage")) for one in others]
    found = adjust(tests)
    assert [np.isnan(test["refused"].value) for test in found] == [False, True]
    assert found[0]["refused"] == tests[0]["refused"], "one comparison"
    twice = 2 * tests[0]["coverage"].p_value
    assert found[0]["coverage"].p_value == pytest.approx(min(1.0, twice))


def test_people_are_paired_as_people(rng: Generator) -> None:
    """Ten rows of each of 40 people, on which two arms differ together: over rows 0 is far too
    surely out.
    """
    person = np.repeat(np.arange(40), 10)
    label = rng.integers(0, 2, 40)[person]
    answers = [(rng.random(40) < 0.5)[person].astype(float) for _ in range(2)]
    widths = []
    for cluster in (None, person):
        samples = [once(a, label=label, cluster=cluster) for a in answers]
        test = compared(*samples)["accuracy"]
        widths.append(test.high - test.low)
    assert widths[1] > 2 * widths[0]
