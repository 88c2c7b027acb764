"""Writes a run's experiment file, which `fwc_llm.cli.experiment` reads."""

import json
import os
from collections.abc import Callable, Mapping
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
_PATHS = {"prices", "data-dir"}


def experiment_text(
    plan: Plan, client: Client, model: str, folder: Path, **others: Any
) -> str:
    """The text of the experiment file of a run in `folder`; paths are relative to it.

    The file has all options of `Settings`; of the options of `Client` and the `others` (including
    the task), it has those that differ from their default.
    """
    task = others.pop("task", None)
    values: Json = {
        "task": relative(task, folder) if task and task.endswith(".toml") else task,
        "model": placed_model(model, lambda path: relative(path, folder)),
        "shots": ",".join(dict.fromkeys(_source(plan, arm) for arm in plan.arms)),
    }
    for name, value in plan.settings.as_json().items():
        if value is not None or facts_of(Settings.model_fields[name])["none"]:
            values[_flag(name)] = "none" if value is None else value
    wordings = [
        relative(name, folder) if Path(name).is_dir() else name
        for name in plan.settings.wordings
    ]
    values |= {"template": ",".join(wordings), "templates": []}
    bare = Client()
    values |= {
        _flag(name): value for name, value in client if value != getattr(bare, name)
    }
    values |= {
        _flag(name): value
        for name, value in others.items()
        if value not in (None, False)
    }
    values |= {
        name: relative(values[name], folder) for name in _PATHS if name in values
    }
    lines = [
        _line(name, value) for name, value in values.items() if value not in ([], {})
    ]
    return _HEAD + "\n".join(lines) + "\n"


def placed_model(name: str, change: Callable[[str], str]) -> str:
    """Apply `place` to the path in gguf:FILE or replay:FOLDER; keep other names."""
    kind, colon, path = name.partition(":")
    if kind in {"gguf", "replay"} and "," not in name:
        return kind + colon + change(path)
    return name


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


def _source(plan: Plan, arm: Arm) -> str:
    """The arm's text for `--shots`, without the templates of all arms."""
    if arm.order:
        name = f"{arm.family}@{arm.order}"
    else:
        name = arm.family
    if arm.source not in plan.saved:
        return name
    first = next(other for other in plan.arms if other.source == arm.source)
    return saved_name(first) + name.removeprefix(_bare(arm))


def _flag(name: str) -> str:
    field = Settings.model_fields.get(name) or Client.model_fields.get(name)
    return ((field and facts_of(field)["flag"]) or name).replace("_", "-")


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
