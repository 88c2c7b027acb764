"""Intervals against statsmodels and scipy, and against what they promise: coverage of the truth."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.metrics.cells import Cells, count_cells, measure
from fwc_llm.metrics.groups import group_metrics
from fwc_llm.metrics.intervals import (
    mean_over_repeats,
    newcombe,
    percentile,
    ratio_interval,
    resample,
    spread_interval,
    wilson,
)

counts = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=60, deadline=None)
@given(counts, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(share: tuple[int, int], level: float) -> None:
    theirs = scipy.stats.binomtest(*share).proportion_ci(level, method="wilson")
    assert wilson(*share, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_without_observations_is_undefined() -> None:
    assert np.isnan(wilson(0, 0)).all()


def newcombe_by_the_book(a: int, m: int, b: int, n: int) -> tuple[float, float]:
    """Newcombe (1998), Statistics in Medicine 17:873, method 10, written from its own formulas."""
    z = scipy.stats.norm.ppf(0.975)

    def roots(x: int, n: int) -> np.ndarray:
        # |x/n - t| = z sqrt(t (1 - t) / n), squared: a quadratic in t.
        found = np.roots([1 + z**2 / n, -2 * x / n - z**2 / n, (x / n) ** 2]).real
        return np.clip(np.sort(found), 0, 1)

    (l1, u1), (l2, u2) = roots(a, m), roots(b, n)
    low = z * np.sqrt(l1 * (1 - l1) / m + u2 * (1 - u2) / n)
    high = z * np.sqrt(u1 * (1 - u1) / m + l2 * (1 - l2) / n)
    return a / m - b / n - low, a / m - b / n + high


@settings(max_examples=60, deadline=None)
@given(counts, counts)
def test_newcombe_agrees_with_its_own_formulas(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert newcombe(*one, *other) == pytest.approx(newcombe_by_the_book(*one, *other), abs=1e-7)


def test_newcombe_of_the_published_example() -> None:
    """Newcombe (1998), table II, example (a): 56/70 against 48/80, method 10."""
    assert newcombe(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_newcombe_is_antisymmetric() -> None:
    low, high = newcombe(30, 100, 70, 100)
    assert newcombe(70, 100, 30, 100) == pytest.approx((-high, -low))


@settings(max_examples=60, deadline=None)
@given(counts.filter(lambda c: c[0] > 0), counts.filter(lambda c: c[0] > 0))
def test_ratio_agrees_with_scipys_relative_risk(one: tuple[int, int], other: tuple[int, int]) -> None:
    theirs = scipy.stats.contingency.relative_risk(*one, *other).confidence_interval(0.95)
    assert ratio_interval(*one, *other) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_ratio_without_a_success_is_undefined() -> None:
    assert np.isnan(ratio_interval(0, 10, 3, 10)).all()


def some_answers(seed: int = 0, n: int = 200, repeats: int = 1) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    labels = np.tile(np.repeat([0, 1, 0, 1], [n * 3 // 8, n // 8, n // 8, n * 3 // 8]), repeats)
    groups = np.tile(np.repeat(["F", "M"], n // 2), repeats)
    predicted = (rng.random(n * repeats) < 0.3 + 0.3 * labels + 0.1 * (groups == "M")).astype(float)
    predicted[rng.random(n * repeats) < 0.05] = np.nan
    return predicted, labels, groups, np.repeat(np.arange(repeats), n)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4))
def test_counts_measure_what_rows_measure(seed: int, repeats: int) -> None:
    """The count formulas agree with group_metrics applied to each repeat by itself."""
    predicted, labels, groups, repeat = some_answers(seed, 80, repeats)
    found = measure(count_cells(predicted, labels, groups, repeats=repeat).counts)
    for r in range(repeats):
        rows = repeat == r
        single = group_metrics(predicted[rows], labels[rows], groups[rows])
        for name in ("accuracy", "coverage", "demographic_parity_difference", "equalized_odds_difference"):
            assert getattr(found, name)[r] == pytest.approx(getattr(single, name), nan_ok=True)


def test_the_bootstrap_agrees_with_resampling_rows_one_by_one() -> None:
    """Multinomial draws of counts against the slow way: pick rows with replacement within each cell."""
    predicted, labels, groups, repeat = some_answers(repeats=2)
    fast = resample(count_cells(predicted, labels, groups, repeats=repeat), draws=8000)
    rng = np.random.default_rng(1)
    strata = [
        np.flatnonzero((repeat == r) & (groups == g) & (labels == y))
        for r in (0, 1)
        for g in "FM"
        for y in (0, 1)
    ]
    slow = []
    for _ in range(1500):
        pick = np.concatenate([rng.choice(rows, len(rows)) for rows in strata])
        cells = count_cells(predicted[pick], labels[pick], groups[pick], repeats=repeat[pick])
        slow.append(mean_over_repeats(measure(cells.counts)))
    for name in ("accuracy", "demographic_parity_difference", "equalized_odds_difference", "coverage"):
        theirs = np.array([getattr(one, name) for one in slow])
        ours = getattr(fast, name)
        assert ours.mean() == pytest.approx(theirs.mean(), abs=4 * theirs.std() / np.sqrt(1500))
        assert ours.std() == pytest.approx(theirs.std(), rel=0.1)


@pytest.mark.parametrize(
    ("chances", "per_cell"),
    [
        ([(0.35, 0.35), (0.55, 0.55)], [(75, 25), (25, 75)]),  # a gap of 0.2
        ([(0.4, 0.4), (0.4, 0.4)], [(75, 25), (25, 75)]),  # none: where a percentile interval always fails
        ([(0.1, 0.3), (0.2, 0.5), (0.2, 0.5), (0.5, 0.7)], [(25, 25)] * 4),
        ([(0.3, 0.3)] * 4, [(25, 25)] * 4),
    ],
)
def test_the_intervals_of_gaps_hold_the_truth(chances: list, per_cell: list) -> None:
    """Whatever the truth, at least about 95 times in 100 (200 trials; the coarse bound is 3 sigma)."""
    p, size = np.array(chances), np.array(per_cell)
    rates = (p * size).sum(1) / size.sum(1)
    rng = np.random.default_rng(0)
    held = {"parity": 0, "odds": 0}
    for trial in range(200):
        yes = rng.binomial(size, p)
        counts = np.stack([size - yes, yes, np.zeros_like(yes)], axis=-1)[None].astype(float)
        cells = Cells(counts, tuple("abcd")[: len(p)], np.ones(size.shape))
        seen, drawn = measure(counts), resample(cells, draws=300, seed=trial)
        low, high = spread_interval([seen.rates[0]], [drawn.rates])
        assert low <= seen.demographic_parity_difference[0] <= high
        held["parity"] += low <= np.ptp(rates) <= high
        low, high = spread_interval(
            [seen.true_positive_rates[0], seen.false_positive_rates[0]],
            [drawn.true_positive_rates, drawn.false_positive_rates],
        )
        held["odds"] += low <= np.ptp(p, axis=0).max() <= high
    assert held["parity"] >= 180
    assert held["odds"] >= 180


def test_an_undefined_rate_has_no_interval() -> None:
    assert np.isnan(spread_interval([[0.1, np.nan]], [np.full((10, 2), 0.1)])).all()
    assert np.isnan(spread_interval([[0.1]], [np.full((10, 1), 0.1)])).all()


def test_rows_asked_in_every_repeat_narrow_nothing() -> None:
    """Five repeats over the same rows with the same answers know no more than one."""
    predicted, labels, groups, _ = some_answers()
    rows = np.arange(200)
    once = resample(count_cells(predicted, labels, groups))
    five = [np.tile(values, 5) for values in (predicted, labels, groups)]
    again = resample(count_cells(*five, repeats=np.repeat(np.arange(5), 200), rows=np.tile(rows, 5)))
    blind = resample(count_cells(*five, repeats=np.repeat(np.arange(5), 200)))
    width = np.ptp(percentile(once.accuracy))
    assert np.ptp(percentile(again.accuracy)) == pytest.approx(width, rel=0.15)
    assert np.ptp(percentile(blind.accuracy)) == pytest.approx(width / np.sqrt(5), rel=0.15)


def test_a_percentile_interval_needs_defined_draws() -> None:
    assert np.isnan(percentile([np.nan] * 5 + [1.0] * 5)).all()
    assert percentile(np.arange(1001)) == pytest.approx((25.0, 975.0))


def test_resampling_is_seeded() -> None:
    cells = count_cells(*some_answers()[:3])
    assert (resample(cells, 50, seed=3).accuracy == resample(cells, 50, seed=3).accuracy).all()
