"""One threshold for all, against answering row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm import FwcError
from fwc_llm.metrics import group_metrics
from fwc_llm.metrics.thresholds import (
    Curve,
    at_base_rate,
    held_out,
    least_gap,
    least_gap_keeping_half,
    most_accurate,
    threshold_curve,
    two_halves,
)

GROUPS = np.array(["F", "M", "X"])


def rows(seed: int, n: int = 90, decimals: int = 2, groups: int = 2) -> tuple[np.ndarray, ...]:
    """P(yes), labels and groups; few decimals make many ties."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) % groups
    labels = (rng.random(n) < 0.3 + 0.2 * member).astype(int)
    p = np.clip(0.45 + 0.2 * labels + 0.05 * member + rng.normal(0, 0.15, n), 0, 1)
    return np.round(p, decimals), labels, GROUPS[member]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(1, 3))
def test_every_point_is_what_its_threshold_answers(seed: int, decimals: int, groups: int) -> None:
    p, labels, level = rows(seed, decimals=decimals, groups=groups)
    curve = threshold_curve(p, labels, level)
    assert curve.thresholds.tolist() == [*sorted(set(p.tolist())), np.inf]
    for place, threshold in enumerate(curve.thresholds):
        found = group_metrics((p >= threshold).astype(float), labels, level)
        assert curve.accuracy[place] == pytest.approx(found.accuracy)
        assert curve.gap[place] == pytest.approx(found.demographic_parity_difference, nan_ok=True)
        assert curve.rates[place] == pytest.approx(list(found.rates.values()))
        assert curve.ties[place] == (p == threshold).sum()
        assert curve.place(threshold) == place
        assert curve.place(threshold - 1e-9) == place
    assert curve.ties_at(0.12345) == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3))
def test_a_weight_is_how_often_a_row_counts(seed: int, groups: int) -> None:
    p, labels, level = rows(seed, groups=groups)
    often = np.random.default_rng(seed).integers(0, 4, len(p))
    often[:6] = 1  # every group and label stays
    weighted = threshold_curve(p, labels, level, often)
    repeated = threshold_curve(*(np.repeat(values, often) for values in (p, labels, level)))
    for threshold in (0.0, 0.3, 0.5, 0.61, 1.0):
        one, other = weighted.place(threshold), repeated.place(threshold)
        for name in ("accuracy", "share", "gap", "rates"):
            assert getattr(weighted, name)[one] == pytest.approx(getattr(repeated, name)[other])
    assert weighted.base_rate == pytest.approx(repeated.base_rate)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 2))
def test_choices_against_trying_all(seed: int, decimals: int) -> None:
    p, labels, level = rows(seed, decimals=decimals)
    curve = threshold_curve(p, labels, level)
    tried = [(p >= threshold).astype(float) for threshold in curve.thresholds]
    found = [group_metrics(answers, labels, level) for answers in tried]
    accuracy = [one.accuracy for one in found]
    assert curve.accuracy[most_accurate(curve)] == pytest.approx(max(accuracy))
    mixed = [place for place, answers in enumerate(tried) if 0 < answers.mean() < 1]
    smallest = min(found[place].demographic_parity_difference for place in mixed)
    place = least_gap(curve)
    assert place in mixed
    assert curve.gap[place] == pytest.approx(smallest)
    equal = [i for i in mixed if found[i].demographic_parity_difference < smallest + 1e-9]
    assert curve.accuracy[place] == pytest.approx(max(accuracy[i] for i in equal))
    useful = least_gap(curve, max(labels.mean(), 1 - labels.mean()))
    if useful is not None:
        assert curve.accuracy[useful] >= max(labels.mean(), 1 - labels.mean()) - 1e-9
        assert curve.gap[useful] >= curve.gap[place]
    kept, constant = least_gap_keeping_half(curve), max(labels.mean(), 1 - labels.mean())
    assert kept is None or curve.accuracy[kept] >= (constant + max(accuracy)) / 2 - 1e-9
    off = [abs(answers.mean() - labels.mean()) for answers in tried]
    assert abs(curve.share[at_base_rate(curve)] - labels.mean()) == pytest.approx(min(off))


