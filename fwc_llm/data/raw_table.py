"""Reads tables as texts: CSV, Parquet, Excel, JSON, also packed, or data frames.

Texts and integers stay unchanged. The text of any other cell depends only on the cell, not on its
column. A *text frame* has a column of str for every column of the task file, NaN for missing
values, and row ids as its index. A row id is "file:line" with the 1-based line of a CSV file, or
"file:row" with the row of any other format.
"""

import bz2
import csv
import gzip
import importlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from io import BytesIO, TextIOWrapper
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd

from fwc_llm.cell_rules import (
    Amount,
    as_number,
    as_text,
    at,
    base_of,
    is_null,
    notations_of,
    title_of,
    units_of,
)
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import failing_as
from fwc_llm.sanitize import Json, listed, parse_json, utf8_safe
from fwc_llm.taskfile import DEFAULT_MARKERS, Source, Written, format_of
from fwc_llm.words import folded_words, sum_words

_LOOKED_AT = 1000  # different texts of a column in which a notation is sought
_TITLES = 5  # first rows that may be the header in a table of merged cells
_GRIDS = "csv", "excel"  # formats of tables with lines above their header
_FRAME = "the data frame"
_SNIFFED = 200  # records of a CSV file that are read to find its separator
csv.field_size_limit(
    2**31 - 1
)  # a wrong separator makes one cell of a long line: the guess fails, no error
LARGEST_EXACT = (
    2**53
)  # doubles, such as spreadsheet numbers, cannot represent every larger integer
_TYPED = re.compile(
    r"u?int\d+|halffloat|float|double|bool|(large_)?string"
)  # of Arrow, for pandas
_SEP_LINE = re.compile(
    r'"?sep=(.)"?\r?$', re.IGNORECASE | re.MULTILINE
)  # a first line for Excel

_RARE = 0.02  # largest share of the rows that sum others up under one name
_MOST = 8  # rows that a message names
# A formula without a stored value in the XML of a sheet; "" is a stored value
_UNSTORED = re.compile(
    rb'<c r="(\w+)"(?![^>]*t="str")[^>]*><f[^>]*(?:/>|>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>'
)
_MERGED = re.compile(rb'<mergeCell ref="([A-Z]+)(\d+):[A-Z]+(\d+)"')
# In a number's format in Excel, what is no digit: texts, "[$€-407]", "\\x", signs, spaces
_BESIDE = re.compile(
    r'"([^"]*)"|\[\$([^-\]]*)[^\]]*\]|\\(.)|([$€£¥%])|\[[^\]]*\]|[_*].'
)


