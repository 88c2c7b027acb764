"""Distances: against linear programs, and our solvers against the network simplex."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from evals.paper.data import Space, draw_split
from evals.paper.distances import clustering_cost, parity_violation, second_opinion, wasserstein
from evals.paper.methods import METHODS, choose
from fwc_llm.coreset.problem.encoding import encode_array
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.problem.table import Table


def normal(rng: np.random.Generator, n: int, p: int = 3) -> Table:
    return encode_array(rng.normal(size=(n, p)))


def by_linear_program(rows: Table, points: Table, weights: np.ndarray) -> float:
    n, m = rows.n, points.n
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    masses = np.concatenate([np.full(n, 1 / n), weights / weights.sum()])
    cost = cdist(rows.numbers, points.numbers, "cityblock").ravel()
    return float(linprog(cost, A_eq=sums[:-1], b_eq=masses[:-1], method="highs").fun)


@pytest.mark.parametrize("seed", range(5))
def test_wasserstein_is_the_linear_programs_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, points, weights = normal(rng, 30), normal(rng, 6), rng.random(6)
    assert wasserstein(rows, points, weights) == pytest.approx(
        by_linear_program(rows, points, weights), abs=1e-9
    )


def test_points_without_weight_do_not_count() -> None:
    rng = np.random.default_rng(0)
    rows, points = normal(rng, 30), normal(rng, 6)
    weights = np.array([1.0, 0, 2, 0, 1, 0])
    carrying = points.take(weights > 0)
    assert wasserstein(rows, points, weights) == pytest.approx(wasserstein(rows, carrying, weights[::2]))


def test_clusters_weighted_by_their_size_are_at_the_mean_distance_to_the_nearest_point() -> None:
    rng = np.random.default_rng(1)
    rows, points = normal(rng, 40), normal(rng, 5)
    cost = cdist(rows.numbers, points.numbers, "cityblock")
    weights = np.bincount(cost.argmin(axis=1), minlength=5).astype(float)
    assert wasserstein(rows, points, weights) == pytest.approx(cost.min(axis=1).mean(), abs=1e-12)


@pytest.mark.parametrize("decimals", [0, 8])
def test_the_network_simplex_gives_the_same(decimals: int) -> None:
    """POT's solver, as a second opinion; without decimals most distances are tied."""
    pytest.importorskip("ot")
    rng = np.random.default_rng(decimals)
    rows, points = (encode_array(normal(rng, size).numbers.round(decimals)) for size in (2000, 90))
    weights = rng.exponential(size=90) * (rng.random(90) < 0.9)
    found = wasserstein(rows, points, weights)
    assert found == pytest.approx(second_opinion(rows, points, weights), rel=1e-10)


def test_clustering_cost_is_the_mean_of_squared_distances() -> None:
    rng = np.random.default_rng(2)
    rows, points = normal(rng, 5000, 4), normal(rng, 7, 4)
    squared = cdist(rows.numbers, points.numbers, "sqeuclidean")
    assert clustering_cost(rows, points) == pytest.approx(squared.min(axis=1).mean())


def test_parity_violation_is_the_worst_ratio() -> None:
    d, y = np.array(["a", "a", "b", "b"]), np.array([0, 1, 0, 1])
    assert parity_violation(d, y, np.array([1.0, 1, 1, 1]), 0.5) == 0
    # a: p(1) = 3/4 against 1/2; b: p(1) = 1/2.
    assert parity_violation(d, y, np.array([1.0, 3, 1, 1]), 0.5) == pytest.approx(0.5)
    # A level without weight says nothing.
    assert parity_violation(d, y, np.array([1.0, 1, 0, 0]), 0.5) == 0


@pytest.mark.parametrize("units", ["standardised", "raw"])
@pytest.mark.parametrize("dataset", ["drug", "german"])
def test_fwcs_objective_is_the_exact_distance(data_dir: Path, dataset: str, units: str) -> None:
    """In L1 always. In squared L2 the mean of an ordinal column (Drug) is rounded to a rank afterwards."""
    split = draw_split(dataset, run=0, data_dir=str(data_dir), limit=200)
    space = Space(split, units)
    for metric in ("l1",) if dataset == "drug" else ("l1", "sqeuclidean"):
        found = choose("fwc-0.05", space, split.train, 15, seed=0, metric=metric)
        rows = space.rows(split.train, metric)
        points = space.table(found.points, found.d, found.y)
        ot = pytest.importorskip("ot")
        mass = found.weights / found.weights.sum()
        exact = ot.emd2(np.full(rows.n, 1 / rows.n), mass, cost_matrix(rows, points, metric))
        assert found.objective == pytest.approx(exact, rel=1e-8)
        assert found.lower_bound == pytest.approx(found.objective, rel=1e-8)
        assert parity_violation(found.d, found.y, found.weights, split.train.y.mean()) <= 0.05 + 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_m_points_that_can_be_measured(data_dir: Path, method: str) -> None:
    split = draw_split("drug", run=1, data_dir=str(data_dir), limit=240)
    for units in ("standardised", "raw"):
        space = Space(split, units)
        found = choose(method, space, split.train, 12, seed=1)
        assert len(found.d) == len(found.y) == len(found.weights) == 12
        assert set(np.unique(found.y)) <= {0, 1}
        value = wasserstein(
            space.rows(split.train, "l1"), space.table(found.points, found.d, found.y), found.weights
        )
        assert np.isfinite(value)
        assert value > 0


def test_a_split_is_three_quarters_and_leaves_nothing_out(data_dir: Path) -> None:
    split = draw_split("german", run=3, data_dir=str(data_dir))
    assert (split.train.n, split.test.n) == (750, 250)
    assert not set(split.train.frame.index) & set(split.test.frame.index)
    other = draw_split("german", run=4, data_dir=str(data_dir))
    assert list(other.train.frame.index) != list(split.train.frame.index)


def test_a_mismatch_costs_one(data_dir: Path) -> None:
    """In L1 and in squared L2: two rows that differ in one category, in level or in outcome."""
    split = draw_split("german", run=0, data_dir=str(data_dir), limit=100)
    for units in ("standardised", "raw"):
        space = Space(split, units)
        frame = split.train.frame.iloc[[0, 0]].copy()
        name = next(
            c for c in frame.columns if frame[c].dtype.kind not in "if" and frame[c].dtype != "category"
        )
        other = next(v for v in split.train.frame[name] if v != frame[name].iloc[0])
        frame.iloc[1, frame.columns.get_loc(name)] = other
        two = replace(split.train, frame=frame, d=np.array(["male", "female"]), y=np.array([0, 1]))
        for metric in ("l1", "sqeuclidean"):
            rows = space.rows(two, metric)
            assert cost_matrix(rows, rows, metric)[0, 1] == pytest.approx(3.0)
