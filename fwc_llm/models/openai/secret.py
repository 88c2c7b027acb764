"""A key, taken out of every text that could carry it: as it is, or in an encoding that a service may use."""

import base64
import re

_SHORTEST = 8  # a word like "x" or "EMPTY" is no secret
_SHOWN = "[key]"


class Secret:
    """Knows a key in all its known spellings: any case, URL, JSON and HTML escapes, hex and base64."""

    def __init__(self, key: str) -> None:
        self._known = len(key) >= _SHORTEST
        self._plain, self._hex = key.lower(), key.encode().hex()
        self._base64 = tuple(_base64(key))
        self._escaped = re.compile(f"{''.join(map(_spellings, key))}|{self._hex}", re.IGNORECASE)

    def redact(self, text: str) -> str:
        """`text` without the key. To be called on what a parser gave, whose escapes are undone."""
        if not self._known:
            return text
        for encoded in self._base64:
            text = text.replace(encoded, _SHOWN)
        lower = text.lower()
        if self._plain in lower or self._hex in lower or any(mark in text for mark in "\\%&"):
            text = self._escaped.sub(_SHOWN, text)
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
