"""The main table's numbers: against fairlearn where it defines them, NaN with a reason where nothing does."""

import fairlearn.metrics as fairlearn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.metrics import group_metrics

METRICS = ("demographic_parity_difference", "demographic_parity_ratio", "equalized_odds_difference")


def random_answers(seed: int, n: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.array([f"g{level}" for level in rng.integers(0, levels, n)])
    return rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n), groups


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.integers(2, 5))
def test_agrees_with_fairlearn(seed: int, levels: int) -> None:
    predicted, labels, groups = random_answers(seed, 300, levels)
    ours = group_metrics(predicted, labels, groups)
    for name in METRICS:
        theirs = getattr(fairlearn, name)(labels, predicted, sensitive_features=groups)
        assert getattr(ours, name) == pytest.approx(theirs, abs=1e-12), name
    frame = fairlearn.MetricFrame(
        metrics={"rate": fairlearn.selection_rate, "n": fairlearn.count, "tpr": fairlearn.true_positive_rate},
        y_true=labels,
        y_pred=predicted,
        sensitive_features=groups,
    )
    assert ours.rates == pytest.approx(frame.by_group["rate"].to_dict(), abs=1e-12)
    assert ours.true_positive_rates == pytest.approx(frame.by_group["tpr"].to_dict(), abs=1e-12)
    assert ours.sizes == frame.by_group["n"].to_dict()
    assert ours.accuracy == pytest.approx(np.mean(predicted == labels))
    assert ours.reasons == {}


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
    assert (
        ours.reasons["equalized_odds_difference"] == "no parsed answer for F with label yes, M with label no"
    )


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
