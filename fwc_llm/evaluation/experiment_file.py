"""Writes a run's experiment file, which `fwc_llm.cli.eval` reads."""

import json
import os
import re
from collections.abc import Callable, Mapping
from os.path import isdir
from pathlib import Path
from typing import Any

from fwc_llm.models import Client
from fwc_llm.options import facts_of
from fwc_llm.runs.folder import file_name
from fwc_llm.runs.plan import Arm, Plan
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json
from fwc_llm.tasks import Task, task_names

FILE_NAME = "experiment.toml"
_HEAD = (
    f"# The options of this run: `fwc-llm eval {FILE_NAME}` repeats it; a flag "
    "beside it wins.\n\n"
)
_PATHS = {"out", "prices", "data_dir"}
# Saved shots, with edits and an order.
_A_FILE = re.compile(r"\.json(\+[a-z]+)*(@[a-z-]+)?$")


def experiment_text(
    plan: Plan, client: Client, model: str, folder: Path, **others: Any
) -> str:
    """The text of the experiment file of a run in `folder`; paths are relative to it.

    The file has all options of `Settings`; of the options of `Client` and the `others` (including
    the task), it has those that differ from their default.
    """
    arms = dict.fromkeys(_source(plan, arm, folder) for arm in plan.arms)
    options: Json = {"task": others.pop("task", None), "model": model, "shots": arms}
    for name, value in plan.settings.as_json().items():
        if value is not None or facts_of(Settings.model_fields[name])["none"]:
            options[_flag(name)] = "none" if value is None else value
    options |= {"template": plan.settings.wordings, "templates": []}
    bare = Client()
    options |= {
        _flag(name): value for name, value in client if value != getattr(bare, name)
    }
    options |= {
        name: value for name, value in others.items() if value not in (None, False)
    }
    placed = with_paths(options, lambda path: relative(path, folder), isdir)
    lines = [
        _line(name.replace("_", "-"), value)
        for name, value in placed.items()
        if value not in ([], {})
    ]
    return _HEAD + "\n".join(lines) + "\n"


def with_paths(
    options: Json, place: Callable[[str], str], is_folder: Callable[[str], bool]
) -> Json:
    """The options with `place` applied to their paths; lists of arms and templates as texts."""
    placed = dict(options)
    for name in _PATHS & placed.keys():
        placed[name] = place(str(placed[name]))
    if str(placed.get("task")).endswith(".toml"):
        placed["task"] = place(placed["task"])
    kind, colon, path = str(placed.get("model")).partition(":")
    if kind in {"gguf", "replay"} and "," not in path:
        placed["model"] = kind + colon + place(path)
    for name, is_path in (("shots", _A_FILE.search), ("template", is_folder)):
        if name in placed:
            names = map(str, placed[name])
            placed[name] = ",".join(place(n) if is_path(n) else n for n in names)
    return placed


def task_option(task: str | Path | Task) -> str | None:
    """The task as an option: a built-in name, a task file's absolute path, or None."""
    if isinstance(task, str | Path):
        path = Path(task).expanduser()
        if path.suffix == ".toml":
            return str(path.absolute())
        return str(task)
    if task.name in task_names():
        return task.name
    return None


def saved_name(arm: Arm) -> str:
    """The path of the copy of an arm's shots file, relative to the run's folder."""
    return f"given/{file_name(_bare(arm))}.json"


def _bare(arm: Arm) -> str:
    """The arm's name without order, template set and edits."""
    return arm.family.removesuffix("".join(f"+{edit}" for edit in arm.edits))


def _source(plan: Plan, arm: Arm, folder: Path) -> str:
    """The arm's text for `--shots`, without the templates of all arms."""
    if arm.order:
        name = f"{arm.family}@{arm.order}"
    else:
        name = arm.family
    if arm.source not in plan.saved:
        return name
    first = next(other for other in plan.arms if other.source == arm.source)
    return f"{folder / saved_name(first)}{name.removeprefix(_bare(arm))}"


def _flag(name: str) -> str:
    field = Settings.model_fields.get(name) or Client.model_fields.get(name)
    return (field and facts_of(field)["flag"]) or name


def relative(path: str | Path, start: Path) -> str:
    """`path` relative to the folder `start`; absolute if on another Windows drive."""
    absolute = Path(path).expanduser().resolve()
    try:
        return Path(os.path.relpath(absolute, start.resolve())).as_posix()
    except ValueError:
        return absolute.as_posix()


def _line(name: str, value: Any) -> str:
    if value is None:
        return f"# {name}: given as a value, in Python"
    if isinstance(value, Mapping):
        value = [
            f"{key}={json.dumps(item, ensure_ascii=False)}"
            for key, item in value.items()
        ]
    text = json.dumps(
        value, ensure_ascii=False, default=str
    )  # valid TOML except for U+007F
    return f"{name} = {text}".replace("\x7f", "\\u007f")
