"""Recomputes a run or an audit in a temporary folder and compares it with the recorded one, file
by file.

No request is sent, and the folder is not changed. A run's rows, examples and prompts follow from
its settings and its table, its answers and numbers from the replies in its journal. What nothing
else confirms (replies, times, settings) is taken as the folder states it.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import write_examples
from fwc_llm.evaluation.experiment_file import FILE_NAME as EXPERIMENT
from fwc_llm.files import is_file, read_text
from fwc_llm.models.recorded import FILE_NAME as JOURNAL
from fwc_llm.models.recorded import read_records
from fwc_llm.report.audit_file import FORMAT as AUDIT
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.report.document import find_task
from fwc_llm.report.tuning import FILE_NAME as TUNING
from fwc_llm.runs.folder import SUMS, RunFolder, file_name
from fwc_llm.runs.journal import Journal, call_id
from fwc_llm.runs.plan import Plan, describe_asked, make_plan
from fwc_llm.runs.recorded_run import PREDICTIONS, Run, read_run, score_run
from fwc_llm.runs.results import write_questions
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json, parse_json, parse_toml
from fwc_llm.tasks import Task, load_task, task_names
from fwc_llm.validation import check
from fwc_llm.version import __version__

FORMAT = "fwc-llm-verify/1"
DIFFERS = "differs"
NOT_CHECKED = "not checked"
_MOST = 10  # most differences of one file that are listed
_RECOMPUTED = {
    "run.json",
    "questions.jsonl",
    "pool.jsonl",
    "answers.csv",
    "results.json",
    "assisted.json",
    "shots",
    "prompts",
}
# Keys of run.json that describe the model and the moment, or are the folder's own.
_STATED = {
    "created",
    "versions",
    "command",
    "parser",
    "task_folder",
    "task_file",
    "sources",
    "simulated",
    "simulated_answers",
    "reference",
}


class Finding(NamedTuple):
    """A file that differs from the recomputed one, or that was not checked."""

    file: str
    status: str
    detail: str


def verify(
    folder: Path,
    task: str | Path | Task | None = None,
    data_dir: Any = None,
    data: Path | None = None,
) -> Json:
    """Verify the folder of a run, or the file of an audit; return the findings, ready for JSON.

    `task` and `data_dir` are yours and replace those that the run names, `data` the table of an
    audit.
    """
    run = RunFolder(folder)
    if run.begun:
        described = run.describe()
        # A folder of its own has the run's rows, also where the task has a built-in one's name.
        folder_of_task = described.get("task_folder")
        if task is None and not folder_of_task and described["task"] in task_names():
            task = str(described["task"])
        if isinstance(task, str | Path):
            task = load_task(task, data_dir, protected=described.get("protected"))
        checks = {"results.json": _of_run(run, task, data_dir)}
    else:
        paths = [folder] if is_file(folder) else sorted(folder.glob("*.json"))
        files = filter(is_file, paths)
        audits = [path for path in files if AUDIT.encode() in path.read_bytes()]
        checks = {path.name: _of_audit(path, data) for path in audits}
    if not checks:
        remedy = "name the folder of a run, or the file of an audit (`audit --out`)"
        raise FwcError(f"{folder} holds no run and no audit: {remedy}")
    findings = list[Finding]()
    for name, found in checks.items():
        try:
            findings.extend(found)
        except (
            FwcError,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            findings.append(Finding(name, DIFFERS, f"it cannot be recomputed: {error}"))
    return {
        "folder": folder.resolve().name,
        "differs": sum(finding.status == DIFFERS for finding in findings),
        "findings": [finding._asdict() for finding in findings],
    }


def _of_run(folder: RunFolder, task: Task | None, data_dir: Any) -> Iterator[Finding]:
    """Recompute the run in a temporary folder, and compare the files."""
    with tempfile.TemporaryDirectory() as temporary:
        again = RunFolder(Path(temporary) / "run")
        shutil.copytree(folder.path, again.path)
        again.unseal()  # what differs is listed
        run = read_run(again)
        table, missing = find_task(run, task, data_dir)
        if table is None:
            status = DIFFERS if "not the table" in missing else NOT_CHECKED
            why = f"rows, examples and prompts need the table: {missing}"
            yield Finding("questions.jsonl", status, why)
        else:
            yield from _replanned(run, again, table)
        with Journal(again.path) as journal:
            score_run(again, journal, run.results.get("stopped"), table)
        versions = run.described["versions"]
        for copy in sorted(filter(is_file, again.path.rglob("*"))):
            name = copy.relative_to(again.path).as_posix()
            path = folder.path / name
            if not is_file(path):
                if name not in (PREDICTIONS, SUMS):  # older runs have none
                    yield Finding(name, DIFFERS, "it is missing")
            elif name.split("/")[0] in _RECOMPUTED:
                yield from _differences(name, _content(path), _content(copy), versions)
            elif name not in (JOURNAL, SUMS):
                yield Finding(name, NOT_CHECKED, "nothing else confirms its content")


def _replanned(run: Run, again: RunFolder, table: Task) -> Iterator[Finding]:
    """Plan the run in the folder `again`; compare examples and requests with the recorded ones."""
    experiment = again.path / EXPERIMENT
    if is_file(again.path / TUNING) or not is_file(experiment):
        why = "tuning, logs of Inspect and runs without experiment.toml are not planned again"
        yield Finding("questions.jsonl", NOT_CHECKED, why)
        return
    options = parse_toml(read_text(experiment))
    sources = options["shots"].split(",")
    for index, name in enumerate(sources):
        if name.startswith("given/"):
            sources[index] = str(again.path / name)
        elif ":" in name:
            why = f"arm {name!r} is a function, and what a folder names is not run"
            yield Finding("questions.jsonl", NOT_CHECKED, why)
            return
    recorded_settings = run.described["settings"]
    settings = {
        name: recorded_settings[name]
        for name in Settings.model_fields
        if name in recorded_settings  # an older version has fewer
    }
    changed = options.get("allow-changed-data", False)
    plan = make_plan(table, sources, Settings(**settings), changed)
    recorded = {arm: run.shots(arm) for arm in run.arms}
    repeats = []
    for repeat in plan.repeats:
        shots = {arm: recorded[arm][repeat.index] for arm in repeat.shots}
        for arm in shots:
            if shots[arm].examples != repeat.shots[arm].examples:
                why = "other examples are chosen here: processors decide near-ties differently"
                yield Finding(
                    f"shots/{file_name(arm)}-{repeat.index}.json", NOT_CHECKED, why
                )
        repeats.append(replace(repeat, shots=shots))
    plan = replace(plan, repeats=tuple(repeats))
    parameters = run.described["parameters"]
    planned = describe_asked(
        plan, run.described["model"], parameters, run.simulated_answers
    )
    again.change(
        **{name: value for name, value in planned.items() if name not in _STATED}
    )
    (again.path / PREDICTIONS).unlink(missing_ok=True)  # computed again with the table
    write_questions(again, plan)
    write_examples(again, plan)
    yield from islice(_requests(run, plan), _MOST)


def _requests(run: Run, plan: Plan) -> Iterator[Finding]:
    """Yield a finding for each answered request that is not planned, or has another prompt."""
    parameters = json.dumps(
        [run.described["model"], run.described["parameters"]], sort_keys=True
    )
    planned = {call_id(parameters, call): list(call.messages) for call in plan.calls()}
    for number, record in enumerate(read_records(run.folder / JOURNAL), 2):
        prompt = [*record.get("prefix", ()), *record.get("prompt", ())]
        messages = planned.get(record["request"], [])
        if record["text"] is not None and messages[-len(prompt) :] != prompt:
            why = "its request is not planned, or its prompt is not the planned one"
            yield Finding(
                JOURNAL, DIFFERS, f"line {number}, row {record.get('row')}: {why}"
            )


def _content(path: Path) -> dict[str, str]:
    """A file's lines by number; of JSON, its values by path."""
    text = read_text(path)
    if path.suffix == ".json":
        return dict(_values(parse_json(text)))
    return {f"line {number}": line for number, line in enumerate(text.splitlines(), 1)}


