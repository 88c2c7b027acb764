"""A key, taken out of every text that could carry it: as it is, or in an encoding that a service may use."""

import base64
import html
import logging
import re
from string import ascii_uppercase
from urllib.parse import unquote

_SHORTEST = 8  # a word like "x" or "EMPTY" is no secret
_TELLING = 16  # letters and digits in a row that no other text has by accident
_SHOWN = "[key]"
_MARKS = "\\%&<"  # how escapes begin
_ESCAPE = re.compile(r"(?:\\+(?:u00|u\{0*|x)|%u00)([0-9a-f]{2})\}?", re.IGNORECASE)
_LINE_ESCAPE = re.compile(r"\\+[nrt]")
_TAG = re.compile(r"<[^<>]{0,200}>")
_NO_LETTER = re.compile(r"[^0-9a-z]+")
_SMALL = {ord(letter): letter.lower() for letter in ascii_uppercase}
_MOST_LAYERS = 3  # of escapes around escapes


_LOGGERS = ("openai", "openai._base_client", "openai._response", "httpx2", "httpcore2.connection",
            "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks")  # fmt: skip


class Secret:
    """Knows a key in all its known spellings: any case, URL, JSON and HTML escapes, hex and base64.

    Of a key that is long enough also its parts are known, and it may be split by line ends, spaces and marks.
    """

    def __init__(self, key: str) -> None:
        self._known = len(key) >= _SHORTEST
        forms = [key, key.encode().hex(), *sorted(_base64(key))]
        self._pattern = re.compile("|".join("".join(map(_spellings, form)) for form in forms), re.IGNORECASE)
        self._telling = tuple(letters for form in forms if len(letters := _letters(form)) >= _TELLING)
        self._plain = tuple(form.lower() for form in forms)
        places = range(0, len(key) - _TELLING + 1, _TELLING // 2)
        self._parts = {key[at : at + _TELLING].lower(): at for at in places}

    def redact(self, text: str) -> str:
        """`text` without the key. To be called on what a parser gave, whose escapes are undone."""
        if len(text) < _SHORTEST or not self._known:
            return text
        if self.is_in(text):
            text = self._pattern.sub(_SHOWN, text)
            if self.is_in(text):  # spelt in a way that cannot be cut out
                return _SHOWN
        return self._without_parts(text)

    def hide_in_logs(self) -> None:
        """Redact what the libraries below log, which at the level DEBUG includes a response's headers."""
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            if not any(isinstance(known, _LogFilter) and known.is_for(self) for known in logger.filters):
                logger.addFilter(_LogFilter(self))

    def _without_parts(self, text: str) -> str:
        """`text` without what a cut has left of the key, where that is long enough to tell."""
        key, lower = self._plain[0], _lower(text)
        while found := next((part for part in self._parts if part in lower), None):
            begin, first = lower.index(found), self._parts[found]
            end, last = begin + len(found), first + len(found)
            while begin > 0 and first > 0 and lower[begin - 1] == key[first - 1]:
                begin, first = begin - 1, first - 1
            while lower[end : end + 1] == key[last : last + 1] != "":
                end, last = end + 1, last + 1
            text = f"{text[:begin]}{_SHOWN}{text[end:]}"
            lower = _lower(text)
        return text

    def is_in(self, text: str) -> bool:
        """Whether the whole key can be read in `text`."""
        lower = _lower(text)
        seen = [lower, _unescaped(lower)] if any(mark in text for mark in _MARKS) else [lower]
        if any(form in each for each in seen for form in self._plain):
            return True
        return len(text) >= _TELLING and any(
            form in letters for letters in map(_letters, seen) for form in self._telling
        )


class _LogFilter(logging.Filter):
    def __init__(self, secret: Secret) -> None:
        super().__init__()
        self._secret = secret

    def is_for(self, secret: Secret) -> bool:
        return self._secret._plain == secret._plain

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (clean := self._secret.redact(message)) != message:
            record.msg, record.args = clean, ()
        return True


def _lower(text: str) -> str:
    """`text` in lower case, each character in its place: "İ" would become two."""
    return text.lower() if text.isascii() else text.translate(_SMALL)


def _letters(text: str) -> str:
    return _NO_LETTER.sub("", text.lower())


def _unescaped(text: str) -> str:
    text = _TAG.sub("", text)
    for _ in range(_MOST_LAYERS):
        before = text
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), _LINE_ESCAPE.sub("", text))
        text = html.unescape(unquote(text.replace("\\", ""))).lower()
        if text == before:
            break
    return text


def _spellings(character: str) -> str:
    """A pattern for one character of a key, escaped or not."""
    code = ord(character)
    return (
        rf"(?:{re.escape(character)}|\\+u00{code:02x}|\\+x{code:02x}|\\+{re.escape(character)}"
        rf"|%(?:25)*{code:02x}|&\#0*{code};?|&\#x0*{code:x};?)"
    )


def _base64(key: str) -> set[str]:
    """What base64 makes of the key at each of the three places where it can begin in a longer text."""
    found = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + key.encode()).decode()
        # The characters at both ends share bits with their neighbours.
        inner = encoded[-(-before * 4 // 3) :].rstrip("=")[: -1 if (before + len(key)) % 3 else None]
        found |= {inner, inner.translate(str.maketrans("+/", "-_"))}
    return found