def test_the_frontier_is_what_nothing_beats() -> None:
    curve = threshold_curve(*rows(3))
    for i in range(len(curve.thresholds)):
        no_worse = (curve.gap <= curve.gap[i] + 1e-12) & (curve.accuracy >= curve.accuracy[i] - 1e-12)
        better = no_worse & (
            (curve.gap < curve.gap[i] - 1e-12) | (curve.accuracy > curve.accuracy[i] + 1e-12)
        )
        if curve.best[i]:
            assert not better.any()
        else:  # beaten, or the twin of a point on the frontier
            assert better.any() or (no_worse & curve.best).any()


def constant(p: float) -> Curve:
    return threshold_curve([p] * 4, [1, 0, 1, 1], list("aabb"))


def test_a_constant_probability_leaves_no_choice() -> None:
    curve = constant(0.7)
    assert curve.thresholds.tolist() == [0.7, np.inf]
    assert least_gap(curve) is None
    assert most_accurate(curve) == 0
    assert curve.ties_at(0.7) == 4
    assert (curve.place(0.5), curve.place(0.9)) == (0, 1)
    assert at_base_rate(curve) == 0
    assert at_base_rate(curve, 0.1) == 1


def test_one_group_has_no_gap_and_other_groups_keep_their_place() -> None:
    one = threshold_curve([0.2, 0.8], [0, 1], ["a", "a"])
    assert np.isnan(one.gap).all()
    assert least_gap(one) is None
    assert one.accuracy[most_accurate(one)] == 1.0
    absent = threshold_curve([0.2, 0.8], [0, 1], ["b", "b"], order=("a", "b"))
    assert np.isnan(absent.gap).all()
    assert np.isnan(absent.rates[:, 0]).all()


@pytest.mark.parametrize(
    ("p", "labels", "groups", "weights", "said"),
    [
        ([], [], [], None, "one length"),
        ([0.5], [1, 0], ["a", "b"], None, "one length"),
        ([0.5, np.nan], [1, 0], ["a", "b"], None, "leave out the rows without one"),
        ([0.5, 87.0], [1, 0], ["a", "b"], None, "from 0 to 1"),
        ([0.5, 0.7], [1, 2], ["a", "b"], None, "1 .yes. or 0 .no."),
        ([0.5, 0.7], [1, 0], ["a", "b"], [1, -1], "0 or more"),
        ([0.5, 0.7], [1, 0], ["a", "b"], [0, 0], "not all 0"),
    ],
)
def test_what_does_not_fit_is_said(p: list, labels: list, groups: list, weights: list, said: str) -> None:
    with pytest.raises(FwcError, match=said):
        threshold_curve(p, labels, groups, weights)


def test_what_is_chosen_on_one_half_is_used_on_the_other() -> None:
    """A row's own label and P(yes) have no part in its own threshold, and its questions stay together."""
    p, labels, level = rows(5, n=400)
    names = np.arange(len(p))
    half = two_halves(np.tile(labels, 2), np.tile(level, 2), np.tile(names, 2))
    assert (half[:400] == half[400:]).all()
    answers = held_out(least_gap, p, labels, level, names)
    half = two_halves(labels, level, names)
    for side in (0, 1):
        here, other = half == side, half != side
        curve = threshold_curve(p[other], labels[other], level[other])
        threshold = curve.thresholds[least_gap(curve)]
        assert (answers[here] == (p[here] >= threshold)).all()
    assert np.isnan(held_out(least_gap, [0.5] * 8, [0, 1] * 4, list("aabb") * 2, np.arange(8))).all()


def test_a_hundred_thousand_different_values_take_no_time_to_speak_of() -> None:
    rng = np.random.default_rng(0)
    p, labels, level = rng.random(100_000), rng.integers(0, 2, 100_000), GROUPS[rng.integers(0, 3, 100_000)]
    curve = threshold_curve(p, labels, level)
    assert len(curve.thresholds) == 100_001
    assert curve.accuracy[most_accurate(curve)] > 0.5
    assert curve.gap[least_gap(curve)] < 0.01
