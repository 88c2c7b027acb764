"""The runs below a folder: what they asked, when, and whether they are complete."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.runs.folder import THRESHOLD, RunFolder
from fwc_llm.runs.journal import FILE_NAME as JOURNAL
from fwc_llm.runs.journal import read_records

_DEEPEST = 4  # folders below the one that is named


@dataclass(frozen=True)
class Listed:
    """A run's folder. `answered` of `requests` have a reply; `problem` says why nothing else is known."""

    folder: Path
    task: str = ""
    model: str = ""
    arms: tuple[str, ...] = ()
    created: str = ""
    simulated: bool = False
    requests: int = 0
    answered: int = 0
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether every request has a reply."""
        return not self.problem and 0 < self.requests <= self.answered

    def as_json(self) -> dict[str, Any]:
        """The run as plain values."""
        found = vars(self) | {"folder": str(self.folder), "arms": list(self.arms), "complete": self.complete}
        return found | {"problem": self.problem or None}


def list_runs(folder: Path) -> list[Listed]:
    """The runs in a folder and below it, oldest first; links are not followed.

    Errors: `FwcError` when it is no folder. A damaged run is listed with its problem.
    """
    if not folder.is_dir():
        raise FwcError(f"{folder} is not a folder: name one that holds runs, as --out or ./runs")
    found = (_listed(path) for path in _begun(folder, _DEEPEST))
    return sorted(found, key=lambda run: (run.created, str(run.folder)))


def _begun(folder: Path, depth: int) -> Iterator[Path]:
    if is_file(folder / "run.json") or is_file(folder / JOURNAL):
        yield folder
    elif depth:
        with suppress(OSError):  # a folder that may not be read
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    yield from _begun(Path(entry.path), depth - 1)


def _listed(folder: Path) -> Listed:
    run = RunFolder(folder)
    if not run.begun:
        return Listed(folder, problem="it was stopped before its first request")
    try:
        described = run.describe()
        requests = int(described.get("calls") or 0)
        about = described["task"], described["model"], tuple(described["arms"])
        created = str(described.get("created") or "")
        return Listed(folder, *about, created, described["simulated"], requests, _answered(run, requests))
    except (FwcError, OSError) as error:
        return Listed(folder, problem=" ".join(str(error).split()))


def _answered(run: RunFolder, requests: int) -> int:
    """How many requests have a reply: by results.json, unless the journal was written to after it."""
    journal, results = run.path / JOURNAL, run.path / "results.json"
    if is_file(results) and results.stat().st_mtime_ns >= journal.stat().st_mtime_ns:
        found = run.results()
        return int(found.get("requests") or requests) - int(found.get("unanswered") or 0)
    answered = {
        record["request"]
        for _, record in read_records(journal)
        if record["text"] is not None and record.get("variant") != THRESHOLD
    }
    return min(len(answered), requests)
