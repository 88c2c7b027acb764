"""Downloading a task's files: checked by sha256, moved into place in one step, with a progress bar."""

import hashlib
import http.client
import os
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fwc_llm.data.locate import Places
from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.taskfile import TaskFile, is_name_below, is_safe_address, is_safe_redirect
from fwc_llm.untrusted import header_number, visible

if TYPE_CHECKING:
    from rich.progress import Progress

_TIMEOUT = 30.0  # seconds without a byte
_LONGEST = 3600.0  # seconds for one file
_CHUNK = 1 << 16
_LARGEST = 1 << 30  # bytes; a server that sends more sends something else


def download(task: TaskFile, places: Places) -> tuple[Path, ...]:
    """Fetch those files of `task` that the cache folder lacks; returns the paths of all of them.

    A file appears under its name only when it is complete and its sha256 is the published one. Raises
    `FwcError` naming the places searched and what works without data when the server cannot be reached.
    """
    targets = tuple(_target(places.cache, name) for name in task.source.files)
    with _progress() as progress:
        for name, target in zip(task.source.files, targets, strict=True):
            if not is_file(target):
                url = f"{(places.mirror or task.source.url).rstrip('/')}/{name.rpartition('/')[2]}"
                _fetch(url, target, task.source.sha256[name], progress, _elsewhere(task, places))
    return targets


def _target(cache: Path, name: str) -> Path:
    """Where a file goes: below the cache folder, also when something in there is a link."""
    target = cache / name
    try:
        below = is_name_below(name) and target.resolve().is_relative_to(cache.resolve())
    except (OSError, RuntimeError):  # a circle of links
        below = False
    if not below:
        raise FwcError(f"the data file {name!r} would be written outside the cache folder {cache}: refused")
    return target


def _elsewhere(task: TaskFile, places: Places) -> str:
    """What a user without network can do."""
    searched = ", ".join(str(folder) for folder in places.folders)
    return (
        f"the data of task {task.name!r} is in none of {searched}: put {' and '.join(task.source.files)} "
        "into one of these folders or name theirs with --data-dir or FWC_LLM_DATA. Without data works "
        "`fwc-llm eval --task census --model surrogate`"
    )


def _fetch(url: str, target: Path, sha256: str, progress: "Progress", elsewhere: str) -> None:
    partial: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            digest = _receive(url, file, progress)
        if digest != sha256:
            raise FwcError(
                f"what {url} sent is not the published file (sha256 {digest[:12]}… instead of "
                f"{sha256[:12]}…), so it was thrown away; try again later. Otherwise: {elsewhere}"
            )
        os.chmod(partial, 0o644)
        os.replace(partial, target)
        partial = None
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        TimeoutError,
        ConnectionError,
        ValueError,
    ) as error:
        reason = getattr(error, "reason", None) or error
        raise FwcError(f"cannot download {url} ({reason}); {elsewhere}") from error
    except OSError as error:
        raise FwcError(f"cannot write {target}: {error.strerror or error}; {elsewhere}") from error
    finally:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)


def _receive(url: str, file: BinaryIO, progress: "Progress") -> str:
    """Write the body at `url` to `file`; returns its sha256. A body cut short raises IncompleteRead."""
    if not is_safe_address(url):
        raise ValueError("it is no https address")
    request = urllib.request.Request(url, headers={"User-Agent": "fwc-llm"})
    digest, received = hashlib.sha256(), 0
    ends = time.monotonic() + _LONGEST
    with urllib.request.build_opener(_SafeRedirects).open(request, timeout=_TIMEOUT) as response:
        length = header_number(response.headers, "Content-Length", _LARGEST + 1.0)
        total = None if length is None else int(length)
        bar = progress.add_task(visible(url.rpartition("/")[2]), total=total)
        while chunk := response.read(_CHUNK):
            received += len(chunk)
            if received > _LARGEST:
                raise http.client.HTTPException("the answer is far larger than the file")
            if time.monotonic() > ends:
                raise TimeoutError(f"it took longer than {_LONGEST:g} s")
            digest.update(chunk)
            file.write(chunk)
            progress.advance(bar, len(chunk))
    if total is not None and received != total:
        raise http.client.IncompleteRead(b"", total - received)
    return digest.hexdigest()


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where a download may begin."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not is_safe_redirect(req.full_url, newurl):
            raise urllib.error.URLError("it redirects to an address elsewhere without https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("downloading {task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
