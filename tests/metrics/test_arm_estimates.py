"""One arm's intervals: properties that always hold, known formulas, and coverage of known
truths.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from scipy.special import ndtr

from fwc_llm import audit
from fwc_llm.metrics.arm_estimates import (
    ArmEstimates,
    Estimate,
    ParityWithinStrata,
    conditional_parity,
)
from fwc_llm.metrics.counts import METRICS, TABLE
from fwc_llm.metrics.intervals import wilson
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.metrics.variance import ArmArrays
from tests.metrics.worlds import arms, once, random_arms

GAP = "dp_gap"
USUAL = ((0.1, 0.5), (0.3, 0.7))


samples = random_arms().map(lambda pair: pair[0])


def metrics(found: ArmEstimates) -> dict[str, Estimate]:
    return {metric.key: found[metric.key] for metric in TABLE} | {
        "coverage": found["coverage"]
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(samples)
def test_a_value_is_defined_with_its_interval_and_lies_in_it(sample: ArmArrays) -> None:
    found = ArmEstimates(sample)
    for name, one in metrics(found).items():
        assert (
            np.isnan([one.value, one.low, one.high]).all()
            or one.low <= one.value <= one.high
        ), name
        assert np.isnan(one.value) or 0 <= one.low <= one.high <= 1, name
    for name in (
        "selection_rate",
        "true_positive_rate",
        "false_positive_rate",
        "coverage",
        "precision",
    ):
        assert all(
            np.isnan(rate.value) or rate.low <= rate.value <= rate.high
            for rate in found.rates(name)
        )
    for metric in (metric for metric in TABLE if metric.judged):
        one = found[metric.key]
        assert np.isnan(one.p_value) == np.isnan(one.value)
        differs = one.verdict in ("differs", "differs, but by less than the margin")
        assert np.isnan(one.value) or (
            one.p_value < 0.05 if differs else one.p_value >= 0.05 or sample.worst
        )


@settings(max_examples=60, deadline=None)
@given(samples, st.integers(0, 1000))
def test_the_order_of_questions_and_the_names_of_groups_change_nothing(
    sample: ArmArrays, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(sample.answer))
    named = rng.permutation(sample.groups)
    row = rng.permutation(int(sample.row.max()) + 1)[sample.row]
    parts = (sample.answer, sample.label, named[sample.group], sample.repeat, row)
    examples = None if sample.examples is None else sample.examples[shuffled]
    other = ArmArrays(
        *(part[shuffled] for part in parts), sample.groups, sample.design, examples
    )
    one = ArmEstimates(sample)
    two = ArmEstimates(other)
    for name in METRICS:
        ends = [(e.value, e.low, e.high) for e in (one[name], two[name])]
        assert ends[0] == pytest.approx(ends[1], abs=1e-9, nan_ok=True), name


def test_one_repeat_with_labels_as_they_come_has_the_known_formulas() -> None:
    (sample,) = arms(np.random.default_rng(0), USUAL, fixed=False)
    found = ArmEstimates(sample)
    low, high = wilson(np.mean(sample.yes == sample.label), 200)
    assert (found["accuracy"].low, found["accuracy"].high) == pytest.approx(
        (float(low), float(high))
    )
    ends = []
    for group in (0, 1):
        own = sample.yes[sample.group == group]
        low, high = wilson(own.mean(), len(own))
        ends.append((own.mean(), float(low), float(high)))
    (p, p_low, p_high), (q, q_low, q_high) = ends
    gap = found["dp_gap"]
    low = q - p - np.hypot(q - q_low, p_high - p)
    high = q - p + np.hypot(q_high - q, p - p_low)
    assert (gap.low, gap.high) == pytest.approx((max(0.0, low), max(high, -low)))


def test_the_gap_is_that_of_the_mean_rates() -> None:
    """Opposite gaps of two repeats cancel; the paper's mean of gaps would not."""
    group = np.array([0, 1, 0, 1])
    repeat = np.array([0, 0, 1, 1])
    sample = ArmArrays(
        np.array([1.0, 0.0, 0.0, 1.0]), group, group, repeat, np.arange(4), 2
    )
    found = ArmEstimates(sample)["dp_gap"]
    assert found.value == 0.0
    assert found.per_repeat.tolist() == [1.0, 1.0]


def test_other_draws_of_examples_widen_the_interval(rng: Generator) -> None:
    (sample,) = arms(rng, ((0.4, 0.4), (0.6, 0.6)), repeats=10, shift=0.2)
    strategy = ArmEstimates(sample)
    these = ArmEstimates(replace(sample, examples=None))
    assert (strategy.sample.scope, these.sample.scope) == (
        "this strategy",
        "these examples",
    )
    for name in ("accuracy", "dp_gap"):
        wide = strategy[name]
        narrow = these[name]
        assert wide.value == narrow.value
        assert wide.low < narrow.low < narrow.high < wide.high
    # All answers move together: each rate is far less sure, their gap hardly.
    pairs = (
        (strategy.rates()[0], these.rates()[0]),
        [one["dp_gap"] for one in (strategy, these)],
    )
    growth = [
        (wide.high - wide.low) / (narrow.high - narrow.low) for wide, narrow in pairs
    ]
    assert growth[0] > 1.5 * growth[1]


