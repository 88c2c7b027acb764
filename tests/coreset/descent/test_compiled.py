"""The compiled steps give what numpy alone gives, whatever the number of threads."""

import numpy as np
import pandas as pd
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent import compiled
from fwc_llm.coreset.descent.compiled import CompiledSteps
from fwc_llm.coreset.descent.loop import descend
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.search import schedule as strategy
from fwc_llm.coreset.search.compiled_gains import CompiledGains
from fwc_llm.coreset.search.gains import Gains
from fwc_llm.coreset.search.local_search import search
from fwc_llm.coreset.search.schedule import start_rows
from fwc_llm.coreset.search.swaps import SwapState
from fwc_llm.coreset.threads import Threads

pytestmark = pytest.mark.slow


def mixed(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    table = synthetic(n, 5, seed)
    frame = pd.DataFrame(table.features.astype(float)).rename(columns=str)
    frame["kind"] = rng.choice(list("abcd"), n)
    frame["whole"] = rng.integers(0, 4, n)
    return frame, table.outcome, table.sensitive


def problem(cost="l1", support="free", m=24, data=None, **options):
    x, y, d = data or mixed()
    return FairCoreset(m, cost=cost, support=support, **options).problem(x, y, d)


@pytest.fixture
def bounded(monkeypatch):
    """Small tables use the bounds too, as large ones do."""
    monkeypatch.setattr(compiled, "SMALL", 0)


@pytest.mark.parametrize("support", ["free", "rows", "features"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_compiled_descents_are_the_same(cost, support, bounded):
    case = problem(cost, support)
    start = start_rows(case, "random", np.random.default_rng(0))
    plain, fast = PlainSteps(case), CompiledSteps(case, Threads(2))
    expected, found = descend(plain, start, 40), descend(fast, start, 40)
    np.testing.assert_allclose(found.history, expected.history, rtol=1e-6)
    np.testing.assert_allclose(found.points, expected.points, atol=1e-5)
    np.testing.assert_allclose(
        fast.certify(found.points)[0].objective, plain.certify(found.points)[0].objective, rtol=1e-12
    )


def test_equal_columns_and_whole_numbers_tie_alike(bounded):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (2000, 6)).astype(np.float32)
    case = problem(data=(x, rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)))
    points = x[start_rows(case, "random", rng)].astype(float)
    cost, label = PlainSteps(case).nearest(points)
    found = CompiledSteps(case, Threads(2)).nearest(points)
    np.testing.assert_array_equal(found[0], cost)
    np.testing.assert_array_equal(found[1], label)


def test_near_ties_are_settled_in_float64(bounded):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1000, 4)) + 1e4
    y, d = rng.integers(0, 2, 1000), rng.integers(0, 2, 1000)
    case = problem(data=(x, y, d), m=8)
    # Pairs of points that differ by less than float32 can see in the cost.
    points = np.repeat(x[start_rows(case, "random", rng)][::2], 2, axis=0)
    points[1::2] += rng.choice([-1e-8, 1e-8], points[1::2].shape)
    _, label = PlainSteps(case).nearest(points)
    found = CompiledSteps(case, Threads(2)).nearest(points)
    np.testing.assert_array_equal(found[1], label)


def test_any_number_of_threads_gives_the_same(bounded):
    table = synthetic(40_000, 8)
    case = FairCoreset(30).problem(*table)
    start = start_rows(case, "random", np.random.default_rng(0))
    one, three = (descend(CompiledSteps(case, Threads(t)), start, 15) for t in (1, 3))
    assert one.history == three.history
    np.testing.assert_array_equal(one.points, three.points)


