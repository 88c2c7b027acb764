"""The record of a run to sign: purpose, data, limits, hashes; and the cost."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress

from fwc_llm.errors import FwcError
from fwc_llm.files import sha256
from fwc_llm.report.sections import as_words
from fwc_llm.report.table_model import Row, Section
from fwc_llm.runs.recorded_run import Run
from fwc_llm.sanitize import Fields, Json
from fwc_llm.version import __version__

DECISIONS = "audit"  # key of a document's `about` for the source of audited decisions
NOT_STATED = "not stated in the task file"
ABOUT = {
    "intended_use": "Intended use",
    "population": "Whom the rows speak of",
    "source": "Source of the data",
    "collected": "How and when collected",
    "left_out": "Left out before this table",
    "limits": "Known limits",
}
FOR_LAW = {
    "categories": "How categories are known (self-reported, never imputed)",
    "data_kind": "Historical or test data",
    "distributed": "Date of distribution of the tool",
    "auditor": "Independent auditor",
}
SIGNED = ("Name", "Role and organisation", "Date", "Signature")
_FILES = ("run.json", "answers.csv", "results.json", "journal.jsonl")


def provenance(run: Run) -> Json:
    """The record of a run, for JSON.

    Keys: `about` ([about] of the task file), `task` (question, licence, citation, note; None if the
    task file is unknown), and `hashes` (SHA-256 of the task file, of the table as used, and of the
    run's files).
    """
    from fwc_llm.tasks import load_task, recorded_task

    text = run.described.get("task_file")
    digest = run.described.get("fingerprint")
    hashes = {
        name: sha256(run.folder / name)
        for name in _FILES
        if (run.folder / name).is_file()
    }
    hashes |= {"table as used": digest} if digest else {}
    hashes |= {"task file": hashlib.sha256(text.encode()).hexdigest()} if text else {}
    about: Fields = {}
    task = None
    with suppress(FwcError):  # without the data
        stated = (
            recorded_task(text, run.task, None) if text else load_task(run.task)
        ).rules
        about = stated.about
        keys = ("question", "licence", "citation", "note")
        task = {name: getattr(stated, name) or None for name in keys}
    known = {key: about.get(key) for key in ABOUT | FOR_LAW}
    return {"about": known, "task": task, "hashes": hashes}


def record(run: Fields) -> Section:
    """The section with the record to sign of one entry of a document's `runs`."""
    provenance = run["provenance"]
    about = run["about"]
    hashes = run["provenance"]["hashes"]
    if DECISIONS in about:  # an audit's only file is the table
        rows = list[Row]()
        hashes = {about[DECISIONS]["predictions"]: hashes["answers.csv"]}
    else:
        task = provenance["task"] or {}
        settings = {
            name: value
            for name, value in about["settings"].items()
            if value not in (None, [], {})
        }
        optional = {
            name: provenance["about"].get(key) for key, name in FOR_LAW.items()
        } | {
            "Licence of the data": task.get("licence"),
            "Citation": task.get("citation"),
            "Note on the data": task.get("note"),
            "Model": as_words(about["model"]),
            "Model as returned": as_words(about.get("returned_models") or ""),
            "Parameters": as_words(about.get("parameters") or ""),
            "Settings": as_words(settings),
        }
        rows = [
            (name, provenance["about"][key] or NOT_STATED)
            for key, name in ABOUT.items()
        ]
        rows += [(name, text) for name, text in optional.items() if text]
    rows += how_made(about, hashes)
    return Section("Record of this audit", ["Entry", "Record"], rows, name="record")


def how_made(about: Fields, hashes: Mapping[str, str]) -> Iterator[Row]:
    """Yield when, how and by which versions numbers were made, and from which files."""
    yield "Date", as_words(about.get("created"))
    yield "Command", about["command"] or "not recorded"
    yield "Versions", as_words(about.get("versions", {}))
    yield "Report made by", f"fwc-llm {__version__}"
    for name, digest in hashes.items():
        yield f"sha256 of {name}", digest


def costs(run: Fields) -> Section:
    """The section with requests, tokens and price of a run."""
    cost = run["cost"]
    asked = f"{cost['requests'] or 0:,} requests, {cost['unanswered'] or 0:,} without a reply"
    return Section("Cost", intro=f"{asked}: {cost['words']}.")
