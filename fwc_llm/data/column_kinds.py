"""What the values of a column look like: numbers, money, dates, identifiers, free text, codes."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fwc_llm.data.reading import as_number, as_plain
from fwc_llm.taskfile import Written

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
