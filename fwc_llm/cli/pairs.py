"""KEY=VALUE options."""

import json
from typing import Any

from fwc_llm.errors import FwcError


def read_pairs(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """The pairs that `flag` was given: a value that is JSON is read as such, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise FwcError(f"{flag} {pair!r} is not KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
