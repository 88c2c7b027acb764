"""A service that fails in every way known to us: every row is accounted for, every answer kept once."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.runs.execute import Outcome, execute
from fwc_llm.runs.journal import Call, Journal
from tests.faults.loopback import serve
from tests.faults.server import FaultyService, conversation_key

pytestmark = pytest.mark.slow

KEY = "sk-planted-0123456789abcdefghij"


def question(number: int) -> Call:
    messages = [
        {"role": "system", "content": "Answer yes or no."},
        {"role": "user", "content": f"Person {number}: does this person earn more than 50K?"},
    ]
    return Call("zero", 0, f"test:{number}", "", messages)


async def run(service: FaultyService, folder: Path, n: int) -> Outcome:
    async with serve(service) as url:
        model = ChatModel(
            "test-model", base_url=f"{url}/v1", api_key_env="PLANTED_KEY",
            concurrency=64, timeout=3.0, deadline=280.0, backoff=0.01,
        )  # fmt: skip
        with Journal(folder) as journal:
            return await execute(model, (question(i) for i in range(n)), journal, concurrency=64, total=n)


def test_5000_requests_are_all_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    service, n = FaultyService(seed=1), 5000
    outcome = asyncio.run(run(service, tmp_path, n))

    keys = {f"test:{i}": conversation_key(question(i).messages) for i in range(n)}
    refused = {row for row, key in keys.items() if service.refused_for_good(key)}
    with Journal(tmp_path) as journal:
        records = list(journal.records())
    answered = Counter(record["row"] for record in records if record["text"] is not None)
    failed = {record["row"] for record in records if record["text"] is None}

    assert len(service.faults) == 16, "every kind of fault happened"
    assert set(answered) | failed == set(keys)
    assert failed == refused
    assert set(answered.values()) == {1}
    assert (outcome.done, outcome.errors, outcome.skipped) == (n - len(refused), len(refused), 0)
    for record in records:
        if record["text"] is not None:
            message = service.answer(keys[record["row"]])["choices"][0]["message"]
            assert record["text"] == (message.get("refusal") or message["content"])

    sent = Counter(service.sent)
    again = asyncio.run(run(service, tmp_path, n))
    assert {key for key in sent if service.sent[key] > sent[key]} == {keys[row] for row in refused}
    assert (again.done, again.errors, again.skipped) == (0, len(refused), n - len(refused))
    assert KEY not in (tmp_path / "journal.jsonl").read_text()
    assert json.dumps(outcome.unanswered).count("context length") > 0
