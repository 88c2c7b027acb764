"""The steps with numpy alone: what is kept of tiny tables changes nothing."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.descent.loop import points_at
from fwc_llm.coreset.descent.plain import PlainSteps, TinyMedoids
from fwc_llm.coreset.descent.updates import Medoids
from fwc_llm.coreset.problem.problem import Problem


def problem(n: int, cost: str, weighted: bool) -> Problem:
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(
        {"x": rng.normal(size=n), "y": rng.integers(0, 4, n), "kind": rng.choice(list("abc"), n)}
    )
    weight = rng.uniform(0.5, 2, n) if weighted else None
    model = FairCoreset(8, cost=cost, support="features")
    return model.problem(frame, np.arange(n) % 2, np.arange(n) // 2 % 2, sample_weight=weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_the_costs_of_all_pairs_lead_to_the_same_medoids(cost: str, weighted: bool) -> None:
    task = problem(60, cost, weighted)
    steps, equal = PlainSteps(task), 0
    for seed in range(10):
        rows = np.random.default_rng(seed).choice(60, 8, replace=False)
        _, shares = steps.solve(points_at(task.table, rows))
        by_tables = Medoids(task.table, cost, task.ids, task.pools)
        tiny = TinyMedoids(task.table, cost, task.ids, task.pools).move(shares, rows, task.cell_of)
        moved = by_tables.move(shares, rows, task.cell_of)
        assert (tiny != rows).any()
        for j in np.flatnonzero(tiny != moved).tolist():  # equal ones may stand for each other
            both = by_tables.codes[:, [tiny[j], moved[j]]]
            one, other = by_tables.costs(*shares.grouped().of(j), both)
            assert one == pytest.approx(other, rel=1e-12)
        equal += int((tiny == moved).all())
    assert equal > 5


def test_points_of_a_tiny_table_are_solved_once() -> None:
    for n, once in ((60, True), (2000, False)):
        task = problem(n, "l1", weighted=False)
        steps = PlainSteps(task)
        points = [points_at(task.table, np.arange(start, start + 8)) for start in (0, 8)]
        objective, shares = steps.solve(points[0])
        prices = steps.prices
        steps.solve(points[1])
        again, same = steps.solve(points[0].copy())
        assert (same is shares) == once
        assert again == pytest.approx(objective, rel=1e-12)
        assert (steps.prices is prices) == once
