"""What is fuzzed: each target takes one input from a random generator; only an `FwcError` may
come out.
"""

import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from fwc_llm.cli.eval import evaluate, read_experiment
from fwc_llm.data.task_inference import draft_task
from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import Job
from fwc_llm.evaluation.verification import verify
from fwc_llm.models import Client
from fwc_llm.models.base import Reply
from fwc_llm.models.bodies import read_batch_line, read_reply
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.retry import AttemptError, http_failure
from fwc_llm.prompts import Prompt
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.report.formats import render
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal, PlannedCall, make_record
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.recorded_run import score_run as score
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import load_shots, save_shots, select_shots
from fwc_llm.tasks import Task, load_task
from tests.conftest import CHECKOUT
from tests.faults.loopback import completion
from tests.faults.mutation import damaged, hostile
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


def _lines(rows: Iterable[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


_TOKEN = {"token": "Yes", "top_logprobs": [{"token": "Yes", "logprob": -0.1}]}
_BODY = completion("Yes, \u00e9")
_BODY["choices"][0]["logprobs"] = {"content": [_TOKEN]}
_ERROR = {"error": {"message": "bad", "type": "t", "param": "x", "status": 500}}
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
_AUDITED = AuditOptions(
    protected=("sex",), answer="answer", label="label", p_yes="p", row="row"
)
_OUTPUT = {"status_code": 200, "body": _BODY}  # of the Batch API
_CALL = PlannedCall("zero", 0, "row:1", "", ())


def reply(rng: random.Random) -> None:
    """The body of a response or a line of a batch, through parser, record and journal line."""
    line = {"custom_id": "ab", "response": _OUTPUT, "error": None}
    good = json.dumps(rng.choice((_BODY, _ERROR, line))).encode()
    value = _model().read_body(hostile(good, rng).decode("utf-8", "replace"))
    try:
        read = read_reply(value)
        if isinstance(value, dict):
            read = read_batch_line(value)
    except AttemptError as failure:
        refused = http_failure(rng.choice((400, 429, 500)), value, {})
        read = Reply(None, error=f"{failure} {refused}")
    record = make_record("ab" * 16, _CALL, read)
    json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")


def run_folder(rng: random.Random) -> None:
    """One file of a run's folder, then report, rescore and verify."""
    folder = _folder("runs") / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(rng.choice((_run(), RECORDED / "audit")), folder)
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    lines = path.read_bytes().splitlines(keepends=True)
    if path.suffix == ".jsonl" and rng.random() < 0.8:
        number = rng.randrange(len(lines))
        lines[number] = hostile(lines[number], rng).replace(b"\n", b" ") + b"\n"
        path.write_bytes(b"".join(lines))
    else:
        path.write_bytes(hostile(b"".join(lines), rng))
    with contextlib.suppress(FwcError):
        render([folder], rng.choice(("json", "csv", "md", "html")))
    with contextlib.suppress(FwcError):
        json.dumps(verify(folder), allow_nan=False).encode()
    found = RunFolder.existing(folder)
    with Journal(folder) as journal:
        score(found, journal)


def _read_task(path: Path) -> None:
    path.with_name("made.csv").write_bytes(TABLE)
    load_task(path).test()


def _read_table(path: Path) -> None:
    path.with_name("made.toml").write_bytes(TASK)
    with contextlib.suppress(FwcError):
        draft_task(path, ["sex"], "y", path.parent)
    task = load_task(path.with_name("made.toml"))
    Prompt(task).build(task.test().iloc[0])


def _read_shots(path: Path) -> None:
    task, _ = _task()
    loaded = load_shots(path, task, allow_changed_data=True)
    json.dumps(Prompt(task, loaded).build(task.test().iloc[0])).encode("utf-8")


# By the name of a reader: the file's name, a good one, and what reads it.
_OF_FILES: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], object]]] = {
    "task_file": ("made.toml", lambda: TASK, _read_task),
    "table": ("made.csv", lambda: TABLE, _read_table),
    "shots": ("shots.json", lambda: _task()[1], _read_shots),
    "experiment": (
        "experiment.toml",
        lambda: (_run() / "experiment.toml").read_bytes(),
        lambda path: read_experiment(path, evaluate.__annotations__),
    ),
    "decisions": (
        "decisions.jsonl",
        lambda: _lines(_DECIDED),
        lambda path: audit_of_file(path, _AUDITED),
    ),
    "batch_output": (
        "results.jsonl",
        lambda: _lines({"sex": "fm"[k % 2], "response": _OUTPUT} for k in range(4)),
        lambda path: audit_of_file(
            path, AuditOptions(protected=("sex",), answer="decision")
        ),
    ),
}


def _of_file(name: str) -> Callable[[random.Random], None]:
    file, good, read = _OF_FILES[name]

    def target(rng: random.Random) -> None:
        path = _folder(name) / file
        damage = damaged if name == "table" else hostile
        path.write_bytes(damage(good(), rng))
        read(path)

    return target


TARGETS: Mapping[str, Callable[[random.Random], None]] = {
    "reply": reply,
    "run_folder": run_folder,
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


@cache
def _run() -> Path:
    """A folder as a run writes it, with examples; its model answers without being asked."""
    task, _ = _task()
    plan = make_plan(
        task, ["zero", "random"], Settings(m=2, n_test=8, base_parity=None)
    )
    folder = _folder("good") / "run"
    Job(plan, _Answers(), Client()).run(folder)
    return folder
