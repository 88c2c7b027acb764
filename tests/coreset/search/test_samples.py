"""Samples: every cell has its share and enough candidates; even ones differ little from all rows."""

import numpy as np
import pandas as pd
import pytest

from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.search.samples import even_order, sample_rows


@pytest.mark.parametrize("even", [False, True])
def test_samples_hold_every_cell_and_enough_candidates(even: bool) -> None:
    X, y, d = synthetic(3000, 3)
    rare = np.flatnonzero((y == 1) & (d == 1))[10:]
    y[rare] = 0  # ten rows are left in that cell
    problem = FairCoreset(12, support="rows", slots=[[3, 3], [3, 3]]).problem(X, y, d)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = sample_rows(problem, 100, rng, order=even_order(problem, rng) if even else None)
        assert (np.diff(rows) > 0).all()
        assert 100 <= len(rows) <= 100 + 4 * 12, "at most four candidates for each seat more"
        assert (np.bincount(problem.cells.cell[rows], minlength=4) >= [10, 10, 10, 10]).all()


def mixed(n: int) -> Problem:
    """Numbers, one of them far from others, and categories, one of them rare and one not seen."""
    table = synthetic(n, 4)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(table.features.astype(float)).rename(columns=str)
    frame.iloc[0, 0] = 1e9
    frame["kind"] = rng.choice(list("abc"), n, p=[0.6, 0.399, 0.001])
    return FairCoreset(12, support="rows").problem(frame, table.outcome, table.sensitive)


def test_even_samples_stand_for_all_rows_and_have_no_favourites() -> None:
    problem = mixed(3000)
    order = even_order(problem, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(order), np.arange(3000))
    values = problem.table.numbers[:, 1:].astype(float)
    cost = np.abs(values - values[0]).sum(axis=1)  # to some row, as a representative

    def means(among: np.ndarray | None) -> np.ndarray:
        rngs = map(np.random.default_rng, range(60))
        return np.array([cost[sample_rows(problem, 250, rng, order=among)].mean() for rng in rngs])

    even, uniform = means(order), means(None)
    assert even.std() < 0.7 * uniform.std()
    assert abs(even.mean() - cost.mean()) < 4 * even.std() / np.sqrt(60)


@pytest.mark.parametrize("n", [1, 7, 16, 33])
def test_few_rows_or_columns_are_put_in_order_too(n: int) -> None:
    for frame in (pd.DataFrame({"x": np.zeros(n)}), pd.DataFrame({"kind": ["a", "b"] * n}).iloc[:n]):
        problem = FairCoreset(1, None, support="rows").problem(frame)
        order = even_order(problem, np.random.default_rng(0))
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
