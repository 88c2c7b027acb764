"""Many questions to a decision model's service that misbehaves on a schedule: each is accounted for."""

import asyncio
from pathlib import Path

import pytest

from fwc_llm.models import Message
from fwc_llm.models.decisions import DecisionModel
from fwc_llm.runs.execute import Outcome, execute
from fwc_llm.runs.journal import Call, Journal
from tests.faults.loopback import serve
from tests.faults.server import FaultyService


def question(number: int) -> Call:
    messages: list[Message] = [
        {"role": "system", "content": "Look at the record."},
        {"role": "user", "content": f"Person {number}"},
        {"role": "question", "content": "Does this person earn more than 50K?"},
        {"role": "question", "content": "Does this person earn less?", "name": "negation"},
    ]
    return Call("zero", 0, f"test:{number}", "", messages)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["decisions", "systemone"])
def test_every_request_to_a_service_that_misbehaves_is_accounted_for(api: str, tmp_path: Path) -> None:
    service, n = FaultyService(seed=8), 150

    async def run() -> Outcome:
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
