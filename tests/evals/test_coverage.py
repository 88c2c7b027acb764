"""The simulation: every pair of options is drawn or refused, it sees what is wrong, and the audit
passes it.
"""

from itertools import combinations

import numpy as np
import pytest

from evals.coverage.__main__ import run
from evals.coverage.measure import Count, Truth, count
from evals.coverage.worlds import World, worlds
from fwc_llm.metrics.adverse_impact import BELOW
from fwc_llm.metrics.intervals import DIFFERS, EQUAL
from fwc_llm.metrics.records import READ, Record
from fwc_llm.metrics.sampling_design import OPTIONS, REFUSED, UNREAD

WORLDS = {world.name: world for world in worlds()}


def test_every_pair_of_options_is_simulated_or_refused() -> None:
    simulated = {
        frozenset(pair)
        for world in WORLDS.values()
        for pair in combinations(world.options, 2)
    }
    assert simulated == set(map(frozenset, combinations(OPTIONS, 2))) - REFUSED


def test_the_truth_is_what_the_chances_of_a_world_give() -> None:
    yes = (((0.2, 0.6), (0.4, 0.8)), ((0.35, 0.75), (0.3, 0.7)))
    world = World("two", yes=yes, options=frozenset([UNREAD]))
    truth = Truth.of(world)
    rates = [0.7 * 0.2 + 0.3 * 0.6, 0.5 * (0.4 + 0.8)]
    lost = [0.1 * (1 - rates[0]), 0.1 * rates[1]]
    of_read = (1 - 0.1) * rates[1] / (1 - lost[1])
    expected = {
        Record("first", metric="dp_gap"): rates[1] - rates[0],
        Record("first", group="a", metric="selection_rate"): rates[0],
        Record("first", group="b", metric="refused", scope=READ): lost[1],
        Record("first", group="b", metric="selection_rate", scope=READ): of_read,
    }
    for record, value in expected.items():
        assert truth.about(record) == pytest.approx(value, abs=0.002), record


@pytest.mark.parametrize(
    ("value", "verdict", "truth", "expected"),
    [
        (0.2, DIFFERS, 0.2, (0, 0)),
        (0.2, DIFFERS, 0.0, (1, 1)),
        (0.2, DIFFERS, -0.2, (1, 1)),
        (0.0, EQUAL, 0.2, (1, 1)),
        (0.0, EQUAL, 0.0, (0, 0)),
        (0.7, BELOW, 0.9, (1, 1)),
    ],
)
def test_a_missed_truth_and_a_false_verdict_are_counted(
    value: float, verdict: str, truth: float, expected: tuple[int, int]
) -> None:
    ends = {"low": value - 0.1, "high": value + 0.1}
    counted = count(Record("dp_gap", value=value, **ends, verdict=verdict), truth)
    assert (counted.missed, counted.false) == expected
    assert (counted.given, counted.told) == (1, 1)


def test_a_cell_is_accepted_up_to_the_error_of_its_draws() -> None:
    missed = np.random.default_rng(0).random(400) < 0.09
    alone = Count(400, 400, int(missed.sum()), int(missed.sum()))
    assert alone.accepted  # 0.91, nearly 0.93
    assert not Count(4000, 4000, 360, 360).accepted
    assert Count(400, 4000, 360, 3600).accepted  # ten at once: as uncertain as one
    assert not Count(4000, 4000, told=4000, false=400, false_squares=400).accepted


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "real gaps",
        "cluster",
        "base parity × repeats × weight",
        "base parity × examples drawn anew × assist",
        "a model that says no to all",
    ],
)
def test_the_short_version_is_accepted(name: str) -> None:
    found = run([WORLDS[name]], 40, 1, 1)
    total = sum(found[name].values(), Count())
    assert total.given > 800
    assert total.coverage > 0.92
    assert total.error < 0.07
