"""A run's folder: its files and formats, how a run begins and continues in it; groups of runs."""

import csv
import hashlib
import json
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from itertools import chain, count
from os.path import isdir, isfile
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import (
    LARGEST_FILE,
    failing_as,
    in_shell,
    is_file,
    json_text,
    open_binary,
    read_text,
    sha256,
    whole_file,
)
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import (
    Fields,
    Json,
    escape_formula,
    parse_json,
    redact,
    unescape_formula,
)
from fwc_llm.taskfile import asks_the_same
from fwc_llm.validation import check

FORMAT = "fwc-llm-run/1"
QUESTION_COLUMNS = ("arm", "repeat", "row", "variant", "group", "label")
PARSED_COLUMNS = ("answer", "reason", "p_yes", "reply")
ANSWER_COLUMNS = (*QUESTION_COLUMNS, *PARSED_COLUMNS, "simulated")
THRESHOLD = "threshold"  # variant of questions about validation rows
COUNTERFACTUAL = (
    "counterfactual:"  # prefix of the variant of rows with a changed protected level
)
THRESHOLD_COLUMN = "threshold_answer"  # a further column in a run with a threshold
SUMS = "SHA256SUMS"  # of the files that scoring writes, in the form of `sha256sum`
SCORED = ("answers.csv", "results.json")
GROUP_FILE = "models.json"  # in the folder of a group of runs with several models
QUESTIONS_FORMAT = "fwc-llm-questions/1"
ROW_COLUMNS = ("weight", "cluster", "stratum")  # last columns, in a run that uses them
_PACKAGES = (
    "fwc-llm",
    "numpy",
    "scipy",
    "pandas",
    "numba",
    "jinja2",
    "openai",
    "tiktoken",
    "inspect-ai",
    "xllamacpp",
)
_LABELS = frozenset(("yes", "no", "refer"))
_LONGEST_NAME = (
    100  # bytes; file systems allow 255, and a file name may combine several names
)
# Keys of run.json and of its settings that may differ when a run is continued: they do not change
# the questions. `simulated` may become true by a reply.
_FREE = {
    "calls",
    "created",
    "versions",
    "command",
    "task_folder",
    "simulated",
    "simulated_answers",
    "margin",
    "min_group",
    "min_coverage",
    "weight",
    "given",
    "against",
    "task_file",
    "parser",
    "fail_if",
}
# Keys of run.json that earlier versions lack.
LATER = {"table_checks", "words", "reference", "rows", "task_file", "population"}


