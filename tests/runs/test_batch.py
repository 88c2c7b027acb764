"""The Batch API over HTTP: every step may be the last of a process, and no request is worked on
twice.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.errors import ProviderError, StorageError
from fwc_llm.evaluation.evaluate import prepare
from fwc_llm.models import Client, Usage
from fwc_llm.models.openai.batch_api import BatchClient
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.prices import price_of
from fwc_llm.models.tokens import TokenCounter
from fwc_llm.notices import RunWarning
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.batch import BatchRun, batches_under_way
from fwc_llm.runs.budget import Budget
from fwc_llm.runs.execute import Execution, ExecutionSummary
from fwc_llm.runs.journal import Journal, PlannedCall, call_id, parameters_json
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import census_task
from tests.command import read_json
from tests.faults.batch_service import PAGE, BatchService, answer_of
from tests.faults.loopback import (
    HttpReply,
    HttpRequest,
    refusal,
    serve,
    serve_in_thread,
)
from tests.refusals import refused

N = 23


def calls(n: int = N) -> list[PlannedCall]:
    return [
        PlannedCall(
            "zero",
            0,
            f"test:{i}",
            "",
            [{"role": "user", "content": "x" * i + " <|endoftext|> é\u2028"}],
        )
        for i in range(n)
    ]


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten requests a file, so that 23 make three."""
    monkeypatch.setattr(batch_module, "MOST_REQUESTS", 10)


@asynccontextmanager
async def asking(
    service: Any, folder: Path, name: str = "test-model", **options: Any
) -> AsyncIterator[tuple[ChatModel, Journal]]:
    async with serve(service) as url:
        with Journal(folder) as journal:
            yield (
                ChatModel(name, base_url=f"{url}/v1", backoff=0.001, **options),
                journal,
            )


async def run(
    service: Any, folder: Path, then_live: bool = False, **options: Any
) -> ExecutionSummary | None:
    async with asking(service, folder) as (model, journal):
        await BatchRun(model, calls, journal, poll_seconds=0.0, **options).run()
        if then_live:
            return await Execution(model, calls(), journal, concurrency=1).run()
        return None


def work(service: Any, folder: Path, **options: Any) -> None:
    """One pass to its end."""
    asyncio.run(run(service, folder, **options))


def ask_live(service: BatchService, folder: Path, n: int = N) -> None:
    async def go() -> None:
        async with asking(service, folder) as (model, journal):
            await Execution(model, calls()[:n], journal).run()

    asyncio.run(go())


async def one_pass(service: BatchService, folder: Path, mode: str) -> None:
    """As `fwc-llm eval` does it: with --batch, with --cancel-batch, or live."""
    await run(
        service, folder, then_live=True, begin=mode == "batch", cancel=mode == "cancel"
    )


async def stopped_at(
    service: BatchService, step: int, work: Coroutine[Any, Any, Any]
) -> bool:
    """Stop the work when the service has been asked so often; whether it was at work then."""
    task = asyncio.ensure_future(work)
    service.on_step = lambda now: task.cancel() if now == step else None
    await asyncio.wait([task])
    service.on_step = lambda now: None
    if not task.cancelled():
        task.result()
    return task.cancelled()


def interrupt(service: BatchService, folder: Path, step: int) -> None:
    assert asyncio.run(stopped_at(service, step, run(service, folder)))


async def within(
    service: BatchService, folder: Path, dollars: Callable[[Budget], float]
) -> tuple[Budget, ExecutionSummary]:
    """A pass of batches, and what is left live, for so many dollars."""
    async with asking(service, folder, "gpt-4") as (model, journal):
        counter = TokenCounter("unknown", fetch=False)
        budget = Budget(model, price_of("gpt-4"), 1.0, counter)
        budget.max_cost = dollars(budget)
        await BatchRun(model, calls, journal, budget=budget, poll_seconds=0.0).run()
        return budget, await Execution(model, calls(), journal, budget=budget).run()


