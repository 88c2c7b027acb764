"""The simulation: every pair of options is drawn or refused, it sees what is wrong, and the audit
passes it.
"""

import pytest

from evals.coverage.__main__ import run
from evals.coverage.measure import Count, count
from evals.coverage.worlds import worlds
from fwc_llm.metrics.intervals import DIFFERS, EQUAL
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.sampling_design import OPTIONS, REFUSED

WORLDS = {world.name: world for world in worlds()}


def test_every_pair_of_options_is_simulated_or_refused() -> None:
    pairs = [world for world in WORLDS.values() if len(world.options) == 2]
    assert len(pairs) + len(REFUSED) == len(OPTIONS) * (len(OPTIONS) - 1) / 2


@pytest.mark.parametrize(
    ("value", "verdict", "truth", "expected"),
    [
        (0.2, DIFFERS, 0.2, (1, 0)),
        (0.2, DIFFERS, 0.0, (0, 1)),
        (0.2, DIFFERS, -0.2, (0, 1)),
        (0.0, EQUAL, 0.2, (0, 1)),
        (0.0, EQUAL, 0.0, (1, 0)),
    ],
)
def test_a_missed_truth_and_a_false_verdict_are_counted(
    value: float, verdict: str, truth: float, expected: tuple[int, int]
) -> None:
    counted = Count()
    record = Record(
        "dp_gap", value=value, low=value - 0.1, high=value + 0.1, verdict=verdict
    )
    count(counted, record, Record("dp_gap", value=truth))
    assert (counted.covered, counted.false) == expected
    assert (counted.given, counted.null) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real gaps", "cluster", "base parity × repeats"])
def test_the_short_version_is_accepted(name: str) -> None:
    found = run([WORLDS[name]], 40, 1, 1)
    total = sum(found[name].values(), Count())
    assert total.given > 1000
    assert total.coverage > 0.92
    assert total.error < 0.07
