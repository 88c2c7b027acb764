"""Another choice of what a task file offers, as a text that says so: runs record texts."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fwc_llm.taskfile.parsing import parse_taskfile
from fwc_llm.taskfile.values import TaskFile


def choose_weight(task: TaskFile, column: str) -> TaskFile:
    """The task with another column as the weight of its rows, "" for none; `text` says so, too.

    Raises `FwcError` for a column that cannot be the weight.
    """
    line = f"weight = {json.dumps(column, ensure_ascii=False)}\n" if column else ""
    chosen = parse_taskfile(line + without_key(task.text, "weight"), task.path)
    return replace(chosen, name=task.name)


def choose_protected(task: TaskFile, names: Sequence[str]) -> TaskFile:
    """The task with other attributes of those that it offers as the protected ones; `text` says so, too.

    Raises `FwcError` for a name that is none of them.
    """
    text = without_key(task.text, "use_protected")
    choice = json.dumps(list(names), ensure_ascii=False)
    chosen = parse_taskfile(f"use_protected = {choice}\n{text}", task.path)
    return replace(chosen, name=task.name)


def without_key(text: str, key: str) -> str:
    """The text of a task file without the lines that set `key` for the whole file, however many they are."""
    try:
        wanted = tomllib.loads(text)
    except (ValueError, RecursionError):
        return text
    if wanted.pop(key, None) is None:
        return text
    for begin in re.finditer(rf"""^[ \t]*["']?{key}["']?[ \t]*=""", text, re.MULTILINE):
        before = text[: begin.start()]
        for line in re.finditer(r"\n|\Z", text[begin.end() :]):
            rest = before + text[begin.end() + line.end() :]
            if _holds(rest, wanted):
                return rest
            if _holds(text[begin.start() : begin.end() + line.end()]):
                break  # a whole value, and not that of the file: it is a table's, or stands in a text
    return text


def _holds(text: str, wanted: Mapping[str, Any] | None = None) -> bool:
    """Whether a text is TOML, and says what is `wanted`."""
    try:
        found = tomllib.loads(text)
    except ValueError:
        return False
    return wanted is None or found == wanted
