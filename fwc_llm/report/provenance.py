"""What whoever signs an audit must know: the purpose, the data and their limits; versions and hashes."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.report.read import KEY, Run
from fwc_llm.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from fwc_llm.tasks import Task

NOT_STATED = "not stated in the task file"
ABOUT = {
    "intended_use": "Intended use",
    "population": "Whom the rows speak of",
    "source": "Source of the data",
    "collected": "How and when collected",
    "left_out": "Left out before this table",
    "limits": "Known limits",
}
SIGNED = ("Name", "Role and organisation", "Date", "Signature")
_FILES = ("run.json", "answers.csv", "results.json", "journal.jsonl")


def provenance(run: Run, task: "Task | None" = None) -> dict[str, Any]:
    """Return the record of a run, for JSON.

    Keys: `about` (by the keys of a task file's [about]; None where nothing is stated), `task` (question,
    licence, citation, note; None where the task file is not known), and `hashes` (sha256 of the task file's
    text, of the table as it was used, and of the run's files). `report_version` is that of this report.

    An audit of a file has the same `hashes`: `answers.csv` is the file that was audited, `run.json` and
    `results.json` are the settings and the results as JSON, which were not written.
    """
    known = task if task is not None else _recorded(run)
    text = run.described.get("task_file")
    hashes = {name: _sha256(run.folder / name) for name in _FILES if (run.folder / name).is_file()}
    if not hashes and KEY in run.described:
        hashes = {
            "run.json": _sha256_of_json(run.described),
            "answers.csv": run.described[KEY]["sha256"],
            "results.json": _sha256_of_json(run.results),
        }
    hashes |= {"table as used": run.described["fingerprint"]} if run.described.get("fingerprint") else {}
    hashes |= {"task file": hashlib.sha256(text.encode()).hexdigest()} if text else {}
    named = ("question", "licence", "citation", "note")
    return {
        "about": {key: (known.about.get(key) if known is not None else None) for key in ABOUT},
        "task": {name: getattr(known, name) or None for name in named} if known is not None else None,
        "hashes": hashes,
        "report_version": __version__,
    }


def _recorded(run: Run) -> "Task | None":
    """The task as the run recorded it, without its data; None where that cannot be read."""
    from fwc_llm.tasks import load_task, recorded_task

    text = run.described.get("task_file")
    try:
        return recorded_task(text, run.task, None) if text else load_task(run.task)
    except FwcError:
        return None


def _sha256(path: "Path") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256_of_json(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def about_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return purpose, data and limits with their names, what is not stated included."""
    rows = [(name, found["about"][key] or NOT_STATED) for key, name in ABOUT.items()]
    told = found["task"] or {}
    more = (("Licence of the data", "licence"), ("Citation", "citation"), ("Note on the data", "note"))
    return rows + [(name, told[key]) for name, key in more if told.get(key)]


def hash_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the numbers were made from, as sha256."""
    return [(f"sha256 of {name}", digest) for name, digest in found["hashes"].items()]
