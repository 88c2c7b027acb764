"""Experiment files: the options of `fwc-llm eval` in TOML, named like their flags."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from os.path import isdir
from pathlib import Path
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typer.models import OptionInfo

from fwc_llm.cli.flags import read_pairs, words
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.evaluation.experiment_file import placed_model
from fwc_llm.files import read_text, reason
from fwc_llm.sanitize import parse_toml
from fwc_llm.validation import first_error

_LARGEST = 1 << 20  # bytes
_NO_OPTIONS = ("as_json", "further")  # --json and --set are not part of an experiment
_NUMBERS_ARE_TEXT = ConfigDict(
    coerce_numbers_to_str=True
)  # for flags of type str: `epsilon = 0.01`
_OF_A_TASK = {"protected", "outcome", "columns", "source", "question"}
_A_FILE = re.compile(
    r"\.json(\+[a-z]+)*(@[a-z-]+)?$"
)  # saved shots, with edits and an order


def read_experiment(
    path: Path, command: Callable[..., None], further: Mapping[str, Any]
) -> dict[str, Any]:
    """A file's options by the command's parameters; paths are relative to the file.

    `further` has the types of options that are no flags of the command.
    """
    try:
        content = parse_toml(read_text(path, _LARGEST))
    except (OSError, ValueError) as error:
        if path.suffix == ".toml":
            hint = ""
        else:
            hint = "; name a task with --task"
        raise FwcError(
            f"cannot read the experiment file {path}: {reason(error)}{hint}"
        ) from None
    flags = {
        name.replace("_", "-"): parameter.annotation
        for name, parameter in inspect.signature(command).parameters.items()
        if isinstance(parameter.default, OptionInfo) and name not in _NO_OPTIONS
    }
    flags |= {name.replace("_", "-"): kind for name, kind in further.items()}
    options: dict[str, Any] = {}
    for key, value in content.items():
        flag = key.replace("_", "-")
        if flag not in flags:
            if _OF_A_TASK & set(content):
                task = "; it looks like a task file: pass it with --task"
            else:
                task = ""
            raise FwcError(
                f"{path}: unknown option {key!r}{task or did_you_mean(flag, flags)}"
            )
        options[flag.replace("-", "_")] = _as_given(
            value, flags[flag], f"{path}: {key}"
        )
    return _placed(options, path.absolute().parent)


def read_further(pairs: list[str] | None, further: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `--set KEY=VALUE`, which only experiment files have otherwise."""
    options = {}
    for key, value in read_pairs(pairs, "--set").items():
        name = key.replace("-", "_")
        if name not in further:
            raise FwcError(
                f"--set: unknown option {key!r}{did_you_mean(name, further)}"
            )
        options[name] = _as_given(value, further[name], f"--set {key}")
    return options


def _as_given(value: Any, annotation: Any, where: str) -> Any:
    kinds = {annotation, *get_args(annotation)}
    if list[str] in kinds and isinstance(value, dict):
        try:
            return [
                f"{key}={json.dumps(item, allow_nan=False)}"
                for key, item in value.items()
            ]
        except (TypeError, ValueError):
            raise FwcError(
                f"{where} holds a date, NaN or infinity, which cannot be sent: use text or a "
                f"finite number"
            ) from None
    if (
        list[str] not in kinds
        and isinstance(value, list)
        and all(isinstance(word, str) for word in value)
    ):
        return ",".join(value)
    try:
        return TypeAdapter(annotation, config=_NUMBERS_ARE_TEXT).validate_python(value)
    except ValidationError as error:
        raise FwcError(f"{where}: {first_error(error, value)}") from None


def _placed(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve paths relative to the experiment file's folder."""

    def place(path: str | Path) -> str:
        if str(path).startswith("~"):
            return str(path)
        return str(folder / path)

    for name in ("out", "data_dir", "prices"):
        if name in options:
            options[name] = place(options[name])
    if str(options.get("task", "")).endswith(".toml"):
        options["task"] = place(options["task"])
    if "model" in options:
        options["model"] = placed_model(options["model"], place)
    if "shots" in options:
        arms = words(options["shots"])
        options["shots"] = ",".join(
            place(arm) if _A_FILE.search(arm) else arm for arm in arms
        )
    template = options.get("template")
    if template:
        sets = (template,) if isdir(folder / template) else words(template)
        options["template"] = ",".join(
            place(name) if isdir(folder / name) else name for name in sets
        )
    return options
