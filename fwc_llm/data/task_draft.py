"""A first task file for a user's own table: what its columns look like, and what its author must check."""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

import pandas as pd

from fwc_llm.data.reading import open_table, sniff_source
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import failing_as
from fwc_llm.taskfile import DEFAULT_MARKERS, LAYOUT, Source, Written, format_of, parse_taskfile
from fwc_llm.values import as_number, as_plain

_FEW = 10  # a numeric column with at most so many distinct whole values may be a code
_FEW_MISSING = 0.03  # rows with missing values are dropped where they are at most this share of all rows
_MANY_TEXTS = 20  # different texts, beyond which they may be names or free text
_MOSTLY_MISSING = 0.5  # a column of numbers with more missing values tells little
_SMALL = 10  # rows of a level, below which it may better be merged with another
_LOOKED_AT = 1000  # values that are compared with a pattern
_DATE = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[ .-]*[A-Za-zé]{3,9}[ .,-]*\d{2,4}|[A-Za-zé]{3,9}\.? \d{1,2},? \d{4})"
    r"([T ]\d{1,2}:\d{2}.*)?"
)
_ZIP_NAME = r"(?i)(^|[ _-])(zip|zipcode|postal|postcode|plz|postleitzahl)|zip_?code"
_ID_NAME = r"(^|[ _-])((?i:id|uuid|guid|ssn|number|nr|no|key))$|Id$|ID$"
_PERSON_NAME = r"(?i)(^|[ _-])((first|last|full|given|sur|family)[ _-]?)?name$|surname"
_UNIT = re.compile(r"[-+]?\d+(?:\.\d+)?\s*(?P<unit>[^\d\s.,+-]{1,8}\.?)")
_CODES = (-9, -99, -999, -1, 99, 999, 9999)  # that stand for a missing value in many surveys
_MORE_MARKERS = {"NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "-", "."}
_WHERE = {"feature": "", "extra": "", "id": "; it is not shown", "drop": "; it is left out"}
YES_WORDS = {
    "yes", "y", "true", "t", "1", "good", "positive", "pos", "approved", "approve", "accepted", "accept",
    "granted", "grant", "hired", "admitted", "admit", "passed", "pass", "paid", "repaid",
    "ja", "j", "oui", "si", "sí", "sim", "da",
}  # fmt: skip
NO_WORDS = {
    "no", "n", "false", "f", "0", "bad", "negative", "neg", "rejected", "reject", "denied", "deny",
    "declined", "decline", "refused", "refuse", "not", "failed", "fail", "unpaid",
    "nein", "non", "não", "nao", "niet",
}  # fmt: skip
# What is done to somebody: "Should this loan be approved?"
_DONE = r"(approv|accept|grant|hir|admitt|promot|select|invit|fund|shortlist|award|reject|deni|releas)"


@dataclass(frozen=True)
class Look:
    """The guess about a column: its kind, its role, why (a comment), and how its numbers are written.

    `unit` follows some of its numbers; `missing` is a rule of its own; `bands` make categories of numbers.
    """

    kind: Literal["numeric", "categorical"]
    role: Literal["feature", "extra", "id", "drop"] = "feature"
    why: str = ""
    written: Written = ""
    unit: str = ""
    missing: str = ""
    bands: tuple[float, ...] = ()

    def number(self, cell: str) -> float:
        """The number that a cell of a numeric column writes."""
        return float(as_plain(cell.removesuffix(self.unit).rstrip(), self.written))

    def line(self, name: str) -> str:
        """The column's line in the task file."""
        entry: dict[str, Any] = {"name": name, "text": name.replace("_", " ")}
        if self.role in ("feature", "extra"):
            entry["kind"] = self.kind
        entry |= {"role": self.role.removeprefix("feature"), "missing": self.missing}
        if self.role in ("feature", "extra"):
            entry |= {"strip_suffix": self.unit, "unit": "" if self.bands else self.unit}
            entry |= {"written": self.written, "bands": self.bands}
        keys = ", ".join(f"{key} = {_toml(value)}" for key, value in entry.items() if value)
        return f"  {{ {keys} }},{f' # {_one_line(self.why, 200)}' if self.why else ''}"


def look_at(name: str, cells: pd.Series, special: bool = False) -> Look:
    """Judge a column by its name and texts; a `special` one, protected or outcome, is never left out."""
    distinct = set(cells.dropna().unique())
    written, unit = how_written(distinct), ""
    if written is None and (unit := _unit(distinct)):
        written = ""
    numeric = bool(distinct) and written is not None
    if not special and (why := _why_left_out(name, cells, distinct, numeric)):
        return Look("numeric" if numeric else "categorical", "id" if "an id" in why else "drop", why)
    if numeric:
        look = Look("numeric", written=written or "", unit=unit)
        return look if special else replace(look, why=_doubts(look, distinct))
    folded: dict[str, list[str]] = {}
    for cell in sorted(distinct):
        folded.setdefault(cell.casefold(), []).append(cell)
    same = next((", ".join(map(repr, equal)) for equal in folded.values() if len(equal) > 1), "")
    doubt = f"CHECK: {same} differ in case alone; one value?" if same and not special else ""
    return Look("categorical", why=doubt)


def _doubts(look: Look, distinct: Collection[str]) -> str:
    """Doubts that a person should check."""
    numbers = sorted({look.number(cell) for cell in distinct})
    whole = all(number.is_integer() for number in numbers)
    if look.unit:
        return f"CHECK: numbers with the unit {look.unit!r}, which is left out"
    rest = [number for number in numbers if number not in _CODES]
    apart = [
        f"{code:g}"
        for code in numbers  # a code lies outside the range of all other numbers
        if whole and len(rest) > 2 and code in _CODES
        if (rest[0] >= 0 if code < 0 else code - rest[-1] > max(rest[-1] - rest[0], _FEW))
    ]
    if apart:
        return (
            f"CHECK: {', '.join(apart)} outside of {rest[0]:g} to {rest[-1]:g}; a code for a missing value? "
            "then name it a missing_marker"
        )
    if look.written:
        return ""
    if 2 < len(numbers) <= _FEW and whole:
        span = f"{numbers[0]:g} to {numbers[-1]:g}"
        return f'CHECK: only {len(numbers)} values, {span}, kept as numbers; codes? kind = "categorical"'
    dotted = [cell for cell in distinct if "." in cell]
    if len(dotted) > _FEW and all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", cell) for cell in dotted):
        return f'CHECK: {min(dotted)} is read as a fraction; if it is thousands, written = "1.234,5"'
    return ""


def _unit(distinct: Collection[str]) -> str:
    """The one unit that follows some of the numbers, as "J." in "93 J."; empty where there is none."""
    matches = [_UNIT.fullmatch(cell) for cell in distinct if as_number(cell) is None]
    units = {match["unit"] if match else "" for match in matches}
    return units.pop() if len(units) == 1 and len(distinct) > 2 else ""


def how_written(distinct: Collection[str]) -> Written | None:
    """The notation of these numbers: "" as programs do, or as people do; None where they are no numbers.

    Of two ways to read them all, that in which separators stand between thousands.
    """
    grouped = any(re.search(r"\d\.\d{3}(?!\d)", cell) for cell in distinct)
    ways: tuple[Written, ...] = ("", "1.234,5", "1,234.5") if grouped else ("", "1,234.5", "1.234,5")
    fitting = (way for way in ways if all(as_number(as_plain(cell, way)) is not None for cell in distinct))
    return next(fitting, None)


def _why_left_out(name: str, cells: pd.Series, distinct: set[str], numeric: bool) -> str:
    """The first reason that fits why a column looks like no feature; or none."""
    n, many, seen = len(cells), len(distinct) > _FEW, cells.dropna()
    some = seen.unique()[:_LOOKED_AT]
    words = sum(map(len, map(str.split, seen))) / max(len(seen), 1)
    numbers = [number for cell in distinct if (number := as_number(cell)) is not None]
    whole = [number for number in numbers if number.is_integer()]
    countable = many and (not numeric or len(whole) == len(distinct))
    named = re.search(_ID_NAME, name) is not None

    def are(pattern: str) -> bool:
        """Whether nearly all values match."""
        return sum(bool(re.fullmatch(pattern, cell)) for cell in some) >= 0.95 * len(some)

    different = countable and len(distinct) == n
    different = different and (not numeric or named or max(whole) - min(whole) < 2 * n)
    free_text = f"CHECK: free text, {len(distinct):,} different ones"
    looks = (
        (not distinct, "it has no values"),
        (len(distinct) == 1 and n > 2, "CHECK: it has the same value in every row"),
        (are(_DATE), "CHECK: dates; to use them, turn them into numbers, such as days or years"),
        (
            re.search(_ZIP_NAME, name)
            or (len(distinct) > _MANY_TEXTS and are(r"\d{5}(-\d{4})?") and any(c[0] == "0" for c in some)),
            "CHECK: ZIP codes: numbers only in looks, and they may stand for the protected group",
        ),
        (different and words >= 4, free_text),
        (different, "CHECK: every value differs, so it was taken for an id"),
        (countable and named and len(distinct) > len(seen) / 4, "CHECK: identifiers, though some repeat"),
        (numeric, ""),
        (re.search(_PERSON_NAME, name) and len(distinct) > _MANY_TEXTS, "CHECK: names of people"),
        (len(distinct) > _MANY_TEXTS and words >= 4, free_text),
        (
            len(distinct) > max(50, n // 4),
            f"CHECK: {len(distinct):,} different texts are too many for a category",
        ),
    )
    return next((why for fits, why in looks if fits), "")


@dataclass(frozen=True)
class Draft:
    """The text of a task file, and what its author should check."""

    text: str
    checks: tuple[str, ...]


def draft_task(path: Path, protected: Sequence[str], outcome: str, beside: Path, **layout: Any) -> Draft:
    """Draft a task file, to be written into the folder `beside`, for the table at `path`.

    `layout` has `sheet`, `skip` and `comment` as `Source` does.

    Raises `FwcError` when `path` is no table with a header line, or lacks a column that is named, and when
    one column is named twice.
    """
    with failing_as(FwcError, f"cannot read {path}: "):
        content = path.read_bytes()
    source = sniff_source(path, content, **layout)
    table = open_table(path, content, source)
    table.require(filter(None, (*protected, outcome)))
    times_of = Counter(title for title in table.titles if title)  # a saved index has no title: it is left out
    for name in (*protected, outcome):
        if times_of[name] > 1:
            raise FwcError(f"{path}: the header names column {name!r} more than once: rename one of them")
    checks = [
        f"column {_one_line(name)}: the header names it {times} times; to use it, rename it"
        for name, times in sorted(times_of.items())
        if times > 1
    ]
    raw = table.frame([name for name, times in times_of.items() if times == 1], path.name)
    draft = _Drafting(path, source, raw, protected, outcome, checks).draft(beside)
    parse_taskfile(draft.text, path)
    return draft


def draft_frame(
    raw: pd.DataFrame, protected: Sequence[str], outcome: str, answer: Sequence[str] = (), weight: str = ""
) -> Draft:
    """Draft a task for a frame of texts; the lines of `answer` say which outcome means yes, where any do.

    `weight` is the column that says for how many a row stands; empty: there is none. Raises `FwcError` for a
    column that is not there.
    """
    source = Source(file="table", format="parquet")
    return _Drafting(Path("table"), source, raw, protected, outcome, [], weight).draft(Path(), answer)


@dataclass
class _Drafting:
    """One table's draft; what its author should check is collected in `checks`."""

    path: Path
    source: Source
    raw: pd.DataFrame
    protected: Sequence[str]
    outcome: str
    checks: list[str]
    weight: str = ""

    def __post_init__(self) -> None:
        if not len(self.raw):
            raise FwcError(f"{self.path}: the table has no rows")
        for name in (*self.protected, self.outcome, *filter(None, [self.weight])):
            if name not in self.raw:
                untitled = (
                    " (a table without a header line needs a task file written by hand: header = false)"
                )
                hint = did_you_mean(name, map(str, self.raw)) + untitled * (self.source.format == "csv")
                where = f"{self.path}: protected attribute, outcome or weight"
                raise FwcError(f"{where}: there is no column {name!r}{hint}")
        self.markers = _markers(self.raw)
        cells = self.raw.where(~self.raw.isin(self.markers))
        self.cells = {str(name): cells[name] for name in cells}
        self.looks = {name: self._look(name) for name in self.cells}
        apart = (*self.protected, self.outcome, self.weight)
        others = [name for name in self.looks if name not in apart and cells[name].notna().any()]
        if all(self.looks[name].role != "feature" for name in others):
            # A task needs a feature: rather a doubtful one than none.
            self.looks |= {name: replace(self.looks[name], role="feature") for name in others}
        used = [name for name, look in self.looks.items() if look.role in ("feature", "extra")]
        self.missing = {str(name): int(n) for name, n in cells[used].isna().sum().items() if n}
        many = cells[used].isna().any(axis=1).mean() > _FEW_MISSING
        self.rule = "error" if not self.missing else "category" if many else "drop"
        if self.rule == "category":
            self.looks |= {name: self._with_missing(name) for name in self.missing}

    def _look(self, name: str) -> Look:
        cells, special = self.cells[name], name in (*self.protected, self.outcome)
        look, missing = look_at(name, cells, special), cells.isna()
        if name == self.weight:  # without it a row counts nothing
            rule = "drop" if missing.any() else ""
            return replace(look, kind="numeric", role="extra", why="", missing=rule)
        if not special and (look.kind, look.role) == ("numeric", "feature"):
            share = missing.mean()
            if share > _MOSTLY_MISSING:
                return replace(look, role="drop", why=f"CHECK: {100 * share:.0f} % of its values are missing")
        return look

    def _with_missing(self, name: str) -> Look:
        """A column's look under the rule "category": a missing number gets bands, or loses its row."""
        look, cells = self.looks[name], self.cells[name]
        missing = cells.isna().mean()
        share = f"{100 * missing:.0f} %" if missing >= 0.01 else "under 1 %"
        if look.role != "feature":
            return look
        if look.kind == "categorical" and name in self.protected and missing > _FEW_MISSING:
            why = f'CHECK: {share} lack it and make a group "unknown"; missing = "drop" leaves them out'
            return replace(look, why=why)
        if name in (*self.protected, self.outcome):
            return replace(look, missing="drop", why="a row without it cannot be used")
        if look.kind == "categorical":
            return look
        if missing > _FEW_MISSING and (bands := _quartiles(cells, look)):
            why = f'CHECK: {share} are missing; bands, so that "unknown" can be one of them'
            return replace(look, kind="categorical", bands=bands, why=why)
        why = f"CHECK: {share} are missing, and a number cannot be unknown: these rows are dropped"
        return replace(look, missing="drop", why=why)

    def draft(self, beside: Path, answer: Sequence[str] = ()) -> Draft:
        """The draft, to be written into the folder `beside`; `answer` are lines about the outcome."""
        example, above, lines, doubt = self._answer()
        question = draft_question(self.path.stem, self.outcome, None if answer else example, above)
        self.checks.append(f"question: {question} Write it as a person would ask it, as a yes-no question")
        text = [
            f"# A task for fwc-llm, drafted from {_one_line(self.path.name)} "
            f"({len(self.cells[self.outcome]):,} rows). Guesses are marked CHECK.",
            "",
            f"title = {_toml(spoken(self.path.stem))}",
            f"question = {_toml(question)} # CHECK",
            self._missing(),
            *([f"weight = {_toml(self.weight)}"] if self.weight else []),
            "",
            "# role: feature, extra (for templates that ask, not for the solver), id (unique), or drop.",
            "columns = [",
            *(look.line(name) for name, look in self.looks.items()),
            "]",
            "",
            "[data]",
            f"file = {_toml(os.path.relpath(self.path, beside).replace(os.sep, '/'))}",
        ]
        text += [f'format = "{self.source.format}"'] if self.source.format != format_of(self.path) else []
        text += [f"{key} = {_toml(value)}" for key in LAYOUT if (value := getattr(self.source, key))]
        if self.source.format == "csv":
            text += [f"separator = {_toml(self.source.separator)}", "header = true"]
            if self.source.encoding != "utf-8-sig":
                text.append(f'encoding = "{self.source.encoding}" # CHECK: it is no UTF-8')
        if self.markers:
            text.append(f"missing_marker = {_toml((*DEFAULT_MARKERS, *self.markers))}")
        text += ["", "[outcome]", f"column = {_toml(self.outcome)}", *(answer or lines)]
        self.checks += [
            f"column {_one_line(name)}: {look.why.removeprefix('CHECK: ')}{_WHERE[look.role]}"
            for name, look in self.looks.items()
            if look.why.startswith("CHECK: ")
        ]
        self.checks += [] if answer else [doubt]
        for name in self.protected:
            text += ["", "[[protected]]", f"column = {_toml(name)}", *self._protected(name)]
        return Draft("\n".join(text) + "\n", tuple(self.checks))

    def _missing(self) -> str:
        if self.rule == "error":
            return 'missing = "error" # no value is missing; otherwise "drop" or "category"'
        by_rule: dict[str, list[str]] = {"category": [], "drop": []}
        for name, n in self.missing.items():
            by_rule[self.looks[name].missing or self.rule].append(f"{_one_line(name)} {n:,}")
        if kept := ", ".join(by_rule["category"]):
            self.checks.append(f'missing: a missing value becomes the category "unknown" ({kept})')
        if lost := ", ".join(by_rule["drop"]):
            self.checks.append(f"missing: rows with a missing value are dropped ({lost})")
        why = 'or "category", or "error"' if self.rule == "drop" else "dropping rows would lose too many"
        counts = ", ".join(f"{_one_line(name)} {n:,}" for name, n in self.missing.items())
        return f'missing = "{self.rule}" # CHECK: {why}; missing values: {counts}'

    def _answer(self) -> tuple[str | None, float | None, list[str], str]:
        """The value, or the threshold, that means yes; the lines that say so; what to check."""
        counts, look = Counter(self.cells[self.outcome].dropna().tolist()), self.looks[self.outcome]
        listed = ", ".join(f"{_one_line(value)} ({count:,})" for value, count in counts.most_common(12))
        where = f"outcome {self.outcome}"
        if len(counts) > 3 and look.kind == "numeric":  # of 0, 1 and 9 a median says nothing
            middle = median(look.number(cell) for cell in counts.elements())
            line = (
                f"# threshold = {{ above = {middle:g} }} # CHECK: the median; above which number is it yes?"
            )
            return None, middle, [line], f"{where}: a number; say above which threshold the answer is yes"
        yes, no, others = means_yes(counts)
        if not yes or not no:
            line = f"# positive = […] # CHECK: name the values that mean yes, of {listed}"
            return next(iter(counts), "…"), None, [line], f"{where}: say which values mean yes: {listed}"
        lines = [f"positive = {_toml(yes)} # CHECK: the values are {listed}", f"negative = {_toml(no)}"]
        taken = f"{', '.join(map(repr, yes))} was taken for yes, {', '.join(map(repr, no))} for no"
        if others:
            neither = ", ".join(map(_one_line, others))
            lines.append(f'# others = "drop" # CHECK: what of {neither}? "drop" these rows, or "no"')
            taken += f"; say what {neither} means: negative, or others"
        return yes[0], None, lines, f"{where}: {taken}"

    def _protected(self, name: str) -> list[str]:
        """A threshold or a map to choose, where there are many levels, or equal ones."""
        counts, look = Counter(self.cells[name].dropna().tolist()), self.looks[name]
        if len(counts) > _FEW and look.kind == "numeric":
            middle = median(look.number(cell) for cell in counts.elements())
            self.checks.append(
                f"protected {name}: a number with {len(counts):,} values; split it with a threshold"
            )
            return [
                f"# threshold = {{ above = {middle:g} }} # CHECK: the median; or group the values with a map"
            ]
        first: dict[str, str] = {}
        names = {value: first.setdefault(value.casefold(), value) for value, _ in counts.most_common()}
        if len(first) < len(counts):
            twins = ", ".join(repr(value) for value in counts if list(names.values()).count(names[value]) > 1)
            self.checks.append(f"protected {name}: {twins} differ in case alone; a map makes them one group")
        elif len(counts) > _FEW or min(counts.values(), default=_SMALL) < _SMALL:
            self.checks.append(
                f"protected {name}: {len(counts)} levels, some with few rows; a map can group them"
            )
        else:
            return []
        listed = ", ".join(f"{_toml(value)} = {_toml(names[value])}" for value in list(counts)[:20])
        return [f"# map = {{ {listed} }} # CHECK: group levels by giving them one name"]


def _markers(raw: pd.DataFrame) -> list[str]:
    """Further missing markers: the only texts among a column's numbers."""
    markers: list[str] = []
    for name in raw:
        distinct = set(raw[name].dropna().unique())
        texts = {cell for cell in distinct if as_number(cell) is None}
        if texts and texts <= _MORE_MARKERS and texts < distinct:
            markers += sorted(texts - set(markers))
    return markers


def _quartiles(cells: pd.Series, look: Look) -> tuple[float, ...]:
    """Three limits that cut the numbers into four equal parts; fewer where values repeat, none for one."""
    numbers = sorted(look.number(cell) for cell in cells.dropna())
    limits = sorted({numbers[len(numbers) * k // 4] for k in (1, 2, 3)} - {numbers[-1]})
    rounded = [float(f"{limit:.3g}") for limit in limits]
    return tuple(rounded if len(set(rounded)) == len(limits) else limits)


def draft_question(stem: str, outcome: str, positive: str | None, above: float | None) -> str:
    """Return the question for a table called `stem`; yes means the value `positive`, or above a number."""
    noun, words = _noun(stem), spoken(outcome)
    if above is not None:
        return f"Is the {words} of this {noun} above {above:g}?"
    for text in (outcome, positive or ""):
        if done := re.search(rf"(?i)(?:^|[ _-]){_DONE}", text):
            return f"Should this {noun} be {done[1].lower()}ed?"
    if positive is None or positive.casefold() in YES_WORDS - {"good", "positive"}:
        return f"Is the answer to “{words}” yes for this {noun}?"
    return f"Is the {words} of this {noun} {positive}?"


def _noun(stem: str) -> str:
    """Names one row of a table called `stem`."""
    words = [word for word in re.findall(r"[^\W\d_]+", stem.casefold()) if word not in ("data", "table")]
    noun = re.sub("ies$", "y", " ".join(words)).replace("people", "person") or "person"
    return re.sub("(?<![sui])s$", "", noun)


def spoken(name: str) -> str:
    """A column's name in words."""
    return " ".join(re.sub(r"[_\-]+", " ", name).split()) or name


def means_yes(values: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """The values that mean yes, those that mean no, and those that say neither.

    Of two values the one beside a yes means no.
    """
    yes = [value for value in values if value.casefold() in YES_WORDS or value.startswith(">")]
    if len(values) == 2 and len(yes) == 1:
        return yes, [value for value in values if value not in yes], []
    no = [value for value in values if value not in yes and value.casefold() in NO_WORDS]
    return yes, no, [value for value in values if value not in yes and value not in no]


def _one_line(text: str, most: int = 40) -> str:
    """A cell or name in a comment: without line ends and control characters, not too long."""
    return "".join(char if char.isprintable() else " " for char in text)[:most]


def _toml(value: Any) -> str:
    """A text, or a list of texts or numbers, as TOML writes it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