@dataclass(frozen=True, eq=False)
class RawTable:
    """The typed columns of a file or a data frame, with n rows.

    `titles` are column names; columns of nested objects have paths ("applicant.sex"). `numbers`
    (n,) are line or row numbers from 1, or a frame's index labels. `cells_of` returns the typed
    cells (n,) of the column at a position from 0. `hint` is the end of errors about missing
    columns.
    """

    where: Path | str
    titles: Sequence[str]
    numbers: Sequence[Any]
    cells_of: Callable[[int], Any]
    markers: frozenset[str]
    hint: str = ""
    separator: str = ""  # of a CSV file

    def usual_in(self, name: str) -> tuple[Written, bool]:
        """The `usual_notation`, where the column's cells are texts."""
        if name not in self.positions or self.is_typed(self.positions[name][0]):
            return "", False
        return self.usual_notation

    @cached_property
    def positions(self) -> Mapping[str, Sequence[int]]:
        """The positions of each title, several if it repeats."""
        found: dict[str, list[int]] = {}
        for position, title in enumerate(self.titles):
            found.setdefault(title, []).append(position)
        return found

    def is_typed(self, position: int) -> bool:
        """Whether the column at a position has other cells than texts."""
        cells = pd.Series(self.cells_of(position))
        return pd.api.types.infer_dtype(cells, skipna=True) != "string"

    @cached_property
    def usual_notation(self) -> tuple[Written, bool]:
        """The notation of the numbers in texts, "" if none is known, and whether a number proves
        it; the separator ";" only suggests a decimal comma.
        """
        proven = set[Written]()
        for position in range(len(self.titles)):
            if not self.is_typed(position):
                proven |= _proven_by(pd.Series(self.cells_of(position)).dropna())
        if len(proven) == 1:
            return proven.pop(), True
        return ("1.234,5" if self.separator == ";" and not proven else ""), False

    @cached_property
    def sum_rows(self) -> str:
        """What to say of rows that sum others up, as in a spreadsheet; "" for none."""
        found: dict[int, str] = {}
        for position in range(len(self.titles)):
            column = self.cells_of(position)
            texts = {cell for cell in column if isinstance(cell, str)}
            for word, beside in sum_words(texts).items():
                same = [n for n, cell in enumerate(column) if str(cell) == word]
                if len(same) > max(1, _RARE * len(self.numbers)):  # a group or a value
                    continue
                for row in same:
                    if beside is None or beside in self._beside(row, texts):
                        found[row] = word
        if not found:
            return ""
        rows = [
            f"{word!r} in row {self.numbers[n]}" for n, word in sorted(found.items())
        ]
        fate = ("seem", "them") if len(rows) > 1 else ("seems", "it")
        return f"{listed(rows, _MOST)} {fate[0]} to sum the others up: remove {fate[1]}"

    def _beside(self, position: int, texts: Collection[str]) -> set[str]:
        """The cells of a row and further `texts`, without case and accents; "" for an empty one."""
        columns = map(self.cells_of, range(len(self.titles)))
        cells = [pd.Series(column).iloc[position] for column in columns]
        row = {"" if is_null(cell) else folded_words(str(cell)) for cell in cells}
        return row.union(folded_words(text) for text in texts if text)

    def texts(self, name: str, written: Written = "") -> "pd.Categorical[Any]":
        """Texts (n,) of a column, or of a path ("choices[0].text") into its cells."""
        if name not in self.positions:
            return self._inner(name, written)
        first, *others = (
            as_categories(self.cells_of(k), self.markers, written)
            for k in self.positions[name]
        )
        if not all(map(first.equals, others)):
            twice = [
                title for title, places in self.positions.items() if len(places) > 1
            ]
            raise FwcError(
                f"{self.where}: the header names column {name!r} more than once, and the columns "
                f"differ: rename one of them (the header has twice: {listed(twice, _MOST, repr)})"
            )
        return first

    def _inner(self, path: str, written: Written) -> "pd.Categorical[Any]":
        """Texts (n,) at a path into the cells of a column."""
        title = base_of(path, self.titles)
        if title:
            cells = self.cells_of(self.positions[title][0])
            inner = [at(cell, path[len(title) :]) for cell in cells]
            if not inner or not all(map(is_null, inner)):
                return as_categories(
                    pd.Series(inner, dtype=object), self.markers, written
                )
        raise self._lacks(path)

    def frame(
        self, names: Sequence[str], label: str, written: Mapping[str, Written] = {}
    ) -> pd.DataFrame:
        """The columns `names` as a text frame with row ids that begin with `label`."""
        ids = pd.Index([f"{label}:{number}" for number in self.numbers], dtype="str")
        texts = {}
        for name in names:
            found = self.texts(name, written.get(name, ""))
            texts[name] = found.categories.array.take(found.codes, allow_fill=True)
        return pd.DataFrame(texts, index=ids)

    def joined(self, people: "RawTable", key: str) -> "RawTable":
        """The table with the columns that only `people` has, of the row with the same key."""
        ids = pd.Index(people.texts(key))
        keys = self.texts(key)
        if ids.has_duplicates:
            twice = ids[ids.duplicated()][0]
            raise FwcError(f"{people.where} has two rows {twice!r} in {key}: keep one")
        places = ids.get_indexer(pd.Index(keys))
        if (places < 0).any():
            lost = keys[int(np.argmin(places))]
            raise FwcError(
                f"{people.where} lacks the row {lost!r}, which has an answer"
            )
        own = len(self.titles)
        further = [
            k for k, title in enumerate(people.titles) if title not in self.titles
        ]

        def cells_of(position: int) -> Any:
            if position < own:
                return self.cells_of(position)
            cells = people.cells_of(further[position - own])
            return pd.Series(cells).take(places).reset_index(drop=True)

        titles = [*self.titles, *(people.titles[k] for k in further)]
        return replace(self, titles=titles, cells_of=cells_of)

    def _lacks(self, name: str) -> FwcError:
        if not self.titles:
            return FwcError(f"{self.where}: it holds no table: it is empty{self.hint}")
        if len(self.titles) == 1 and not self.hint and isinstance(self.where, Path):
            separator = "; is the separator right?"
        else:
            separator = ""
        hint = did_you_mean(name, self.titles)
        below = self._header_below(name)
        return FwcError(
            f"{self.where}: there is no column {name!r}{below or hint}{separator}{self.hint}"
        )

    def _header_below(self, name: str) -> str:
        """Which of the first rows has the title `name`, as below merged cells; "" for none."""
        has_header = self.where != _FRAME and format_of(Path(self.where)) in _GRIDS
        for position in range(len(self.titles)) if has_header else ():
            first = zip(self.numbers, self.cells_of(position), strict=False)
            for number, cell in islice(first, _TITLES):
                if isinstance(cell, str) and cell.strip() == name:
                    return f": {_header_at('row', number)}"
        return ""


