"""Folders with several runs, one per model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.runs.folder import GROUP_FILE, RunFolder, file_name

FORMAT = "fwc-llm-models/1"


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
                "models to continue, or ask the new ones alone with another --out; `fwc-llm report` "
                "takes several folders"
            )
        if before is None:
            folder.create()
            folder.write_json(GROUP_FILE, {"format": FORMAT, "models": list(models)})
        return group

    @classmethod
    def find(cls, path: Path) -> "Group | None":
        """The group in a folder, or None; `FwcError` for a damaged models.json."""
        if not is_file(path / GROUP_FILE):
            return None
        content = RunFolder(path).read_json(GROUP_FILE)
        models = content.get("models")
        if (
            content.get("format") != FORMAT
            or not isinstance(models, list)
            or not models
        ):
            raise FwcError(
                f"{path / GROUP_FILE} is not of format {FORMAT}: it was not written by this tool"
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
