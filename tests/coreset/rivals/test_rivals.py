"""The rival coresets: what each algorithm promises, checked on small tables."""

import math
from functools import partial
from typing import Any

import kmedoids as rust_kmedoids
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from evals.synthetic import Synthetic, synthetic
from fwc_llm.coreset import rivals
from fwc_llm.coreset.rivals.base import LabelledTable, as_rows
from fwc_llm.coreset.rivals.clustering import lloyd, swap_medoids
from fwc_llm.coreset.rivals.fairlet_clustering import decompose, fairlet_decomposition
from fwc_llm.coreset.rivals.sampling import sampling_probability, sensitivity
from fwc_llm.errors import FwcError
from tests.coreset.people import people


def table(n: int = 300, p: int = 4) -> Synthetic:
    return synthetic(n, p)


def joint(rows: LabelledTable) -> np.ndarray:
    """The points with one-hot columns in which a mismatch costs 1 in L1."""
    return rows.dense(0.5).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("name", rivals.RIVALS)
@pytest.mark.parametrize("make", [table, partial(people, 200)])
def test_every_rival_has_one_signature_and_obeys_its_seed(name: str, make: Any) -> None:
    X, y, d = make()
    found = getattr(rivals, name)(X, y, d, 20, seed=3)
    assert (
        len(found.points)
        == len(found.sensitive)
        == len(found.y)
        == len(found.weights)
        == 20
    )
    assert (found.weights >= 0).all()
    if "coreset" not in name:
        assert found.weights.sum() == pytest.approx(len(X))
    assert set(found.y) <= set(y)
    assert set(found.sensitive) <= set(d)
    if found.rows is not None:
        if isinstance(X, pd.DataFrame):
            chosen = X.iloc[found.rows]
        else:
            chosen = X[found.rows]
        assert np.array_equal(np.asarray(found.points), np.asarray(chosen))
        assert np.array_equal(found.y, y[found.rows])
        assert np.array_equal(found.sensitive, d[found.rows])
    elif isinstance(X, pd.DataFrame):
        assert list(found.points.columns) == list(X.columns)
        assert set(found.points["town"]) <= set("ABC")
    again = getattr(rivals, name)(X, y, d, 20, seed=3)
    assert np.array_equal(np.asarray(found.points), np.asarray(again.points))
    assert np.array_equal(found.weights, again.weights)


def test_wrong_shapes_are_refused() -> None:
    X, y, d = table()
    for changed, message in (
        ((X, y[:5], d), "y has 5 rows"),
        ((X, y, d[:5]), "sensitive has 5 rows"),
    ):
        with pytest.raises(FwcError, match=message):
            rivals.reweighing(*changed, 5)
    with pytest.raises(FwcError, match="m is 0"):
        rivals.reweighing(X, y, d, 0)
    uneven = np.repeat([0, 1], [200, 100])
    for rival, level, option, message in (
        (
            rivals.reweighing,
            d,
            {"candidates": np.ones(3, bool)},
            "candidates must be a boolean mask",
        ),
        (rivals.kmedoids, d, {"metric": "cosine"}, "metric is 'cosine'"),
        (rivals.fairlets, d, {"clustering": "x"}, "clustering is 'x'"),
        (rivals.fairlets, uneven, {"balance": (1, 1)}, "no fairlets of balance 1/1"),
    ):
        with pytest.raises(FwcError, match=message):
            rival(X, y, level, 5, **option)


# k-medoids


@pytest.mark.parametrize("metric", ["l1", "l2"])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_no_swap_makes_kmedoids_better_and_none_made_it_worse(
    metric: str, m: int
) -> None:
    rows = as_rows(*table(150))
    found = swap_medoids(rows, m, np.random.default_rng(m), metric, 20, np.arange(150))
    assert found.converged
    assert (np.diff(found.losses) < 0).all()
    points = rows.dense(0.5 if metric == "l1" else math.sqrt(0.5)).astype(float)
    distance = cdist(points, points, "cityblock" if metric == "l1" else "euclidean")
    loss = distance[:, found.rows].min(axis=1).sum()
    assert found.losses[-1] == pytest.approx(loss, rel=1e-5)
    assert np.array_equal(
        distance[np.arange(150), found.rows[found.labels]],
        distance[:, found.rows].min(axis=1),
    )
    for slot in range(m):
        rest = distance[:, np.delete(found.rows, slot)].min(axis=1, initial=np.inf)
        assert np.minimum(rest[:, None], distance).sum(axis=0).min() >= loss * (
            1 - 1e-6
        )