def _proven_by(texts: pd.Series) -> set[Written]:
    """The notations in which alone a number of these texts can be read."""
    different = texts.unique()[:_LOOKED_AT]
    ways = [notations_of(text.strip()) for text in different]
    return {found[0] for found in ways if len(found) == 1}


def as_categories(
    cells: Any, markers: Iterable[str], written: Written = ""
) -> "pd.Categorical[Any]":
    """Typed cells (n,) as categories of texts; nulls, "" and markers have the code -1.

    Numbers beside texts are written as the numbers in these texts, unless `written` says how.
    """
    column: Any = (
        cells if isinstance(cells, pd.Series) else pd.Series(cells, dtype=object)
    )
    if (
        column.dtype == object
        and pd.api.types.infer_dtype(column, skipna=True) != "string"
    ):
        proven = _proven_by(column[[isinstance(cell, str) for cell in column]])
        if not written and len(proven) == 1:  # beside "1.234,50", 1234.5 is "1234,5"
            written = proven.pop()
        texts = [None if is_null(cell) else as_text(cell, written) for cell in column]
        column = pd.Series(texts, dtype=object)
    code, different = pd.factorize(column)
    exact = getattr(
        column.dtype, "numpy_dtype", column.dtype
    )  # of nullable and Arrow columns
    if exact in (np.float16, np.float32):  # Python's float would show other digits
        values = list(different.to_numpy(exact))
    else:
        values = different.tolist()
    missing = {"", *(marker.strip() for marker in markers)}
    written_texts = [as_text(value, written).strip() for value in values]
    kept = [None if text in missing else text for text in written_texts]
    merged, names = pd.factorize(
        np.array([*kept, None], dtype=object)
    )  # the code -1 takes the last
    return pd.Categorical.from_codes(merged[code], pd.Index(names, dtype="str"))


def open_table(
    path: Path, content: bytes, source: Source, names: Sequence[str] = ()
) -> RawTable:
    """Read the table in a file's bytes; `names` are the columns if it has no header."""
    _, content = unpacked(path, content)
    if source.format == "csv":
        return _read_csv(path, content, source, names)
    if source.format == "jsonl":
        return table_of_rows(
            path, json_rows(path, json_value(path, content)), source.markers
        )
    if source.format == "parquet":
        return _read_parquet(path, content, source)
    return _read_excel(path, content, source)


_OPENED: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
LARGEST_UNPACKED = (
    1 << 30
)  # bytes: a small file can unpack to more than any memory holds


def unpacked(path: Path, content: bytes) -> tuple[Path, bytes]:
    """Name and bytes of the file in a .gz, .bz2 or .zip file; those of any other file itself."""
    ending = path.suffix.lower()
    inner = path
    size = 0
    # A broken archive raises many types of errors.
    with failing_as(FwcError, f"{path} cannot be unpacked: ", also=(Exception,)):
        if ending in _OPENED:
            inner = Path(path.stem)
            content = _OPENED[ending](BytesIO(content)).read(LARGEST_UNPACKED + 1)
            size = len(content)
        elif ending in (".zip", ".xlsx"):
            archive = ZipFile(BytesIO(content))
            files = [
                item for item in archive.namelist() if not item.startswith("__MACOSX")
            ]
            size = sum(item.file_size for item in archive.infolist())
            if ending == ".zip" and len(files) != 1:
                raise FwcError(f"{path} holds {len(files)} files: pack one table alone")
            if ending == ".zip" and size <= LARGEST_UNPACKED:
                inner = Path(files[0])
                content = archive.read(files[0])
    if size > LARGEST_UNPACKED:
        raise FwcError(
            f"{path} unpacks to more than {LARGEST_UNPACKED:,} bytes: unpack it yourself if you "
            f"trust it, an Excel file by saving it as CSV"
        )
    return inner, content


