"""The inner problem again and again: the plans of the long way, by the short one where it is certain."""

from collections.abc import Callable

import numpy as np
import pytest

from fwc_llm.coreset.transport.fair import Transport, fair_transport
from fwc_llm.coreset.transport.warm_start import Repeated
from fwc_llm.coreset.weights import read_weights

Long = Callable[[np.ndarray, np.ndarray], Transport]


def run(
    costs: list[np.ndarray],
    levels: int,
    target: list[float],
    epsilon: float,
    weights: np.ndarray | None = None,
) -> int:
    """Solve one cost table after another, both ways; how often the short way found the plan."""
    masses = read_weights(weights, len(costs[0]))
    again = Repeated(levels, np.array(target), epsilon, masses)
    prices, short = np.zeros(costs[0].shape[1]), 0
    for cost in costs:
        long: list[Transport] = []

        def solve(cost: np.ndarray, prices: np.ndarray, long: list[Transport] = long) -> Transport:
            long.append(
                fair_transport(cost, levels, len(target), target, epsilon, prices, sample_weight=masses)
            )
            return long[-1]

        found = again.solve(cost, prices, solve)
        short += not long
        expected = long[0] if long else solve(cost, prices)
        # Of equal parts of a row, either may be the one that `cell` names.
        np.testing.assert_allclose(found.plan.toarray(), expected.plan.toarray(), atol=1e-9)
        assert found.objective == pytest.approx(expected.objective, rel=1e-11)
        assert 0 <= found.objective - found.lower_bound <= 1e-10 * abs(found.objective)
        assert found.violation <= epsilon + 1e-9
        np.testing.assert_allclose(found.plan.sum(axis=0), found.mass, atol=1e-9)
        prices = found.prices
    return short


def drifting(n: int, cells: int, count: int, seed: int = 0) -> list[np.ndarray]:
    """Costs that change by a hundredth from one to the next."""
    rng = np.random.default_rng(seed)
    first = rng.gamma(2.0, size=(n, cells)) + rng.random(cells)
    return [(first + 0.01 * k * rng.random((n, cells))).astype(np.float32) for k in range(count)]


@pytest.mark.parametrize(
    ("n", "levels", "target", "epsilon"),
    [
        (9000, 2, [0.3, 0.7], 0.01),
        (700, 2, [0.5, 0.5], 0.0),
        (60, 3, [0.2, 0.3, 0.5], 0.1),
        (3000, 6, [0.9, 0.1], 1e-6),
        (13, 2, [0.5, 0.5], 0.2),
    ],
)
def test_the_short_way_finds_the_same_plans(n: int, levels: int, target: list[float], epsilon: float) -> None:
    assert run(drifting(n, levels * len(target), 6), levels, target, epsilon) >= 4


def test_rows_of_any_mass_are_moved_whole_or_split_alike() -> None:
    weights = np.random.default_rng(1).lognormal(0, 3, 2000)
    assert run(drifting(2000, 4, 6), 2, [0.4, 0.6], 0.01, weights) >= 4


def test_prices_that_moved_far_and_lost_cells_do_no_harm() -> None:
    costs = drifting(6000, 4, 3)
    far = costs[0] + np.array([5, 0, 0, 9], np.float32)
    lost = costs[2].copy()
    lost[:, 0] = np.inf  # the first level can carry no mass
    run([*costs, far, costs[1], lost, lost, costs[2]], 2, [0.5, 0.5], 0.01)
    run(drifting(1, 4, 3), 2, [0.5, 0.5], 0.2)
