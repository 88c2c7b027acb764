"""The folder of several models that are asked the same questions: one run for each, in a folder below."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.runs.folder import GROUP_FILE, RunFolder, file_name

FORMAT = "fwc-llm-models/1"


@dataclass(frozen=True)
class Group:
    """A folder with a run for each of `models`; models.json names them."""

    path: Path
    models: tuple[str, ...]

    @classmethod
    def begin(cls, path: Path | None, task: str, models: Sequence[str]) -> "Group":
        """Make the folder, or take it up again: `FwcError` for models other than those that it is for.

        By default it is ./runs/<time>-<task>-<number>-models.
        """
        default = Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{file_name(task)}-{len(models)}-models"
        group = cls(path or default, tuple(models))
        folder = RunFolder(group.path)
        if (before := cls.find(group.path)) is not None:
            if before.models != group.models:
                raise FwcError(
                    f"{group.path} is for the models {', '.join(before.models)}, now {', '.join(models)}: "
                    "name the same ones to continue, or a new folder with --out"
                )
        elif folder.begun:
            raise FwcError(
                f"{group.path} holds a run of one model, {folder.describe()['model']}: name a new folder "
                "with --out for several"
            )
        else:
            folder.create()
            folder.write_json(GROUP_FILE, {"format": FORMAT, "models": list(models)})
        return group

    @classmethod
    def find(cls, path: Path) -> "Group | None":
        """The group whose folder this is; None for any other folder, `FwcError` for a damaged one."""
        if not is_file(path / GROUP_FILE):
            return None
        content = RunFolder(path).read_json(GROUP_FILE)
        models = content.get("models")
        if content.get("format") != FORMAT or not isinstance(models, list) or not models:
            raise FwcError(f"{path / GROUP_FILE} is not of format {FORMAT}: it was not written by this tool")
        return cls(path, tuple(map(str, models)))

    def folder(self, model: str) -> Path:
        """Where the run of a model lies."""
        return self.path / file_name(model)

    @property
    def begun(self) -> list[Path]:
        """The folders of the runs that have begun."""
        return [folder for folder in map(self.folder, self.models) if RunFolder(folder).begun]


def expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """The paths, with a group's runs in its place. `FwcError` for a group in which none has begun."""
    for path in paths:
        group = Group.find(path)
        if group is None:
            yield path
            continue
        if not group.begun:
            raise FwcError(f"{path}: no model has been asked yet; run the same `fwc-llm eval` command first")
        yield from group.begun
