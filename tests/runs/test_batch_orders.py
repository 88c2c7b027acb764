"""Passes by batches, live and with `--cancel-batch`, in any order, stopped anywhere: none pays twice."""

import asyncio
import json
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from fwc_llm.errors import ProviderError, StorageError
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.batch import batches_under_way, run_batch
from fwc_llm.runs.execute import execute
from fwc_llm.runs.journal import Call, Journal, call_id, parameters_json
from tests.faults.batch_service import BatchService
from tests.faults.loopback import serve

N = 13
CALLS = [Call("zero", 0, f"row:{i}", "", [{"role": "user", "content": "x" * i}]) for i in range(N)]
IDS = {call_id(parameters_json(ChatModel("test-model")), call): json.dumps(call.messages) for call in CALLS}


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "MOST_REQUESTS", 5)


async def one_pass(url: str, folder: Path, mode: str) -> None:
    """As `fwc-llm eval` does it: with --batch, with --cancel-batch, or without."""
    model = ChatModel("test-model", base_url=f"{url}/v1", backoff=0.001)
    with Journal(folder) as journal:
        if mode != "live" or batches_under_way(folder):
            await run_batch(
                model, CALLS, journal, folder, poll_seconds=0.0, backoff=0.001, begin=mode == "batch",
                cancel=mode == "cancel",
            )  # fmt: skip
        await execute(model, CALLS, journal, concurrency=1)


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
    for seed in range(10):
        (folder := tmp_path / str(seed)).mkdir()
        rng, service = random.Random(seed), BatchService()
        service.cancelled_after = rng.randint(0, 3)
        stopped = asyncio.run(passes(service, folder, rng))
        with Journal(folder) as journal:
            answered = [record["row"] for record in journal.records() if record["text"] is not None]
        assert sorted(answered) == sorted(call.row for call in CALLS), f"seed {seed}"
        assert set(service.worked.values()) <= {1}, f"seed {seed}"
        paid = Counter(service.live) + Counter({IDS[name]: n for name, n in service.worked.items()})
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
