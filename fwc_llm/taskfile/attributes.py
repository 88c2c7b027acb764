"""The outcome of a task file, and the attributes that are protected or can be."""

from collections.abc import Mapping, Sequence
from typing import Any

from fwc_llm.taskfile.reader import Reader, near
from fwc_llm.taskfile.values import Field, Outcome, Protected


def read_outcome(reader: Reader, top: Mapping[str, Any], names: Sequence[str]) -> Outcome:
    """The outcome's column, and which of its values mean yes."""
    table = reader.table(top.get("outcome"), "outcome", ("column", "positive", "negative", "threshold"))
    source = reader.string(table, "column", "outcome")
    if source not in names:
        raise reader.fail("outcome", f"there is no column {source!r}{near(source, names)}")
    positive = reader.values(table, "positive", "outcome")
    negative = reader.values(table, "negative", "outcome")
    above = reader.above(table, "outcome")
    if above is not None and (positive or negative):
        raise reader.fail("outcome", "give either positive values or a threshold, not both")
    if set(positive) & set(negative):
        raise reader.fail("outcome", f"{min(set(positive) & set(negative))!r} is both positive and negative")
    return Outcome(source, positive, negative, above)


def read_offered(
    reader: Reader, top: Mapping[str, Any], fields: Sequence[Field], outcome: Outcome
) -> tuple[Protected, ...]:
    """All attributes of the file, the optional ones included."""
    entries = top.get("protected")
    if isinstance(entries, (str, dict)):
        entries = [entries]
    if not isinstance(entries, list) or not entries:
        raise reader.fail("protected", 'name the protected attribute: [[protected]] with column = "sex"')
    found = tuple(_attribute(reader, entry, fields) for entry in entries)
    for attribute in found:
        if attribute.source == outcome.source:
            raise reader.fail("protected", f"{attribute.source!r} is the outcome already")
    for what, names in (
        ("attribute", [item.name for item in found]),
        ("column", [item.source for item in found]),
    ):
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise reader.fail("protected", f"{what} {min(repeated)!r} is named more than once")
    return found


def _attribute(reader: Reader, entry: Any, fields: Sequence[Field]) -> Protected:
    entry = {"column": entry} if isinstance(entry, str) else entry
    keys = ("column", "name", "text", "map", "threshold", "levels", "keep", "optional")
    table = reader.table(entry, "protected", keys)
    source = reader.string(table, "column", "protected")
    by_name = {item.name: item for item in fields}
    if source not in by_name:
        raise reader.fail("protected", f"there is no column {source!r}{near(source, list(by_name))}")
    where = f"protected {source!r}"
    name = reader.string(table, "name", where, source)
    if name != source and name in by_name:
        raise reader.fail(where, f"its name {name!r} is a column of its own; choose another")
    mapping = reader.mapping(table["map"], f"{where}.map") if "map" in table else {}
    above = reader.above(table, where)
    if mapping and above is not None:
        raise reader.fail(where, "give either a map or a threshold, not both")
    if name != source and not mapping and above is None:
        raise reader.fail(where, f"name = {name!r} is for a derived attribute: add a map or a threshold")
    keep = reader.flag(table, "keep", where, False)
    if keep and name == source:
        raise reader.fail(where, "keep = true needs a name that differs from the column's")
    levels = (
        reader.values(table, "levels", where) or (f"at most {above:g}", f"above {above:g}")
        if above is not None
        else ()
    )
    if above is not None and (len(levels) != 2 or levels[0] == levels[1]):
        raise reader.fail(where, 'levels = ["at or below", "above"] names the two sides of the threshold')
    text = reader.string(
        table, "text", where, by_name[source].column.text if name == source else name.replace("_", " ")
    )
    two = (levels[0], levels[1]) if levels else ("low", "high")
    optional = reader.flag(table, "optional", where, False)
    return Protected(name, text, source, mapping, above, two, keep, optional)


def read_chosen(
    reader: Reader, top: Mapping[str, Any], offered: Sequence[Protected]
) -> tuple[Protected, ...]:
    """The attributes in use: those that `use_protected` names, or all that are not optional."""
    by_name = {attribute.name: attribute for attribute in offered}
    names = reader.values(top, "use_protected", "")
    if "use_protected" in top and not names:
        raise reader.fail("use_protected", "it names no attribute; leave it out for the task's own choice")
    for name in names:
        if name not in by_name:
            raise reader.fail(
                "use_protected", f"there is no protected attribute {name!r}{near(name, list(by_name))}"
            )
    found = tuple(by_name[name] for name in dict.fromkeys(names)) or tuple(
        attribute for attribute in offered if not attribute.optional
    )
    if not found:
        raise reader.fail("protected", "all attributes are optional: leave one without it")
    return found
