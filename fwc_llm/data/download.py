"""Downloading a task's files: checked by sha256, moved into place in one step, with a progress bar."""

import hashlib
import http.client
import os
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fwc_llm.data.locate import Places
from fwc_llm.errors import FwcError
from fwc_llm.files import is_file
from fwc_llm.taskfile import TaskFile, is_safe_address
from fwc_llm.untrusted import header_number, visible

if TYPE_CHECKING:
    from rich.progress import Progress

_TIMEOUT = 30.0  # seconds without a byte
_CHUNK = 1 << 16
_LARGEST = 1 << 30  # bytes; a server that sends more sends something else


def download(task: TaskFile, places: Places) -> tuple[Path, ...]:
    """Fetch those files of `task` that the cache folder lacks; return the paths of all of them.

    A file appears under its name only when it is complete and its sha256 is the published one. Raises
    `FwcError` naming the places searched and what works without data when the server cannot be reached.
    """
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
    """Write the body at `url` to `file` and return its sha256. A body cut short raises IncompleteRead."""
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
    if total is not None and received != total:
        raise http.client.IncompleteRead(b"", int(total) - received)
    return digest.hexdigest()


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
