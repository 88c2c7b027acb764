"""Every kind of fault once, through eval, again, rescore and report; `python -m evals.faults` does it all."""

import asyncio
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fwc_llm.models import Message
from fwc_llm.models.decisions import DecisionModel
from fwc_llm.runs.execute import ExecutionSummary, execute
from fwc_llm.runs.journal import Journal, PlannedCall
from tests.command import python
from tests.conftest import CHECKOUT
from tests.faults.decisions import decision_faults, shared_faults
from tests.faults.loopback import serve
from tests.faults.passage import FORMATS, KEY_VARIABLE, passage
from tests.faults.server import FaultyService
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


# --- Many questions to a decision model's service that misbehaves on a schedule


def question(number: int) -> PlannedCall:
    messages: list[Message] = [
        {"role": "user", "content": f"Person {number}"},
        {"role": "question", "content": "Does this person earn more than 50K?"},
        {"role": "question", "content": "Does this person earn less?", "name": "negation"},
    ]
    return PlannedCall("zero", 0, f"test:{number}", "", messages)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_every_request_to_a_service_that_misbehaves_is_accounted_for(api: str, tmp_path: Path) -> None:
    service, n = FaultyService(seed=8), 150

    async def run() -> ExecutionSummary:
        async with serve(service) as url:
            model = DecisionModel(
                "test-model", api=api, base_url=f"{url}/v1", concurrency=16, timeout=3.0, deadline=280.0,
                backoff=0.01,
            )  # fmt: skip
            with Journal(tmp_path) as journal:
                return await execute(model, map(question, range(n)), journal, concurrency=16, total=n)

    outcome = asyncio.run(run())
    refused = sum(service.refused_for_good(content) is not None for content in service.sent)
    assert (outcome.done, outcome.errors) == (n - refused, refused)
    assert refused > 0
    assert set(service.answered.values()) == {1}
    assert len(service.faults) > 12
    with Journal(tmp_path) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    assert {(record["p_yes"], record["text"]) for record in records} == {(0.83, "yes"), (0.21, "no")}
    assert all(record["others"] == {"negation": record["p_yes"]} for record in records)


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
