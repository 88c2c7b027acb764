"""The command line while things go wrong: exit codes, what is said, what is kept; the key
nowhere.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import CHECKOUT
from tests.faults.loopback import (
    HttpReply,
    HttpRequest,
    completion,
    refusal,
    serve_in_thread,
)
from tests.people import make_people, write_people

pytestmark = pytest.mark.slow

KEY = "sk-planted-0123456789abcdefghij"
N = 40
# What a service may answer first, with the key in it wherever there is room.
ECHOES = {
    1: HttpReply(f"<html>{KEY}</html>"),
    2: HttpReply(f"{KEY}", 500),
    3: HttpReply({"error": f"bad {KEY}"}),
    4: HttpReply({"choices": None, "key": KEY}),
    5: HttpReply(b'{"choices": "' + KEY.encode()),
    6: HttpReply(
        {"error": {"message": f"slow down, {KEY}"}}, 429, {"retry-after": "0.01"}
    ),
    7: HttpReply(
        {"error": {"message": f"overloaded {KEY}"}},
        503,
        {"retry-after": "0.01", "x-key": KEY},
    ),
}
REQUESTS = 2 * N


class Service:
    """Answers "No" and echoes the key wherever a service could; `rule` may answer instead.

    From request `stalls_from` on it hangs.
    """

    def __init__(
        self, rule: Callable[[str, int], HttpReply | None] = lambda content, count: None
    ) -> None:
        self.rule, self.stalls_from = rule, 10**9
        self.asked: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpReply:
        content = json.dumps(request.json()["messages"])
        self.asked.append(content)
        reply = self.rule(content, len(self.asked))
        if reply is not None:
            return reply
        echo = request.headers["authorization"]
        delay = 60.0 * (len(self.asked) >= self.stalls_from)
        return HttpReply(
            completion("No", debug=echo), headers={"x-debug": echo}, delay=delay
        )


def command(url: str, out: Path) -> list[str]:
    task = write_people(out.parent / "people", make_people(400, 2))
    words = f"eval --task {task} --shots zero,random --m 4 --model test-model"
    words += f" --n-test {N} --base-url {url}/v1 --api-key-env PLANTED_KEY"
    words += f" --set deadline=20 --concurrency 4 --out {out}"
    return [sys.executable, "-m", "fwc_llm", *words.split()]


def environment(key: str | None = KEY) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PLANTED_KEY"}
    return kept | {"PYTHONPATH": str(CHECKOUT)} | ({"PLANTED_KEY": key} if key else {})


Done = subprocess.CompletedProcess[str]
Evaluate = Callable[..., Done]


@pytest.fixture
def evaluate(tmp_path: Path) -> Iterator[Evaluate]:
    """Run the command to its end; afterwards look for the key in all that was written or said."""
    said: list[str] = []

    def run(url: str, key: str | None = KEY, **options: object) -> Done:
        done = subprocess.run(
            command(url, tmp_path / "run"),
            cwd=tmp_path,
            env=environment(key),
            text=True,
            capture_output=True,
            timeout=120,
            **options,  # type: ignore[call-overload]
        )
        said.extend((done.stdout, done.stderr))
        assert "Traceback" not in done.stderr
        return done

    yield run
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*said, *(path.read_text(errors="replace") for path in files)):
        assert KEY not in text
        assert KEY[:20] not in text


def journaled(folder: Path) -> list[str]:
    lines = (folder / "run" / "journal.jsonl").read_text().splitlines()[1:]
    return [
        record["request"]
        for record in map(json.loads, lines)
        if record["text"] is not None
    ]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_rows_without_a_reply_end_with_4_and_are_counted(
    out: Path, evaluate: Evaluate
) -> None:
    too_long = refusal(
        400, f"maximum context length exceeded by {KEY}", "context_length_exceeded"
    )
    service = Service(
        lambda content, count: too_long if count in {9, 17} else ECHOES.get(count)
    )
    with serve_in_thread(service) as url:
        done = evaluate(url)
        assert done.returncode == 4
        assert f"2 of {REQUESTS} requests have no reply" in " ".join(
            done.stderr.split()
        )
        answers = (out / "answers.csv").read_text().splitlines()
        assert sum(",error," in line for line in answers) == 2
        assert "accuracy" in done.stdout, "partial results are reported"
        again = evaluate(url)
    assert again.returncode == 0
    assert len(service.asked) == REQUESTS + 2 + len(ECHOES)


def test_an_interruption_ends_with_130_and_the_run_continues(
    tmp_path: Path, evaluate: Evaluate
) -> None:
    """By Ctrl-C, then by a supervisor."""
    service = Service()
    run = tmp_path / "run"
    kept = list[str]()
    with serve_in_thread(service) as url:
        for end in (signal.SIGINT, signal.SIGTERM):
            service.stalls_from = len(service.asked) + 20
            running = subprocess.Popen(
                command(url, run),
                cwd=tmp_path,
                env=environment(),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            while len(service.asked) < service.stalls_from and running.poll() is None:
                time.sleep(0.01)
            assert KEY not in " ".join(psutil.Process(running.pid).cmdline())
            if not kept:
                second = evaluate(url)
                assert second.returncode == 2
                assert "in use by another process" in last_line(second.stderr)
            running.send_signal(end)
            stdout, stderr = running.communicate(timeout=30)
            assert running.returncode == 130, stderr
            assert stdout == "", "no result of a part of the answers"
            assert KEY not in stderr
            before = len(kept)
            kept = journaled(tmp_path)
            asked = len(service.asked)
            assert 0 < len(kept) < REQUESTS
            assert f"{len(kept)} of {REQUESTS} requests" in stderr
            assert f"--out {run}" in last_line(stderr)
            assert (f"{before} of {REQUESTS} answered" in stderr) == bool(before)
        service.stalls_from = 10**9
        done = evaluate(url)
        assert done.returncode == 0, done.stderr
        assert len(service.asked) - asked == REQUESTS - len(kept), (
            "no answered request is asked again"
        )
        service.asked.clear()
        again = evaluate(url, key=None)
    assert again.returncode == 0, "a fully answered run needs no key"
    assert service.asked == []
    assert len(journaled(tmp_path)) == len(set(journaled(tmp_path))) == REQUESTS
