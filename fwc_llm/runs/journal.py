"""The journal of a run: one JSON line per reply, written before the reply counts.

`append` passes each record to the operating system before it returns; about once a second, the file
is flushed to disk (docs/decisions/0004). After a power failure, requests of the last second may be
sent again. Only the first record of an arm and repeat has `prefix`, its messages before the
`prompt`.
"""

import contextlib
import errno
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.answers import PARSER, read_answer
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import failing_as
from fwc_llm.models.base import Messages, Model, Reply, RowContext, Usage
from fwc_llm.models.recorded import (
    FILE_NAME,
    FORMAT,
    HEADER,
    check_header,
    parse_record,
    read_records,
)
from fwc_llm.sanitize import Fields, Json, parse_json, redact, sanitize_json
from fwc_llm.words import YES_NO, Words

if TYPE_CHECKING:
    from fwc_llm.models.openai.prices import Price

_SYNC_SECONDS = 1.0
# Windows locks bytes, not files: this byte is beyond the end of any journal.
_WINDOWS_LOCK_BYTE = 1 << 60
# Do not follow a link: in a folder from elsewhere, it may lead to any file of the user.
_FLAGS = (
    getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


@dataclass(frozen=True)
class PlannedCall:
    """One request of a run; `context` and `fixed` are not part of its identity."""

    arm: str
    repeat: int
    row: str
    variant: str  # "" for the unchanged row
    messages: Messages = field(repr=False)
    context: RowContext | None = field(
        default=None, repr=False, compare=False
    )  # for models that read rows
    fixed: int = field(
        default=0, repr=False, compare=False
    )  # first messages, equal for all rows of an arm


def parameters_json(model: Model) -> str:
    """The model's name and parameters as canonical JSON, for `request_id`."""
    return json.dumps([model.name, dict(model.parameters)], sort_keys=True, default=str)


def request_id(parameters_json: str, *parts: Any) -> str:
    """The identity of a request: 128-bit hash (hex) of parameters and `parts`."""
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(parameters_json.encode())
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def call_id(parameters: str, call: PlannedCall) -> str:
    """The identity of a call, with its arm: arms do not share replies."""
    return request_id(
        parameters, call.repeat, call.arm, call.row, call.variant, call.messages
    )


def make_record(
    request: str,
    call: PlannedCall,
    reply: Reply,
    words: Words = YES_NO,
    stated: bool = False,
) -> Json:
    """The journal's record of one reply, without keys; `read_answer` explains the arguments."""
    reply = replace(reply, **sanitize_json(dict(vars(reply))))
    record = {
        "request": request,
        "arm": call.arm,
        "repeat": call.repeat,
        "row": call.row,
        "variant": call.variant,
        **vars(reply),
        **parsed(reply, words, stated),
        "parser": PARSER,
        "usage": dict(vars(reply.usage)) if reply.usage is not None else None,
        "latency": round(reply.latency, 4),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "prompt": list(call.messages[call.fixed :]),
        "prefix": list(call.messages[: call.fixed]),
    }
    return {
        name: value for name, value in record.items() if value or name not in _LEFT_OUT
    }


def parsed(reply: Reply, words: Words = YES_NO, stated: bool = False) -> Json:
    """Parse a reply: `answer`, `reason` and `p_yes`."""
    reading = read_answer(reply, words, stated=stated)
    answer = reading.answer
    return {"answer": answer.value, "reason": answer.reason, "p_yes": reading.p_yes}


_LEFT_OUT = {"prompt", "prefix", "truncated", "reasoned"}  # omitted if empty


class Journal:
    """All replies of one run, locked by one process at a time.

    `words` are the task's; `stated`: replies state P(yes). Opening creates the file or cuts off its
    incomplete last line. A record with a text answers its request.
    """

    def __init__(
        self, folder: str | Path, words: Words = YES_NO, stated: bool = False
    ) -> None:
        self.path, self.words, self.stated = Path(folder) / FILE_NAME, words, stated
        self._longest = 0  # prompt tokens of one request
        self.usage = Usage()  # total of all live requests
        self.batch_usage = Usage()  # total of all requests through the Batch API
        # upper limits for attempts of unknown usage
        self.unknown = Usage()
        self.unknown_batch = Usage()
        self._answered: set[bytes] = set()
        # arms and repeats whose prefix is in the file
        self._prefixed: set[tuple[str, int]] = set()
        with failing_as(
            FwcError, f"cannot open {self.path}: ", "; name another folder with --out"
        ):
            self._file = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o644
            )
        try:
            with failing_as(FwcError, f"cannot read {self.path}: "):
                if not stat.S_ISREG(os.fstat(self._file).st_mode):  # a pipe or a device
                    raise OSError(
                        errno.EINVAL, "it is not a regular file", str(self.path)
                    )
                self._lock()
                begun = os.fstat(self._file).st_size > 0
                self._size = self._load() if begun else 0
            if self._size == 0:
                self._write({"format": FORMAT})
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        with (
            contextlib.nullcontext() if error is None else contextlib.suppress(FwcError)
        ):
            self.close()

    def close(self) -> None:
        """Flush to disk and release the lock."""
        try:
            self._sync()
        finally:
            os.close(self._file)

    def answered(self, request: str) -> bool:
        """Whether this request has a reply, so that it must not be sent again."""
        return bytes.fromhex(request) in self._answered

    def __len__(self) -> int:
        return len(self._answered)

    def append(self, record: Fields) -> None:
        """Write one record; once this returns, killing the process cannot lose it."""
        if "prefix" in record and (record["arm"], record["repeat"]) in self._prefixed:
            record = {name: value for name, value in record.items() if name != "prefix"}
        self._write(record)
        self._count(record)
        now = time.monotonic()
        if now - self._synced >= _SYNC_SECONDS:
            self._sync()
            self._synced = now

    def records(self) -> Iterator[Json]:
        """Yield every record; a failed request may have a later record with a reply."""
        return read_records(self.path)

    def cost(self, price: "Price") -> float:
        """The cost of all attempts in dollars; unknown usage counts as the largest possible."""
        live = price.dollars(self.usage + self.unknown, longest=self._longest)
        batched = self.batch_usage + self.unknown_batch
        return live + price.dollars(batched, batch=True, longest=self._longest)

    def check_in_place(self) -> None:
        """`StorageError` if the file is gone: its folder was deleted, moved or replaced."""
        try:
            there = os.stat(self.path)
            opened = os.fstat(self._file)
        except OSError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (
            opened.st_dev,
            opened.st_ino,
        ):
            why = "its folder was deleted, moved or replaced while the run went on"
            raise StorageError(f"{self.path} is gone: {why}; nothing further is asked")

    def _write(self, record: Fields) -> None:
        line = (
            json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str)
            + "\n"
        )
        data = redact(line, by_form=False).encode("utf-8", "backslashreplace")
        self.check_in_place()
        try:
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with contextlib.suppress(
                OSError
            ):  # else the next process cuts off the incomplete line
                os.ftruncate(self._file, self._size)
            kept = "all earlier replies are kept; free disk space, and the same command continues"
            raise StorageError(
                f"cannot write to {self.path}: {error.strerror}; {kept}"
            ) from None
        self._size += written

    def _sync(self) -> None:
        with failing_as(StorageError, f"the disk does not keep {self.path}: "):
            os.fsync(self._file)

    def _count(self, record: Fields) -> None:
        if record["text"] is not None:
            self._answered.add(bytes.fromhex(record["request"]))
        if record.get("prefix"):
            self._prefixed.add((record.get("arm", ""), record.get("repeat", 0)))
        usage, most = (
            Usage(**(record.get(name) or {})) for name in ("usage", "most_usage")
        )
        self._longest = max(self._longest, usage.prompt_tokens, most.prompt_tokens)
        lost = most.times(record.get("unknown_attempts") or 0)
        if record.get("batch"):
            self.batch_usage, self.unknown_batch = (
                self.batch_usage + usage,
                self.unknown_batch + lost,
            )
        else:
            self.usage, self.unknown = self.usage + usage, self.unknown + lost

    def _load(self) -> int:
        """Read a journal, cut off an incomplete last line, and return the size."""
        good = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and not HEADER.startswith(line.rstrip(b"\0")):
                    check_header(line, self.path)
                complete = line.endswith(b"\n")
                if not complete:
                    try:
                        parse_json(line)
                    except ValueError:
                        break
                if number > 1:
                    self._count(parse_record(line, self.path, number))
                good += len(line)
                # only the line end is missing: keep the record, its request was paid for
                if not complete:
                    good += os.write(self._file, b"\n")
                    break
        if os.fstat(self._file).st_size != good:
            os.ftruncate(self._file, good)
        return good

    def _lock(self) -> None:
        """Lock the file; the system releases the lock however this process ends."""
        try:
            if sys.platform == "win32":
                import msvcrt

                os.lseek(self._file, _WINDOWS_LOCK_BYTE, os.SEEK_SET)
                msvcrt.locking(self._file, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            wait = "wait for that run to end, or name another folder with --out"
            raise FwcError(
                f"{self.path} is in use by another process: {wait}"
            ) from None
