"""The recorded answers as a run's journal, and the job that asks a set's questions of another
model.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from evals.real_model.counter.ask import calls, units
from evals.real_model.counter.draw import ARMS, TASK, ZERO, read_sets
from evals.real_model.parts import FILES
from fwc_llm.evaluation.evaluate import Job, prepare
from fwc_llm.models import Client, Reply, Usage
from fwc_llm.models.recorded import FILE_NAME, HEADER
from fwc_llm.runs.journal import call_id, make_record
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import load_task

_MODEL = "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M"


def write_journal(answers: pd.DataFrame, folder: Path) -> None:
    """Write what `--model replay:FOLDER` reads: the recorded replies under the prompts of the
    plan.
    """
    recorded = {
        (f"{line['arm']}-{line['set']}", line["row"]): line
        for line in answers.to_dict("records")
    }
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
    (folder / "run.json").write_text(json.dumps(described) + "\n", encoding="utf-8")
    asked = [unit for unit in units() if (answers["arm"] == unit.arm).any()]
    with (folder / FILE_NAME).open("wb") as file:
        file.write(HEADER)
        for call in calls(load_task(TASK), asked):
            line = recorded.get((call.arm, call.row))
            if line is not None:
                usage = Usage(prompt_tokens=int(line["prompt_tokens"]))
                reply = Reply(
                    str(line["reply"]), "stop", p_yes=float(line["p_yes"]), usage=usage
                )
                record = make_record(call_id(json.dumps(parameters), call), call, reply)
                file.write(json.dumps(record).encode() + b"\n")


def job_of(model: str, number: int, rows: Sequence[str]) -> Job:
    """The run that asks `model` about these rows, without examples and with the arms' set
    `number`.
    """
    task = load_task(TASK)
    sets = read_sets(task)
    arms: list[str | Shots] = [ZERO, *(sets[arm, number] for arm in ARMS)]
    job = prepare(task, model, arms, Settings(n_test=4, base_parity=0.0), Client())
    repeat = job.plan.repeats[0]
    split = replace(repeat.split, test=task.test().loc[list(rows)])
    return replace(job, plan=replace(job.plan, repeats=(replace(repeat, split=split),)))
