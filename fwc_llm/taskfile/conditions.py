"""The conditions of a task file, `[[keep]]`: which rows of the file are the table."""

from collections.abc import Sequence
from typing import Any

from fwc_llm.taskfile.reader import Reader
from fwc_llm.taskfile.values import Condition

_LIMITS = ("above", "at_least", "below", "at_most")


def read_conditions(reader: Reader, entries: Any, columns: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions in `entries`, the value of `keep`; mistakes are complained of through `reader`."""
    if not isinstance(entries, list):
        raise reader.fail("keep", "expected tables [[keep]]")
    return tuple(_condition(reader, entry, columns) for entry in entries)


def _condition(reader: Reader, entry: Any, columns: Sequence[str]) -> Condition:
    table = reader.table(entry, "keep", ("column", *_LIMITS, "values", "without"))
    column = reader.string(table, "column", "keep")
    where = f"keep {column!r}"
    if column not in columns:
        raise reader.fail(where, 'there is no such column; list it (role = "drop" hides it)')
    limits: dict[str, float | None] = dict.fromkeys(_LIMITS)
    for name in _LIMITS:
        if name in table:
            limit = table[name]
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not abs(limit) < float("inf"):
                raise reader.fail(where, f"{name} = {limit!r} must be a number")
            limits[name] = float(limit)
    values, without = reader.values(table, "values", where), reader.values(table, "without", where)
    for name, listed in (("values", values), ("without", without)):
        if name in table and not listed:
            raise reader.fail(where, f"{name} is an empty list: name a value, or leave {name} out")
    if len(table) < 2:
        raise reader.fail(where, f"say what is kept: {', '.join(_LIMITS)}, values or without")
    return Condition(column, values=values, without=without, **limits)
