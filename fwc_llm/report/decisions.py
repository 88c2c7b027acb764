"""Decisions that were made elsewhere as a run's folder: what reads a run then reads them too."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.frame import from_frame
from fwc_llm.runs.folder import FORMAT, RunFolder, command, versions
from fwc_llm.runs.results import arm_metrics

if TYPE_CHECKING:
    import pandas as pd

KEY = "audit"  # of run.json: says that these decisions were made elsewhere, and where they stand
EXAMPLES_FILE = "examples.json"
_WORDS = {1.0: "yes", 0.0: "no"}


def write_decisions(
    frame: "pd.DataFrame", folder: Path, about: Mapping[str, Any], attributes: Sequence[str]
) -> Path:
    """Write answers, a table as `audit` takes it, as a run's folder; return the folder.

    `about` says where they come from: `predictions` (the file), `sha256` of it, `answer` (the column),
    `label`, `protected`, and `threshold` where P(yes) was turned into answers. Raises `FwcError` as `audit`
    does.
    """
    answered = from_frame(frame, attributes=attributes if len(attributes) > 1 else ())
    run = RunFolder(folder)
    run.create()
    rows = {arm: _rows(arm, answers) for arm, answers in answered.answers.items()}
    first = next(iter(answered.answers.values()))
    repeats = int(first.repeat.max()) + 1
    settings = {"n_test": -(-len(first) // repeats), "repeats": repeats, "seed": 0, "base_parity": None}
    described = {
        "format": FORMAT,
        "task": about["predictions"],
        "title": f"Decisions in {about['predictions']}",
        "model": f"{about['answer']}, by {' & '.join(attributes)}",
        "simulated": False,
        "arms": list(answered.arms),
        "settings": settings,
        "fingerprint": about["sha256"],
        "protected": list(attributes),
        "calls": sum(map(len, rows.values())),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "command": command(),
        KEY: dict(about),
    }
    run.write_json("run.json", described)
    run.write_answers(row for arm in rows.values() for row in arm)
    if answered.with_examples:
        names = {arm: answers.examples.tolist() for arm, answers in answered.answers.items()}
        run.write_text(EXAMPLES_FILE, json.dumps(names, ensure_ascii=False))
    unanswered = sum(row["reason"] == "error" for arm in rows.values() for row in arm)
    said = {name: described[name] for name in ("task", "model", "simulated")}
    run.write_json(
        "results.json",
        {
            "format": "fwc-llm-results/1",
            **said,
            **{name: settings[name] for name in ("n_test", "base_parity", "seed", "repeats")},
            "requests": described["calls"],
            "unanswered": unanswered,
            "arms": [arm_metrics(arm, of) for arm, of in rows.items()],
        },
    )
    return folder


def _rows(arm: str, a: Answers) -> list[dict[str, Any]]:
    lines = zip(*(getattr(a, name).tolist() for name in _COLUMNS), strict=True)
    return [
        {
            "arm": arm,
            "repeat": repeat,
            "row": row,
            "variant": "",
            "group": group,
            "label": _WORDS[float(label)],
            "answer": _WORDS.get(answer, ""),
            "reason": (reason or "empty") if math.isnan(answer) else "",
            "p_yes": "" if math.isnan(p) else repr(p),
            "reply": "",
            "simulated": "false",
        }
        for repeat, row, group, label, answer, reason, p in lines
    ]


_COLUMNS = ("repeat", "row", "group", "label", "answer", "reason", "p_yes")
