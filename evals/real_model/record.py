"""Write `fwc-llm eval recorded`: three arms of experiment A as rows, examples and a journal to
replay.
"""

import gzip
import json
import re
import shutil
from pathlib import Path

import pandas as pd

from evals.real_model.ask import SHOTS, read_answers, test_rows
from evals.real_model.parts import FILES
from fwc_llm.evaluation.evaluate import prepare
from fwc_llm.files import resource_dir
from fwc_llm.models import Client, Reply, Usage
from fwc_llm.models.recorded import FILE_NAME, HEADER
from fwc_llm.runs.journal import call_id, make_record
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import Task, load_task

FOLDER = resource_dir("evals/tasks") / "recorded"
ARMS = {
    "zero": "zero",
    "balanced": "balanced-1",
    "fwc": "fwc-1",
}  # as named there, and in answers.csv
_MODEL = "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M"
_DATA = """\
[data]
pool = "examples.csv"
test = "rows.csv"

"""
_ABOUT = """\
[about]
intended_use = "To see and to test with what a real model answered. 200 rows are too few to judge the model."
population = "200 test rows of Adult, 100 of each sex: one in four women and three in four men earn more."
source = "UCI Machine Learning Repository, dataset 2; drawn by evals/real_model/plan.md, experiment A."
"""
_EXPERIMENT = """\
# What a real model answered, given again: `fwc-llm eval recorded`.
# Made by `python -m evals.real_model record`.

task = "adult.toml"
model = "replay:."
shots = "zero,balanced.json,fwc.json"
weight = "none" # fnlwgt is not used
allow-changed-data = true # the examples were chosen from all 32,561 rows
"""


def record(folder: Path = FOLDER) -> None:
    """Write the folder: the task with its rows, the examples, and the replies that answers.csv
    holds.
    """
    task, test = test_rows()
    sets = {name: SHOTS / f"{arm}.json" for name, arm in ARMS.items() if name != "zero"}
    shown = {
        example["row"]
        for path in sets.values()
        for example in json.loads(path.read_text())["examples"]
    }
    _write_rows(task, test, folder / "rows.csv")
    _write_rows(task, task.pool().loc[sorted(shown)], folder / "examples.csv")
    text = re.sub(r"\[data\]\n.*?(?=\[outcome\])", _DATA, task.text, flags=re.S)
    (folder / "adult.toml").write_text(
        text.partition("[about]")[0] + _ABOUT, encoding="utf-8"
    )
    (folder / "experiment.toml").write_text(_EXPERIMENT, encoding="utf-8")
    for name, path in sets.items():
        shutil.copy(path, folder / f"{name}.json")
    source = {"file": FILES["1.5b"].name, "sha256": FILES["1.5b"].sha256}
    parameters = {
        "temperature": 0,
        "max_tokens": 20,
        "logprobs": True,
        "top_logprobs": 20,
        "gguf": source,
    }
    described = {
        "model": _MODEL,
        "parameters": parameters,
        "settings": {},
        "simulated": False,
    }
    (folder / "run.json").write_text(
        json.dumps(described, indent=1) + "\n", encoding="utf-8"
    )
    _write_journal(folder, json.dumps(parameters, sort_keys=True), list(test.index))


def _write_rows(task: Task, rows: pd.DataFrame, path: Path) -> None:
    """Write rows as the task file reads them."""
    table = rows[[column.name for column in task.columns]].copy()
    table[task.outcome] = [("<=50K", ">50K")[label] for label in task.labels(rows)]
    table.to_csv(path, index=False, lineterminator="\n")


def _write_journal(folder: Path, parameters: str, rows: list[str]) -> None:
    """Write the replies under the prompts that the folder's own task makes."""
    given = {
        (row["arm"], row["row"]): row
        for row in read_answers()
        if row["experiment"] == "A"
    }
    arms = [name if name == "zero" else str(folder / f"{name}.json") for name in ARMS]
    task = load_task(folder / "adult.toml")
    job = prepare(task, "baseline", arms, Settings(), Client(), allow_changed_data=True)
    lines = []
    for call in job.plan.calls():
        row = given[
            ARMS[call.arm], rows[int(call.row.rpartition(":")[2]) - 2]
        ]  # from line 2 on
        reply = Reply(
            row["reply"],
            finish_reason="stop",
            p_yes=float(row["p_yes"]),
            usage=Usage(prompt_tokens=int(row["prompt_tokens"])),
            latency=float(row["seconds"]),
        )
        record = make_record(call_id(parameters, call), call, reply)
        del record["time"]  # of this command
        lines.append(json.dumps(record).encode() + b"\n")
    with (folder / f"{FILE_NAME}.gz").open("wb") as file:
        packed = gzip.GzipFile(
            "", "wb", fileobj=file, mtime=0
        )  # the same bytes on every day
        packed.write(HEADER + b"".join(lines))
        packed.close()
