"""The experiments of the plan: their arms, rows and examples, and the replies in answers.csv."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.evaluation.evaluate import Job, prepare
from fwc_llm.models import Client
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import equal_rows
from fwc_llm.shots import load_shots, select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, load_task

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers.csv"
SHOTS = HERE / "shots"  # chosen by `fwc-llm shots --task adult --m 16 --seed K`


@dataclass(frozen=True)
class Experiment:
    """A line of the plan's table: what is asked about which rows."""

    sets: int
    model: str = "1.5b"
    task: str = "adult"
    strategies: tuple[str, ...] = ("fwc", "balanced")
    zero: bool = True
    settings: Mapping[str, Any] = field(
        default_factory=lambda: {"n_test": 200, "base_parity": 0.5}
    )


_FALL = {
    "n_test": 400,
    "base_parity": None,
}  # the first rows of each group are asked about
EXPERIMENTS = {
    "A": Experiment(5),
    "B": Experiment(
        2, strategies=("shuffled", "random", "kmedoids", "flipped"), zero=False
    ),
    **{
        f"C-{task}": Experiment(3, task=task, settings=_FALL)
        for task in ("adult", "german", "compas")
    },
    "D": Experiment(1, model="0.5b"),
}
ROWS = 100  # of B and of each part of C


def arms_of(experiment: str) -> list[str]:
    """Names of the arms, in the order of asking; on German one of FWC, for all seeds choose the
    same rows.
    """
    asked = EXPERIMENTS[experiment]
    sets = range(1, asked.sets + 1)
    arms = [
        *["zero"] * asked.zero,
        *(f"{name}-{seed}" for seed in sets for name in asked.strategies),
    ]
    return [
        arm for arm in arms if experiment != "C-german" or arm not in ("fwc-2", "fwc-3")
    ]


def examples(task: str, arm: str) -> str | Shots:
    """The source of an arm: a file of `shots`, or FWC's examples with their weights shuffled.

    Rows of COMPAS have no licence and are in no file here: its examples are chosen anew.
    """
    strategy, _, seed = arm.partition("-")
    if not seed:
        return arm
    folder = SHOTS if task == "adult" else SHOTS / task
    if task == "compas":
        return replace(
            select_shots(load_task(task), strategy, m=16, seed=int(seed)), strategy=arm
        )
    if strategy != "shuffled":
        return str(folder / f"{arm}.json")
    shots = load_shots(folder / f"fwc-{seed}.json")
    order = np.random.default_rng(int(seed)).permutation(shots.m)
    moved = tuple(
        replace(each, weight=shots.examples[place].weight)
        for each, place in zip(shots.examples, order, strict=True)
    )
    return replace(shots, strategy=arm, examples=moved)


def equal_sets(experiment: str) -> dict[str, str]:
    """Arms whose prompts are those of an earlier arm of the experiment, by that arm."""
    if EXPERIMENTS[experiment].task == "adult":
        folder = SHOTS
    else:
        folder = SHOTS / EXPERIMENTS[experiment].task
    first: dict[str, str] = {}
    found = {}
    for arm in arms_of(experiment):
        path = folder / f"{arm}.json"
        if path.is_file():
            examples = json.loads(path.read_text(encoding="utf-8"))["examples"]
            shown = json.dumps(
                [[e["row"], e["label"], e.get("weight")] for e in examples]
            )
            earlier = first.setdefault(shown, arm)
            if earlier != arm:
                found[arm] = earlier
    return found


def read_answers(path: Path = ANSWERS) -> list[dict[str, str]]:
    """Return every recorded reply, a dict of the columns of answers.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def prepared(experiment: str, model: str, arms: Sequence[str], client: Client) -> Job:
    """Return the planned run of an experiment. All its sets are among the arms: they decide the
    test rows.
    """
    asked = EXPERIMENTS[experiment]
    settings = Settings(seed=1, **asked.settings)
    sources = [examples(asked.task, arm) for arm in arms]
    job = prepare(asked.task, model, sources, settings, client)
    repeat = job.plan.repeats[0]
    table = job.plan.task
    test = repeat.split.test
    if experiment in {"B", "D"}:
        test = test_rows()[1]
        shown = [
            example.values
            for shots in repeat.shots.values()
            for example in shots.examples
        ]
        test = test[~equal_rows(table, test, shown)].iloc[
            : ROWS if experiment == "B" else None
        ]
    elif experiment.startswith("C"):
        groups = table.sensitive(test)
        largest = sorted(table.groups, key=lambda name: -(groups == name).sum())[:2]
        of_groups = [np.flatnonzero(groups == name)[: ROWS // 2] for name in largest]
        test = test.iloc[np.sort(np.concatenate(of_groups))]
    repeats = (replace(repeat, split=replace(repeat.split, test=test)),)
    return replace(job, plan=replace(job.plan, repeats=repeats))


def test_rows() -> tuple[Task, pd.DataFrame]:
    """The task and the test rows of A."""
    arms = [examples("adult", arm) for arm in arms_of("A")]
    settings = EXPERIMENTS["A"].settings
    plan = prepare(
        "adult", "baseline", arms, Settings(seed=1, **settings), Client()
    ).plan
    return plan.task, plan.repeats[0].split.test
