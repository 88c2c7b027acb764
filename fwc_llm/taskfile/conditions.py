"""The conditions of a task file, `[[keep]]`: which rows of the file are the table."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fwc_llm.errors import FwcError
from fwc_llm.taskfile.values import Condition

_LIMITS = ("above", "at_least", "below", "at_most")


class _Complains(Protocol):
    """What reads a table's keys and says where a mistake stands."""

    def fail(self, where: str, problem: str) -> FwcError: ...
    def table(self, value: Any, where: str, allowed: Sequence[str]) -> dict[str, Any]: ...
    def string(self, table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str: ...
    def values(self, table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]: ...


def read_conditions(parser: _Complains, entries: Any, columns: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions in `entries`, the value of `keep`; mistakes are complained of through `parser`."""
    if not isinstance(entries, list):
        raise parser.fail("keep", "expected tables [[keep]]")
    return tuple(_condition(parser, entry, columns) for entry in entries)


def _condition(parser: _Complains, entry: Any, columns: Sequence[str]) -> Condition:
    table = parser.table(entry, "keep", ("column", *_LIMITS, "values", "without"))
    column = parser.string(table, "column", "keep")
    where = f"keep {column!r}"
    if column not in columns:
        raise parser.fail(where, 'there is no such column; list it (role = "drop" hides it)')
    limits: dict[str, float | None] = dict.fromkeys(_LIMITS)
    for name in _LIMITS:
        if name in table:
            limit = table[name]
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not abs(limit) < float("inf"):
                raise parser.fail(where, f"{name} = {limit!r} must be a number")
            limits[name] = float(limit)
    values, without = parser.values(table, "values", where), parser.values(table, "without", where)
    for name, listed in (("values", values), ("without", without)):
        if name in table and not listed:
            raise parser.fail(where, f"{name} is an empty list: name a value, or leave {name} out")
    if len(table) < 2:
        raise parser.fail(where, f"say what is kept: {', '.join(_LIMITS)}, values or without")
    return Condition(column, values=values, without=without, **limits)
