"""Kill −9 at random moments: nothing that was journaled is asked again, and the end is the same."""

import multiprocessing
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from fwc_llm.runs.journal import Journal
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve_in_thread
from tests.faults.server import conversation_key
from tests.faults.worker import question, run

pytestmark = pytest.mark.slow

N, KILLS = 2500, 20
# Each run is a fork of a clean process that has everything imported.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.faults.worker"])


def start(url: str, folder: Path) -> BaseProcess:
    process = PROCESSES.Process(target=run, args=(url, folder, N))
    process.start()
    return process


def finish(url: str, folder: Path) -> list[int]:
    process = start(url, folder)
    process.join(200.0)
    assert process.exitcode == 0
    return [int(number) for number in (folder / "outcome").read_text().split()]


class Service:
    """Answers by content; a question whose answer is in the journal must not come again."""

    def __init__(self) -> None:
        self.journaled: set[str] = set()
        self.again: list[str] = []
        self.served = 0

    def __call__(self, request: HttpRequest) -> HttpReply:
        messages = request.json()["messages"]
        if messages[0]["content"] in self.journaled:
            self.again.append(messages[0]["content"])
        self.served += 1
        return HttpReply(completion("Yes" if int(conversation_key(messages), 16) % 2 else "No"))


def result(folder: Path) -> dict[str, str]:
    with Journal(folder) as journal:
        records = [record for record in journal.records() if record["text"] is not None]
    assert len({record["row"] for record in records}) == len(records), "each request is journaled once"
    return {record["row"]: record["answer"] for record in records}


def test_kill_nine_twenty_times(tmp_path: Path) -> None:
    contents = {question(i).row: question(i).messages[0]["content"] for i in range(N)}
    rng, killed_at_work = random.Random(7), 0
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    folder.mkdir()
    whole.mkdir()
    service = Service()
    with serve_in_thread(service) as url:
        for _ in range(KILLS):
            served = service.served
            process = start(url, folder)
            while service.served == served and process.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.06))
            process.kill()
            process.join()
            killed_at_work += process.exitcode == -signal.SIGKILL
            service.journaled = {contents[row] for row in result(folder)}
        assert killed_at_work == KILLS, "every kill met a run at work"
        assert 0 < len(service.journaled) < N
        assert finish(url, folder) == [N - len(service.journaled), 0, len(service.journaled)]
        assert service.again == []

        assert finish(url, whole) == [N, 0, 0]
    assert result(folder) == result(whole)
