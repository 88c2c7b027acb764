"""Where there are few coresets of rows, the best of all is found, whatever the cost and the support."""

import numpy as np
import pytest

from fwc_llm.coreset import FairCoreset
from fwc_llm.coreset.search.restarts import best_of_all
from fwc_llm.coreset.search.schedule import Effort, Solver


@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
@pytest.mark.parametrize("epsilon", [None, 0.0, 0.05])
def test_no_start_ends_below_the_proven_optimum(cost: str, epsilon: float | None) -> None:
    for seed, support in enumerate(["rows", "features"]):
        rng = np.random.default_rng([3, seed])
        x = rng.integers(0, 4, (12, 2)).astype(float)  # equal rows count once
        cell = np.concatenate([np.arange(4), rng.integers(0, 4, 8)])
        table = (x, cell % 2, cell // 2)
        settings = {"epsilon": epsilon, "cost": cost, "support": support, "slots": "equal"}
        found = FairCoreset(4, **settings, random_state=0).fit(*table)
        many = FairCoreset(4, **settings, random_state=0, n_init=6).fit(*table)
        assert found.proven_
        assert not many.proven_
        assert found.objective_ <= many.objective_ + 1e-9
        assert (np.diff(found.history_) <= 0).all()
        assert found.lower_bound_ == pytest.approx(found.objective_, abs=1e-9)


def test_too_many_coresets_and_free_points_are_not_compared() -> None:
    rng = np.random.default_rng(0)
    x, cell = rng.normal(size=(60, 2)), np.arange(60) % 4
    for support, m in (("rows", 12), ("free", 4)):
        problem = FairCoreset(m, support=support).problem(x, cell % 2, cell // 2)
        solver = Solver(problem, Effort(5, False, False, 1), 1)
        assert best_of_all(solver.steps, solver.from_name("random", rng)) is None