@dataclass(frozen=True)
class RunFolder:
    """Paths and formats of a run's files; all except the journal are written whole."""

    path: Path

    @classmethod
    def for_run(cls, out: str | Path | None, task: str, model: str) -> "RunFolder":
        """The folder `out`, else a new one `./runs/<time>-<task>-<model>`."""
        if out:
            return cls(Path(out))
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{file_name(task)}-{file_name(model)}"
        paths = chain(
            [Path("runs") / name],
            (Path("runs") / f"{name}-{number}" for number in count(2)),
        )
        return cls(next(path for path in paths if not path.exists()))

    @classmethod
    def existing(cls, path: str | Path) -> "RunFolder":
        """The folder of a run that has begun; `FwcError` without a valid run.json."""
        folder = cls(Path(path))
        if not isdir(path):
            raise FwcError(
                f"{path} is not a folder: name the folder of a run (what --out was given)"
            )
        folder.describe()
        return folder

    @property
    def begun(self) -> bool:
        """Whether a run has begun in this folder."""
        return isfile(self.path / "run.json")

    def create(self) -> None:
        """Create the folder; `FwcError` if this fails, or if the folder has files but no run."""
        with failing_as(
            FwcError,
            f"cannot write to {self.path}: ",
            "; name another folder with --out",
        ):
            self.path.mkdir(parents=True, exist_ok=True)
            entries = [entry.name for entry in self.path.iterdir()]
        # A run that was killed after creating its journal and before run.json begins again.
        if entries and not {"run.json", "journal.jsonl"} & set(entries):
            remedy = (
                "name a new folder with --out (or, to continue runs of several models, name all "
                "models)"
            )
            raise FwcError(f"{self.path} holds {entries[0]} and no run: {remedy}")

    def begin(self, description: Fields) -> None:
        """Write run.json; in that of the same run, update only the settings of verdicts."""
        if not self.begun:
            self.write_json("run.json", description)
            return
        before = self.describe()
        now = json.loads(json.dumps(description))
        texts = [
            str(content["task_file"])
            for content in (before, now)
            if content.get("task_file")
        ]
        if len(texts) > 1 and not asks_the_same(*texts):
            why = "holds a run of another version of the task file, whose text is in its run.json"
            raise FwcError(
                f"{self.path} {why}: restore it, or name a new folder with --out"
            )
        recorded = dict(_lasting(before))
        parameters = dict.fromkeys(before.get("parameters") or {}) | now["parameters"]
        changed = [
            f"{name or key}: {recorded.get((key, name))}, now {value}"
            for (key, name), value in _lasting(now | {"parameters": parameters})
            if recorded.get((key, name)) != value
            and not (key in LATER and key not in before)
        ]
        if changed:
            problem = f"{self.path} holds another run ({'; '.join(changed)})"
            raise FwcError(
                f"{problem}: repeat its settings, or name a new folder for this run"
            )
        changes = {
            "settings": before["settings"] | description["settings"],
            "fail_if": description.get("fail_if"),
        }
        if any(before.get(name) != value for name, value in changes.items()):
            self.change(**changes)

    def describe(self) -> Json:
        """The validated content of run.json."""
        return check_described(self.read_json("run.json"), self.path / "run.json")

    def change(self, **changes: Any) -> Json:
        """Change keys of run.json, such as `simulated`; return its content."""
        description = self.describe() | changes
        self.write_json("run.json", description)
        return description

    @cached_property
    def results(self) -> Json:
        """The content of results.json, a large file, which is read once."""
        self._check_sum("results.json")
        return self.read_json("results.json")

    def seal(self) -> None:
        """Write the checksums of the files that scoring writes."""
        sums = (f"{sha256(self.path / name)}  {name}\n" for name in SCORED)
        self.write_text(SUMS, "".join(sums))

    def unseal(self) -> None:
        """Remove the checksums, before scoring."""
        (self.path / SUMS).unlink(missing_ok=True)
        vars(self).pop("results", None)

    def _check_sum(self, name: str) -> None:
        """`FwcError` for a file that is not as it was written; older runs have no checksums."""
        path = self.path / name
        if not isfile(path) or not isfile(self.path / SUMS):
            return
        with failing_as(FwcError, f"cannot read {path}: "):
            if (
                f"{sha256(path)}  {name}"
                not in read_text(self.path / SUMS).splitlines()
            ):
                raise FwcError(
                    f"{path} is damaged: {rescored(self.path)} writes it again"
                )

    def read_json(self, name: str) -> Json:
        """Read a JSON object of the folder; `FwcError` if missing or damaged."""
        path = self.path / name
        damaged = f"): {self.path} is not a run's folder, or it is damaged"
        if (self.path / "tuning.json").is_file() and not path.exists():
            damaged = (
                "): this tuning chose nothing, so no run was made; tuning.json "
                "has its candidates"
            )
        with failing_as(FwcError, f"{path} cannot be read (", damaged):
            content = parse_json(read_text(path))
        if not isinstance(content, dict):
            raise FwcError(f"{path} is not a JSON object: the run's folder is damaged")
        return content

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file atomically; `ValueError` for NaN and infinities."""
        self.write_text(name, json_text(content))

    def write_text(self, name: str, text: str) -> None:
        """Write a text file atomically, without keys."""
        with self._writing(name) as file:
            file.write(redact(text, by_form=False))

    def write_answers(self, rows: Sequence[Fields]) -> None:
        """Write answers.csv: `ANSWER_COLUMNS`, further columns; formulas escaped."""
        further = _shared(rows, (THRESHOLD_COLUMN, *ROW_COLUMNS))
        with self._writing("answers.csv") as file:
            writer = csv.DictWriter(file, (*ANSWER_COLUMNS, *further))
            writer.writeheader()
            for row in rows:
                cells = ((name, row[name]) for name in row)
                writer.writerow(
                    {
                        n: escape_formula(x) if isinstance(x, str) else x
                        for n, x in cells
                    }
                )

    def read_answers(self) -> Iterator[dict[str, str]]:
        """Yield the lines of answers.csv; `FwcError` if it is damaged.

        Columns that the run's version did not write are empty, and columns of later versions are
        kept.
        """
        path = self.path / "answers.csv"
        self._check_sum(path.name)
        # Allow cells of any length that was ever written; the limit is global in the process.
        csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FILE))
        again = f"; the run never began, or is damaged: {rescored(self.path)} writes it again"
        with (
            failing_as(
                FwcError, f"cannot read {path}: ", again, (csv.Error, AttributeError)
            ),
            TextIOWrapper(open_binary(path), encoding="utf-8", newline="") as file,
        ):
            for row in csv.DictReader(file):
                cells = {
                    name: unescape_formula(cell) if cell[:1] == "'" else cell
                    for name, cell in row.items()
                }
                yield dict.fromkeys(PARSED_COLUMNS, "") | cells

    def write_questions(
        self, rows: Sequence[Fields], name: str = "questions.jsonl"
    ) -> None:
        """Write the questions in order to questions.jsonl, or a file of its format."""
        further = _shared(rows, ROW_COLUMNS)
        with self._writing(name) as file:
            header = {"format": QUESTIONS_FORMAT, "questions": len(rows)}
            file.write(
                json.dumps(header | ({"columns": further} if further else {})) + "\n"
            )
            for row in rows:
                line = [row[name] for name in (*QUESTION_COLUMNS, *further)]
                file.write(
                    json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
                )

    def read_questions(self, name: str = "questions.jsonl") -> Iterator[Json]:
        """Yield the questions of the run."""
        path = self.path / name
        again = (
            f"): the same evaluation with --out {in_shell(self.path)} writes it again"
        )
        with failing_as(
            FwcError, f"{path} is damaged (", again, (TypeError, AttributeError)
        ):
            with open_binary(path) as file:
                header = parse_json(next(file, b""))
                count = -1
                names = (*QUESTION_COLUMNS, *header.get("columns", ()))
                for count, line in enumerate(file):
                    row = dict(zip(names, parse_json(line), strict=True))
                    if not is_question(row):
                        raise ValueError(f"line {count + 2} is not a question")
                    yield row
            if (
                header.get("format") != QUESTIONS_FORMAT
                or header.get("questions") != count + 1
            ):
                raise ValueError(
                    f"it has {count + 1:,} questions and begins with {str(header)[:80]}"
                )

    @contextmanager
    def _writing(self, name: str) -> Iterator[IO[str]]:
        path = self.path / name
        with (
            failing_as(StorageError, f"cannot write {path}: "),
            whole_file(path) as file,
        ):
            yield file


def _shared(rows: Sequence[Fields], names: Sequence[str]) -> list[str]:
    """The columns of `names` that all rows have."""
    return [name for name in names if rows and all(name in row for row in rows)]


def without_reply(results: Fields) -> str:
    """How many of a run's requests have no reply, by results.json; "" if all have one."""
    missing = int(results.get("unanswered") or 0)
    requests = int(results.get("requests") or 0)
    return f"{missing:,} of {requests:,} requests have no reply" if missing else ""


