"""The recorded answers of GPT models on Adult rows (published with DecodingTrust), scored as a run is."""

import json
from pathlib import Path

import numpy as np

from evals.paper.experiment import Row
from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.variance import arrays_of
from fwc_llm.models.base import Reply
from fwc_llm.tasks import load_task

FOLDER = "gpt4-answers"
# file: model, arm, examples. 200 test rows each; their base-rate parity differs and is measured.
FILES = {
    "gpt-4-0314_adult_0_200.jsonl": ("gpt-4-0314", "zero", 0),
    "gpt-4-0314_adult_0_200_8.jsonl": ("gpt-4-0314, other rows", "zero", 0),
    "gpt-4-0314_adult_4_200.jsonl": ("gpt-4-0314", "balanced", 4),
    "gpt-4-0314_adult_16_200.jsonl": ("gpt-4-0314", "balanced", 16),
    "gpt-3.5-turbo-0301_adult_0_200.jsonl": ("gpt-3.5-turbo-0301", "zero", 0),
}


def score_recordings(folder: Path, data_dir: str | None) -> list[Row]:
    """One row per file: coverage, accuracy, parity, equalized odds, and the base-rate parity of its rows."""
    known = _people(data_dir)
    return [
        {"model": model, "arm": arm, "examples": m, "repeat": 0, **_score(folder / name, known)}
        for name, (model, arm, m) in FILES.items()
    ]


def _people(data_dir: str | None) -> dict[str, tuple[str, int]]:
    """Description of every Adult test row -> (sex, label)."""
    task = load_task("adult", data_dir)
    rows = task.test()
    words = {column.name: column.text for column in task.shown}
    texts = (
        rows[list(words)]
        .astype(str)
        .apply(lambda row: ", ".join(f"{words[c]} {v}" for c, v in row.items()), axis=1)
    )
    return dict(zip(texts, zip(task.sensitive(rows), task.labels(rows), strict=True), strict=True))


def _score(path: Path, known: dict[str, tuple[str, int]]) -> Row:
    said, labels, groups = [], [], []
    for messages, response in json.loads(path.read_text(encoding="utf-8")):
        text = messages[-1]["content"].split("has the following attributes: ")[1].split(".\n")[0]
        if text not in known:
            raise FwcError(f"{path.name}: a recorded row is not in Adult's test rows: {text}")
        group, label = known[text]
        answer = parse_answer(Reply(text=response["choices"][0]["message"]["content"])).value
        said.append({"yes": 1.0, "no": 0.0, None: np.nan}[answer])
        labels.append(label)
        groups.append(group)
    found = estimate(arrays_of(said, labels, groups)[0])
    truth = estimate(arrays_of(labels, labels, groups)[0])
    names = {
        "accuracy": "accuracy",
        "dp": "demographic_parity_difference",
        "odds": "equalized_odds_difference",
    }
    return {
        "n": len(said),
        "coverage": found.value("coverage"),
        **{short: found.value(name) for short, name in names.items()},
        "base_parity": truth.value("demographic_parity_difference"),
    }
