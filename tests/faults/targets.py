"""What is fuzzed: each target takes one input from a random generator; only an `FwcError` may
come out.
"""

import asyncio
import contextlib
import json
import math
import random
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fwc_llm.cli.eval import KINDS, evaluate
from fwc_llm.cli.experiment import read_experiment
from fwc_llm.data.task_inference import draft_task
from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import Job
from fwc_llm.evaluation.verification import verify
from fwc_llm.models import Client
from fwc_llm.models.base import Reply
from fwc_llm.models.bodies import read_batch_line, read_reply
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.prices import price_of
from fwc_llm.models.openai.retry import AttemptError, Pace, http_failure
from fwc_llm.prompts import Prompt
from fwc_llm.report.audit_file import AuditOptions, audit_of_file
from fwc_llm.report.formats import render
from fwc_llm.runs.batch import batches_under_way
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.group import expanded
from fwc_llm.runs.journal import Journal, PlannedCall, make_record
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.recorded_run import score_run as score
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import replace_invisible
from fwc_llm.shots import load_shots, save_shots, select_shots
from fwc_llm.tasks import Task, load_task
from tests.conftest import CHECKOUT
from tests.faults.loopback import completion
from tests.faults.mutation import HOSTILE_NUMBERS, damaged, hostile
from tests.models.four_members import FourMembers

RECORDED = CHECKOUT / "tests" / "recorded_runs" / "v0"
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
    completion("Yes")
    | {
        "choices": [
            {
                "message": {"role": "assistant", "content": "Yes, \u00e9"},
                "finish_reason": "stop",
                "logprobs": {
                    "content": [
                        {
                            "token": "Yes",
                            "top_logprobs": [{"token": "Yes", "logprob": -0.1}],
                        }
                    ]
                },
            }
        ]
    }
).encode()
_ERROR = json.dumps(
    {
        "error": {
            "message": "bad",
            "type": "t",
            "param": "temperature",
            "code": "x",
            "status": 500,
        }
    }
).encode()


