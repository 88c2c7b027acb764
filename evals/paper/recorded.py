"""The recorded answers of GPT models on Adult rows (published with DecodingTrust), scored as a
run is.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evals.paper.experiment import Row
from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.variance import arrays_of
from fwc_llm.models.base import Reply
from fwc_llm.tasks import Task, load_task

FOLDER = "gpt4-answers"
# file: model, arm, examples. 200 test rows each; their base-rate parity differs and is measured.
FILES = {
    "gpt-4-0314_adult_0_200.jsonl": ("gpt-4-0314", "zero", 0),
    "gpt-4-0314_adult_0_200_8.jsonl": ("gpt-4-0314, other rows", "zero", 0),
    "gpt-4-0314_adult_4_200.jsonl": ("gpt-4-0314", "balanced", 4),
    "gpt-4-0314_adult_16_200.jsonl": ("gpt-4-0314", "balanced", 16),
    "gpt-3.5-turbo-0301_adult_0_200.jsonl": ("gpt-3.5-turbo-0301", "zero", 0),
}


def read_recordings(
    task: Task, folder: Path
) -> Iterator[tuple[str, str, int, list[tuple[str, str | None]]]]:
    """Each file's model, arm and number of examples, and its answers: the row's id, "yes", "no"
    or None.
    """
    rows = task.test()
    words = (column.text + " " + rows[column.name].astype(str) for column in task.shown)
    ids = dict(zip(map(", ".join, zip(*words, strict=True)), rows.index, strict=True))
    for name, (model, arm, m) in FILES.items():
        answers: list[tuple[str, str | None]] = []
        for messages, response in json.loads(
            (folder / name).read_text(encoding="utf-8")
        ):
            text = (
                messages[-1]["content"]
                .split("has the following attributes: ")[1]
                .split(".\n")[0]
            )
            if text not in ids:
                raise FwcError(
                    f"{name}: a recorded row is not in Adult's test rows: {text}"
                )
            reply = Reply(response["choices"][0]["message"]["content"])
            answers.append((ids[text], parse_answer(reply).value))
        yield model, arm, m, answers


def score_recordings(folder: Path, data_dir: str | None) -> list[Row]:
    """One row per file: coverage, accuracy, parity, equalized odds, and the base-rate parity of
    its rows.
    """
    task = load_task("adult", data_dir)
    scored = []
    for model, arm, m, answers in read_recordings(task, folder):
        rows = task.test().loc[[row for row, _ in answers]]
        said = [{"yes": 1.0, "no": 0.0, None: np.nan}[answer] for _, answer in answers]
        labels = task.labels(rows)
        groups = task.sensitive(rows)
        found = ArmEstimates(arrays_of(said, labels, groups)[0])
        truth = ArmEstimates(arrays_of(labels, labels, groups)[0])
        scored.append(
            {
                "model": model,
                "arm": arm,
                "examples": m,
                "repeat": 0,
                "n": len(said),
                "coverage": found.value("coverage"),
                "accuracy": found.value("accuracy"),
                "dp": found.value("dp_gap"),
                "odds": found.value("eo_gap"),
                "base_parity": truth.value("dp_gap"),
            }
        )
    return scored
