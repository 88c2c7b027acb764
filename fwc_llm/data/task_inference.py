"""Task inference: drafts a task file for a table, with a list of points to check."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

import pandas as pd

from fwc_llm.cell_rules import as_number, as_plain
from fwc_llm.data.raw_table import LARGEST_EXACT, open_table, sniff_source
from fwc_llm.data.table_checks import check_table
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import failing_as
from fwc_llm.meaning import means_yes, usual_meaning
from fwc_llm.sanitize import listed, parse_toml
from fwc_llm.taskfile import LAYOUT, Source, Written, format_of, parse_taskfile
from fwc_llm.words import is_marker, is_unknown, merged_categories

_FEW = 10  # a numeric column with at most this many distinct whole values may hold codes
_FEW_MISSING = 0.03  # rows with missing values are dropped if their share is at most this
_MANY_TEXTS = 20  # more distinct texts may be names or free text
_MOSTLY_MISSING = 0.5  # a numeric column with a larger share of missing values is left out
_SMALL = 10  # levels with fewer rows should perhaps be merged
_LOOKED_AT = 1000  # most values that are compared with a pattern
_MAJORITY = 0.95  # least share of numbers in a numeric column
_LISTED = 5  # most values that a doubt lists
_LONGEST = 60  # characters of a number with a unit
_DATE = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[ .-]*[A-Za-zé]{3,9}[ .,-]*\d{2,4}|[A-Za-zé]{3,9}\.? \d{1,2},? \d{4})"
    r"([T ]\d{1,2}:\d{2}.*)?"
)
_ZIP_NAME = r"(?i)(^|[ _-])(zip|zipcode|postal|postcode|plz|postleitzahl)|zip_?code"
_ID_NAME = (
    r"(^|[ _-])((?i:id|uuid|guid|ssn|number|num|nr|no|key|ref|reference|n[uú]mero|matricule))$|Id$|ID$"
    r"|(?i:nummer|nr\.?|kennung|aktenzeichen)$"
)
_PERSON_NAME = r"(?i)(^|[ _-])((first|last|full|given|sur|family)[ _-]?)?name$|surname"
_UNIT = re.compile(r"[-+]?\d[\d.,']*\s*(?P<unit>[^\d\s.,+-]{1,8}\.?)")
_CODES = frozenset(  # codes for missing values in many surveys
    sign * digit * int("1" * places) for sign, digit, places in (
        *((1, digit, places) for digit in (7, 8, 9) for places in range(2, 7)), (1, 6, 3), (1, 6, 4),
        *((-1, digit, places) for digit in (7, 8, 9) for places in range(1, 6)), (-1, 1, 1),
    )
)  # fmt: skip
_TOTAL = re.compile(
    r"(?i)(grand |sub)?(totals?|sum|(zwischen|end)?summe|gesamt(summe)?|insgesamt|somme|suma|soma|somma"
    r"|total g[eé]n[eé]ral|totale|totaal|razem|ogółem|average|mean|durchschnitt|mittelwert)\b\W*"
)
_WHERE = {"feature": "", "extra": "", "id": "; it is not shown", "drop": "; it is left out"}
# Stems of verbs for decisions: "Should this case be approved?"
_DONE = r"(approv|accept|grant|hir|admitt|promot|select|invit|fund|shortlist|award|reject|deni|releas)"


@dataclass(frozen=True)
class ColumnProfile:
    """The guessed profile of a column; fields as in `FileColumn`."""

    kind: Literal["numeric", "categorical"]
    role: Literal["feature", "extra", "id", "drop"] = "feature"
    why: str = ""  # the comment in the task file
    written: Written = ""
    unit: str = ""  # the text after some or all numbers
    missing: str = ""
    bands: tuple[float, ...] = ()
    markers: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()  # other texts in a numeric column that are not numbers

    def number(self, cell: str) -> float:
        """Parse a cell of a numeric column; NaN if it is not a number."""
        number = as_number(as_plain(cell.removesuffix(self.unit).rstrip(), self.written))
        return math.nan if number is None else number

    def checked(self, *doubts: str) -> "ColumnProfile":
        """The profile with further doubts, which the author of the task file should check."""
        doubts = tuple(filter(None, [self.why.removeprefix("CHECK: "), *doubts]))
        return replace(self, why=f"CHECK: {'; '.join(doubts)}" if doubts else "")

    def line(self, name: str) -> str:
        """The column's line in the task file."""
        entry: dict[str, Any] = {"name": name, "text": name.replace("_", " ")}
        if self.role in ("feature", "extra"):
            entry["kind"] = self.kind
        entry |= {"role": self.role.removeprefix("feature"), "missing": self.missing}
        entry |= {"missing_marker": self.markers}
        if self.role in ("feature", "extra"):
            entry |= {"strip_suffix": self.unit, "unit": "" if self.bands else self.unit}
            entry |= {"written": self.written, "bands": self.bands}
        keys = ", ".join(f"{key} = {_toml(value)}" for key, value in entry.items() if value)
        return f"  {{ {keys} }},{f' # {_one_line(self.why, 400)}' if self.why else ''}"


