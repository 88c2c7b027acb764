"""The main table's numbers: against fairlearn where it defines them, NaN with a reason where nothing does."""

from itertools import product

import fairlearn.metrics as fairlearn
import numpy as np
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.metrics import group_metrics
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.counts import TREATMENTS, bounds, count_cells, treated
from fwc_llm.metrics.variance import Sample

METRICS = ("demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference")


def random_answers(seed: int, n: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.array([f"g{level}" for level in rng.integers(0, levels, n)])
    return rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n), groups


RATES = {
    "rate": fairlearn.selection_rate,
    "true_positive_rate": fairlearn.true_positive_rate,
    "false_positive_rate": fairlearn.false_positive_rate,
}


@pytest.mark.slow
def test_1000_random_tables_agree_with_fairlearn_weights_included() -> None:
    """Values of metrics and rates, through counts and through the arrays that intervals come from."""
    for seed in range(1000):
        agrees_with_fairlearn(seed)


def test_20_random_tables_agree_with_fairlearn() -> None:
    for seed in range(20):
        agrees_with_fairlearn(seed)


def agrees_with_fairlearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels, n = int(rng.integers(2, 5)), int(rng.integers(60, 160))
    predicted, labels, groups = random_answers(seed, n, levels)
    weight = None if seed % 2 else rng.uniform(0.2, 5.0, n)
    frame = fairlearn.MetricFrame(
        metrics=RATES,
        y_true=labels,
        y_pred=predicted,
        sensitive_features=groups,
        sample_params=None if weight is None else {name: {"sample_weight": weight} for name in RATES},
    )
    gap, odds = frame.difference(), ("true_positive_rate", "false_positive_rate")
    theirs = {
        "demographic_parity_difference": gap["rate"],
        "demographic_parity_ratio": frame.ratio()["rate"],
        "equalized_odds_difference": max(gap[rate] for rate in odds),
        "equal_opportunity_difference": gap["true_positive_rate"],
        "false_positive_rate_difference": gap["false_positive_rate"],
    }
    ours = group_metrics(predicted, labels, groups, weights=weight)
    _, member = np.unique(groups, return_inverse=True)
    found = estimate(Sample(predicted, labels, member, np.zeros(n, int), np.arange(n), levels, weight=weight))
    for name, value in theirs.items():
        assert getattr(ours, name) == pytest.approx(value, abs=1e-9), (seed, name)
        assert found[name].value == pytest.approx(value, abs=1e-9), (seed, name)
    for rate in RATES:
        np.testing.assert_allclose(found.counted(rate).values, frame.by_group[rate].to_numpy(), atol=1e-9)


def test_unparsed_answers_count_for_coverage_and_nothing_else() -> None:
    predicted = [1, 0, np.nan, 1, 1, np.nan, np.nan, 0]
    labels = [1, 0, 1, 0, 1, 0, 0, 1]
    groups = list("aaaabbbb")
    ours = group_metrics(predicted, labels, groups)
    assert ours.n == 8
    assert ours.coverage == 5 / 8
    assert ours.coverage_by_group == {"a": 3 / 4, "b": 2 / 4}
    assert ours.accuracy == 3 / 5
    assert ours.rates == {"a": 2 / 3, "b": 1 / 2}
    assert ours.demographic_parity_difference == pytest.approx(1 / 6)
    assert ours.sizes == {"a": 4, "b": 4}


def test_a_group_without_answers_makes_parity_undefined_not_zero() -> None:
    ours = group_metrics([1, 0, np.nan, np.nan], [1, 0, 1, 0], list("aabb"))
    assert np.isnan(ours.demographic_parity_difference)
    assert np.isnan(ours.demographic_parity_ratio)
    assert ours.reasons["demographic_parity_difference"] == "no parsed answer in group b"
    assert ours.accuracy == 1.0
    assert "accuracy" not in ours.reasons


def test_a_group_without_rows_is_seen_when_named() -> None:
    ours = group_metrics([1, 0], [1, 0], ["b", "b"], order=("b", "a"))
    assert list(ours.rates) == ["b", "a"]
    assert ours.sizes == {"b": 2, "a": 0}
    assert ours.reasons["demographic_parity_difference"] == "no parsed answer in group a"


def test_a_ratio_of_two_zero_rates_is_undefined_while_the_difference_is_zero() -> None:
    ours = group_metrics([0, 0, 0, 0], [1, 0, 1, 0], list("aabb"))
    assert ours.demographic_parity_difference == 0.0
    assert np.isnan(ours.demographic_parity_ratio)
    assert "demographic_parity_ratio" in ours.reasons


def test_equalized_odds_needs_both_labels_in_every_group() -> None:
    """As at base-rate parity 1, where one group has only no and the other only yes."""
    ours = group_metrics([1, 0, 1, 0], [0, 0, 1, 1], ["F", "F", "M", "M"])
    assert np.isnan(ours.equalized_odds_difference)
    assert "with label yes in group F" in ours.reasons["equalized_odds_difference"]


