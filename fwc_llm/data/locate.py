"""Where the files of a task are looked for."""

import glob
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import home_expanded, is_file
from fwc_llm.taskfile import TaskFile

MIRROR_VARIABLE = "FWC_LLM_DATA_URL"  # takes the place of https://archive.ics.uci.edu/ml/… in downloads


@dataclass(frozen=True)
class Places:
    """Folders to look in, first to last, and the cache folder that downloads go to.

    `mirror` replaces the address in a task file, for a copy of the data nearer by.
    """

    folders: tuple[Path, ...]
    cache: Path
    mirror: str = ""

    def find(self, name: str) -> Path | None:
        """The first of the folders' files `name`, or None."""
        return next((folder / name for folder in self.folders if is_file(folder / name)), None)


def places_from_environment(data_dir: str | Path | None, beside: Path | None = None) -> Places:
    """`beside` (a task file's own folder), `data_dir`, FWC_LLM_DATA, the user's cache folder, in this order.

    Raises `FwcError` when `data_dir` is given and is no folder.
    """
    folders: list[Path] = []
    if data_dir is not None:
        folder = home_expanded(str(data_dir))
        if not _is_dir(folder):
            raise FwcError(
                f"the data folder {folder} does not exist; create it or name another with --data-dir"
            )
        folders.append(folder)
    if beside is not None:
        folders.insert(0, beside)
    if os.environ.get("FWC_LLM_DATA"):
        folders.append(home_expanded(os.environ["FWC_LLM_DATA"]))
    cache = cache_folder()
    return Places((*folders, cache), cache, os.environ.get(MIRROR_VARIABLE, ""))


def check_named(data: str) -> None:
    """Refuse a blank name of Parquet files: as a path it is the folder that one is in."""
    if not data.strip():
        raise FwcError("--data is empty: name Parquet files, a pattern in quotes or a folder")


def find_files(task: TaskFile, places: Places) -> tuple[Path, ...] | None:
    """The files of `task` from the first folder that has them all, or None. An absolute path stays itself."""
    found = find_parts(task, places)
    return None if found is None else tuple(path for paths in found for path in paths)


def find_parts(task: TaskFile, places: Places) -> tuple[tuple[Path, ...], ...] | None:
    """The same by table: a file, or all that a pattern such as `rows-*.parquet` names, in order."""
    for folder in places.folders:
        found = tuple(_named(folder / home_expanded(name)) for name in task.source.files)
        if all(found):
            return found
    return None


def _named(path: Path) -> tuple[Path, ...]:
    """The file of this name, the Parquet files in this folder, or the files of this pattern."""
    if is_file(path):
        return (path,)
    if _is_dir(path):
        below = (one for one in sorted(path.rglob("*.parquet")) if is_file(one))
        return tuple(one for one in below if not _is_hidden(one.relative_to(path)))
    if not glob.has_magic(str(path)):
        return ()
    try:
        return tuple(Path(found) for found in sorted(glob.glob(str(path))) if is_file(Path(found)))
    except (OSError, ValueError):
        return ()


def _is_hidden(path: Path) -> bool:
    """Whether this is what writers of tables leave beside them, such as `_temporary/`."""
    return any(part.startswith(("_", ".")) for part in path.parts)


def _is_dir(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except (OSError, ValueError):
        return False


def cache_folder() -> Path:
    """The user's cache folder for downloaded data, as the operating system has it."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fwc-llm"
