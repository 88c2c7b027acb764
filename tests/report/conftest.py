"""Run folders to report on: written as a run writes them, with answers whose truth is known."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.runs.folder import FORMAT, RunFolder
from fwc_llm.shots.base import Example, Shots
from fwc_llm.shots.storage import save_shots

# How often each arm says yes: group, then label no / yes. "zero" is far apart, "fwc" nearly alike.
RATES = {
    "zero": {"Female": (0.05, 0.55), "Male": (0.35, 0.85)},
    "balanced": {"Female": (0.12, 0.60), "Male": (0.30, 0.78)},
    "fwc": {"Female": (0.25, 0.62), "Male": (0.22, 0.60)},
}
MakeRun = Callable[..., Path]


def questions(
    repeats: int, groups: tuple[str, ...], per_cell: tuple[int, int]
) -> list[dict[str, Any]]:
    """Rows of the paper's design: the first group mostly no, the last mostly yes."""
    few, many = sorted(per_cell)
    rows = [
        {"group": group, "label": label}
        for place, group in enumerate(groups)
        for label in ("no", "yes")
        for _ in range(many if (label == "yes") == (place > 0) else few)
    ]
    return [
        {"repeat": repeat, "row": f"adult.test:{repeat * 1000 + line}"} | row
        for repeat in range(repeats)
        for line, row in enumerate(rows, 1)
    ]


def write_run(
    folder: Path,
    rates: Mapping[str, Mapping[str, tuple[float, float]]] = RATES,
    repeats: int = 5,
    per_cell: tuple[int, int] = (25, 75),
    seed: int = 0,
    unparsed: float = 0.02,
    probabilities: bool = False,
    counterfactual: bool = False,
    task: str = "adult",
    model: str = "gpt-4",
    simulated: bool = False,
    evil: str = "",
    **changes: Any,
) -> Path:
    """Write a run's folder: answers drawn from `rates`, one seed, the same rows for all arms.

    `evil` is put where data may stand: an example's cell, a prompt and a reply.
    """
    rng = np.random.default_rng(seed)
    groups = tuple(next(iter(rates.values())))
    asked = questions(repeats, groups, per_cell)
    answers = []
    for arm, by_group in rates.items():
        for question in asked:
            own = question["group"]
            for told in (
                own,
                *(group for group in groups if counterfactual and group != own),
            ):
                p = by_group[told][question["label"] == "yes"]
                lost = rng.random() < unparsed
                answer = "yes" if rng.random() < p else "no"
                shown = np.clip(p + rng.normal(0, 0.1), 0, 1)
                answers.append(
                    {
                        "arm": arm,
                        **question,
                        "variant": "" if told == own else f"counterfactual:{told}",
                        "answer": "" if lost else answer,
                        "reason": "refused" if lost else "",
                        "p_yes": f"{shown:.6f}" if probabilities else "",
                        "reply": f"I cannot say. {evil}\nSorry."
                        if lost
                        else answer.title(),
                    }
                )
    settings = {
        "m": 16,
        "n_test": sum(per_cell) * len(groups),
        "base_parity": 0.5,
        "repeats": repeats,
        "seed": seed,
        "counterfactual": counterfactual,
    }
    described = {
        "format": FORMAT,
        "task": task,
        "title": "UCI Adult",
        "model": model,
        "parameters": {"temperature": 0},
        "simulated": simulated,
        "arms": list(rates),
        "sources": {arm: arm for arm in rates},
        "settings": settings,
        "fingerprint": "0" * 64,
        "calls": len(answers),
        "created": "2026-11-21T07:00:00+0000",
        "versions": {"python": "3.11.9", "fwc-llm": "0.1.0"},
        "command": "fwc-llm eval --task adult",
    } | changes
    run = write_folder(folder, described, answers)
    for arm in rates:
        person = {"role": "user", "content": "age 39, education Bachelors, sex Female"}
        run.write_json(
            f"prompts/{arm}.json",
            [{"role": "system", "content": f"Yes or no? {evil}"}, person],
        )
        for repeat in range(repeats if arm != "zero" else 0):
            save_shots(
                some_shots(arm, task, repeat, evil),
                folder / "shots" / f"{arm}-{repeat}.json",
            )
    return folder