def answers(folder: Path) -> dict[str, str]:
    with Journal(folder) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    assert len({record["row"] for record in records}) == len(records), (
        "each is journaled once"
    )
    return {record["row"]: record["text"] for record in records}


def expected() -> dict[str, str]:
    return {call.row: answer_of(call.messages) for call in calls()}


def test_replies_are_joined_to_their_questions(tmp_path: Path) -> None:
    service = BatchService()
    seen = []
    work(service, tmp_path, progress=seen.append)
    assert answers(tmp_path) == expected()
    with Journal(tmp_path) as journal:
        assert journal.batch_usage.prompt_tokens == 100 * N
    assert (len(service.batches), seen[-1].done, seen[-1].total) == (3, N, N)


def test_a_batch_is_found_on_a_later_page_of_the_account(tmp_path: Path) -> None:
    service = BatchService()

    async def find() -> str | None:
        async with asking(service, tmp_path) as (model, _):
            return await BatchClient(model).find("file-0")

    asyncio.run(run(service, tmp_path))
    assert len(service.batches) > PAGE
    assert asyncio.run(find()) == "batch-0"


def test_files_are_split_by_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_module, "MOST_BYTES", 1000)
    service = BatchService()
    work(service, tmp_path)
    inputs = [service.files[each["input_file_id"]] for each in service.batches.values()]
    assert max(map(len, inputs)) <= 1000
    assert len(inputs) > 3
    assert answers(tmp_path) == expected()


@pytest.mark.parametrize("blank", ["", " ", None])
def test_a_blank_id_is_no_file(blank: str | None, tmp_path: Path) -> None:
    class Blank(BatchService):
        def __call__(self, request: HttpRequest) -> HttpReply:
            reply = super().__call__(request)
            if isinstance(reply.body, dict) and reply.body.get("object") == "batch":
                none = dict.fromkeys(("output_file_id", "error_file_id"), blank)
                known = {name: of for name, of in reply.body.items() if of}
                return replace(reply, body=none | known)
            return reply

    work(Blank(), tmp_path)
    assert answers(tmp_path) == expected()


@pytest.mark.parametrize("ends_as", ["completed", "expired"])
def test_what_batches_leave_is_asked_live_only_if_wanted(
    ends_as: str, tmp_path: Path
) -> None:
    service = BatchService(fails=lambda number: number > 2, ends_as=ends_as)
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'date = "2030-01-01"\nbatch = 0.5\n[models]\nmine = { input = 1000, output = 4000 }\n'
    )

    def go(url: str, **options: Any) -> dict[str, Any]:
        client = Client(base_url=f"{url}/v1", batch=True, prices=prices, **options)
        plan = Settings(n_test=13, m=4, base_parity=None)
        job = prepare(census_task(600, 300), "mine", ["zero"], plan, client)
        return job.run(tmp_path / "run").data

    with serve_in_thread(service) as url:
        left = go(url)
        assert service.live.total() == 0
        assert left["unanswered"] > 6
        told = str(left["stopped"])
        assert f"batches left {left['unanswered']} requests without a reply" in told
        assert "1 of them: the batch has no reply to it (500: server error 3)" in told
        assert re.search(
            r"--finish-live asks them one by one: \d+ requests, at most \$\d+\.\d\d",
            told,
        )
        assert go(url)["stopped"] == told, "asked again, it does nothing else"
        with pytest.warns(
            RunWarning, match=r"asked live, .*: \d+ requests, at most \$"
        ):
            assert go(url, finish_live=True)["unanswered"] == 0
    assert service.live.total() == left["unanswered"]


@pytest.mark.slow
def test_passing_failures_of_the_service_are_waited_out(tmp_path: Path) -> None:
    whole = BatchService(fails=lambda number: number == 3)
    work(whole, tmp_path)
    for step in range(1, whole.steps + 1):
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        service = BatchService()
        service.broken = {step: HttpReply("<html>bad gateway</html>", 502)}
        work(service, folder)
        assert set(service.worked.values()) == {1}, (
            f"step {step} failed after it took effect"
        )
        assert answers(folder) == expected()


