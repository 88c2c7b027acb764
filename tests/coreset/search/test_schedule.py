"""Schedules: by size of the table, with and without swaps, growing or not; threads change
nothing.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.search import schedule
from fwc_llm.coreset.search.schedule import Solver
from fwc_llm.coreset.search.start import sampling_order, start_rows
from tests.coreset.programs import best_of_all


def test_the_path_is_chosen_by_size() -> None:
    effort = 300, "auto", "auto", None
    tiny = FairCoreset(4).problem(*synthetic(1000))
    large = FairCoreset(200).problem(*synthetic(30_000))
    assert type(Solver(tiny, *effort).steps) is Steps
    assert isinstance(Solver(large, *effort).steps, CompiledSteps)
    X, y, d = synthetic(30_000)
    huge = FairCoreset(200).problem(X * np.float32(1e20), y, d)  # beyond float32
    assert type(Solver(huge, *effort).steps) is Steps


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_plain_and_compiled_steps_find_the_same_coreset(
    cost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, d = synthetic(800, 5)
    frame = (
        pd.DataFrame(x)
        .rename(columns=str)
        .assign(kind=(10 * x[:, 4]).astype(int) % 5)
        .astype({"kind": str})
    )
    found = []
    for tiny in (0, 10**9):
        monkeypatch.setattr(schedule, "TINY", tiny)
        found.append(FairCoreset(20, cost=cost, random_state=0).fit(frame, y, d))
    fast, plain = found
    pd.testing.assert_frame_equal(
        fast.representatives_, plain.representatives_, rtol=1e-12
    )
    np.testing.assert_allclose(fast.weights_, plain.weights_, rtol=1e-9)
    assert fast.objective_ == pytest.approx(plain.objective_, rel=1e-12)


@pytest.mark.slow
def test_a_growing_start_ends_near_the_plain_one() -> None:
    table = synthetic(20_000, 6)
    plain = FairCoreset(40, random_state=0, progressive=False).fit(*table)
    grown = FairCoreset(40, random_state=0, progressive=True).fit(*table)
    assert grown.objective_ == pytest.approx(plain.objective_, rel=0.02)
    assert grown.n_iter_ < plain.n_iter_ / 2
    assert grown.violation_ <= 0.01 + 1e-9
    assert grown.objective_ == pytest.approx(grown.lower_bound_, abs=1e-9)


def test_moving_twice_as_far_ends_lower_and_empties_no_representative() -> None:
    table = synthetic(5000, 25)
    plain = FairCoreset(250, random_state=0, progressive=False).fit(*table)
    far = FairCoreset(250, random_state=0).fit(*table)
    assert far.objective_ < 0.99 * plain.objective_
    assert far.weights_.min() > 0
    low = table.features.min(axis=0)
    high = table.features.max(axis=0)
    assert np.array_equal(far.representatives_.clip(low, high), far.representatives_)


@pytest.mark.parametrize("support", ["free", "rows"])
def test_a_few_far_rows_get_representatives_though_samples_lack_them(
    support: str,
) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9000, 7))
    X[:40] += 1e4 * np.repeat(rng.normal(size=(20, 7)), 2, axis=0)
    d = rng.integers(0, 2, len(X))
    y = (rng.random(len(X)) < 0.3 + 0.2 * d).astype(int)
    d[:40], y[:40] = (
        np.repeat(np.arange(20) % 2, 2),
        np.repeat(np.arange(20) // 2 % 2, 2),
    )
    fitted = FairCoreset(
        80, cost="sqeuclidean", support=support, random_state=0, n_init=1
    ).fit(X, y, d)
    alone = 2 * 7 * 1e8 / len(X)  # what one group without a representative costs, about
    assert fitted.objective_ < 0.01 * alone


# --- Where the descent starts


@pytest.mark.parametrize("name", ["random", "k-means++"])
def test_every_cell_gets_its_seats_in_order_and_no_value_twice(
    rng: Generator, name: str
) -> None:
    cell = rng.integers(0, 3, 200)
    x = rng.integers(0, 4, (200, 2)).astype(float)  # 16 values
    model = FairCoreset(17, epsilon=None, support="rows", slots=[[5], [1], [11]])
    problem = model.problem(x, np.zeros(200), cell)
    for seed in range(5):
        rows = start_rows(problem, name, np.random.default_rng(seed))
        np.testing.assert_array_equal(cell[rows], problem.cell_of)
        assert len(set(zip(cell[rows], problem.ids[rows], strict=True))) == 17


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_spread_rows_take_one_of_each_heap(cost: str) -> None:
    # Heaps so far apart that a second row of one heap has no chance against the first of another.
    rng = np.random.default_rng(1)
    heap = np.repeat(np.arange(6), 30)
    problem = FairCoreset(6, None, cost).problem(
        heap[:, None] * 1e6 + rng.random((180, 2))
    )
    for seed in range(5):
        assert set(
            heap[start_rows(problem, "k-means++", np.random.default_rng(seed))]
        ) == set(range(6))


# --- Samples


def test_samples_hold_every_cell_and_enough_candidates() -> None:
    X, y, d = synthetic(3000, 3)
    rare = np.flatnonzero((y == 1) & (d == 1))[10:]
    y[rare] = 0  # ten rows are left in that cell
    problem = FairCoreset(12, support="rows", slots=[[3, 3], [3, 3]]).problem(X, y, d)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        order = sampling_order(problem, rng)
        assert sorted(order) == list(range(3000))
        sampled = np.bincount(problem.cells.cell[order[:100]], minlength=4)
        assert (sampled >= 10).all()


# --- Where there are few coresets of rows


@pytest.mark.parametrize(
    ("cost", "epsilon", "weighted"),
    [
        ("l1", None, True),
        ("l1", 0.0, False),
        ("l1", 0.05, True),
        ("sqeuclidean", None, False),
        ("sqeuclidean", 0.0, True),
        ("sqeuclidean", 0.05, False),
    ],
)
def test_the_best_of_all_coresets_is_found_and_proven(
    cost: str, epsilon: float | None, weighted: bool
) -> None:
    for seed, support in enumerate(["rows", "features"]):
        rng = np.random.default_rng([3, seed])
        x = rng.integers(0, 4, (12, 2)).astype(float)  # equal rows count once
        cell = np.concatenate([np.arange(4), rng.integers(0, 4, 8)])
        table = (x, cell % 2, cell // 2)
        given = {"sample_weight": rng.integers(1, 9, 12) if weighted else None}
        given["candidates"] = np.arange(4) if support == "features" else None
        settings = {
            "epsilon": epsilon,
            "cost": cost,
            "support": support,
            "slots": "equal",
        }
        model = FairCoreset(4, **settings, random_state=0)
        best = best_of_all(model.problem(*table, **given))
        found = model.fit(*table, **given)
        assert found.objective_ == pytest.approx(best, rel=1e-9)
        assert found.proven_
        assert (np.diff(found.history_) <= 0).all()
        assert found.history_[-1] == found.objective_
        assert found.lower_bound_ == pytest.approx(found.objective_, abs=1e-9)
        many = FairCoreset(4, **settings, random_state=0, n_init=6).fit(*table, **given)
        assert not many.proven_


# --- The search for a good start


@pytest.mark.slow
def test_the_search_serves_tiny_cells_and_does_not_depend_on_threads() -> None:
    X, y, d = synthetic(9000, 5)
    y[np.flatnonzero((y == 1) & (d == 1))[2:]] = (
        0  # two rows are left in a cell, both of which are wanted
    )
    terms = {"support": "rows", "slots": [[8, 6], [8, 2]], "random_state": 0}
    one, two = (FairCoreset(24, **terms, n_jobs=jobs).fit(X, y, d) for jobs in (1, 2))
    np.testing.assert_array_equal(one.row_index_, two.row_index_)
    assert len(set(one.row_index_)) == 24
    assert one.spread_ > 0
    problem = FairCoreset(24, **terms).problem(X, y, d)
    plain = descend(
        Steps(problem), start_rows(problem, "k-means++", np.random.default_rng(0)), 50
    )
    assert one.objective_ < plain.objective
    assert (np.diff(one.history_) <= 1e-6).all()


@pytest.mark.parametrize("support", ["free", "rows"])
def test_kicks_find_what_starts_alone_miss_and_threads_change_nothing(
    support: str,
) -> None:
    X, y, d = synthetic(1500, 6)
    starts = FairCoreset(
        12, support=support, random_state=0, swaps=False, n_init=2
    ).fit(X, y, d)
    kept, again = (
        FairCoreset(12, support=support, random_state=0, n_jobs=n).fit(X, y, d)
        for n in (1, 2)
    )
    assert kept.objective_ < 0.997 * starts.objective_
    assert kept.objective_ == again.objective_
    assert kept.spread_ is not None
    assert (np.diff(kept.history_) <= 1e-9).all()


def test_swaps_at_fixed_prices_do_not_overshoot() -> None:
    # Parity binds: at the last prices alone, swaps swing from one side to the other and end 2 %
    # higher.
    X, y, d = synthetic(2000, 4)
    X = X + 2 * (d == y)[:, None]
    problem = FairCoreset(16, 0.0, support="rows", slots="balanced-positive").problem(
        X, y, d
    )
    solver = Solver(problem, 300, True, False, 1)
    found = [
        solver.from_name("k-means++", np.random.default_rng(seed)).objective
        for seed in range(6)
    ]
    assert max(found) < 1.02 * min(found)


# --- Small tables are solved


def test_starts_end_when_four_agree_and_larger_tables_start_twice(
    rng: Generator,
) -> None:
    cell = np.arange(15) % 4
    x = rng.normal(size=(15, 3))
    y = cell % 2
    d = cell // 2
    found = FairCoreset(4, random_state=0).fit(x, y, d)
    assert found.n_agreeing_ == 4 or found.n_starts_ == 30
    assert not found.proven_  # of free points
    x = rng.normal(size=(900, 2))
    y = rng.integers(0, 2, 900)
    d = rng.integers(0, 2, 900)
    larger = FairCoreset(8, random_state=0).fit(x, y, d)
    assert larger.n_starts_ == 2
    assert 0 <= larger.spread_ < 0.05
    one = FairCoreset(8, random_state=0, swaps=False).fit(x, y, d)
    assert (one.n_starts_, one.n_agreeing_, one.proven_) == (1, 1, False)
    first = np.array([np.flatnonzero(2 * d + y == g)[0] for g in range(4)])
    assert FairCoreset(4, support="rows", init=first).fit(x, y, d).n_starts_ == 1
