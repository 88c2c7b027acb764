"""Long runs that are killed again and again: nothing is lost, nothing journaled is asked again.

    python -m evals.soak                              # 50,000 rows and 50 kills in all, three ways
    python -m evals.soak --rows 3000 --kills 9        # less of it

Three runs: live, by batches, and both in turn. The service runs in this process and fails in the ways of
`tests/faults/server.py`; each pass is a process of its own, which gets SIGKILL or SIGTERM when the service
has seen a random number of its requests. The exit code is 1 when a promise is broken.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.batch import batches_under_way, run_batch
from fwc_llm.runs.calls import Call
from fwc_llm.runs.execute import execute
from fwc_llm.runs.journal import Journal
from tests.faults.batch_service import BatchService
from tests.faults.loopback import HttpReply, HttpRequest, serve_in_thread
from tests.faults.server import FaultyService, conversation_key

PROCESSES = multiprocessing.get_context("fork")
_MODES = ("live", "batch", "in turn")


class Both:
    """Live requests fail on a schedule, batches work; `again` counts what was asked although journaled."""

    def __init__(self, seed: int) -> None:
        self.live, self.batches = FaultyService(seed, fault_share=0.1, stall_seconds=0.5), BatchService()
        self.journaled: set[str] = set()
        self.again: Counter[str] = Counter()
        self.served = 0

    def __call__(self, request: HttpRequest) -> HttpReply:
        """Answer, and count."""
        self.served += 1
        if not request.path.endswith("/chat/completions"):
            return self.batches(request)
        if (key := conversation_key(request.json()["messages"])) in self.journaled:
            self.again[key] += 1
        return self.live(request)


def calls(rows: int) -> Iterator[Call]:
    """The questions of the run."""
    for number in range(rows):
        text = f"Person {number}: does this person earn more than 50K?"
        yield Call("zero", 0, f"test:{number}", "", [{"role": "user", "content": text}])


def one_pass(url: str, folder: Path, rows: int, batch: bool) -> None:
    """One process's share of the run."""
    model = ChatModel("test-model", base_url=f"{url}/v1", concurrency=32, timeout=5.0, backoff=0.01)

    async def go() -> None:
        with Journal(folder) as journal:
            if batch or batches_under_way(folder):
                await run_batch(model, calls(rows), journal, folder, poll_seconds=0.2, begin=batch)
            await execute(model, calls(rows), journal, concurrency=32)

    asyncio.run(go())


def main() -> int:
    parser = argparse.ArgumentParser(description="long runs, killed again and again")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows, kills = arguments.rows // len(_MODES), -(-arguments.kills // len(_MODES))
    broken = sum(_soak(mode, rows, kills, arguments.seed) for mode in _MODES)  # all three, whatever happens
    return int(broken > 0)


def _soak(mode: str, rows: int, kills: int, seed: int) -> bool:
    """One run with so many kills; whether a promise was broken."""
    rng, service, killed, most = random.Random(seed), Both(seed), 0, Counter[str]()
    # Ten parts, for more moments to be killed at; the processes are forks of this one.
    vars(batch_module)["MOST_REQUESTS"] = max(rows // 10, 1)
    with tempfile.TemporaryDirectory() as name, serve_in_thread(service) as url:
        folder, turn = Path(name), 0
        while True:
            turn += 1
            batch = mode == "batch" or (mode == "in turn" and turn % 2 == 1)
            process = PROCESSES.Process(target=one_pass, args=(url, folder, rows, batch))
            process.start()
            share = rows // (kills + 1) if mode == "live" else 6
            until = service.served + rng.randint(1, share)
            while process.is_alive() and (service.served < until or killed >= kills):
                _measure(process.pid, most, turn <= kills // 2)
                time.sleep(0.01)
            if process.is_alive() and process.pid is not None:
                psutil.Process(process.pid).send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
                killed += 1
            process.join()
            service.journaled = _answered(folder)
            if process.exitcode == 0:
                return _judge(f"{mode}, {killed} kills", folder, service, rows, most)


def _measure(pid: int | None, most: Counter[str], early: bool) -> None:
    try:
        used = psutil.Process(pid).memory_info().rss >> 20
    except psutil.NoSuchProcess:
        return
    when = "early passes" if early else "late passes"
    most[when] = max(most[when], used)


def _answered(folder: Path) -> set[str]:
    """The conversations whose answers stand in the journal, read as anybody would."""
    found = set()
    path = folder / "journal.jsonl"
    for line in path.read_bytes().splitlines()[1:] if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the torn last line of a killed process
        if record["text"] is not None:
            number = record["row"].partition(":")[2]
            text = f"Person {number}: does this person earn more than 50K?"
            found.add(conversation_key([{"role": "user", "content": text}]))
    return found


def _judge(what: str, folder: Path, service: Both, rows: int, most: Counter[str]) -> bool:
    with Journal(folder) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    keys = [conversation_key(call.messages) for call in calls(rows)]
    refused = sum(service.live.refused_for_good(key) is not None for key in keys)
    kept = len({record["request"] for record in records})
    lost = max(rows - refused - kept, 0)  # a batch answers also what a live request never would
    again = service.again.total() + sum(count > 1 for count in service.batches.worked.values())
    twice, batched = len(records) - kept, service.batches.worked.total()
    print(
        f"{what}: {rows:,} rows, {kept:,} answered ({batched:,} by batches), {refused} refused for good "
        f"live; {lost} lost, {again} asked again, {twice} journaled twice; memory in MB: {dict(most)}",
        flush=True,
    )
    return bool(lost or again or twice)


if __name__ == "__main__":
    sys.exit(main())
