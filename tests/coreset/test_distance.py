"""The exact distance to a weighted coreset, against POT and against the solver's own objective."""

from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from scipy.spatial.distance import cdist

from fwc_llm.coreset.distance import wasserstein
from tests.refusals import refused


def agree(cost: np.ndarray, weights: Any, **close: float) -> None:
    """The distance is POT's, and its bound agrees with it."""
    found = wasserstein(cost, weights)
    share = np.array(weights) / np.sum(weights)
    theirs = ot.emd2(np.full(len(cost), 1 / len(cost)), share, cost, numItermax=10**9)
    assert found.objective == pytest.approx(theirs, **close)
    assert found.objective == pytest.approx(found.lower_bound, **close)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 50), st.integers(1, 10), st.integers(0, 3), st.integers(0, 10_000)
)
def test_it_is_the_distance_of_pot_also_under_ties(
    n: int, m: int, decimals: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cost = np.round(rng.random((n, m)), decimals)
    weights = rng.random(m) * (rng.random(m) < 0.8)
    weights[0] += 0.1
    agree(cost, weights, abs=1e-9)


def test_many_rows_and_uneven_weights(rng: Generator) -> None:
    X = rng.normal(size=(1000, 6))
    agree(cdist(X, X[:30], "cityblock"), rng.exponential(size=30), rel=1e-10)


def test_weights_of_very_different_sizes(rng: Generator) -> None:
    """One point carries nearly all rows, one next to nothing."""
    cost = rng.random((500, 5))
    for weights in (
        [1e15, 1, 1, 1, 1e-15],
        [1e-300, 1e-300, 1, 0, 0],
        [1, 1e-13, 1e-13, 1e-13, 1e-13],
    ):
        agree(cost, weights, abs=1e-9)


def test_a_huge_cost_somewhere_does_not_blur_the_others(rng: Generator) -> None:
    cost = rng.random((1000, 4))
    cost[:, 3] = 1e9
    found = wasserstein(cost, [0.8, 0.1, 0.1, 1e-13])
    theirs = ot.emd2(
        np.full(1000, 1 / 1000),
        np.array([0.8, 0.1, 0.1]),
        cost[:, :3],
        numItermax=10**9,
    )
    assert found.objective == pytest.approx(theirs + 1e-4, rel=1e-7)
    assert found.objective == pytest.approx(found.lower_bound, rel=1e-6)


def test_what_is_no_problem_is_refused() -> None:
    for cost, weights, message in (
        (np.ones((3, 2)), [1.0], "give one weight for each"),
        (np.full((3, 2), np.inf), [1.0, 1.0], "cost must be finite"),
        (np.ones((3, 2)), [1.0, -1.0], "weights of point 1 is -1"),
        (np.ones((3, 2)), [0.0, 0.0], "zero for every point"),
    ):
        with refused(message):
            wasserstein(cost, weights)
