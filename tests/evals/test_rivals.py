"""The rivals as coresets: what each algorithm promises, checked on small tables."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from evals.paper import rivals
from evals.paper.fairlet_clustering import fairlet_decomposition, fairlets
from evals.paper.sampling import reweigh, sampling_probability, sensitivity
from evals.synthetic import synthetic
from fwc_llm.coreset.rivals.base import as_rows
from fwc_llm.coreset.rivals.clustering import lloyd
from tests.coreset.people import people

RIVALS: list[Callable[..., Any]] = [
    rivals.uniform,
    rivals.kmeans,
    rivals.kmedoids,
    rivals.kmedian_coreset,
    rivals.indfair_coreset,
    fairlets,
]


@pytest.mark.slow
@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("make", [partial(synthetic, 300, 4), partial(people, 200)])
def test_every_rival_has_one_signature_and_obeys_its_seed(
    rival: Callable[..., Any], make: Any
) -> None:
    X, y, d = make()
    found = rival(X, y, d, 20, seed=3)
    for part in (found.points, found.sensitive, found.y, found.weights):
        assert len(part) == 20
    assert (found.weights >= 0).all()
    if rival not in (rivals.kmedian_coreset, rivals.indfair_coreset):
        assert found.weights.sum() == pytest.approx(len(X))
    assert set(found.y) <= set(y)
    assert set(found.sensitive) <= set(d)
    if found.rows is not None:
        rows = X.iloc[found.rows] if isinstance(X, pd.DataFrame) else X[found.rows]
        assert np.array_equal(np.asarray(found.points), np.asarray(rows))
        assert np.array_equal(found.y, y[found.rows])
        assert np.array_equal(found.sensitive, d[found.rows])
    elif isinstance(X, pd.DataFrame):
        assert list(found.points.columns) == list(X.columns)
        assert set(found.points["town"]) <= set("ABC")
    again = rival(X, y, d, 20, seed=3)
    assert np.array_equal(np.asarray(found.points), np.asarray(again.points))
    assert np.array_equal(found.weights, again.weights)


@pytest.mark.slow
@pytest.mark.parametrize("individually_fair", [False, True])
def test_sensitivity_weights_are_unbiased(individually_fair: bool) -> None:
    """E[Σ w] = n: exactly, as Σ_i q_i · m · 1/(m q_i) = n, and so do the means of many draws
    say.
    """
    X, y, d = synthetic(120, 4)
    rows = as_rows(X, y, d)
    probability = sampling_probability(rows, 0, 8, individually_fair, np.arange(120))
    assert probability.sum() == pytest.approx(1)
    assert (probability > 0).all()
    draw = partial(rivals.kmedian_coreset, individually_fair=individually_fair)
    sums = [draw(X, y, d, 40, seed=seed, k=8).weights.sum() for seed in range(300)]
    assert abs(np.mean(sums) - 120) < 4 * np.std(sums) / math.sqrt(300)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_fairlets_are_balanced_small_and_partition_the_rows(
    data: st.DataObject,
) -> None:
    n = data.draw(st.integers(2, 80))
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    points = np.round(
        rng.normal(size=(n, 2)), data.draw(st.integers(0, 3))
    )  # heavy ties
    red = rng.random(n) < data.draw(st.floats(0.1, 0.9))
    red[0], red[1] = True, False
    few, many = sorted((int(red.sum()), int((~red).sum())))
    q = data.draw(st.integers(-(-many // few), 9 + many // few))
    p = data.draw(st.integers(1, min(q, few * q // many)))
    p, q = p // math.gcd(p, q), q // math.gcd(p, q)
    groups = fairlet_decomposition(points, red, p, q, rng)
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(n))
    for group in groups:
        reds = int(red[group].sum())
        blues = len(group) - reds
        assert len(group) <= p + q
        assert min(reds, blues) * q >= max(reds, blues) * p > 0


@pytest.mark.parametrize("individually_fair", [False, True])
def test_sensitivity_is_the_formula(individually_fair: bool) -> None:
    rows = as_rows(*synthetic(200, 4))
    scores = sensitivity(rows, 4, 5, individually_fair)
    points = rows.squared_points()
    centres = lloyd(points, 5, 4, max_iter=1).cluster_centers_
    distance = cdist(points, centres)
    labels = distance.argmin(axis=1)
    d = distance.min(axis=1)
    alpha = 16 * (math.log(5) + 2)
    for i in range(0, 200, 17):
        own = labels == labels[i]
        expected = (
            alpha * d[i] / d.mean()
            + alpha * d[own].mean() / d.mean()
            + 4 * 200 / own.sum()
        )
        if individually_fair:
            expected += 16 * 5 * math.log(200) / (0.1 * 200)
        assert scores[i] == pytest.approx(expected, rel=1e-4)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0.1, 10)),
        min_size=1,
        max_size=60,
    )
)
def test_reweighing_equalises_and_keeps_the_margins(
    rows: list[tuple[int, int, float]],
) -> None:
    d, y, w = (np.array(column) for column in zip(*rows, strict=True))
    new = reweigh(y, d, w)
    cells = {(a, b) for a, b in zip(d, y, strict=True)}
    if len(cells) < len(set(d)) * len(set(y)):
        assert (new > 0).all()  # an empty cell is skipped, and equality is not promised
        return
    assert np.bincount(d, new) == pytest.approx(np.bincount(d, w))
    assert np.bincount(y, new) == pytest.approx(np.bincount(y, w))
    for level in set(d):
        rates = np.bincount(y, new * (d == level)) / new[d == level].sum()
        assert rates == pytest.approx(np.bincount(y, w) / w.sum())
