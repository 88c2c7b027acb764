"""The Batch API over HTTP: every step may be the last of a process, and no request is worked on twice."""

import asyncio
import json
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import FwcError, ProviderError, StorageError
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.prices import price_of
from fwc_llm.models.tokens import TokenCounter
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.batch import batches_under_way, run_batch
from fwc_llm.runs.budget import Budget
from fwc_llm.runs.execute import Outcome, execute
from fwc_llm.runs.journal import Call, Journal, call_id, parameters_json
from tests.faults.batch_service import BatchService, answer_of
from tests.faults.loopback import HttpReply, refusal, serve

N = 23


def calls(n: int = N) -> list[Call]:
    return [
        Call("zero", 0, f"test:{i}", "", [{"role": "user", "content": "x" * i + " <|endoftext|> é\u2028"}])
        for i in range(n)
    ]


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten requests a file, so that 23 make three."""
    monkeypatch.setattr(batch_module, "MOST_REQUESTS", 10)


async def run(service: BatchService, folder: Path, then_live: bool = False, **options: Any) -> Outcome | None:
    async with serve(service) as url:
        model = ChatModel("test-model", base_url=f"{url}/v1", backoff=0.001)
        with Journal(folder) as journal:
            await run_batch(model, calls(), journal, folder, poll_seconds=0.0, backoff=0.001, **options)
            return await execute(model, calls(), journal) if then_live else None


def answers(folder: Path) -> dict[str, str]:
    with Journal(folder) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    assert len({record["row"] for record in records}) == len(records), (
        "each answered request is journaled once"
    )
    return {record["row"]: record["text"] for record in records}


def expected() -> dict[str, str]:
    return {call.row: answer_of(call.messages) for call in calls()}


def test_replies_are_joined_to_their_questions(tmp_path: Path) -> None:
    service, seen = BatchService(), []
    asyncio.run(run(service, tmp_path, progress=seen.append))
    assert answers(tmp_path) == expected()
    with Journal(tmp_path) as journal:
        assert journal.batch_usage.prompt_tokens == 100 * N
    assert len(service.batches) == 3
    assert (seen[-1].done, seen[-1].total) == (N, N)


def test_files_are_split_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "MOST_BYTES", 1000)
    service = BatchService()
    asyncio.run(run(service, tmp_path))
    inputs = [service.files[each["input_file_id"]] for each in service.batches.values()]
    assert max(map(len, inputs)) <= 1000
    assert len(inputs) > 3
    assert answers(tmp_path) == expected()


def test_failures_are_left_to_be_asked_live(tmp_path: Path) -> None:
    service = BatchService(fails=lambda number: number % 5 == 0)
    asyncio.run(run(service, tmp_path))
    assert len(answers(tmp_path)) == 18
    live = asyncio.run(run(service, tmp_path, then_live=True))
    assert live == Outcome(5, 0, 18)
    assert service.live.total() == 5
    assert set(answers(tmp_path)) == set(expected())


def test_an_expired_batch_keeps_what_it_answered(tmp_path: Path) -> None:
    service = BatchService(fails=lambda number: number > 6, ends_as="expired")
    asyncio.run(run(service, tmp_path))
    assert len(answers(tmp_path)) == 17
    assert answers(tmp_path).items() <= expected().items()


def steps_of_a_whole_run(folder: Path) -> int:
    service = BatchService(fails=lambda number: number == 3)
    asyncio.run(run(service, folder))
    return service.steps


@pytest.mark.slow
def test_passing_failures_of_the_service_are_waited_out(tmp_path: Path) -> None:
    whole = steps_of_a_whole_run(tmp_path)
    for step in range(1, whole + 1):
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        service = BatchService()
        service.broken = {step: HttpReply("<html>bad gateway</html>", 502)}
        asyncio.run(run(service, folder))
        assert set(service.worked.values()) == {1}, f"step {step} failed after it took effect"
        assert answers(folder) == expected()


@pytest.mark.slow
def test_a_refused_batch_stops_and_can_be_submitted_again(tmp_path: Path) -> None:
    service = BatchService(ends_as="failed")
    with pytest.raises(ProviderError, match="enqueued token limit"):
        asyncio.run(run(service, tmp_path))
    service.ends_as = "completed"
    asyncio.run(run(service, tmp_path))
    assert answers(tmp_path) == expected()


def test_answered_requests_are_not_batched(tmp_path: Path) -> None:
    service = BatchService()

    async def some_live_first() -> None:
        async with serve(service) as url:
            model = ChatModel("test-model", base_url=f"{url}/v1")
            with Journal(tmp_path) as journal:
                await execute(model, calls()[:4], journal)
                await run_batch(model, calls(), journal, tmp_path, poll_seconds=0.0)

    asyncio.run(some_live_first())
    assert len(answers(tmp_path)) == N
    assert service.worked.total() == N - 4


def test_the_cost_limit_holds_for_batches(tmp_path: Path) -> None:
    service = BatchService()

    async def go() -> Outcome:
        async with serve(service) as url:
            model = ChatModel("gpt-4", base_url=f"{url}/v1")
            price, counter = price_of("gpt-4"), TokenCounter("unknown", fetch=False)
            one = Budget(model, price, 1.0, counter).worst_case(calls()[0].messages, batch=True)
            with Journal(tmp_path) as journal:
                budget = Budget(model, price, 5.0 * one, counter)
                await run_batch(model, calls(), journal, tmp_path, poll_seconds=0.0, budget=budget)
                return await execute(model, calls(), journal, budget=budget)

    outcome = asyncio.run(go())
    assert 0 < service.worked.total() <= 5
    assert outcome.stopped is not None
    assert "--max-cost" in outcome.stopped


def test_a_service_without_a_batch_api_is_named_as_such(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with serve(lambda request: refusal(404, f"Invalid URL ({request.path})")) as url:
            model = ChatModel("test-model", base_url=f"{url}/v1")
            with Journal(tmp_path) as journal:
                await run_batch(model, calls(), journal, tmp_path)

    with pytest.raises(ProviderError, match=r"no Batch API.*Invalid URL.*without --batch"):
        asyncio.run(attempt())


def test_a_refused_batch_is_not_taken_for_a_rejected_key(tmp_path: Path) -> None:
    service = BatchService()
    service.broken[1] = refusal(400, "Invalid file format for Batch API")
    with pytest.raises(ProviderError, match=r"refuses this.*Invalid file format"):
        asyncio.run(run(service, tmp_path))


def interrupt(service: BatchService, folder: Path, step: int) -> None:
    """Begin a batch run and stop it after so many requests."""

    async def go() -> None:
        task = asyncio.ensure_future(run(service, folder))
        service.on_step = lambda now: task.cancel() if now == step else None
        with pytest.raises(asyncio.CancelledError):
            await task
        service.on_step = lambda now: None

    asyncio.run(go())


def test_batches_under_way_can_be_cancelled(tmp_path: Path) -> None:
    service = BatchService()
    interrupt(service, tmp_path, 9)
    asyncio.run(run(service, tmp_path, then_live=True, begin=False, cancel=True))
    assert {batch["status"] for batch in service.batches.values()} == {"cancelled"}
    assert (service.worked.total(), service.live.total()) == (0, N)


ODD_LINES = [
    b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"\0" * 100, b"[" * 100_000, b'{"custom_id": ["x"]}',
    b'{"custom_id": "ID", "response": "x"}', b'{"custom_id": "ID", "response": ["x"]}',
    b'{"custom_id": "ID", "response": {"status_code": "200", "body": {}}}',
    b'{"custom_id": "ID", "response": {"status_code": NaN}}', b'{"custom_id": "ID", "error": "x"}',
    b'{"custom_id": "ID", "error": ["x"]}', b'{"custom_id": "ID", "error": {"message": ["x"]}}',
    b'{"custom_id": "ID", "response": {"status_code": 200, "body": "x"}}',
    b'{"custom_id": "ID", "response": {"status_code": 200, "body": {"choices": [{"message": 7}]}}}',
    b'{"custom_id": "ID", "response": {"status_code": 500, "body": "x"}}', b"x" * 20_000_000,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("line", ODD_LINES, ids=lambda line: repr(line[:50]))
def test_an_odd_line_is_not_the_end_of_the_collection(tmp_path: Path, line: bytes) -> None:
    service = BatchService()
    first = call_id(parameters_json(ChatModel("test-model")), calls()[0]).encode()
    service.odd_lines = [line.replace(b"ID", first) + b"\n"]
    asyncio.run(run(service, tmp_path))
    assert answers(tmp_path) == expected()


def test_an_id_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    service = BatchService()
    for step in range(1, 200):
        service.broken[step] = HttpReply({"id": "../../../etc", "object": "file", "status": "completed"})
    with pytest.raises(ProviderError, match="no usable id"):
        asyncio.run(run(service, tmp_path))


@pytest.mark.parametrize(
    "change", [{"name": "../../x"}, {"file_id": "../x"}, {"batch_id": 7}, {"requests": -1}, {"odd": 1}]
)
def test_an_edited_state_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    part = {"name": "0001", "requests": 1, "file_id": None, "batch_id": None, "collected": False} | change
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "state.json").write_text(json.dumps({"format": "fwc-llm-batch/1", "parts": [part]}))
    with pytest.raises(FwcError, match=r"state\.json is damaged"):
        batches_under_way(tmp_path)


def test_the_key_is_in_no_file_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-planted+0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    service = BatchService()
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    service.odd_lines = [f'{{"custom_id": "x", "echo": "{escaped} {key}"}}\n'.encode()]

    async def go() -> None:
        async with serve(service) as url:
            model = ChatModel("test-model", base_url=f"{url}/v1", api_key_env="OPENAI_API_KEY")
            with Journal(tmp_path) as journal:
                await run_batch(model, calls(), journal, tmp_path, poll_seconds=0.0)

    asyncio.run(go())
    for path in (tmp_path / "batch").iterdir():
        assert key not in path.read_text()
        assert escaped not in path.read_text()
    assert "[key]" in (tmp_path / "batch" / "0001.output.jsonl").read_text()


def test_a_batch_that_never_began_is_not_begun_over_live_answers(tmp_path: Path) -> None:
    service = BatchService()
    interrupt(service, tmp_path, 1)

    async def live() -> None:
        async with serve(service) as url:
            with Journal(tmp_path) as journal:
                await execute(ChatModel("test-model", base_url=f"{url}/v1"), calls(), journal)

    asyncio.run(live())
    asyncio.run(run(service, tmp_path))
    assert (service.worked.total(), service.live.total()) == (0, N)


async def one_pass(url: str, folder: Path, mode: str) -> None:
    """As `fwc-llm eval` does it: with --batch, with --cancel-batch, or without."""
    model = ChatModel("test-model", base_url=f"{url}/v1", backoff=0.001)
    with Journal(folder) as journal:
        if mode != "live" or batches_under_way(folder):
            await run_batch(
                model, calls(), journal, folder, poll_seconds=0.0, backoff=0.001, begin=mode == "batch",
                cancel=mode == "cancel",
            )  # fmt: skip
        await execute(model, calls(), journal, concurrency=1)


def stop_at(task: "asyncio.Future[None]", last: int, step: int) -> None:
    if step == last:
        task.cancel()


async def passes(service: BatchService, folder: Path, rng: random.Random) -> int:
    """A few passes that are stopped somewhere, and one that ends; how many were stopped."""
    stopped = 0
    async with serve(service) as url:
        for _ in range(rng.randint(1, 6)):
            last = service.steps + rng.randint(1, 14)
            mode = rng.choice(("batch", "batch", "live", "cancel"))
            task = asyncio.ensure_future(one_pass(url, folder, mode))
            service.on_step = partial(stop_at, task, last)
            try:
                await task
            except asyncio.CancelledError:
                stopped += 1
        service.on_step = lambda step: None
        await one_pass(url, folder, rng.choice(("batch", "live", "cancel")))
    return stopped


@pytest.mark.slow
def test_any_order_of_passes_asks_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    parameters = parameters_json(ChatModel("test-model"))
    sent = {call_id(parameters, call): json.dumps(call.messages) for call in calls()}
    for seed in range(10):
        (folder := tmp_path / str(seed)).mkdir()
        rng, service = random.Random(seed), BatchService()
        service.cancelled_after = rng.randint(0, 3)
        stopped = asyncio.run(passes(service, folder, rng))
        with Journal(folder) as journal:
            answered = [record["row"] for record in journal.records() if record["text"] is not None]
        assert sorted(answered) == sorted(call.row for call in calls()), f"seed {seed}"
        assert set(service.worked.values()) <= {1}, f"seed {seed}"
        paid = Counter(service.live) + Counter({sent[name]: n for name, n in service.worked.items()})
        # A live reply that was under way when its pass was stopped was never heard.
        assert paid.total() - N <= stopped, f"seed {seed}"


@pytest.mark.parametrize("lost", ["batches", "files"])
def test_what_the_service_has_lost_can_be_given_up(tmp_path: Path, lost: str) -> None:
    service = BatchService()

    async def go() -> None:
        async with serve(service) as url:
            task = asyncio.ensure_future(one_pass(url, tmp_path, "batch"))
            service.on_step = lambda step: task.cancel() if step == 12 else None
            with pytest.raises(asyncio.CancelledError):
                await task
            service.on_step = lambda step: None
            for batch in service.batches.values():
                batch.update(status="completed", output_file_id="file-gone")
            vars(service)[lost].clear()
            for mode in ("live", "batch"):
                with pytest.raises(ProviderError, match=r"lost .*--cancel-batch"):
                    await one_pass(url, tmp_path, mode)
            await one_pass(url, tmp_path, "cancel")

    asyncio.run(go())
    with Journal(tmp_path) as journal:
        assert len(journal) == N
    assert not batches_under_way(tmp_path)


def test_a_folder_that_is_gone_is_not_made_again_and_no_batch_is_sent_off(tmp_path: Path) -> None:
    service = BatchService()
    folder = tmp_path / "run"
    folder.mkdir()

    async def go() -> None:
        async with serve(service) as url:
            service.on_step = lambda step: folder.rename(tmp_path / "moved") if step == 1 else None
            with pytest.raises(StorageError, match="is gone"):
                await one_pass(url, folder, "batch")

    asyncio.run(go())
    assert not folder.exists()
    assert service.batches == {}
