"""Task files (TOML) as validated models: the columns' meaning, the table's format.

Each model holds the keys of one part of the file (evals/tasks/README.md).
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BeforeValidator,
    Field,
    Strict,
    model_validator,
)

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import failing_as, read_text
from fwc_llm.sanitize import Json, Texts, parse_toml
from fwc_llm.validation import Checked, check
from fwc_llm.words import REFER, YES_NO, group_key
from fwc_llm.words import (
    UNKNOWN as UNKNOWN,
)  # replaces a missing value where missing = "category"

Kind = Literal["numeric", "categorical", "ordinal"]
MissingRule = Literal["error", "drop", "category"]
Format = Literal["csv", "parquet", "jsonl", "excel"]
Written = Literal["", "1,234.5", "1.234,5"]
ENDINGS: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".xls": "excel",
}
LAYOUT = "sheet", "skip", "comment"  # keys of [data] that are also options of commands
PACKED = (".gz", ".bz2", ".zip")
FRAME = Path("the data frame")  # in the place of a task file's path
TEXT_OF_FRAME = (
    "task.text (write it to t.toml and the frame to the Parquet file 'table' beside it)"
)
UNASKED = "“…”"  # in a question, in the place of the values that mean yes
DEFAULT_MARKERS = ("", "?", "NaN", "nan")
_LARGEST = 1 << 22  # bytes of a task file
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return text


def _answer_word(text: str) -> str:
    if not re.fullmatch(r"(?=.*\w)\S(?:[^\n\r]{0,38}\S)?", text):
        raise ValueError(
            "an answer is one line of at most 40 characters, without white space around it"
        )
    return text


def _values(value: Any) -> Any:
    """One value or a list of values, as the texts in a CSV file: 1 and "1" are equal."""
    if isinstance(value, list | tuple):
        items = value
    else:
        items = [value]
    if not all(isinstance(item, str | int | float) for item in items):
        raise ValueError(f"give a value or a list of values; found {value!r:.100}")
    return [
        str(item).lower() if isinstance(item, bool) else str(item) for item in items
    ]


def _none(value: Any) -> Any:
    """None for the word "none", as TOML has no null."""
    return None if value == "none" else value


def _rising(limits: tuple[float, ...]) -> tuple[float, ...]:
    if list(limits) != sorted(set(limits)):
        raise ValueError("the limits must rise")
    return limits


def _above(value: Any) -> Any:
    """The number 0.06 of `threshold = { above = 0.06 }`."""
    if isinstance(value, dict) and set(value) == {"above"}:
        return value["above"]
    raise ValueError(
        f"write the threshold as {{ above = NUMBER }}; found {value!r:.100}"
    )


Text = Annotated[str, AfterValidator(_filled)]
Stated = Annotated[Text, Field(max_length=4000)] | None
Number = Annotated[float, Strict(), AllowInfNan(False)]
Share = Annotated[Number, Field(ge=0, le=1)]
ColumnWeight = Annotated[Number, Field(ge=0, le=1e6)]
Flag = Annotated[bool, Strict()]
Values = Annotated[Texts, BeforeValidator(_values)]
AnswerWord = Annotated[str, AfterValidator(_answer_word)]
Threshold = Annotated[Number, BeforeValidator(_above)]


@dataclass(frozen=True)
class Column:
    """One column of a task's table, for prompts and the solver.

    The solver ignores columns of the role "extra"; templates show them by name only.
    """

    name: str
    text: str  # the name in words
    kind: Kind = "categorical"
    role: Literal["feature", "extra"] = "feature"
    values: Mapping[str, str] = field(default_factory=dict)  # raw values to words
    order: Texts = ()  # raw values of an ordinal column, lowest first
    unit: str = ""


class FileColumn(Checked):
    """One entry of `columns` in a task file: meaning, use and notation of a column."""

    name: Text
    text: str = ""
    kind: Kind = "categorical"
    role: Literal["feature", "extra", "drop", "id"] = "feature"
    unit: str = ""
    order: Values = ()
    strip_suffix: str = ""
    marks: Values = ()  # texts that are left out around numbers: "80+" is 80 for "+"
    factors: Mapping[str, Number] = {}  # "1.9k" is 1900 for { k = 1000 }
    strip_zeros: Flag = False
    missing: MissingRule | None = None  # overrides the task's rule
    markers: Values = Field(default=(), alias="missing_marker")
    written: Written = ""
    bands: Annotated[tuple[Number, ...], AfterValidator(_rising)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind != "ordinal" and self.order:
            raise ValueError(
                f'order belongs to kind = "ordinal", this column is {self.kind}'
            )
        if self.bands and self.kind != "categorical":
            raise ValueError('bands make categories of numbers: kind = "categorical"')
        return self

    @property
    def use(self) -> Literal["column", "drop", "id"]:
        """The column's use: "column" if the cleaned table has it, else "drop" or "id"."""
        return self.role if self.role in ("drop", "id") else "column"  # type: ignore[return-value]