def test_kmedoids_is_as_good_as_the_reference_implementation() -> None:
    rows = as_rows(*table(600, 10))
    distance = cdist(joint(rows), joint(rows), "cityblock")
    theirs = min(
        rust_kmedoids.fasterpam(distance, 12, random_state=seed).loss
        for seed in range(5)
    )
    rngs = map(np.random.default_rng, range(5))
    ours = min(
        swap_medoids(rows, 12, rng, "l1", 20, np.arange(600)).losses[-1] for rng in rngs
    )
    assert ours <= theirs * 1.01


def test_kmedoids_weights_are_its_clusters_and_it_says_when_it_stopped_early() -> None:
    X, y, d = table()
    found = rivals.kmedoids(X, y, d, 9)
    points = joint(as_rows(X, y, d))
    nearest = cdist(points, points[found.rows], "cityblock").argmin(axis=1)
    assert np.array_equal(found.weights, np.bincount(nearest, minlength=9))
    assert "stopped after 1 passes" in rivals.kmedoids(X, y, d, 9, max_passes=1).note


# k-means


def test_kmeans_stands_still_where_it_stops_and_is_the_same_every_time() -> None:
    points = as_rows(*table(400, 3)).squared_points()
    clusters = lloyd(points, 10, 0)
    again = lloyd(points, 10, 0)
    assert np.array_equal(clusters.cluster_centers_, again.cluster_centers_)
    for j in range(10):
        own = points[clusters.labels_ == j].mean(axis=0)
        assert own == pytest.approx(clusters.cluster_centers_[j], abs=0.02)
    few = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    assert lloyd(few, 5, 0).inertia_ < 1e-9  # fewer distinct rows than centres


def test_kmeans_takes_a_weight_of_two_for_a_row_that_is_there_twice() -> None:
    X, y, d = table(60)
    weights = np.random.default_rng(0).integers(0, 3, 60)
    rows = as_rows(X, y, d, weights)
    twice = as_rows(*(np.repeat(part, weights, axis=0) for part in (X, y, d)))
    found = lloyd(rows.squared_points(), 1, 0, mass=rows.mass).cluster_centers_
    assert found == pytest.approx(
        lloyd(twice.squared_points(), 1, 0).cluster_centers_, rel=1e-5
    )


# sensitivity sampling


@pytest.mark.parametrize("individually_fair", [False, True])
def test_sensitivity_is_the_formula(individually_fair: bool) -> None:
    rows = as_rows(*table(200))
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kmedian_coreset", "indfair_coreset"])
def test_sensitivity_weights_are_unbiased(name: str) -> None:
    """E[Σ w] = n: exactly, as Σ_i q_i · m · 1/(m q_i) = n, and so do the means of many draws
    say.
    """
    X, y, d = table(120)
    probability = sampling_probability(
        as_rows(X, y, d), 0, 8, name == "indfair_coreset", np.arange(120)
    )
    assert probability.sum() == pytest.approx(1)
    assert (probability > 0).all()
    sums = [
        getattr(rivals, name)(X, y, d, 40, seed=seed, k=8).weights.sum()
        for seed in range(300)
    ]
    assert abs(np.mean(sums) - 120) < 4 * np.std(sums) / math.sqrt(300)


# reweighing


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
    new = rivals.reweigh(y, d, w)
    cells = {(a, b) for a, b in zip(d, y, strict=True)}
    if len(cells) < len(set(d)) * len(set(y)):
        assert (new > 0).all()  # an empty cell is skipped, and equality is not promised
        return
    assert new.sum() == pytest.approx(w.sum())
    for level in set(d):
        assert new[d == level].sum() == pytest.approx(w[d == level].sum())
        for outcome in set(y):
            rate = new[(d == level) & (y == outcome)].sum() / new[d == level].sum()
            assert rate == pytest.approx(w[y == outcome].sum() / w.sum())
    for outcome in set(y):
        assert new[y == outcome].sum() == pytest.approx(w[y == outcome].sum())


# fairlets


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


def test_fairlets_keep_close_rows_together() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1000, 2))
    red = rng.random(1000) < 0.5
    groups = fairlet_decomposition(points, red, 1, 2, rng)
    spread = np.mean([points[group].std(axis=0).mean() for group in groups])
    ends = np.cumsum([len(group) for group in groups])[:-1]
    shuffled = np.split(rng.permutation(1000), ends)
    assert spread < 0.5 * np.mean(
        [points[group].std(axis=0).mean() for group in shuffled]
    )


def test_fairlets_choose_the_best_balance_the_table_has() -> None:
    X, y, _ = table(90)
    d = np.r_[np.zeros(30, int), np.ones(60, int)]
    for group in decompose(as_rows(X, y, d), None, np.random.default_rng(0)):
        assert np.sum(d[group] == 0) * 2 >= np.sum(d[group] == 1)
    assert "matrix" in rivals.fairlets(X, y, d, 5).note
