"""The search for a good start: many optima of samples, the best of them on all rows."""

import numpy as np
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import descend, points_at
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.local_search import Sample, search
from fwc_llm.coreset.search.start import start_rows
from fwc_llm.coreset.threads import Threads


def asked(n: int = 5000, **options: object) -> Problem:
    """A cell in which two rows are left, both of which are wanted."""
    X, y, d = synthetic(n, 5)
    y[np.flatnonzero((y == 1) & (d == 1))[2:]] = 0
    return FairCoreset(24, support="rows", slots=[[8, 6], [8, 2]], **options).problem(X, y, d)


@pytest.mark.slow
def test_the_search_serves_tiny_cells_and_does_not_depend_on_threads() -> None:
    problem = asked()
    one, two = (
        search(problem, CompiledSteps(problem, threads), np.random.default_rng(0), threads, 50)
        for threads in (Threads(1), Threads(2))
    )
    assert one.rows is not None
    np.testing.assert_array_equal(one.rows, two.rows)
    np.testing.assert_array_equal(problem.cells.cell[one.rows], problem.cell_of)
    assert len(set(problem.ids[one.rows])) == 24
    plain = descend(PlainSteps(problem), start_rows(problem, "k-means++", np.random.default_rng(0)), 50)
    assert one.objective < plain.objective
    assert (np.diff(one.history) <= 1e-6).all()


@pytest.mark.parametrize("epsilon", [None, 0.0])
def test_what_settles_is_no_worse_and_its_objective_is_true(epsilon: float | None) -> None:
    problem = asked(600, epsilon=epsilon)
    sample = Sample(problem)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        start = start_rows(problem, "random", rng)
        before, _ = PlainSteps(problem).solve(points_at(problem.table, start))
        found = sample.settle(start, rng)
        after, _ = PlainSteps(problem).solve(points_at(problem.table, found.rows))
        assert found.objective == pytest.approx(after, rel=1e-5)
        assert after < before


def test_swaps_at_fixed_prices_do_not_overshoot() -> None:
    # Parity binds: at the last prices alone, swaps swing from one side to the other and end 2 % higher.
    X, y, d = synthetic(2000, 4)
    X = X + 2 * (d == y)[:, None]
    problem = FairCoreset(16, 0.0, support="rows", slots="balanced-positive").problem(X, y, d)
    sample = Sample(problem)
    found = [
        sample.settle(start_rows(problem, "k-means++", rng), rng).objective
        for rng in map(np.random.default_rng, range(6))
    ]
    assert max(found) < 1.02 * min(found)
