"""A first task file for a user's own table: what its columns look like, and what its author must check."""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from fwc_llm.data.reading import NEEDS_PYARROW, as_number, as_plain, csv_records, read_frame, read_table
from fwc_llm.data.table import FEW_MISSING
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.taskfile import DEFAULT_MARKERS, ENDINGS, Source, Written

if TYPE_CHECKING:
    import pandas as pd

FEW = 10  # a numeric column with at most so many distinct whole values may be a code
_NEARLY_ALL = 0.95
_MANY_TEXTS = 20  # different texts, beyond which they may be names or free text
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[ .-]*[A-Za-zé]{3,9}[ .,-]*\d{2,4}|[A-Za-zé]{3,9}\.? \d{1,2},? \d{4})"
    r"([T ]\d{1,2}:\d{2}.*)?"
)
_COMPACT_DATE = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_DATE_NAME = re.compile(r"date|datum|_on$|_at$|timestamp|birthday", re.IGNORECASE)
_ZIP_NAME = re.compile(r"(^|[ _-])(zip|zipcode|postal|postcode|plz|postleitzahl)|zip_?code", re.IGNORECASE)
_ZIP = re.compile(r"\d{5}(-\d{4})?")
_ID_NAME = re.compile(r"(^|[ _-])(id|uuid|guid|ssn|number|nr|no|key)$|Id$|ID$", re.IGNORECASE)
_PERSON_NAME = re.compile(r"(^|[ _-])((first|last|full|given|sur|family)[ _-]?)?name$|surname", re.IGNORECASE)
_CONTACT = re.compile(r"[^@\s]+@[^@\s]+\.\w+|https?://\S+|\+?\d[\d ()/-]{8,}")
_UNIT = re.compile(r"(?P<number>[-+]?\d+(?:\.\d+)?)\s*(?P<unit>[^\d\s.,+-]{1,8}\.?)")
_CODES = (-9, -99, -999, -1, 99, 999, 9999)  # that stand for a missing value in many surveys


@dataclass(frozen=True)
class Look:
    """What a column is taken for: its kind, its role, how its numbers are written, and why (a comment).

    `unit` follows some of its numbers.
    """

    kind: Literal["numeric", "categorical"]
    role: Literal["feature", "extra", "id", "drop"] = "feature"
    written: Written = ""
    why: str = ""
    unit: str = ""

    def number(self, cell: str) -> float:
        """The number that a cell of a numeric column writes."""
        return float(as_plain(cell.removesuffix(self.unit).rstrip(), self.written))


def look_at(name: str, cells: "pd.Series", special: bool = False) -> Look:
    """Judge a column by its name and texts; a `special` one, protected or outcome, is never left out."""
    distinct = set(cells.dropna().unique())
    written, unit = how_written(distinct), ""
    if written is None and (unit := _unit(distinct)):
        written = ""
    numeric = bool(distinct) and written is not None
    if not special and (why := _why_left_out(name, cells, distinct, numeric)):
        return Look("numeric" if numeric else "categorical", "id" if "an id" in why else "drop", why=why)
    if not numeric:
        same = _same_but_for_case(distinct)
        why = f"CHECK: {', '.join(map(repr, same))} differ in case alone; one value?" if same else ""
        return Look("categorical", why="" if special else why)
    look = Look("numeric", written=written or "", unit=unit)
    return look if special else Look("numeric", "feature", look.written, _doubts(look, distinct), unit)


