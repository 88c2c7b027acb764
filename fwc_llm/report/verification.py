"""Recomputes all numbers of a folder from journal and table; checks hashes.

No request is sent, and the folder is not changed. A run is planned and scored again. Its questions, requests,
prompts and examples must follow from its settings, and its answers and numbers from its replies. An audit is
computed again from its table.

The author of a folder may have forged all of it. Therefore the verifier should supply task, table and
settings. Values that only the folder states are listed as stated, and values that cannot be checked here as
not verified.
"""

import json
import math
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from fwc_llm.answers import PARSER
from fwc_llm.errors import FwcError
from fwc_llm.files import is_file, read_text, sha256
from fwc_llm.models.recorded import FILE_NAME as JOURNAL
from fwc_llm.models.recorded import read_records, reply_of
from fwc_llm.report.audit_file import FORMAT as AUDIT
from fwc_llm.report.audit_file import AuditOptions, audit_of_file
from fwc_llm.report.document import FORMAT as REPORT
from fwc_llm.report.document import find_task, make_document
from fwc_llm.report.evidence_bundle import CARD, model_card
from fwc_llm.report.formats import write_document
from fwc_llm.report.tuning import FILE_NAME as TUNING
from fwc_llm.runs.folder import HASHES, LATER, RunFolder, file_name
from fwc_llm.runs.journal import Journal, call_id, parsed, request_id
from fwc_llm.runs.plan import Plan, describe_asked, make_plan
from fwc_llm.runs.recorded_run import read_run, score_run
from fwc_llm.runs.results import questions
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import draw_split, hold_out
from fwc_llm.runs.threshold_selection import FILE_NAME as POOL
from fwc_llm.sanitize import parse_json, parse_toml
from fwc_llm.shots.storage import load_shots, shots_json
from fwc_llm.taskfile import asks_the_same
from fwc_llm.tasks import load_task, task_names
from fwc_llm.validation import check
from fwc_llm.version import __version__
from fwc_llm.words import YES_NO

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMAT = "fwc-llm-verify/1"
SAME, DIFFERS, UNVERIFIED, STATED = "same", "differs", "not verified", "stated"
_MOST = 10  # most differences of one file that are listed
_ABSENT = object()
_CLOSE = 1e-7  # tolerance: the order of summation depends on the machine
_PREDICTED = 1e-3  # tolerance for predictions of fitted models and values computed from them
_NUMBERS = "statistics", "audit", "findings"  # of a JSON report
_OF_MACHINE = "files", "versions"  # keys of an audit
# Keys of a record that can be checked, and keys of run.json that cannot.
_CHECKED = {"request", "arm", "repeat", "row", "variant", "answer", "reason", "prompt", "prefix"}
_WORD = {
    "model", "parameters", "simulated_answers", "reference", "created", "versions", "command", "parser",
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A finding about `file`; status `STATED` means that only the folder says so."""

    file: str
    status: str
    detail: str


@dataclass(frozen=True)
class Checker:
    """What the verifier supplies instead of relying on the folder."""

    task: "str | Path | Task | None" = None
    data_dir: str | Path | None = None
    data: str | Path | None = None  # replaces the files of the task, or an audit's table of decisions
    expected: Mapping[str, Any] = field(default_factory=dict)  # settings by name, and `model`


class _HashedFile(BaseModel):
    name: str
    sha256: str


class _HashedFiles(BaseModel):
    files: dict[str, _HashedFile]


def verify(folder: Path, checker: Checker = Checker()) -> dict[str, Any]:
    """Verify a folder of a run or of audits; return the findings, ready for JSON."""
    if RunFolder(folder).begun:
        findings = list(_run(RunFolder.existing(folder), checker))
        seal = folder / HASHES
    else:
        audits = [path for path in sorted(folder.glob("*.json")) if _content(path).get("format") == AUDIT]
        if not audits:
            raise FwcError(
                f"{folder} is no folder of a run (run.json) or of an audit (`audit --out` writes one)"
            )
        findings = [finding for path in audits for finding in _audit(path, checker)]
        findings += _unread(folder, findings, folder.glob("*"))
        seal = audits[0]
    counts = Counter(finding.status for finding in findings)
    return {
        "format": FORMAT,
        "folder": folder.resolve().name,
        "sha256": {seal.name: sha256(seal)} if is_file(seal) else {},
        **{status.replace(" ", "_"): counts[status] for status in (DIFFERS, UNVERIFIED, STATED)},
        "findings": [asdict(finding) for finding in findings],
    }


def _run(folder: RunFolder, checker: Checker) -> Iterator[Claim]:
    yield from _hashes(folder)
    described = folder.describe()
    settings = described["settings"] | {"model": described["model"]}
    found = [*_expected("run.json", settings, checker.expected)]
    if lacking := [name for name in (JOURNAL, "results.json") if not is_file(folder.path / name)]:
        why = f"{lacking[0]} is missing: answers and results cannot be recomputed"
        found += [Claim("results.json", UNVERIFIED, why), _unplanned(described, "it needs the journal")]
        with suppress(FwcError):
            found.append(_table(folder, checker)[0])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            found += _made_again(folder, described, RunFolder(Path(temporary) / "run"), checker)
    yield from found
    yield from _unread(folder.path, found, folder.path.rglob("*"))


def _made_again(
    folder: RunFolder, described: dict[str, Any], again: RunFolder, checker: Checker
) -> Iterator[Claim]:
    """Score and plan the run again, in the folder `again`; yield findings."""
    yield from _records(folder, described)
    for name in folder.own_files():
        if name != "assisted.json":
            (again.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder.path / name, again.path / name)
    try:
        recorded, version = folder.results(), described.get("parser", 1)
        today = version == PARSER
        with Journal(again.path) as journal:
            scored = score_run(again, journal, recorded.get("stopped"), parse=today)
        run = read_run(again.path)
    except FwcError as error:
        text = str(error).replace(str(again.path), str(folder.path))
        yield Claim("results.json", DIFFERS, f"it cannot be recomputed: {text}")
        return
    texts = _lines(folder.read_answers(), again.read_answers())
    yield from _some("answers.csv", texts, "every line is recomputed from the journal")
    if missing := ", ".join(missing_keys(next(folder.read_answers(), {}), next(again.read_answers(), {}))):
        yield Claim("answers.csv", UNVERIFIED, f"columns that are not recorded: {missing}")
    if not today:
        changed = sum((scored.get("reparsed") or {}).values())
        read = f"parser version {version} read the replies; version {PARSER} reads {changed:,} differently"
        yield Claim("answers.csv", UNVERIFIED, f"{read} (`fwc-llm rescore` writes the new answers)")
    table, task = _table(folder, checker)
    yield table
    plan = None
    why = "it needs the table" if task is None else "a log of Inspect is not planned again"
    if task is not None and "epochs" not in described:
        try:
            plan = _planned(folder, described, task, recorded)
        except FwcError as error:
            why = f"the run cannot be planned again: {error}"
    if plan is None:
        yield _unplanned(described, why)
    else:
        yield from _of_plan(folder, described, again.describe(), plan)
    if task is not None:
        with suppress(FwcError), Journal(again.path) as journal:  # fails for another table
            score_run(again, journal, recorded.get("stopped"), task, parse=today)
    now = again.results()
    for arm in (*recorded["arms"], *now["arms"]) if run.answered.assist and task is None else ():
        arm.pop("verdict", None)  # depends on predictions, which need the table
    if any("paper_summary" in arm for arm in recorded["arms"]):
        yield from _same("results.json", recorded, now)
    else:
        yield Claim("results.json", UNVERIFIED, "an earlier version wrote it: rescore it, and verify again")
    yield Claim("results.json", STATED, "no other file confirms: stopped")
    if is_file(folder.path / (name := "assisted.json")):
        if is_file(again.path / name):
            yield from _same(name, folder.read_json(name), again.read_json(name), _PREDICTED)
        else:
            yield Claim(name, UNVERIFIED, "its predictions need the table")
    yield from _reports(folder, task, again)


def _expected(file: str, recorded: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield settings that differ from the verifier's, or that the verifier omits."""
    for name, value in expected.items():
        if (was := recorded.get(name)) != value:
            yield Claim(file, DIFFERS, f"{name} is {was!r}, and {value!r} was expected")
    usual = Settings().as_json()
    others = (name for name in recorded if name not in expected and recorded[name] != usual.get(name))
    texts = ", ".join(f"{name} = {recorded[name]!r}" for name in others)
    yield Claim(file, STATED, f"settings: {texts or 'none'}; all others equal yours or the defaults")


def _table(folder: RunFolder, checker: Checker) -> "tuple[Claim, Task | None]":
    """The claim, and the task: the verifier's, else the built-in one, else the folder's."""
    run = read_run(folder.path)
    named, own = checker.task, checker.task is None and run.task not in task_names()
    if not own and (named is None or isinstance(named, str | Path)):
        protected = run.described.get("protected")
        try:
            named = load_task(named or run.task, checker.data_dir, protected=protected, data=checker.data)
        except FwcError as error:
            if (checker.task, checker.data_dir, checker.data) != (None, None, None):
                raise
            return Claim("table", UNVERIFIED, str(error)), None
    task, missing = find_task(run, named, checker.data_dir)
    if task is None:
        return Claim("table", DIFFERS if "not the table" in missing else UNVERIFIED, missing), None
    if own:
        why = "task and table are those that the folder names (give yours with --task and --data-dir)"
        return Claim("table", STATED, why), task
    return Claim("table", SAME, "its hash equals the hash in run.json"), task


def _unplanned(described: Mapping[str, Any], why: str) -> Claim:
    names = ", ".join(key for key in described if key not in ("format", "settings"))
    return Claim("run.json", UNVERIFIED, f"{why}: {names}")


def _planned(
    folder: RunFolder, described: Mapping[str, Any], task: "Task", results: Mapping[str, Any]
) -> Plan:
    """Plan the run again from its settings."""
    names = list(described["arms"])
    with suppress(OSError, ValueError, KeyError, AttributeError):
        names = parse_toml(read_text(folder.path / "experiment.toml"))["shots"].split(",")
    for name in names:
        if ":" in name and not name.endswith(".json"):
            raise FwcError(f"arm {name!r} is a function, and what a folder names is not run")
    sources = [str(folder.path / name) if name.startswith("given/") else name for name in names]
    settings = dict(described["settings"])
    first = next(folder.read_questions(), {})
    if settings["weight"] is None and "weight" in first:  # the task's weight was used
        del settings["weight"]
    asked, split = Settings(**settings), None
    rows = _content(folder.path / TUNING).get("rows")
    if isinstance(rows, int):  # pool rows that candidates answered cannot be examples
        drawn = draw_split(task, asked.n_test, asked.base_parity, asked.seed)
        _, split = hold_out(task, drawn, rows, asked.base_parity, asked.seed)
    plan = make_plan(task, sources, asked, split=split)
    until = results.get("until_decided")
    return plan.part(until["rows"]) if until else plan


def _of_plan(
    folder: RunFolder, described: Mapping[str, Any], scored: Mapping[str, Any], plan: Plan
) -> Iterator[Claim]:
    """Yield findings on run.json, questions, requests, examples and prompts."""
    made_by = (described.get("versions") or {}).get("fwc-llm", __version__)
    # Another version may draw other rows and build other prompts.
    status = DIFFERS if made_by == __version__ else UNVERIFIED
    now = describe_asked(
        plan, described["model"], described.get("parameters") or {},
        bool(described.get("simulated_answers", described["simulated"])), bool(described.get("reference")),
    )  # fmt: skip
    unchecked = _WORD | (LATER - set(described))
    now = {key: value for key, value in json.loads(json.dumps(now)).items() if key not in unchecked}
    sources = described.get("sources") or {}
    for arm in plan.arms:  # run.json has the original path of a shots file
        if arm.source in plan.saved and re.search(r"^shots-|\.json$", sources.get(arm.name, "")):
            now["sources"][arm.name] = sources[arm.name]
    text = described.get("task_file") or ""
    if text != now.get("task_file", "") and asks_the_same(now.get("task_file", ""), text):
        now["task_file"] = text
        yield Claim("run.json", STATED, "task_file has another text, which asks the same questions")
    was = {key: described.get(key) for key in now}
    texts = chain(differences(described, scored), differences(was, now))
    yield from _some("run.json", texts, "it agrees with a new plan of the run", status)
    others = ", ".join(key for key in described if key not in now)
    yield Claim("run.json", STATED, f"no other file confirms: {others}")
    for name, of_pool in (("questions.jsonl", False), (POOL, True)):
        if not of_pool or is_file(folder.path / name):
            lines = _lines(folder.read_questions(name), questions(plan, of_pool))
            yield from _some(name, lines, "rows, groups and labels agree with the table", status)
    findings, plan = _with_kept_examples(folder, plan)
    yield from findings
    ids = {call_id(_model(described), call) for call in plan.calls()}
    replies = (record for record in read_records(folder.path / JOURNAL) if record["text"] is not None)
    arms = {record["request"]: str(record.get("arm")) for record in replies}
    answered, tuned = set(arms), is_file(folder.path / TUNING)
    if of_candidates := {
        request for request in answered - ids if tuned and arms[request].startswith("pool ")
    }:
        answered -= of_candidates
        yield Claim(JOURNAL, STATED, f"{len(of_candidates):,} requests belong to the tuning's candidates")
    if strangers := len(answered - ids):
        yield Claim(JOURNAL, status, f"{strangers} requests are not in the plan")
    if lacking := len(ids - answered):
        yield Claim(JOURNAL, UNVERIFIED, f"{lacking} of the plan's {len(ids)} requests have no reply")
    for call in plan.first_calls:
        if is_file(path := folder.path / f"prompts/{file_name(call.arm)}.json"):
            unlike = differences(_content(path, list), list(call.messages))
            yield from _some(f"prompts/{path.name}", unlike, "it is the first prompt of the plan", status)


def _with_kept_examples(folder: RunFolder, plan: Plan) -> tuple[list[Claim], Plan]:
    """Findings on examples; and the plan with the folder's examples."""
    findings, repeats = [], []
    for repeat in plan.repeats:
        shots = dict(repeat.shots)
        for arm, chosen in repeat.shots.items():
            name = f"shots/{file_name(arm)}-{repeat.index}.json"
            if not is_file(folder.path / name):
                findings.append(Claim(name, UNVERIFIED, "it is missing"))
                continue
            try:
                shots[arm] = load_shots(folder.path / name, plan.task, allow_changed_data=True)
            except FwcError as error:
                findings.append(Claim(name, DIFFERS, str(error)))
                continue
            now = json.loads(json.dumps(shots_json(chosen)))
            texts = list(differences(_content(folder.path / name), now, close=_PREDICTED))
            why = (
                f"{texts[0]}; another processor can decide near-ties differently" if texts else "chosen again"
            )
            findings.append(Claim(name, UNVERIFIED if texts else SAME, why))
        repeats.append(replace(repeat, shots=shots))
    return findings, replace(plan, repeats=tuple(repeats))


def _unread(folder: Path, found: Iterable[Claim], paths: Iterable[Path]) -> Iterator[Claim]:
    """Yield a finding for each file that nothing but a hash checks."""
    names = {path.relative_to(folder).as_posix() for path in paths if path.is_file()}
    for name in sorted(names - {HASHES} - {finding.file for finding in found}):
        yield Claim(name, STATED, "no other file confirms its content")


def _hashes(folder: RunFolder) -> Iterator[Claim]:
    recorded = folder.hashes()
    changing = ", ".join(folder.hashes("changing"))
    if changing:
        why = (
            "the command that last wrote to the folder was stopped (it, or `fwc-llm rescore`, ends the work)"
        )
        yield Claim(HASHES, UNVERIFIED, f"{why}: files are checked only by recomputing: {changing}")
    elif not recorded:
        yield Claim(HASHES, UNVERIFIED, "it is missing: files are checked only by recomputing")
    for name, digest in recorded.items():
        path = folder.path / name
        if path.resolve().is_relative_to(folder.path.resolve()) and is_file(path):
            yield _hashed(path, digest, name)
        else:
            yield Claim(name, DIFFERS, "it is missing, although hashes.json has its hash")
    for name, digest in folder.hashes("left_out").items():
        yield Claim(name, UNVERIFIED, f"it was left out of this bundle; its sha256 is {digest}")


def _hashed(path: Path, digest: str, name: str) -> Claim:
    if (now := sha256(path)) == digest:
        return Claim(name, SAME, f"sha256 {now}")
    return Claim(name, DIFFERS, f"its sha256 is {now}, but {digest} is recorded")


def _some(file: str, differences: Iterator[str], otherwise: str, status: str = DIFFERS) -> Iterator[Claim]:
    """Yield findings for the first differences; without any, `otherwise`."""
    texts = list[str]()
    try:
        texts += differences
    except (FwcError, OSError, ValueError) as error:
        texts.append(f"it cannot be read: {error}")
    yield from (Claim(file, status, text) for text in texts[:_MOST])
    if len(texts) > _MOST:
        yield Claim(file, status, f"and {len(texts) - _MOST:,} more")
    if not texts:
        yield Claim(file, SAME, otherwise)


def _same(file: str, was: Any, now: Any, close: float = _CLOSE) -> Iterator[Claim]:
    """Yield findings on recorded values `was`, compared with recomputed values `now`."""
    if '"noise_expected"' in json.dumps(was):
        yield Claim(file, UNVERIFIED, "an earlier version wrote it, with other definitions of the numbers")
        return
    yield from _some(file, differences(was, now, close=close), "every number is recomputed")
    if missing := list(missing_keys(was, now)):
        names = ", ".join(missing[:_MOST]) + ", …" * (len(missing) > _MOST)
        yield Claim(file, UNVERIFIED, f"{len(missing)} values are not recorded: {names}")


def _records(folder: RunFolder, described: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield findings on prompts against request ids, and answers against replies."""
    yield from _some(
        JOURNAL, _requests(folder, described), "prompts agree with requests, and answers with replies"
    )
    names, bare = dict[str, None](), 0
    for record in read_records(folder.path / JOURNAL):
        names |= dict.fromkeys(record)
        bare += not record.get("prompt")
    if bare:
        yield Claim(JOURNAL, UNVERIFIED, f"{bare} records have no prompt")
    stated = ", ".join(name for name in names if name not in _CHECKED)
    yield Claim(JOURNAL, STATED, f"nothing proves that the model gave: {stated}")


def _model(described: Mapping[str, Any]) -> str:
    """The model with its parameters, as in `parameters_json`."""
    return json.dumps([described["model"], described.get("parameters") or {}], sort_keys=True)


def _requests(folder: RunFolder, described: Mapping[str, Any]) -> Iterator[str]:
    """Yield records whose prompt or answer does not match request id or reply."""
    words, prefixes = described.get("words") or YES_NO, dict[tuple[Any, Any], list[Any]]()
    prompts: dict[str, set[str]] = {}
    for number, record in enumerate(read_records(folder.path / JOURNAL), 2):
        key = record.get("arm"), record.get("repeat")
        where = f"line {number} (arm {key[0]}, repeat {key[1]}, row {record.get('row')})"
        if record.get("prefix"):
            prefixes[key] = record["prefix"]
        if record.get("prompt"):
            messages = [*prefixes.get(key, ()), *record["prompt"]]
            prompts.setdefault(str(key[0]), set()).add(json.dumps(messages))
            question = record.get("repeat"), record.get("arm"), record.get("row"), record.get("variant")
            own = "epochs" not in described  # a log of Inspect has other request ids
            if own and request_id(_model(described), *question, messages) != record["request"]:
                yield f"{where}: the prompt, the model or its parameters are not those that were asked"
        for name, now in parsed(reply_of(record), words).items():
            was, version = record.get(name), record.get("parser", 1)
            if was != now and version == PARSER and not (isinstance(now, float) and _close(was, now)):
                yield f"{where}: {name} is {was!r}, and the reply {record['text']!r:.60} gives {now!r}"
    for arm, asked in prompts.items():
        path = folder.path / "prompts" / f"{file_name(arm)}.json"
        if is_file(path) and json.dumps(_content(path, list)) not in asked:
            yield f"prompts/{path.name} was never asked"


def _lines(was: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the cells in which recorded lines differ from recomputed lines."""
    nothing: Mapping[str, Any] = {}
    for number, (line, made) in enumerate(zip_longest(was, now, fillvalue=nothing), 2):
        for name in line or made:
            if (cell := str(line.get(name))) != (other := str(made.get(name))):
                yield f"line {number}, {name}: {cell!r:.60} is recorded, {other!r:.60} is recomputed"


def _reports(folder: RunFolder, task: "Task | None", again: RunFolder) -> Iterator[Claim]:
    """Yield findings on reports and the model card, compared with new ones."""
    for path in sorted(folder.path.glob("*")):
        content = _content(path) if path.suffix == ".json" else {}
        runs = content.get("runs") if content.get("format") == REPORT else None
        if isinstance(runs, list) and len(runs) == 1 and isinstance(was := runs[0], dict):
            now = make_document([again.path], task)["runs"][0]
            texts = differences({key: was.get(key) for key in _NUMBERS}, {key: now[key] for key in _NUMBERS})
            yield from _some(path.name, texts, "every number is recomputed")
            others = ", ".join(key for key in was if key not in _NUMBERS)
            yield Claim(path.name, STATED, f"not compared: {others}")
        elif path.name == CARD:
            card = model_card(make_document([again.path], task)["runs"][0])
            yield from _same(path.name, content, card | {"metadata": content.get("metadata")})
            yield Claim(path.name, STATED, "no other file confirms: metadata")
        elif path.suffix in (".html", ".md"):
            made = (make_document([again.path], task, with_rows=rows) for rows in (True, False))
            known = read_text(path) in (write_document(document, path.suffix[1:]) for document in made)
            why = "a new report is the same" if known else "a new report has another content"
            yield Claim(path.name, SAME if known else UNVERIFIED, why)


def _audit(path: Path, checker: Checker) -> Iterator[Claim]:
    recorded, tables = _content(path), dict[str, Path]()
    if not isinstance(recorded.get("files"), dict):
        yield Claim(path.name, UNVERIFIED, "it does not record its options: repeat the audit")
        return
    files = check(_HashedFiles, recorded, str(path)).files
    for what, entry in files.items():
        name = Path(entry.name).name  # never a path outside of the folder
        file, table = path.parent / name, what in ("predictions", "population")
        if what == "predictions" and checker.data is not None:
            file = Path(checker.data)
        elif table:
            yield Claim(name, STATED, "the table is the one in the folder (give yours with --data)")
        if not is_file(file):
            yield Claim(name, UNVERIFIED, "it is missing" + ": no number can be recomputed" * table)
        else:
            yield _hashed(file, entry.sha256, file.name)
        tables |= {what: file} if table else {}
    if "predictions" not in tables or not all(map(is_file, tables.values())):
        yield Claim(path.name, UNVERIFIED, "its numbers need the table")
        return
    asked = check(AuditOptions, recorded.get("asked"), f"{path}: asked")
    yield from _expected(path.name, asked.settings, checker.expected)
    options = asked.model_dump(mode="json", exclude={"settings"}, exclude_defaults=True)
    yield Claim(path.name, STATED, f"no other file confirms created, versions and the options: {options}")
    try:
        made = audit_of_file(
            tables["predictions"], asked, tables.get("population"), str(recorded.get("created"))
        )
    except FwcError as error:
        yield Claim(path.name, DIFFERS, f"it cannot be recomputed: {error}")
        return
    remade = json.loads(json.dumps({k: v for k, v in made.document.items() if k not in _OF_MACHINE}))
    was = {key: value for key, value in recorded.items() if key not in _OF_MACHINE}
    yield from _same(path.name, was, remade, _PREDICTED if "population" in tables else _CLOSE)


def differences(was: Any, now: Any, close: float = _CLOSE) -> Iterator[str]:
    """Yield where JSON values differ beyond `close`, without keys that `was` lacks."""
    for at, before, after in _leaves(was, now):
        if before is not _ABSENT and before != after and not _close(before, after, close):
            yield f"{at}: {before!r:.60} is recorded, {after!r:.60} is recomputed"


def missing_keys(was: Any, now: Any) -> Iterator[str]:
    """Yield the keys in `now` that `was` lacks."""
    return (at for at, before, _ in _leaves(was, now) if before is _ABSENT)


def _leaves(was: Any, now: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, was, now) of each leaf; `_ABSENT` for a key that `was` lacks."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in {**was, **now}:
            yield from _leaves(was.get(key, _ABSENT), now.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for place, (before, after) in enumerate(zip(was, now, strict=True)):
            name = before.get("arm", place) if isinstance(before, Mapping) else place
            yield from _leaves(before, after, f"{at}[{name}]")
    else:
        yield at, was, now


def _close(was: Any, now: Any, close: float = _CLOSE) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (was, now))
    return numbers and math.isclose(was, now, rel_tol=close, abs_tol=close)


def _content(path: Path, kind: type[Any] = dict) -> Any:
    """The JSON of a file; an empty `kind` if it is unreadable or of another type."""
    with suppress(OSError, ValueError):
        content = parse_json(read_text(path))
        return content if isinstance(content, kind) else kind()
    return kind()
