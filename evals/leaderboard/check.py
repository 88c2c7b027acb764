"""Make a file's numbers again from its runs: from the journals, and with the questions of the protocol."""

from collections.abc import Iterator
from pathlib import Path

from evals.leaderboard.page import Entry, read_entry
from evals.leaderboard.protocol import Part, parts
from evals.leaderboard.run import record
from fwc_llm.errors import FwcError
from fwc_llm.models.recorded import FILE_NAME
from fwc_llm.models.replay import REPLAYED
from fwc_llm.report.verification import SAME, STATED, UNVERIFIED, Checker, differences, missing_keys, verify
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.settings import Settings


def check(file: Path, runs: Path) -> list[str]:
    """Return what a file says that its runs do not, a line each; `FwcError` for what is no such file.

    Every run is planned and scored again (`fwc-llm verify`) with the protocol's task and settings, and its
    numbers are compared with those of the file.
    """
    entry = read_entry(file)
    wanted = {part.name: part for part in parts(entry["rows"], entry["api"], entry["reference"])}
    lines = [f"{name}: no run of the protocol" for name in entry["parts"] if name not in wanted]
    for name, part in wanted.items():
        try:
            if name in entry["parts"]:
                lines.extend(f"{name}: {text}" for text in _run(entry, part, RunFolder.existing(runs / name)))
            elif name not in entry["missing"]:
                lines.append(f"{name}: not there, and not said to be missing")
        except FwcError as error:
            lines.append(f"{name}: {error}")
    return lines


def _run(entry: Entry, part: Part, folder: RunFolder) -> Iterator[str]:
    described, data, missing = folder.describe(), folder.results(), part.name in entry["missing"]
    checker = Checker(part.task, expected=Settings(**part.settings).as_json())
    for finding in verify(folder.path, checker)["findings"]:
        lacks = missing and finding["file"] == FILE_NAME and finding["status"] == UNVERIFIED
        if finding["status"] not in (SAME, STATED) and not lacks:
            yield f"{finding['file']} {finding['status']}: {finding['detail']}"
    keys = {"model": "model", "simulated_answers": "simulated", "reference": "reference"}
    if [described[key] for key in keys] != [entry[key] for key in keys.values()]:
        yield "another model was asked, or the file does not say that it is simulated, or a reference"
    if REPLAYED in (described["parameters"] or {}):
        yield "the replies of another run were replayed: ask the model itself"
    if described["sources"] != {arm: arm for arm in part.arms}:
        yield f"the arms are {described['sources']}, of the protocol {', '.join(part.arms)}"
    if (data["unanswered"] or data["stopped"]) and not missing:
        yield "requests have no reply, and the file does not say so"
    recorded, now = entry["parts"][part.name], record(folder.path)
    yield from differences(recorded, now, close=2e-6)
    yield from (f"{key} is not there" for key in missing_keys(recorded, now))
