"""A CSV, Parquet, Excel or JSON lines file as a frame of texts.

A frame of texts has a column of str for every column of the task file, NaN where a value is missing, and row
ids as its index: "file:line" with the 1-based line of a CSV file, "file:row" of a sheet or another format.
"""

import csv
import importlib
from collections.abc import Iterator, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.taskfile import Format, Source
from fwc_llm.untrusted import parse_json
from fwc_llm.values import as_text, is_null

NEEDS_OPENPYXL = (
    "{}: reading Excel needs openpyxl: pip install 'fwc-llm[excel]', or save the sheet as CSV (UTF-8)"
)
NEEDS_PYARROW = "{}: reading Parquet needs pyarrow: pip install 'fwc-llm[parquet]'"


def read_table(
    path: Path, content: bytes, source: Source, names: Sequence[str], label: str = ""
) -> pd.DataFrame:
    """Read one file of `source`, whose bytes are `content`, into a frame of texts.

    `names` are the columns in file order: all of them where the file has no header line; with a header they
    are looked up by name, and columns of the file that are not listed are left out. Row ids begin with
    `label`, by default the file's name.

    Raises `FwcError` for a file that is no table, a line of another length, or a listed column it lacks.
    """
    label = label or path.name
    if source.format == "csv":
        frame = _read_csv(path, content, source, names)
        return table_of(frame, path, source, names, label).set_axis([f"{label}:{n}" for n in frame.index])
    frame = read_frame(path, content, source.format, names)
    header = source.format == "excel"  # the sheet's first row, as a CSV file's first line
    return table_of(frame, path, source, names, label, first=int(header))


def table_of(
    frame: pd.DataFrame, path: Path, source: Source, names: Sequence[str], label: str, first: int = 0
) -> pd.DataFrame:
    """The columns `names` of a typed frame as a CSV file would have them; rows are "label:row", from 1.

    Cells have no spaces around them and are missing where they are empty or a marker. A title that stands
    twice must stand over equal cells. `first` rows of the file come before those of the frame.
    """
    titles = [str(title).strip() for title in frame.columns]
    check_titles(path, titles, names)
    columns = {}
    for name in names:
        columns[name], *others = (
            [None if is_null(cell) else as_text(cell) for cell in frame.iloc[:, place].tolist()]
            for place, title in enumerate(titles)
            if title == name
        )
        if any(other != columns[name] for other in others):
            raise FwcError(f"{path}: the header names column {name!r} more than once, and the columns differ")
    ids = [f"{label}:{row}" for row in range(first + 1, first + len(frame) + 1)]
    raw = pd.DataFrame(columns, index=pd.Index(ids, dtype="str"), dtype="str")
    texts: pd.DataFrame = raw.apply(lambda cells: cells.str.strip())
    return texts.mask(texts.isin({"", *(marker.strip() for marker in source.markers)}))


