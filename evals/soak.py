"""Long runs that are killed again and again: nothing is lost, nothing journaled is asked again.

    python -m evals.soak                              # 50,000 rows and 51 kills in all, three ways, 10 min
    python -m evals.soak --rows 3000 --kills 9        # less of it
    python -m evals.soak --record                     # and write evals/results/reliability.md

Three runs: live, by batches, and both in turn. The service runs in this process and fails in the ways of
`tests/faults/server.py`; each pass is a process of its own. When the service has seen a random number of its
requests, the pass gets SIGKILL or SIGTERM; in one of four the disk is full first. The time of day jumps by
years in every pass, and a second process tries to work in the same folder. The exit code is 1 when a promise
is broken.
"""

import asyncio
import json
import math
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from evals.record import command_line
from evals.reliability import record
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.runs import batch as batch_module
from fwc_llm.runs.batch import BatchRun, batches_under_way
from fwc_llm.runs.execute import Execution
from fwc_llm.runs.journal import Journal, PlannedCall
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


def calls(rows: int) -> Iterator[PlannedCall]:
    """The questions of the run."""
    for number in range(rows):
        text = f"Person {number}: does this person earn more than 50K?"
        yield PlannedCall("zero", 0, f"test:{number}", "", [{"role": "user", "content": text}])


def one_pass(url: str, folder: Path, rows: int, batch: bool, largest_file: int | None = None) -> None:
    """One process's share of the run; it ends with the exit code of the command line."""
    if largest_file is not None:  # the disk is full once the journal has grown to this
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    rng, now = random.Random(), time.time
    vars(time)["time"] = lambda: max(now() + rng.uniform(-1e9, 1e9), 0.0)
    model = ChatModel("test-model", base_url=f"{url}/v1", concurrency=32, timeout=5.0, backoff=0.01)

    async def go() -> None:
        with Journal(folder) as journal:
            if batch or batches_under_way(folder):
                await BatchRun(model, calls(rows), journal, begin=batch, poll_seconds=0.2).run()
            await Execution(model, calls(rows), journal, concurrency=32).run()

    try:
        asyncio.run(go())
    except FwcError as error:
        sys.exit(error.exit_code)


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write evals/results/reliability.md")
    arguments = parser.parse_args()
    rows, kills = arguments.rows // len(_MODES), -(-arguments.kills // len(_MODES))
    runs = [_soak(mode, rows, kills, arguments.seed) for mode in _MODES]  # all three, whatever happens
    if arguments.record:
        record("soak", {"runs": runs})
    return int(any(run[name] for run in runs for name in ("lost", "again", "twice", "let_in")))


def _soak(mode: str, rows: int, kills: int, seed: int) -> dict[str, Any]:
    """One run with so many kills; what came out of it."""
    rng, service, most, ends = random.Random(f"{seed} {mode}"), Both(seed), Counter[str](), Counter[str]()
    # Ten parts, for more moments to be killed at; the processes are forks of this one.
    vars(batch_module)["MOST_REQUESTS"] = max(rows // 10, 1)
    with tempfile.TemporaryDirectory() as name, serve_in_thread(service) as url:
        folder, turn = Path(name), 0
        while True:
            turn += 1
            batch = mode == "batch" or (mode == "in turn" and turn % 2 == 1)
            more = ends.total() < kills  # to be killed
            room = rng.randint(1, 40_000) if more and rng.random() < 0.25 else None
            arguments = (url, folder, rows, batch, room and _size(folder) + room)
            process = PROCESSES.Process(target=one_pass, args=arguments)
            process.start()
            share = rows // (kills + 1) if mode == "live" else 6
            until = service.served + rng.randint(1, share) if room is None else math.inf
            while process.is_alive() and (service.served < until or not more):
                _measure(process.pid, most, ends.total() < kills // 2)
                time.sleep(0.01)
            if process.is_alive() and turn % 5 == 0:
                ends["let in"] += _second_process(url, folder, rows, batch)
            if process.is_alive() and process.pid is not None:
                psutil.Process(process.pid).send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
            process.join()
            service.journaled = _answered(folder)
            if process.exitcode == 0:
                return _judge(mode, folder, service, rows, most, ends)
            ends["full" if process.exitcode == StorageError.exit_code else "killed"] += 1


def _size(folder: Path) -> int:
    path = folder / "journal.jsonl"
    return path.stat().st_size if path.exists() else 0


def _second_process(url: str, folder: Path, rows: int, batch: bool) -> bool:
    """Whether another process may work in the same folder."""
    other = PROCESSES.Process(target=one_pass, args=(url, folder, rows, batch))
    other.start()
    other.join()
    return other.exitcode != FwcError.exit_code


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


def _judge(
    mode: str, folder: Path, service: Both, rows: int, most: Counter[str], ends: Counter[str]
) -> dict[str, Any]:
    with Journal(folder) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    keys = [conversation_key(call.messages) for call in calls(rows)]
    refused = sum(service.live.refused_for_good(key) is not None for key in keys)
    kept = len({record["request"] for record in records})
    found = {
        "how": mode,
        "rows": rows,
        "kills": ends["killed"] + ends["full"],
        "full": ends["full"],
        "let_in": ends["let in"],
        "answered": kept,
        "by_batches": service.batches.worked.total(),
        "refused_live": refused,
        "lost": max(rows - refused - kept, 0),  # a batch answers also what a live request never would
        "again": service.again.total() + sum(count > 1 for count in service.batches.worked.values()),
        "twice": len(records) - kept,
        "early_mb": most["early passes"],
        "late_mb": most["late passes"],
    }
    print(", ".join(f"{name} {value}" for name, value in found.items()), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
