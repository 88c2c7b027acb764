"""How a table's file is written: its format, separator and encoding, and the names of its columns."""

import re
from collections import Counter
from pathlib import Path

from fwc_llm.data.reading import NEEDS_PYARROW, csv_records, read_frame
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import ENDINGS, Source

_SEPARATORS = (",", ";", "\t", "|", " ")


def sniff_source(path: Path, content: bytes) -> tuple[Source, list[str]]:
    """How the file is written, and its column names."""
    format = ENDINGS.get(path.suffix.lower(), "csv")
    if format == "parquet":
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise FwcError(NEEDS_PYARROW.format(path)) from error
        try:
            return Source(file=path.name, format="parquet"), list(parquet.read_schema(path).names)
        except (OSError, ValueError) as error:
            raise FwcError(f"{path} is no Parquet table: {error}") from error
    if format != "csv":
        frame = read_frame(path, content, format)
        return Source(file=path.name, format=format), [str(title).strip() for title in frame.columns]
    encoding = _encoding(content)
    best: tuple[Source, list[str]] | None = None
    odd = ""
    for separator in _SEPARATORS:
        source = Source(file=path.name, separator=separator, encoding=encoding)
        records = [record for _, record in zip(range(200), csv_records(path, content, source), strict=False)]
        widths = {len(record) for _, record in records}
        # The separator that cuts every line into the same, largest number of columns.
        if len(widths) == 1 and (best is None or len(records[0][1]) > len(best[1])):
            best = source, [title.strip() for title in records[0][1]]
        common = Counter(len(record) for _, record in records).most_common(1)
        if not odd and len(widths) > 1 and common[0][0] > 1 and common[0][1] > len(records) / 2:
            line, other = next((n, len(r)) for n, r in records if len(r) != common[0][0])
            odd = f": with {separator!r} line {line} has {other} values, most have {common[0][0]}"
    if best is None or len(best[1]) < 2:
        raise FwcError(
            f"{path} is no table: no separator cuts its lines into the same number of columns{odd}"
        )
    return best


def _encoding(content: bytes) -> str:
    """The encoding of a text file: by its mark, else UTF-8 where it is, else that of Western Windows."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for encoding in ("utf-8-sig", "cp1252" if re.search(rb"[\x80-\x9f]", content) else "latin-1"):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"
