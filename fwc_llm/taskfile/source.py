"""Where a task file says that its table is, and how it is written."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from fwc_llm.taskfile.addresses import is_name_below, is_safe_address
from fwc_llm.taskfile.reader import Reader
from fwc_llm.taskfile.values import DEFAULT_MARKERS, ENDINGS, Format, Source

_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_source(reader: Reader, top: Mapping[str, Any]) -> Source:
    """The files, their format, and from where they can be downloaded."""
    keys = ("file", "pool", "test", "format", "separator", "header", "missing_marker", "comment")
    table = reader.table(top.get("data"), "data", (*keys, "encoding", "url", "sha256"))
    if "file" in table:
        if "pool" in table or "test" in table:
            raise reader.fail("data", "give either file, or pool and test")
        files: tuple[str, ...] = (reader.string(table, "file", "data"),)
    else:
        files = (reader.string(table, "pool", "data"), reader.string(table, "test", "data"))
        if files[0] == files[1]:
            raise reader.fail("data", "pool and test are the same file; write file = … to split one table")
    guess = ENDINGS.get(Path(files[0]).suffix.lower(), "csv")
    separator = reader.string(table, "separator", "data", ",")
    if len(separator) != 1 or separator in '"\r\n':
        raise reader.fail("data", f"separator = {separator!r} must be one character")
    sha256 = reader.mapping(table["sha256"], "data.sha256") if "sha256" in table else {}
    for name in sha256:
        if name not in files:
            raise reader.fail("data.sha256", f"{name!r} is none of the files {', '.join(files)}")
    url = reader.string(table, "url", "data", "")
    if url:
        _check_download(reader, url, files, sha256)
    return Source(
        files=files,
        format=cast(Format, reader.choice(table, "format", "data", get_args(Format), guess)),
        separator=separator,
        header=reader.flag(table, "header", "data", True),
        markers=reader.values(table, "missing_marker", "data") or DEFAULT_MARKERS,
        comment=reader.string(table, "comment", "data", ""),
        encoding=_encoding(reader, table),
        url=url,
        sha256=sha256,
    )


def _encoding(reader: Reader, table: Mapping[str, Any]) -> str:
    name = reader.string(table, "encoding", "data", "utf-8-sig")
    try:
        # Of a text with an umlaut: "undefined" and the like know of no text.
        "a,ä".encode(name, "ignore").decode(name)
    except (LookupError, ValueError):
        raise reader.fail("data", f'encoding = {name!r} is none; try "utf-8" or "latin-1"') from None
    return name


def _check_download(reader: Reader, url: str, files: Sequence[str], sha256: Mapping[str, str]) -> None:
    """What is downloaded goes into the cache folder and nowhere else, on a way that nobody changes."""
    for name in files:
        if not _SHA256.fullmatch(sha256.get(name, "")):
            raise reader.fail("data", f"a url needs the sha256 of every file; {name!r} has none")
        if not is_name_below(name):
            raise reader.fail(
                "data",
                f"with a url, {name!r} must name a file below the cache folder: no .. and no ~",
            )
    if not is_safe_address(url):
        raise reader.fail("data", f"url = {url!r} is no https address (http only from this machine itself)")