def test_weights_cost_effective_rows(rng: Generator) -> None:
    alike = once(rng.random(400) < 0.4, 0)
    weighted = replace(alike, weight=rng.choice([1.0, 10.0], 400))
    ones = replace(alike, weight=np.full(400, 3.0))
    rows = []
    for one in (alike, weighted, ones):
        rate = ArmEstimates(one).counted("selection_rate")
        rows.append((rate.values * (1 - rate.values) / rate.variance)[0])
    assert rows[0] == pytest.approx(400)
    assert rows[2] == pytest.approx(400, rel=0.01)
    assert rows[1] < 300


def test_auc_and_brier_of_each_group_are_scikit_learns(rng: Generator) -> None:
    n = 300
    label = rng.integers(0, 2, n)
    group = rng.integers(0, 2, n)
    p = np.clip(0.3 * label + rng.random(n).round(1) * 0.7, 0, 1)
    weight = rng.uniform(0.5, 2, n)
    for own in (None, weight):
        found = ArmEstimates(once(np.ones(n), group, label, p_yes=p, weight=own))
        for place in (0, 1):
            here = group == place
            used = None if own is None else own[here]
            area = sklearn.metrics.roc_auc_score(
                label[here], p[here], sample_weight=used
            )
            loss = sklearn.metrics.brier_score_loss(
                label[here], p[here], sample_weight=used
            )
            assert found.counted("auc").values[place] == pytest.approx(area)
            assert found.counted("brier").values[place] == pytest.approx(loss)
        assert found["auc_gap"].low <= found["auc_gap"].value <= found["auc_gap"].high
        assert all(area.high - area.low < 0.2 for area in found.rates("auc"))


def test_auc_of_groups_that_are_ranked_almost_without_a_mistake_seldom_differ() -> None:
    """Where hardly a row is ranked wrongly DeLong's variance is nearly 0: equal groups differed
    in 0.34.
    """
    differs = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        group = np.repeat([0, 1], 60)
        label = (rng.random(120) < 0.4).astype(int)
        p = 1 / (1 + np.exp(-rng.normal(4.2 * label, 1.0)))
        found = ArmEstimates(once(np.ones(120), group, label, p_yes=p))
        differs.append(found["auc_gap"].verdict == "differs")
    assert np.mean(differs) < 0.1


def within(sample: ArmArrays, groups: Any = ("f", "m")) -> ParityWithinStrata:
    found = conditional_parity(sample, groups)
    assert found is not None
    return found


def test_conditional_parity_takes_each_stratum_by_itself() -> None:
    """Berkeley's admissions in small: alike in each department, far apart in all together."""
    rows = [
        ("easy", "m", 80, 64),
        ("easy", "f", 20, 16),
        ("hard", "m", 20, 4),
        ("hard", "f", 80, 16),
    ]
    stratum = np.repeat([row[0] for row in rows], [row[2] for row in rows])
    group = np.repeat([row[1] == "m" for row in rows], [row[2] for row in rows]).astype(
        int
    )
    sample = once(
        np.concatenate([np.arange(n) < yes for _, _, n, yes in rows]),
        group,
        strata=stratum,
    )
    assert ArmEstimates(sample)[GAP].verdict == "differs"
    found = within(sample)
    assert (found.strata, found.dropped) == (2, [])
    gap = found.estimate
    assert (gap.value, gap.p_value) == pytest.approx((0.0, 1.0))
    assert gap.verdict == "not settled: too few rows"
    apart = within(replace(sample, answer=group.astype(float))).estimate
    assert (apart.verdict, apart.p_value < 0.001) == ("differs", True)
    alone = within(replace(sample, strata=np.where(group == 1, "easy", stratum)))
    assert alone.dropped == ["hard"]


@pytest.mark.parametrize("groups", [2, 4])
def test_conditional_parity_differs_exactly_where_p_is_below_5_percent(
    rng: Generator, groups: int
) -> None:
    verdicts = set()
    for shift in np.tile(np.linspace(0.0, 0.5, 25), 4):
        group = rng.integers(0, groups, 160)
        answer = rng.random(160) < 0.3 + shift * (group == 1)
        sample = once(answer, group, strata=rng.integers(0, 3, 160))
        found = within(sample, "abcd"[:groups]).estimate
        assert (found.verdict == "differs") == (found.p_value < 0.05) == (found.low > 0)
        verdicts.add(found.verdict)
    assert len(verdicts) > 1


def test_people_of_unequal_size_have_few_degrees_of_freedom(rng: Generator) -> None:
    """Each person counted alike whatever the number of their rows: 0.135 of equal groups differed."""
    size = np.maximum(1, rng.lognormal(1.1, 1.5, 60).round()).astype(int)
    who = np.repeat(np.arange(60), size)
    found = ArmEstimates(once(rng.random(60)[who] < 0.4, who % 2, cluster=who))
    assert found.counted("selection_rate").freedom.max() < 20
    one = np.r_[0, np.repeat([1, 2, 3], [2, 3, 10_000])]
    huge = ArmEstimates(once(one % 2 == 0, np.array([0, 1, 0, 1])[one], cluster=one))
    assert (huge[GAP].low, huge[GAP].high) == (0.0, 1.0), (
        "two people a group, one of whom has all the rows"
    )