def profile_column(
    name: str, cells: pd.Series, part: str = "", unknown: Collection[str] = ()
) -> ColumnProfile:
    """Guess a column's profile; its `part` is "protected", "outcome" or ""."""
    counts = {str(cell): int(n) for cell, n in cells.value_counts().items()}
    words = {word.casefold() for word in unknown}
    stated = {cell for cell in counts if cell.casefold() in words}
    markers = stated | set(filter(is_marker, counts))
    notation = how_written({cell: n for cell, n in counts.items() if cell not in stated})
    if notation and notation.odd and len(counts) - len(markers) - len(notation.odd) <= _FEW:
        notation = None  # codes, partly letters
    if notation is None:
        several = sum(map(is_unknown, counts)) + bool(cells.isna().any()) > 1
        markers = stated | set(filter(is_unknown, counts)) if stated or several else set()
        if part == "protected":
            markers = set(merged_categories(counts, unknown, bool(cells.isna().any())))
        if part == "outcome":
            markers = set(filter(is_unknown, counts))
    odd = notation.odd if notation else ()
    held = _without(cells, (*markers, *odd) if notation else ())
    distinct = set(counts) - (markers | set(odd) if notation else set())
    kind: Literal["numeric", "categorical"] = "numeric" if notation else "categorical"
    if not part and (why := _why_left_out(name, held, distinct, notation is not None)):
        return ColumnProfile(kind, "id" if "an id" in why else "drop", why)
    kept = tuple(cell for cell in counts if cell in markers)
    if part == "outcome" and kept and notation is None:
        doubt = f"rows with {listed(kept, _LISTED, repr)} are left out"
        return ColumnProfile("categorical", missing="drop", markers=kept).checked(doubt)
    if notation is None:
        doubt = f"{listed(kept, _LISTED, repr)} made one category, unknown" if kept else ""
        return ColumnProfile("categorical", missing="category" if kept else "", markers=kept).checked(doubt)
    profile = replace(notation, markers=kept)
    return profile.checked(
        *_not_numbers(cells, counts, profile), *([] if part else _doubts(profile, counts, distinct))
    )


def _without(cells: pd.Series, texts: Collection[str]) -> pd.Series:
    """Replace cells that equal one of the texts by missing."""
    return cells.mask(cells.isin(list(texts))) if texts else cells


def _not_numbers(cells: pd.Series, counts: Mapping[str, int], profile: ColumnProfile) -> Iterator[str]:
    """Yield doubts about texts in a numeric column that are not numbers."""

    def place(text: str) -> str:
        row = cells.index[int((cells == text).to_numpy().argmax())]
        return f"{text!r} ({f'{counts[text]:,} times, first ' * (counts[text] > 1)}{row})"

    others = sum(counts[text] for text in (*profile.markers, *profile.odd))
    if others:
        total = sum(counts.values())
        some = next(text for text in counts if text not in (*profile.markers, *profile.odd))
        yield f"{total - others:,} of {total:,} values are numbers like {some!r}"
    if profile.markers:
        yield f"taken for missing: {listed(profile.markers, _LISTED, place)}"
    if profile.odd:
        odd = listed(profile.odd, _LISTED, place)
        yield f"no numbers: {odd}: repair them, or add them to its missing_marker"