def sniff_source(path: Path, content: bytes, **layout: Any) -> Source:
    """Detect a file's format and, for CSV, separator and encoding."""
    inner, content = unpacked(path, content)
    source = Source(file=path.name, format=format_of(inner), **layout)
    has = {"csv": ("skip", "comment"), "excel": ("sheet", "skip", "comment")}.get(
        source.format, ()
    )
    extra = [name for name, value in layout.items() if value and name not in has]
    if extra:
        raise FwcError(
            f"{path} is a table of the format {source.format}: leave --{extra[0]} out"
        )
    if source.format != "csv":
        return source
    if not content.strip():
        raise FwcError(f"{path} is empty")
    source = source.model_copy(update={"encoding": _encoding(content)})
    fitting: list[tuple[bool, int, Source]] = []
    for separator in (",", ";", "\t", "|", " "):
        if separator == " " and fitting:  # spaces may surround another separator
            break
        tried = source.model_copy(update={"separator": separator})
        widths = Counter(
            len(record)
            for _, record in islice(csv_records(path, content, tried), _SNIFFED)
        )
        for width, times in widths.most_common(1):
            if (
                width > 1 and times > widths.total() / 2
            ):  # the reader reports lines of another width
                fitting.append((len(widths) == 1, width, tried))
    if not fitting:
        raise FwcError(
            f"{path} is not a table: no separator cuts its lines into the same number of columns; "
            f"is a quote "
            "left open, or does text stand above the header (--skip)?"
        )
    return max(fitting, key=lambda one: one[:2])[2]


def _encoding(content: bytes) -> str:
    """Detect the encoding: by the BOM, else UTF-8 if valid, else Windows-1252."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    for encoding in (
        ("utf-8-sig", "cp1252")
        if re.search(rb"[\x80-\x9f]", content)
        else ("utf-8-sig",)
    ):
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


# --- CSV


def _read_csv(
    path: Path, content: bytes, source: Source, names: Sequence[str]
) -> RawTable:
    records = csv_records(path, content, source)
    if source.header:
        header = next(records, (0, []))[1]
    else:
        header = list(names)
    cells: list[str] = []  # one flat list: a list per row takes twice as long
    shared: dict[str, str] = {}  # equal cells share one str object
    lines: list[int] = []
    for line, record in records:
        if len(record) != len(header):
            last = next(records, None) is None
            raise FwcError(
                f"{path}:{line}: {len(record)} values where {len(header)} columns are expected; "
                + _mismatch(source, header, line, record, not lines, last)
            )
        cells += map(shared.setdefault, record, record)
        lines.append(line)
    titles = [title.strip() for title in header]
    return RawTable(
        path,
        titles,
        lines,
        lambda position: cells[position :: len(header)],
        frozenset(source.markers),
        separator=source.separator,
    )


def _mismatch(
    source: Source,
    header: Sequence[str],
    line: int,
    record: Sequence[str],
    first: bool,
    last: bool,
) -> str:
    """The remedy for a line with another number of values than the header."""
    if (
        source.header
        and (mark := re.match(r"#|//|%|;", header[0]))
        and not source.comment
    ):
        return (
            f"comments begin with {mark[0]!r}: --comment '{mark[0]}' (comment = \"{mark[0]}\" "
            f"under [data])"
        )
    if any("\n" in cell for cell in record):
        return "is a quote left open?"
    titles = source.header and all(as_number(cell) is None for cell in record)
    if titles and len(header) < len(record) and (first or len(header) == 1):
        return _header_at("line", line)
    if last and len(record) < len(header) and (word := record[0].partition(" ")[0]):
        return f"if this last line is a note: --comment {word!r} (comment = {word!r} under [data])"
    return f"check the separator ({source.separator!r}), the columns and stray separators or quotes"


def _header_at(kind: str, number: int) -> str:
    skip = number - 1
    return (
        f"if {kind} {number} is the header: --skip {skip} (skip = {skip} under [data])"
    )


def csv_records(
    path: Path, content: bytes, source: Source
) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line from 1, cells) of each record; skip empty lines and comments."""
    remedy = (
        '); name its encoding (encoding = "latin-1") or format = "parquet" under [data]'
    )
    with failing_as(
        FwcError,
        f"{path} is not a table of {source.encoding} text (",
        remedy,
        (LookupError,),
    ):
        text = content.decode(source.encoding)
        encoded = text.encode("utf-8")  # some encodings produce lone surrogates
    if "\0" in text:
        raise FwcError(
            f"{path} is not a table: it holds NUL characters; is it a binary file?"
        )
    sep_line = _SEP_LINE.match(text)
    del text
    file = TextIOWrapper(BytesIO(encoded), "utf-8", newline="")
    above = max(source.skip, int(sep_line is not None))
    for _ in range(above):
        file.readline()
    if sep_line:
        separator = sep_line[1]
    else:
        separator = source.separator
    reader = csv.reader(file, delimiter=separator, skipinitialspace=True)
    start = above + 1
    comment = source.comment
    try:
        for record in reader:
            blank = not record or (len(record) == 1 and not record[0].strip())
            if not blank and not (comment and record[0].startswith(comment)):
                yield start, record
            start = above + reader.line_num + 1
    except csv.Error as error:
        line = above + reader.line_num
        raise FwcError(
            f"{path}:{line}: this line is not a row of a table: {error}"
        ) from error


