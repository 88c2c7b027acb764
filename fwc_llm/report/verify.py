"""Whether a folder still says what its journal and table say: every number made again, every hash checked.

Nothing is asked and nothing in the folder is written. A run is scored again from its journal in a folder of
its own; every prompt is checked against the identity of its request, every reply against what it was parsed
as. An audit is made again from its table. What cannot be checked, because it is not here, is named.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import PARSER
from fwc_llm.errors import FwcError
from fwc_llm.files import is_file, read_text, sha256
from fwc_llm.report.audit_file import FORMAT as AUDIT
from fwc_llm.report.audit_file import Asked, audit_of_file
from fwc_llm.report.document import FORMAT as REPORT
from fwc_llm.report.document import find_task, make_document
from fwc_llm.report.read import Run, read_run, score_and_judge
from fwc_llm.runs.folder import RunFolder, file_name
from fwc_llm.runs.hashes import FILE_NAME as HASHES
from fwc_llm.runs.hashes import files_of, read_hashes
from fwc_llm.runs.journal import FILE_NAME as JOURNAL
from fwc_llm.runs.journal import Journal, parsed, read_records, reply_of, request_id
from fwc_llm.schema import check
from fwc_llm.untrusted import parse_json
from fwc_llm.words import YES_NO

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-verify/1"
SAME, DIFFERS, UNVERIFIED = "same", "differs", "not verified"
_OF_MACHINE = "files", "versions"  # keys of an audit
_MOST = 10  # differences of one file that are listed
_CLOSE = 1e-7  # relative: other machines sum in another order
_PREDICTED = 1e-3  # predictions of fitted models, and what follows from them


@dataclass(frozen=True)
class Finding:
    """A result about `file`: `status` is "same", "differs" or "not verified", `detail` says what."""

    file: str
    status: str
    detail: str


def verify(
    folder: Path, task: "str | Path | Task | None" = None, data_dir: str | Path | None = None
) -> dict[str, Any]:
    """Return what a folder of a run or of audits says that its journal and table do not, for JSON.

    Keys: `format`, `folder`, `sha256` (of hashes.json or of the audits), `differs` and `not_verified` (how
    many), and `findings`. The table is looked for as a report does. Raises `FwcError` for a folder that
    holds neither a run nor an audit.
    """
    if RunFolder(folder).begun:
        findings = list(_run(RunFolder.existing(folder), task, data_dir))
        seal = folder / HASHES
    else:
        audits = [path for path in sorted(folder.glob("*.json")) if _content(path).get("format") == AUDIT]
        if not audits:
            raise FwcError(f"{folder} holds neither a run (run.json) nor an audit (`audit --out` writes one)")
        findings = [finding for path in audits for finding in _audit(path)]
        seal = audits[0]
    return {
        "format": FORMAT,
        "folder": folder.resolve().name,
        "sha256": {seal.name: sha256(seal)} if is_file(seal) else {},
        "differs": sum(finding.status == DIFFERS for finding in findings),
        "not_verified": sum(finding.status == UNVERIFIED for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def _run(
    folder: RunFolder, named: "str | Path | Task | None", data_dir: str | Path | None
) -> Iterator[Finding]:
    yield from _hashes(folder)
    if lacking := [name for name in (JOURNAL, "results.json") if not is_file(folder.path / name)]:
        why = f"{lacking[0]} is not here: answers and results cannot be made again"
        yield Finding("results.json", UNVERIFIED, why)
        with suppress(FwcError):
            yield _table(read_run(folder.path), named, data_dir)[0]
        return
    yield from _some(
        "journal.jsonl", _requests(folder), "prompts are their requests', answers their replies'"
    )
    with tempfile.TemporaryDirectory() as temporary:
        again = RunFolder(Path(temporary) / "run")
        for name in files_of(folder.path):
            if name != "assisted.json":
                (again.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder.path / name, again.path / name)
        try:
            recorded, version = folder.results(), folder.describe().get("parser", 1)
            today = version == PARSER
            with Journal(again.path) as journal:
                scored = score_and_judge(again, journal, recorded.get("stopped"), parse=today)
            run = read_run(again.path)
        except FwcError as error:
            text = str(error).replace(str(again.path), str(folder.path))
            yield Finding("results.json", DIFFERS, f"it cannot be made again: {text}")
            return
        yield from _some("answers.csv", _answers(folder, again), "every line is made from the journal again")
        if not today:
            changed = sum((scored.get("reparsed") or {}).values())
            text = (
                f"version {version} of the parser read the replies; version {PARSER}, installed here, reads "
            )
            text += f"{changed:,} otherwise (`fwc-llm rescore` writes those answers)"
            yield Finding("answers.csv", UNVERIFIED, text)
        finding, task = _table(replace(run, folder=folder.path), named, data_dir)
        yield finding
        if task is not None:
            yield from _some("questions.jsonl", _questions(folder, task), "groups and labels are the table's")
            with suppress(FwcError), Journal(again.path) as journal:  # groups or labels are not the table's
                score_and_judge(again, journal, recorded.get("stopped"), task, parse=today)
        now = again.results()
        if run.answered.assist and task is None:  # verdicts rest on predictions, which need the table
            for arm in (*recorded["arms"], *now["arms"]):
                arm.pop("verdict", None)
        yield from _some("results.json", differences(recorded, now), "every number is made again")
        if is_file(folder.path / (name := "assisted.json")):
            if is_file(again.path / name):
                texts = differences(folder.read_json(name), again.read_json(name), close=_PREDICTED)
                yield from _some(name, texts, "every prediction is made again")
            else:
                yield Finding(name, UNVERIFIED, "its predictions need the table")
        yield from _reports(folder, task, again)


def _table(
    run: Run, named: "str | Path | Task | None", data_dir: str | Path | None
) -> "tuple[Finding, Task | None]":
    task, missing = find_task(run, named, data_dir)
    status = SAME if task else DIFFERS if "not the table" in missing else UNVERIFIED
    return Finding("table", status, missing or "its hash is that of run.json"), task


def _hashes(folder: RunFolder) -> Iterator[Finding]:
    recorded = read_hashes(folder)
    if not recorded:
        yield Finding(HASHES, UNVERIFIED, "there is none: files are checked by what follows from them alone")
    for name, digest in recorded.items():
        path = folder.path / name
        if path.resolve().is_relative_to(folder.path.resolve()) and is_file(path):
            yield _hashed(path, digest, name)
        else:
            yield Finding(name, DIFFERS, "it is missing, and hashes.json has its hash")
    for name, digest in read_hashes(folder, "left_out").items():
        yield Finding(name, UNVERIFIED, f"it was left out of this bundle; its sha256 is {digest}")
    for name in files_of(folder.path):
        if recorded and name not in recorded:
            yield Finding(name, UNVERIFIED, "hashes.json does not have it")


def _hashed(path: Path, digest: str, name: str = "") -> Finding:
    now = sha256(path)
    text = f"sha256 {now}" if now == digest else f"its sha256 is {now}, recorded is {digest}"
    return Finding(name or path.name, SAME if now == digest else DIFFERS, text)


def _some(file: str, differences: Iterator[str], otherwise: str) -> Iterator[Finding]:
    """A finding for each of the first differences, or one that says that there is none."""
    texts = list[str]()
    try:
        texts += differences
    except (FwcError, OSError, ValueError) as error:
        texts.append(f"it cannot be read: {error}")
    yield from (Finding(file, DIFFERS, text) for text in texts[:_MOST])
    if len(texts) > _MOST:
        yield Finding(file, DIFFERS, f"and {len(texts) - _MOST:,} more")
    if not texts:
        yield Finding(file, SAME, otherwise)


def _requests(folder: RunFolder) -> Iterator[str]:
    """Records whose prompt is not that of their request, or whose reply is not what was parsed."""
    described = folder.describe()
    model = json.dumps([described["model"], described.get("parameters") or {}], sort_keys=True)
    words, prefixes = described.get("words") or YES_NO, dict[tuple[Any, Any], list[Any]]()
    prompts: dict[str, set[str]] = {}
    for number, record in enumerate(read_records(folder.path / JOURNAL), 2):
        key = record.get("arm"), record.get("repeat")
        where = f"line {number} (arm {key[0]}, repeat {key[1]}, row {record.get('row')})"
        if record.get("prefix"):
            prefixes[key] = record["prefix"]
        messages = [*prefixes.get(key, ()), *(record.get("prompt") or ())]
        prompts.setdefault(str(key[0]), set()).add(json.dumps(messages))
        parts = (record.get("repeat"), record.get("arm"), record.get("row"), record.get("variant"), messages)
        if messages and request_id(model, *parts) != record["request"]:
            yield f"{where}: the prompt, the model or its parameters are not those that were asked"
        for name, now in parsed(reply_of(record), words).items():
            was, version = record.get(name), record.get("parser", 1)
            if was != now and version == PARSER and not (isinstance(now, float) and _close(was, now)):
                yield f"{where}: {name} is {was!r}, and the reply {record['text']!r:.60} gives {now!r}"
    for arm, asked in prompts.items():
        path = folder.path / "prompts" / f"{file_name(arm)}.json"
        if is_file(path) and json.dumps(parse_json(read_text(path))) not in asked:
            yield f"prompts/{path.name} was never asked"


def _questions(folder: RunFolder, task: "Task") -> Iterator[str]:
    table: dict[str, tuple[str, str]] = {}
    for frame in (task.pool(), task.test()):
        labels = ("yes" if label else "no" for label in task.labels(frame))
        rows = zip(map(str, frame.index), map(str, task.sensitive(frame)), labels, strict=True)
        table |= {row: (group, label) for row, group, label in rows}
    for question in folder.read_questions():
        now, was = table.get(str(question["row"])), (question["group"], question["label"])
        if now != was:
            yield f"row {question['row']}: group and label are {was}, in the table {now}"


def _answers(folder: RunFolder, again: RunFolder) -> Iterator[str]:
    none: dict[str, str] = {}
    lines = zip_longest(folder.read_answers(), again.read_answers(), fillvalue=none)
    for number, (line, other) in enumerate(lines, 2):
        for name in dict.fromkeys((*line, *other)):
            if (cell := line.get(name)) != (made := other.get(name)):
                yield f"line {number}, {name}: {cell!r:.60} is recorded, the journal gives {made!r:.60}"


def _reports(folder: RunFolder, task: "Task | None", again: RunFolder) -> Iterator[Finding]:
    """The numbers of JSON reports of this run alone. Pages have a hash; what they show is in results.json."""
    recorded = read_hashes(folder)
    for path in sorted(folder.path.glob("*")):
        content = _content(path) if path.suffix == ".json" else {}
        if content.get("format") == REPORT and len(content.get("runs") or ()) == 1:
            now, was = make_document([again.path], task)["runs"][0], content["runs"][0]
            keys = [key for key in ("statistics", "audit", "findings") if key in was]
            texts = differences({key: was[key] for key in keys}, {key: now[key] for key in keys})
            yield from _some(path.name, texts, "every number is made again")
        elif path.suffix in (".html", ".md") and path.name not in recorded:
            yield Finding(path.name, UNVERIFIED, "no hash of it is recorded: write it again to compare")


def _audit(path: Path) -> Iterator[Finding]:
    recorded, tables = _content(path), dict[str, Path]()
    if not isinstance(recorded.get("files"), dict):
        yield Finding(path.name, UNVERIFIED, "it does not say which options made it: audit again")
        return
    for what, entry in recorded["files"].items():
        name = Path(str(entry["name"])).name  # never outside of the folder
        file, table = path.parent / name, what in ("predictions", "population")
        if not is_file(file):
            yield Finding(name, UNVERIFIED, "it is not here" + ": no number can be made again" * table)
        else:
            yield _hashed(file, entry["sha256"])
        tables |= {what: file} if table else {}
    if not all(map(is_file, tables.values())):
        yield Finding(path.name, UNVERIFIED, "its numbers need the table")
        return
    asked = check(Asked, recorded.get("asked"), f"{path}: asked")
    try:
        made = audit_of_file(
            tables["predictions"], asked, tables.get("population"), str(recorded.get("created"))
        )
    except FwcError as error:
        yield Finding(path.name, DIFFERS, f"it cannot be made again: {error}")
        return
    remade = json.loads(json.dumps({k: v for k, v in made.document.items() if k not in _OF_MACHINE}))
    close = _PREDICTED if "population" in tables else _CLOSE
    texts = differences({key: recorded.get(key) for key in remade}, remade, close=close)
    yield from _some(path.name, texts, "every number is made again from the table")


def differences(was: Any, now: Any, at: str = "", close: float = _CLOSE) -> Iterator[str]:
    """The places at which two JSON values differ, with both values; numbers may differ a little."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in (*was, *(key for key in now if key not in was)):
            yield from differences(was.get(key), now.get(key), f"{at}.{key}" if at else str(key), close)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for place, (before, after) in enumerate(zip(was, now, strict=True)):
            name = before.get("arm", place) if isinstance(before, Mapping) else place
            yield from differences(before, after, f"{at}[{name}]", close)
    elif was != now and not _close(was, now, close):
        yield f"{at}: {was!r:.60} is recorded, {now!r:.60} is made again"


def _close(was: Any, now: Any, close: float = _CLOSE) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (was, now))
    return numbers and math.isclose(was, now, rel_tol=close, abs_tol=close)


def _content(path: Path) -> dict[str, Any]:
    with suppress(FwcError):
        return RunFolder(path.parent).read_json(path.name)
    return {}