def test_bounds_skip_most_pairs_and_lose_nothing(bounded):
    table = synthetic(20_000, 6)
    case = FairCoreset(40).problem(*table)
    steps = CompiledSteps(case, Threads(2))
    found = descend(steps, start_rows(case, "random", np.random.default_rng(0)), 30)
    assert steps.skipped > 0.2
    exact = PlainSteps(case).certify(found.points)[0].objective
    assert found.objective == pytest.approx(exact, rel=1e-6)
    assert (np.diff(found.history) <= 1e-6).all()


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_gains_are_what_a_swap_changes(cost):
    case = problem(cost, "rows", m=12)
    rng = np.random.default_rng(3)
    rows = start_rows(case, "random", rng)
    state = SwapState(case, rows, rng.normal(size=4) * 0.1, 0.0)
    cells = rng.integers(0, 4, 90)
    candidates = np.array([rng.choice(case.pools[g]) for g in cells])
    plain = Gains(case).best(state, candidates, cells)
    fast = CompiledGains(case, Threads(2)).best(state, candidates, cells)
    np.testing.assert_array_equal(plain[1], fast[1])
    np.testing.assert_allclose(plain[0], fast[0], rtol=1e-4, atol=1e-7)
    before = state.nearest.first.mean(dtype=float)
    for q in np.flatnonzero(np.isfinite(plain[0]))[:20]:
        state.swap(int(plain[1][q]), int(candidates[q]))
        assert state.nearest.first.mean(dtype=float) - before == pytest.approx(plain[0][q], abs=1e-6)
        state.restore(rows)


def test_swaps_improve_on_the_descent_and_end_where_none_gains():
    x, y, d = mixed(1500)
    few = FairCoreset(16, support="rows", random_state=0, swaps=False).fit(x, y, d)
    more = FairCoreset(16, support="rows", random_state=0).fit(x, y, d)
    assert more.objective_ < few.objective_
    assert (np.diff(more.history_) <= 1e-9).all()
    again = FairCoreset(16, support="rows", init=more.row_index_).fit(x, y, d)
    assert again.objective_ == pytest.approx(more.objective_, rel=2e-3)


def test_a_growing_start_ends_near_the_plain_one():
    table = synthetic(20_000, 6)
    plain = FairCoreset(40, random_state=0, progressive=False).fit(*table)
    grown = FairCoreset(40, random_state=0, progressive=True).fit(*table)
    assert grown.objective_ == pytest.approx(plain.objective_, rel=0.02)
    assert grown.n_iter_ < plain.n_iter_ / 2
    assert grown.violation_ <= 0.01 + 1e-9
    assert grown.objective_ == pytest.approx(grown.lower_bound_, abs=1e-9)


def test_the_path_is_chosen_by_size(monkeypatch):
    effort = strategy.Effort(300, "auto", "auto", None)
    small, large = FairCoreset(8).problem(*synthetic(1000)), FairCoreset(200).problem(*synthetic(30_000))
    assert isinstance(strategy.Solver(small, effort, 1).steps, PlainSteps)
    assert isinstance(strategy.Solver(large, effort, 1).steps, CompiledSteps)


def test_extreme_scales_stay_with_numpy():
    table = synthetic(30_000)
    huge = FairCoreset(200).problem(table.features * np.float32(1e20), table.outcome, table.sensitive)
    assert isinstance(strategy.Solver(huge, strategy.Effort(1, "auto", False, None), 1).steps, PlainSteps)


def test_the_search_serves_tiny_cells_and_does_not_depend_on_threads():
    x, y, d = mixed(5000)
    rare = np.flatnonzero((y == 1) & (d == 1))[2:]  # two rows are left in that cell
    y = y.copy()
    y[rare] = 0
    asked = problem(support="rows", m=24, data=(x, y, d), slots=[[8, 6], [8, 2]])
    found = [
        search(asked, CompiledSteps(asked, threads), np.random.default_rng(0), threads, 50)
        for threads in (Threads(1), Threads(2))
    ]
    assert (found[0].rows == found[1].rows).all()
    assert (asked.cells.cell[found[0].rows] == asked.cell_of).all()
    assert len(set(asked.ids[found[0].rows])) == 24
    plain = descend(PlainSteps(asked), start_rows(asked, "k-means++", np.random.default_rng(0)), 50)
    assert found[0].objective < plain.objective
