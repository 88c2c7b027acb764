"""The rivals' steps: what each algorithm promises, checked on small tables."""

import kmedoids as rust_kmedoids
import numpy as np
import pytest
from numpy.random import Generator
from scipy.spatial.distance import cdist

from evals.synthetic import Synthetic, synthetic
from fwc_llm.coreset.rivals.base import LabelledTable, as_rows
from fwc_llm.coreset.rivals.clustering import kmedoids, lloyd
from tests.refusals import refused


def table(n: int = 300, p: int = 4) -> Synthetic:
    return synthetic(n, p)


def joint(rows: LabelledTable) -> np.ndarray:
    """The points with one-hot columns in which a mismatch costs 1 in L1."""
    return rows.dense(0.5).astype(float)


def test_kmedoids_is_as_good_as_the_reference_implementation() -> None:
    rows = as_rows(*table(600, 10))
    distance = cdist(joint(rows), joint(rows), "cityblock")
    theirs = min(
        rust_kmedoids.fasterpam(distance, 12, random_state=seed).loss
        for seed in range(5)
    )
    rngs = map(np.random.default_rng, range(5))
    ours = min(kmedoids(rows, 12, rng, np.arange(600))[0].losses[-1] for rng in rngs)
    assert ours <= theirs * 1.01


def test_kmedoids_says_when_it_stopped_early_and_refuses_other_metrics(
    rng: Generator,
) -> None:
    rows = as_rows(*table())
    _, note = kmedoids(rows, 9, rng, np.arange(300), max_passes=1)
    assert note == "stopped after 1 passes"
    with refused("metric='cosine' is unknown"):
        kmedoids(rows, 9, rng, np.arange(300), "cosine")


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


def test_a_weight_of_two_is_a_row_that_is_there_twice() -> None:
    X, y, d = table(60)
    weights = np.random.default_rng(0).integers(0, 3, 60)
    rows = as_rows(X, y, d, weights)
    twice = as_rows(*(np.repeat(part, weights, axis=0) for part in (X, y, d)))
    found = lloyd(rows.squared_points(), 1, 0, mass=rows.mass).cluster_centers_
    assert found == pytest.approx(
        lloyd(twice.squared_points(), 1, 0).cluster_centers_, rel=1e-5
    )
