"""The columns of several files as those of one table, each of one type."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.errors import InputError

_SHOWN = 30  # columns that an error lists


@dataclass(frozen=True)
class FileColumns:
    """The columns of one file: its schema, how many rows it has, and what its folders say (`keys`)."""

    place: str
    schema: Any
    rows: int
    keys: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """All columns but the index that pandas wrote beside its table."""
        known = self.schema.pandas_metadata or {}
        index = {name for name in known.get("index_columns", ()) if isinstance(name, str)}
        return [*(name for name in self.schema.names if name not in index), *sorted(self.keys)]


def common_schema(files: Sequence[FileColumns], given: Any, wanted: Collection[str] | None = None) -> Any:
    """The schema in which the rows of all files are read.

    As in pandas, files without rows have no say, a column that is all missing has the type of the others,
    numbers of several types become one that holds them, and neither how categories are stored nor the index
    of a frame matters.

    Args:
        files: the files.
        given: the schema of the dataset, which may name some columns alone.
        wanted: the columns that are read; None for all.

    Raises:
        InputError: a column that one file lacks, is of another type in, or names twice.
    """
    import pyarrow as pa

    counted = [file for file in files if file.rows]
    first = counted[0]
    if wanted is not None:
        for file in counted:
            _check_wanted(file, wanted)
        names, selected = [name for name in first.names if name.strip() in wanted], True
    else:
        selected = not set(files[0].names) <= set(given.names)
        names = [name for name in given.names if name in first.names] if selected else first.names
        names = [*dict.fromkeys(names)]
    columns = []
    for name in names:
        if any(file.schema.names.count(name) > 1 for file in counted):
            raise InputError(f"column {name!r} occurs twice: name every column once")
        if any(name in file.keys for file in counted):
            columns.append(given.field(name))
            continue
        for file in counted:
            if name not in file.names:
                raise _lacking(file, first, name)
        columns.append(pa.field(name, _common(name, counted)))
    for file in counted:
        for name in [] if selected else file.names:
            if name not in names:
                raise _lacking(first, file, name)
    return pa.schema(columns)


def casts(file: FileColumns, schema: Any) -> dict[str, Any]:
    """The columns of a file that are read as another type; text and categories need none."""
    import pyarrow as pa

    found = {}
    for column in schema:
        if column.name in file.keys or column.name not in file.schema.names:
            continue
        own = file.schema.field(column.name).type
        if own != column.type and (pa.types.is_null(own) or _family(own) in ("number", "bool")):
            found[column.name] = column.type
    return found


def _lacking(file: FileColumns, other: FileColumns, name: str) -> InputError:
    index = " (there it is the index)" if name in file.schema.names else ""
    return InputError(
        f"{file.place} lacks the column {name!r}{index}, which {other.place} has: files need the same columns"
    )


def _check_wanted(file: FileColumns, wanted: Collection[str]) -> None:
    titles = {name.strip() for name in file.names}
    for name in wanted:
        if name not in titles:
            has = ", ".join(map(repr, file.names[:_SHOWN])) + (", …" if len(file.names) > _SHOWN else "")
            raise InputError(f"{file.place}: there is no column {name!r}; the file has {has}")


def _common(name: str, files: Sequence[FileColumns]) -> Any:
    """The one type of a column."""
    import pyarrow as pa

    kinds = [(file.schema.field(name).type, file.place) for file in files]
    known = [(kind, place) for kind, place in kinds if not pa.types.is_null(kind)]
    if not known:
        return pa.null()
    first, where = known[0]
    families = {_family(kind) for kind, _ in known}
    if families == {"text", "categories of text"}:
        return pa.string()
    if families == {"number", "bool"}:  # in pandas True is 1 beside numbers
        known = [(pa.int8() if pa.types.is_boolean(kind) else kind, place) for kind, place in known]
    for kind, place in known:
        if _family(kind) != _family(first):
            raise InputError(
                f"the column {name!r} is {first} in {where} and {kind} in {place}: write both alike"
            )
    distinct = {kind for kind, _ in known}
    if len(distinct) == 1:
        return first
    if _family(first) == "text":
        return pa.string()
    if pa.types.is_dictionary(first):
        return pa.dictionary(pa.int32(), first.value_type, first.ordered)
    if _family(first) == "number":
        plain = {pa.float64() if pa.types.is_decimal(kind) else kind for kind in distinct}
        return pa.from_numpy_dtype(np.result_type(*(kind.to_pandas_dtype() for kind in plain)))
    return first


def _family(kind: Any) -> str:
    """What values a type has, however they are stored."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return f"{'ordered ' if kind.ordered else ''}categories of {_family(kind.value_type)}"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if is_text(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    if types.is_timestamp(kind):
        return f"times in zone {kind.tz}"
    return "dates" if types.is_date(kind) else str(kind)


def is_text(kind: Any) -> bool:
    """Whether this is a type of text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
