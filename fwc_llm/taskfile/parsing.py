"""From TOML to a checked `TaskFile`: every mistake is named with its file, key and remedy."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast, get_args

from fwc_llm.errors import FwcError
from fwc_llm.files import read_text
from fwc_llm.taskfile.addresses import is_name_below, is_safe_address
from fwc_llm.taskfile.conditions import read_conditions
from fwc_llm.taskfile.values import (
    ABOUT,
    DEFAULT_MARKERS,
    ENDINGS,
    Column,
    Field,
    Format,
    Kind,
    MissingRule,
    Outcome,
    Protected,
    Source,
    TaskFile,
    Written,
)
from fwc_llm.untrusted import shortened

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 22  # bytes
_MOST_PARTS = 50  # of a dotted key: the parser's work grows with their square
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w\"'-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS}}}")
_LONGEST_ANSWER = 4000  # characters of a text in [about]
_LONGEST_COMPLAINT = 2000  # characters
_WRITTEN = ("1,234.5", "1.234,5")
_MISSING = ("error", "drop", "category")


def read_taskfile(path: Path) -> TaskFile:
    """Read and check the task file at `path`; every mistake is an `FwcError` naming file, key and remedy."""
    try:
        text = read_text(path, _LARGEST)
    except (OSError, ValueError) as error:
        raise FwcError(f"cannot read the task file {path}: {_reason(error)}") from error
    return parse_taskfile(text, path)


def parse_taskfile(text: str, path: Path) -> TaskFile:
    """Check the text of a task file; `path` is where mistakes are said to be. Raises as `read_taskfile`."""
    try:
        if _LONG_KEY.search(text):
            raise ValueError(f"a key has more than {_MOST_PARTS} parts")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and numbers with too many digits
        raise FwcError(
            f"{path} is no TOML file: {error}; `fwc-llm task init DATA.csv` writes a task file to start from"
        ) from error
    return replace(_Parser(path).taskfile(data), text=text)


def choose_weight(task: TaskFile, column: str) -> TaskFile:
    """The task with another column as the weight of its rows, "" for none; `text` says so, too.

    Raises `FwcError` for a column that cannot be the weight.
    """
    line = f"weight = {json.dumps(column, ensure_ascii=False)}\n" if column else ""
    chosen = parse_taskfile(line + without_key(task.text, "weight"), task.path)
    return replace(chosen, name=task.name)


def choose_protected(task: TaskFile, names: Sequence[str]) -> TaskFile:
    """The task with other attributes of those that it offers as the protected ones; `text` says so, too.

    Raises `FwcError` for a name that is none of them.
    """
    text = without_key(task.text, "use_protected")
    choice = json.dumps(list(names), ensure_ascii=False)
    chosen = parse_taskfile(f"use_protected = {choice}\n{text}", task.path)
    return replace(chosen, name=task.name)


def without_key(text: str, key: str) -> str:
    """The text of a task file without the lines that set `key` for the whole file, however many they are."""
    try:
        wanted = tomllib.loads(text)
    except (ValueError, RecursionError):
        return text
    if wanted.pop(key, None) is None:
        return text
    for begin in re.finditer(rf"""^[ \t]*["']?{key}["']?[ \t]*=""", text, re.MULTILINE):
        before = text[: begin.start()]
        for line in re.finditer(r"\n|\Z", text[begin.end() :]):
            rest = before + text[begin.end() + line.end() :]
            if _holds(rest, wanted):
                return rest
            if _holds(text[begin.start() : begin.end() + line.end()]):
                break  # a whole value, and not that of the file: it is a table's, or stands in a text
    return text


def _holds(text: str, wanted: Mapping[str, Any] | None = None) -> bool:
    """Whether a text is TOML, and says what is `wanted`."""
    try:
        found = tomllib.loads(text)
    except ValueError:
        return False
    return wanted is None or found == wanted


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


class _Parser:
    """Turns the parsed TOML into a `TaskFile`, complaining with the file's name and the key's path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, where: str, problem: str) -> FwcError:
        said = shortened(f"{where}: {problem}" if where else problem, _LONGEST_COMPLAINT)
        return FwcError(f"{self.path}: {said}")

    def table(self, value: Any, where: str, allowed: Sequence[str]) -> dict[str, Any]:
        """`value` as a TOML table without keys that nobody would read."""
        if not isinstance(value, dict):
            raise self.fail(where, f"expected a table, found {value!r}")
        for key in value:
            if key not in allowed:
                near = get_close_matches(key, allowed, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(allowed)}"
                raise self.fail(where, f"unknown key {key!r}; {hint}")
        return value

    def string(self, table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            found = "it is missing" if value is None else f"found {value!r}"
            raise self.fail(where, f"{key!r} must be a text; {found}")
        return value

    def choice(
        self, table: Mapping[str, Any], key: str, where: str, options: Sequence[str], default: str
    ) -> str:
        value = table.get(key, default)
        if value not in options:
            raise self.fail(where, f"{key} = {value!r} is none of {', '.join(map(repr, options))}")
        return str(value)

    def flag(self, table: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(where, f"{key} = {value!r} must be true or false")
        return value

    def values(self, table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        """One value or a list of values, as the texts that the file has (1 and "1" are the same)."""
        value = table.get(key, [])
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, (str, int, float)) for item in items):
            raise self.fail(where, f"{key!r} must be a value or a list of values; found {value!r}")
        return tuple(_as_written(item) for item in items)

    def mapping(self, value: Any, where: str) -> dict[str, str]:
        if not isinstance(value, dict) or not all(isinstance(words, str) for words in value.values()):
            raise self.fail(where, f'expected a table of value = "words"; found {value!r}')
        return dict(value)

    def above(self, table: Mapping[str, Any], where: str) -> float | None:
        """The number in `threshold = { above = 0.06 }`, or None without a threshold."""
        if "threshold" not in table:
            return None
        threshold = self.table(table["threshold"], f"{where}.threshold", ("above",))
        number = threshold.get("above")
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) < float("inf"):
            raise self.fail(where, f"write the threshold as {{ above = NUMBER }}; found {threshold!r}")
        return float(number)

    def taskfile(self, data: Mapping[str, Any]) -> TaskFile:
        keys = ("name", "title", "question", "missing", "licence", "citation", "note", "use_protected")
        tables = ("weight", "columns", "values", "data", "keep", "protected", "outcome", "about")
        top = self.table(data, "", (*keys, *tables))
        fields = self.fields(top)
        names = [item.name for item in fields]
        outcome = self.outcome(top, names)
        offered = self.protected(top, fields, outcome)
        task = TaskFile(
            name=self.string(top, "name", "", self.path.stem),
            path=self.path,
            title=self.string(top, "title", "", self.path.stem),
            question=self.string(top, "question", ""),
            missing=cast(MissingRule, self.choice(top, "missing", "", _MISSING, "error")),
            source=self.source(top, names),
            fields=fields,
            protected=self.chosen(top, offered),
            outcome=outcome,
            licence=self.string(top, "licence", "", ""),
            citation=self.string(top, "citation", "", ""),
            note=self.string(top, "note", "", ""),
            about=self.about(top),
            keep=read_conditions(self, top.get("keep", []), names),
            offered=offered,
            weight=self.weight(top, fields),
        )
        self.check_uses(task)
        return task

    def weight(self, top: Mapping[str, Any], fields: Sequence[Field]) -> str:
        """The column that `weight` names: a number that is no feature. Empty where there is none."""
        name = self.string(top, "weight", "", "")
        if not name:
            return ""
        by_name = {item.name: item for item in fields}
        if name not in by_name:
            raise self.fail("weight", f"there is no column {name!r}{_near(name, list(by_name))}")
        item = by_name[name]
        if (item.use, item.column.role, item.column.kind) != ("column", "extra", "numeric"):
            raise self.fail(
                "weight",
                f'column {name!r} must have kind = "numeric" and role = "extra": a weight is a number that '
                "says nothing about the row itself",
            )
        return name

    def about(self, top: Mapping[str, Any]) -> dict[str, str]:
        """What [about] says of the purpose and the data; an empty text would look like an answer."""
        table = self.table(top.get("about", {}), "about", ABOUT)
        found = {key: self.string(table, key, "about").strip() for key in ABOUT if key in table}
        for key, text in found.items():
            if len(text) > _LONGEST_ANSWER:
                raise self.fail("about", f"{key!r} has {len(text):,} characters; at most {_LONGEST_ANSWER:,}")
        return found

    def fields(self, top: Mapping[str, Any]) -> tuple[Field, ...]:
        entries = top.get("columns")
        if not isinstance(entries, list) or not entries:
            raise self.fail(
                "columns", 'list the table\'s columns: columns = [{ name = "age", kind = "numeric" }, …]'
            )
        words = top.get("values", {})
        if not isinstance(words, dict):
            raise self.fail("values", f"expected tables [values.COLUMN]; found {words!r}")
        names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
        known = {name for name in names if isinstance(name, str)}
        for name in words:  # first of all: without its words an ordinal column would lack its order
            if name not in known:
                raise self.fail(f"values.{name}", f"there is no column {name!r}{_near(name, names)}")
        fields = tuple(self.one_field(entry, position, words) for position, entry in enumerate(entries, 1))
        for name, times in Counter(item.name for item in fields).items():
            if times > 1:
                raise self.fail("columns", f"column {name!r} is listed {times} times")
        return fields

    def one_field(self, entry: Any, position: int, words: Mapping[str, Any]) -> Field:
        where = f"columns[{position}]"
        keys = (
            "name",
            "text",
            "kind",
            "role",
            "unit",
            "order",
            "strip_suffix",
            "strip_zeros",
            "missing",
            "written",
            "bands",
        )
        table = self.table(entry, where, (*keys, "missing", "written", "bands"))
        name = self.string(table, "name", where)
        where = f"column {name!r}"
        kind = self.choice(table, "kind", where, ("numeric", "categorical", "ordinal"), "categorical")
        role = self.choice(table, "role", where, ("feature", "extra", "drop", "id"), "feature")
        values = self.mapping(words[name], f"values.{name}") if name in words else {}
        order = self.values(table, "order", where)
        if kind == "ordinal" and not order:
            order = tuple(values)  # the words are listed lowest first
        if kind == "ordinal" and len(order) < 2:
            raise self.fail(where, "an ordinal column needs order = [lowest, …, highest]")
        if kind != "ordinal" and order:
            raise self.fail(where, f'order belongs to kind = "ordinal", this column is {kind}')
        column = Column(
            name=name,
            text=self.string(table, "text", where, name.replace("_", " ").replace("-", " ")),
            kind=cast(Kind, kind),
            role="extra" if role == "extra" else "feature",
            values=values,
            order=order,
            unit=self.string(table, "unit", where, ""),
        )
        use = cast(Literal["column", "drop", "id"], role if role in ("drop", "id") else "column")
        missing = self.choice(table, "missing", where, _MISSING, "") if "missing" in table else None
        written = (
            self.choice(table, "written", where, ("1,234.5", "1.234,5"), "") if "written" in table else ""
        )
        return Field(
            column,
            use,
            self.string(table, "strip_suffix", where, ""),
            cast(MissingRule | None, missing),
            cast(Written, written),
            self.bands(table, where, kind),
            self.flag(table, "strip_zeros", where, False),
        )

    def bands(self, table: Mapping[str, Any], where: str, kind: str) -> tuple[float, ...]:
        """The limits of a column's bands, in rising order."""
        limits = table.get("bands", [])
        if not isinstance(limits, list) or not all(isinstance(one, int | float) for one in limits):
            raise self.fail(where, f"'bands' must be a list of numbers; found {limits!r}")
        if limits != sorted(set(limits)) or not all(abs(one) < float("inf") for one in limits):
            raise self.fail(where, f"bands = {limits!r} must rise")
        if limits and kind != "categorical":
            raise self.fail(where, 'bands make categories of numbers: kind = "categorical"')
        return tuple(map(float, limits))

    def protected(
        self, top: Mapping[str, Any], fields: Sequence[Field], outcome: Outcome
    ) -> tuple[Protected, ...]:
        entries = top.get("protected")
        if isinstance(entries, (str, dict)):
            entries = [entries]
        if not isinstance(entries, list) or not entries:
            raise self.fail("protected", 'name the protected attribute: [[protected]] with column = "sex"')
        found = tuple(self.one_protected(entry, fields) for entry in entries)
        for attribute in found:
            if attribute.source == outcome.source:
                raise self.fail("protected", f"{attribute.source!r} is the outcome already")
        for what, names in (
            ("attribute", [item.name for item in found]),
            ("column", [item.source for item in found]),
        ):
            repeated = {name for name in names if names.count(name) > 1}
            if repeated:
                raise self.fail("protected", f"{what} {min(repeated)!r} is named more than once")
        return found

    def one_protected(self, entry: Any, fields: Sequence[Field]) -> Protected:
        entry = {"column": entry} if isinstance(entry, str) else entry
        keys = ("column", "name", "text", "map", "threshold", "levels", "keep", "optional")
        table = self.table(entry, "protected", keys)
        source = self.string(table, "column", "protected")
        by_name = {item.name: item for item in fields}
        if source not in by_name:
            raise self.fail("protected", f"there is no column {source!r}{_near(source, list(by_name))}")
        where = f"protected {source!r}"
        name = self.string(table, "name", where, source)
        if name != source and name in by_name:
            raise self.fail(where, f"its name {name!r} is a column of its own; choose another")
        mapping = self.mapping(table["map"], f"{where}.map") if "map" in table else {}
        above = self.above(table, where)
        if mapping and above is not None:
            raise self.fail(where, "give either a map or a threshold, not both")
        if name != source and not mapping and above is None:
            raise self.fail(where, f"name = {name!r} is for a derived attribute: add a map or a threshold")
        keep = self.flag(table, "keep", where, False)
        if keep and name == source:
            raise self.fail(where, "keep = true needs a name that differs from the column's")
        levels = (
            self.values(table, "levels", where) or (f"at most {above:g}", f"above {above:g}")
            if above is not None
            else ()
        )
        if above is not None and (len(levels) != 2 or levels[0] == levels[1]):
            raise self.fail(where, 'levels = ["at or below", "above"] names the two sides of the threshold')
        text = self.string(
            table, "text", where, by_name[source].column.text if name == source else name.replace("_", " ")
        )
        two = (levels[0], levels[1]) if levels else ("low", "high")
        optional = self.flag(table, "optional", where, False)
        return Protected(name, text, source, mapping, above, two, keep, optional)

    def chosen(self, top: Mapping[str, Any], offered: Sequence[Protected]) -> tuple[Protected, ...]:
        """The attributes in use: those that `use_protected` names, or all that are not optional."""
        by_name = {attribute.name: attribute for attribute in offered}
        names = self.values(top, "use_protected", "")
        if "use_protected" in top and not names:
            raise self.fail("use_protected", "it names no attribute; leave it out for the task's own choice")
        for name in names:
            if name not in by_name:
                raise self.fail(
                    "use_protected", f"there is no protected attribute {name!r}{_near(name, list(by_name))}"
                )
        found = tuple(by_name[name] for name in dict.fromkeys(names)) or tuple(
            attribute for attribute in offered if not attribute.optional
        )
        if not found:
            raise self.fail("protected", "all attributes are optional: leave one without it")
        return found

    def outcome(self, top: Mapping[str, Any], names: Sequence[str]) -> Outcome:
        table = self.table(top.get("outcome"), "outcome", ("column", "positive", "negative", "threshold"))
        source = self.string(table, "column", "outcome")
        if source not in names:
            raise self.fail("outcome", f"there is no column {source!r}{_near(source, names)}")
        positive = self.values(table, "positive", "outcome")
        negative = self.values(table, "negative", "outcome")
        above = self.above(table, "outcome")
        if above is not None and (positive or negative):
            raise self.fail("outcome", "give either positive values or a threshold, not both")
        if set(positive) & set(negative):
            raise self.fail(
                "outcome", f"{min(set(positive) & set(negative))!r} is both positive and negative"
            )
        return Outcome(source, positive, negative, above)

    def source(self, top: Mapping[str, Any], names: Sequence[str]) -> Source:
        keys = ("file", "pool", "test", "format", "separator", "header", "missing_marker", "comment")
        table = self.table(top.get("data"), "data", (*keys, "encoding", "url", "sha256"))
        if "file" in table:
            if "pool" in table or "test" in table:
                raise self.fail("data", "give either file, or pool and test")
            files: tuple[str, ...] = (self.string(table, "file", "data"),)
        else:
            files = (self.string(table, "pool", "data"), self.string(table, "test", "data"))
            if files[0] == files[1]:
                raise self.fail("data", "pool and test are the same file; write file = … to split one table")
        guess = ENDINGS.get(Path(files[0]).suffix.lower(), "csv")
        separator = self.string(table, "separator", "data", ",")
        if len(separator) != 1 or separator in '"\r\n':
            raise self.fail("data", f"separator = {separator!r} must be one character")
        sha256 = self.mapping(table["sha256"], "data.sha256") if "sha256" in table else {}
        for name in sha256:
            if name not in files:
                raise self.fail("data.sha256", f"{name!r} is none of the files {', '.join(files)}")
        url = self.string(table, "url", "data", "")
        if url:
            self.check_download(url, files, sha256)
        return Source(
            files=files,
            format=cast(Format, self.choice(table, "format", "data", get_args(Format), guess)),
            separator=separator,
            header=self.flag(table, "header", "data", True),
            markers=self.values(table, "missing_marker", "data") or DEFAULT_MARKERS,
            comment=self.string(table, "comment", "data", ""),
            encoding=self.encoding(table),
            url=url,
            sha256=sha256,
        )

    def encoding(self, table: Mapping[str, Any]) -> str:
        name = self.string(table, "encoding", "data", "utf-8-sig")
        try:
            # Of a text with an umlaut: "undefined" and the like know of no text.
            "a,ä".encode(name, "ignore").decode(name)
        except (LookupError, ValueError):
            raise self.fail("data", f'encoding = {name!r} is none; try "utf-8" or "latin-1"') from None
        return name

    def check_download(self, url: str, files: Sequence[str], sha256: Mapping[str, str]) -> None:
        """What is downloaded goes into the cache folder and nowhere else, on a way that nobody changes."""
        for name in files:
            if not _SHA256.fullmatch(sha256.get(name, "")):
                raise self.fail("data", f"a url needs the sha256 of every file; {name!r} has none")
            if not is_name_below(name):
                raise self.fail(
                    "data",
                    f"with a url, {name!r} must name a file below the cache folder: no .. and no ~",
                )
        if not is_safe_address(url):
            raise self.fail("data", f"url = {url!r} is no https address (http only from this machine itself)")

    def check_uses(self, task: TaskFile) -> None:
        """Every column has one use, and something is left to tell the rows apart."""
        for item in task.fields:
            if item.name == task.outcome.source and (item.use != "column" or item.column.role == "extra"):
                raise self.fail(f"column {item.name!r}", "the outcome cannot be an extra, an id or dropped")
        if task.weight and task.weight not in {column.name for column in task.columns}:
            raise self.fail("weight", f"{task.weight!r} is a protected attribute already")
        taken = {task.outcome.source, *(attribute.name for attribute in task.protected)}
        if not any(column.role == "feature" for column in task.columns if column.name not in taken):
            raise self.fail("columns", "no feature is left besides the protected attribute and the outcome")


def _as_written(value: str | int | float) -> str:
    """A TOML value as a CSV file would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _near(name: str, names: Sequence[Any]) -> str:
    names = [known for known in names if isinstance(known, str)]
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names[:20])}"
