"""What float32 is sure of is what float64 finds, and gaps are lower bounds, whatever the table is like."""

import numpy as np
import pytest

from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.ground_cost import between_cells, cost_matrix
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.problem.tables.table import Table
from fwc_llm.coreset.streaming.nearest.kept import Known
from fwc_llm.coreset.streaming.nearest.sure import find_sure

M, WANTED = 30, 0.02
KINDS = ["normal", "double", "far", "outlier", "whole", "codes", "mixed", "twins"]


def made(kind, cost, n=3000, seed=0):
    """A problem of rows in four cells, of which one has no representative, and points for it."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 6)).astype(np.float64 if kind in ("double", "mixed", "far") else np.float32)
    codes = rng.integers(0, 3, (n, 4 if kind in ("codes", "mixed") else 0)).astype(np.int32)
    if kind == "far":
        numbers += 1e6
    if kind == "outlier":
        numbers[0] = 3e4
    if kind == "whole":
        numbers = np.round(numbers)
    if kind == "codes":
        numbers = numbers[:, :0]
    table = Table(numbers, codes)
    points = table.values_of(rng.choice(n, M, replace=False))
    if kind == "twins":  # nearly equal representatives, of which float32 cannot tell which is nearer
        points[1::2] = points[::2] + 1e-7
    if kind != "codes":
        points[:, : table.n_numeric] += 0.3 if kind != "whole" else 1
    cell = rng.integers(0, 4, n)
    cells = Cells(cell, np.arange(2), np.arange(2), np.bincount(cell), np.bincount(cell))
    cell_of = np.sort(rng.integers(0, 3, M))
    move = between_cells(cells, 1.0, 0.5)
    terms = np.full((2, 2), 0.5), 0.01, cost, "free", move, [], np.zeros(0, np.int64)
    return Problem(table, cells, cell_of, *terms), points


def values_of(problem, points, prices):
    """(n, M) what rows cost at all representatives, less prices."""
    places = Table(points[:, : problem.table.n_numeric], points[:, problem.table.n_numeric :])
    costs = cost_matrix(problem.table, places, problem.cost)
    rows = np.arange(len(costs))
    return costs + (problem.move - prices)[problem.cells.cell][:, problem.cell_of], rows


def check(problem, points, prices, found):
    """Labels and costs are exact, and gaps no larger than they are."""
    values, rows = values_of(problem, points, prices)
    sure = found.label >= 0
    np.testing.assert_array_equal(found.label[sure], values.argmin(axis=1)[sure])
    least = values.min(axis=1)
    np.testing.assert_allclose(
        (found.cost - prices[problem.cell_of[found.label]])[sure], least[sure], rtol=1e-9
    )
    values[rows, found.label] = np.inf
    assert (found.gap[sure] <= (values.min(axis=1) - least)[sure] + 1e-9 * np.abs(least[sure])).all()
    others = np.where(problem.cell_of == problem.cell_of[found.label][:, None], np.inf, values).min(axis=1)
    assert (others - least > WANTED)[sure].all()
    return sure.mean()


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sure_is_exact_and_stays_so_while_points_and_prices_move(kind, cost):
    problem, points = made(kind, cost)
    prices = np.array([0.1, -0.2, 0.05, 0.0])
    found = find_sure(problem, points, prices, WANTED, None)
    share = check(problem, points, prices, found)
    if kind in ("normal", "double", "mixed", "outlier"):
        assert share > 0.9
    if kind == "twins":
        assert share < 0.2
    rng = np.random.default_rng(1)
    for step in (0.0, 1e-3, 0.02, 3.0):
        known = Known.of("one", points, prices, found.label, found.gap)
        moved, dearer = points.copy(), prices + step * rng.normal(size=4)
        moved[:, : problem.table.n_numeric] += step * rng.normal(size=(M, problem.table.n_numeric))
        if step:
            moved[0] = points[1]  # categories too
        if kind == "whole":
            moved = np.round(moved)
        found = find_sure(problem, moved, dearer, WANTED, known)
        check(problem, moved, dearer, found)
        points, prices = moved, dearer


def test_where_nothing_came_nearer_no_distance_is_computed_again():
    problem, points = made("normal", "l1")
    prices = np.zeros(4)
    first = find_sure(problem, points, prices, WANTED, None)
    known = Known.of("one", points, prices, first.label, first.gap)
    found = find_sure(problem, points + 1e-6, prices, WANTED, known)
    carried = found.gap < first.gap * 0.9999  # what is left of a gap that was kept in two bytes
    assert carried.mean() > 0.9
    np.testing.assert_array_equal(found.label[carried], first.label[carried])
