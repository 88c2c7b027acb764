"""The audit of a file of decisions: options in, a document out. `audit` makes it, `verify` makes it again.

Its report is a document with the sections of a run's.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.files import sha256
from fwc_llm.metrics.adverse_impact import impact_tables, over_median
from fwc_llm.metrics.answers import Answered, Answers, mapped
from fwc_llm.metrics.audit_table import by_attribute, empty_but, from_frame, of_population
from fwc_llm.metrics.statistics import plain
from fwc_llm.report.audit import Audit
from fwc_llm.report.document import document_of
from fwc_llm.report.local_law_144 import summary
from fwc_llm.report.narrative import findings, four_fifths, what_was_decided
from fwc_llm.report.predictions_reader import (
    MISSING,
    choose_threshold,
    read_population,
    read_predictions,
    ties_line,
)
from fwc_llm.report.provenance import ABOUT
from fwc_llm.report.read import KEY
from fwc_llm.report.rows import rows_of_audit
from fwc_llm.runs.folder import command, versions
from fwc_llm.runs.settings import Settings
from fwc_llm.schema import Checked
from fwc_llm.taskfile import About
from fwc_llm.version import __version__

FORMAT = "fwc-llm-audit/1"


class Asked(Checked):
    """What an audit was asked for, as its document records it: columns, rules, and what [about] says."""

    protected: tuple[str, ...]
    answer: str | None = None
    label: str | None = None
    positive: str | None = None
    arm: str | None = None
    repeat: str | None = None
    row: str | None = None
    key: str | None = None
    p_yes: str | None = None
    score: str | None = None
    threshold: float | None = None
    examples: str | None = None
    missing: str = "refuse"
    small: Literal["keep", "exclude"] | None = None
    because: str | None = None
    about: About = About()
    settings: Mapping[str, Any] = {}


@dataclass(frozen=True)
class AuditOfFile:
    """An audit of a file: its `document` for JSON, its `audits` by attribute, and what the terminal says."""

    document: dict[str, Any]
    audits: Mapping[str, Audit]
    crossed: Answered
    notes: Sequence[str]
    ties: str
    rows: int
    about: Mapping[str, Any]


def audit_of_file(
    predictions: Path, asked: Asked, population: Path | None = None, audited: str = ""
) -> AuditOfFile:
    """Return the audit of a file of predictions, made at the time `audited` (now).

    Raises `FwcError` for options that do not fit together, and as `read_predictions` and `from_frame` do.
    """
    settings, names, row, label = Settings(**asked.settings), asked.protected, asked.row, asked.label
    key = asked.key or row or ""
    if asked.missing not in MISSING:
        raise FwcError(f"--missing is {asked.missing!r}: choose {', '.join(MISSING)}")
    if population is not None and row is None:
        raise FwcError("--population needs --key: name the column that both tables name their rows by")
    if row is None and (asked.arm or asked.repeat):
        raise FwcError("--arm and --repeat need --row: name the column that says which row was asked about")
    if (asked.small == "exclude") != bool(asked.because and asked.because.strip()):
        raise FwcError(
            "--small exclude and --because TEXT go together: say why small categories are left out"
        )
    kinds = "arm", "repeat", "row", "p_yes", "examples", "score"
    roles = {name: getattr(asked, name) for name in kinds}
    roles |= {name: getattr(settings, name) for name in ("weight", "cluster", "given")}
    columns = {name: column for name, column in roles.items() if column is not None}
    for name in names:
        if names.count(name) > 1:
            raise FwcError(f"--protected names {name!r} twice: name each column once")
        if name in (label, asked.answer):
            raise FwcError(f"--protected {name!r} is the label or the answer: name another column")
    at = choose_threshold(asked.answer, asked.p_yes or asked.score, asked.threshold)
    everybody = read_population(population, key, [*names, label, asked.answer]) if population else None
    frame, notes = read_predictions(
        predictions, asked.answer, label, names, asked.positive, columns, at, asked.missing, everybody, key
    )
    ties = ties_line(frame["p_yes"], at) if asked.answer is None and asked.p_yes else ""

    def answered(answer: str) -> Answered:
        own: dict[str, Any] = {name: name for name in ("weight", "cluster", "given") if name in columns}
        own |= {name: getattr(settings, name) for name in ("min_group", "margin", "against")}
        return from_frame(frame, answer=answer, protected=names, label=label and "label", **own)

    crossed = answered("answer")
    scored = None
    if asked.score:
        scores = frame.groupby(frame["arm"] if "arm" in frame else np.zeros(len(frame)), observed=True)[
            "score"
        ]
        frame["above"] = scores.transform(lambda each: over_median(each.to_numpy(np.float64)))
        scored = replace(answered("above"), groups=crossed.groups)
        crossed = crossed if asked.answer or asked.p_yes else scored
    crossed = replace(crossed, unused=(*notes, *crossed.unused))
    views = by_attribute(crossed)
    if everybody is not None:
        views = {
            name: of_population(view, everybody, key, label, asked.positive, asked.answer)
            for name, view in views.items()
        }
    audits = {name: Audit(view) for name, view in views.items()}
    selected = impact_tables(crossed, keep_small=asked.small == "keep", scored=scored)
    audited = audited or time.strftime("%Y-%m-%dT%H:%M:%S%z")
    source = asked.answer or asked.p_yes or f"{asked.score} above its median"
    heading = {"run": predictions.name, "task": label or "", "model": source}
    about_tool = asked.about.model_dump()
    paths = {"predictions": predictions} | ({"population": population} if population else {})
    document = {
        "format": FORMAT,
        "predictions": predictions.name,
        "protected": list(names),
        "statistics": {name: audit.to_dict() for name, audit in audits.items()},
        "audit": selected,
        "ll144": summary(selected, heading, about_tool, audited, asked.because or ""),
        "created": audited,
        "asked": asked.model_dump(mode="json", exclude_defaults=True),
        "files": {what: {"name": path.name, "sha256": sha256(path)} for what, path in paths.items()},
        "versions": versions(),
    }
    about: dict[str, Any] = {
        "predictions": predictions.name,
        "answer": source,
        "label": label,
        "numbered": row is None,
    }
    about |= {"threshold": at} if asked.answer is None and asked.p_yes else {}
    return AuditOfFile(document, audits, crossed, notes, ties, len(frame), about)


def document_of_decisions(
    audits: Mapping[str, Audit],
    predictions: Path,
    about: Mapping[str, Any],
    with_rows: bool = False,
    keep_small: bool = False,
    ll144: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the document (`make_document`) of audits of the same answers, one entry of `runs` each.

    `about` says where the answers come from: `predictions` (the file), `answer` (the column), `label`,
    `threshold` where P(yes) was turned into answers, and `numbered` where the file does not name its rows.
    What only a run has is empty. `keep_small`: see `impact_tables`; `ll144`: the summary of that law.
    """
    source = {**about, "sha256": sha256(predictions)}
    described = [_describe(audit, source, keep_small) for audit in audits.values()]
    described[-1]["ll144"] = ll144
    if with_rows:  # all attributes crossed, the last, have every row
        last = list(audits.values())[-1]
        described[-1]["browser"] = rows_of_audit(_with_reasons(last), bool(about.get("numbered")))
    return document_of(about["predictions"], f"Decisions in {about['predictions']}", described)