def test_small_groups_are_of_few_people_whatever_the_number_of_rows() -> None:
    group = np.repeat([0, 1, 2], 40)
    who = np.r_[np.arange(80), 80 + np.arange(40) // 10]
    design = SamplingDesign(min_group=30)
    assert once(
        np.ones(120), group, cluster=who, design=design
    ).eligible_groups.tolist() == [0, 1]
    assert once(np.ones(120), group, design=design).eligible_groups.tolist() == [
        0,
        1,
        2,
    ]


def test_parity_within_strata_of_one_to_three_rows_has_satos_variance() -> None:
    """By the rates of each stratum 0.061 to 0.073 of such gaps of equal groups differed."""
    # Sato (1989) by metafor's rma.mh(measure="RD") on 3/10, 5/12 and 2/9, 6/11, with two rows more.
    rows = np.array([(0, 0, 3, 10), (0, 1, 5, 12), (1, 0, 2, 9), (1, 1, 6, 11)])
    strata, group = (np.repeat(rows[:, k], rows[:, 3]) for k in (0, 1))
    answer = np.concatenate([np.arange(n) < yes for _, _, yes, n in rows])
    found = within(once(answer, group, strata=strata)).estimate
    assert found.value == pytest.approx(0.214941)
    error = (found.high - found.value) / 1.959964
    assert error == pytest.approx(np.sqrt(0.025910), rel=1e-4)


def test_brier_gaps_of_few_rows_take_wider_limits_than_the_normals(
    rng: Generator,
) -> None:
    """Squared errors, of which most are near 0, vary more than their variance tells: 0.077 of
    equal groups differed.
    """
    label = np.tile([0, 1], 60)
    p = ndtr(rng.standard_normal(120) + 3.0 * (label - 0.5))
    group = np.repeat([0, 1], 60)
    sample = once(label, group, label, design=SamplingDesign(True), p_yes=p)
    assert ArmEstimates(sample).counted("brier").freedom.max() < 60


def test_one_stray_value_of_examples_changes_nothing() -> None:
    (sample,) = arms(np.random.default_rng(0), USUAL, repeats=10, shift=0.2)
    stray = sample.examples.copy()
    stray[0] = 99
    one, other = (
        ArmEstimates(replace(sample, examples=e))["accuracy"]
        for e in (sample.examples, stray)
    )
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=0.01)
    fixed = replace(sample, examples=np.where(np.arange(len(stray)) == 0, 1, 0))
    assert fixed.scope == "these examples"
    per_row = replace(sample, examples=np.arange(len(stray)))
    assert per_row.scope == "this strategy"
    assert per_row.sets is per_row.repeat, "from five repeats on their spread counts"


# --- Odd samples, as a user has them


def odd_arm(said: Any, place: Any = slice(None), **columns: Any) -> Statistics:
    """The audit of 400 people, women and men in turn, and of their rows where several are at one
    `place`.
    """
    frame = pd.DataFrame(
        {
            "said": said,
            "sex": np.array([*"fm"])[np.arange(400) % 2],
            "who": np.arange(400),
        }
    )
    names = (
        {"weight": "counts"}
        if columns
        else {}
        if isinstance(place, slice)
        else {"cluster": "who"}
    )
    found = audit(
        frame.assign(**columns).iloc[place],
        answer="said",
        protected="sex",
        label=None,
        **names,
    )
    return found.statistics


SAID = np.array([*["no"] * 3, "yes", "yes"] * 80, dtype=object)


def test_one_person_or_weight_that_is_nearly_all_of_a_group_decides_nothing() -> None:
    """A person of 10,000 rows among people of one: the variance was that of the others, and all
    differed.
    """
    size = np.ones(400, dtype=int)
    size[0] = 10_000
    for arm in (
        odd_arm(SAID, np.repeat(np.arange(400), size)),
        odd_arm(SAID, counts=size * 1e5),
    ):
        assert arm.of("selection_rate", "answers", "f").high > 0.6
        assert arm.of(GAP, "answers").verdict == "not settled: too few rows"


def test_the_brier_score_of_all_is_a_mean_over_repeats_like_those_of_groups() -> None:
    rows = pd.DataFrame({"row": range(40), "group": ["f", "m"] * 20})
    rows["label"] = rows["answer"] = ["yes", "no", "no", "yes"] * 10
    first = rows.assign(repeat=0, p_yes=0.5)
    second = rows.iloc[:10].assign(repeat=1, p_yes=1.0)
    found = audit(pd.concat([first, second])).records
    expected = (0.25 + (second["label"] == "no").mean()) / 2
    assert found.of("brier", "answers").value == pytest.approx(expected)