def rescored(folder: Path) -> str:
    """What writes the numbers of a run again, in messages."""
    path = in_shell(folder)
    return f"`fwc-llm rescore {path}`, or the same evaluation with --out {path},"


def file_name(text: str) -> str:
    """`text` as part of a file name: letters, digits, `.@-_`, at most 100 bytes."""
    name = re.sub(r"[^\w.@-]+", "_", text).strip("._") or "_"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name.encode()[: _LONGEST_NAME - 13].decode('utf-8', 'ignore')}-{digest}"


def command() -> str:
    """The command line of this process, quoted for a shell."""
    return shlex.join(
        Path(word).name if index == 0 else word for index, word in enumerate(sys.argv)
    )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results may depend on."""
    numbers = {"python": sys.version.split()[0]}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


def _lasting(described: Fields) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield ((key, name within it), value) of what a continued run must keep."""
    for key, value in {"settings": None, **described}.items():
        if isinstance(value, dict):
            entries = value
        else:
            entries = {"": value}
        for name, entry in entries.items():
            # a run has copies of shots files, under other paths
            if key == "sources" and entry.endswith(".json"):
                entry = Path(entry).name
            if key not in _FREE and name not in _FREE:
                yield (key, name), entry


# Models of run.json and questions, with the keys that are read; further keys are allowed.
_Count = Annotated[int, Field(ge=0, lt=2**53)]


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


_Names = Annotated[list[str], AfterValidator(_distinct)]


class _Counted(BaseModel, strict=True):
    read: _Count
    kept: _Count
    lost: _Count
    reasons: dict[str, _Count]
    group: str = ""


class _Rows(_Counted):
    groups: list[_Counted]
    warning: str | None = None


class _People(BaseModel, strict=True):
    group: str
    no: _Count
    yes: _Count
    refer: _Count | None = None


