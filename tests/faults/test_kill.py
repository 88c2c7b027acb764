"""Kill −9 at random moments: nothing that was journaled is asked again, and the end is the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from fwc_llm.runs.journal import Journal
from tests.conftest import CHECKOUT
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve_in_thread
from tests.faults.server import conversation_key
from tests.faults.worker import question

N, KILLS = 2500, 20


def start(url: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.worker", f"{url}/v1", str(folder), str(N)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
    )


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
            while service.served == served and process.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.06))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            killed_at_work += process.returncode == -signal.SIGKILL
            service.journaled = {contents[row] for row in result(folder)}
        assert killed_at_work == KILLS, "every kill met a run at work"
        assert 0 < len(service.journaled) < N
        output, _ = start(url, folder).communicate(timeout=60)
        assert output.split() == [str(N - len(service.journaled)), "0", str(len(service.journaled))]
        assert service.again == []

        assert start(url, whole).communicate(timeout=60)[0].split() == [str(N), "0", "0"]
    assert result(folder) == result(whole)
