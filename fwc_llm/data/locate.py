"""Where the files of a task are: in a folder on this machine, or downloaded into the user's cache folder.

A download is checked by sha256 and moved into place in one step.
"""

import glob
import hashlib
import http.client
import os
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fwc_llm.errors import FwcError
from fwc_llm.files import home_expanded, is_file
from fwc_llm.taskfile import TaskFile, is_safe_address
from fwc_llm.untrusted import header_number, visible

if TYPE_CHECKING:
    from rich.progress import Progress

MIRROR_VARIABLE = "FWC_LLM_DATA_URL"  # takes the place of https://archive.ics.uci.edu/ml/… in downloads
_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16
_LARGEST = 1 << 30  # bytes; a server that sends more sends something else


@dataclass(frozen=True)
class Places:
    """Folders to look in, first to last, and the cache folder that downloads go to.

    `mirror` replaces the address in a task file, for a copy of the data nearer by.
    """

    folders: tuple[Path, ...]
    cache: Path
    mirror: str = ""


def places_from_environment(data_dir: str | Path | None, beside: Path | None = None) -> Places:
    """`beside` (a task file's own folder), `data_dir`, FWC_LLM_DATA, the user's cache folder, in this order.

    Raises `FwcError` when `data_dir` is given and is no folder.
    """
    folders = [] if beside is None else [beside]
    if data_dir is not None:
        folders.append(home_expanded(str(data_dir)))
        if not _is_dir(folders[-1]):
            raise FwcError(
                f"the data folder {folders[-1]} does not exist; create it or name another with --data-dir"
            )
    if os.environ.get("FWC_LLM_DATA"):
        folders.append(home_expanded(os.environ["FWC_LLM_DATA"]))
    cache = cache_folder()
    return Places((*folders, cache), cache, os.environ.get(MIRROR_VARIABLE, ""))


def cache_folder() -> Path:
    """The user's cache folder for downloaded data, as the operating system has it."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fwc-llm"


def check_named(data: str) -> None:
    """Refuse a blank name of Parquet files: as a path it is the folder that one is in."""
    if not data.strip():
        raise FwcError("--data is empty: name Parquet files, a pattern in quotes or a folder")


def find_files(task: TaskFile, places: Places) -> tuple[Path, ...] | None:
    """The files of `task` from the first folder that has them all, or None. An absolute path stays itself."""
    tables = _find(task, places)
    return None if tables is None else tuple(path for paths in tables for path in paths)


def locate_or_download(task: TaskFile, places: Places) -> tuple[tuple[Path, ...], ...]:
    """The files of every table of `task`: one, or all that a pattern names, in order.

    Raises `FwcError` where they are neither here nor can be downloaded.
    """
    tables = _find(task, places)
    if tables is not None:
        return tables
    if task.source.url:
        return tuple((path,) for path in _download(task, places))
    searched = ", ".join(str(folder) for folder in places.folders)
    here = {name for name in task.source.files for folder in places.folders if _named(folder / name)}
    lacking = next((name for name in task.source.files if name not in here), task.source.files[0])
    if home_expanded(lacking).is_absolute():
        raise FwcError(f"{lacking}: there is no such file, and none that this pattern names")
    raise FwcError(
        f"{task.path}: its data file {lacking} is in none of {searched}; correct the path under [data]"
    )


def _find(task: TaskFile, places: Places) -> tuple[tuple[Path, ...], ...] | None:
    for folder in places.folders:
        tables = tuple(_named(folder / home_expanded(name)) for name in task.source.files)
        if all(tables):
            return tables
    return None


def _named(path: Path) -> tuple[Path, ...]:
    """The file of this name, the Parquet files in this folder, or the files of this pattern."""
    if is_file(path):
        return (path,)
    if _is_dir(path):  # without what writers of tables leave beside them, such as `_temporary/`
        below = [file for file in sorted(path.rglob("*.parquet")) if is_file(file)]
        hidden = [any(part.startswith(("_", ".")) for part in file.relative_to(path).parts) for file in below]
        return tuple(file for file, hides in zip(below, hidden, strict=True) if not hides)
    if not glob.has_magic(str(path)) or "\0" in str(path):
        return ()
    return tuple(Path(name) for name in sorted(glob.glob(str(path))) if is_file(Path(name)))


def _is_dir(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except (OSError, ValueError):
        return False


def _download(task: TaskFile, places: Places) -> tuple[Path, ...]:
    """Fetch those files of `task` that the cache folder lacks; return the paths of all of them."""
    elsewhere = (
        f"the data of task {task.name!r} is in none of {', '.join(map(str, places.folders))}: put "
        f"{' and '.join(task.source.files)} into one of these folders or name theirs with --data-dir or "
        "FWC_LLM_DATA. Without data works `fwc-llm eval --task census --model surrogate`"
    )
    targets = tuple(places.cache / name for name in task.source.files)
    with _progress() as progress:
        for name, target in zip(task.source.files, targets, strict=True):
            if is_file(target):
                continue
            url = f"{(places.mirror or task.source.url).rstrip('/')}/{name.rpartition('/')[2]}"
            try:
                _fetch(url, target, task.source.sha256[name], progress)
            except (OSError, ValueError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                raise FwcError(f"cannot download {url} to {target} ({reason}); {elsewhere}") from error
    return targets


def _fetch(url: str, target: Path, sha256: str, progress: "Progress") -> None:
    """Download the file at `url`; it appears as `target` only when it is complete and the published one."""
    if not is_safe_address(url):
        raise ValueError("it is no https address")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            digest = _receive(url, file, progress)
        if digest != sha256:
            raise ValueError(
                f"what it sent is not the published file: its sha256 is {digest[:12]}… and not {sha256[:12]}…"
            )
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)


def _receive(url: str, file: BinaryIO, progress: "Progress") -> str:
    """Write the body at `url` to `file` and return its sha256."""
    request = urllib.request.Request(url, headers={"User-Agent": "fwc-llm"})
    digest, received = hashlib.sha256(), 0
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        total = header_number(response.headers, "Content-Length", _LARGEST + 1.0)
        bar = progress.add_task(visible(url.rpartition("/")[2]), total=total)
        while chunk := response.read(_CHUNK):
            received += len(chunk)
            if received > _LARGEST:
                raise http.client.HTTPException("the answer is far larger than the file")
            digest.update(chunk)
            file.write(chunk)
            progress.advance(bar, len(chunk))
    return digest.hexdigest()


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    words = TextColumn("downloading {task.description}", markup=False)
    disable = not console.is_terminal
    return Progress(words, BarColumn(), DownloadColumn(), console=console, transient=True, disable=disable)
