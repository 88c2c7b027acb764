"""The job that asks a set's questions of another model."""

from collections.abc import Sequence
from dataclasses import replace

from evals.real_model.counter.draw import ARMS, TASK, ZERO, read_sets
from fwc_llm.evaluation.evaluate import Job, prepare
from fwc_llm.models import Client
from fwc_llm.runs.settings import Settings
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import load_task


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
