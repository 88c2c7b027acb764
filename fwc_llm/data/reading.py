"""A CSV, Parquet, Excel or JSON lines file as columns of raw texts, each with its place in the file."""

import csv
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.taskfile import Format, Source
from fwc_llm.untrusted import parse_json, storable

if TYPE_CHECKING:
    import pandas as pd

NEEDS_OPENPYXL = (
    "{}: reading Excel needs openpyxl: pip install 'fwc-llm[excel]', or save the sheet as CSV (UTF-8)"
)
NEEDS_PYARROW = "{}: reading Parquet needs pyarrow: pip install 'fwc-llm[parquet]'"
Texts = list[str | None]  # one column: raw texts, None where the value is missing


@dataclass(frozen=True)
class RawTable:
    """Raw columns of equal length; `ids` are "file:line" with 1-based lines ("file:row" for Parquet)."""

    columns: dict[str, Texts]
    ids: list[str]


def joined(parts: Sequence[RawTable]) -> RawTable:
    """The rows of several tables with the same columns, one after the other."""
    if len(parts) == 1:
        return parts[0]
    names = list(parts[0].columns)
    columns = {name: [cell for part in parts for cell in part.columns[name]] for name in names}
    return RawTable(columns, [place for part in parts for place in part.ids])


def read_table(path: Path, content: bytes, source: Source, names: Sequence[str], label: str = "") -> RawTable:
    """Read one file of `source`, whose bytes are `content`, into raw columns.

    `names` are the columns in file order: all of them where the file has no header line; with a header they
    are looked up by name, and columns of the file that are not listed are left out. Row ids begin with
    `label`, by default the file's name.

    Raises `FwcError` for a file that is no table, a line of another length, or a listed column it lacks.
    """
    if source.format != "csv":
        frame = read_frame(path, content, source.format, names)
        return table_of(frame, path, source, names, label or path.name)
    return _read_csv(path, content, source, names, label or path.name)


class Cleaner(dict[str, str | None]):
    """From a raw cell to its text without surrounding spaces, or None where it is missing.

    An empty cell is always missing. Cells repeat: each is cleaned once, and equal cells become one object.
    """

    def __init__(self, markers: Sequence[str]) -> None:
        super().__init__()
        self.missing = frozenset(marker.strip() for marker in ("", *markers))

    def __missing__(self, cell: str) -> str | None:
        text = cell.strip()
        self[cell] = cleaned = None if text in self.missing else text
        return cleaned


def _read_csv(path: Path, content: bytes, source: Source, names: Sequence[str], label: str) -> RawTable:
    records = csv_records(path, content, source)
    titles = list(names)
    if source.header:
        _, titles = next(records, (0, []))
        titles = [title.strip() for title in titles]
    # One flat list, each cell cleaned while it is fresh: rows as lists and a second pass take twice as long.
    clean = Cleaner(source.markers)
    cells: Texts = []
    ids: list[str] = []
    for line, record in records:
        if len(record) != len(titles):
            raise FwcError(
                f"{path}:{line}: {len(record)} values where {len(titles)} columns are expected; "
                f"check the separator ({source.separator!r}), the columns and stray separators or quotes"
            )
        cells += map(clean.__getitem__, record)
        ids.append(f"{label}:{line}")
    if not ids:
        below = " below its header line" if source.header and titles else ""
        raise FwcError(f"{path}: the file holds no table: it has no rows{below}")
    return RawTable(find_columns(path, titles, names, lambda place: cells[place :: len(titles)]), ids)


