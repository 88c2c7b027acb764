"""Swaps: true local optima in every cost, for any threads, and what a judge says."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fwc_llm.coreset.swaps.engine import Judge, Patience, estimate, exchange
from fwc_llm.coreset.swaps.state import Points, Space
from fwc_llm.coreset.threads import Threads


def costs(space: Space, values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(n, q) of all rows to the given points, without kernels."""
    kind, k = "cityblock" if space.cost == "l1" else "sqeuclidean", space.n_numeric
    apart = cdist(space.values[:, :k], values[:, :k], kind)
    apart += (space.values[:, None, k:] != values[None, :, k:]).sum(axis=2)
    apart += space.move[cells][:, space.cell].T
    return np.asarray((np.sqrt(apart) if space.cost == "l2" else apart) - space.prices[cells])


def space(cost: str, n: int = 150) -> Space:
    """Three cells whose prices differ, numbers, a two-valued column and two categories."""
    rng = np.random.default_rng(0)
    numbers = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    values = np.column_stack([numbers, rng.integers(0, 4, (n, 2))]).astype(np.float32)
    move = np.array([[0, 1, 0.5], [1, 0, 1.5], [0.5, 1.5, 0]])
    return Space(values, 4, rng.integers(0, 3, n), move, np.array([0.4, -0.7, 0.0]), cost)


@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
@pytest.mark.parametrize("m", [1, 4, 15])
def test_no_swap_within_a_cell_gains(cost: str, m: int) -> None:
    where = space(cost)
    rng = np.random.default_rng(m)
    start = rng.permutation(150)[:m]
    cells = where.cell[start]
    points = Points(where.values[start], cells, start)
    order = rng.permutation(150)
    found = exchange(where, points, order, where.cell[order], order, Patience(50), Threads(2))
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
        kept = np.delete(rows, slot)
        for row in np.flatnonzero(where.cell == cells[slot]):
            assert every[:, [*kept, row]].min(axis=1).sum() >= loss - 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
def test_swaps_are_the_same_for_any_threads(cost: str) -> None:
    where = space(cost, 4000)  # so many that threads share a batch
    start = np.random.default_rng(1).permutation(4000)[:30]
    points = Points(where.values[start], where.cell[start], start)
    order = np.random.default_rng(2).permutation(4000)
    one, three = (
        exchange(where, points, order, where.cell[order], order, Patience(1, 1e-4, again=8), threads)
        for threads in (Threads(1), Threads(3))
    )
    np.testing.assert_array_equal(one.rows, three.rows)
    assert one.losses == three.losses


@pytest.mark.parametrize("cost", ["l1", "l2", "sqeuclidean"])
def test_one_point_ends_at_the_best_row_of_its_cell(cost: str) -> None:
    where = space(cost)
    order = np.flatnonzero(where.cell == 1)
    start = order[:1]
    points = Points(where.values[start], where.cell[start], start)
    found = exchange(where, points, order, where.cell[order], order, Patience(3), Threads(1))
    total = costs(where, where.values[order], where.cell[order]).sum(axis=0)
    assert found.rows[0] == order[total.argmin()] or total[0] == total.min()
    assert found.losses[-1] == pytest.approx(total.min(), rel=1e-6)


def test_a_judge_has_the_last_word() -> None:
    where = space("l1")
    start = np.arange(6)
    points = Points(where.values[start], where.cell[start], start)
    order = np.arange(150)
    asked = []

    def refuse(rows: np.ndarray) -> tuple[float, np.ndarray]:
        asked.append(rows.copy())
        return 1e6, where.prices + len(asked)

    patience = Patience(1, batch=50, again=32, refusals=4)
    found = exchange(where, points, order, where.cell[order], order, patience, Threads(1), Judge(1e5, refuse))
    assert len(asked) >= 2, "one at least in every batch where a swap seems to gain"
    assert (found.rows == -1).all()
    assert len(found.losses) == 1
    every = costs(where, points.values, points.cells)
    np.testing.assert_array_equal(found.labels, every.argmin(axis=1))
    swaps = [int((rows >= 0).sum()) for rows in asked]
    assert swaps[-1] == 1, "what is refused is undone, and fewer swaps are tried, in the end a single one"
    assert max(swaps) <= 6


def test_an_estimate_from_all_rows_is_what_the_best_swap_changes() -> None:
    where = space("sqeuclidean")
    start = np.arange(5)
    points = Points(where.values[start], where.cell[start], start)
    candidates = np.flatnonzero(np.isin(where.cell, where.cell[start]))[5:60]
    every = costs(where, where.values, where.cell)
    now = every[:, start].min(axis=1).sum()
    found = estimate(where, points, candidates, where.cell[candidates], np.arange(150), Threads(1))
    for row, change in zip(candidates, found, strict=True):
        swaps = [
            every[:, [*np.delete(start, slot), row]].min(axis=1).sum() - now
            for slot in np.flatnonzero(where.cell[start] == where.cell[row])
        ]
        assert change == pytest.approx(min(swaps), abs=1e-3)
