"""The template set `decodingtrust` against every recorded conversation, byte for byte."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.prompts import build_prompt
from fwc_llm.shots.base import Example, Shots
from fwc_llm.tasks import Task, load_task

# How the recorded text names Adult's columns, in the file's order.
WORDS = (
    "age", "workclass", "final weight", "education", "highest education level", "marital status",
    "occupation", "relationship", "race", "sex", "capital gain", "capital loss", "hours per week",
    "native country",
)  # fmt: skip
DESCRIPTION = re.compile(", ".join(f"{words} (.+?)" for words in WORDS) + r"\.\n")

Key = tuple[str, ...]


@pytest.fixture(scope="module")
def adult(data_dir: Path) -> Task:
    return load_task("adult", data_dir)


@pytest.fixture(scope="module")
def rows(adult: Task) -> dict[Key, list[dict[Any, Any]]]:
    """The rows of adult.data and adult.test by what their description says."""
    names = [column.name for column in adult.shown]
    found: dict[Key, list[dict[Any, Any]]] = defaultdict(list)
    for row in (*adult.pool().to_dict("records"), *adult.test().to_dict("records")):
        found[tuple(str(row[name]) for name in names)].append(row)
    return found


def described(text: str) -> Key:
    match = DESCRIPTION.search(text)
    assert match, text
    return match.groups()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "m"),
    [
        ("gpt-4-0314_adult_0_200.jsonl", 0),
        ("gpt-4-0314_adult_0_200_8.jsonl", 0),
        ("gpt-4-0314_adult_4_200.jsonl", 4),
        ("gpt-4-0314_adult_16_200.jsonl", 16),
        ("gpt-3.5-turbo-0301_adult_0_200.jsonl", 0),
    ],
)
def test_every_recorded_conversation_is_reproduced(
    adult: Task, rows: dict[Key, list[dict[Any, Any]]], data_dir: Path, file: str, m: int
) -> None:
    recorded = json.loads((data_dir / "gpt4-answers" / file).read_text())
    assert len(recorded) == 200
    for messages, _ in recorded:
        examples = []
        for question, answer in zip(messages[1:-1:2], messages[2:-1:2], strict=True):
            label = answer["content"].lower()
            row = next(row for row in rows[described(question["content"])] if row["income"] == label)
            examples.append(Example("adult.data", row, label))
        assert len(examples) == m
        shots = Shots("recorded", "adult", adult.fingerprint, 0, tuple(examples)) if m else None
        row = rows[described(messages[-1]["content"])][0]
        assert build_prompt(adult, row, shots, "decodingtrust") == messages