@pytest.mark.slow
def test_a_refused_batch_stops_and_can_be_submitted_again(tmp_path: Path) -> None:
    service = BatchService(ends_as="failed")
    with pytest.raises(ProviderError, match="enqueued token limit"):
        work(service, tmp_path)
    service.ends_as = "completed"
    work(service, tmp_path)
    assert answers(tmp_path) == expected()


def test_the_cost_limit_holds_for_batches(tmp_path: Path) -> None:
    service = BatchService()

    def five(budget: Budget) -> float:
        return 5.0 * budget.dollars(budget.worst_case(calls()[0].messages), batch=True)

    _, outcome = asyncio.run(within(service, tmp_path, five))
    assert 0 < service.worked.total() <= 5
    assert "--max-cost" in str(outcome.stopped)


@pytest.mark.parametrize("ends_as", ["completed", "expired"])
def test_what_a_batch_has_lost_counts_towards_the_limit(
    ends_as: str, tmp_path: Path
) -> None:
    service = BatchService(ends_as=ends_as)
    service.kept = 0.2
    price: Any = price_of("gpt-4")
    used = Usage(100, 1, 64)  # as the service counts
    batched = price.dollars(used, batch=True)
    live = price.dollars(used)
    # For all requests as a batch, with those of unknown usage at the most, and ten of them live.
    most = 1.5 * N * batched + 10 * live
    budget, _ = asyncio.run(within(service, tmp_path, lambda budget: most))
    bill = service.worked.total() * batched + service.live.total() * live
    assert service.worked.total() == N
    assert 0 < service.live.total() < N
    assert bill <= budget.spent <= budget.max_cost


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            refusal(404, "Invalid URL (/files)"),
            r"no Batch API.*Invalid URL.*leave out batch=True",
        ),
        (
            refusal(400, "Invalid file format for Batch API"),
            "refuses this.*Invalid file format",
        ),
        (
            HttpReply({"id": "../../../etc", "object": "file", "status": "completed"}),
            "no usable id",
        ),
    ],
)
def test_a_service_that_takes_no_batch_says_why(
    tmp_path: Path, reply: HttpReply, words: str
) -> None:
    with pytest.raises(ProviderError, match=words):
        asyncio.run(run(lambda request: reply, tmp_path))


def test_batches_under_way_can_be_cancelled(tmp_path: Path) -> None:
    service = BatchService()
    interrupt(service, tmp_path, 9)
    work(service, tmp_path, then_live=True, begin=False, cancel=True)
    assert {batch["status"] for batch in service.batches.values()} == {"cancelled"}
    assert (service.worked.total(), service.live.total()) == (0, N)


ODD_LINES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"\xff\xfe",
    b"\0" * 100,
    b"[" * 100_000,
    b'{"custom_id": ["x"]}',
    b'{"custom_id": "ID", "response": "x"}',
    b'{"custom_id": "ID", "response": ["x"]}',
    b'{"custom_id": "ID", "response": {"status_code": "200", "body": {}}}',
    b'{"custom_id": "ID", "response": {"status_code": NaN}}',
    b'{"custom_id": "ID", "error": "x"}',
    b'{"custom_id": "ID", "error": ["x"]}',
    b'{"custom_id": "ID", "error": {"message": ["x"]}}',
    b'{"custom_id": "ID", "response": {"status_code": 200, "body": "x"}}',
    b'{"custom_id": "ID", "response": {"status_code": 200, "body": {"choices": [{"message": 7}]}}}',
    b'{"custom_id": "ID", "response": {"status_code": 500, "body": "x"}}',
    b"x" * 20_000_000,
]


