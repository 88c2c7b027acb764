"""Swaps: true local optima in every cost, and for any threads."""

import numpy as np
import pytest
from numpy.random import Generator
from scipy.spatial.distance import cdist

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import Descent
from fwc_llm.coreset.fasterpam import Points, Space, estimate, exchange
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.search.start import start_rows
from fwc_llm.coreset.search.swaps import swap
from fwc_llm.coreset.threads import Threads


def costs(space: Space, values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(n, q) of all rows to the given points, without kernels."""
    kind = "sqeuclidean" if space.cost.root else "cityblock"
    k = -len(space.cost.unit)
    apart = cdist(space.values[:, :k], values[:, :k], kind)
    apart += (space.values[:, None, k:] != values[None, :, k:]).sum(axis=2)
    apart += space.move[cells][:, space.cell].T
    return np.asarray((np.sqrt(apart) if space.root else apart) - space.prices[cells])


def space(cost: str, n: int = 150, apart: float = 0) -> Space:
    """Three cells whose prices differ, numbers in nine heaps, a two-valued column and two
    categories.
    """
    rng = np.random.default_rng(0)
    numbers = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    values = np.column_stack([numbers, rng.integers(0, 4, (n, 2))]).astype(np.float32)
    move = np.array([[0, 1, 0.5], [1, 0, 1.5], [0.5, 1.5, 0]])
    cell = rng.integers(0, 3, n)
    values[:, :3] += apart * rng.integers(0, 9, (n, 1))
    features = FeatureCost(int(cost != "l1"), cost != "l1", np.ones(2, np.float32))
    return Space(
        values,
        features,
        cell,
        move,
        np.array([0.4, -0.7, 0.0]),
        np.ones(n, np.float32),
        root=cost == "l2",
    )


@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
@pytest.mark.parametrize(
    ("n", "m", "apart"),  # far apart, most rows do not matter to a candidate
    [(1, 1, 0), (150, 1, 0), (150, 4, 0), (150, 15, 0), (33, 33, 8), (1000, 90, 8)],
)
def test_no_swap_within_a_cell_gains(cost: str, n: int, m: int, apart: float) -> None:
    where = space(cost, n, apart)
    rng = np.random.default_rng(m)
    start = rng.permutation(n)[:m]
    cells = where.cell[start]
    points = Points(where.values[start], cells, start)
    order = rng.permutation(n)
    found = exchange(where, points, order, where.cell[order], order, Threads(2), 50)
    assert found.converged
    assert (np.diff(found.losses) < 0).all()
    rows = np.where(found.rows < 0, start, found.rows)
    assert (where.cell[rows] == cells).all()
    assert len(set(rows)) == m
    every = costs(where, where.values, where.cell)
    loss = every[:, rows].min(axis=1).sum()
    assert found.losses[-1] == pytest.approx(loss, abs=1e-3)
    assert np.array_equal(every[:, rows].argmin(axis=1), found.labels)
    for slot in range(m):
        rest = every[:, np.delete(rows, slot)].min(axis=1, initial=np.inf)
        swapped = np.minimum(rest[:, None], every[:, where.cell == cells[slot]]).sum(
            axis=0
        )
        assert swapped.min() >= loss - 1e-3


def test_an_estimate_from_all_rows_is_what_the_best_swap_changes() -> None:
    where = space("sqeuclidean")
    start = np.arange(5)
    points = Points(where.values[start], where.cell[start], start)
    candidates = np.flatnonzero(np.isin(where.cell, where.cell[start]))[5:60]
    every = costs(where, where.values, where.cell)
    now = every[:, start].min(axis=1).sum()
    found = estimate(
        where, points, candidates, where.cell[candidates], np.arange(150), Threads(1)
    )
    for row, change in zip(candidates, found, strict=True):
        swaps = [
            every[:, [*np.delete(start, slot), row]].min(axis=1).sum() - now
            for slot in np.flatnonzero(where.cell[start] == where.cell[row])
        ]
        assert change == pytest.approx(min(swaps), abs=1e-3)


# --- Swaps of a problem's representatives


@pytest.mark.parametrize("support", ["rows", "features"])
def test_on_a_sample_rows_stay_rows_that_may_stand_for_their_cell(
    rng: Generator, support: str
) -> None:
    problem = FairCoreset(30, support=support).problem(*synthetic(2000, 4))
    rows = start_rows(problem, "random", rng)
    found = Descent(problem.table.values[rows].astype(float), rows, (1.0,), True)
    swapped = swap(problem, found, np.zeros(problem.cells.n_cells), rng, Threads(1))
    assert (swapped != rows).sum() > 10
    keys = problem.cell_of * 10_000 + problem.ids[swapped]
    assert len(set(keys)) == 30
    assert all(
        row in problem.pools[g] for row, g in zip(swapped, problem.cell_of, strict=True)
    )


@pytest.mark.parametrize("support", ["free", "rows"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_what_float32_cannot_hold_is_left_as_it_is(support: str, cost: str) -> None:
    X, y, d = synthetic(400, 3)
    options = {"cost": cost, "support": support, "epsilon": None, "random_state": 0}
    huge = X.astype(float) * 1e30
    few = FairCoreset(10, **options, swaps=False).fit(huge, y, d)
    more = FairCoreset(10, **options, swaps=True).fit(huge, y, d)
    assert more.objective_ <= few.objective_
