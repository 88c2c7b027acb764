"""Recomputes a run or an audit in a temporary folder and compares it with the recorded one, file
by file.

No request is sent, and the folder is not changed. A run's rows, examples and prompts follow from
its settings and its table, its answers and numbers from the replies in its journal. What nothing
else confirms (replies, times, settings) is taken as the folder states it.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from fwc_llm.errors import FwcError
from fwc_llm.evaluation.evaluate import write_examples
from fwc_llm.files import failing_as, is_file, read_text, sha256
from fwc_llm.models.recorded import FILE_NAME as JOURNAL
from fwc_llm.models.recorded import read_records
from fwc_llm.report.audit_file import FORMAT as AUDIT
from fwc_llm.report.audit_file import AuditOptions, audit_of_file
from fwc_llm.report.document import find_task
from fwc_llm.report.tuning import FILE_NAME as TUNING
from fwc_llm.runs.folder import HASHES, RunFolder, file_name
from fwc_llm.runs.journal import Journal, call_id, request_id
from fwc_llm.runs.plan import Plan, describe_asked, make_plan
from fwc_llm.runs.recorded_run import read_run, score_run
from fwc_llm.runs.results import write_questions
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import parse_json, parse_toml
from fwc_llm.shots.storage import load_shots
from fwc_llm.tasks import load_task, task_names
from fwc_llm.validation import check
from fwc_llm.version import __version__

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-verify/1"
DIFFERS = "differs"
NOT_CHECKED = "not checked"
_MOST = 10  # most differences of one file that are listed
_DIGITS = 6  # the order of summation depends on the machine
_RECOMPUTED = {
    "run.json",
    "questions.jsonl",
    "pool.jsonl",
    "answers.csv",
    "results.json",
    "assisted.json",
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
}


@dataclass(frozen=True)
class Finding:
    """A file that differs from the recomputed one, or that was not checked."""

    file: str
    status: str
    detail: str


class _File(BaseModel):
    name: str
    sha256: str


class _Files(BaseModel):
    files: dict[str, _File]


def verify(
    folder: Path,
    task: "str | Path | Task | None" = None,
    data_dir: Any = None,
    data: Path | None = None,
) -> dict[str, Any]:
    """Verify the folder of a run or of audits; return the findings, ready for JSON.

    `task` and `data_dir` are yours and replace those that the run names, `data` the table of an
    audit.
    """
    if RunFolder(folder).begun:
        findings = list(_of_run(RunFolder.existing(folder), task, data_dir))
    else:
        audits = [
            path for path in sorted(folder.glob("*.json")) if _content(path).get("format") == AUDIT
        ]
        if not audits:
            raise FwcError(
                f"{folder} is no folder of a run (run.json) or of an audit (`audit --out` writes "
                f"one)"
            )
        findings = [finding for path in audits for finding in _of_audit(path, data)]
    statuses = [finding.status for finding in findings]
    return {
        "format": FORMAT,
        "folder": folder.resolve().name,
        "differs": statuses.count(DIFFERS),
        "not_checked": statuses.count(NOT_CHECKED),
        "findings": [asdict(finding) for finding in findings],
    }


def _of_run(
    folder: RunFolder, task: "str | Path | Task | None", data_dir: Any
) -> Iterator[Finding]:
    """Check hashes, then recompute the run in a temporary folder and compare the files."""
    for name, digest in folder.hashes().items():
        yield from _hashed(folder.path, name, digest)
    if folder.hashes("changing"):
        why = (
            "the command that last wrote here was stopped: it, or `fwc-llm rescore`, ends the work"
        )
        yield Finding(HASHES, NOT_CHECKED, why)
    lacking = [name for name in (JOURNAL, "results.json") if not is_file(folder.path / name)]
    if lacking:
        yield Finding(lacking[0], NOT_CHECKED, "it is missing: nothing can be recomputed")
        return
    try:
        run = read_run(folder.path)
    except FwcError as error:
        yield Finding("results.json", DIFFERS, str(error))
        return
    described = folder.describe()
    if task is None and run.task in task_names():
        task = run.task
    if isinstance(task, str | Path):
        task = load_task(task, data_dir, protected=described.get("protected"))
    table, missing = find_task(run, task, data_dir)
    if table is None:
        status = DIFFERS if "not the table" in missing else NOT_CHECKED
        yield Finding(
            "questions.jsonl", status, f"rows, examples and prompts need the table: {missing}"
        )
    sources = _sources(folder, described)
    functions = [name for name in sources if ":" in name and not name.endswith(".json")]
    with tempfile.TemporaryDirectory() as temporary:
        again = RunFolder(Path(temporary) / "run")
        shutil.copytree(folder.path, again.path)
        try:
            requests: set[str] | None = None
            if is_file(folder.path / TUNING) or "epochs" in described:
                yield Finding(
                    "questions.jsonl",
                    NOT_CHECKED,
                    "tuning and logs of Inspect are not planned again",
                )
            elif functions:
                why = f"arm {functions[0]!r} is a function, and what a folder names is not run"
                yield Finding("questions.jsonl", NOT_CHECKED, why)
            elif table is not None:
                plan = make_plan(table, sources, _settings(folder, described))
                until = run.results.get("until_decided")
                if until:
                    plan = plan.part(until["rows"])
                else:
                    plan = plan
                plan, chosen = _with_kept_examples(folder, plan)
                yield from chosen
                _write_plan(again, described, plan)
                requests = {call_id(_model(described), call) for call in plan.calls()}
            if "epochs" not in described:  # a log of Inspect has other request ids
                yield from _listed(JOURNAL, _requests(folder, described, requests))
            with Journal(again.path) as journal:
                score_run(again, journal, run.results.get("stopped"), table)
            yield from _compare(folder, again)
        except FwcError as error:
            text = str(error).replace(str(again.path), str(folder.path))
            yield Finding("results.json", DIFFERS, f"it cannot be recomputed: {text}")


def _hashed(folder: Path, name: str, digest: str) -> Iterator[Finding]:
    """Compare a file of the folder with its recorded hash."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not is_file(path):
        yield Finding(name, DIFFERS, "it is missing, although its hash is recorded")
    elif (now := sha256(path)) != digest:
        yield Finding(name, DIFFERS, f"its sha256 is {now}, but {digest} is recorded")