def _doubts(profile: ColumnProfile, counts: Mapping[str, int], distinct: Collection[str]) -> Iterator[str]:
    of_numbers: Counter[float] = Counter()
    for cell in distinct:
        of_numbers[profile.number(cell)] += counts[cell]
    numbers = sorted(of_numbers)
    if profile.unit:
        yield f"numbers with the unit {profile.unit!r}; the unit is removed"
    rest = [number for number in numbers if number not in _CODES]
    if codes := [f"{code:g}" for code in numbers if code in _CODES and _may_be_code(code, rest, of_numbers)]:
        among = f"{', '.join(codes)} beside {rest[0]:g} to {rest[-1]:g}"
        yield f"{among}: a code for a missing value? then missing_marker = {_toml(codes)} in this column"
    elif profile.written or profile.unit:
        return
    elif 2 < len(numbers) <= _FEW and all(number.is_integer() for number in numbers):
        span = f"{numbers[0]:g} to {numbers[-1]:g}"
        yield f'only {len(numbers)} values, {span}, kept as numbers; codes? kind = "categorical"'
    dotted = [cell for cell in distinct if "." in cell]
    if len(dotted) > _FEW and all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", cell) for cell in dotted):
        yield f'{min(dotted)} is read as a fraction; if it is thousands, written = "1.234,5"'


def _may_be_code(code: float, rest: Sequence[float], counts: Mapping[float, int]) -> bool:
    """Whether a number may be a code for missing: frequent, or far from the `rest`."""
    if len(rest) <= 2 or code < 0:
        return len(rest) > 2 and rest[0] >= 0
    beyond = code - rest[-1]
    alone = counts[code] > 2 and beyond >= max(_FEW, _FEW * (rest[-1] - rest[0]) / len(rest))
    spike = counts[code] >= _FEW and counts[code] > 3 * max(counts[number] for number in rest)
    return spike or beyond > max(rest[-1] - rest[0], _FEW) or alone


def how_written(counts: Mapping[str, int]) -> ColumnProfile | None:
    """The profile with the notation that parses most cells; None below 95 %."""
    cells = {cell: n for cell, n in counts.items() if not is_marker(cell)}
    most = (1 - _MAJORITY) * sum(cells.values())
    if not cells or sum(n for cell, n in cells.items() if not re.search(r"\d", cell)) > most:
        return None
    grouped = any(re.search(r"\d\.\d{3}(?!\d)", cell) for cell in cells)
    ways: tuple[Written, ...] = ("", "1.234,5", "1,234.5") if grouped else ("", "1,234.5", "1.234,5")
    units: Counter[str] = Counter()
    for cell, n in cells.items():
        if len(cell) <= _LONGEST and as_number(cell) is None and (match := _UNIT.fullmatch(cell)):
            units[match["unit"]] += n
    best, least = None, most
    for unit in ("", *(unit for unit, n in units.most_common(1) if n > most and len(cells) > 2)):
        for way in ways:
            read = {c: as_number(as_plain(c.removesuffix(unit).rstrip(), way)) for c in cells}
            odd = [c for c, number in read.items() if number is None or abs(number) >= LARGEST_EXACT]
            rows = sum(cells[cell] for cell in odd)
            if rows < least or (best is None and rows == least):
                best = ColumnProfile("numeric", written=way, unit=unit, odd=tuple(odd))
                least = rows
            if not odd:
                return best
    return best


