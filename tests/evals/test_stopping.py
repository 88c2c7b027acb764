"""The simulation of stopping: both kinds of paths agree, and the cap is near a fixed sample."""

import numpy as np
import pytest

from evals.stopping import BOUND, MOST, WORLDS, World, assisted, inflation, path, rows
from fwc_llm.metrics.sequential import GroupSequential, equal_looks, simulate


def test_paths_of_counts_end_as_those_of_estimates() -> None:
    rng = np.random.default_rng(1)
    rates = (0.4, 0.6)
    asked, found = np.array(
        [path(World("", lambda rng: rows(rng, rates)), rng) for _ in range(60)]
    ).T
    counted, failed = simulate(
        rates, (1, 1), (BOUND, BOUND), GroupSequential(equal_looks(MOST)), 2_000
    )
    assert found.mean() > 0.9
    assert np.nanmean(failed) > 0.98
    assert asked.mean() == pytest.approx(counted.mean(), rel=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_wrong_stops_are_rare_with_every_option(world: World) -> None:
    rng = np.random.default_rng(2)
    found = np.array([path(world, rng)[1] for _ in range(200)])
    assert max(np.mean(found == 1), np.mean(found == 0)) <= 0.025 + 2.6 * np.sqrt(
        0.025 * 0.975 / 200
    )


@pytest.mark.parametrize("power", [0.5, 0.8, 0.9])
def test_the_most_that_is_asked_is_at_most_a_twentieth_more_than_a_fixed_sample(
    power: float,
) -> None:
    crossed, times = inflation(power, 50_000)
    assert crossed == pytest.approx(0.05, abs=0.003)
    assert 1.0 < times <= 1.05


@pytest.mark.slow
def test_the_package_learns_enough_to_stop_early() -> None:
    assert assisted(0.3, 4) | {"rows": 0} == {
        "paths": 4,
        "failed": 1,
        "passed": 0,
        "rows": 0,
    }
