"""The outer bound: below the best of all coresets, whatever the problem, and near it."""

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from evals.bench.small import table
from evals.synthetic import synthetic
from fwc_llm.coreset import FairCoreset
from tests.coreset.programs import best_of_all
from tests.refusals import refused

N = 10


@pytest.mark.parametrize(
    ("terms", "weighted"),
    [
        ({}, False),
        ({"epsilon": 0.0, "cost": "sqeuclidean"}, True),
        ({"epsilon": {0: 0.0, 1: 0.2}, "target": [0.3, 0.7]}, False),
        ({"epsilon": None}, True),
        ({"epsilon": None, "penalty": 0.3}, True),
        ({"support": "features", "cost_sensitive": 0.3}, False),
        ({"epsilon": 0.3, "crossed": False}, False),
    ],
    ids=str,
)
def test_it_is_below_the_best_of_all_choices(
    rng: Generator, terms: dict[str, Any], weighted: bool
) -> None:
    settings = {
        "support": "rows",
        "n_init": 1,
        "random_state": 0,
        "prove": True,
        **terms,
    }
    for kind in ("numbers", "mixed"):
        X, y, d = table(kind, N, 0)
        if "crossed" in terms:
            levels = np.column_stack([d, np.arange(N) // 5])
        else:
            levels = d
        given = {"sample_weight": rng.integers(1, 5, N) if weighted else None}
        given["candidates"] = np.arange(3) if "support" in terms else None
        cells = len(np.unique(np.column_stack([levels, y]), axis=0))
        model = FairCoreset(cells + (cells == 4), **settings)
        best = best_of_all(model.problem(X, y, levels, **given))
        bound = model.fit(X, y, levels, **given).outer_bound_
        assert 0.85 * best - 1e-6 < bound <= best + 1e-9, (kind, best)
        assert not model.proven_


def test_it_is_within_a_percent_or_two_of_a_coreset_of_many_rows() -> None:
    X, y, d = synthetic(700, 6)
    model = FairCoreset(
        12, support="rows", slots="balanced-positive", random_state=0, prove=True
    ).fit(X, y, d)
    assert 0.97 * model.objective_ < model.outer_bound_ <= model.lower_bound_
    plain = FairCoreset(
        12, support="rows", slots="balanced-positive", random_state=0
    ).fit(X, y, d)
    assert plain.row_index_.tolist() == model.row_index_.tolist()
    assert plain.outer_bound_ is None


def test_where_all_coresets_were_compared_it_is_the_objective() -> None:
    model = FairCoreset(4, support="rows", random_state=0, prove=True).fit(
        *table("numbers", 14, 0)
    )
    assert model.proven_
    assert model.outer_bound_ == model.lower_bound_


def test_there_is_none_of_free_points_and_large_tables() -> None:
    with refused("support"):
        FairCoreset(4, prove=True).fit(*synthetic(100, 2))
    table = synthetic(5100, 2)
    with refused("choose without a proof"):
        FairCoreset(4, support="rows", prove=True).fit(*table)
    with refused("prove"):
        FairCoreset(4, support="rows", prove=1).fit(*table)
    few = np.arange(5100) % 20 == 0
    assert (
        FairCoreset(4, support="rows", prove=True, max_iter=1)
        .fit(*table, candidates=few)
        .outer_bound_
        > 0
    )
