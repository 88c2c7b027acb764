"""The steps of weighted rows: compiled and plain agree, and whole weights are repeated rows."""

from dataclasses import replace

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.threads import Threads
from fwc_llm.coreset.weights import read_weights


def problem(n: int, cost: str, support: str, ties: bool) -> Problem:
    """A weighted problem, whose numbers may tie."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 6, (n, 3)).astype(float) if ties else rng.normal(size=(n, 3))
    y, d = rng.integers(0, 2, n), rng.integers(0, 2, n)
    weights = rng.integers(1, 6, n) if ties else rng.lognormal(size=n)
    terms = {"cost": cost, "support": support, "epsilon": 0.01}
    return FairCoreset(12, **terms).problem(x, y, d, sample_weight=weights)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_compiled_steps_move_as_plain_ones_do(cost: str, ties: bool) -> None:
    given = problem(3000, cost, "free", ties)
    plain, fast = PlainSteps(given), CompiledSteps(given, Threads(2))
    rng = np.random.default_rng(1)
    points = given.table.values[rng.choice(3000, 12, replace=False)].astype(np.float64)
    for _ in range(6):
        objective, shares = plain.solve(points)
        again, same = fast.solve(points)
        assert again == pytest.approx(objective, rel=1e-6)
        if not ties:  # else several plans are optimal
            assert np.allclose(shares.weights(), same.weights(), atol=1e-5)
        moved = plain.move_points(shares, points)
        # From the same plan, so that ties of the plan do not matter.
        assert np.allclose(fast.move_points(shares, points), moved, rtol=1e-6, atol=1e-9)
        points = moved


@pytest.mark.parametrize("support", ["rows", "features"])
def test_compiled_medoids_move_as_plain_ones_do(support: str) -> None:
    given = problem(600, "l1", support, ties=False)
    plain, fast = PlainSteps(given), CompiledSteps(given, Threads(2))
    rows = np.concatenate(
        [pool[:count] for pool, count in zip(given.pools, np.bincount(given.cell_of), strict=True)]
    )
    for _ in range(4):
        _, shares = plain.solve(given.table.values[rows].astype(np.float64))
        moved = plain.move_rows(shares, rows)
        assert np.array_equal(fast.move_rows(shares, rows), moved)
        rows = moved


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_whole_weights_move_as_repeated_rows_do(cost: str) -> None:
    given = problem(300, cost, "free", ties=True)
    assert given.masses is not None
    unit = given.masses.values.min()  # the weight 1
    often = np.rint(given.masses.values / unit).astype(int)
    rows = np.repeat(np.arange(300), often)
    repeated = replace(given.subset(rows), masses=None)
    points = given.table.values[np.arange(12) * 20].astype(np.float64)
    inner, shares = PlainSteps(given).certify(points)
    whole, each = PlainSteps(repeated).certify(points)
    assert inner.objective == pytest.approx(whole.objective, rel=1e-12)
    moved = PlainSteps(given).move_points(shares, points)
    again = PlainSteps(given).move_points(replace(shares, masses=read_weights(often * 7.0, 300)), points)
    assert np.allclose(moved, again, rtol=1e-12)
    if len(shares.part_row) == len(each.part_row) == 0:
        assert np.allclose(PlainSteps(repeated).move_points(each, points), moved)