def test_one_group_has_nothing_to_differ_from() -> None:
    ours = group_metrics([1, 0], [1, 1], ["a", "a"])
    assert ours.accuracy == 0.5
    assert set(ours.reasons) == set(METRICS)


def test_nothing_parsed() -> None:
    ours = group_metrics([np.nan] * 4, [1, 0, 1, 0], list("aabb"))
    assert ours.coverage == 0.0
    assert np.isnan(ours.accuracy)
    assert set(ours.reasons) == {*METRICS, "accuracy"}


def test_a_perfect_classifier_has_the_base_parity_as_its_disparity() -> None:
    labels = np.repeat([0, 1, 0, 1], [75, 25, 25, 75])
    ours = group_metrics(labels.astype(float), labels, np.repeat(["F", "M"], 100))
    assert (ours.accuracy, ours.demographic_parity_difference) == (1.0, 0.5)
    assert ours.equalized_odds_difference == 0.0


@pytest.mark.parametrize(
    ("predicted", "labels", "groups", "words"),
    [
        ([], [], [], "no answers"),
        ([1, 0], [1], ["a", "b"], "one length"),
        ([[1, 0]], [[1, 0]], [["a", "b"]], "one length"),
        ([0.5, 1], [1, 0], ["a", "b"], "an answer is 1"),
        ([1, 0], [1, np.nan], ["a", "b"], "a label is 1"),
        (["yes", "no"], [1, 0], ["a", "b"], "must be numbers"),
    ],
)
def test_what_does_not_fit_is_refused(predicted: list, labels: list, groups: list, words: str) -> None:
    with pytest.raises(FwcError, match=words):
        group_metrics(predicted, labels, groups)


def test_a_row_of_an_unnamed_group_is_refused() -> None:
    with pytest.raises(FwcError, match="'c'"):
        group_metrics([1, 0], [1, 0], ["a", "c"], order=["a", "b"])


HEADLINE = ("accuracy", *METRICS)


def answers_with_gaps(seed: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"g{level}" for level in range(levels)], 8)
    labels = np.tile([0, 1], 4 * levels)
    predicted = rng.integers(0, 2, len(groups)).astype(float)
    predicted[rng.choice(len(groups), 7, replace=False)] = np.nan
    return predicted, labels, groups


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("levels", [2, 3])
def test_bounds_hold_over_every_filling_and_the_worst_is_attained(seed: int, levels: int) -> None:
    predicted, labels, groups = answers_with_gaps(seed, levels)
    gaps = np.flatnonzero(np.isnan(predicted))
    seen: dict[str, list[float]] = {name: [] for name in HEADLINE}
    for filling in product([0.0, 1.0], repeat=len(gaps)):
        filled = predicted.copy()
        filled[gaps] = filling
        metrics = group_metrics(filled, labels, groups)
        for name in HEADLINE:
            seen[name].append(getattr(metrics, name))
    found = bounds(count_cells(predicted, labels, groups).counts)
    for name in HEADLINE:
        low, high = found[name]
        assert low <= np.nanmin(seen[name]) + 1e-12, name
        assert high >= np.nanmax(seen[name]) - 1e-12, name
    assert found["accuracy"] == pytest.approx((min(seen["accuracy"]), max(seen["accuracy"])))
    for name in ("demographic_parity_difference", "equalized_odds_difference"):
        assert found[name][1] == pytest.approx(max(seen[name])), name
    assert found["demographic_parity_ratio"][0] == pytest.approx(np.nanmin(seen["demographic_parity_ratio"]))


def test_treatments_are_what_they_say() -> None:
    predicted, labels, groups = answers_with_gaps(0, 2)
    counts = count_cells(predicted, labels, groups).counts
    for treatment, value in zip(TREATMENTS, (np.nan, 0.0, 1.0), strict=True):
        filled = np.where(np.isnan(predicted), value, predicted)
        expected = group_metrics(filled, labels, groups)
        found = treated(counts, treatment)
        for name in HEADLINE:
            assert found[name][0] == pytest.approx(getattr(expected, name)), (treatment, name)


def test_without_gaps_the_bounds_are_the_value() -> None:
    predicted, labels, groups = answers_with_gaps(1, 2)
    predicted = np.nan_to_num(predicted)
    expected = group_metrics(predicted, labels, groups)
    for name, (low, high) in bounds(count_cells(predicted, labels, groups).counts).items():
        assert low == pytest.approx(high) == getattr(expected, name)


def test_a_group_that_never_answered_is_bounded_all_the_same() -> None:
    found = bounds(count_cells([1, 0, np.nan, np.nan], [1, 0, 1, 0], list("aabb")).counts)
    assert found["demographic_parity_difference"] == (0.0, 0.5)
    assert found["accuracy"] == (0.5, 1.0)


def test_one_group_has_no_gap() -> None:
    found = bounds(count_cells([1, np.nan], [1, 0], ["a", "a"]).counts)
    assert np.isnan(found["demographic_parity_difference"]).all()
    assert found["accuracy"] == (0.5, 1.0)