def _doubts(look: Look, distinct: Collection[str]) -> str:
    """What a person would ask about the numbers."""
    numbers = sorted({look.number(cell) for cell in distinct})
    if look.unit:
        return f"CHECK: numbers with the unit {look.unit!r}, which is left out"
    if code := next((code for code in _CODES if code in numbers and _stands_apart(code, numbers)), None):
        rest = [number for number in numbers if number != code]
        return (
            f"CHECK: {code} stands apart from {rest[0]:g} to {rest[-1]:g}; a code for a missing value? "
            "then name it a missing_marker"
        )
    if not look.written and 2 < len(numbers) <= FEW and all(number.is_integer() for number in numbers):
        span = f"{numbers[0]:g} to {numbers[-1]:g}"
        return f'CHECK: only {len(numbers)} values, {span}, kept as numbers; codes? kind = "categorical"'
    dotted = [cell for cell in distinct if "." in cell]
    if (
        not look.written
        and len(dotted) > FEW
        and all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", c) for c in dotted)
    ):
        return f'CHECK: {min(dotted)} is read as a fraction; if it is thousands, written = "1.234,5"'
    return ""


def _stands_apart(code: int, numbers: list[float]) -> bool:
    """Whether a code lies outside the range of all other numbers, by more than that range."""
    rest = [number for number in numbers if number != code]
    if len(rest) < 3 or not all(number.is_integer() for number in rest):
        return False
    return rest[0] >= 0 if code < 0 else code - rest[-1] > max(rest[-1] - rest[0], FEW)


def _unit(distinct: Collection[str]) -> str:
    """The one unit that follows some of the numbers, as "J." in "93 J."; empty where there is none."""
    matches = [_UNIT.fullmatch(cell) for cell in distinct if as_number(cell) is None]
    units = {match["unit"] if match else "" for match in matches}
    return units.pop() if len(units) == 1 and len(distinct) > 2 else ""


def _same_but_for_case(distinct: Collection[str]) -> list[str]:
    """Texts that differ in case alone, such as m and M; the first such values."""
    folded: dict[str, list[str]] = {}
    for cell in sorted(distinct):
        folded.setdefault(cell.casefold(), []).append(cell)
    return next((cells for cells in folded.values() if len(cells) > 1), [])


def how_written(distinct: Collection[str]) -> Written | None:
    """How these texts write numbers: "" as programs do, or as people do; None where they are no numbers.

    Of two ways to read them all, that in which separators stand between thousands.
    """
    if all(as_number(cell) is not None for cell in distinct):
        return ""
    both: tuple[Written, Written] = ("1,234.5", "1.234,5")
    ways = [way for way in both if all(as_number(as_plain(cell, way)) is not None for cell in distinct)]
    if len(ways) < 2:
        return ways[0] if ways else None
    grouped = re.compile(r"\d\.\d{3}(?!\d)")
    return "1.234,5" if any(grouped.search(cell) for cell in distinct) else "1,234.5"


