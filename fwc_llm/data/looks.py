"""What the values of a column look like: numbers, money, dates, identifiers, free text, codes."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from fwc_llm.data.reading import Texts
from fwc_llm.data.writing import as_plain
from fwc_llm.taskfile import Written

FEW = 10  # a numeric column with at most so many distinct whole values may be a code
_NEARLY_ALL = 0.95
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


@dataclass(frozen=True)
class Look:
    """What a column is taken for: its kind, its role, how its numbers are written, and why (a comment)."""

    kind: Literal["numeric", "categorical"]
    role: Literal["feature", "extra", "id", "drop"] = "feature"
    written: Written = ""
    why: str = ""


def is_number(cell: str | None) -> bool:
    """Whether the cell writes a finite number as a program would."""
    try:
        return cell is not None and "_" not in cell and math.isfinite(float(cell))
    except ValueError:
        return False


def look_at(name: str, cells: Texts, special: bool = False) -> Look:
    """Judge a column by its name and values; a `special` one, protected or outcome, is never left out."""
    known = [cell for cell in cells if cell is not None]
    distinct = set(known)
    written = how_written(distinct)
    numeric = bool(distinct) and written is not None
    if special:
        return Look("numeric" if numeric else "categorical", written=written or "")
    left_out = _left_out(name, len(cells), known, distinct, numeric)
    if left_out is not None:
        return left_out
    if not numeric:
        return Look("categorical")
    few = len(distinct) <= FEW and all(float(cell).is_integer() for cell in distinct if is_number(cell))
    if not written and len(distinct) > 2 and few:
        why = f'CHECK: only {len(distinct)} values; a code? then kind = "categorical"'
        return Look("numeric", why=why)
    if not written and _may_be_thousands(distinct):
        example = next(cell for cell in sorted(distinct) if "." in cell)
        why = f'CHECK: {example} is read as a fraction; if it is thousands, written = "1.234,5"'
        return Look("numeric", why=why)
    return Look("numeric", written=written or "")


def how_written(distinct: Collection[str]) -> Written | None:
    """How these texts write numbers: "" as programs do, or as people do; None where they are no numbers.

    Of two ways to read them all, that in which separators stand between thousands.
    """
    if all(map(is_number, distinct)):
        return ""
    ways: list[Written] = [
        way for way in ("1,234.5", "1.234,5") if all(is_number(as_plain(cell, way)) for cell in distinct)
    ]
    if len(ways) < 2:
        return ways[0] if ways else None
    grouped = re.compile(r"\d\.\d{3}(?!\d)")
    return "1.234,5" if any(grouped.search(cell) for cell in distinct) else "1,234.5"


def _may_be_thousands(distinct: Collection[str]) -> bool:
    dotted = [cell for cell in distinct if "." in cell]
    return len(dotted) > FEW and all(re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", cell) for cell in dotted)


def _left_out(name: str, n: int, known: list[str], distinct: set[str], numeric: bool) -> Look | None:
    """Why a column is no feature, if it looks like none."""
    kind: Literal["numeric", "categorical"] = "numeric" if numeric else "categorical"

    def drop(why: str) -> Look:
        return Look(kind, "drop", why=why)

    if not distinct:
        return drop("it has no values")
    if len(distinct) == 1 and n > 2:
        return drop("CHECK: it has the same value in every row")
    if _share(_DATE, distinct) or (_DATE_NAME.search(name) and _share(_COMPACT_DATE, distinct)):
        return drop("CHECK: dates; to use them, turn them into numbers, such as days or years")
    if len(distinct) > FEW and all(is_number(cell) and _is_day(float(cell)) for cell in distinct):
        return drop("CHECK: dates, in milliseconds since 1970; to use them, turn them into days or years")
    zeros = any(cell.startswith("0") for cell in distinct)
    if _ZIP_NAME.search(name) or (zeros and len(distinct) > 20 and _share(_ZIP, distinct)):
        return drop("CHECK: ZIP codes: numbers only in looks, and they may stand for the protected group")
    many = len(distinct) > FEW
    if many and not numeric and _share(_CONTACT, distinct):
        return drop("CHECK: addresses or telephone numbers of people")
    whole = numeric and all(is_number(cell) and float(cell).is_integer() for cell in distinct)
    named = bool(_ID_NAME.search(name))
    if len(distinct) == n and many and (not numeric or whole):
        numbers = [float(cell) for cell in distinct] if whole else []
        if not numeric or named or max(numbers) - min(numbers) < 2 * n:
            if any(" " in cell for cell in distinct) and _words(known) >= 4:
                return drop(f"CHECK: free text, {len(distinct):,} different ones")
            return Look(kind, "id", why="CHECK: every value differs, so it was taken for an id")
    if many and named and (whole or not numeric) and len(distinct) > len(known) / 4:
        return drop("CHECK: identifiers, though some repeat")
    if numeric:
        return None
    if _PERSON_NAME.search(name) and len(distinct) > 20:
        return drop("CHECK: names of people")
    if len(distinct) > 20 and _words(known) >= 4:
        return drop(f"CHECK: free text, {len(distinct):,} different ones")
    if len(distinct) > max(50, n // 4):
        return drop(f"CHECK: {len(distinct):,} different texts are too many for a category")
    return None


def _is_day(milliseconds: float) -> bool:
    """Whether a number is the midnight of a day between 1973 and 2128, as pandas writes dates in JSON."""
    return 1e11 < milliseconds < 5e12 and milliseconds % 86_400_000 == 0


def _share(pattern: re.Pattern[str], distinct: Collection[str]) -> bool:
    """Whether nearly all of the values match."""
    return sum(bool(pattern.fullmatch(cell)) for cell in distinct) >= _NEARLY_ALL * len(distinct)


def _words(known: list[str]) -> float:
    """Words in a value, on average."""
    return sum(len(cell.split()) for cell in known) / max(len(known), 1)
