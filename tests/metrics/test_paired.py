"""Paired tests against scipy and against full enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from fwc_llm.metrics.paired import holm, mcnemar, parity_permutation


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_mcnemar_agrees_with_the_binomial_test(pairs: list[tuple[bool, bool]]) -> None:
    right, other = np.array(pairs).T
    better, worse = int(np.sum(right & ~other)), int(np.sum(~right & other))
    ours = mcnemar(right, other)
    assert (ours.better, ours.worse) == (better, worse)
    assert ours.p_value == pytest.approx(binomtest(better, better + worse).pvalue if better + worse else 1.0)


def test_a_row_asked_in_five_repeats_counts_once() -> None:
    right = np.array([1, 1, 1, 0])
    other = np.array([0, 1, 1, 1])
    once = mcnemar(right, other)
    again = mcnemar(np.tile(right, 5), np.tile(other, 5), rows=np.tile(np.arange(4), 5))
    assert once == again


def test_no_discordant_row_gives_no_evidence() -> None:
    assert mcnemar([1, 0], [1, 0]).p_value == 1.0
    assert mcnemar([], []).p_value == 1.0


def enumerated(yes: np.ndarray, other: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Every one of the 2^n swaps, with the gap computed from the rows."""

    def gap(values: np.ndarray) -> float:
        return abs(values[groups == "F"].mean() - values[groups == "M"].mean())

    observed = gap(yes) - gap(other)
    differences = []
    for swap in product([False, True], repeat=len(yes)):
        a, b = np.where(swap, other, yes), np.where(swap, yes, other)
        differences.append(gap(a) - gap(b))
    return observed, float(np.mean(np.abs(differences) >= abs(observed) - 1e-12))


@pytest.mark.parametrize("seed", range(4))
def test_the_permutation_test_agrees_with_full_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    yes, other = rng.integers(0, 2, (2, 12)).astype(float)
    groups = np.repeat(["F", "M"], [7, 5])
    difference, p = parity_permutation(yes, other, groups, draws=40_000)
    exact_difference, exact_p = enumerated(yes, other, groups)
    assert difference == pytest.approx(exact_difference)
    assert p == pytest.approx(exact_p, abs=0.01)


def test_over_repeats_the_gap_is_the_mean_of_each_repeats_gap() -> None:
    """Opposite gaps in two repeats do not cancel."""
    groups = np.tile(np.repeat(["F", "M"], 10), 2)
    repeats = np.repeat([0, 1], 20)
    yes = np.concatenate([np.repeat([0, 1], 10), np.repeat([1, 0], 10)])
    difference, p = parity_permutation(yes, np.zeros(40), groups, repeats)
    assert difference == pytest.approx(1.0)
    assert p < 0.001


def test_rows_shared_by_repeats_are_exchanged_together() -> None:
    """The same evidence five times over is not five times the evidence."""
    rng = np.random.default_rng(3)
    groups = np.repeat(["F", "M"], 30)
    yes = (rng.random(60) < np.where(groups == "M", 0.6, 0.4)).astype(float)
    other = (rng.random(60) < 0.5).astype(float)
    once = parity_permutation(yes, other, groups, draws=20_000)
    tiled = [np.tile(values, 5) for values in (yes, other, groups)]
    repeats, rows = np.repeat(np.arange(5), 60), np.tile(np.arange(60), 5)
    assert parity_permutation(*tiled, repeats, rows, draws=20_000) == pytest.approx(once, abs=0.02)


def p_values_under_the_null(women: float, men: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    groups = np.repeat(["F", "M"], 100)
    chance = np.where(groups == "M", men, women)
    p = [
        parity_permutation(*(rng.random((2, 200)) < chance).astype(float), groups, draws=300, seed=trial)[1]
        for trial in range(400)
    ]
    return np.array(p)


def test_equal_arms_are_told_apart_as_often_as_the_level_says() -> None:
    assert 0.02 <= np.mean(p_values_under_the_null(0.2, 0.7) <= 0.05) <= 0.08


def test_equal_arms_without_a_gap_are_told_apart_less_often() -> None:
    assert np.mean(p_values_under_the_null(0.5, 0.5) <= 0.05) <= 0.05


def test_undefined_without_two_groups() -> None:
    assert np.isnan(parity_permutation([1, 0], [0, 1], ["a", "a"])).all()


def closed_testing(p_values: list[float]) -> list[float]:
    """Holm's procedure as the closure of Bonferroni's: the worst set of hypotheses that each belongs to."""
    sets = [s for size in range(1, len(p_values) + 1) for s in combinations(range(len(p_values)), size)]
    bonferroni = {s: min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets}
    return [max(bonferroni[s] for s in sets if i in s) for i in range(len(p_values))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_agrees_with_closed_testing(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


def test_holm_leaves_undefined_values_out() -> None:
    assert holm([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
