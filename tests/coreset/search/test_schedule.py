"""Schedules: by size of the table, with and without swaps, growing or not; threads change nothing."""

import numpy as np
import pandas as pd
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import descend
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.search import schedule
from fwc_llm.coreset.search.samples import sampling_order
from fwc_llm.coreset.search.schedule import Effort, Solver
from fwc_llm.coreset.search.start import start_rows


def test_the_path_is_chosen_by_size() -> None:
    effort = Effort(300, "auto", "auto", None)
    tiny, large = FairCoreset(4).problem(*synthetic(1000)), FairCoreset(200).problem(*synthetic(30_000))
    assert isinstance(Solver(tiny, effort, 1).steps, PlainSteps)
    assert isinstance(Solver(large, effort, 1).steps, CompiledSteps)


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_plain_and_compiled_steps_find_the_same_coreset(cost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, d = synthetic(800, 5)
    frame = (
        pd.DataFrame(x).rename(columns=str).assign(kind=(10 * x[:, 4]).astype(int) % 5).astype({"kind": str})
    )
    found = []
    for tiny in (0, 10**9):
        monkeypatch.setattr(schedule, "TINY", tiny)
        found.append(FairCoreset(20, cost=cost, random_state=0).fit(frame, y, d))
    fast, plain = found
    pd.testing.assert_frame_equal(fast.representatives_, plain.representatives_, rtol=1e-12)
    np.testing.assert_allclose(fast.weights_, plain.weights_, rtol=1e-9)
    assert fast.objective_ == pytest.approx(plain.objective_, rel=1e-12)
    assert fast.n_iter_ == plain.n_iter_


def test_extreme_scales_stay_with_numpy() -> None:
    X, y, d = synthetic(1000)
    huge = FairCoreset(20).problem(X * np.float32(1e20), y, d)
    assert isinstance(Solver(huge, Effort(1, "auto", False, None), 1).steps, PlainSteps)


@pytest.mark.slow
@pytest.mark.parametrize("searched", [False, True])
def test_any_number_of_threads_gives_the_same(monkeypatch: pytest.MonkeyPatch, searched: bool) -> None:
    monkeypatch.setattr(schedule, "WORTH", 0)
    monkeypatch.setattr(schedule, "SEARCHED", 0 if searched else 10**9)
    table = synthetic(900, 4)
    one, three = (FairCoreset(12, support="rows", random_state=0, n_jobs=jobs).fit(*table) for jobs in (1, 3))
    np.testing.assert_array_equal(one.row_index_, three.row_index_)
    np.testing.assert_array_equal(one.weights_, three.weights_)


@pytest.mark.parametrize("support", ["rows", "features"])
def test_swaps_improve_on_the_descent_and_no_step_rises(support: str) -> None:
    table = synthetic(800, 4)
    few = FairCoreset(16, support=support, random_state=0, swaps=False).fit(*table)
    more = FairCoreset(16, support=support, random_state=0).fit(*table)
    assert more.objective_ < few.objective_
    assert (np.diff(more.history_) <= 1e-9).all()
    assert more.objective_ == pytest.approx(more.lower_bound_, rel=1e-9)
    assert more.violation_ <= 0.01 + 1e-9
    again = FairCoreset(16, support=support, init=more.row_index_).fit(*table) if support == "rows" else more
    assert again.objective_ == pytest.approx(more.objective_, rel=2e-3)


def test_without_iterations_nothing_is_swapped() -> None:
    X, y, d = synthetic(300, 3)
    problem = FairCoreset(8, support="rows").problem(X, y, d)
    start = start_rows(problem, "random", np.random.default_rng(0))
    found = Solver(problem, Effort(0, True, False, 1), 1).from_start(start, np.random.default_rng(0))
    np.testing.assert_array_equal(found.rows, start)
    assert len(found.history) == 1


@pytest.mark.slow
def test_the_search_beats_a_single_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "WORTH", 0)
    monkeypatch.setattr(schedule, "SEARCHED", 0)
    problem = FairCoreset(16, support="rows").problem(*synthetic(1000, 4))
    solver = Solver(problem, Effort(300, "auto", "auto", 1), 1)
    found = solver.from_name("k-means++", np.random.default_rng(0))
    start = start_rows(problem, "k-means++", np.random.default_rng(0))
    assert found.objective < descend(PlainSteps(problem), start, 300).objective


@pytest.mark.slow
def test_a_growing_start_ends_near_the_plain_one() -> None:
    table = synthetic(20_000, 6)
    plain = FairCoreset(40, random_state=0, progressive=False).fit(*table)
    grown = FairCoreset(40, random_state=0, progressive=True).fit(*table)
    assert grown.objective_ == pytest.approx(plain.objective_, rel=0.02)
    assert grown.n_iter_ < plain.n_iter_ / 2
    assert grown.violation_ <= 0.01 + 1e-9
    assert grown.objective_ == pytest.approx(grown.lower_bound_, abs=1e-9)


def test_the_first_sample_has_enough_candidates_for_every_cell() -> None:
    X, y, d = synthetic(5000, 3)
    rare = np.flatnonzero((y == 1) & (d == 1))[12:]
    y[rare] = 0  # twelve rows are left in that cell
    problem = FairCoreset(16, support="rows", slots=[[4, 4], [4, 4]]).problem(X, y, d)
    order = sampling_order(problem, 200, np.random.default_rng(0))
    assert sorted(order) == list(range(5000))
    first = problem.cells.cell[order[:200]]
    assert (np.bincount(first, minlength=4) >= 8).all()


@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_few_far_rows_get_representatives_though_samples_lack_them(support: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(12_000, 7))
    X[:40] += 1e4 * np.repeat(rng.normal(size=(20, 7)), 2, axis=0)
    d = rng.integers(0, 2, len(X))
    y = (rng.random(len(X)) < 0.3 + 0.2 * d).astype(int)
    d[:40], y[:40] = np.repeat(np.arange(20) % 2, 2), np.repeat(np.arange(20) // 2 % 2, 2)
    fitted = FairCoreset(80, cost="sqeuclidean", support=support, random_state=0, n_init=1).fit(X, y, d)
    alone = 2 * 7 * 1e8 / len(X)  # what one group without a representative costs, about
    assert fitted.objective_ < 0.01 * alone