def _why_left_out(name: str, cells: "pd.Series", distinct: set[str], numeric: bool) -> str:
    """Why a column is no feature, if it looks like none."""
    n, many = len(cells), len(distinct) > FEW
    if not distinct:
        return "it has no values"
    if len(distinct) == 1 and n > 2:
        return "CHECK: it has the same value in every row"
    if _share(_DATE, distinct) or (_DATE_NAME.search(name) and _share(_COMPACT_DATE, distinct)):
        return "CHECK: dates; to use them, turn them into numbers, such as days or years"
    if many and all(_is_day(as_number(cell)) for cell in distinct):
        return "CHECK: dates, in milliseconds since 1970; to use them, turn them into days or years"
    zeros = any(cell.startswith("0") for cell in distinct)
    if _ZIP_NAME.search(name) or (zeros and len(distinct) > _MANY_TEXTS and _share(_ZIP, distinct)):
        return "CHECK: ZIP codes: numbers only in looks, and they may stand for the protected group"
    if many and not numeric and _share(_CONTACT, distinct):
        return "CHECK: addresses or telephone numbers of people"
    words = sum(len(cell.split()) for cell in cells.dropna()) / max(int(cells.count()), 1)
    free_text = f"CHECK: free text, {len(distinct):,} different ones"
    numbers = [as_number(cell) for cell in distinct]
    whole = [number for number in numbers if number is not None and number.is_integer()]
    named = bool(_ID_NAME.search(name))
    if many and (not numeric or len(whole) == len(distinct)):
        if len(distinct) == n and (not numeric or named or max(whole) - min(whole) < 2 * n):
            return free_text if words >= 4 else "CHECK: every value differs, so it was taken for an id"
        if named and len(distinct) > cells.count() / 4:
            return "CHECK: identifiers, though some repeat"
    if numeric:
        return ""
    if _PERSON_NAME.search(name) and len(distinct) > _MANY_TEXTS:
        return "CHECK: names of people"
    if len(distinct) > _MANY_TEXTS and words >= 4:
        return free_text
    if len(distinct) > max(50, n // 4):
        return f"CHECK: {len(distinct):,} different texts are too many for a category"
    return ""


def _is_day(milliseconds: float | None) -> bool:
    """Whether a number is the midnight of a day between 1973 and 2128, as pandas writes dates in JSON."""
    return milliseconds is not None and 1e11 < milliseconds < 5e12 and milliseconds % 86_400_000 == 0


def _share(pattern: re.Pattern[str], distinct: Collection[str]) -> bool:
    """Whether nearly all of the values match."""
    return sum(bool(pattern.fullmatch(cell)) for cell in distinct) >= _NEARLY_ALL * len(distinct)


_MORE_MARKERS = {"NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "-", "."}
_MOSTLY_MISSING = 0.5  # a column of numbers with more missing values tells little
_SMALL = 10  # rows of a level, below which it may better be one with another
_DROPS = 'missing = "drop"'
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
# What is done to somebody ("Should this loan be approved?"), and what happens ("Will this customer leave?").
_DONE = {
    "approv": "approved", "accept": "accepted", "grant": "granted", "hir": "hired", "admit": "admitted",
    "admission": "admitted", "promot": "promoted", "select": "selected", "invit": "invited", "fund": "funded",
    "shortlist": "shortlisted", "award": "awarded", "reject": "rejected", "deni": "denied",
    "releas": "released",
}  # fmt: skip
_HAPPENS = {
    "default": "default", "churn": "leave", "recid": "offend again", "reoffen": "offend again",
    "readmi": "be readmitted", "repa": "be repaid", "graduat": "graduate", "drop_?out": "drop out",
}  # fmt: skip
_DULL = re.compile(
    r"(data|dataset|table|export|final|copy|clean|raw|train|test|sample|my|new|file|csv|list|a|an|the|of|all"
    r"|\w*\d\w*)$",
    re.IGNORECASE,
)
_PLURALS = {
    "people": "person", "persons": "person", "children": "child", "women": "woman", "men": "man",
    "staff": "employee",
}  # fmt: skip


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
    for name, times in Counter(named).items():
        if not name.strip():
            raise FwcError("a column name is empty: name the protected attribute and the outcome")
        if times > 1:
            raise FwcError(f"column {name!r} is named twice: protected attributes and outcome are different")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FwcError(f"cannot read {path}: {error.strerror or error}") from error
    source, titles = sniff_source(path, content)
    for name in named:
        if name not in titles:
            raise FwcError(
                f"{path}: its first line has no column {name!r}{did_you_mean(name, titles)} "
                "(a table without a header line needs a task file written by hand: header = false)"
            )
        if titles.count(name) > 1:
            raise FwcError(f"{path}: the header names column {name!r} more than once: rename one of them")
    # A column without a title (such as a saved index) is left out.
    usable = [title for title in titles if title and titles.count(title) == 1]
    checks = [
        f"column {_one_line(name)}: the header names it {times} times; to use it, rename it"
        for name, times in sorted(Counter(titles).items())
        if name and times > 1
    ]
    raw = read_table(path, content, source, usable)
    return _Drafting(path, source, raw, protected, outcome, checks).draft(beside)


def draft_frame(
    raw: "pd.DataFrame",
    protected: Sequence[str],
    outcome: str,
    answer: Sequence[str] = (),
    weight: str = "",
) -> Draft:
    """Draft a task for a frame of texts; the lines of `answer` say which outcome means yes, where any do.

    `weight` is the column that says for how many a row stands; empty: there is none. Raises `FwcError` for a
    column that is not there.
    """
    for name in (*protected, outcome, *([weight] if weight else [])):
        if name not in raw.columns:
            raise FwcError(f"there is no column {name!r}{did_you_mean(name, raw.columns)}")
    source = Source(file="table", format="parquet")
    drafting = _Drafting(Path("table"), source, raw, protected, outcome, [], weight)
    return drafting.draft(Path(), answer)


def sniff_source(path: Path, content: bytes) -> tuple[Source, list[str]]:
    """How the file is written, and its column names."""
    format = ENDINGS.get(path.suffix.lower(), "csv")
    if format == "parquet":
        try:
            import pyarrow.parquet as parquet

            return Source(file=path.name, format=format), list(parquet.read_schema(path).names)
        except ImportError as error:
            raise FwcError(NEEDS_PYARROW.format(path)) from error
        except (OSError, ValueError) as error:
            raise FwcError(f"{path} is no Parquet table: {error}") from error
    if format != "csv":
        titles = read_frame(path, content, format).columns
        return Source(file=path.name, format=format), [str(title).strip() for title in titles]
    best: tuple[Source, list[str]] | None = None
    odd, encoding = "", _encoding(content)
    for separator in (",", ";", "\t", "|", " "):
        source = Source(file=path.name, separator=separator, encoding=encoding)
        records = [record for _, record in zip(range(200), csv_records(path, content, source), strict=False)]
        widths = Counter(len(record) for _, record in records)
        # The separator that cuts every line into the same, largest number of columns.
        if len(widths) == 1 and (best is None or len(records[0][1]) > len(best[1])):
            best = source, [title.strip() for title in records[0][1]]
        for width, times in widths.most_common(1):
            if not odd and len(widths) > 1 and width > 1 and times > len(records) / 2:
                line, other = next((n, len(record)) for n, record in records if len(record) != width)
                odd = f": with {separator!r} line {line} has {other} values, most have {width}"
    if best is None or len(best[1]) < 2:
        raise FwcError(
            f"{path} is no table: no separator cuts its lines into the same number of columns{odd}"
        )
    return best


def _encoding(content: bytes) -> str:
    """The encoding of a text file: by its mark, else UTF-8 where it is, else that of Western Windows."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        content.decode("utf-8-sig")
        return "utf-8-sig"
    except UnicodeDecodeError:
        windows = re.search(rb"[\x80-\x9f]", content) and not re.search(rb"[\x81\x8d\x8f\x90\x9d]", content)
        return "cp1252" if windows else "latin-1"


class _Drafting:
    """One table's draft; what its author should check is collected in `checks`."""

    def __init__(
        self,
        path: Path,
        source: Source,
        raw: "pd.DataFrame",
        protected: Sequence[str],
        outcome: str,
        checks: list[str],
        weight: str = "",
    ) -> None:
        self.path, self.source, self.checks = path, source, checks
        self.protected, self.outcome, self.weight = protected, outcome, weight
        self.markers = _markers(raw)
        cells = raw.where(~raw.isin(self.markers))
        self.cells = {str(name): cells[name] for name in cells}
        self.n = len(raw)
        self.looks = {name: self._look(name) for name in self.cells}
        if all(look.role != "feature" for name, look in self.looks.items() if name not in self._named):
            # A task needs a feature: rather a doubtful one than none.
            for name, look in self.looks.items():
                if name not in (*self._named, weight) and self.cells[name].notna().any():
                    self.looks[name] = replace(look, role="feature")
        used = [name for name, look in self.looks.items() if look.role in ("feature", "extra")]
        counts = {name: int(self.cells[name].isna().sum()) for name in used}
        self.missing = {name: count for name, count in counts.items() if count}
        many = cells[used].isna().any(axis=1).mean() > FEW_MISSING
        self.rule = "error" if not self.missing else "category" if many else "drop"

    @property
    def _named(self) -> tuple[str, ...]:
        return (*self.protected, self.outcome)

    def _look(self, name: str) -> Look:
        cells = self.cells[name]
        look, share = look_at(name, cells, name in self._named), cells.isna().mean()
        if name == self.weight:
            return replace(look, kind="numeric", role="extra", why="")
        plain = name not in self._named and (look.kind, look.role) == ("numeric", "feature")
        if plain and share > _MOSTLY_MISSING:
            return replace(look, role="drop", why=f"CHECK: {100 * share:.0f} % of its values are missing")
        return look

    def draft(self, beside: Path, answer: Sequence[str] = ()) -> Draft:
        """The draft, to be written into the folder `beside`; `answer` are lines about the outcome."""
        example, above, lines, said = self._answer()
        question = draft_question(self.path.stem, self.outcome, None if answer else example, above)
        self.checks.append(f"question: {question} Write it as a person would ask it, as a yes-no question")
        checks: list[str] = []
        entries = {name: self._column(name, checks) for name in self.cells}
        dropped = {name for name in self.missing if self.rule == "category" and _DROPS in entries[name]}
        text = [
            f"# A task for fwc-llm, drafted from {_one_line(self.path.name)} ({self.n:,} rows). "
            "Guesses are marked CHECK.",
            "",
            f"title = {_quote(spoken(self.path.stem))}",
            f"question = {_quote(question)} # CHECK",
            *self._missing(dropped),
            *([f"weight = {_quote(self.weight)}"] if self.weight else []),
            "",
            "# role: feature, extra (for templates that ask, not for the solver), id (unique), or drop.",
            "columns = [",
            *entries.values(),
            "]",
            "",
            *self._data(beside),
            "",
            "[outcome]",
            f"column = {_quote(self.outcome)}",
            *(answer or lines),
        ]
        self.checks += [*checks, *([] if answer else [said])]
        for name in self.protected:
            text += ["", *self._protected(name)]
        return Draft("\n".join(text) + "\n", tuple(self.checks))

    def _missing(self, dropped: Collection[str]) -> list[str]:
        """The rule for missing values; `dropped` are the columns that lose their rows under "category"."""
        said = _listed(self.missing)
        if self.rule == "error":
            return ['missing = "error" # no value is missing; otherwise "drop" or "category"']
        if self.rule == "drop":
            self.checks.append(f"missing: rows with a missing value are dropped ({said})")
            return [f'missing = "drop" # CHECK: or "category", or "error"; missing values: {said}']
        if kept := _listed({name: n for name, n in self.missing.items() if name not in dropped}):
            self.checks.append(f'missing: a missing value becomes the category "unknown" ({kept})')
        if lost := _listed({name: n for name, n in self.missing.items() if name in dropped}):
            self.checks.append(f"missing: rows with a missing value are dropped ({lost})")
        return [f'missing = "category" # CHECK: dropping rows would lose too many; missing values: {said}']

    def _column(self, name: str, checks: list[str]) -> str:
        """One column's line. Under the rule "category" a missing number gets bands, or loses its row."""
        look, cells = self.looks[name], self.cells[name]
        kind, why, missing = look.kind, look.why, cells.isna().mean()
        share = f"{100 * missing:.0f} %" if missing >= 0.01 else "under 1 %"
        bands: list[float] = []
        extra: list[str] = []
        if look.role == "extra":  # the weight: without it a row counts nothing
            extra = [_DROPS] if missing else []
        elif look.role == "feature" and self.rule == "category" and missing:
            special = name in self._named
            if kind == "categorical" and name in self.protected and missing > FEW_MISSING:
                why = f'CHECK: {share} lack it and make a group "unknown"; missing = "drop" leaves them out'
            elif special:
                extra, why = [_DROPS], "a row without it cannot be used"
            elif kind == "numeric" and missing > FEW_MISSING and (bands := _quartiles(cells, look)):
                kind = "categorical"
                why = f'CHECK: {share} are missing; bands, so that "unknown" can be one of them'
            elif kind == "numeric":
                extra = [_DROPS]
                why = f"CHECK: {share} are missing, and a number cannot be unknown: these rows are dropped"
        entry = [f"name = {_quote(name)}", f"text = {_quote(name.replace('_', ' '))}"]
        if look.role in ("feature", "extra"):
            entry.append(f'kind = "{kind}"')
        if look.role != "feature":
            entry.append(f'role = "{look.role}"')
        entry += extra
        if look.role in ("feature", "extra"):
            entry += [f"strip_suffix = {_quote(look.unit)}"] if look.unit else []
            entry += [f"unit = {_quote(look.unit)}"] if look.unit and not bands else []
            entry += [f"written = {_quote(look.written)}"] if look.written else []
        if bands:
            entry.append(f"bands = [{', '.join(f'{limit:.10g}' for limit in bands)}]")
        if why.startswith("CHECK: "):
            checks.append(f"column {_one_line(name)}: {why.removeprefix('CHECK: ')}{_WHERE[look.role]}")
        return f"  {{ {', '.join(entry)} }},{f' # {_one_line(why, 200)}' if why else ''}"

    def _data(self, beside: Path) -> list[str]:
        lines = ["[data]", f"file = {_quote(os.path.relpath(self.path, beside).replace(os.sep, '/'))}"]
        if self.source.format == "csv":
            lines += [f"separator = {_quote(self.source.separator)}", "header = true"]
            if self.source.encoding != "utf-8-sig":
                lines.append(f'encoding = "{self.source.encoding}" # CHECK: it is no UTF-8')
        if self.markers:
            lines.append(f"missing_marker = {_list((*DEFAULT_MARKERS, *self.markers))}")
        return lines

    def _answer(self) -> tuple[str | None, float | None, list[str], str]:
        """Which value, or above which number, means yes; the lines that say so; what to check."""
        counts, look = Counter(self.cells[self.outcome].dropna().tolist()), self.looks[self.outcome]
        said = ", ".join(f"{_one_line(value)} ({count:,})" for value, count in counts.most_common(12))
        where = f"outcome {self.outcome}"
        if len(counts) > 2 and look.kind == "numeric":
            middle = median(look.number(cell) for cell in counts.elements())
            line = (
                f"# threshold = {{ above = {middle:g} }} # CHECK: the median; above which number is it yes?"
            )
            return None, middle, [line], f"{where}: a number; say above which threshold the answer is yes"
        yes, no, others = means_yes(counts)
        if not yes or not no:
            line = f"# positive = […] # CHECK: name the values that mean yes, of {said}"
            return next(iter(counts), "…"), None, [line], f"{where}: say which values mean yes: {said}"
        lines = [f"positive = {_list(yes)} # CHECK: the values are {said}", f"negative = {_list(no)}"]
        taken = f"{', '.join(map(repr, yes))} was taken for yes, {', '.join(map(repr, no))} for no"
        if others:
            neither = ", ".join(map(_one_line, others))
            lines.append(f'# others = "drop" # CHECK: what of {neither}? "drop" these rows, or "no"')
            taken += f"; say what {neither} means: negative, or others"
        return yes[0], None, lines, f"{where}: {taken}"

    def _protected(self, name: str) -> list[str]:
        counts, look = Counter(self.cells[name].dropna().tolist()), self.looks[name]
        lines = ["[[protected]]", f"column = {_quote(name)}"]
        if len(counts) > FEW and look.kind == "numeric":
            middle = median(look.number(cell) for cell in counts.elements())
            lines.append(
                f"# threshold = {{ above = {middle:g} }} # CHECK: the median; or group the values with a map"
            )
            self.checks.append(
                f"protected {name}: a number with {len(counts):,} values; split it with a threshold"
            )
            return lines
        first: dict[str, str] = {}
        names = {value: first.setdefault(value.casefold(), value) for value, _ in counts.most_common()}
        rare = [value for value, count in counts.items() if count < _SMALL]
        if rare or len(counts) > FEW or len(first) < len(counts):
            listed = ", ".join(f"{_quote(value)} = {_quote(names[value])}" for value in list(counts)[:20])
            lines.append(f"# map = {{ {listed} }} # CHECK: group levels by giving them one name")
        if len(first) < len(counts):
            twins = ", ".join(repr(value) for value in counts if list(names.values()).count(names[value]) > 1)
            self.checks.append(f"protected {name}: {twins} differ in case alone; a map makes them one group")
        elif rare or len(counts) > FEW:
            self.checks.append(
                f"protected {name}: {len(counts)} levels, some with few rows; a map can group them"
            )
        return lines


def _markers(raw: "pd.DataFrame") -> list[str]:
    """Further missing markers: the only texts among a column's numbers."""
    markers: list[str] = []
    for name in raw:
        distinct = set(raw[name].dropna().unique())
        texts = {cell for cell in distinct if as_number(cell) is None}
        if texts and texts <= _MORE_MARKERS and texts < distinct:
            markers += sorted(texts - set(markers))
    return markers


def _quartiles(cells: "pd.Series", look: Look) -> list[float]:
    """Three limits that cut the numbers into four equal parts; fewer where values repeat, none for one."""
    numbers = sorted(look.number(cell) for cell in cells.dropna())
    limits = sorted({numbers[len(numbers) * k // 4] for k in (1, 2, 3)} - {numbers[-1]})
    rounded = [float(f"{limit:.3g}") for limit in limits]
    return rounded if len(set(rounded)) == len(limits) else limits


def draft_question(stem: str, outcome: str, positive: str | None, above: float | None) -> str:
    """Return the question for a table called `stem`; yes means the value `positive`, or above a number."""
    noun, words = thing(stem), spoken(outcome)
    if above is not None:
        return f"Is the {words} of this {noun} above {above:g}?"
    for text in (outcome, positive or ""):
        for roots, ask in ((_DONE, "Should this {} be {}?"), (_HAPPENS, "Will this {} {}?")):
            for root, verb in roots.items():
                if re.search(rf"(^|[ _-]){root}", text, re.IGNORECASE):
                    return ask.format(noun, verb)
    if re.search("fraud", outcome, re.IGNORECASE):
        return f"Is this {noun} fraudulent?"
    if positive is None or positive.casefold() in YES_WORDS - {"good", "positive"}:
        return f"Is the answer to “{words}” yes for this {noun}?"
    return f"Is the {words} of this {noun} {positive}?"


def thing(stem: str) -> str:
    """What one row of a table called `stem` is."""
    words = [word for word in re.split(r"[\W_]+", stem.casefold()) if word and not _DULL.match(word)]
    if not words:
        return "person"
    last = words[-1]
    if last in _PLURALS:
        last = _PLURALS[last]
    elif last.endswith("ies") and len(last) > 4:
        last = f"{last[:-3]}y"
    elif last.endswith("s") and not last.endswith(("ss", "us", "is")) and len(last) > 3:
        last = last[:-1]
    return " ".join([*words[:-1], last])


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


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quote, texts))}]"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{_one_line(name)} {count:,}" for name, count in counts.items())


def _one_line(text: str, most: int = 40) -> str:
    """A cell or name in a comment: without line ends and control characters, not too long."""
    return "".join(char if char.isprintable() else " " for char in text)[:most]


def _quote(text: str) -> str:
    """`text` as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