def _settings(content: Json) -> Json:
    """Validate the settings, and add defaults that an earlier version lacks."""
    settings = {
        name: value for name, value in content.items() if name in Settings.model_fields
    }
    try:
        return content | Settings(**settings).as_json()
    except FwcError as error:
        raise ValueError(str(error)) from None


class Described(BaseModel, strict=True):
    """The keys of run.json."""

    task: str
    model: str
    simulated: bool
    simulated_answers: bool | None = None
    reference: bool | None = None
    local: bool | None = None
    rows: _Rows | None = None
    format: Literal["fwc-llm-run/1"]
    arms: Annotated[_Names, Field(min_length=1)]
    settings: Annotated[Json, AfterValidator(_settings)]
    title: str | None = None
    fingerprint: str | None = None
    created: str | None = None
    command: str | None = None
    task_file: str | None = None
    task_folder: str | None = None
    population: list[_People] | None = None
    no_rows: bool | None = None
    fail_if: list[str] | None = None
    protected: _Names | None = None
    parser: _Count | None = None
    words: dict[Literal["yes", "no", "refer"], _Names] | None = None
    parameters: Json | None = None
    sources: dict[str, str] | None = None
    versions: dict[str, str] | None = None
    calls: _Count | None = None
    table_checks: dict[str, str] | None = None
    epochs: _Count | None = None


def check_described(content: Fields, path: Path) -> Json:
    """Validate the content of a run.json; `FwcError` if it is damaged."""
    return {
        **content,
        "settings": check(Described, content, f"{path} is damaged").settings,
    }


def is_question(row: Fields) -> bool:
    """Whether `row` is a valid question of a run."""
    texts = all(
        isinstance(row.get(name), str) for name in ("arm", "row", "variant", "group")
    )
    repeat = row.get("repeat")
    return (
        texts
        and type(repeat) is int
        and 0 <= repeat < 1_000_000
        and row.get("label") in _LABELS
    )


GROUP_FORMAT = "fwc-llm-models/1"


@dataclass(frozen=True)
class Group:
    """A folder with one run for each of `models`, listed in models.json."""

    path: Path
    models: tuple[str, ...]

    @classmethod
    def begin(cls, path: Path | None, task: str, models: Sequence[str]) -> "Group":
        """Create the folder, or continue; `FwcError` if it is for other models."""
        folder = RunFolder.for_run(path, task, f"{len(models)}-models")
        group = cls(folder.path, tuple(models))
        before = cls.find(group.path)
        others = group.models
        if before is not None:
            others = before.models
        elif folder.begun:
            others = (folder.describe()["model"],)
        if others != group.models:
            raise FwcError(
                f"{group.path} is for {', '.join(others)}, now {', '.join(models)}: name the same "
                "models to continue, or ask the new ones alone with another --out; `fwc-llm "
                "report` takes several folders"
            )
        if before is None:
            folder.create()
            folder.write_json(
                GROUP_FILE, {"format": GROUP_FORMAT, "models": list(models)}
            )
        return group

    @classmethod
    def find(cls, path: Path) -> "Group | None":
        """The group in a folder, or None; `FwcError` for a damaged models.json."""
        if not is_file(path / GROUP_FILE):
            return None
        content = RunFolder(path).read_json(GROUP_FILE)
        models = content.get("models")
        if (
            content.get("format") != GROUP_FORMAT
            or not isinstance(models, list)
            or not models
        ):
            raise FwcError(
                f"{path / GROUP_FILE} is not of format {GROUP_FORMAT}: it was not written by this "
                f"tool"
            )
        return cls(path, tuple(map(str, models)))

    def folder(self, model: str) -> Path:
        """The folder of one model's run."""
        return self.path / file_name(model)


def expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield paths, replacing groups by their runs; `FwcError` for a group without runs."""
    for path in paths:
        group = Group.find(path)
        models = map(group.folder, group.models) if group else ()
        if group:
            runs = [run for run in models if RunFolder(run).begun]
        else:
            runs = [path]
        if not runs:
            raise FwcError(
                f"{path}: no model has been asked yet; first repeat the `fwc-llm eval` command of "
                f"this folder"
            )
        yield from runs


def answered_requests(folder: Path) -> int:
    """The number of a run's requests that had a reply when it was scored."""
    if not is_file(folder / "results.json"):
        return 0
    results = RunFolder(folder).results
    return int(results["requests"] - results["unanswered"])