def _why_left_out(name: str, cells: pd.Series, distinct: set[str], numeric: bool) -> str:
    """The first reason to leave out a column, or ""."""
    n, many, seen = len(cells), len(distinct) > _FEW, cells.dropna()
    some = seen.unique()[:_LOOKED_AT]
    words = sum(map(len, map(str.split, seen))) / max(len(seen), 1)
    numbers = [number for cell in distinct if (number := as_number(cell)) is not None]
    whole = [number for number in numbers if number.is_integer()]
    countable = many and (not numeric or len(whole) == len(distinct))
    has_id_name = re.search(_ID_NAME, name) is not None

    def are(pattern: str) -> bool:
        """Whether at least 95 % of the values match the pattern."""
        return sum(bool(re.fullmatch(pattern, cell)) for cell in some) >= 0.95 * len(some)

    different = countable and len(distinct) == n
    if different and numeric and not has_id_name and max(whole) - min(whole) >= 2 * n:
        different = all(low < high for low, high in pairwise(map(float, cells)))  # numbered in row order
    zeros = any(cell[0] == "0" for cell in some)
    zips = re.search(_ZIP_NAME, name) or (many and not has_id_name and zeros and are(r"\d{5}(-\d{4})?"))
    texts = f"{len(distinct):,} different texts"
    free_text = f"CHECK: free text, {texts}"
    looks = (
        (not distinct, "it has no values"),
        (len(distinct) == 1 and n > 2, "CHECK: it has the same value in every row"),
        (are(_DATE), "CHECK: dates; to use them, turn them into numbers, such as days or years"),
        (zips, "CHECK: ZIP codes: not quantities, and they may reveal the protected group"),
        (different and words >= 4, free_text),
        (different, "CHECK: every value differs, so it was taken for an id"),
        (
            countable and has_id_name and len(distinct) > len(seen) / 4,
            'CHECK: identifiers, some repeated; role = "extra" and --cluster count people in place of rows',
        ),
        (numeric, ""),
        (re.search(_PERSON_NAME, name) and len(distinct) > _MANY_TEXTS, "CHECK: names of people"),
        (len(distinct) > _MANY_TEXTS and words >= 4, free_text),
        (len(distinct) > max(50, n // 4), f"CHECK: {texts} are too many for a category"),
    )
    return next((why for fits, why in looks if fits), "")


@dataclass(frozen=True)
class Draft:
    """The text of a task file, and sentences on what its author should check."""

    text: str
    checks: tuple[str, ...]


def draft_task(
    path: Path,
    protected: Sequence[str],
    outcome: str,
    folder: Path,
    unknown: Collection[str] = (),
    **layout: Any,
) -> Draft:
    """Draft a task file, to stand in `folder`, for a table; `layout` as in `Source`."""
    with failing_as(FwcError, f"cannot read {path}: "):
        content = path.read_bytes()
    source = sniff_source(path, content, **layout)
    table = open_table(path, content, source)
    table.require(filter(None, (*protected, outcome)))
    times_of = Counter(title for title in table.titles if title)  # skips a saved index, which has no title
    for name in (*protected, outcome):
        if times_of[name] > 1:
            raise FwcError(f"{path}: the header names column {name!r} more than once: rename one of them")
    checks = [
        f"column {_one_line(name)}: the header names it {times} times; to use it, rename it"
        for name, times in sorted(times_of.items())
        if times > 1
    ]
    raw = table.frame([name for name, times in times_of.items() if times == 1], path.name)
    draft = Drafting(path, source, raw, protected, outcome, checks, "", unknown).draft(folder)
    parse_taskfile(draft.text, path)
    return draft


@dataclass
class Drafting:
    """Drafts a task for a text frame; `checks` collects points for its author to check."""

    path: Path
    source: Source
    raw: pd.DataFrame
    protected: Sequence[str]
    outcome: str
    checks: list[str]
    weight: str = ""
    unknown: Collection[str] = ()

    def __post_init__(self) -> None:
        if not len(self.raw):
            raise FwcError(f"{self.path}: the table has no rows")
        for name in (*self.protected, self.outcome, *filter(None, [self.weight])):
            if name not in self.raw:
                untitled = "; without a header line a task file is written by hand: header = false"
                hint = did_you_mean(name, map(str, self.raw)) + untitled * (self.source.format == "csv")
                raise FwcError(f"{self.path}: there is no column {name!r}{hint}")
        self.totals = dict(self._total_lines())
        self.raw = self.raw.drop(index=list(self.totals))
        self.profiles = {str(name): self._profile(str(name)) for name in self.raw}
        self.cells = {
            name: _without(self.raw[name], (*profile.markers, *profile.odd))
            for name, profile in self.profiles.items()
        }
        special = (*self.protected, self.outcome, self.weight)
        others = [name for name in self.profiles if name not in special and self.cells[name].notna().any()]
        if all(self.profiles[name].role != "feature" for name in others):
            # A task needs a feature: keep doubtful ones.
            self.profiles |= {name: replace(self.profiles[name], role="feature") for name in others}
        used = {name: of for name, of in self.profiles.items() if of.role in ("feature", "extra")}
        ruled = [name for name, of in used.items() if of.missing != "category"]
        missing = pd.DataFrame({name: self.cells[name].isna() for name in ruled})
        self.missing = {str(name): int(n) for name, n in missing.sum().items() if n}
        many = missing.any(axis=1).sum() > _FEW_MISSING * len(missing)
        self.rule = "error" if not self.missing else "category" if many else "drop"
        self._check_table([name for name in used if name not in special])
        if self.rule == "category":
            self.profiles |= {name: self._with_missing(name) for name in self.missing}

    def _total_lines(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield (row id, (column, word)) of totals in the last two rows."""
        for row, cells in self.raw.iloc[2:].tail(2).iterrows():
            texts = {str(name): str(cell) for name, cell in cells.dropna().items()}
            word = next(((name, text) for name, text in texts.items() if _TOTAL.fullmatch(text)), None)
            if word and self.outcome not in texts:
                yield str(row), word

    def _profile(self, name: str) -> ColumnProfile:
        cells = self.raw[name]
        part = "protected" if name in self.protected else "outcome" * (name == self.outcome)
        profile = profile_column(name, cells, part, self.unknown)
        missing = cells.isna() | cells.isin(profile.markers)
        if name == self.weight:  # a row without a weight is dropped
            rule = "drop" if missing.any() else ""
            return replace(profile, kind="numeric", role="extra", why="", missing=rule)
        if not part and (profile.kind, profile.role) == ("numeric", "feature"):
            share = missing.mean()
            if share > _MOSTLY_MISSING:
                return replace(profile, role="drop").checked(f"{100 * share:.0f} % of its values are missing")
        return profile

    def _check_table(self, features: Sequence[str]) -> None:
        """Add the doubts of `check_table`, which compares columns, to profiles and checks."""

        def numbers(name: str) -> "pd.Series":
            cells, profile = self.cells[name], self.profiles[name]
            if not profile.written and not profile.unit:
                return pd.to_numeric(cells, errors="coerce")
            return cells.map({text: profile.number(text) for text in cells.dropna().unique()}).astype(float)

        def classes(name: str) -> "pd.Series":
            if self.cells[name].nunique() <= _FEW or self.profiles[name].kind != "numeric":
                return self.cells[name]
            return (numbers(name) > numbers(name).median()).where(self.cells[name].notna())

        usual = usual_meaning(list(self.cells[self.outcome].dropna().unique()))
        answers = classes(self.outcome)
        if usual.yes and usual.no:
            answers = answers.replace(dict.fromkeys(usual.yes, "yes") | dict.fromkeys(usual.no, "no"))
        is_numeric = {name: profile.kind == "numeric" for name, profile in self.profiles.items()}
        checked = check_table(
            pd.DataFrame(self.cells | {name: numbers(name) for name in features if is_numeric[name]}),
            features,
            self.outcome,
            answers,
            {name: classes(name) for name in self.protected},
        )
        self.profiles |= {n: self.profiles[n].checked(doubt) for n, doubt in checked.columns.items()}
        self.checks += filter(None, [checked.repeated])
        for row, (column, word) in self.totals.items():
            how = f"left out by keep, {column} without {word!r}"
            self.checks.append(f"row {row} looks like a total, not a record: {how}")

    def _with_missing(self, name: str) -> ColumnProfile:
        """Apply the rule "category": a column with missing numbers gets bands, or drops rows."""
        profile, cells = self.profiles[name], self.cells[name]
        missing = cells.isna().mean()
        share = f"{100 * missing:.0f} %" if missing >= 0.01 else "under 1 %"
        if profile.role != "feature":
            return profile
        if profile.kind == "categorical" and name in self.protected and missing > _FEW_MISSING:
            doubt = f'{share} lack it and make a group "unknown"; missing = "drop" leaves them out'
            return profile.checked(doubt)
        if name in (*self.protected, self.outcome):
            why = profile.why or "a row without it cannot be used"
            return replace(profile, missing="drop", why=why)
        if profile.kind == "categorical":
            return profile
        if missing > _FEW_MISSING and (bands := _quartiles(cells, profile)):
            doubt = f'{share} are missing; with bands, "unknown" can be a band'
            return replace(profile, kind="categorical", bands=bands).checked(doubt)
        doubt = f"{share} are missing, and a number cannot be unknown: these rows are dropped"
        return replace(profile, missing="drop").checked(doubt)

    def draft(self, folder: Path, answer: Sequence[str] = ()) -> Draft:
        """The draft of a task file in `folder`; `answer` has lines of [outcome], if any."""
        positive, above, lines, doubt = self._answer()
        if answer:
            rules = parse_toml("\n".join(answer))
            positive = next(iter(rules.get("positive", ())), None)
            above = rules.get("threshold", {}).get("above")
        question = draft_question(self.outcome, positive, above)
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
            "# role: feature, extra (for templates only, not for the solver), id (unique), or drop.",
            "columns = [",
            *(profile.line(name) for name, profile in self.profiles.items()),
            "]",
            "",
            "[data]",
            f"file = {_toml(os.path.relpath(self.path, folder).replace(os.sep, '/'))}",
        ]
        text += [f'format = "{self.source.format}"'] if self.source.format != format_of(self.path) else []
        text += [f"{key} = {_toml(value)}" for key in LAYOUT if (value := getattr(self.source, key))]
        if self.source.format == "csv":
            text += [f"separator = {_toml(self.source.separator)}", "header = true"]
            if self.source.encoding != "utf-8-sig":
                text.append(f'encoding = "{self.source.encoding}" # CHECK: it is not UTF-8')
        for column, word in self.totals.values():
            text += ["", "[[keep]]", f"column = {_toml(column)}"]
            text.append(f"without = {_toml([word])} # CHECK: a total")
        text += ["", "[outcome]", f"column = {_toml(self.outcome)}", *(answer or lines)]
        self.checks += [
            f"column {_one_line(name)}: {profile.why.removeprefix('CHECK: ')}{_WHERE[profile.role]}"
            for name, profile in self.profiles.items()
            if profile.why.startswith("CHECK: ")
        ]
        self.checks += [] if answer else [doubt]
        for name in self.protected:
            text += ["", "[[protected]]", f"column = {_toml(name)}", *self._protected(name)]
        return Draft("\n".join(text) + "\n", tuple(self.checks))

    def _missing(self) -> str:
        if self.rule == "error":
            return 'missing = "error" # no value is missing; otherwise "drop" or "category"'
        counts = {name: f"{_one_line(name)} {n:,}" for name, n in self.missing.items()}
        dropped = [name for name in counts if (self.profiles[name].missing or self.rule) == "drop"]
        if kept := ", ".join(count for name, count in counts.items() if name not in dropped):
            self.checks.append(f'missing: a missing value becomes the category "unknown" ({kept})')
        if lost := ", ".join(counts[name] for name in dropped):
            whole = ~pd.DataFrame({name: self.cells[name].isna() for name in dropped}).any(axis=1)
            stay = f"{whole.sum():,} of {len(whole):,} stay"
            self.checks.append(f"missing: rows with a missing value are dropped ({lost}); {stay}")
        why = 'or "category", or "error"' if self.rule == "drop" else "dropping rows would lose too many"
        return f'missing = "{self.rule}" # CHECK: {why}; missing values: {", ".join(counts.values())}'

    def _answer(self) -> tuple[str | None, float | None, list[str], str]:
        """(value that means yes, threshold, lines of the task file, point to check)."""
        counts, profile = Counter(self.cells[self.outcome].dropna().tolist()), self.profiles[self.outcome]
        values = ", ".join(f"{_one_line(value)} ({count:,})" for value, count in counts.most_common(12))
        where = f"outcome {self.outcome}"
        if len(counts) > 3 and profile.kind == "numeric":  # the values 0, 1 and 9 are codes, not numbers
            middle = median(profile.number(cell) for cell in counts.elements())
            line = f"# threshold = {{ above = {middle:g} }} # CHECK: the median"
            doubt = f"{where}: a number; say above which threshold the answer is yes"
            return None, middle, [line], doubt
        usual = usual_meaning(counts)
        yes, no, others = list(usual.yes), list(usual.no), usual.dropped
        if not yes or not no:
            line = f"# positive = […] # CHECK: name the values that mean yes, of {values}"
            return next(iter(counts), "…"), None, [line], f"{where}: say which values mean yes: {values}"
        lines = [f"positive = {_toml(yes)} # CHECK: the values are {values}", f"negative = {_toml(no)}"]
        taken = f"{', '.join(map(repr, yes))} was taken for yes, {', '.join(map(repr, no))} for no"
        if others:
            neither = ", ".join(map(_one_line, others))
            lines.append(f'# others = "drop" # CHECK: what of {neither}? "drop" these rows, or "no"')
            taken += f"; say what {neither} means: negative, or others"
        return yes[0], None, lines, f"{where}: {taken}"

    def _protected(self, name: str) -> list[str]:
        """Suggest a threshold or map for many, rare or similarly spelled levels."""
        counts, profile = Counter(self.cells[name].dropna().tolist()), self.profiles[name]
        if len(counts) > _FEW and profile.kind == "numeric":
            middle = median(profile.number(cell) for cell in counts.elements())
            doubt = f"a number with {len(counts):,} values; split it with a threshold"
            self.checks.append(f"protected {name}: {doubt}")
            return [f"# threshold = {{ above = {middle:g} }} # CHECK: the median; or a map of values"]
        first: dict[str, str] = {}
        names = {value: first.setdefault(value.casefold(), value) for value, _ in counts.most_common()}
        if len(first) < len(counts):
            twins = ", ".join(repr(value) for value in counts if list(names.values()).count(names[value]) > 1)
            self.checks.append(f"protected {name}: {twins} differ in case alone; a map makes them one group")
        elif len(counts) > _FEW or min(counts.values(), default=_SMALL) < _SMALL:
            few = f"{len(counts)} levels, some with few rows; a map can group them"
            self.checks.append(f"protected {name}: {few}")
        else:
            return []
        entries = ", ".join(f"{_toml(value)} = {_toml(names[value])}" for value in list(counts)[:20])
        return [f"# map = {{ {entries} }} # CHECK: group levels by giving them one name"]


def _quartiles(cells: pd.Series, profile: ColumnProfile) -> tuple[float, ...]:
    """The distinct quartiles of the numbers, without the maximum."""
    numbers = sorted(profile.number(cell) for cell in cells.dropna())
    limits = sorted({numbers[len(numbers) * k // 4] for k in (1, 2, 3)} - {numbers[-1]})
    rounded = [float(f"{limit:.3g}") for limit in limits]
    return tuple(rounded if len(set(rounded)) == len(limits) else limits)


def draft_question(outcome: str, positive: str | None, above: float | None) -> str:
    """Draft a question; yes means the value `positive`, or above `above`."""
    is_yes = positive is None or means_yes(positive)
    for text in (positive or "", *([outcome] if is_yes and above is None else [])):
        if done := re.match(rf"(?i)(?:.*[ _.-])?(?<!not[ _-]){_DONE}", text):
            return f"Should this case be {done[1].lower()}ed?"
    value = f"above {above:g}" if above is not None else f"“{positive or 'yes'}”"
    return f"Is “{spoken(outcome)}” {value} in this case?"


def spoken(name: str) -> str:
    """A column's name with spaces instead of underscores and hyphens."""
    return " ".join(re.sub(r"[_\-]+", " ", name).split()) or name


def _one_line(text: str, most: int = 40) -> str:
    """A cell or name for a comment: on one line, printable, truncated."""
    return "".join(char if char.isprintable() else " " for char in text)[:most]


def _toml(value: Any) -> str:
    """A text, or a list of texts or numbers, as TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
