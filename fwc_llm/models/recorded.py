"""Reads a run's journal of replies, validating it line by line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, NonNegativeInt, Strict, ValidationError

from fwc_llm.errors import FwcError, StorageError
from fwc_llm.files import failing_as, open_binary
from fwc_llm.models.base import Message, Reply, Usage, UsageKey
from fwc_llm.sanitize import Fields, Json, parse_json, utf8_safe
from fwc_llm.validation import first_error

FORMAT = "fwc-llm-journal/1"
FILE_NAME = "journal.jsonl"
HEADER = json.dumps({"format": FORMAT}, separators=(",", ":")).encode() + b"\n"

Key = tuple[str, int, str, str]  # arm, repeat, row, variant
_Probability = Annotated[float, Field(ge=0, le=1)]
_Token = Annotated[
    tuple[Annotated[str, Strict()], Annotated[float, Strict()] | None], Strict(False)
]


class _Record(BaseModel, strict=True):
    """The keys of a journal's record that are read; other keys are ignored."""

    request: Annotated[str, Field(pattern=r"^(?:[0-9a-f]{2})+$")]
    text: str | None
    arm: str | None = None
    repeat: NonNegativeInt | None = None
    row: str | None = None
    variant: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    latency: float | None = None
    truncated: bool | None = None
    refusal: bool | None = None
    reasoned: bool | None = None
    batch: bool | None = None
    usage: dict[UsageKey, NonNegativeInt] | None = None
    most_usage: dict[UsageKey, NonNegativeInt] | None = None
    unknown_attempts: NonNegativeInt | None = None
    logprobs: list[_Token] | None = None  # None in place of a number means -Infinity
    p_yes: _Probability | None = None
    prompt: list[Message] | None = None
    prefix: list[Message] | None = None


def read_records(path: Path) -> Iterator[Json]:
    """Yield a journal's records (also gzipped), without an incomplete last line."""
    with (
        failing_as(StorageError, f"cannot read {path}: ", also=(EOFError, zlib.error)),
        open_binary(path) as opened,
        gzip.GzipFile(fileobj=opened) if path.suffix == ".gz" else opened as file,
    ):
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):  # another process may be writing it
                return
            if number == 1:
                check_header(line, path)
            else:
                yield parse_record(line, path, number)


def reply_of(record: Fields) -> Reply:
    """The reply in a journal's record, without its raw response."""
    names = (
        "finish_reason",
        "error",
        "refusal",
        "reasoned",
        "p_yes",
        "truncated",
        "model",
        "fingerprint",
        "latency",
    )
    fields = {name: record[name] for name in names if record.get(name) is not None}
    pairs = (
        (token, value)
        for token, value in record.get("logprobs") or ()
        if value is not None
    )
    usage = record.get("usage")
    return Reply(
        record["text"],
        logprobs=tuple(pairs) or None,
        usage=Usage(**usage) if usage else None,
        **fields,
    )


def key_of(row: Fields) -> Key:
    """(arm, repeat, row, variant), which identify a question in its run."""
    return (
        row.get("arm") or "",
        int(row.get("repeat") or 0),
        row.get("row") or "",
        row.get("variant") or "",
    )


def check_header(line: bytes, path: Path) -> None:
    """`FwcError` unless this is the first line of a journal."""
    try:
        header = parse_json(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FwcError(
            f"{path} is not a journal of this tool (its first line does not say {FORMAT}): "
            "name a new folder with --out"
        )


def parse_record(line: bytes, path: Path, number: int) -> Json:
    """Parse a journal's line; `FwcError` if it is damaged."""
    record: Any = None
    try:
        record = parse_json(line)
        _Record.model_validate(record)
    except ValueError as error:
        if isinstance(error, ValidationError):
            why = first_error(error, record)
        else:
            why = "it is not JSON"
        raise FwcError(
            f"{path} is damaged in line {number} ({why}): restore the file, "
            "or remove that line to have its request asked again"
        ) from None
    return {
        **record,
        **{
            name: utf8_safe(record[name])
            for name in ("text", "error")
            if record.get(name)
        },
    }
