"""Damaged inputs of every kind; `python -m evals.fuzz --minutes N` goes on where this stops."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.targets import TARGETS, one_case

_FEW = {"run_folder": 15, "arguments": 40, "taskfile": 60, "table": 60}  # what takes milliseconds a case


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damage_ends_in_a_refusal_at_worst(name: str) -> None:
    @settings(max_examples=_FEW.get(name, 200), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def damage(seed: int) -> None:
        one_case(name, seed)

    damage()
