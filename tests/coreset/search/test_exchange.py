"""Swaps at fixed prices: true local optima, in every cost, and closer coresets with them."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.exchange import Patience, exchange
from fwc_llm.coreset.search.space import Points, Space, as_columns
from fwc_llm.coreset.search.swaps import swap_on_sample
from fwc_llm.coreset.threads import Threads


def costs(space: Space, numbers: np.ndarray, codes: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(n, q) of all rows to the given points, without kernels."""
    kind = "cityblock" if space.cost == "l1" else "sqeuclidean"
    apart = cdist(space.numbers.T, numbers.T, kind) if len(numbers) else 0.0
    apart = apart + space.unit * (space.codes[:, :, None] != codes[:, None, :]).sum(axis=0)
    apart = apart + space.move[cells][:, space.cell].T
    return np.asarray((np.sqrt(apart) if space.cost == "l2" else apart) - space.price[cells])


def space(cost: str, n: int = 150) -> Space:
    """Three cells whose prices differ, numbers, two categories and a two-valued column."""
    rng = np.random.default_rng(0)
    numbers = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    codes = rng.integers(0, 4, (n, 2))
    move = np.array([[0, 1, 0.5], [1, 0, 1.5], [0.5, 1.5, 0]])
    columns = as_columns(numbers, codes, cost != "l1")
    return Space(*columns, rng.integers(0, 3, n), move, np.array([0.4, -0.7, 0.0]), cost)


@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
@pytest.mark.parametrize("m", [1, 4, 15])
def test_no_swap_within_a_cell_gains(cost: str, m: int) -> None:
    where = space(cost)
    rng = np.random.default_rng(m)
    start = rng.permutation(150)[:m]
    cells = where.cell[start]
    points = Points(where.numbers[:, start], where.codes[:, start], cells, start)
    order = rng.permutation(150)
    found = exchange(where, points, order, where.cell[order], order, Patience(50), Threads(2))
    assert found.converged
    assert (np.diff(found.losses) < 0).all()
    rows = np.where(found.rows < 0, start, found.rows)
    assert (where.cell[rows] == cells).all()
    assert len(set(rows)) == m
    every = costs(where, where.numbers, where.codes, where.cell)
    loss = every[:, rows].min(axis=1).sum()
    assert found.losses[-1] == pytest.approx(loss, abs=1e-3)
    assert np.array_equal(every[:, rows].argmin(axis=1), found.labels)
    for slot in range(m):
        kept = np.delete(rows, slot)
        for row in np.flatnonzero(where.cell == cells[slot]):
            assert every[:, [*kept, row]].min(axis=1).sum() >= loss - 1e-3


def test_one_hot_columns_are_codes_that_cost_the_same() -> None:
    rng = np.random.default_rng(0)
    kinds, codes = rng.integers(0, 5, 60), rng.integers(0, 3, (60, 2))
    numbers = np.hstack([rng.normal(size=(60, 1)), 0.5 * np.eye(5)[kinds]])
    columns, small, unit = as_columns(numbers, codes, squared=False)
    assert columns.shape == (1, 60)
    assert small.shape == (5 + 2 * 2, 60)
    assert small.dtype == np.uint8
    found = cdist(columns.T, columns.T, "cityblock") + unit * (small[:, :, None] != small[:, None]).sum(0)
    expected = cdist(numbers, numbers, "cityblock") + (codes[:, None] != codes[None]).sum(axis=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    many = rng.integers(0, 2, (60, 300)).astype(float)
    assert as_columns(many, codes, squared=False)[1].dtype == np.int32, "up to 302 mismatches are counted"


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("epsilon", [None, 0.05])
def test_swaps_take_free_representatives_closer(cost: str, epsilon: float | None) -> None:
    table = synthetic(3000, 3)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(table.features.astype(float)).rename(columns=str)
    for name in "abcde":
        X[name] = rng.choice(list("uvwxyz"), 3000, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    y, d = table.outcome, table.sensitive
    options = {"cost": cost, "epsilon": epsilon, "random_state": 0}
    few = FairCoreset(40, **options).fit(X, y, d)
    more = FairCoreset(40, **options, swaps=True).fit(X, y, d)
    assert more.objective_ < 0.985 * few.objective_
    assert more.objective_ == pytest.approx(more.lower_bound_, rel=1e-9)
    assert epsilon is None or more.violation_ <= epsilon + 1e-9
    alone = FairCoreset(40, **options, swaps=True, n_jobs=1).fit(X, y, d)
    assert alone.representatives_.equals(more.representatives_)


@pytest.mark.parametrize("support", ["rows", "features"])
def test_on_rows_they_stay_rows_that_may_stand_for_their_cell(support: str) -> None:
    X, y, d = synthetic(2000, 4)
    problem: Problem = FairCoreset(30, support=support).problem(X, y, d)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.permutation(problem.pools[g])[:seats] for g, seats in enumerate(np.bincount(problem.cell_of))]
    )
    found = Descent(problem.table.values[rows].astype(float), rows, (1.0,), True)
    swapped = swap_on_sample(problem, found, np.zeros(problem.cells.n_cells), rng, Threads(1))
    assert (swapped != rows).sum() > 10
    keys = problem.cell_of * 10_000 + problem.ids[swapped]
    assert len(set(keys)) == 30
    assert all(row in problem.pools[g] for row, g in zip(swapped, problem.cell_of, strict=True))


def test_what_float32_cannot_hold_is_left_as_it_is() -> None:
    X, y, d = synthetic(1000, 3)
    options = {"cost": "sqeuclidean", "epsilon": None, "random_state": 0}
    huge = X.astype(float) * 1e25
    few = FairCoreset(10, **options).fit(huge, y, d)
    more = FairCoreset(10, **options, swaps=True).fit(huge, y, d)
    assert more.objective_ == few.objective_