@pytest.mark.slow
def test_odd_lines_are_not_the_end_of_the_collection(tmp_path: Path) -> None:
    service = BatchService()
    first = call_id(parameters_json(ChatModel("test-model")), calls()[0]).encode()
    service.odd_lines = [line.replace(b"ID", first) + b"\n" for line in ODD_LINES]
    work(service, tmp_path)
    assert answers(tmp_path) == expected()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../x"},
        {"file_id": "../x"},
        {"batch_id": 7},
        {"requests": -1},
        {"odd": 1},
    ],
)
def test_an_edited_state_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    work(BatchService(), tmp_path)
    path = tmp_path / "batch" / "state.json"
    state = read_json(path)
    state["parts"][0] |= change
    path.write_text(json.dumps(state))
    with refused(r"state\.json is damaged"):
        batches_under_way(tmp_path)


def test_the_key_is_in_no_file_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-planted+0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    service = BatchService()
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    service.odd_lines = [f'{{"custom_id": "x", "echo": "{escaped} {key}"}}\n'.encode()]
    work(service, tmp_path)
    for path in (tmp_path / "batch").iterdir():
        assert key not in path.read_text()
        assert escaped not in path.read_text()
    assert "[key]" in (tmp_path / "batch" / "0001.output.jsonl").read_text()


def test_a_batch_that_never_began_is_not_begun_over_live_answers(
    tmp_path: Path,
) -> None:
    service = BatchService()
    interrupt(service, tmp_path, 1)
    ask_live(service, tmp_path)
    work(service, tmp_path)
    assert (service.worked.total(), service.live.total()) == (0, N)


@pytest.mark.slow
def test_any_order_of_passes_asks_nothing_twice_and_loses_nothing(
    tmp_path: Path,
) -> None:
    parameters = parameters_json(ChatModel("test-model"))
    sent = {call_id(parameters, call): json.dumps(call.messages) for call in calls()}
    for seed in range(10):
        (folder := tmp_path / str(seed)).mkdir()
        rng = random.Random(seed)
        service = BatchService()
        service.cancelled_after = rng.randint(0, 3)
        stopped = 0
        for _ in range(rng.randint(1, 6)):
            last = service.steps + rng.randint(1, 14)
            mode = rng.choice(("batch", "batch", "live", "cancel"))
            one = one_pass(service, folder, mode)
            stopped += asyncio.run(stopped_at(service, last, one))
        asyncio.run(one_pass(service, folder, rng.choice(("batch", "live", "cancel"))))
        assert answers(folder).keys() == expected().keys(), f"seed {seed}"
        assert set(service.worked.values()) <= {1}, f"seed {seed}"
        paid = service.live.total() + service.worked.total()
        assert {*service.live} | {sent[name] for name in service.worked} <= {
            *sent.values()
        }
        # A live reply that was under way when its pass was stopped was never heard.
        assert paid - N <= stopped, f"seed {seed}"


@pytest.mark.parametrize("lost", ["batches", "files"])
def test_what_the_service_has_lost_can_be_given_up(tmp_path: Path, lost: str) -> None:
    service = BatchService()
    interrupt(service, tmp_path, 12)
    for batch in service.batches.values():
        batch.update(status="completed", output_file_id="file-gone")
    vars(service)[lost].clear()
    for mode in ("live", "batch"):
        with pytest.raises(ProviderError, match=r"lost .*cancel_batch=True"):
            asyncio.run(one_pass(service, tmp_path, mode))
    asyncio.run(one_pass(service, tmp_path, "cancel"))
    with Journal(tmp_path) as journal:
        assert len(journal) == N
    assert not batches_under_way(tmp_path)


def test_a_folder_that_is_gone_is_not_made_again_and_no_batch_is_sent_off(
    tmp_path: Path,
) -> None:
    service = BatchService()
    folder = tmp_path / "run"
    folder.mkdir()
    service.on_step = lambda step: (
        folder.rename(tmp_path / "moved") if step == 1 else None
    )
    with pytest.raises(StorageError, match="is gone"):
        work(service, folder)
    assert (folder.exists(), service.batches) == (False, {})