def _values(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, value) of everything in a JSON value; numbers with six digits."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from _values(entry, f"{path}.{key}")
    elif isinstance(value, float):  # the order of summation depends on the machine
        yield path, f"{value:.6g}"
    else:
        yield path, repr(value)


def _differences(
    file: str,
    recorded: Mapping[str, str],
    again: Mapping[str, str],
    versions: Mapping[str, str],
) -> Iterator[Finding]:
    """Yield the first statements that differ, or that one side lacks."""
    formats = recorded.get(".format"), again.get(".format")
    if formats[0] != formats[1]:
        yield Finding(
            file,
            NOT_CHECKED,
            f"its format is {formats[0]}, and that of today {formats[1]}",
        )
        return
    # Other versions draw and count differently.
    status = DIFFERS if versions.get("fwc-llm") == __version__ else NOT_CHECKED
    changed = [
        key for key in {**recorded, **again} if recorded.get(key) != again.get(key)
    ]
    changed.sort(
        key=lambda key: not (key in recorded and key in again)
    )  # what both state first
    for key in changed[:_MOST]:
        before = recorded.get(key, "nothing")
        now = again.get(key, "nothing")
        # Versions describe a run by more or fewer keys.
        unknown = file == "run.json" and "nothing" in (before, now)
        detail = f"{key}: {before:.60} is recorded, {now:.60} is recomputed"
        yield Finding(file, NOT_CHECKED if unknown else status, detail)


def _of_audit(path: Path, data: Path | None) -> Iterator[Finding]:
    """Repeat an audit with its options, and compare the documents."""
    recorded = parse_json(read_text(path))
    options = check(AuditOptions, recorded["asked"], f"{path}: asked")
    files = recorded["files"]
    for written in ("report", "ll144"):  # beside the audit, and no result
        files.pop(written, None)
    tables = {
        role: path.parent / Path(file["name"]).name for role, file in files.items()
    }
    if data is not None:
        tables["predictions"] = data
    missing = [table.name for table in tables.values() if not is_file(table)]
    if missing:
        yield Finding(
            path.name, NOT_CHECKED, f"{missing[0]} is missing: nothing is recomputed"
        )
        return
    versions = recorded["versions"]
    made = audit_of_file(
        tables["predictions"], options, tables.get("population"), recorded["created"]
    )
    again = dict(_values(made.document | {"versions": versions}))
    yield from _differences(path.name, dict(_values(recorded)), again, versions)
