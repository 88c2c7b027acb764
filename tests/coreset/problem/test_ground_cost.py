"""The ground cost: every implementation gives what the formula says, on random mixed tables."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.plain import PlainSteps
from fwc_llm.coreset.descent.steps import CompiledSteps
from fwc_llm.coreset.descent.updates import Medoids
from fwc_llm.coreset.problem.encoding import Encoder
from fwc_llm.coreset.problem.ground_cost import COSTS, column_costs, cost_matrix, feature_costs
from fwc_llm.coreset.problem.problem import Problem
from fwc_llm.coreset.problem.table import Table
from fwc_llm.coreset.threads import Threads

SHAPES = [(5, 0), (0, 4), (1, 1), (3, 9), (12, 2)]  # numeric and categorical columns


def formula(numbers: np.ndarray, codes: np.ndarray, cost: str) -> np.ndarray:
    """(n, n) costs, term by term."""
    n = len(numbers)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for a, b in zip(numbers[i], numbers[j], strict=True):
                found[i, j] += abs(a - b) if cost == "l1" else (a - b) ** 2
            found[i, j] += sum(a != b for a, b in zip(codes[i], codes[j], strict=True))
    return found


def mixed(n: int, numeric: int, categorical: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {f"n{k}": rng.normal(size=n).round(1) for k in range(numeric)}
    columns |= {f"c{k}": rng.choice(list("pqr"), n) for k in range(categorical)}
    return pd.DataFrame(columns)


@pytest.fixture(params=SHAPES, ids=str)
def table(request: pytest.FixtureRequest) -> Table:
    return Encoder.fit(mixed(60, *request.param))[1]


@pytest.mark.parametrize("cost", COSTS)
def test_numpy_follows_the_formula(table: Table, cost: str) -> None:
    expected = formula(table.numbers, table.codes, cost)
    numbers, codes, values = table.numbers.T, table.codes.T, table.values.T
    np.testing.assert_allclose(cost_matrix(table, table, cost), expected, atol=1e-12)
    for j in (0, 7, 59):
        split = column_costs(numbers, codes, table.numbers[j], table.codes[j], cost)
        joint = feature_costs(values, table.n_numeric, table.values[j], cost)
        np.testing.assert_allclose(split, expected[j], atol=1e-12)
        np.testing.assert_array_equal(split, joint)
    turned = np.roll(np.arange(60), 1)
    each = feature_costs(values, table.n_numeric, values[:, turned], cost)
    np.testing.assert_allclose(each, expected[np.arange(60), turned], atol=1e-12)


def asked(numeric: int, categorical: int, cost: str) -> Problem:
    rng = np.random.default_rng(1)
    solver = FairCoreset(12, cost=cost, support="features", cost_sensitive=0.7, cost_outcome=2.5)
    frame = mixed(400, numeric, categorical)
    return solver.problem(frame, rng.integers(0, 2, 400), rng.integers(0, 3, 400))


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_steps_add_what_cells_are_apart(shape: tuple[int, int], cost: str) -> None:
    problem = asked(*shape, cost)
    rows = np.random.default_rng(2).choice(400, 12, replace=False)
    expected = cost_matrix(problem.table, problem.table.take(rows), cost)
    level, outcome = np.divmod(problem.cells.cell, 2)
    level_of, outcome_of = np.divmod(problem.cell_of, 2)
    expected += 0.7 * (level[:, None] != level_of) + 2.5 * (outcome[:, None] != outcome_of)
    least = np.stack([expected[:, problem.cell_of == g].min(axis=1) for g in range(6)], axis=1)
    points = problem.table.values[rows].astype(float)
    for steps in (PlainSteps(problem), CompiledSteps(problem, Threads(2))):
        costs, label = steps.nearest(points)
        np.testing.assert_allclose(costs, least, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.take_along_axis(expected, label.T, axis=1), least, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tables_of_sums_give_the_summed_costs(shape: tuple[int, int], cost: str) -> None:
    problem = asked(*shape, cost)
    rng = np.random.default_rng(3)
    carried, weight = rng.choice(400, 50, replace=False), rng.random(50)
    candidates = rng.choice(400, 30, replace=False)
    expected = weight @ cost_matrix(problem.table.take(carried), problem.table.take(candidates), cost)
    found = Medoids(problem.table, cost, problem.ids, problem.pools)
    codes = np.ascontiguousarray(found.codes[:, candidates])
    np.testing.assert_allclose(found.costs(carried, weight, codes), expected, rtol=1e-9)
