"""Every kind of fault once, through eval, again, rescore and report; `python -m evals.faults`
does it all.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.models.recorded import FILE_NAME, read_records
from tests.conftest import CHECKOUT
from tests.faults.decisions import decision_faults, shared_faults
from tests.faults.loopback import Service, serve_in_thread
from tests.faults.passage import FORMATS, KEY_VARIABLE, N, passage
from tests.faults.table import FAULTS, KEY, Fault
from tests.faults.targets import TARGETS, one_case
from tests.people import make_people, write_people

# Of a kind so many stand at the beginning of one run; `evals.faults` takes each alone.
TOGETHER = {"harmless": N, "attempt": 4, "unclear": 4, "row": N, "run": 1}


def together(api: str, faults: Iterable[Fault]) -> Iterator[tuple[str, list[Fault]]]:
    """The faults of an address, as many of a kind as one run can meet."""
    for kind, size in TOGETHER.items():
        of_kind = [fault for fault in faults if fault.kind == kind]
        for first in range(0, len(of_kind), size):
            yield api, of_kind[first : first + size]


# The formats of decisions share a client: they take turns here, and evals.faults tries everything
# with both.
CASES = [
    *together("chat", FAULTS),
    *together("decisions", decision_faults("decisions")[::2]),
    *together("systemone", decision_faults("systemone")[1::2]),
    *together("decisions", shared_faults()[::18]),
    *together("systemone", shared_faults()[9::18]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "faults"),
    CASES,
    ids=lambda given: given if isinstance(given, str) else given[0].name[:60],
)
def test_faults_of_a_kind_once(
    api: str, faults: list[Fault], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    # A report differs only where a reply does.
    formats = FORMATS if faults[0].kind == "harmless" else ()
    assert passage(faults, False, out, formats, api) == []


# --- Damaged inputs of every kind


_FEW = {"run_folder": 30, "table": 60}  # slow


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damage_ends_in_a_refusal_at_worst(name: str) -> None:
    @settings(max_examples=_FEW.get(name, 200))
    @given(st.integers(0, 2**32))
    def damage(seed: int) -> None:
        one_case(name, seed)

    damage()


# --- Killed runs


@pytest.mark.slow
def test_a_run_that_is_killed_loses_and_repeats_nothing(
    tmp_path: Path, out: Path
) -> None:
    service = Service(lambda body: "Yes")
    task = write_people(tmp_path, make_people(400, 2))
    words = f"eval --task {task} --model m --shots zero --n-test 80 --concurrency 8"
    with serve_in_thread(service) as url:
        command = [sys.executable, "-m", "fwc_llm", *words.split()]
        command += ["--out", str(out), "--base-url", f"{url}/v1"]
        for answered in (10, 50):
            asked = len(service.bodies)
            with subprocess.Popen(
                command, cwd=CHECKOUT, stderr=subprocess.DEVNULL
            ) as process:
                while process.poll() is None and len(service.bodies) < max(
                    answered, asked + 1
                ):
                    time.sleep(0.001)
                process.kill()
        done = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True)
        assert done.returncode == 0
    rows = [
        row["row"] for row in read_records(out / FILE_NAME) if row["text"] is not None
    ]
    assert len(rows) == len(set(rows)) == 80
    assert len(service.bodies) <= 80 + 2 * 8, (
        "what is under way is asked again, and nothing else"
    )
