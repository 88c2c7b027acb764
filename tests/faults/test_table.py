"""Every kind of fault once, through eval, again, rescore and report; `python -m evals.faults` does it all."""

from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.command import python
from tests.conftest import CHECKOUT
from tests.faults.decisions import decision_faults, shared_faults
from tests.faults.passage import FORMATS, KEY_VARIABLE, passage
from tests.faults.table import FAULTS, KEY, Fault
from tests.faults.targets import TARGETS, one_case

# The formats of decisions share a client: they take turns here, and evals.faults tries everything with both.
CASES = [
    *(("chat", fault) for fault in FAULTS),
    *(("decisions", fault) for fault in decision_faults("decisions")[::2]),
    *(("systemone", fault) for fault in decision_faults("systemone")[1::2]),
    *zip(cycle(("decisions", "systemone")), shared_faults()[::9], strict=False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("api", "fault"), CASES, ids=lambda value: getattr(value, "name", value)[:60])
def test_a_fault_once(api: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    # A report differs only where a reply does; all of them for all faults: evals.faults.
    formats = [FORMATS[len(fault.name) % len(FORMATS)]] if fault.kind == "harmless" else []
    assert passage(fault, False, tmp_path / "run", formats, api) == []


# --- Damaged inputs of every kind


_FEW = {"run_folder": 15, "evidence": 15, "table": 60, "parquet": 60, "decisions_csv": 60}  # slow


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damage_ends_in_a_refusal_at_worst(name: str) -> None:
    @settings(max_examples=_FEW.get(name, 200), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def damage(seed: int) -> None:
        one_case(name, seed)

    damage()


# --- The soak in short


@pytest.mark.slow
def test_runs_that_are_killed_live_and_by_batches_lose_and_repeat_nothing() -> None:
    asked = ("-m", "evals.soak", "--rows", 120, "--kills", 3)
    done = python(*asked, check=False, cwd=CHECKOUT, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("rows 40" in line and "lost 0, again 0, twice 0" in line for line in lines)
