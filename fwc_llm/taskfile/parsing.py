"""From TOML to a checked `TaskFile`: every mistake is named with its file, key and remedy."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.taskfile.attributes import read_chosen, read_offered, read_outcome
from fwc_llm.taskfile.columns import MISSING, read_fields
from fwc_llm.taskfile.conditions import read_conditions
from fwc_llm.taskfile.reader import Reader, near
from fwc_llm.taskfile.source import read_source
from fwc_llm.taskfile.values import ABOUT, Field, MissingRule, TaskFile

_LARGEST = 1 << 22  # bytes
_MOST_PARTS = 50  # of a dotted key: the parser's work grows with their square
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w\"'-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS}}}")
_LONGEST_ANSWER = 4000  # characters of a text in [about]


def read_taskfile(path: Path) -> TaskFile:
    """Read and check the task file at `path`; every mistake is an `FwcError` naming file, key and remedy."""
    try:
        text = read_text(path, _LARGEST)
    except (OSError, ValueError) as error:
        raise FwcError(f"cannot read the task file {path}: {_reason(error)}") from error
    return parse_taskfile(text, path)


def parse_taskfile(text: str, path: Path) -> TaskFile:
    """Check the text of a task file; `path` is where mistakes are said to be. Raises as `read_taskfile`."""
    try:
        if _LONG_KEY.search(text):
            raise ValueError(f"a key has more than {_MOST_PARTS} parts")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and numbers with too many digits
        raise FwcError(
            f"{path} is no TOML file: {error}; `fwc-llm task init DATA.csv` writes a task file to start from"
        ) from error
    return replace(_read(Reader(path), data), text=text)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _read(reader: Reader, data: Mapping[str, Any]) -> TaskFile:
    keys = ("name", "title", "question", "missing", "licence", "citation", "note", "use_protected")
    tables = ("weight", "columns", "values", "data", "keep", "protected", "outcome", "about")
    top = reader.table(data, "", (*keys, *tables))
    fields = read_fields(reader, top)
    names = [item.name for item in fields]
    outcome = read_outcome(reader, top, names)
    offered = read_offered(reader, top, fields, outcome)
    task = TaskFile(
        name=reader.string(top, "name", "", reader.path.stem),
        path=reader.path,
        title=reader.string(top, "title", "", reader.path.stem),
        question=reader.string(top, "question", ""),
        missing=cast(MissingRule, reader.choice(top, "missing", "", MISSING, "error")),
        source=read_source(reader, top),
        fields=fields,
        protected=read_chosen(reader, top, offered),
        outcome=outcome,
        licence=reader.string(top, "licence", "", ""),
        citation=reader.string(top, "citation", "", ""),
        note=reader.string(top, "note", "", ""),
        about=_about(reader, top),
        keep=read_conditions(reader, top.get("keep", []), names),
        offered=offered,
        weight=_weight(reader, top, fields),
    )
    _check_uses(reader, task)
    return task


def _weight(reader: Reader, top: Mapping[str, Any], fields: Sequence[Field]) -> str:
    """The column that `weight` names: a number that is no feature. Empty where there is none."""
    name = reader.string(top, "weight", "", "")
    if not name:
        return ""
    by_name = {item.name: item for item in fields}
    if name not in by_name:
        raise reader.fail("weight", f"there is no column {name!r}{near(name, list(by_name))}")
    item = by_name[name]
    if (item.use, item.column.role, item.column.kind) != ("column", "extra", "numeric"):
        raise reader.fail(
            "weight",
            f'column {name!r} must have kind = "numeric" and role = "extra": a weight is a number that '
            "says nothing about the row itself",
        )
    return name


def _about(reader: Reader, top: Mapping[str, Any]) -> dict[str, str]:
    """What [about] says of the purpose and the data; an empty text would look like an answer."""
    table = reader.table(top.get("about", {}), "about", ABOUT)
    found = {key: reader.string(table, key, "about").strip() for key in ABOUT if key in table}
    for key, text in found.items():
        if len(text) > _LONGEST_ANSWER:
            raise reader.fail("about", f"{key!r} has {len(text):,} characters; at most {_LONGEST_ANSWER:,}")
    return found


def _check_uses(reader: Reader, task: TaskFile) -> None:
    """Every column has one use, and something is left to tell the rows apart."""
    for item in task.fields:
        if item.name == task.outcome.source and (item.use != "column" or item.column.role == "extra"):
            raise reader.fail(f"column {item.name!r}", "the outcome cannot be an extra, an id or dropped")
    if task.weight and task.weight not in {column.name for column in task.columns}:
        raise reader.fail("weight", f"{task.weight!r} is a protected attribute already")
    taken = {task.outcome.source, *(attribute.name for attribute in task.protected)}
    if not any(column.role == "feature" for column in task.columns if column.name not in taken):
        raise reader.fail("columns", "no feature is left besides the protected attribute and the outcome")
