"""Experiment files: the options of `fwc-llm eval` in TOML, named like their flags."""

import json
import re
from collections.abc import Collection
from os.path import isdir
from pathlib import Path

from fwc_llm.cli.flags import read_pairs, words
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.evaluation.experiment_file import placed_model
from fwc_llm.files import read_text, reason
from fwc_llm.sanitize import Json, parse_toml

_LARGEST = 1 << 20  # bytes
_OF_A_TASK = {"protected", "outcome", "columns", "source", "question"}
# Saved shots, with edits and an order.
_A_FILE = re.compile(r"\.json(\+[a-z]+)*(@[a-z-]+)?$")


def read_experiment(path: Path, names: Collection[str]) -> Json:
    """A file's options, of these names; paths are relative to the file."""
    try:
        content = parse_toml(read_text(path, _LARGEST))
    except (OSError, ValueError) as error:
        hint = "" if path.suffix == ".toml" else "; name a task with --task"
        raise FwcError(
            f"cannot read the experiment file {path}: {reason(error)}{hint}"
        ) from None
    for key, value in content.items():
        if key.replace("-", "_") not in names:
            flags = [name.replace("_", "-") for name in names]
            hint = did_you_mean(key, flags)
            if _OF_A_TASK & set(content):
                hint = "; it looks like a task file: pass it with --task"
            raise FwcError(f"{path}: unknown option {key!r}{hint}")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise FwcError(
                f"{path}: {key} holds a date, NaN or infinity, which cannot be sent: use text or a "
                "finite number"
            ) from None
    options = {key.replace("-", "_"): value for key, value in content.items()}
    return _placed(options, path.absolute().parent)


def read_further(pairs: list[str] | None, names: Collection[str]) -> Json:
    """The options of `--set KEY=VALUE`, which only experiment files have otherwise."""
    given = read_pairs(pairs, "--set")
    options = {key.replace("-", "_"): value for key, value in given.items()}
    for name in options:
        if name not in names:
            raise FwcError(f"--set: unknown option {name!r}{did_you_mean(name, names)}")
    return options


def _placed(options: Json, folder: Path) -> Json:
    """Resolve paths relative to the experiment file's folder."""

    def place(path: str | Path) -> str:
        return str(path) if str(path).startswith("~") else str(folder / path)

    for name in ("model", "shots", "protected", "template"):
        if isinstance(options.get(name), list):
            options[name] = ",".join(map(str, options[name]))
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
