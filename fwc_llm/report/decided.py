"""Decisions that were made elsewhere as runs, so that their report is the one that a run has."""

import hashlib
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers, mapped
from fwc_llm.metrics.frame import empty_but
from fwc_llm.report.audit import Audit
from fwc_llm.report.document import document_of
from fwc_llm.report.read import KEY, Run
from fwc_llm.runs.folder import FORMAT, command, file_name, versions


def document_of_decisions(
    audits: Mapping[str, Audit], predictions: Path, about: Mapping[str, Any], with_rows: bool = False
) -> dict[str, Any]:
    """Return what the report of audits of the same answers says (`make_document`).

    `about` says where the answers come from: `predictions` (the file), `answer` (the column), `label`,
    `threshold` where P(yes) was turned into answers, and `numbered` where the file does not name its rows.
    """
    with predictions.open("rb") as file:
        said = {**about, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    with tempfile.TemporaryDirectory(prefix="fwc-llm-") as place:  # stays empty: a run has a folder
        runs = []
        for audit in audits.values():
            names = list(audit.answered.attributes)
            folder = Path(place) / file_name(f"by {' and '.join(names)}")
            runs.append(_run(audit, folder, {**said, "protected": names}))
        return document_of(runs, with_rows=with_rows)


def _run(audit: Audit, folder: Path, about: Mapping[str, Any]) -> Run:
    answers = {arm: _with_reasons(a) for arm, a in audit.answered.answers.items()}
    found = audit.to_dict()
    for one in found["arms"]:  # all else is the same whatever the reason
        one["unparsed"] = answers[one["arm"]].unparsed
    first = next(iter(answers.values()))
    repeats = int(first.repeat.max()) + 1
    settings = {"n_test": -(-len(first) // repeats), "repeats": repeats, "seed": 0, "base_parity": None}
    calls = sum(map(len, answers.values()))
    described = {
        "format": FORMAT,
        "task": about["predictions"],
        "title": f"Decisions in {about['predictions']}",
        "model": f"{about['answer']}, by {' & '.join(about['protected'])}",
        "simulated": False,
        "arms": list(answers),
        "settings": settings,
        "fingerprint": about["sha256"],
        "protected": about["protected"],
        "calls": calls,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "command": command(),
        KEY: dict(about),
    }
    unanswered = sum(int((a.reason == "error").sum()) for a in answers.values())
    results = {
        **{name: described[name] for name in ("task", "model", "simulated")},
        "requests": calls,
        "unanswered": unanswered,
        "arms": [{"arm": arm} for arm in answers],
    }
    return Run(
        folder=folder,
        label=str(described["model"]),
        described=described,
        results=results,
        arms=tuple(answers),
        groups=audit.answered.groups,
        answers=answers,
        counterfactuals={},
        found=found,
    )


def _with_reasons(a: Answers) -> Answers:
    """Answers that are missing without a reason were empty cells."""
    return replace(
        a, reason=empty_but(mapped(a.reason, lambda reason: reason or "empty"), np.isnan(a.answer))
    )
