"""Experiment files: the options of `fwc-llm eval` in TOML, by the names of their flags."""

import difflib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from typer.models import OptionInfo

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text, reason

_LARGEST = 1 << 20  # bytes
_OF_A_TASK = {"protected", "outcome", "columns", "source", "question"}
_A_FILE = re.compile(r"\.json(\+[a-z]+)*(@[a-z-]+)?$")  # saved shots, with edits and an order
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def read_experiment(path: Path, command: Callable[..., None]) -> dict[str, Any]:
    """The options of a file by the names of the command's parameters.

    Relative paths in it start from the file's folder. A list stands for words with commas between them, a
    table for KEY=VALUE.

    Errors: `FwcError` for a file that cannot be read or is no TOML, a name that is no flag of the command
    (with the nearest), and a value of the wrong type.
    """
    try:
        content = tomllib.loads(read_text(path, _LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        hint = "" if path.suffix == ".toml" else "; a task is named with --task"
        raise FwcError(f"cannot read the experiment file {path}: {reason(error)}{hint}") from None
    kinds = _kinds(command)
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise FwcError(f"{path}: {_unknown(key, kinds, content)}")
        if name in found:
            raise FwcError(f"{path}: {key!r} is there twice, with - and with _")
        found[name] = _checked(value, kinds[name], f"{path}: {key}")
    return _placed(found, path.absolute().parent)


def _kinds(command: Callable[..., None]) -> dict[str, set[Any]]:
    """The types that each option takes."""
    return {
        name: {parameter.annotation.__origin__, *get_args(parameter.annotation.__origin__)}
        for name, parameter in inspect.signature(command).parameters.items()
        if any(isinstance(note, OptionInfo) for note in getattr(parameter.annotation, "__metadata__", ()))
        and name != "as_json"  # how to print is not a part of the experiment
    }


def _unknown(key: str, kinds: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    flags = [name.replace("_", "-") for name in kinds]
    if _OF_A_TASK & set(content):
        return "it looks like a task file: pass it with --task"
    near = difflib.get_close_matches(key.replace("_", "-"), flags, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(flags))}"
    return f"unknown option {key!r}: {hint}"


def _checked(value: Any, kinds: set[Any], where: str) -> Any:
    """The value as its flag takes it."""
    if list[str] in kinds:
        return _pairs(value, where)
    kind = next((one for one in (bool, int, float) if one in kinds), str)
    if kind is str and isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = ",".join(value)
    takes: tuple[type, ...] = {bool: (bool,), int: (int,), float: (int, float)}.get(kind, (str, int, float))
    if not isinstance(value, takes) or (isinstance(value, bool) and kind is not bool):
        raise FwcError(f"{where} is {value!r}: give {_WORDS[kind]}")
    return str(value) if kind is str else value


def _pairs(value: Any, where: str) -> list[str]:
    """KEY=VALUE for every entry of a table; a list of such texts stays as it is."""
    if isinstance(value, list) and all(isinstance(pair, str) for pair in value):
        return value
    if not isinstance(value, dict):
        raise FwcError(f'{where} is {value!r}: give a table, or a list of "KEY=VALUE"')
    try:
        return [
            f"{key}={json.dumps(item, ensure_ascii=False, allow_nan=False)}" for key, item in value.items()
        ]
    except (TypeError, ValueError):
        raise FwcError(f"{where}: a value in it is a date, or no number, which cannot be sent") from None


def _placed(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The options with paths that start from the file's folder."""

    def place(text: str) -> str:
        return text if text.startswith("~") else str(folder / text)

    for name in ("out", "data_dir", "prices", "data"):
        if name in found:
            found[name] = place(found[name])
    if str(found.get("task", "")).endswith(".toml"):
        found["task"] = place(found["task"])
    if "shots" in found:
        words = (word.strip() for word in found["shots"].split(","))
        found["shots"] = ",".join(place(word) if _A_FILE.search(word) else word for word in words)
    if "template" in found:
        whole = (folder / found["template"]).is_dir()
        sets = [found["template"]] if whole else [word.strip() for word in found["template"].split(",")]
        found["template"] = ",".join(place(one) if one and (folder / one).is_dir() else one for one in sets)
    return found
