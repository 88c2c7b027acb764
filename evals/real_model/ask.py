"""Ask the questions of an experiment that answers.csv does not hold, and add their replies to
it.
"""

import asyncio
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evals.real_model.parts import FILES, fetch
from fwc_llm.evaluation.evaluate import Job, prepare
from fwc_llm.models import Client, Reply, Usage
from fwc_llm.models.recorded import FILE_NAME, read_records
from fwc_llm.progress import choose
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal, PlannedCall, call_id, make_record, parameters_json, parsed
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import equal_rows
from fwc_llm.shots import load_shots, select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, load_task

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers.csv"
SHOTS = HERE / "shots"  # chosen by `fwc-llm shots --task adult --m 16 --seed K`
ASKED_AGAIN = 3  # arms whose first question is asked again before a run goes on
_SAME = (
    0.01  # largest difference of P(yes) between two askings; what the cache holds moves it a little
)


@dataclass(frozen=True)
class Experiment:
    """A line of the plan's table: what is asked about which rows."""

    sets: int
    model: str = "1.5b"
    task: str = "adult"
    strategies: tuple[str, ...] = ("fwc", "balanced")
    zero: bool = True
    settings: Mapping[str, Any] = field(default_factory=lambda: {"n_test": 200, "base_parity": 0.5})


_FALL = {"n_test": 400, "base_parity": None}  # the first rows of each group are asked about
EXPERIMENTS = {
    "A": Experiment(5),
    "B": Experiment(2, strategies=("shuffled", "random", "kmedoids", "flipped"), zero=False),
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
    return [arm for arm in arms if experiment != "C-german" or arm not in ("fwc-2", "fwc-3")]


def examples(task: str, arm: str) -> str | Shots:
    """The source of an arm: a file of `shots`, or FWC's examples with their weights shuffled.

    Rows of COMPAS have no licence and are in no file here: its examples are chosen anew.
    """
    strategy, _, seed = arm.partition("-")
    if not seed:
        return arm
    folder = SHOTS if task == "adult" else SHOTS / task
    if task == "compas":
        return replace(select_shots(load_task(task), strategy, m=16, seed=int(seed)), strategy=arm)
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
            shown = json.dumps([[e["row"], e["label"], e.get("weight")] for e in examples])
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
        shown = [example.values for shots in repeat.shots.values() for example in shots.examples]
        test = test[~equal_rows(table, test, shown)].iloc[: ROWS if experiment == "B" else None]
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
    plan = prepare("adult", "baseline", arms, Settings(seed=1, **settings), Client()).plan
    return plan.task, plan.repeats[0].split.test


def run(experiment: str, models: Path, out: Path, threads: int) -> None:
    """Ask what is missing. The recorded replies are put into the new run's journal first."""
    model = fetch(FILES[EXPERIMENTS[experiment].model], models)
    client = Client(params={"threads": threads})
    job = prepared(experiment, f"gguf:{model}", arms_of(experiment), client)
    folder = RunFolder(out / experiment)
    if not folder.begun:
        restore(experiment, job, folder)
    with choose(True).asking(job.plan.n_calls) as state:
        print(job.run(folder.path, state))


def restore(experiment: str, job: Job, folder: RunFolder) -> None:
    """Begin the run's journal with the recorded replies, after some were given once more, alike."""
    recorded = {
        (row["arm"], row["row"]): row for row in read_answers() if row["experiment"] == experiment
    }
    calls = [call for call in job.plan.calls() if (call.arm, call.row) in recorded]
    if len(calls) != len(recorded):
        sys.exit(
            f"{len(recorded) - len(calls)} of the recorded questions are not those of this version"
        )
    first = list({call.arm: call for call in reversed(calls)}.values())[::-1][:ASKED_AGAIN]
    asyncio.run(_check_again(job, [(call, recorded[call.arm, call.row]) for call in first]))
    parameters = parameters_json(job.model)
    folder.create()
    with Journal(folder.path) as journal:
        for call in calls:
            reply = reply_of_row(recorded[call.arm, call.row])
            record = make_record(call_id(parameters, call), call, reply)
            journal.append({**record, "restored_from": ANSWERS.name})


def reply_of_row(row: dict[str, str]) -> Reply:
    """Return a row of answers.csv as the reply that it was."""
    usage = Usage(prompt_tokens=int(row["prompt_tokens"]))
    seconds = float(row["seconds"])
    if row["p_yes"]:
        p_yes = float(row["p_yes"])
    else:
        p_yes = None
    return Reply(row["reply"], finish_reason="stop", p_yes=p_yes, usage=usage, latency=seconds)


async def _check_again(job: Job, questions: list[tuple[PlannedCall, dict[str, str]]]) -> None:
    """Exit where a question that was answered before is answered otherwise now."""
    try:
        for call, row in questions:
            reply = await job.model.ask(call.messages)
            p_yes = parsed(reply)["p_yes"]
            if reply.usage:
                tokens = reply.usage.prompt_tokens
            else:
                tokens = 0
            print(
                f"{call.arm}, {call.row}: {reply.text} {p_yes}; recorded: {row['reply']} "
                f"{row['p_yes']}"
            )
            close = p_yes is not None and abs(p_yes - float(row["p_yes"])) <= _SAME
            if reply.text != row["reply"] or not close or tokens != int(row["prompt_tokens"]):
                sys.exit(
                    "the same question has another answer now: neither can stand beside the other"
                )
    finally:
        await job.model.aclose()


def collect(experiment: str, out: Path) -> None:
    """Add the replies of a run, which may be under way, to answers.csv; those that are there
    stay.
    """
    folder = RunFolder(out / experiment)
    recorded = read_answers()
    known = {(row["experiment"], row["arm"], row["row"]) for row in recorded}
    questions = {(row["arm"], row["row"]): row for row in folder.read_questions()}
    added: list[dict[str, Any]] = []
    for record in read_records(folder.path / FILE_NAME):
        key = experiment, record["arm"], record["row"]
        if record["text"] is None or key in known:
            continue
        known.add(key)
        question = questions[record["arm"], record["row"]]
        added.append(
            {
                "experiment": experiment,
                "arm": record["arm"],
                "row": record["row"],
                "group": question["group"],
                "label": question["label"],
                "reply": record["text"],
                "p_yes": "" if record["p_yes"] is None else record["p_yes"],
                "prompt_tokens": (record["usage"] or {}).get("prompt_tokens", ""),
                "seconds": round(record["latency"], 2),
            }
        )
    with ANSWERS.open("a", newline="", encoding="utf-8") as file:
        csv.DictWriter(file, list(recorded[0]), lineterminator="\n").writerows(added)
    print(f"{len(added)} replies added to {ANSWERS.name}; it has {len(known)}")
