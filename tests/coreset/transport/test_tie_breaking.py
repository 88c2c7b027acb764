"""Costs that tie: tilted to be solved, judged as they are."""

from typing import ClassVar

import numpy as np
import pytest

from fwc_llm.coreset.transport.column_generation import Columns, Scan, solve
from fwc_llm.coreset.transport.cost_table import CostTable
from fwc_llm.coreset.transport.fair import fair_transport
from fwc_llm.coreset.transport.parity import ParitySet
from fwc_llm.coreset.transport.tie_breaking import parts_of, slope_of

TARGET = np.array([0.3, 0.7])


def tied(kind: str, n: int, levels: int, seed: int = 0) -> np.ndarray:
    """Costs (n, 2 · levels) to the nearest of three points in each cell, plus what another cell costs."""
    rng = np.random.default_rng(seed)
    cells = 2 * levels
    cell = rng.choice(cells, n, p=rng.dirichlet(np.ones(cells)))  # many cells are small
    x = rng.integers(0, 3 if kind == "categories" else 7, (n, 5))
    points = x[rng.integers(0, n, (cells, 3))]
    apart = np.abs(x[:, None, None] - points) if kind != "categories" else x[:, None, None] != points
    cost = apart.sum(axis=-1).min(axis=-1).astype(float)
    cost += cell[:, None] // 2 != np.arange(cells) // 2
    cost += cell[:, None] % 2 != np.arange(cells) % 2
    cost[n // 2 :] = cost[: n - n // 2]  # duplicates
    return cost


@pytest.mark.parametrize("kind", ["categories", "numbers"])
@pytest.mark.parametrize("levels", [2, 16])
def test_whole_numbers_are_solved_exactly_cold_and_warm(kind: str, levels: int) -> None:
    cost = tied(kind, 6_000, levels)
    found = fair_transport(cost, levels, 2, TARGET, 0.01)
    plan = found.plan.toarray()
    assert (plan * cost).sum() == pytest.approx(found.objective, rel=1e-12)
    assert 0 <= found.objective - found.lower_bound <= 1e-9
    bound = (cost - found.prices).min(axis=1).mean() + ParitySet(TARGET, 0.01, levels).best(found.prices)[0]
    assert bound == pytest.approx(found.objective, abs=1e-9)  # of the costs as they are
    assert found.violation <= 0.01 + 1e-9
    assert len(found.split_row) < 2 * levels
    moved = cost.copy()
    moved[:, 0] += 1
    cold = fair_transport(moved, levels, 2, TARGET, 0.01)
    warm = fair_transport(moved, levels, 2, TARGET, 0.01, prices=found.prices)
    assert warm.objective == pytest.approx(cold.objective, abs=1e-9)


def test_the_tilt_leaves_few_rows_in_doubt() -> None:
    cost = tied("numbers", 40_000, 8)
    slope = slope_of(cost)
    assert slope is not None
    fair = ParitySet(TARGET, 0.01, 8)
    tilted = CostTable(cost, slope)
    vertex = solve(tilted, np.zeros(16), fair, 1e-12).vertex
    plain = CostTable(cost).scan(vertex.untilted, 1e-9)
    assert len(tilted.scan(vertex.prices, 1e-9).doubt) < 32 < len(plain.doubt) / 20
    judged = tilted.judge(solve(tilted, np.zeros(16), fair, 1e-12))
    assert judged.cost - judged.bound == pytest.approx(40_000 * fair.best(vertex.untilted)[0], abs=1e-5)


class Counted(CostTable):
    """A table that counts the rows that it hands out."""

    rows: ClassVar[list[int]] = []

    def sample(self, count: int) -> Columns:
        found = super().sample(count)
        self.rows.append(found.size)
        return found

    def scan(self, prices: np.ndarray, margin: float) -> Scan:
        found = super().scan(prices, margin)
        self.rows.append(found.rows.size)
        return found


@pytest.mark.parametrize("levels", [2, 8])
def test_an_earlier_start_knows_which_rows_tie_where(levels: int) -> None:
    cost, cells = tied("numbers", 40_000, levels), 2 * levels
    start = fair_transport(cost, levels, 2, TARGET, 0.01).start
    assert start is not None
    assert start.slope is not None
    assert start.tilted is not None
    some = np.random.default_rng(1).choice(40_000, 800, replace=False)
    cost[some] = cost[some[::-1]] + 1.0
    fair = ParitySet(TARGET, 0.01, levels)
    read = []
    for prices, warm, tilted in (
        (np.zeros(cells), False, False),
        (start.prices, True, False),
        (start.tilted, True, True),
    ):
        Counted.rows.clear()
        table = Counted(cost, start.slope)
        solve(table, prices, fair, 1e-12, warm, tilted=tilted)
        read.append(sum(table.rows))
    assert read[2] < min(read[:2]) / 3
    found = [fair_transport(cost, levels, 2, TARGET, 0.01, prices) for prices in (None, start, start.prices)]
    for one in found:
        assert one.objective == pytest.approx(found[0].objective, abs=1e-9)
        assert 0 <= one.objective - one.lower_bound <= 1e-9
    # Of other costs, whose tilt would be another: no harm.
    other = fair_transport(1000 * cost[:5000], levels, 2, TARGET, 0.01, start)
    assert other.objective == pytest.approx(
        fair_transport(1000 * cost[:5000], levels, 2, TARGET, 0.01).objective, rel=1e-11
    )


def test_only_costs_that_tie_are_tilted() -> None:
    rng = np.random.default_rng(0)
    assert slope_of(rng.random((5000, 6))) is None
    assert slope_of(np.ones((5000, 6))) is None
    assert slope_of(np.full((5000, 1), 3.0)) is None
    whole = rng.integers(0, 9, (5000, 6)).astype(np.float32)
    slope = slope_of(whole)
    assert slope is not None
    assert 0 < slope.max() <= 1e-5
    whole[:, 2] = np.inf
    assert slope_of(whole) is not None
    parts = parts_of(np.arange(100_000))
    assert parts.min() >= 0
    assert parts.max() < 1
    assert len(np.unique(parts)) == 100_000
