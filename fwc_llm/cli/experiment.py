"""Experiment files: the options of `fwc-llm eval` in TOML, by the names of their flags."""

import inspect
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from typer.models import OptionInfo

from fwc_llm.cli.options import words
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import read_text, reason

_LARGEST = 1 << 20  # bytes
_OF_A_TASK = {"protected", "outcome", "columns", "source", "question"}
_A_FILE = re.compile(r"\.json(\+[a-z]+)*(@[a-z-]+)?$")  # saved shots, with edits and an order
_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    list[str]: ((list,), 'a table, or a list of "KEY=VALUE"'),
    str: ((str, int, float), "text"),
}


def read_experiment(path: Path, command: Callable[..., None]) -> dict[str, Any]:
    """Return the options of a file by the names of the command's parameters.

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
    flags = {
        name.replace("_", "-"): each.annotation
        for name, each in inspect.signature(command).parameters.items()
        if isinstance(each.default, OptionInfo) and name != "as_json"  # it is no part of the experiment
    }
    options: dict[str, Any] = {}
    for key, value in content.items():
        flag = key.replace("_", "-")
        if flag not in flags:
            task = "; it looks like a task file: pass it with --task" if _OF_A_TASK & set(content) else ""
            raise FwcError(f"{path}: unknown option {key!r}{task or did_you_mean(flag, flags)}")
        options[flag.replace("-", "_")] = _as_given(value, flags[flag], f"{path}: {key}")
    return _placed(options, path.absolute().parent)


def _as_given(value: Any, annotation: Any, where: str) -> Any:
    kinds = {annotation, *get_args(annotation)}
    kind = next((kind for kind in _TYPES if kind in kinds), str)
    if kind == list[str] and isinstance(value, dict):
        try:
            return [f"{key}={json.dumps(item, allow_nan=False)}" for key, item in value.items()]
        except (TypeError, ValueError):
            raise FwcError(f"{where}: a value in it is a date, or no number, which cannot be sent") from None
    if kind is str and isinstance(value, list) and all(isinstance(word, str) for word in value):
        return ",".join(value)
    types, kind_words = _TYPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        raise FwcError(f"{where} is {value!r}: give {kind_words}")
    return str(value) if kind is str else value


def _placed(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the options with paths that start from the file's folder."""

    def place(text: str) -> str:
        return text if text.startswith("~") else str(folder / text)

    for name in ("out", "data_dir", "prices", "data"):
        if name in options:
            options[name] = place(options[name])
    if str(options.get("task", "")).endswith(".toml"):
        options["task"] = place(options["task"])
    if "shots" in options:
        arms = words(options["shots"])
        options["shots"] = ",".join(place(arm) if _A_FILE.search(arm) else arm for arm in arms)
    if template := options.get("template"):
        sets = (template,) if (folder / template).is_dir() else words(template)
        options["template"] = ",".join(place(name) if (folder / name).is_dir() else name for name in sets)
    return options