def csv_records(path: Path, content: bytes, source: Source) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, each with the 1-based line it starts on; no empty and no comment lines."""
    try:
        text = content.decode(source.encoding)
        text.encode("utf-8")  # some encodings write half a character
    except (ValueError, LookupError) as error:
        raise FwcError(
            f"{path} is no table of {source.encoding} text ({error}); name its encoding "
            '(encoding = "latin-1") or format = "parquet" under [data]'
        ) from error
    if "\0" in text:
        raise FwcError(f"{path} is no table: it holds zero bytes; is it a binary file?")
    reader = csv.reader(StringIO(text, newline=""), delimiter=source.separator, skipinitialspace=True)
    start, comment = 1, source.comment
    try:
        for record in reader:
            blank = not record or (len(record) == 1 and not record[0].strip())
            if not blank and not (comment and record[0].startswith(comment)):
                yield start, record
            start = reader.line_num + 1
    except csv.Error as error:
        raise FwcError(f"{path}:{reader.line_num}: this line is no row of a table: {error}") from error


def find_columns(
    path: Path, titles: Sequence[str], names: Sequence[str], cells_at: Callable[[int], Texts]
) -> dict[str, Texts]:
    """The columns called `names`; a title that stands twice must stand over equal cells."""
    found = {}
    for name in names:
        places = [place for place, title in enumerate(titles) if title == name]
        if not places:
            raise FwcError(
                f"{path}: there is no column {name!r}; the file has {', '.join(map(repr, titles[:30]))}"
                f"{'; is the separator right?' if len(titles) == 1 else ''}"
            )
        found[name] = cells_at(places[0])
        if any(cells_at(other) != found[name] for other in places[1:]):
            raise FwcError(f"{path}: the header names column {name!r} more than once, and the columns differ")
    return found


def read_frame(path: Path, content: bytes, format: Format, names: Sequence[str] = ()) -> "pd.DataFrame":
    """A table that is no CSV file as a frame of typed cells; `FwcError` says what it takes to read it.

    Of a Parquet file that has all of `names` only these columns are read.
    """
    from io import BytesIO

    import pandas as pd

    if format == "jsonl":
        return _read_jsonl(path, content)
    if path.suffix.lower() == ".xls":
        raise FwcError(f"{path}: the old Excel format is not read: save the sheet as .xlsx or CSV (UTF-8)")
    needs, words = (NEEDS_PYARROW, "Parquet") if format == "parquet" else (NEEDS_OPENPYXL, "Excel")
    try:
        if format == "parquet":
            return pd.read_parquet(BytesIO(content), columns=_listed(content, names))
        importlib.import_module("openpyxl")
        return pd.read_excel(BytesIO(content), dtype=object, engine="openpyxl")
    except ImportError as error:
        raise FwcError(needs.format(path)) from error
    except Exception as error:  # their readers raise many kinds, all of which mean that this is no such table
        raise FwcError(f"{path} is no {words} table: {error}") from error


def _listed(content: bytes, names: Sequence[str]) -> list[str] | None:
    """The titles of these columns; None, which stands for all columns, where they are not there once each."""
    from io import BytesIO

    from pyarrow.parquet import read_schema

    titles = [title for title in read_schema(BytesIO(content)).names if title.strip() in names]
    return titles if titles and len(titles) == len(set(names)) else None


def _read_jsonl(path: Path, content: bytes) -> "pd.DataFrame":
    """JSON lines, or one JSON list: an object for every row."""
    import pandas as pd

    rows = []
    try:
        text = content.decode("utf-8-sig")
    except ValueError as error:
        raise FwcError(f"{path} is no JSON: {error}") from error
    whole = text.lstrip().startswith("[")
    for number, line in enumerate([text] if whole else text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = parse_json(line)
        except ValueError as error:
            raise FwcError(f"{path}:{number}: this line is no JSON object: {error}") from error
        for row in found if whole and isinstance(found, list) else [found]:
            if not isinstance(row, dict):
                raise FwcError(
                    f"{path}:{number}: a row is an object with a value for every column, not {row!r:.40}"
                )
            rows.append(row)
    if not rows:
        raise FwcError(f"{path}: the file holds no table: it has no rows")
    return pd.DataFrame(rows, dtype=object)


def table_of(
    frame: "pd.DataFrame", path: Path, source: Source, names: Sequence[str], label: str, first: int = 0
) -> RawTable:
    """The cells of a frame as a CSV file would have them; rows are "label:row", counted from 1.

    `first` rows of the file come before those of the frame.
    """
    titles = [str(title).strip() for title in frame.columns]
    clean = Cleaner(source.markers)

    def cells_at(place: int) -> Texts:
        return [None if is_null(cell) else clean[as_text(cell)] for cell in frame.iloc[:, place].tolist()]

    columns = find_columns(path, titles, names, cells_at)
    return RawTable(columns, [f"{label}:{row}" for row in range(first + 1, first + len(frame) + 1)])


def is_null(cell: Any) -> bool:
    """Whether a typed cell is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and cell != cell  # of an array, a cell of a nested column, != is no bool


def as_text(cell: Any) -> str:
    """A typed cell as a CSV file would have it: 39.0 is "39", True is "true"."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, date):
        return str(cell).removesuffix(" 00:00:00")
    return storable(str(cell))
