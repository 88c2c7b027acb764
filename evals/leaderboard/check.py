"""Make a file's numbers again from its runs: from the journals, and with the questions of the protocol."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from evals.leaderboard.page import Entry, read_entry
from evals.leaderboard.protocol import Part, parts
from evals.leaderboard.run import record
from fwc_llm.errors import FwcError
from fwc_llm.report.verify import differences, verify
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import FILE_NAME, call_id, read_records
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.settings import Settings
from fwc_llm.shots import load_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import load_task

_OTHER = (
    "the examples of fwc are others than are chosen here; near-ties fall otherwise on another processor: "
    "compare both objectives"
)


def check(file: Path, runs: Path) -> list[str]:
    """Return what a file says that its runs do not, a line each; `FwcError` for what is no such file.

    Every run is made again from its journal (`fwc-llm verify`), its requests are compared with those of the
    protocol, planned anew, and its numbers with those of the file.
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
    for finding in verify(folder.path)["findings"]:
        if finding["status"] != "same":
            yield f"{finding['file']} {finding['status']}: {finding['detail']}"
    described, data, missing = folder.describe(), folder.results(), part.name in entry["missing"]
    keys = {"model": "model", "simulated_answers": "simulated", "reference": "reference"}
    if [described[key] for key in keys] != [entry[key] for key in keys.values()]:
        yield "another model was asked, or the file does not say that it is simulated, or a reference"
    if (data["unanswered"] or data["stopped"]) and not missing:
        yield "requests have no reply, and the file does not say so"
    model = json.dumps([described["model"], described["parameters"]], sort_keys=True)
    task = load_task(part.task)
    answered = {each["request"] for each in read_records(folder.path / FILE_NAME)}
    tried: list[tuple[Sequence[str | Shots], str]] = [(part.arms, "")]
    if "fwc" in part.arms:
        tried.append((("zero", load_shots(folder.path / "shots" / "fwc-0.json", task)), _OTHER))
    for arms, note in tried:
        ids = {call_id(model, call) for call in make_plan(task, arms, Settings(**part.settings)).calls()}
        if answered == ids or (missing and answered < ids):
            yield from [note] if note else []
            break
    else:
        yield f"{len(answered - ids)} requests are none of the protocol; {len(ids - answered)} of it lack"
    yield from differences(entry["parts"][part.name], record(folder.path), close=2e-6)
