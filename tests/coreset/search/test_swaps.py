"""Swaps of a problem's representatives: each lowers the objective, and in the end none would."""

import numpy as np
import pandas as pd
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import Descent, descend, points_at
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.start import start_rows
from fwc_llm.coreset.search.swaps import swap_at_prices, swap_on_sample, swap_rows
from fwc_llm.coreset.threads import Threads


def tiny(seed: int, cost: str, support: str, epsilon: float | None) -> Problem:
    """Two dozen rows in four cells, some of them equal."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": np.round(rng.normal(size=24), 1), "kind": rng.choice(list("ab"), 24)})
    y, d = np.tile([0, 0, 1], 8), np.tile([0, 1], 12)
    return FairCoreset(6, epsilon, cost=cost, support=support).problem(frame, y, d)


def objective(problem: Problem, rows: np.ndarray) -> float:
    return PlainSteps(problem).solve(points_at(problem.table, rows))[0]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [Threads(1), Threads(2)], ids=["one", "two"])
@pytest.mark.parametrize("support", ["rows", "features"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("epsilon", [None, 0.0, 0.1])
def test_in_the_end_no_swap_gains_in_the_whole_problem(
    cost: str, support: str, epsilon: float | None, threads: Threads
) -> None:
    for seed in range(3):
        problem = tiny(seed, cost, support, epsilon)
        rows = start_rows(problem, "random", np.random.default_rng(seed))
        lowest = objective(problem, rows)
        while True:
            moved = swap_rows(PlainSteps(problem), rows, threads, np.random.default_rng(seed))
            if (moved == rows).all():
                break
            assert objective(problem, moved) < lowest
            rows, lowest = moved, objective(problem, moved)
        for j, g in enumerate(problem.cell_of):  # every swap there is, by force
            others = problem.ids[rows[(problem.cell_of == g) & (np.arange(6) != j)]]
            for row in problem.pools[g][~np.isin(problem.ids[problem.pools[g]], others)]:
                swapped = rows.copy()
                swapped[j] = row
                assert objective(problem, swapped) >= lowest * (1 - 2e-6)


def test_swaps_do_not_depend_on_threads() -> None:
    problem = FairCoreset(20, support="rows").problem(*synthetic(1500, 5))
    start = start_rows(problem, "random", np.random.default_rng(0))
    found = [
        swap_rows(PlainSteps(problem), start, threads, np.random.default_rng(1))
        for threads in (Threads(1), Threads(3))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert objective(problem, found[0]) < 0.97 * objective(problem, start)


@pytest.mark.slow
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
def test_on_a_sample_rows_stay_rows_that_may_stand_for_their_cell(support: str) -> None:
    problem = FairCoreset(30, support=support).problem(*synthetic(2000, 4))
    rng = np.random.default_rng(0)
    rows = start_rows(problem, "random", rng)
    found = Descent(problem.table.values[rows].astype(float), rows, (1.0,), True)
    swapped = swap_on_sample(problem, found, np.zeros(problem.cells.n_cells), rng, Threads(1))
    assert (swapped != rows).sum() > 10
    keys = problem.cell_of * 10_000 + problem.ids[swapped]
    assert len(set(keys)) == 30
    assert all(row in problem.pools[g] for row, g in zip(swapped, problem.cell_of, strict=True))


@pytest.mark.parametrize("support", ["free", "rows"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_what_float32_cannot_hold_is_left_as_it_is(support: str, cost: str) -> None:
    X, y, d = synthetic(400, 3)
    options = {"cost": cost, "support": support, "epsilon": None, "random_state": 0}
    huge = X.astype(float) * 1e30
    few = FairCoreset(10, **options, swaps=False).fit(huge, y, d)
    more = FairCoreset(10, **options, swaps=True).fit(huge, y, d)
    assert more.objective_ <= few.objective_


@pytest.mark.parametrize("epsilon", [None, 0.0])
def test_swaps_at_prices_that_stay_gain_on_all_rows(epsilon: float | None) -> None:
    problem = FairCoreset(16, epsilon, support="rows").problem(*synthetic(1500, 5))
    for seed in range(2):
        rng, steps = np.random.default_rng(seed), PlainSteps(problem)
        found = descend(steps, start_rows(problem, "random", rng), 300)
        swapped = swap_at_prices(steps, found, 300, Threads(1), rng)
        assert swapped.objective < 0.99 * found.objective
        assert swapped.objective == pytest.approx(objective(problem, np.asarray(swapped.rows)), rel=1e-9)
        assert (np.diff(swapped.history) < 0).all()
        np.testing.assert_array_equal(problem.cells.cell[swapped.rows], problem.cell_of)
