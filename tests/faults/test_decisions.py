"""Faults of decision models' services, once each, through eval, again, rescore and report."""

from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.decisions import decision_faults, shared_faults
from tests.faults.passage import FORMATS, KEY_VARIABLE, passage
from tests.faults.table import KEY, Fault

APIS = ("decisions", "systemone")
# Both formats share the client: they take turns here, and evals.faults tries everything with both.
CASES = [
    *(("decisions", fault) for fault in decision_faults("decisions")[::2]),
    *(("systemone", fault) for fault in decision_faults("systemone")[1::2]),
    *zip(cycle(APIS), shared_faults()[::9], strict=False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("api", "fault"), CASES, ids=lambda value: getattr(value, "name", value)[:60])
def test_a_fault_once(api: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    formats = [FORMATS[len(fault.name) % len(FORMATS)]] if fault.kind == "harmless" else []
    assert passage(fault, False, tmp_path / "run", formats, api) == []
