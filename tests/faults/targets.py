# ruff: noqa: E501
"""What is fuzzed: each target takes one input from a random generator; only an `FwcError` may come out."""

import asyncio
import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from fwc_llm.data.task_inference import draft_task
from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import Job
from fwc_llm.models import Client
from fwc_llm.models.base import Reply
from fwc_llm.models.openai.chat import ChatModel, read_reply
from fwc_llm.models.openai.retry import AttemptError, Pace, http_failure
from fwc_llm.prompts import Prompt
from fwc_llm.report.read import score_and_judge as score
from fwc_llm.report.write import render
from fwc_llm.runs.batch import batch_reply, batches_under_way
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Call, Journal, make_record
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import load_shots, save_shots, select_shots
from fwc_llm.tasks import Task, load_task
from fwc_llm.untrusted import visible
from tests.faults.loopback import completion
from tests.faults.mutation import HOSTILE_NUMBERS, damaged, hostile
from tests.models.four_members import FourMembers

TASK = b"""
title = "Made"
question = "Is it?"
missing = "drop"
columns = [
  { name = "x", kind = "numeric", unit = "km" }, { name = "c", kind = "categorical" },
  { name = "o", kind = "ordinal", order = ["low", "high"] }, { name = "sex" }, { name = "y" },
]
[values.c]
a = "the first"
[data]
file = "made.csv"
encoding = "utf-8"
separator = ","
[outcome]
column = "y"
positive = ["1"]
[[protected]]
column = "sex"
map = { f = "Female", m = "Male" }
"""
TABLE = b"x,c,o,sex,y\n" + b"".join(
    f"{k * 0.5},{'abc'[k % 3]},{('low', 'high')[k % 2]},{'fm'[k // 2 % 2]},{k % 5 == 0:d}\n".encode()
    for k in range(60)
)
_REPLY = json.dumps(
    completion("Yes") | {"choices": [{"message": {"role": "assistant", "content": "Yes, \u00e9"}, "finish_reason": "stop",
                         "logprobs": {"content": [{"token": "Yes", "top_logprobs": [{"token": "Yes", "logprob": -0.1}]}]}}]}
).encode()  # fmt: skip
_ERROR = json.dumps(
    {"error": {"message": "bad", "type": "t", "param": "temperature", "code": "x", "status": 500}}
).encode()
_CALL = Call("zero", 0, "row:1", "", ())
_HEADERS = ("retry-after", "retry-after-ms")
_DURATIONS = ("1s", "6m0s", "20ms", "8.64s", "1763750000", "9" * 400 + "h", "-1s", "soon", "1h" * 60,
              "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct " + "9" * 20 + " 07:28:00 GMT")  # fmt: skip


def reply(rng: random.Random) -> None:
    """The body of a response, through parser, classification, record and journal line."""
    body = hostile(rng.choice((_REPLY, _ERROR)), rng)
    value = _model().read_body(body.decode("utf-8", "replace"))
    try:
        refused = None if rng.random() < 0.7 else http_failure(rng.choice((400, 429, 500)), value, {})
        read = read_reply(value) if refused is None else Reply(str(refused))
    except AttemptError as failure:
        read = Reply(None, error=str(failure))
    record = make_record("ab" * 16, _CALL, read)
    json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")
    visible(str(record))