# --- JSON


def json_value(path: Path, content: bytes) -> Any:
    """Parse a JSON file; a JSON Lines file becomes a list of values."""
    with failing_as(FwcError, f"{path} is not JSON: "):
        text = content.decode("utf-8-sig")
    try:
        return parse_json(text)
    except ValueError as error:
        if text.lstrip()[:1] == "[":
            raise FwcError(f"{path} is not JSON: {error}") from error
    values = []
    for number, line in enumerate(text.splitlines(), 1):
        with failing_as(FwcError, f"{path}:{number}: this line is not a JSON object: "):
            values += [parse_json(line)] if line.strip() else []
    return values


def json_rows(path: Path, value: Any) -> list[Json]:
    """The rows in a JSON value, which is a list of objects or one object."""
    if isinstance(value, list):
        rows = value
    else:
        rows = [value]
    if isinstance(value, dict) and path.suffix == ".json":
        raise FwcError(
            f"{path} is one JSON object, with the keys {listed([*value], 10)}: give a list "
            f"of rows, "
            'made with pandas.json_normalize (docs/own-data.md, "Results of other tools")'
        )
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise FwcError(
                f"{path}:{number}: a row is an object with a value for every column, not "
                f"{row!r:.40}"
            )
    return rows


def table_of_rows(
    where: Path | str, rows: Sequence[Json], markers: Iterable[str]
) -> RawTable:
    """Convert objects to a table; nested keys become columns with a path."""
    titles = list(dict.fromkeys(key for row in rows for key in row))
    size = len(rows) * len(titles)
    if size > 10_000_000 and size > 50 * sum(map(len, rows)):
        raise FwcError(
            f"{where}: its rows have hardly a key in common: they are not rows of one table"
        )
    columns = [(title, [row.get(title) for row in rows]) for title in titles]
    return _table_of_columns(where, columns, range(1, len(rows) + 1), markers)


def _table_of_columns(
    where: Path | str,
    columns: Iterable[tuple[str, Any]],
    numbers: Sequence[Any],
    markers: Iterable[str],
) -> RawTable:
    spread = [part for title, cells in columns for part in _spread(title, cells)]
    titles = [utf8_safe(title.strip()) for title, _ in spread]
    return RawTable(
        where, titles, numbers, lambda position: spread[position][1], frozenset(markers)
    )


def _spread(title: str, cells: Any) -> Iterator[tuple[str, Any]]:
    """Yield (title, cells) of a column, or of each path in a column of nested objects."""
    if isinstance(cells, list) or cells.dtype == object:
        objects = cells
    else:
        objects = ()
    keys = dict.fromkeys(
        key for cell in objects if isinstance(cell, dict) for key in cell
    )
    if keys:
        others = [None if isinstance(cell, dict) else cell for cell in objects]
    else:
        others = cells
    if not keys or not all(map(is_null, others)):
        yield title, others
    for key in keys:
        yield from _spread(
            f"{title}.{key}",
            [cell.get(key) if isinstance(cell, dict) else None for cell in objects],
        )


# --- Parquet and Arrow


