"""Sanitizes untrusted JSON, numbers and texts from services, files and cells; takes out API
keys.
"""

import html
import json
import math
import os
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, TypeAlias

# Values by name: a row, a record, an object of JSON.
Fields: TypeAlias = Mapping[str, Any]
Json: TypeAlias = dict[str, Any]  # an object of JSON
Texts: TypeAlias = tuple[str, ...]
Counts: TypeAlias = Mapping[str, int]  # the number of rows of each text
LONGEST_TEXT = (
    65_536  # characters of one text; the limit of Python's CSV reader is twice as large
)
LARGEST_VALUE = 1_000_000  # characters of all texts of one JSON value together
_LARGEST_WHOLE = 2**53  # floats, JavaScript and spreadsheets round larger whole numbers
_MOST_DIGITS = 4_000  # Python refuses to read more than 4,300
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_JOINERS = "\u200c\u200d"  # parts of words in Persian and Indic scripts, and of emoji
_LONGEST_LINE = 300
_TAG = re.compile(r"<(?!lambda>|locals>)[^<>]{1,500}>")  # no names of functions
LIKE_A_KEY = re.compile(
    r"(?:\b|(?<=%[\dA-Fa-f]{2})|(?<=\\[nrt])|(?<=\\u[\dA-Fa-f]{4}))(?=[AEBabeghprsx])"
    r"(?:sk-[\w-]{12,}|[spr]k_(?:live|test)_\w{8,}|gsk_[A-Za-z0-9]{12,}|(?:hf|r8)_[A-Za-z0-9]{20,}"
    r"|xai-\w{20,}|AIza[\w-]{20,}|gh[opsur]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}"
    r"|[Bb]earer\s+(?=\S*[\d_-])\S{8,})"
)
_NAME_OF_KEY = re.compile(
    (
        r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?:^|_)(?:PASS|PAT"
        r"|AUTH))S?(?:_|\d|$)"
    ),
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_KEY_VARIABLES = set[str]()  # that --api-key-env named
_SHORTEST_KEY = 8  # a word like "x" or "EMPTY" is not a secret


def parse_json(text: str | bytes, strict: bool = False) -> Any:
    """Parse JSON; `ValueError` if it is invalid or nested too deep.

    NaN, infinities (with `strict` a `ValueError`) and numbers too large for a float become None.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # UnicodeDecodeError is a ValueError
    text = text.removeprefix("\ufeff")
    try:
        return (_STRICT if strict else _LENIENT).decode(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. `ValueError` for text that is not TOML or is nested too deep."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def mapping_of(value: Any) -> Mapping[str, Any]:
    """`value` if it is a mapping, such as an object of JSON; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """`value` if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def parse_uint(value: Any, most: int = _LARGEST_WHOLE) -> int | None:
    """`value` as an int in [0, `most`); None for any other value."""
    number = parse_finite(value)
    if number is None or not 0 <= number < most or number != int(number):
        return None
    return int(value)


def parse_finite(value: Any) -> float | None:
    """`value` as a finite float; None for any other value, True and False included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if math.isfinite(number):
        return number
    return None


def utf8_safe(text: str) -> str:
    """`text` with lone surrogates escaped, so that UTF-8 can encode it."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def truncate(text: str, most: int = LONGEST_TEXT) -> str:
    """`text` cut to `most` characters; a cut text ends with its original length."""
    if len(text) <= most:
        return text
    mark = f"… [cut: it had {len(text):,} characters]"
    return text[: max(most - len(mark), 0)] + mark


def listed(
    texts: Sequence[Any], most: int, words: Callable[[Any], str] = str, by: str = ", "
) -> str:
    """The first `most` texts, each formatted by `words`, and the number of the rest."""
    if len(texts) > most:
        more = f" and {len(texts) - most:,} more"
    else:
        more = ""
    return by.join(map(words, texts[:most])) + more


def as_single_line(text: str) -> str:
    """`text` on one line of at most 300 characters, for terminals, without HTML and keys."""
    line = " ".join(_TAG.sub(" ", truncate(redact(text), 10 * _LONGEST_LINE)).split())
    return truncate(replace_invisible(utf8_safe(line)), _LONGEST_LINE)


def hide_variable(name: str) -> None:
    """From now on, the value of this environment variable is a key, whatever its name."""
    _KEY_VARIABLES.add(name)


def _redactor(by_form: bool = True) -> Callable[[str], str]:
    """A function that replaces keys in a text by [key]; see `redact`."""
    known = _pattern(frozenset(_keys()))
    if by_form:
        return lambda text: LIKE_A_KEY.sub("[key]", known.sub("[key]", text))
    return lambda text: known.sub("[key]", text)


def redact(text: str, by_form: bool = True) -> str:
    """A text without the keys in the environment and, `by_form`, without what looks like a key.

    A table's cell may look like one: files keep it, because prompts hold it, too.
    """
    return _redactor(by_form)(text)


def _keys() -> Iterator[str]:
    """The keys in the environment: by the variable's name, in headers, and in addresses."""
    for name, value in os.environ.items():
        if name in _KEY_VARIABLES or _NAME_OF_KEY.search(name):
            yield value.strip()
        elif "@" in value:
            yield from _PASSWORD.findall(value)
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines():
        header = line.partition(":")[2].strip()
        yield header
        yield header.rpartition(" ")[2]


@lru_cache(maxsize=8)
def _pattern(keys: Set[str]) -> re.Pattern[str]:
    """A pattern for keys, plain or escaped in JSON, HTML and addresses, the longest first."""
    spelled = [
        f"{''.join(map(_spelled, key))}|{''.join(f'%{ord(character):02x}' for character in key)}"
        for key in sorted(keys, key=len, reverse=True)
        if len(key) >= _SHORTEST_KEY
        and not os.path.exists(key)  # some name a file with a key
    ]
    return re.compile("|".join(spelled) or r"(?!)", re.IGNORECASE)


def _spelled(character: str) -> str:
    """A pattern for a character of a key and for its escapes."""
    if character.isalnum():
        return re.escape(character)
    code = ord(character)
    escapes = (
        rf"%(?:25)*{code:02x}|\\?{re.escape(character)}|\\u{code:04x}|&#0*{code};"
        rf"|&#x0*{code:x};"
    )
    return f"(?:{escapes}|{re.escape(html.escape(character))})"


def escape_formula(text: str) -> str:
    """Put an apostrophe before a CSV cell that spreadsheets would take for a formula."""
    if _FORMULA.match(text):
        return f"'{text}"
    return text


def unescape_formula(cell: str) -> str:
    """The inverse of `escape_formula`."""
    if cell.startswith("'") and _FORMULA.match(cell, 1):
        return cell[1:]
    return cell


def clean_text(text: str) -> str:
    """A reply's text without keys, as UTF-8, and cut to `LONGEST_TEXT`."""
    return truncate(utf8_safe(_redactor()(text)))


def sanitize_json(value: Any) -> Any:
    """Parsed JSON, or a text, without keys and cut to the limits above."""
    left = LARGEST_VALUE
    without_keys = _redactor()

    def text_of(text: str) -> str:
        nonlocal left
        cleaned = truncate(
            utf8_safe(without_keys(text)), min(LONGEST_TEXT, max(left, 0))
        )
        left -= len(cleaned)
        return cleaned

    def value_of(value: Any) -> Any:
        nonlocal left
        if isinstance(value, str):
            return text_of(value)
        left -= 1
        if isinstance(value, list):
            if left > 0:
                return [value_of(item) for item in value]
            return []
        if isinstance(value, dict):
            return {
                text_of(name): value_of(item)
                for name, item in value.items()
                if left > 0
            }
        return value

    try:
        return value_of(value)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def replace_invisible(text: str) -> str:
    """Replace control, bidirectional and invisible characters by U+FFFD."""
    if text.isprintable():
        return text
    return "".join(map(_replace, text))


def escape_invisible(text: str) -> str:
    """JSON with escapes for the characters that `replace_invisible` would replace."""
    if text.isprintable():
        return text
    return "".join(
        character if _replace(character) == character else json.dumps(character)[1:-1]
        for character in text
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


_LENIENT = _decoder(lambda name: None)
_STRICT = _decoder(_refuse_constant)


def described(error: BaseException) -> str:
    """An exception on one line; its type alone where its `__str__` fails."""
    try:
        words = str(error)
    except Exception:
        words = ""
    return as_single_line(f"{type(error).__name__}: {words}".rstrip(": "))


def kind_of(value: Any) -> str:
    """A value's type with an article ("a list"), never its untrusted content."""
    if value is None:
        return "nothing (None)"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {replace_invisible(name)}"