def _describe(audit: Audit, source: Mapping[str, Any], keep_small: bool) -> dict[str, Any]:
    names = list(audit.answered.attributes)
    answers, stats, where = _with_reasons(audit), audit.to_dict(), {**source, "protected": names}
    for arm in stats["arms"]:  # all else is the same whatever the reason
        arm["unparsed"] = answers[arm["arm"]].unparsed
    first, label = next(iter(answers.values())), f"{source['answer']}, by {' & '.join(names)}"
    repeats, calls = int(first.repeat.max()) + 1, sum(map(len, answers.values()))
    settings = {"n_test": -(-len(first) // repeats), "repeats": repeats, "seed": 0, "base_parity": None}
    record = {
        "task": source["predictions"], "title": f"Decisions in {source['predictions']}", "model": label,
        "simulated": False, "arms": list(answers), "settings": settings, "fingerprint": source["sha256"],
        "protected": names, "calls": calls, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(), "command": command(), KEY: where,
    }  # fmt: skip
    impact = impact_tables(audit.answered, keep_small=keep_small)
    unanswered = sum(int((a.reason == "error").sum()) for a in answers.values())
    hashes = {
        "run.json": _sha256(record),
        "answers.csv": source["sha256"],
        "results.json": _sha256(stats),
        "table as used": source["sha256"],
    }
    described: dict[str, Any] = plain(
        {
            "label": label,
            "folder": "",
            **dict.fromkeys(("simulated", "simulated_answers", "reference"), False),
            "api": "chat",
            "wordings": {arm: {} for arm in answers},
            "rows": None,
            "audit": impact,
            "provenance": {
                **{"about": dict.fromkeys(ABOUT), "task": None},
                **{"hashes": hashes, "report_version": __version__},
            },
            "about": {**record, "returned_models": []},
            "paragraph": what_was_decided(where, list(answers), stats),
            "findings": [*four_fifths(impact["attributes"][-1]), *findings(stats)],
            "statistics": stats,
            "map": None,
            "missing": "",
            "examples": {arm: [] for arm in answers},
            "prompts": {arm: [] for arm in answers},
            "cost": {"requests": calls, "unanswered": unanswered, "usage": {}},
            "tuning": None,
            "threshold": None,
        }
    )
    return described


def _with_reasons(audit: Audit) -> dict[str, Answers]:
    """Answers that are missing without a reason were empty cells."""
    return {
        arm: replace(
            a, reason=empty_but(mapped(a.reason, lambda reason: reason or "empty"), np.isnan(a.answer))
        )
        for arm, a in audit.answered.answers.items()
    }


def _sha256(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain(content), ensure_ascii=False, sort_keys=True).encode()).hexdigest()