def _read_parquet(path: Path, content: bytes, source: Source) -> RawTable:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FwcError(
            f"{path}: reading Parquet needs pyarrow: pip install 'fwc-llm[parquet]'"
        ) from error
    # pyarrow raises many types of errors for an invalid table.
    failing = partial(
        failing_as, FwcError, f"{path} is not a Parquet table: ", also=(Exception,)
    )
    with failing():
        file = pq.ParquetFile(BytesIO(content))
    names = [
        name
        for name in _flat(file.schema_arrow.empty_table()).column_names
        if not re.fullmatch(r"__index_level_\d+__", name)  # an unnamed pandas index
    ]

    def cells_of(position: int) -> Any:
        name = names[position]
        with failing():
            column = _flat(file.read(columns=[name])).column(name)
            if str(column.type).startswith("dictionary"):
                column = column.cast(column.type.value_type)
        if _TYPED.fullmatch(str(column.type)):
            return column.to_pandas(types_mapper=pd.ArrowDtype)
        return [_python_value(cell) for cell in column]

    titles = [name.strip() for name in names]
    numbers = range(1, file.metadata.num_rows + 1)
    return RawTable(path, titles, numbers, cells_of, frozenset(source.markers))


def _flat(table: Any) -> Any:
    """An Arrow table with a column for each path in its nested columns."""
    while any(str(kind).startswith("struct<") for kind in table.schema.types):
        table = table.flatten()
    return table


def _python_value(cell: Any) -> Any:
    """The value of an Arrow scalar; for one that Python cannot hold, its number as text."""
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        return f"{cell.type} {getattr(cell, 'value', 'out of range')}"


# --- Excel


def _read_excel(path: Path, content: bytes, source: Source) -> RawTable:
    """Read a sheet row by row, so that a distant cell does not fill the memory."""
    if path.suffix.lower() == ".xls":
        raise FwcError(
            f"{path}: the old Excel format is not read: save the sheet as .xlsx or CSV (UTF-8)"
        )
    try:
        openpyxl: Any = importlib.import_module("openpyxl")
    except ImportError as error:
        raise FwcError(
            f"{path}: reading Excel needs openpyxl: pip install 'fwc-llm[excel]', or save the "
            f"sheet as CSV "
            "(UTF-8)"
        ) from error
    load = openpyxl.load_workbook
    column_letter = openpyxl.utils.get_column_letter
    errors = importlib.import_module("openpyxl.cell.cell").ERROR_CODES

    def value_of(cell: Any) -> Any:
        if isinstance(cell.value, bool) or not isinstance(cell.value, int | float):
            return None if cell.value in errors else cell.value
        return _with_unit(cell.value, cell.number_format)

    # openpyxl raises many types of errors for an invalid table.
    with failing_as(FwcError, f"{path} is not an Excel table: ", also=(Exception,)):
        sheets = load(BytesIO(content), read_only=True, data_only=True).worksheets
        sheet = _sheet(path, sheets, source.sheet)
        sheet.reset_dimensions()
        rows = {
            number: [*map(value_of, cells)]
            for number, cells in enumerate(sheet.iter_rows(), 1)
            if number > source.skip and any(cell.value is not None for cell in cells)
            if not (source.comment and str(cells[0].value).startswith(source.comment))
        }
        with ZipFile(BytesIO(content)) as archive:
            part = archive.read(sheet._worksheet_path)
    unstored = _UNSTORED.search(part)
    if unstored:
        raise FwcError(
            f"{path}: cell {unstored[1].decode()} is a formula without a stored value: open the "
            f"file in a spreadsheet program and save it, or export CSV"
        )
    header = rows.pop(min(rows, default=0), [])
    while header and header[-1] is None:
        header.pop()
    first = min(rows, default=0)
    for merged in _MERGED.finditer(part):
        column, start, end = map(bytes.decode, merged.groups())
        if int(end) > int(start) >= first > 0:
            raise FwcError(
                f"{path}: the cells {column}{start} to {column}{end} are merged, and all but the "
                f"first are empty: unmerge them, and write the value into each"
            )
    for number, cells in rows.items():
        outside = [k for k in range(len(header), len(cells)) if cells[k] is not None]
        if outside:
            remedy = ""
            has_numbers = any(isinstance(cell, int | float) for cell in cells)
            if not has_numbers and (len(header) == 1 or number == first):
                full = max(rows, key=lambda row: sum(c is not None for c in rows[row]))
                remedy = f": {_header_at('row', full)}"
            raise FwcError(
                f"{path}: cell {column_letter(outside[0] + 1)}{number} is outside of the "
                f"{len(header)} titled columns{remedy}"
            )
    columns = [*zip_longest(header, *rows.values())][: len(header)]
    titles = ["" if title is None else as_text(title).strip() for title in header]

    def cells_of(position: int) -> list[Any]:
        _, *column = columns[position]
        for number, cell in zip(rows, column, strict=True):
            if isinstance(cell, int | float) and abs(cell) > LARGEST_EXACT:
                raise FwcError(
                    f"{path}: cell {column_letter(position + 1)}{number} of column "
                    f"{titles[position]!r} holds the number {cell}, of which a spreadsheet keeps "
                    f"15 digits: two ids may have become one; format the column as text before it "
                    f"is filled, or read it from CSV"
                )
        return column

    others = ", ".join(repr(other.title) for other in sheets if other is not sheet)
    hint = (
        f"; this is the sheet {sheet.title!r}, others are {others}: --sheet NAME (sheet under "
        f"[data])"
    )
    markers = frozenset(source.markers)
    return RawTable(path, titles, [*rows], cells_of, markers, hint if others else "")


