"""Every kind of fault once, through eval, again, rescore and report; `python -m evals.faults` does it all."""

from pathlib import Path

import pytest

from tests.faults.passage import FORMATS, KEY_VARIABLE, passage
from tests.faults.table import FAULTS, KEY, Fault


def test_there_are_enough_faults_each_with_a_name() -> None:
    assert len(FAULTS) >= 100
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name[:60])
def test_a_fault_once(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    # A report differs only where a reply does; all of them for all faults: evals.faults.
    formats = [FORMATS[FAULTS.index(fault) % len(FORMATS)]] if fault.kind == "harmless" else []
    assert passage(fault, lasting=False, folder=tmp_path / "run", formats=formats) == []
