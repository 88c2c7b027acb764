"""What a task file says, as frozen values; nothing here has looked at the data."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

Kind = Literal["numeric", "categorical", "ordinal"]
MissingRule = Literal["error", "drop", "category"]
Format = Literal["csv", "parquet", "jsonl", "excel"]
Written = Literal["", "1,234.5", "1.234,5"]
ENDINGS: Mapping[str, Format] = {
    ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".xlsx": "excel", ".xlsm": "excel", ".xls": "excel",
}  # fmt: skip

DEFAULT_MARKERS = ("", "?", "NaN", "nan")
# The keys of [about]: what whoever signs an audit must know of its purpose and data.
ABOUT = ("intended_use", "population", "source", "collected", "left_out", "limits")
UNKNOWN = "unknown"  # the category that a missing value becomes under missing = "category"


@dataclass(frozen=True)
class Column:
    """One column as prompts and the solver see it.

    `text` is its name in words; `values` maps raw values to words; `order` lists an ordinal column's raw
    values, lowest first; role "extra" is shown by templates that ask for it, never used by the solver.
    """

    name: str
    text: str
    kind: Kind = "categorical"
    role: Literal["feature", "extra"] = "feature"
    values: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True)
class Field:
    """One column as the file has it: its meaning, whether it is used, and how its values are written.

    `missing` overrides the task's rule for this column. `written` says how its numbers look, "1,234.5" or
    "1.234,5"; currency signs and per cent are then left out. `bands` cut its numbers into categories.
    `strip_zeros` makes one code of 07 and 7.
    """

    column: Column
    use: Literal["column", "drop", "id"] = "column"
    strip_suffix: str = ""
    missing: MissingRule | None = None
    written: Written = ""
    bands: tuple[float, ...] = ()
    strip_zeros: bool = False

    @property
    def name(self) -> str:
        """The name that the file, or the task file's list of columns, gives it."""
        return self.column.name


@dataclass(frozen=True)
class Protected:
    """A protected attribute: column `source` as it stands, or through `mapping`, or split at `above`.

    A derived attribute takes its source's place in the table unless `keep`: left in, the source would
    count twice in every distance and contradict a flipped attribute.
    """

    name: str
    text: str
    source: str
    mapping: Mapping[str, str] = field(default_factory=dict)
    above: float | None = None
    levels: tuple[str, str] = ("low", "high")
    keep: bool = False
    optional: bool = False  # offered, and protected only where it is chosen


@dataclass(frozen=True)
class Condition:
    """A condition that a row must meet to be in the table, on a column that may have any role.

    Limits are for numbers; a row without the value does not meet them, nor a list of `values`.
    """

    column: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    values: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are given, by their keys."""
        named = {"above": self.above, "at_least": self.at_least, "below": self.below, "at_most": self.at_most}
        return {name: limit for name, limit in named.items() if limit is not None}

    def __str__(self) -> str:
        said = [f"{name.replace('_', ' ')} {limit:g}" for name, limit in self.limits.items()]
        said += [f"one of {', '.join(self.values)}"] if self.values else []
        said += [f"not {' or '.join(self.without)}"] if self.without else []
        return f"{self.column} {' and '.join(said)}"


@dataclass(frozen=True)
class Outcome:
    """The outcome: "yes" where the value is one of `positive`, or (strictly) above `above`."""

    source: str
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    above: float | None = None


@dataclass(frozen=True)
class Source:
    """Where the table is and how it is written. Paths are relative to the data folder or the task file."""

    files: tuple[str, ...]  # (table,) or (pool, test)
    format: Format = "csv"
    separator: str = ","
    header: bool = True
    markers: tuple[str, ...] = DEFAULT_MARKERS
    comment: str = ""
    encoding: str = "utf-8-sig"
    url: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskFile:
    """A whole task file, checked in itself; nothing here has looked at the data yet. `text` is the file's."""

    name: str
    path: Path
    title: str
    question: str
    missing: MissingRule
    source: Source
    fields: tuple[Field, ...]
    protected: tuple[Protected, ...]
    outcome: Outcome
    licence: str = ""
    citation: str = ""
    note: str = ""
    text: str = ""
    about: Mapping[str, str] = field(default_factory=dict)  # what a reader of an audit asks, by ABOUT's keys
    weight: str = ""  # the column that says for how many a row stands
    keep: tuple[Condition, ...] = ()  # every row of the table meets all of them
    offered: tuple[Protected, ...] = ()  # the attributes that can be chosen, those of `protected` among them

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns in file order, each derived protected attribute in its source's place."""
        derived = {attribute.source: attribute for attribute in self.protected}
        columns: list[Column] = []
        for item in self.fields:
            attribute = derived.get(item.name)
            if item.use != "column" and attribute is None:
                continue
            if attribute is None:
                columns.append(item.column)
                continue
            if attribute.name == item.name:
                plain = not attribute.mapping and attribute.above is None
                values = item.column.values if plain else {}
                columns.append(Column(item.name, attribute.text, values=values))
                continue
            if attribute.keep:
                columns.append(item.column)
            columns.append(Column(attribute.name, attribute.text))
        return tuple(
            replace(column, kind="categorical", role="feature", order=())
            if column.name == self.outcome.source
            else column
            for column in columns
        )