def _sources(folder: RunFolder, described: Mapping[str, Any]) -> list[str]:
    """The strategies and the folder's copies of shots files, by the experiment file."""
    names = list(described["arms"])
    with suppress(OSError, ValueError, KeyError, AttributeError):
        names = parse_toml(read_text(folder.path / "experiment.toml"))["shots"].split(",")
    return [str(folder.path / name) if name.startswith("given/") else name for name in names]


def _settings(folder: RunFolder, described: Mapping[str, Any]) -> Settings:
    options = {
        name: value
        for name, value in described["settings"].items()
        if name in Settings.model_fields
    }
    if options["weight"] is None and "weight" in next(folder.read_questions(), {}):
        del options["weight"]  # the task's weight was used
    return Settings(**options)


def _with_kept_examples(folder: RunFolder, plan: Plan) -> tuple[Plan, list[Finding]]:
    """The plan with the folder's examples, and where others are chosen here."""
    findings = []
    repeats = []
    for repeat in plan.repeats:
        shots = dict(repeat.shots)
        for arm, chosen in repeat.shots.items():
            name = f"shots/{file_name(arm)}-{repeat.index}.json"
            shots[arm] = load_shots(folder.path / name, plan.task, allow_changed_data=True)
            if [e.row for e in shots[arm].examples] != [e.row for e in chosen.examples]:
                why = (
                    "other rows are chosen here: another processor can decide near-ties differently"
                )
                findings.append(Finding(name, NOT_CHECKED, why))
        repeats.append(replace(repeat, shots=shots))
    return replace(plan, repeats=tuple(repeats)), findings


def _write_plan(again: RunFolder, described: Mapping[str, Any], plan: Plan) -> None:
    """Write run.json, questions, examples and prompts as a run of this plan does."""
    simulated = bool(described.get("simulated_answers", described["simulated"]))
    model = described["model"], described.get("parameters") or {}
    planned = describe_asked(plan, *model, simulated, bool(described.get("reference")))
    kept = {name: described[name] for name in _STATED if name in described}
    again.write_json("run.json", {**described, **planned, **kept})
    write_questions(again, plan)
    write_examples(again, plan)


def _model(described: Mapping[str, Any]) -> str:
    """The model with its parameters, as in `parameters_json`."""
    return json.dumps([described["model"], described.get("parameters") or {}], sort_keys=True)


def _requests(
    folder: RunFolder, described: Mapping[str, Any], planned: set[str] | None
) -> Iterator[str]:
    """Yield records whose prompt is not that of their request, or whose request is not planned."""
    prefixes: dict[tuple[Any, Any], list[Any]] = {}
    for number, record in enumerate(read_records(folder.path / JOURNAL), 2):
        key = record.get("arm"), record.get("repeat")
        where = f"line {number} (arm {key[0]}, repeat {key[1]}, row {record.get('row')})"
        if record.get("prefix"):
            prefixes[key] = record["prefix"]
        if record.get("prompt"):
            messages = [*prefixes.get(key, ()), *record["prompt"]]
            question = [record.get(name) for name in ("repeat", "arm", "row", "variant")]
            if request_id(_model(described), *question, messages) != record["request"]:
                yield (
                    f"{where}: its prompt, the model or its parameters are not those that were "
                    f"asked"
                )
        if planned is not None and record["text"] is not None and record["request"] not in planned:
            yield f"{where}: the request is not in the plan"


