"""Masses from a few nearest rows, against those from all of them."""

import numpy as np
import pytest

from fwc_llm.coreset.fairwasp import weighing
from fwc_llm.coreset.fairwasp.nearest import NearestRows
from fwc_llm.coreset.fairwasp.weighing import weigh
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import between_cells, cost_matrix
from fwc_llm.coreset.transport.fair import fair_transport
from fwc_llm.coreset.transport.parity import violation


@pytest.mark.parametrize("doubt", [3.0, 0.01], ids=["usual margin", "too small a margin"])
@pytest.mark.parametrize("kind", ["numbers", "whole numbers", "copies", "one of a cell"])
@pytest.mark.parametrize("cost", ["l1", "sqeuclidean"])
def test_lower_bounds_lead_to_the_same_optimum(
    cost: str, kind: str, doubt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weighing, "SAMPLE", 60)
    monkeypatch.setattr(weighing, "DOUBT", doubt)
    n = 900
    for seed in range(4):
        rng = np.random.default_rng(seed)
        d = rng.integers(0, 3, n)
        y = (d + 2 * rng.standard_normal(n) > 1).astype(int)
        x = rng.standard_normal((n, 4)) + 0.5 * d[:, None]
        if kind == "whole numbers":
            x = np.round(x)
        elif kind == "copies":
            x = x[rng.integers(0, 40, n)]
        elif kind == "one of a cell":
            y[d == 2] = 0
            y[np.flatnonzero(d == 2)[5]] = 1
        table, cells = Table(x, np.zeros((n, 0), int)), find_cells(y, d, n)
        move = between_cells(cells, [1.0, 0.0][seed % 2], 0.3)
        target = np.array([0.6, 0.4])
        full = cost_matrix(table, table, cost)
        costs = np.stack([full[:, cells.cell == g].min(axis=1) for g in range(6)], axis=1)
        expected = fair_transport(costs + move[cells.cell], 3, 2, target, 0.02)
        found = weigh(NearestRows(table, cells, cost), cells, move, target, 0.02)
        assert found.plan.objective == pytest.approx(expected.objective, rel=1e-9)
        assert found.plan.lower_bound == pytest.approx(expected.objective, rel=1e-9)
        weights = found.weights()
        assert violation(np.bincount(cells.cell, weights, 6), target) <= 0.02 + 1e-9
        assert weights.sum() == pytest.approx(n)


class Counting(NearestRows):
    asked = 0

    def search(self, g, rows, reach, report=None):  # type: ignore[no-untyped-def]
        self.asked += len(rows)
        return super().search(g, rows, reach, report)


def test_few_costs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "SAMPLE", 60)
    rng = np.random.default_rng(0)
    n = 2500
    x, d = rng.standard_normal((n, 3)), rng.integers(0, 2, n)
    y = (x[:, 0] + d + rng.standard_normal(n) > 1).astype(int)
    cells = find_cells(y, d, n)
    search = Counting(Table(x, np.zeros((n, 0), int)), cells, "l1")
    weigh(search, cells, between_cells(cells, 1.0, 1.0), np.array([0.5, 0.5]), 0.0)
    assert n / 2 < search.asked < 0.5 * 3 * n
