"""FairWASP against full n × n linear programs."""

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from evals.paper.fairwasp_weights import FairWASP, nearest_rows
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from tests.coreset.programs import full_program, violation_of


def rows(
    n: int, seed: int, ties: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sensitive = np.where(rng.random(n) < 0.4, "a", "b")
    x = rng.standard_normal((n, 3)) + (sensitive == "a")[:, None] * [0.8, 0, 0]
    y = (x[:, 0] + rng.standard_normal(n) > 0.5).astype(int)
    return (np.round(x) if ties else x), y, sensitive


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(
    ("cost", "metric"), [("l1", "cityblock"), ("sqeuclidean", "sqeuclidean")]
)
def test_equals_the_full_linear_program(
    cost: str, metric: str, epsilon: float, ties: bool
) -> None:
    x, y, sensitive = rows(34, 3, ties)
    n = len(x)
    cell = 2 * (sensitive == "b") + y
    full = cdist(x, x, metric) + (y[:, None] != y) + (sensitive[:, None] != sensitive)
    target = np.bincount(y) / n
    model = FairWASP(epsilon=epsilon, cost=cost).fit(x, y, sensitive)
    assert model.objective_ == pytest.approx(
        full_program(full, cell, 2, target, epsilon), abs=1e-9
    )
    assert model.objective_ == pytest.approx(model.lower_bound_, abs=1e-9)
    assert model.weights_.shape == (n,)
    assert (model.weights_ >= 0).all()
    assert model.weights_.sum() == pytest.approx(n, abs=1e-9)
    assert violation_of(np.bincount(cell, model.weights_), target) <= epsilon + 1e-9
    # The weights themselves are as far from the rows as the objective says.
    apart = ot.emd2(np.full(n, 1 / n), model.weights_ / model.weights_.sum(), full)
    assert apart == pytest.approx(model.objective_, abs=1e-9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_numeric", [0, 2, 5])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_finds_the_nearest_row_of_every_cell(
    cost: str, n_numeric: int, ties: bool
) -> None:
    rng = np.random.default_rng(n_numeric)
    n = 700
    numbers = rng.standard_normal((n, n_numeric))
    codes = rng.integers(0, 3, (n, 5 - n_numeric))
    rows = EncodedTable(np.round(numbers) if ties else numbers, codes)
    cells = find_cells(rng.integers(0, 2, n), rng.integers(0, 2, n), n)
    costs = cost_matrix(rows, rows, cost)
    least, nearest = nearest_rows(rows, cells, cost, lambda words: None)
    for g in range(cells.n_cells):
        asked = np.flatnonzero(cells.cell != g)
        exact = costs[asked][:, cells.cell == g].min(axis=1)
        np.testing.assert_allclose(least[asked, g], exact, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            costs[asked, nearest[asked, g]], exact, rtol=1e-12, atol=1e-12
        )
        assert (cells.cell[nearest[:, g]] == g).all()
        assert (nearest[cells.cell == g, g] == np.flatnonzero(cells.cell == g)).all()
