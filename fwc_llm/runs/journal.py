"""The journal of a run: one JSON line per request, written before it counts.

JSON lines rather than SQLite: a record is one `write` of one line, so a process killed at any moment leaves
at most one torn line at the end (repaired when the run continues); the file can be read with `grep`, `jq` or
a text editor while the run goes on, travels as one file, and has no second file that must not be lost.
Nothing here needs an index: the set of answered requests fits in memory (16 bytes each) and every other
reader wants all records in order.

Durability: each record goes to the operating system before `append` returns, so a kill of the process
loses nothing. The disk is told to keep it (`fsync`) about once a second and when the journal closes: a
power failure can cost the last second, whose requests are then asked again.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import check_regular
from fwc_llm.models.base import Usage
from fwc_llm.untrusted import finite, parse_json, storable, whole

FORMAT = "fwc-llm-journal/1"
FILE_NAME = "journal.jsonl"
_SYNC_SECONDS = 1.0
_BUFFER = 2**18  # bytes
# Beyond the end of any journal: where Windows, which locks bytes and not files, puts the lock.
_WINDOWS_LOCK_BYTE = 1 << 60
_REQUEST = re.compile(r"(?:[0-9a-f]{2})+")


def request_id(parameters_json: str, *parts: Any) -> str:
    """The identity of one request: 128 bits over the model with its parameters and everything in `parts`."""
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(parameters_json.encode())
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


class Journal:
    """All answers of one run's folder, held by one process at a time.

    Opening creates the file, or reads an existing one: a torn last line is cut off, anything else that is
    not a record of this format is refused. Records are dicts with at least `request` (see `request_id`)
    and `text`; a request counts as answered when a record with a text exists.

    Errors: `FwcError` when another process holds the journal and when the file is foreign or damaged;
    `StorageError` when it cannot be written (a full disk leaves it as it was before the record) and when it
    is no longer there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE_NAME
        self.usage = Usage()  # of all live requests
        self.batch_usage = Usage()  # of those that went through the Batch API
        self._answered: set[bytes] = set()
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o644)
        except OSError as error:
            raise FwcError(
                f"cannot open {self.path}: {error.strerror}; name another folder with --out"
            ) from None
        try:
            check_regular(self._file, self.path)
            self._lock()
            self._size = self._load()
            if self._size == 0:
                self._write({"format": FORMAT})
        except OSError as error:
            os.close(self._file)
            raise FwcError(f"cannot read {self.path}: {error.strerror}") from None
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.nullcontext() if error is None else contextlib.suppress(FwcError):
            self.close()

    def close(self) -> None:
        """Tell the disk to keep everything, and let the next process in."""
        if self._file >= 0:
            try:
                self._sync()
            finally:
                os.close(self._file)
                self._file = -1

    def answered(self, request: str) -> bool:
        """Whether this request has an answer, which must never be paid for again."""
        return bytes.fromhex(request) in self._answered

    def __len__(self) -> int:
        return len(self._answered)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record; when this returns, a kill of the process cannot lose it."""
        self._write(record)
        self._count(record)
        now = time.monotonic()
        if now - self._synced >= _SYNC_SECONDS:
            self._sync()
            self._synced = now

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record in the order written; a failed request may be followed by its answer."""
        for _, record in self.located():
            yield record

    def located(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every record as `records` has them, with its place in the file in bytes."""
        try:
            with self.path.open("rb") as file:
                place = len(next(file, b""))
                for number, line in enumerate(file, 2):
                    if not line.endswith(b"\n"):  # being written at this moment
                        return
                    yield place, self._parse(line, number)
                    place += len(line)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Callable[[int], dict[str, Any]]]:
        """What reads the record at a place that `located` names; fast where places follow each other."""
        try:
            with self.path.open("rb", buffering=_BUFFER) as file:

                def read(place: int) -> dict[str, Any]:
                    file.seek(place)
                    return self._parse(file.readline(), f"at byte {place:,}")

                yield read
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror}") from None

    def check_in_place(self) -> None:
        """`StorageError` when the file is not where it was: the folder was deleted, moved or replaced."""
        try:
            there, here = os.stat(self.path), os.fstat(self._file)
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise StorageError(
                f"{self.path} is gone: its folder was deleted, moved or replaced while the run went on; "
                "nothing further is asked"
            )

    def _write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
        data = line.encode("utf-8", "backslashreplace")
        self.check_in_place()
        try:
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._undo()
            raise StorageError(
                f"cannot write to {self.path}: {error.strerror}; everything before is kept, "
                "and the same command continues there once there is room"
            ) from None
        self._size += written

    def _sync(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            raise StorageError(f"the disk does not keep {self.path}: {error.strerror}") from None

    def _undo(self) -> None:
        """Cut off what a failed write left, so that the journal ends with a whole record."""
        with contextlib.suppress(OSError):  # else the torn line is cut off when the run continues
            os.ftruncate(self._file, self._size)

    def _count(self, record: Mapping[str, Any]) -> None:
        if record["text"] is not None:
            self._answered.add(bytes.fromhex(record["request"]))
        if record.get("usage"):
            usage = Usage(**record["usage"])
            if record.get("batch"):
                self.batch_usage = self.batch_usage + usage
            else:
                self.usage = self.usage + usage

    def _load(self) -> int:
        """Read an existing journal, cut off a torn last line, and return the size in bytes that is good."""
        good = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                whole = line.endswith(b"\n")
                if not whole and not self._complete(line, number):
                    break
                if number == 1:
                    self._check_header(line)
                else:
                    self._count(self._parse(line, number))
                if not whole:  # only the newline is missing: the record counts
                    os.write(self._file, b"\n")
                    return good + len(line) + 1
                good += len(line)
        if os.fstat(self._file).st_size != good:
            os.ftruncate(self._file, good)
        return good

    def _complete(self, line: bytes, number: int) -> bool:
        """Whether a last line without its newline is a record all the same; a torn header must look it."""
        try:
            parse_json(line)
        except ValueError:
            if number == 1 and not _header().startswith(line.rstrip(b"\0")):
                self._refuse_foreign()
            return False
        return True

    def _check_header(self, line: bytes) -> None:
        try:
            header = parse_json(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        raise FwcError(
            f"{self.path} is not a journal of this tool (its first line does not say {FORMAT}): "
            "name a new folder with --out"
        )

    def _parse(self, line: bytes, where: int | str) -> dict[str, Any]:
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if (
            not isinstance(record, dict)
            or "text" not in record
            or not all(good(record.get(name)) for name, good in _FIELDS.items())
        ):
            place = f"in line {where}" if isinstance(where, int) else where
            raise FwcError(
                f"{self.path} is damaged {place} (not a record of {FORMAT}): restore the file, "
                "or remove that line to have its request asked again"
            )
        return record | {name: storable(record[name]) for name in ("text", "error") if record.get(name)}

    def _lock(self) -> None:
        """Take the lock that the system gives back when this process ends, however it ends."""
        try:
            if sys.platform == "win32":
                import msvcrt

                os.lseek(self._file, _WINDOWS_LOCK_BYTE, os.SEEK_SET)
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FwcError(
                f"{self.path} is in use by another process: wait for that run to end, or name another folder "
                "with --out"
            ) from None


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_usage(value: Any) -> bool:
    counts = set(vars(Usage()))
    return not value or (
        isinstance(value, dict) and set(value) <= counts and all(whole(n) is not None for n in value.values())
    )


def _is_probability(value: Any) -> bool:
    number = finite(value)
    return value is None or (number is not None and 0.0 <= number <= 1.0)


def _are_others(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_probability, value.values())))


def _is_logprobs(value: Any) -> bool:
    return value is None or (
        isinstance(value, list)
        and all(
            isinstance(pair, list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and (pair[1] is None or finite(pair[1]) is not None)  # None: once written as -Infinity
            for pair in value
        )
    )


# What a record must hold for everything that reads it; the rest of it is nobody's concern.
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "request": lambda value: isinstance(value, str) and _REQUEST.fullmatch(value) is not None,
    **dict.fromkeys(("text", "arm", "row", "variant", "finish_reason", "error", "model"), _is_text),
    "repeat": lambda value: value is None or whole(value) is not None,
    "refusal": lambda value: value is None or isinstance(value, bool),
    "batch": lambda value: value is None or isinstance(value, bool),
    "usage": _is_usage,
    "logprobs": _is_logprobs,
    "p_yes": _is_probability,
    "others": _are_others,
}
# A link in a folder from elsewhere is not followed: it may lead to any file of the user's.
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _header() -> bytes:
    return json.dumps({"format": FORMAT}, separators=(",", ":")).encode() + b"\n"
