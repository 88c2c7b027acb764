"""Locates a task's files on this machine, or downloads them into the cache folder."""

import glob
import hashlib
import http.client
import os
import re
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from fwc_llm import progress
from fwc_llm.errors import FwcError
from fwc_llm.files import home_expanded, is_file, whole_file
from fwc_llm.sanitize import replace_invisible
from fwc_llm.taskfile import LOOPBACK, TaskFile, is_safe_address

MIRROR_VARIABLE = (
    "FWC_LLM_DATA_URL"  # address of a mirror, instead of the task file's `url`
)
_TIMEOUT = 30.0  # longest time in seconds without a received byte
_LARGEST = 1 << 28  # bytes that are read of a file; a cut file fails the checksum


def data_folders(
    data_dir: str | Path | None, task_folder: Path | None = None
) -> tuple[Path, ...]:
    """The folders to search for data files, in this order; `beside` is a task file's."""
    folders = [] if task_folder is None else [task_folder]
    if data_dir is not None:
        folders.append(home_expanded(str(data_dir)))
        if not os.path.isdir(folders[-1]):
            raise FwcError(
                f"the data folder {folders[-1]} does not exist or is a file: name another with "
                f"--data-dir"
            )
    if os.environ.get("FWC_LLM_DATA"):
        folders.append(home_expanded(os.environ["FWC_LLM_DATA"]))
    return (*folders, cache_folder())


def cache_folder() -> Path:
    """The user's cache folder on this operating system, for downloaded data."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fwc-llm"


def find_files(
    task: TaskFile, folders: Sequence[Path]
) -> tuple[tuple[Path, ...], ...] | None:
    """The files of each table of `task`, from the first complete folder, or None."""
    for folder in folders:
        tables = tuple(
            _named(folder / home_expanded(name)) for name in task.source.files
        )
        if all(tables):
            return tables
    return None


def locate_or_download(
    task: TaskFile, folders: Sequence[Path]
) -> tuple[tuple[Path, ...], ...]:
    """The files of `find_files`, else downloaded from the task's `url`."""
    tables = find_files(task, folders)
    if tables is not None:
        return tables
    if task.source.url:
        return tuple((_download(task, name, folders),) for name in task.source.files)
    files = task.source.files
    absent = [name for name in files if not any(_named(of / name) for of in folders)]
    lacking = (*absent, *files)[0]
    if home_expanded(lacking).is_absolute():
        raise FwcError(
            f"{lacking}: there is no such file, and no file matches it as a pattern"
        )
    raise FwcError(
        f"{task.path}: its data file {lacking} is in none of {', '.join(map(str, folders))}; "
        f"correct the "
        "path under [data]"
    )


def _named(path: Path) -> tuple[Path, ...]:
    """The file at `path`, or the files of this folder (Parquet) or pattern."""
    if is_file(path):
        return (path,)
    found: Iterable[Path] = ()
    if os.path.isdir(path):  # skips by-products of table writers, such as `_temporary/`
        below = re.compile(rf"{re.escape(str(path))}(?!.*[/\\][_.])")
        found = sorted(f for f in path.rglob("*.parquet") if below.match(str(f)))
    elif glob.has_magic(str(path)) and "\0" not in str(path):
        found = map(Path, sorted(glob.glob(str(path))))
    return tuple(filter(is_file, found))


def _download(task: TaskFile, name: str, folders: Sequence[Path]) -> Path:
    """The file in the cache folder, downloaded if missing."""
    target = cache_folder() / name
    if is_file(target):
        return target
    address = os.environ.get(MIRROR_VARIABLE) or task.source.url
    url = f"{address.rstrip('/')}/{name.rpartition('/')[2]}"
    try:
        with progress.choose().working(f"downloading {replace_invisible(url)}"):
            _fetch(url, target, task.source.sha256[name])
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise FwcError(
            f"cannot download {url} to {target} ({getattr(error, 'reason', None) or error}); the "
            f"data of "
            f"task {task.name!r} is in none of {', '.join(map(str, folders))}: put "
            f"{' and '.join(task.source.files)} into one of these folders or name theirs with "
            f"--data-dir "
            "or FWC_LLM_DATA; the task census and the model surrogate need no data"
        ) from error
    return target


def _fetch(url: str, target: Path, sha256: str) -> None:
    """Download `url` to `target`, if the file has the published SHA-256."""
    if not is_safe_address(url):
        raise ValueError("it is not an https address")
    target.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "fwc-llm"})
    found = (
        urlsplit(url).hostname in LOOPBACK
    )  # requests to this machine bypass the proxy
    if found:
        proxies = [urllib.request.ProxyHandler({})]
    else:
        proxies = []
    with urllib.request.build_opener(*proxies).open(
        request, timeout=_TIMEOUT
    ) as response:
        content = response.read(_LARGEST)
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ValueError(
            f"what it sent is not the published file: its sha256 is {digest[:12]}… and not "
            f"{sha256[:12]}…"
        )
    with whole_file(target, "xb") as file:
        file.write(content)
