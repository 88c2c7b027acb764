"""Probabilities against scikit-learn, thresholds per group against brute force."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.metrics import group_metrics
from fwc_llm.metrics.probability import (
    auc,
    brier,
    equal_rate_thresholds,
    held_out_equal_rates,
    probability_gap,
)


def rows(seed: int, n: int = 120, decimals: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(["F", "M"], n // 2)
    labels = (rng.random(n) < np.where(groups == "M", 0.7, 0.3)).astype(int)
    p = np.clip(0.5 + 0.25 * (labels - 0.5) + rng.normal(0, 0.2, n) + 0.1 * (groups == "M"), 0, 1)
    return np.round(p, decimals), labels, groups


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_auc_and_brier_agree_with_scikit_learn(seed: int, decimals: int) -> None:
    p, labels, _ = rows(seed, decimals=decimals)
    assert auc(p, labels) == pytest.approx(sklearn.metrics.roc_auc_score(labels, p))
    assert brier(p, labels) == pytest.approx(sklearn.metrics.brier_score_loss(labels, p))


def test_auc_needs_both_labels() -> None:
    assert np.isnan(auc([0.1, 0.9], [1, 1]))


def test_gap_of_the_mean_probability() -> None:
    assert probability_gap([0.2, 0.4, 0.9, 0.7], list("aabb")) == pytest.approx(0.5)
    assert np.isnan(probability_gap([0.2], ["a"]))


def test_thresholds_equalise_the_rates_on_the_rows_they_were_fitted_on() -> None:
    p, labels, groups = rows(4, decimals=9)
    fitted = equal_rate_thresholds(p, labels, groups)
    answers = (p >= np.array([fitted[g] for g in groups])).astype(float)
    found = group_metrics(answers, labels, groups)
    assert found.demographic_parity_difference <= 1 / 60 + 1e-12
    # Brute force over all pairs of thresholds with equal counts of yes.
    best = 0.0
    for count in range(61):
        trial = np.zeros(120)
        for g in "FM":
            here = np.flatnonzero(groups == g)
            trial[here[np.argsort(-p[here])[:count]]] = 1
        best = max(best, float(np.mean(trial == labels)))
    assert found.accuracy == pytest.approx(best)


def test_held_out_thresholds_never_see_the_row_they_answer() -> None:
    """Changing one row's label cannot change that row's own answer."""
    p, labels, groups = rows(5)
    names = np.arange(len(p))
    before = held_out_equal_rates(p, labels, groups, names)
    assert not np.isnan(before).any()
    gap = group_metrics(before, labels, groups).demographic_parity_difference
    assert gap < group_metrics((p >= 0.5).astype(float), labels, groups).demographic_parity_difference
    again = np.tile(names, 2)
    doubled = held_out_equal_rates(np.tile(p, 2), np.tile(labels, 2), np.tile(groups, 2), again)
    assert (doubled[: len(p)] == doubled[len(p) :]).all()
