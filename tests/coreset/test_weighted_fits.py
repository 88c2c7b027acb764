"""Fits of weighted rows: what weights must and must not change, and weights of any size."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from sklearn.base import clone

from fwc_llm.coreset import certify
from tests.coreset.people import consistent, people, quick
from tests.refusals import refused


def table(n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Features of three kinds, outcomes, levels, and whole weights of which some are 0."""
    rng, (X, _, d) = np.random.default_rng(2), people(n)
    return X, rng.integers(0, 2, n), d, rng.integers(0, 5, n)


@pytest.mark.parametrize("support", ["free", "rows", "features"])
def test_what_weights_change_and_what_not(support: str) -> None:
    x, y, d, weights = table(140)
    solver = quick(8, support=support)
    plain = clone(solver).fit(x, y, d)
    equal = clone(solver).fit(x, y, d, sample_weight=np.full(140, 0.3))
    assert np.array_equal(plain.weights_, equal.weights_)
    assert np.array_equal(plain.history_, equal.history_)
    found = clone(solver).fit(x, y, d, sample_weight=weights)
    consistent(found, x, y, d, weights)
    # By a power of two: the same to the last digit, though their sum overflows.
    scaled = clone(solver).fit(x, y, d, sample_weight=weights * 2.0**1021)
    assert np.array_equal(found.weights_, scaled.weights_)
    # Rows of weight 0 are as if they were not there.
    kept = weights > 0
    without = solver.fit(x[kept], y[kept], d[kept], sample_weight=weights[kept])
    assert np.array_equal(found.weights_, without.weights_)
    pd.testing.assert_frame_equal(found.representatives_, without.representatives_)
    assert np.array_equal(found.labels_[kept], without.labels_)
    assert (found.labels_[~kept] == -1).all()
    if found.row_index_ is not None:
        assert (weights[found.row_index_] > 0).all()
        pd.testing.assert_frame_equal(found.representatives_, x.iloc[found.row_index_])
    # For these points, repeated rows have the same optimum.
    often = np.repeat(np.arange(140), weights)
    points = found.representatives_, found.y_, found.sensitive_
    whole = certify(x.iloc[often], y[often], d[often], *points).objective
    weighed = certify(x, y, d, *points, sample_weight=weights).objective
    assert whole == pytest.approx(weighed, rel=1e-9)
    assert found.objective_ == pytest.approx(weighed, rel=1e-9)
    assert found.target_ == pytest.approx(np.bincount(y, weights) / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize("support", ["free", "rows"])
def test_large_tables_are_searched_by_weight(rng: Generator, support: str) -> None:
    """Compiled steps, samples and swaps: whole weights end where repeated rows end, within a per
    cent.
    """
    x = np.round(rng.normal(size=(9000, 3)) + 3 * rng.integers(0, 3, (9000, 1)), 2)
    y = rng.integers(0, 2, 9000)
    d = rng.integers(0, 2, 9000)
    weights = rng.integers(1, 5, 9000)
    often = np.repeat(np.arange(9000), weights)
    solver = quick(8, support=support, progressive=True, swaps=support == "rows")
    repeated = clone(solver).fit(x[often], y[often], d[often])
    found = solver.fit(x, y, d, sample_weight=weights)
    assert found.objective_ == pytest.approx(repeated.objective_, rel=0.03)
    assert found.violation_ <= 0.01 + 1e-9


def test_a_cell_without_weight_is_an_empty_cell() -> None:
    x, y, d, _ = table(100)
    weights = np.where((y == 1) & (d == "f"), 0.0, 1.0)
    with refused(r"cell \(sensitive = f, y = 1\) has no rows"):
        quick(8).fit(x, y, d, sample_weight=weights)
    only = np.where(d == "f", 0.0, 1.0)
    with refused("sensitive has one level only"):
        quick(8).fit(x, y, d, sample_weight=only)


def test_init_and_candidates_are_positions_in_the_table_given() -> None:
    x, y, d, _ = table(120)
    weights = np.ones(120)
    weights[:10] = 0
    weights[50] = 2
    start = np.concatenate(
        [
            np.flatnonzero((y == a) & (d == b) & (weights > 0))[:2]
            for a in (0, 1)
            for b in "fm"
        ]
    )
    stays = quick(8, support="rows", init=start, max_iter=0, swaps=False)
    found = stays.fit(x, y, d, sample_weight=weights)
    assert sorted(found.row_index_) == sorted(start)
    with refused("init names row 3, whose weight is 0"):
        stays.set_params(init=[3, *start[1:]]).fit(x, y, d, sample_weight=weights)
    may = np.arange(120) < 60
    of_rows = quick(8, support="rows")
    chosen = of_rows.fit(x, y, d, candidates=may, sample_weight=weights).row_index_
    assert ((chosen >= 10) & (chosen < 60)).all()
