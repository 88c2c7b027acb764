"""A value as a table writes it: the text of a typed cell, the number that a text writes; without pandas."""

import json
import math
import re
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from fwc_llm.sanitize import parse_json, utf8_safe
from fwc_llm.taskfile import Written

# What may stand around a number: a currency's sign or letters, a per cent sign, spaces.
_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|SEK|NOK|DKK|PLN|CZK|HUF|RON|CAD|AUD|NZD|BRL|MXN|ZAR|TRY|RUB|KRW|ILS"
    "|DM|kr|Kr|zł|Fr|Rs"
)
_AROUND = rf"(?:(?:{_CODES})\.?|[A-Z]{{0,3}}[$€£¥]|[₹₩₽₺¢%])?"
_LONGEST = 60  # characters of a number with all that stands around it
_NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+−]?)\s*{_AROUND}\s*(?P<inner>[-+−]?)\s*"
    rf"(?P<digits>\d[\d.,'’\s]*|[.,]\d+)\s*{_AROUND}\s*(?P<close>\))?"
)
_GROUPED = {
    "1,234.5": re.compile(r"(?:\d{1,3}(?:[,'’\s]\d{3})+|\d*)(?:\.\d*)?"),
    "1.234,5": re.compile(r"(?:\d{1,3}(?:[.'’\s]\d{3})+|\d*)(?:,\d*)?"),
}
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")  # of a path


def is_null(cell: Any) -> bool:
    """Whether a typed cell is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return type(cell).__name__.startswith("float") and bool(cell != cell)


def as_text(cell: Any, written: Written = "") -> str:
    """A typed cell as people write it: 39.0 is "39", True is "true", a float32 has its own shortest digits.

    A number has the decimal sign of `written`. A list or an object is its JSON.
    """
    if isinstance(cell, str):  # almost every cell
        return cell if cell.isascii() else utf8_safe(cell)
    kind = type(cell).__name__
    if kind == "bool":  # numpy's, too
        return str(cell).lower()
    if isinstance(cell, float | Decimal) or kind in ("float32", "float16"):
        text = format(cell, "f") if isinstance(cell, Decimal) else str(cell)
        if not isinstance(cell, Decimal) and float(text).is_integer():
            text = str(int(float(text)))
        return text.replace(".", ",") if written == "1.234,5" and "e" not in text else text
    if isinstance(cell, date):
        return str(cell).removesuffix(" 00:00:00")
    if isinstance(cell, timedelta):  # pandas writes its own in another way
        return str(timedelta(cell.days, cell.seconds, cell.microseconds))
    if isinstance(cell, dict | list) or kind == "ndarray":
        return utf8_safe(json.dumps(cell, ensure_ascii=False, default=_listed))
    if isinstance(cell, bytes):  # as some writers of Parquet keep texts
        return cell.decode("utf-8", "backslashreplace")
    return utf8_safe(str(cell))


def _listed(cell: Any) -> Any:
    """What JSON has no type for: the items of an array, else the text."""
    return cell.tolist() if type(cell).__name__ == "ndarray" else as_text(cell)


def bases_of(names: Iterable[str]) -> set[str]:
    """The names, and the columns into which they may be paths: "a", "a.b" and "a.b[0]" of "a.b[0]"."""
    return {name[: end.start()] for name in names for end in re.finditer(r"[.\[]|$", name)}


def at(value: Any, path: str) -> Any:
    """What stands at a path ("choices[0].text") in a value of JSON, also of JSON in a text; else None."""
    for key, number in _STEP.findall(path):
        if isinstance(value, str):
            value = opened(value)
        if isinstance(value, list) and number and int(number) < len(value):
            value = value[int(number)]
        else:
            value = value.get(key) if isinstance(value, dict) and key else None
    return value


def opened(cell: Any) -> Any:
    """The object, list or text that a cell holds as JSON; any other cell as it is."""
    try:
        return parse_json(cell) if isinstance(cell, str) and cell[:1] in ("{", "[", '"') else cell
    except ValueError:
        return cell


def title_of(name: Any) -> str:
    """The title of a column whose name may be any label; of a tuple its parts, joined by dots."""
    parts = [str(part) for part in name if part != ""] if isinstance(name, tuple) else [str(name).strip()]
    return ".".join(parts)


def as_number(cell: str) -> float | None:
    """The finite number that a cell writes as programs do, or None. Python's own 1_000 is not."""
    try:
        number = float(cell) if "_" not in cell else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def as_plain(cell: str, written: Written) -> str:
    """The number that people write in `cell` (1.234,5 EUR, (12)) as "1234.5"; any other cell as it is."""
    match = _NUMBER.fullmatch(cell) if len(cell) <= _LONGEST else None
    if not written or match is None or bool(match["open"]) != bool(match["close"]):
        return cell
    digits = match["digits"].strip()
    if not _GROUPED[written].fullmatch(digits) or not any(map(str.isdigit, digits)):
        return cell
    plain = re.sub(r"[^\d.,]", "", digits)
    plain = plain.replace(",", "") if written == "1,234.5" else plain.replace(".", "").replace(",", ".")
    negative = bool(match["open"]) + (match["sign"] in "-−" and bool(match["sign"]))
    negative += match["inner"] in "-−" and bool(match["inner"])
    return f"-{plain}" if negative == 1 else plain if negative == 0 else cell
