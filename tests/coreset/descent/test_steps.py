"""The compiled steps give what numpy alone gives, whatever the number of threads."""

import numpy as np
import pandas as pd
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent import steps
from fwc_llm.coreset.descent.assignment import STALE, STATES
from fwc_llm.coreset.descent.loop import Steps, descend
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.search.start import start_rows
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
    """Small tables leave pairs at their bounds too, as large ones do."""
    monkeypatch.setattr(steps, "SMALL", 0)


def test_bounds_skip_most_pairs_and_lose_nothing(bounded):
    table = synthetic(20_000, 6)
    case = FairCoreset(40).problem(*table)
    steps = CompiledSteps(case, Threads(2))
    found = descend(steps, start_rows(case, "random", np.random.default_rng(0)), 30)
    assert (steps.state.packed % STATES == STALE).mean() > 0.2  # bounds
    exact = Steps(case).certify(found.points)[0].objective
    assert found.objective == pytest.approx(exact, rel=1e-6)
    assert (np.diff(found.history) <= 1e-6).all()


def check_nearest(case, rng, iterations):
    """After a compiled descent the nearest points are those of numpy."""
    fast = CompiledSteps(case, Threads(2))
    found = descend(fast, start_rows(case, "random", rng), iterations)
    cost, label = fast.nearest(found.points)
    every = case.costs(found.points, case.cell_of)
    for g in np.unique(case.cell_of):
        least = every[:, case.cell_of == g].min(axis=1)
        np.testing.assert_allclose(cost[:, g], least, rtol=1e-12, atol=1e-12)
        own = every[np.arange(len(every)), label[g]]
        np.testing.assert_allclose(own, least, rtol=1e-12, atol=1e-12)
        assert (case.cell_of[label[g]] == g).all()
    exact = Steps(case).certify(found.points)[0].objective
    assert found.objective == pytest.approx(exact, rel=1e-5)


def test_many_representatives_in_a_cell(bounded):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5000, 2))
    y = rng.integers(0, 2, 5000)
    d = rng.integers(0, 2, 5000)
    check_nearest(problem(data=(x, y, d), m=4600), rng, 2)  # a cell has more than 1,023


@pytest.mark.parametrize("seed", range(24))
def test_hard_tables_have_the_nearest_points_of_numpy(seed, bounded):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 1500))
    p = int(rng.integers(1, 9))
    m = int(rng.integers(16, 60))
    x = rng.normal(size=(n, p))
    x = [
        x,
        rng.integers(0, 4, (n, p)).astype(float),  # ties
        np.where(np.arange(n)[:, None] % 53, x, 1e6 * x)
        * 10.0 ** rng.integers(-8, 8),  # rows far away
        rng.lognormal(sigma=4, size=(n, p)),
        x[np.arange(n) // 7],  # equal rows
        1e4 + 1e-6 * x,  # digits that float32 has not
    ][seed % 6]
    cost = ("l1", "sqeuclidean")[seed // 6 % 2]
    support = ("free", "rows")[seed // 12]
    check_nearest(
        problem(cost, support, m, (x, rng.integers(0, 2, n), rng.integers(0, 4, n))),
        rng,
        25,
    )
