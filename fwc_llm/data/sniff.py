"""A first task file for a user's own table: what can be guessed from the values, and what must be checked."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from fwc_llm.data.reading import NEEDS_PYARROW, Texts, csv_records, read_table
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import DEFAULT_MARKERS, Source

_SEPARATORS = (",", ";", "\t", "|", " ")
_MORE_MARKERS = ("NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "-", ".")
_YES_WORDS = frozenset(
    {"yes", "y", "true", "t", "1", "good", "positive", "pos", "approved", "accepted", "granted"}
)
_FEW = 10  # a numeric column with at most so many distinct whole values may be a code


@dataclass(frozen=True)
class Draft:
    """The text of a task file, and what its author should check."""

    text: str
    checks: tuple[str, ...]


def draft_task(path: Path, protected: Sequence[str], outcome: str, beside: Path) -> Draft:
    """Draft a task file, to be written into the folder `beside`, for the table at `path`.

    Raises `FwcError` when `path` is no table with a header line, or lacks a column that is named, and when
    one column is named twice.
    """
    named = (*protected, outcome)
    if not all(name.strip() for name in named):
        raise FwcError("a column name is empty: name the protected attribute and the outcome")
    if twice := [name for name in named if named.count(name) > 1]:
        raise FwcError(
            f"column {twice[0]!r} is named twice: protected attributes and outcome are columns of their own"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FwcError(f"cannot read {path}: {error.strerror or error}") from error
    source, titles = _sniff_source(path, content)
    for name in named:
        if name not in titles:
            raise FwcError(
                f"{path}: its first line has no column {name!r}; it has {', '.join(map(repr, titles[:30]))} "
                "(a table without a header line needs a task file written by hand: header = false)"
            )
    # A column without a title (such as a saved index) is left out.
    raw = read_table(path, content, source, [title for title in titles if title])
    checks: list[str] = []
    markers, columns = _markers(raw.columns)
    missing = {name: cells.count(None) for name, cells in columns.items() if None in cells}
    lines = [*_head(path, outcome, missing, len(raw.ids), checks), "columns = ["]
    for name, cells in columns.items():
        lines.append(_column(name, cells, name in named, checks))
    lines += ["]", "", *_data(path, source, markers, beside), ""]
    lines += _outcome(outcome, columns[outcome], checks)
    for name in protected:
        lines += ["", *_protected(name, columns[name], checks)]
    return Draft("\n".join(lines) + "\n", tuple(checks))


def _sniff_source(path: Path, content: bytes) -> tuple[Source, list[str]]:
    """How the file is written, and its column names."""
    files = (path.name,)
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise FwcError(NEEDS_PYARROW.format(path)) from error
        try:
            return Source(files, format="parquet"), list(parquet.read_schema(path).names)
        except (OSError, ValueError) as error:
            raise FwcError(f"{path} is no Parquet table: {error}") from error
    encoding = "utf-8-sig"
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "latin-1"
    best: tuple[Source, list[str]] | None = None
    for separator in _SEPARATORS:
        source = Source(files, separator=separator, encoding=encoding)
        records = [record for _, record in zip(range(200), _quietly(path, content, source), strict=False)]
        widths = {len(record) for record in records}
        # The separator that cuts every line into the same, largest number of columns.
        if len(widths) == 1 and (best is None or len(records[0]) > len(best[1])):
            best = source, [title.strip() for title in records[0]]
    if best is None or len(best[1]) < 2:
        raise FwcError(f"{path} is no table: no separator cuts its lines into the same number of columns")
    return best


def _quietly(path: Path, content: bytes, source: Source) -> Iterator[list[str]]:
    for _, record in csv_records(path, content, source):
        yield record


def _markers(columns: dict[str, Texts]) -> tuple[list[str], dict[str, Texts]]:
    """Further missing markers, found as the only texts among numbers, and the columns cleared of them."""
    found: list[str] = []
    for cells in columns.values():
        texts = {cell for cell in set(cells) if cell is not None and not _is_number(cell)}
        if texts and texts <= set(_MORE_MARKERS) and any(cell not in texts for cell in cells if cell):
            found += sorted(texts - set(found))
    marked = frozenset(found)
    return found, {
        name: [None if cell in marked else cell for cell in cells] for name, cells in columns.items()
    }


def _is_number(cell: str | None) -> bool:
    try:
        return cell is not None and "_" not in cell and math.isfinite(float(cell))
    except ValueError:
        return False


def _head(path: Path, outcome: str, missing: dict[str, int], n: int, checks: list[str]) -> list[str]:
    checks.append("question: write it as a person would ask it, to be answered with yes or no")
    lines = [
        f"# A task for fwc-llm, drafted from {_one_line(path.name)} ({n:,} rows). Guesses are marked CHECK.",
        "",
        f"title = {_quote(path.stem)}",
        f"question = {_quote(f'Is the outcome {outcome} of this row positive?')} # CHECK",
    ]
    if missing:
        said = ", ".join(f"{_one_line(name)} {count:,}" for name, count in missing.items())
        lines.append(f'missing = "drop" # CHECK: or "category", or "error"; missing values: {said}')
        checks.append(f"missing: rows with a missing value are dropped ({said})")
    else:
        lines.append('missing = "error" # no value is missing; otherwise "drop" or "category"')
    lines += [
        "",
        "# role: feature, extra (shown where a template asks, unused by the solver), id (unique), or drop.",
    ]
    return lines


def _column(name: str, cells: Texts, special: bool, checks: list[str]) -> str:
    known = [cell for cell in cells if cell is not None]
    distinct = set(known)
    numeric = bool(distinct) and all(map(_is_number, distinct))
    entry, comment = (
        [f"name = {_quote(name)}", f"text = {_quote(name.replace('_', ' ').replace('-', ' '))}"],
        "",
    )
    whole = numeric and all(float(cell).is_integer() for cell in distinct)
    unique = len(distinct) == len(cells) > _FEW and (not numeric or whole)
    consecutive = unique and whole and max(map(float, distinct)) - min(map(float, distinct)) < 2 * len(cells)
    if not special and unique and (not numeric or consecutive or name.lower().endswith("id")):
        entry.append('role = "id"')
        comment = "CHECK: every value differs, so it was taken for an id"
        checks.append(f"column {name}: every value differs; it was taken for an id and is not shown")
    elif not special and not distinct:
        entry.append('role = "drop"')
        comment = "it has no values"
    elif numeric:
        entry.append('kind = "numeric"')
        if whole and not special and 2 < len(distinct) <= _FEW:
            comment = f'CHECK: only {len(distinct)} values; a code? then kind = "categorical"'
            checks.append(f"column {name}: numeric with only {len(distinct)} values; is it a code?")
    else:
        entry.append('kind = "categorical"')
        if not special and len(distinct) > max(50, len(cells) // 4):
            comment = f'CHECK: {len(distinct):,} different texts; role = "drop"?'
            checks.append(f"column {name}: {len(distinct):,} different texts; is it useful as a feature?")
    return f"  {{ {', '.join(entry)} }},{f' # {comment}' if comment else ''}"


def _data(path: Path, source: Source, markers: Sequence[str], beside: Path) -> list[str]:
    lines = ["[data]", f"file = {_quote(os.path.relpath(path, beside).replace(os.sep, '/'))}"]
    if source.format == "csv":
        lines.append(f"separator = {_quote(source.separator)}")
        lines.append("header = true")
        if source.encoding != "utf-8-sig":
            lines.append(f'encoding = "{source.encoding}" # CHECK: it is no UTF-8')
    if markers:
        lines.append(f"missing_marker = [{', '.join(map(_quote, (*DEFAULT_MARKERS, *markers)))}]")
    return lines


def _outcome(name: str, cells: Texts, checks: list[str]) -> list[str]:
    counts = Counter(cell for cell in cells if cell is not None)
    lines = ["[outcome]", f"column = {_quote(name)}"]
    said = ", ".join(f"{_one_line(value)} ({count:,})" for value, count in counts.most_common(12))
    if len(counts) > 2 and all(map(_is_number, counts)):
        middle = median(float(str(cell)) for cell in counts.elements())
        lines.append(
            f"# threshold = {{ above = {middle:g} }} # CHECK: the median; above which number is it yes?"
        )
        checks.append(f"outcome {name}: a number; say above which threshold the answer is yes")
        return lines
    likely = [value for value in counts if value.casefold() in _YES_WORDS or value.startswith(">")]
    if len(counts) == 2 and len(likely) == 1:
        (negative,) = set(counts) - set(likely)
        lines.append(f"positive = [{_quote(likely[0])}] # CHECK: the values are {said}")
        lines.append(f"negative = [{_quote(negative)}]")
        checks.append(f"outcome {name}: {likely[0]!r} was taken for yes, {negative!r} for no")
        return lines
    example = likely[0] if likely else next(iter(counts), "…")
    lines.append(f"# positive = [{_quote(example)}] # CHECK: which of these mean yes? {said}")
    checks.append(f"outcome {name}: say which values mean yes: {said}")
    return lines


def _protected(name: str, cells: Texts, checks: list[str]) -> list[str]:
    counts = Counter(cell for cell in cells if cell is not None)
    lines = ["[[protected]]", f"column = {_quote(name)}"]
    if len(counts) > _FEW and all(map(_is_number, counts)):
        middle = median(float(str(cell)) for cell in counts.elements())
        lines.append(
            f"# threshold = {{ above = {middle:g} }} # CHECK: the median; or group the values with a map"
        )
        checks.append(f"protected {name}: a number with {len(counts):,} values; split it with a threshold")
        return lines
    rare = [value for value, count in counts.items() if count < 10]
    if rare or len(counts) > _FEW:
        listed = ", ".join(f"{_quote(value)} = {_quote(value)}" for value in list(counts)[:20])
        lines.append(f"# map = {{ {listed} }} # CHECK: group rare levels by giving them one name")
        checks.append(f"protected {name}: {len(counts)} levels, some with few rows; a map can group them")
    return lines


def _one_line(text: str) -> str:
    """A cell or name in a comment: without line ends and control characters, not too long."""
    return "".join(char if char.isprintable() else " " for char in text)[:40]


def _quote(text: str) -> str:
    """`text` as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