def _compare(folder: RunFolder, again: RunFolder) -> Iterator[Finding]:
    """Compare the run's files with the recomputed ones; list files that nothing confirms."""
    made_by = (folder.describe().get("versions") or {}).get("fwc-llm", __version__)
    status = (
        DIFFERS if made_by == __version__ else NOT_CHECKED
    )  # versions draw and count differently
    files = (path for path in sorted(folder.path.rglob("*")) if path.is_file())
    for name in (path.relative_to(folder.path).as_posix() for path in files):
        if name in _RECOMPUTED or name.startswith(("shots/", "prompts/")):
            yield from _changed(
                name, _statements(folder.path / name), _statements(again.path / name), status
            )
        elif name not in (JOURNAL, HASHES):
            yield Finding(name, NOT_CHECKED, "nothing else confirms its content")


def _statements(path: Path) -> dict[str, str]:
    """A file's lines by number; of JSON, its values by path."""
    with failing_as(FwcError, f"{path.name} cannot be read: "):
        text = read_text(path)
        if path.suffix == ".json":
            return dict(_values(parse_json(text)))
    return {f"line {number}": line for number, line in enumerate(text.splitlines(), 1)}


def _values(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, value) of everything in a JSON value; numbers with six digits."""
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            yield from _values(entry, f"{at}.{key}")
    elif isinstance(value, list) and value:
        for index, entry in enumerate(value):
            yield from _values(entry, f"{at}[{index}]")
    else:
        yield at, f"{value:.{_DIGITS}g}" if isinstance(value, float) else repr(value)


def _changed(
    file: str, was: dict[str, str], now: dict[str, str], status: str = DIFFERS
) -> Iterator[Finding]:
    """Yield the first statements that differ, and those that only one side has."""
    different = [
        f"{where}: {was[where]:.60} is recorded, {now[where]:.60} is recomputed"
        for where in was
        if where in now and was[where] != now[where]
    ]
    yield from _listed(file, different, status)
    alone = sorted(was.keys() ^ now.keys())
    if alone:
        by_version = file.endswith(".json")  # versions write other keys
        why = f"{len(alone):,} recorded or recomputed alone, such as {alone[0]}"
        yield Finding(file, NOT_CHECKED if by_version else DIFFERS, why)


def _listed(file: str, texts: Iterable[str], status: str = DIFFERS) -> Iterator[Finding]:
    """Yield a finding for each of the first texts."""
    texts = list(texts)
    yield from (Finding(file, status, text) for text in texts[:_MOST])
    if len(texts) > _MOST:
        yield Finding(file, status, f"and {len(texts) - _MOST:,} more")


def _of_audit(path: Path, data: Path | None) -> Iterator[Finding]:
    """Repeat an audit with its options, and compare the documents."""
    recorded = _content(path)
    tables: dict[str, Path] = {}
    for role, entry in check(_Files, recorded, str(path)).files.items():
        file = path.parent / Path(entry.name).name  # never a path outside of the folder
        if role == "predictions" and data is not None:
            file = data
        if not is_file(file):
            yield Finding(
                path.name, NOT_CHECKED, f"{file.name} is missing: no number can be recomputed"
            )
            return
        yield from _hashed(file.parent, file.name, entry.sha256)
        tables[role] = file
    options = check(AuditOptions, recorded.get("asked"), f"{path}: asked")
    try:
        made = audit_of_file(
            tables["predictions"], options, tables.get("population"), str(recorded.get("created"))
        )
    except (FwcError, KeyError) as error:
        yield Finding(path.name, DIFFERS, f"it cannot be recomputed: {error}")
        return
    of_machine = {"files", "versions"}
    was, now = (
        dict(_values({key: document[key] for key in document.keys() - of_machine}))
        for document in (recorded, json.loads(json.dumps(made.document)))
    )
    yield from _changed(path.name, was, now)


def _content(path: Path) -> dict[str, Any]:
    """The JSON object of a file; {} for any other content."""
    with suppress(OSError, ValueError):
        content = parse_json(read_text(path))
        return content if isinstance(content, dict) else {}
    return {}
