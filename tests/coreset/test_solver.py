"""The descent: exact moves, monotone, and equal to Lloyd's where it should be."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.updates import Centres, medoids
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.search.start import start_rows
from fwc_llm.coreset.threads import Threads
from tests.coreset.people import consistent, quick
from tests.coreset.programs import torn


def toy(n=300, p=4, seed=0):
    rng = np.random.default_rng(seed)
    d = rng.integers(0, 2, n)
    x = rng.normal(size=(n, p))
    return x, (x[:, 0] + rng.normal(size=n) > 0.5 * d).astype(int), d


def lloyd(x, centres, iterations):
    """Plain Lloyd's algorithm, written independently: objective before every move and after the
    last.
    """
    history = []
    for _ in range(iterations + 1):
        squares = ((x[:, None] - centres[None]) ** 2).sum(2)
        nearest = squares.argmin(1)
        history.append(squares[np.arange(len(x)), nearest].mean())
        centres = np.array(
            [
                x[nearest == j].mean(0) if (nearest == j).any() else c
                for j, c in enumerate(centres)
            ]
        )
    return history


def test_without_fairness_and_cells_it_is_lloyds_algorithm():
    x, y, d = toy()
    start = np.random.default_rng(1).choice(len(x), 12, replace=False)
    fitted = FairCoreset(
        12, None, "sqeuclidean", init=start, cost_sensitive=0, cost_outcome=0
    ).fit(x, y, d)
    expected = lloyd(x, x[np.sort(start)], len(fitted.history_) - 1)
    np.testing.assert_allclose(
        fitted.history_, expected, rtol=1e-7
    )  # compiled: float32
    assert fitted.n_iter_ > 3


@pytest.mark.parametrize("support", ["rows", "features"])
def test_representatives_are_real_and_distinct_candidates(support):
    x, y, d = toy()
    x = np.round(x)  # many equal rows
    candidates = np.random.default_rng(2).random(len(x)) < 0.5
    f = quick(16, support=support, slots="balanced-positive").fit(x, y, d, candidates)
    assert candidates[f.row_index_].all()
    np.testing.assert_array_equal(f.representatives_, x[f.row_index_])
    if support == "rows":
        np.testing.assert_array_equal(d[f.row_index_], f.sensitive_)
        np.testing.assert_array_equal(y[f.row_index_], f.y_)
    whole = np.column_stack([f.representatives_, f.sensitive_, f.y_])
    assert len(np.unique(whole, axis=0)) == 16


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_medoids_are_the_best_rows_left(rng: Generator, cost):
    for _ in range(10):
        x = pd.DataFrame({"a": rng.normal(size=60), "b": rng.integers(0, 4, 60)})
        x["c"] = rng.choice(list("pqr"), 60)
        problem = FairCoreset(4, None, cost, "rows", slots=[[2], [2]]).problem(
            x, np.zeros(60), np.arange(60) % 2
        )
        rows = start_rows(problem, "random", rng)
        shares = torn(rng.integers(0, 4, 60), 4, rng)
        moved = medoids(problem, shares, rows, np.arange(4))
        costs = cost_matrix(problem.table, problem.table, cost)
        present = rows.copy()
        for j, g in enumerate(problem.cell_of):
            carried, weight = shares.grouped(np.arange(4)).of(j)
            total = costs[:, carried] @ weight
            others = problem.ids[present[(problem.cell_of == g) & (np.arange(4) != j)]]
            own = np.intersect1d(problem.pools[g], carried)
            allowed = [present[j], *own[~np.isin(problem.ids[own], others)]]
            assert total[moved[j]] == pytest.approx(min(total[allowed]), abs=1e-9)
            present[j] = moved[j]


def test_means_and_modes_minimise_their_shares():
    rng = np.random.default_rng(1)
    table = EncodedTable(rng.normal(size=(80, 2)), rng.integers(0, 3, (80, 1)))
    shares = torn(rng.integers(0, 3, 80), 3, rng)
    moved = Centres(table, "sqeuclidean", 3, Threads(1)).move(shares, np.zeros((3, 3)))
    for j in range(3):
        rows, weight = shares.grouped(np.arange(3)).of(j)
        assert weight.sum() == pytest.approx(shares.weights()[j])
        mean = np.average(table.numbers[rows], axis=0, weights=weight)
        np.testing.assert_allclose(moved[j, :2], mean, atol=1e-12)
        counts = np.bincount(table.codes[rows, 0], weights=weight)
        assert counts[int(moved[j, 2])] == counts.max()
    assert shares.weights().sum() == pytest.approx(80)


@pytest.mark.slow
@settings(deadline=None, max_examples=24)
@given(
    *(
        st.integers(0, 10**6),
        st.sampled_from([1e-9, 1.0, 1e9]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    *(
        st.sampled_from(options)
        for options in (["l1", "sqeuclidean"], ["free", "rows", "features"])
    ),
    st.sampled_from([None, 0.0, 0.1]),
)
def test_the_objective_never_rises(
    seed, scale, ties, doubled, lonely, cost, support, epsilon
):
    x, y, d = toy(60, 3, seed)
    if ties:
        x = np.round(x)
    if doubled:
        x = np.repeat(x, 2, axis=0)
        y = np.repeat(y, 2)
        d = np.repeat(d, 2)
    x[:, 2] = 1.0  # a constant column
    x = x * scale
    y[:4], d[:4] = [0, 0, 1, 1], [0, 1, 0, 1]
    if lonely:  # a cell with one row
        y[4:][d[4:] == 1] = 0
    costs = {"cost": cost, "cost_sensitive": scale, "cost_outcome": scale}
    solver = quick(8, epsilon=epsilon, support=support, random_state=seed, **costs)
    consistent(solver.fit(x, y, d), x, y, d)


@pytest.mark.parametrize("seed", range(2))
def test_row_order_and_doubled_rows_do_not_matter(seed):
    """Of the descent. Sums change in their last digit only: a near-tie may fall otherwise in one
    order.
    """
    x, y, d = toy(seed=seed)
    start = FairCoreset(12, random_state=0, max_iter=0).fit(x, y, d).representatives_
    orders = [np.random.default_rng(seed).permutation(len(x)) for seed in range(12)]
    rows = [np.arange(len(x)), np.repeat(np.arange(len(x)), 2), *orders]
    fits = [
        FairCoreset(12, init=start, swaps=False).fit(x[order], y[order], d[order])
        for order in rows
    ]
    middle = sorted(fits, key=lambda f: f.objective_)[len(fits) // 2]
    equal = [
        f for f in fits if f.objective_ == pytest.approx(middle.objective_, rel=1e-9)
    ]
    assert len(equal) >= len(fits) - 1
    for f in equal:
        np.testing.assert_allclose(
            f.representatives_, middle.representatives_, atol=1e-12
        )
        np.testing.assert_allclose(f.weights_, middle.weights_, atol=1e-9)