class Protected(Checked):
    """A protected attribute: column `source`, unchanged, mapped, or split."""

    source: Text = Field(alias="column")
    name: Text
    text: str = ""
    mapping: Mapping[str, str] = Field(default={}, alias="map")
    above: Threshold | None = Field(default=None, alias="threshold")
    levels: Values = ()
    optional: Flag = False  # protected only if a user chooses it

    @model_validator(mode="before")
    @classmethod
    def _named(cls, entry: Any) -> Any:
        if isinstance(entry, str):
            entry = {"column": entry}
        if isinstance(entry, dict) and "column" in entry:
            return {"name": entry["column"], **entry}
        return entry

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.by_key and self.above is not None:
            raise ValueError("give either a map or a threshold, not both")
        if self.name != self.source and not self.mapping and self.above is None:
            raise ValueError(
                f"name = {self.name!r} is for a derived attribute: add a map or a threshold"
            )
        if self.above is not None and (
            len(set(self.sides)) != 2 or len(self.sides) != 2
        ):
            raise ValueError(
                'levels = ["at or below", "above"] names the two sides of the threshold'
            )
        return self

    @cached_property
    def by_key(self) -> dict[str, str]:
        """The map, whose texts are compared as spellings of one group are (`group_key`).

        In a column that keeps its name, a text never names a group of others: a frame's cells would
        have two meanings.
        """
        by_key: dict[str, str] = {}
        for text, level in self.mapping.items():
            if by_key.setdefault(group_key(text), level) != level:
                raise ValueError(
                    f"map: {text!r} and another spelling of it have two levels"
                )
        for level in by_key.values() if self.name == self.source else ():
            if group_key(by_key.get(group_key(level), level)) != group_key(level):
                raise ValueError(
                    f"map: {level!r} is a value that the map turns into another: give the "
                    f"attribute a name of its own (name = …)"
                )
        return by_key

    @property
    def sides(self) -> Texts:
        """The two levels of a threshold: at or below it, and above it."""
        return self.levels or (f"at most {self.above:g}", f"above {self.above:g}")


