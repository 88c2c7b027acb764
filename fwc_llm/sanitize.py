"""Makes what others wrote harmless, in one place: JSON, numbers and texts from services, files and cells.

Code behind this module need not expect endless numbers, half a character, commands to the terminal, or a key.
"""

import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

LONGEST_TEXT = 65_536  # characters of one text; a CSV reader takes twice as many by default
LARGEST_VALUE = 1_000_000  # characters of all texts of one value
_LARGEST_WHOLE = 2**53  # beyond it floats, JavaScript and spreadsheets round
_MOST_DIGITS = 4_000  # Python refuses to read more than 4,300
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_JOINERS = "\u200c\u200d"  # parts of words in Persian and Indic scripts, and of emoji
_LONGEST_LINE = 300
_TAG = re.compile(r"<[^<>]{1,500}>")
LIKE_A_KEY = re.compile(r"\b(?:Bearer|Basic)\s+\S{8}|\b[spr]k-[\w-]{12}", re.IGNORECASE)
_SHORTEST_KEY = 8  # a word like "x" or "EMPTY" is not a secret


def parse_json(text: str | bytes, strict: bool = False) -> Any:
    """The value that `text` writes. `ValueError` for text that is not JSON or is nested too deep.

    NaN, infinities and numbers too large for a float become None; `strict` refuses the former two.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # UnicodeDecodeError is a ValueError
    text = text.removeprefix("\ufeff")
    try:
        return (_STRICT if strict else _LENIENT).decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table that `text` writes. `ValueError` for text that is not TOML or is nested too deep."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def parse_uint(value: Any, most: int = _LARGEST_WHOLE) -> int | None:
    """`value` as a whole number from 0 to below `most`, or None."""
    number = parse_finite(value)
    if number is None or not 0 <= number < most or number != int(number):
        return None
    return int(value)


def parse_finite(value: Any) -> float | None:
    """`value` as a finite number, or None; true and false are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def utf8_safe(text: str) -> str:
    """`text` as UTF-8 can hold it: half of a surrogate pair becomes its escape."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def truncate(text: str, most: int = LONGEST_TEXT) -> str:
    """`text`, cut and marked as cut where it is longer than `most`."""
    if len(text) <= most:
        return text
    mark = f"… [cut: it had {len(text):,} characters]"
    return text[: max(most - len(mark), 0)] + mark


def listed(texts: Sequence[Any], most: int, words: Callable[[Any], str] = str, by: str = ", ") -> str:
    """The first of the `texts` in `words`, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return by.join(map(words, texts[:most])) + more


def as_single_line(text: str) -> str:
    """`text` on one line of at most 300 characters that a terminal can show, without HTML tags."""
    line = " ".join(_TAG.sub(" ", truncate(text, 10 * _LONGEST_LINE)).split())
    return truncate(replace_invisible(utf8_safe(line)), _LONGEST_LINE)


class Secret:
    """Keys, to be taken out of every text, in any case of their letters."""

    def __init__(self, *keys: str) -> None:
        longest_first = sorted((key for key in keys if len(key) >= _SHORTEST_KEY), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)

    def redact(self, text: str) -> str:
        """`text` with "[key]" in the place of a key. JSON must be parsed first, for its escapes."""
        return self._pattern.sub("[key]", text)


def escape_formula(text: str) -> str:
    """`text` as a cell of a CSV file: what a spreadsheet would take for a formula gets an apostrophe."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(cell: str) -> str:
    """The text that `escape_formula` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell


def sanitize_json(value: Any, clean: Callable[[str], str] = utf8_safe) -> Any:
    """Parsed JSON whose every text is clean, and cut where one is too long or all together are too large."""
    left = LARGEST_VALUE

    def text_of(text: str) -> str:
        nonlocal left
        cleaned = truncate(utf8_safe(clean(text)), min(LONGEST_TEXT, max(left, 0)))
        left -= len(cleaned)
        return cleaned

    def value_of(value: Any) -> Any:
        nonlocal left
        if isinstance(value, str):
            return text_of(value)
        left -= 1
        if isinstance(value, list):
            return [value_of(item) for item in value] if left > 0 else []
        if isinstance(value, dict):
            return {text_of(name): value_of(item) for name, item in value.items() if left > 0}
        return value

    try:
        return value_of(value)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def replace_invisible(text: str) -> str:
    """`text` for a terminal: what would steer it, turn text around or hide becomes U+FFFD.

    Line ends and tabs stay. All that a terminal is shown goes through here.
    """
    if text.isprintable():
        return text
    return "".join(map(_replace, text))


def escape_invisible(text: str) -> str:
    """JSON for a terminal, with escapes for the characters that `replace_invisible` replaces."""
    if text.isprintable():
        return text
    return "".join(
        character if _replace(character) == character else json.dumps(character)[1:-1] for character in text
    )


def _replace(character: str) -> str:
    if character.isprintable() or character in "\n\t" or character in _JOINERS:
        return character
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _decoder(constant: Callable[[str], None]) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_constant=constant,
        parse_float=lambda number: parse_finite(float(number)),
        parse_int=lambda number: int(number) if len(number) <= _MOST_DIGITS else None,
    )


_LENIENT, _STRICT = _decoder(lambda name: None), _decoder(_refuse_constant)