def headers(rng: random.Random) -> None:
    """Headers: no wait that they ask for delays anybody for longer than a deadline."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    now = [1000.0]
    pace = Pace(clock=lambda: now[0], sleep=sleep)

    async def go() -> None:
        for _ in range(3):
            values = (*HOSTILE_NUMBERS, *_DURATIONS, str(rng.randint(-9, 99)))
            sent = {name: rng.choice(values) for name in _HEADERS if rng.random() < 0.6}
            pace.refused(now[0], http_failure(429, None, sent).retry_after)
            await pace.turn(patience=300.0)

    asyncio.run(go())
    assert all(0.0 <= seconds <= 300.0 for seconds in slept), slept


def table(rng: random.Random) -> None:
    """A table, read as a good task file says, and drafted from."""
    folder = _folder("table")
    (folder / "made.toml").write_bytes(TASK)
    (folder / "made.csv").write_bytes(damaged(TABLE, rng))
    if rng.random() < 0.5:
        draft_task(folder / "made.csv", ["sex"], "y", folder)
    else:
        task = load_task(folder / "made.toml")
        Prompt(task).build(task.test().iloc[0])


def shots(rng: random.Random) -> None:
    """A file of saved examples, and the prompt with them."""
    task, good = _task()
    path = _folder("shots") / "shots.json"
    path.write_bytes(hostile(good, rng))
    loaded = load_shots(path, task, allow_changed_data=True)
    json.dumps(Prompt(task, loaded).build(task.test().iloc[0])).encode("utf-8")


def run_folder(rng: random.Random) -> None:
    """One file of a run's folder, then report and rescore."""
    good = _run()
    folder = _folder("runs") / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    content = path.read_bytes()
    if path.name in {"journal.jsonl", "questions.jsonl"} and rng.random() < 0.8:
        lines = content.splitlines(keepends=True)
        place = rng.randrange(len(lines))
        lines[place] = hostile(lines[place], rng).replace(b"\n", b" ") + b"\n"
        path.write_bytes(b"".join(lines))
    else:
        path.write_bytes(hostile(content, rng))
    with contextlib.suppress(FwcError):
        render([folder], rng.choice(("json", "json", "csv", "csv", "md", "md", "html")))
    with Journal(folder) as journal:
        score(RunFolder.existing(folder), journal)
    batches_under_way(folder)


def batch_line(rng: random.Random) -> None:
    response = {"status_code": 200, "body": json.loads(_REPLY)}
    good = json.dumps({"custom_id": "ab", "response": response, "error": None})
    value = _model().read_body(hostile(good.encode(), rng).decode("utf-8", "replace"))
    if isinstance(value, dict):
        with contextlib.suppress(AttemptError):
            json.dumps(make_record("ab", _CALL, batch_reply(value)), allow_nan=False).encode()


def batch_state(rng: random.Random) -> None:
    folder = _folder("batch")
    part = {"name": "0001", "requests": 3, "file_id": "file-1", "batch_id": "batch-1", "collected": False}
    (folder / "batch").mkdir(exist_ok=True)
    good = json.dumps({"format": "fwc-llm-batch/1", "parts": [part]}).encode()
    (folder / "batch" / "state.json").write_bytes(hostile(good, rng))
    batches_under_way(folder)


TARGETS: Mapping[str, Callable[[random.Random], None]] = {
    target.__name__: target for target in (reply, headers, table, shots, run_folder, batch_line, batch_state)
}


def one_case(name: str, seed: int) -> None:
    """One input of a target, the same for the same seed. Raises what a user would see as a traceback."""
    with contextlib.suppress(FwcError):
        TARGETS[name](random.Random(f"{name}-{seed}"))


_HOME = tempfile.TemporaryDirectory(prefix="fwc-llm-fuzz-")


def _folder(name: str) -> Path:
    folder = Path(_HOME.name) / name
    folder.mkdir(exist_ok=True)
    return folder


@cache
def _model() -> ChatModel:
    return ChatModel("test-model", Client(base_url="http://127.0.0.1:9/v1"))


@cache
def _task() -> tuple[Task, bytes]:
    folder = _folder("good")
    (folder / "made.csv").write_bytes(TABLE)
    (folder / "made.toml").write_bytes(TASK)
    task = load_task(folder / "made.toml")
    save_shots(select_shots(task, "random", m=4), folder / "shots.json")
    return task, (folder / "shots.json").read_bytes()


@cache
def _run() -> Path:
    """A folder as a run writes it, with examples; its model answers without being asked."""
    task, _ = _task()
    plan = make_plan(task, ["zero", "random"], Settings(m=2, n_test=8, base_parity=None))
    folder = _folder("good") / "run"
    Job(plan, _Answers(), Client()).run(folder)
    return folder


class _Answers(FourMembers):
    """A model of its own that answers at once."""

    async def ask(self, messages: object) -> Reply:
        return Reply("Yes" if len(str(messages)) % 2 else "No", logprobs=(("Yes", -0.5), ("No", -1.0)))