def _sheet(path: Path, sheets: Sequence[Any], wanted: str) -> Any:
    """The sheet with this name or number (from 1); the first for ""."""
    by_name = {str(number): sheet for number, sheet in enumerate(sheets, 1)}
    by_name |= {sheet.title: sheet for sheet in sheets}
    if wanted and wanted not in by_name:
        titles = [sheet.title for sheet in sheets]
        raise FwcError(
            f"{path}: there is no sheet {wanted!r}{did_you_mean(wanted, titles)}"
        )
    return by_name[wanted] if wanted else sheets[0]


def _with_unit(number: float, number_format: str) -> float:
    """A number with the unit of its format, if any."""
    unit = _unit_of(number_format)
    if not unit:
        return number
    shown = Amount(number)
    shown.unit = unit
    return shown


@cache
def _unit_of(number_format: str) -> str:
    """The unit in a format that shows a number as the cell holds it: no % of 0.05, no k€ of 12000.
    Excel's own currency is that of the machine, and not known.
    """
    is_builtin = importlib.import_module("openpyxl.styles.numbers").is_builtin
    section = number_format.partition(";")[0]
    beside = [*_BESIDE.finditer(section)]
    percents = any(found[4] == "%" for found in beside)
    thousands = re.search(r"[0#?],+(?![0#?,])", _BESIDE.sub("", section))
    unit = "".join(text for found in beside for text in found.groups("")).strip()
    shown = f"1 {unit}"
    factor, read = units_of([shown]).get(shown, ("", ""))
    is_unit = re.search(r"[^\W\d_]|[$€£¥%]", read) and not factor
    if percents or thousands or not is_unit or is_builtin(number_format):
        return ""
    return unit


# --- Data frames


def frame_table(frame: Any) -> RawTable:
    """Wrap a data frame of pandas, or of a library that narwhals takes (Polars)."""
    if isinstance(frame, pd.DataFrame):
        names: list[Any] = frame.columns.tolist()
        columns: list[Any] = [frame.iloc[:, k] for k in range(len(names))]
        numbers: Sequence[Any] = [as_text(label) for label in frame.index.tolist()]
    else:
        import narwhals as nw

        try:
            table: Any = nw.from_native(frame)
        except (TypeError, ValueError):
            kind = f"{type(frame).__module__}.{type(frame).__name__}"
            raise FwcError(
                f"a table is a data frame of pandas, Polars, Arrow or another library that "
                f"narwhals takes, not {kind}"
            ) from None
        if isinstance(table, nw.LazyFrame):
            table = table.collect()
        names = table.columns
        numbers = range(len(table))
        cells = (table.get_column(name) for name in names)
        columns = [
            list(c.to_numpy()) if c.dtype == nw.Float32 else c.to_list() for c in cells
        ]
    titled = zip(map(title_of, names), columns, strict=True)
    if len(set(numbers)) < len(numbers):  # row ids are unique
        numbers = range(len(numbers))
    return _table_of_columns(_FRAME, titled, numbers, DEFAULT_MARKERS)


def titles_of(frame: Any, names: Any) -> list[str]:
    """The titles of one or several columns of `frame`; a label may be a tuple."""
    labels: list[Any] = (
        frame.columns.tolist() if isinstance(frame, pd.DataFrame) else []
    )
    several = isinstance(names, list | tuple | set) and not any(
        names == label for label in labels
    )
    return [title_of(name) for name in (names if several else [names])]