class RowFilter(Checked):
    """A condition that kept rows meet; a missing value fails limits and `values`."""

    column: Text
    above: Number | None = None
    at_least: Number | None = None
    below: Number | None = None
    at_most: Number | None = None
    values: Values = ()
    without: Values = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.limits or self.values or self.without):
            raise ValueError(
                "say what is kept: above, at_least, below, at_most, values or without"
            )
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by key ("at_least")."""
        limits = self.model_dump(include={"above", "at_least", "below", "at_most"})
        return {name: limit for name, limit in limits.items() if limit is not None}

    def __str__(self) -> str:
        parts = [
            f"{name.replace('_', ' ')} {limit:g}" for name, limit in self.limits.items()
        ]
        parts += [f"one of {', '.join(self.values)}"] if self.values else []
        parts += [f"not {' or '.join(self.without)}"] if self.without else []
        return f"{self.column} {' and '.join(parts)}"


class OutcomeColumn(Checked):
    """The outcome: "yes" if the value is in `positive`, or strictly above `above`."""

    source: Text = Field(alias="column")
    positive: Values = ()
    negative: Values = ()
    refer: Values = ()  # a third answer: a person decides
    others: Literal["no", "drop"] | None = None  # what values in neither list mean
    above: Threshold | None = Field(default=None, alias="threshold")
    words: Mapping[Literal["yes", "no", "refer"], AnswerWord] = {}
    examples_refer: Flag = False  # whether rows of the third answer may be examples

    @property
    def sides(self) -> tuple[str, str]:
        """What numbers become that mean no and yes."""
        return f"at most {self.above:g}", f"above {self.above:g}"

    @model_validator(mode="before")
    @classmethod
    def _words_of_values(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("words") != "values":
            return data
        keys = {"yes": "positive", "no": "negative", "refer": "refer"}
        values = {word: _values(data.get(key, ())) for word, key in keys.items()}
        if not values["refer"]:
            del values["refer"]
        if any(len(own) != 1 for own in values.values()):
            raise ValueError(
                'words = "values" needs one value for each answer: name positive and negative'
            )
        return {**data, "words": {word: own[0] for word, own in values.items()}}

    @model_validator(mode="after")
    def _check(self) -> Self:
        differ = len({word.casefold() for word in self.words.values()})
        if self.words and not (
            differ == len(self.words) and {*YES_NO} <= {*self.words}
        ):
            raise ValueError(
                'words = { yes = "…", no = "…" } needs two words that differ'
            )
        if not self.refer and (self.examples_refer or "refer" in self.words):
            raise ValueError(
                'a third answer needs its values: refer = ["referred"] names them'
            )
        given = self.positive or self.negative or self.others or self.refer
        if self.above is not None and given:
            raise ValueError(
                "give positive and negative values or above a threshold, not both"
            )
        return self


def _refuse_repeated(key: str, names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{key}: {name!r} is named {times} times")


def format_of(path: Path) -> Format:
    """The file format by extension, ignoring compression: rows.jsonl.gz is "jsonl"."""
    if path.suffix.lower() in PACKED:
        ending = Path(path.stem).suffix
    else:
        ending = path.suffix
    return ENDINGS.get(ending.lower(), "csv")


class Source(Checked):
    """The table's files and format; paths are relative to data folder or task file."""

    file: str = ""
    pool: str = ""
    test: str = ""
    format: Format = "csv"
    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    header: Flag = True
    markers: Values = Field(default=DEFAULT_MARKERS, alias="missing_marker")
    sheet: Annotated[str, BeforeValidator(str)] = (
        ""  # name, or number from 1; by default the first sheet
    )
    skip: Annotated[int, Field(ge=0)] = 0  # lines or rows above the header
    comment: str = ""
    encoding: str = "utf-8-sig"
    url: str = ""
    sha256: Mapping[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _format_of_the_ending(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "format" in data:
            return data
        return {
            **data,
            "format": format_of(Path(str(data.get("file") or data.get("pool") or ""))),
        }

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.file) == bool(self.pool or self.test) or bool(self.pool) != bool(
            self.test
        ):
            raise ValueError("give either file, or pool and test")
        if self.pool and self.pool == self.test:
            raise ValueError(
                "pool and test are the same file; write file = … to split one table"
            )
        for name in self.files if self.url else ():
            if not re.fullmatch("[0-9a-f]{64}", self.sha256.get(name, "")):
                raise ValueError(
                    f"a url needs the sha256 of every file; {name!r} has none"
                )
            if (
                PurePosixPath(name).is_absolute()
                or ".." in name.split("/")
                or name.startswith("~")
            ):
                raise ValueError(
                    f"with a url, {name!r} must name a file below the cache folder"
                )
        if self.url and not is_safe_address(self.url):
            raise ValueError(
                f"url = {self.url!r} is not an https address (http only from this machine)"
            )
        return self

    @property
    def files(self) -> Texts:
        """(file,), or (pool, test)."""
        if self.file:
            return (self.file,)
        return (self.pool, self.test)


def is_safe_address(url: str) -> bool:
    """Whether `url` is an https address, or an http address of this machine."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" or (
            parts.scheme == "http" and parts.hostname in LOOPBACK
        )
    except ValueError:
        return False


class About(Checked):
    """[about] in a task file: purpose and data, for audit reports; None: not stated."""

    intended_use: Stated = None
    population: Stated = None
    source: Stated = None
    collected: Stated = None
    left_out: Stated = None
    limits: Stated = None
    categories: Stated = None  # how sex, race and other categories are known
    data_kind: Stated = None  # historical or test data
    distributed: Stated = None  # date of the tool's first use
    auditor: Stated = None


class TaskFile(Checked):
    """A whole task file, validated without its table."""

    name: str = ""
    title: str = ""
    question: Text
    criteria: Mapping[
        Literal["yes", "no", "refer"], Text
    ] = {}  # definitions of the answers, for decision models
    missing: MissingRule = "error"
    # gap of the groups' base rates in a run's test rows; None: as they are drawn
    base_parity: Annotated[Share | None, BeforeValidator(_none)] = None
    weight: str = ""  # the column of sampling weights
    column_weights: Mapping[
        str, ColumnWeight
    ] = {}  # weights of features in coresets' distances; default 1
    fields: tuple[FileColumn, ...] = Field(alias="columns", min_length=1)
    values: Mapping[str, Mapping[str, str]] = {}
    source: Source = Field(alias="data")
    keep: tuple[
        RowFilter, ...
    ] = ()  # the table keeps the rows that meet all of these conditions
    outcome: OutcomeColumn
    offered: tuple[Protected, ...] = Field(alias="protected", min_length=1)
    use_protected: Values = ()
    licence: str = ""
    citation: str = ""
    note: str = ""
    about_entries: About = Field(default=About(), alias="about")
    path: Path = Field(default=Path(), exclude=True)
    folder: Path | None = Field(default=None, exclude=True)  # None: a built-in task
    # the column that identifies people with several rows; "": a row is a person
    cluster: str = Field(default="", exclude=True)
    text: str = Field(default="", exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _list_protected(cls, data: Any) -> Any:
        alone = isinstance(data, dict) and isinstance(data.get("protected"), str | dict)
        if alone:
            return {**data, "protected": [data["protected"]]}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        by_name = {item.name: item for item in self.fields}
        sources = [rule.source for rule in self.offered]
        _refuse_repeated("columns", [item.name for item in self.fields])
        _refuse_repeated("protected", sources)
        _refuse_repeated("protected", [rule.name for rule in self.offered])
        uses: dict[str, Iterable[str]] = {
            f"values.{name}": [name] for name in self.values
        }
        uses |= {"outcome": [self.outcome.source], "protected": sources}
        uses |= {
            "keep": [rule.column for rule in self.keep],
            "weight": filter(None, [self.weight]),
        }
        for key, names in (uses | {"column_weights": self.column_weights}).items():
            for name in names:
                if name not in by_name:
                    hint = did_you_mean(name, by_name)
                    raise ValueError(f"{key}: there is no column {name!r}{hint}")
        for item in self.fields:
            if item.kind == "ordinal" and len(self.column(item).order) < 2:
                raise ValueError(
                    f"column {item.name!r}: order = [lowest, …, highest] is missing"
                )
        if by_name[self.outcome.source].role != "feature":
            raise ValueError(
                f"column {self.outcome.source!r}: the outcome cannot be extra, id or dropped"
            )
        self._check_protected(by_name)
        weight = by_name.get(self.weight)
        if weight and (weight.role, weight.kind) != ("extra", "numeric"):
            raise ValueError(
                f'weight: column {self.weight!r} must have kind = "numeric" and role = "extra": a '
                "weight says nothing about the row itself"
            )
        taken = {self.outcome.source, *(attribute.name for attribute in self.protected)}
        if not any(
            column.role == "feature"
            for column in self.columns
            if column.name not in taken
        ):
            raise ValueError(
                "columns: no feature is left besides the protected attribute and the outcome"
            )
        return self

    def _check_protected(self, columns: Mapping[str, FileColumn]) -> None:
        for attribute in self.offered:
            if attribute.source == self.outcome.source:
                raise ValueError(
                    f"protected: {attribute.source!r} is the outcome already"
                )
            if attribute.name != attribute.source and attribute.name in columns:
                raise ValueError(
                    f"protected: the name {attribute.name!r} is a column of its own"
                )
        names = [attribute.name for attribute in self.offered]
        for name in self.use_protected:
            if name not in names:
                hint = did_you_mean(name, names)
                if name in columns:
                    role = columns[name].role
                    use = "dropped" if role == "drop" else "not protected"
                    hint = (
                        f": it is in the table, and {use} (role = {json.dumps(role)}); to protect "
                        f"it, add [[protected]] with column = {name!r}"
                    )
                raise ValueError(
                    f"use_protected: no protected attribute {name!r}{hint}"
                )
        if not self.protected:
            raise ValueError(
                "protected: all attributes are optional: leave one without it"
            )

    @property
    def protected(self) -> tuple[Protected, ...]:
        """The attributes in `use_protected`; if it is empty, all that are not optional."""
        by_name = {attribute.name: attribute for attribute in self.offered}
        if self.use_protected:
            return tuple(by_name[name] for name in dict.fromkeys(self.use_protected))
        return tuple(attribute for attribute in self.offered if not attribute.optional)

    @property
    def usual(self) -> Texts:
        """The names of the attributes that are protected if nobody chooses."""
        return tuple(item.name for item in self.offered if not item.optional)

    @property
    def place(self) -> str:
        """Where a reader changes the rules: the file, or the text that was drafted for a frame."""
        return TEXT_OF_FRAME if self.path == FRAME else str(self.path)

    @property
    def notations(self) -> dict[str, Written]:
        """The notation of numbers (`written`) by column of the file."""
        return {item.name: item.written for item in self.fields}

    @property
    def used(self) -> list[FileColumn]:
        """The columns that the cleaned table has, or derives protected attributes from."""
        sources = {attribute.source for attribute in self.protected}
        return [
            item for item in self.fields if item.use == "column" or item.name in sources
        ]

    @property
    def filled(self) -> set[str]:
        """The columns whose empty cells have a meaning: the outcome, or attributes with a map."""
        outcome = {
            self.outcome.source: (
                *self.outcome.positive,
                *self.outcome.negative,
                *self.outcome.refer,
            )
        }
        texts = outcome | {rule.source: tuple(rule.mapping) for rule in self.protected}
        return {name for name, named in texts.items() if "" in named}

    def split_of(self, item: FileColumn) -> str:
        """What makes categories of a column's numbers: "bands", "threshold", or ""."""
        if item.bands:
            return "bands"
        limits = {self.outcome.source: self.outcome.above}
        limits |= {attribute.source: attribute.above for attribute in self.protected}
        return "" if limits.get(item.name) is None else "threshold"

    @property
    def words(self) -> Mapping[str, str]:
        """The words for yes and no in prompts and replies."""
        texts = self.values.get(self.outcome.source, {})
        words: dict[str, str] = {}
        for answer, word in self.outcome.words.items():
            words[answer] = texts.get(word, word)
        words = words or dict(YES_NO)
        if self.outcome.refer:
            words.setdefault("refer", REFER)
        return words

    @property
    def about(self) -> dict[str, str]:
        """The texts of [about] by key."""
        return {key: text.strip() for key, text in self.about_entries if text}

    def column(self, item: FileColumn) -> Column:
        """An entry of `columns` as a `Column`, for prompts and the solver."""
        words = self.values.get(item.name, {})
        if item.kind == "ordinal":
            order = item.order or tuple(words)
        else:
            order = ()
        text = item.text or item.name.replace("_", " ").replace("-", " ")
        role: Literal["feature", "extra"] = (
            "extra" if item.role == "extra" else "feature"
        )
        return Column(item.name, text, item.kind, role, words, order, item.unit)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The cleaned table's columns in file order, derived attributes at their source."""
        derived = {attribute.source: attribute for attribute in self.protected}
        columns = []
        for item in self.used:
            column = self.column(item)
            attribute = derived.get(item.name)
            if attribute is not None:
                is_own = attribute.name == item.name
                text = column.text if is_own else attribute.name.replace("_", " ")
                is_plain = is_own and not attribute.mapping and attribute.above is None
                words = column.values if is_plain else {}
                column = Column(attribute.name, attribute.text or text, values=words)
            if item.name == self.outcome.source:
                column = replace(column, kind="categorical", role="feature", order=())
            columns.append(column)
        return tuple(columns)


def read_taskfile(path: Path) -> TaskFile:
    """Read and validate a task file; `FwcError` with file, key and remedy."""
    with failing_as(FwcError, f"cannot read the task file {path}: "):
        return parse_taskfile(read_text(path, _LARGEST), path)


def parse_taskfile(text: str, path: Path, name: str = "") -> TaskFile:
    """Parse and validate a task file's text; `name` replaces the name in the text."""
    start = (
        "; `fwc-llm task init DATA.csv`, in Python load_task(frame, …).text, writes one to start "
        "from"
    )
    with failing_as(FwcError, f"{path} is not a TOML file: ", start):
        data = parse_toml(text)
    task = check(TaskFile, data, str(path))
    names = {"name": name or task.name or path.stem, "title": task.title or path.stem}
    positive = " or ".join(f"“{value}”" for value in task.outcome.positive)
    question = task.question.replace(UNASKED, positive or UNASKED)
    return task.model_copy(
        update={**names, "path": path, "text": text, "question": question}
    )


def checks_of(text: str) -> list[str]:
    """What the author of a drafted task file should check, with the line's column or setting."""
    checks = []
    for line in text.splitlines():
        setting, is_check, doubt = line.partition("# CHECK: ")
        place = setting.strip("# ")
        place = re.sub(r'^{ name = "((?:[^"\\]|\\.)*)".*', r"column \1", place)
        place = re.sub(r'^column = "(.*)"$', r"protected \1", place)
        place = place.replace(r"\"", '"')
        if is_check:
            checks.append(f"{place}: {doubt}" if place else doubt)
    return checks


def choose(
    task: TaskFile,
    key: Literal["use_protected", "weight", "question"],
    value: str | Sequence[str],
) -> TaskFile:
    """The task with `key` set to `value`, also in its `text`; an empty weight means none."""
    chosen = json.dumps(
        value if isinstance(value, str) else list(value), ensure_ascii=False
    )
    if value or key != "weight":
        line = f"{key} = {chosen}\n"
    else:
        line = ""
    return parse_taskfile(line + without_key(task.text, key), task.path, task.name)


def without_key(text: str, key: str) -> str:
    """The text of a task file without the lines that set the top-level `key`."""
    top = re.split(r"^[ \t]*\[", text, maxsplit=1, flags=re.M)[
        0
    ]  # the text before the first TOML table
    sets = rf"""^[ \t]*["']?{key}["']?[ \t]*=[ \t]*(\[[^\]]*\]|[^\n]*)[^\n]*\n"""
    return re.sub(sets, "", top, count=1, flags=re.M) + text[len(top) :]


def asks_the_same(text: str, other: str) -> bool:
    """Whether two task files give the same prompts and rows.

    They may differ in texts for readers (title, note, licence, citation, about), in base parity, in
    the layout of the data file, and in protected attributes that are not in use.
    """
    try:
        return _asked(text) == _asked(other)
    except FwcError:
        return False


def _asked(text: str) -> Json:
    task = parse_taskfile(text, Path("task.toml"))
    readers = {
        "title",
        "note",
        "licence",
        "citation",
        "about_entries",
        "offered",
        "use_protected",
    }
    content = task.model_dump(
        exclude=readers | {"base_parity", "source"}
    )  # a run records its base parity separately
    content["protected"] = [
        attribute.model_dump(exclude={"optional"}) for attribute in task.protected
    ]
    content["files"] = (
        task.source.files
    )  # the table's fingerprint covers the rest of `source`
    return content