def _lines(rows: Iterable[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


_PRICES = (
    b'date = 2026-11-01\nsource = "s"\n[models]\n"test-model" = { input = 2.5, cached = 1.25, '
    b"output = 10 }\n"
)
_TUNING = {
    "goal": {"metric": "dp", "target": 0.1, "max_loss": 0.03},
    "model": "surrogate",
    "verdict": "v",
    "front": [
        {
            "candidate": "candidate-004",
            "kind": "balanced",
            "m": 4,
            "seed": 4,
            "order": "given",
            "rows": 60,
            "template": "default",
            "accuracy": 0.78,
            "accuracy_interval": [0.68, 0.89],
            "metric": 0.25,
            "metric_interval": [0.004, 0.5],
            "front": True,
            "chosen": True,
            "dropped": False,
        }
    ],
}
_DECIDED = [
    {
        "sex": "fm"[k % 2],
        "answer": ("no", "yes")[k % 3 == 0],
        "label": ("no", "yes")[k % 5 < 2],
        "p": 0.25,
        "row": k,
    }
    for k in range(40)
]
_DECISIONS = b"sex,answer,label,p,row\n" + b"".join(
    ",".join(map(str, line.values())).encode() + b"\n" for line in _DECIDED
)
_ASKED = AuditOptions(
    protected=("sex",), answer="answer", label="label", p_yes="p", row="row"
)
_ASKED_OUTPUT = AuditOptions(protected=("sex",), answer="decision", label="hired")
_EXTERNAL = [  # of the Batch API
    _lines(
        {
            "custom_id": str(k),
            "sex": "fm"[k % 2],
            "hired": "no",
            "response": {"status_code": 200, "body": json.loads(_REPLY)},
        }
        for k in range(4)
    )
]
_CELLS = (
    "yes",
    "no",
    "",
    "\0",
    "=1+1",
    0,
    1,
    10**18,
    0.5,
    math.nan,
    math.inf,
    True,
    False,
    b"\xff",
    [1],
    {"a": "x"},
    Decimal("0.1"),
    datetime(2026, 11, 1),
    date(1, 1, 1),
    "x" * 5000,
)
_CALL = PlannedCall("zero", 0, "row:1", "", ())
_HEADERS = ("retry-after", "retry-after-ms")
_DURATIONS = (
    "1s",
    "6m0s",
    "20ms",
    "8.64s",
    "1763750000",
    "9" * 400 + "h",
    "-1s",
    "soon",
    "1h" * 60,
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Wed, 21 Oct " + "9" * 20 + " 07:28:00 GMT",
)


def reply(rng: random.Random) -> None:
    """The body of a response, through parser, classification, record and journal line."""
    body = hostile(rng.choice((_REPLY, _ERROR)), rng)
    value = _model().read_body(body.decode("utf-8", "replace"))
    try:
        if rng.random() < 0.7:
            refused = None
        else:
            refused = http_failure(rng.choice((400, 429, 500)), value, {})
        read = read_reply(value) if refused is None else Reply(str(refused))
    except AttemptError as failure:
        read = Reply(None, error=str(failure))
    record = make_record("ab" * 16, _CALL, read)
    json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")
    replace_invisible(str(record))


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
            json.dumps(
                make_record("ab", _CALL, read_batch_line(value)), allow_nan=False
            ).encode()


def batch_state(rng: random.Random) -> None:
    folder = _folder("batch")
    part = {
        "name": "0001",
        "requests": 3,
        "file_id": "file-1",
        "batch_id": "batch-1",
        "collected": False,
    }
    (folder / "batch").mkdir(exist_ok=True)
    good = json.dumps({"format": "fwc-llm-batch/1", "parts": [part]}).encode()
    (folder / "batch" / "state.json").write_bytes(hostile(good, rng))
    batches_under_way(folder)


def parquet(rng: random.Random) -> None:
    """A Parquet table of decisions, damaged or with columns of any type."""
    path = _folder("parquet") / "decisions.parquet"
    values = _decisions()
    for name in values.column_names if rng.random() < 0.7 else ():
        if rng.random() < 0.4:
            cells = [
                rng.choice(_CELLS) if rng.random() < 0.5 else None
                for _ in range(len(values))
            ]
            kind = type(cells[0])
            column = pa.array([cell if type(cell) is kind else None for cell in cells])
            values = values.set_column(values.column_names.index(name), name, column)
    pq.write_table(values, path)
    if rng.random() < 0.3:
        path.write_bytes(damaged(path.read_bytes(), rng))
    audit_of_file(path, _ASKED)


def evidence(rng: random.Random) -> None:
    """One file of what `verify` reads: a run's folder with its hashes, or an audit with its
    table.
    """
    good = rng.choice((_run(), RECORDED / "audit"))
    folder = _folder("evidence") / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    path = rng.choice(sorted(path for path in folder.rglob("*.json")))
    path.write_bytes(hostile(path.read_bytes(), rng))
    json.dumps(verify(folder), allow_nan=False).encode()


def _read_prices(path: Path) -> None:
    named = path.rename(
        path.with_name(f"{secrets.token_hex(8)}.toml")
    )  # a file is read once
    try:
        price_of("test-model", str(named))
    finally:
        named.unlink()


def _read_task(path: Path) -> None:
    (path.parent / "made.csv").write_bytes(TABLE)
    load_task(path).test()


@cache
def _run() -> Path:
    """A folder as a run writes it, with examples; its model answers without being asked."""
    task, _ = _task()
    plan = make_plan(
        task, ["zero", "random"], Settings(m=2, n_test=8, base_parity=None)
    )
    folder = _folder("good") / "run"
    Job(plan, _Answers(), Client()).run(folder)
    (folder / "tuning.json").write_text(json.dumps(_TUNING))
    return folder


# By the name of a reader: the file's name, good ones, and what reads it.
_OF_FILES: dict[
    str, tuple[str, Callable[[], Sequence[bytes]], Callable[[Path], object]]
] = {
    "task_file": ("made.toml", lambda: [TASK], _read_task),
    "experiment": (
        "experiment.toml",
        lambda: [(_run() / "experiment.toml").read_bytes()],
        lambda path: read_experiment(path, evaluate, KINDS),
    ),
    "prices": ("prices.toml", lambda: [_PRICES], _read_prices),
    "decisions_csv": (
        "decisions.csv",
        lambda: [_DECISIONS],
        lambda path: audit_of_file(path, _ASKED),
    ),
    "decisions_json": (
        "decisions.jsonl",
        lambda: [_lines(_DECIDED), json.dumps(_DECIDED).encode()],
        lambda path: audit_of_file(path, _ASKED),
    ),
    "external_results": (
        "results.json",
        lambda: _EXTERNAL,
        lambda path: audit_of_file(path, _ASKED_OUTPUT),
    ),
    "models": (
        "models.json",
        lambda: [b'{"format": "fwc-llm-models/1", "models": ["a", "b"]}'],
        lambda path: list(expanded([path.parent])),
    ),
}


def _of_file(name: str) -> Callable[[random.Random], None]:
    file, seeds, read = _OF_FILES[name]

    def target(rng: random.Random) -> None:
        path = _folder(name) / file
        path.write_bytes(hostile(rng.choice(seeds()), rng))
        read(path)

    return target


TARGETS: Mapping[str, Callable[[random.Random], None]] = {
    **{
        target.__name__: target
        for target in (
            reply,
            headers,
            table,
            shots,
            run_folder,
            batch_line,
            batch_state,
            parquet,
            evidence,
        )
    },
    **{name: _of_file(name) for name in _OF_FILES},
}


def one_case(name: str, seed: int) -> None:
    """One input of a target, the same for the same seed. Raises what a user would see as a
    traceback.
    """
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
def _decisions() -> pa.Table:
    return pa.Table.from_pylist(_DECIDED)


@cache
def _task() -> tuple[Task, bytes]:
    folder = _folder("good")
    (folder / "made.csv").write_bytes(TABLE)
    (folder / "made.toml").write_bytes(TASK)
    task = load_task(folder / "made.toml")
    save_shots(select_shots(task, "random", m=4), folder / "shots.json")
    return task, (folder / "shots.json").read_bytes()


class _Answers(FourMembers):
    """A model of its own that answers at once."""

    async def ask(self, messages: object) -> Reply:
        return Reply(
            "Yes" if len(str(messages)) % 2 else "No",
            logprobs=(("Yes", -0.5), ("No", -1.0)),
        )
