"""The report of decisions that were made elsewhere: a document of its own, with the sections of any other."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fwc_llm.files import sha256
from fwc_llm.metrics.adverse_impact import impact_tables
from fwc_llm.metrics.answers import Answers, mapped
from fwc_llm.metrics.audit_table import empty_but
from fwc_llm.metrics.statistics import plain
from fwc_llm.report.audit import Audit
from fwc_llm.report.document import document_of
from fwc_llm.report.narrative import findings, four_fifths, what_was_decided
from fwc_llm.report.provenance import ABOUT
from fwc_llm.report.read import KEY
from fwc_llm.report.rows import rows_of_audit
from fwc_llm.runs.folder import command, versions
from fwc_llm.version import __version__


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
