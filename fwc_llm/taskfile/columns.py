"""The columns of a task file: names, kinds, roles, words, and how their values are written."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, cast

from fwc_llm.taskfile.reader import Reader, near
from fwc_llm.taskfile.values import Column, Field, Kind, MissingRule, Written

MISSING = ("error", "drop", "category")
_WRITTEN = ("1,234.5", "1.234,5")
_KEYS = (
    *("name", "text", "kind", "role", "unit", "order", "strip_suffix", "strip_zeros"),
    *("missing", "written", "bands"),
)


def read_fields(reader: Reader, top: Mapping[str, Any]) -> tuple[Field, ...]:
    """All columns in file order, with their words."""
    entries = top.get("columns")
    if not isinstance(entries, list) or not entries:
        raise reader.fail(
            "columns", 'list the table\'s columns: columns = [{ name = "age", kind = "numeric" }, …]'
        )
    words = top.get("values", {})
    if not isinstance(words, dict):
        raise reader.fail("values", f"expected tables [values.COLUMN]; found {words!r}")
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    known = {name for name in names if isinstance(name, str)}
    for name in words:  # first of all: without its words an ordinal column would lack its order
        if name not in known:
            raise reader.fail(f"values.{name}", f"there is no column {name!r}{near(name, names)}")
    fields = tuple(_field(reader, entry, position, words) for position, entry in enumerate(entries, 1))
    for name, times in Counter(item.name for item in fields).items():
        if times > 1:
            raise reader.fail("columns", f"column {name!r} is listed {times} times")
    return fields


def _field(reader: Reader, entry: Any, position: int, words: Mapping[str, Any]) -> Field:
    where = f"columns[{position}]"
    table = reader.table(entry, where, _KEYS)
    name = reader.string(table, "name", where)
    where = f"column {name!r}"
    kind = reader.choice(table, "kind", where, ("numeric", "categorical", "ordinal"), "categorical")
    role = reader.choice(table, "role", where, ("feature", "extra", "drop", "id"), "feature")
    values = reader.mapping(words[name], f"values.{name}") if name in words else {}
    order = reader.values(table, "order", where)
    if kind == "ordinal" and not order:
        order = tuple(values)  # the words are listed lowest first
    if kind == "ordinal" and len(order) < 2:
        raise reader.fail(where, "an ordinal column needs order = [lowest, …, highest]")
    if kind != "ordinal" and order:
        raise reader.fail(where, f'order belongs to kind = "ordinal", this column is {kind}')
    column = Column(
        name=name,
        text=reader.string(table, "text", where, name.replace("_", " ").replace("-", " ")),
        kind=cast(Kind, kind),
        role="extra" if role == "extra" else "feature",
        values=values,
        order=order,
        unit=reader.string(table, "unit", where, ""),
    )
    use = cast(Literal["column", "drop", "id"], role if role in ("drop", "id") else "column")
    missing = reader.choice(table, "missing", where, MISSING, "") if "missing" in table else None
    written = reader.choice(table, "written", where, _WRITTEN, "") if "written" in table else ""
    return Field(
        column,
        use,
        reader.string(table, "strip_suffix", where, ""),
        cast(MissingRule | None, missing),
        cast(Written, written),
        _bands(reader, table, where, kind),
        reader.flag(table, "strip_zeros", where, False),
    )


def _bands(reader: Reader, table: Mapping[str, Any], where: str, kind: str) -> tuple[float, ...]:
    """The limits of a column's bands, in rising order."""
    limits = table.get("bands", [])
    if not isinstance(limits, list) or not all(isinstance(one, int | float) for one in limits):
        raise reader.fail(where, f"'bands' must be a list of numbers; found {limits!r}")
    if limits != sorted(set(limits)) or not all(abs(one) < float("inf") for one in limits):
        raise reader.fail(where, f"bands = {limits!r} must rise")
    if limits and kind != "categorical":
        raise reader.fail(where, 'bands make categories of numbers: kind = "categorical"')
    return tuple(map(float, limits))