def write_folder(
    folder: Path, described: Mapping[str, Any], answers: list[dict[str, Any]]
) -> RunFolder:
    """Write run.json, answers.csv and results.json."""
    folder.mkdir(parents=True)
    run = RunFolder(folder)
    run.write_json("run.json", described)
    run.write_answers(answers)
    run.write_json("results.json", results_of(described, answers))
    return run


def some_shots(arm: str, task: str, repeat: int, evil: str = "") -> Shots:
    """Sixteen examples; with weights and a certificate for fwc."""
    rng = np.random.default_rng(repeat)
    weights = rng.dirichlet(np.ones(16)) * 16
    examples = []
    for i, weight in enumerate(weights.tolist()):
        school = "HS-grad" if i else f"Bachelors{evil}"
        sex = "Female" if i % 2 else "Male"
        values = {"age": 20 + 2 * i, "education": school, "sex": sex}
        label = "yes" if i % 4 < 2 else "no"
        own = weight if arm == "fwc" else None
        examples.append(
            Example(f"adult.data:{100 * repeat + i + 1}", values, label, own)
        )
    certificate = {
        "objective": 3.84,
        "lower_bound": 3.84,
        "violation": 0.01,
        "epsilon": 0.01,
        "iterations": 7,
        "restarts": 1,
    }
    return Shots(
        arm,
        task,
        "0" * 64,
        repeat,
        tuple(examples),
        certificate if arm == "fwc" else None,
    )


def results_of(
    described: Mapping[str, Any], answers: list[dict[str, Any]]
) -> dict[str, Any]:
    """results.json as a run writes it."""
    settings = described["settings"]
    return {
        "format": "fwc-llm-results/2",
        **{name: described[name] for name in ("task", "model", "simulated")},
        **{
            name: settings[name]
            for name in ("n_test", "base_parity", "seed", "repeats")
        },
        "returned_models": ["gpt-4-0314"],
        "requests": len(answers),
        "unanswered": 0,
        "usage": {
            "prompt_tokens": 150 * len(answers),
            "completion_tokens": len(answers),
        },
        "records": [_accuracy(arm, answers) for arm in described["arms"]],
    }


def _accuracy(arm: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The accuracy of an arm's answers, the mean over repeats, as a record."""
    frame = pd.DataFrame(
        [a for a in answers if a["arm"] == arm and not a["variant"] and a["answer"]]
    )
    if frame.empty:
        return {"arm": arm, "metric": "accuracy"}
    right = (frame["answer"] == frame["label"]).groupby(frame["repeat"]).mean().mean()
    return {"arm": arm, "metric": "accuracy", "value": float(right)}


def answer_row(
    row: object, group: str, label: str, said: str, **more: Any
) -> dict[str, Any]:
    """A line of answers.csv; without an answer its reason is an error."""
    return {
        "arm": "zero",
        "repeat": 0,
        "row": str(row),
        "variant": "",
        "group": group,
        "label": label,
        "answer": said,
        "reason": "" if said else "error",
        "p_yes": "",
        "reply": said,
    } | more


def lines(text: str) -> list[dict[str, str]]:
    """The lines of a report as CSV."""
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs that are invented: no table belongs to them."""
    monkeypatch.setenv("FWC_LLM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a run's folder from answers: name, run.json's changes, rows of
    answers.csv.
    """

    def make(name: str, answers: list[dict[str, Any]], **described: Any) -> Path:
        settings = {
            "n_test": len(answers),
            "base_parity": None,
            "repeats": 1,
            "seed": 0,
        }
        whole = {
            "format": FORMAT,
            "simulated": False,
            "settings": settings,
            **described,
        }
        return write_folder(tmp_path / name, whole, answers).path

    return make


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A function that writes a run's folder; see `write_run`."""

    def make(name: str = "run", **options: Any) -> Path:
        return write_run(tmp_path / name, **options)

    return make
