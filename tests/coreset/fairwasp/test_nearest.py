"""The search for nearest rows, with numpy and compiled, against all costs."""

import warnings

import numpy as np
import pytest

from fwc_llm.coreset.fairwasp import nearest
from fwc_llm.coreset.fairwasp.nearest import NearestRows
from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import cost_matrix

N = 700


def table(n_numeric: int, ties: bool, scale: float = 1.0) -> tuple[Table, Cells]:
    rng = np.random.default_rng(n_numeric)
    numbers = rng.standard_normal((N, n_numeric)) * scale
    numbers[:3, :1] = 1e7 * scale  # outliers cost float32 its digits
    codes = rng.integers(0, 3, (N, 0 if scale != 1 else 5 - n_numeric))
    return Table(np.round(numbers) if ties else numbers, codes), find_cells(
        rng.integers(0, 2, N), rng.integers(0, 2, N), N
    )


@pytest.fixture(params=[np.inf, 0], ids=["numpy", "compiled"])
def from_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "COMPILED", request.param)


@pytest.mark.usefixtures("from_size")
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_numeric", [0, 2, 5])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_finds_the_nearest_row_below_the_reach(cost: str, n_numeric: int, ties: bool) -> None:
    rows, cells = table(n_numeric, ties)
    costs = cost_matrix(rows, rows, cost)
    search = NearestRows(rows, cells, cost)
    rng = np.random.default_rng(5)
    for g in range(cells.n_cells):
        asked = rng.permutation(np.flatnonzero(cells.cell != g))
        least = costs[asked][:, cells.cell == g].min(axis=1)
        for reach in (np.full(len(asked), np.inf), least * rng.choice([0.5, 1, 1.5], len(asked))):
            best, row = search.search(g, asked, reach)
            found = row >= 0
            assert (found | (least >= reach)).all()
            np.testing.assert_allclose(best[found], least[found], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(costs[asked[found], row[found]], best[found], rtol=1e-12, atol=1e-12)
            assert (cells.cell[row[found]] == g).all()
            assert (best[~found] >= reach[~found]).all()
            assert (best[~found] <= least[~found] * (1 + 1e-12)).all()


@pytest.mark.usefixtures("from_size")
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e290])
def test_float32_need_not_hold_the_numbers(scale: float) -> None:
    rows, cells = table(5, False, scale)
    asked = np.flatnonzero(cells.cell != 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best, _ = NearestRows(rows, cells, "l1").search(0, asked, np.full(len(asked), np.inf))
    least = cost_matrix(rows.take(asked), rows.take(cells.cell == 0), "l1").min(axis=1)
    np.testing.assert_allclose(best, least, rtol=1e-12)