def check_titles(path: Path, titles: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a table that lacks a column."""
    for name in names:
        if name not in titles:
            separator = "; is the separator right?" if len(titles) == 1 else ""
            raise FwcError(f"{path}: there is no column {name!r}{did_you_mean(name, titles)}{separator}")


def _read_csv(path: Path, content: bytes, source: Source, names: Sequence[str]) -> pd.DataFrame:
    """The records as a frame, whose index is the line where each begins."""
    records = csv_records(path, content, source)
    titles = next(records, (0, []))[1] if source.header else list(names)
    cells: list[str] = []  # one flat list: rows as lists take twice as long
    lines: list[int] = []
    for line, record in records:
        if len(record) != len(titles):
            raise FwcError(
                f"{path}:{line}: {len(record)} values where {len(titles)} columns are expected; "
                f"check the separator ({source.separator!r}), the columns and stray separators or quotes"
            )
        cells += record
        lines.append(line)
    if not lines:
        below = " below its header line" if source.header and titles else ""
        raise FwcError(f"{path}: the file holds no table: it has no rows{below}")
    return pd.DataFrame(np.array(cells, dtype=object).reshape(-1, len(titles)), lines, titles)


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


def read_frame(path: Path, content: bytes, format: Format, names: Sequence[str] = ()) -> pd.DataFrame:
    """A table that is no CSV file as a frame of typed cells; `FwcError` says what it takes to read it.

    Of a Parquet file that has all of `names` only these columns are read.
    """
    if format == "jsonl":
        return _read_jsonl(path, content)
    if path.suffix.lower() == ".xls":
        raise FwcError(f"{path}: the old Excel format is not read: save the sheet as .xlsx or CSV (UTF-8)")
    needs, words = (NEEDS_PYARROW, "Parquet") if format == "parquet" else (NEEDS_OPENPYXL, "Excel")
    try:
        if format == "parquet":
            return pd.read_parquet(BytesIO(content), columns=_listed(content, names))
        return _read_excel(content)
    except ImportError as error:
        raise FwcError(needs.format(path)) from error
    except Exception as error:  # their readers raise many kinds, all of which mean that this is no such table
        raise FwcError(f"{path} is no {words} table: {error}") from error


def _read_excel(content: bytes) -> pd.DataFrame:
    """The first sheet, row by row as it is stored: a cell far away does not fill what is between."""
    openpyxl: Any = importlib.import_module("openpyxl")
    errors = importlib.import_module("openpyxl.cell.cell").ERROR_CODES
    sheet = openpyxl.load_workbook(BytesIO(content), read_only=True, data_only=True).worksheets[0]
    sheet.reset_dimensions()
    lines = (list(line) for line in sheet.iter_rows(values_only=True) if any(c is not None for c in line))
    titles = next(lines, [])
    while titles and titles[-1] is None:
        titles.pop()
    rows = []
    for line in lines:
        outside = next((place for place, cell in enumerate(line) if place >= len(titles) and cell), None)
        if outside is not None:
            raise ValueError(
                f"a cell in column {outside + 1} stands outside of the {len(titles)} titled ones"
            )
        cells = [None if cell in errors else cell for cell in line[: len(titles)]]
        rows.append(cells + [None] * (len(titles) - len(cells)))
    names = [f"Unnamed: {place}" if title is None else title for place, title in enumerate(titles)]
    return pd.DataFrame(rows, columns=pd.Index(names, dtype=object), dtype=object)


def _listed(content: bytes, names: Sequence[str]) -> list[str] | None:
    """The titles of these columns; None, which stands for all columns, where they are not there once each."""
    from pyarrow.parquet import read_schema

    titles = [title for title in read_schema(BytesIO(content)).names if title.strip() in names]
    return titles if titles and len(titles) == len(set(names)) else None


def open_parquet(path: Path) -> Any:
    """The pyarrow `ParquetFile`, open; `FwcError` for a file that is none, or without pyarrow."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FwcError(NEEDS_PYARROW.format(path)) from error
    try:
        return pq.ParquetFile(path)
    except Exception as error:  # pyarrow raises many kinds, all of which mean that this is no such table
        raise FwcError(f"{path} is no Parquet table: {error}") from error


def _read_jsonl(path: Path, content: bytes) -> pd.DataFrame:
    """JSON lines, or one JSON list: an object for every row."""
    rows: list[Any] = []
    try:
        text = content.decode("utf-8-sig")
    except ValueError as error:
        raise FwcError(f"{path} is no JSON: {error}") from error
    whole = text.lstrip().startswith("[")
    for number, line in enumerate([text] if whole else text.splitlines(), 1):
        try:
            values = parse_json(line) if line.strip() else []
        except ValueError as error:
            raise FwcError(f"{path}:{number}: this line is no JSON object: {error}") from error
        rows += values if whole else [values] if line.strip() else []
        if rows and not isinstance(rows[-1], dict):
            raise FwcError(
                f"{path}:{number}: a row is an object with a value for every column, not {rows[-1]!r:.40}"
            )
    if not rows:
        raise FwcError(f"{path}: the file holds no table: it has no rows")
    size = len(rows) * len({key for row in rows for key in row})
    if size > 10_000_000 and size > 50 * sum(map(len, rows)):
        raise FwcError(f"{path}: its rows have hardly a key in common: they are no rows of one table")
    return pd.DataFrame(rows, dtype=object)
