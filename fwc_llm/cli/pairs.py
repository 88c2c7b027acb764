"""KEY=VALUE options."""

from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.untrusted import parse_json


def read_pairs(pairs: list[str] | None, flag: str) -> dict[str, Any]:
    """The pairs that `flag` was given: a value that is JSON is read as such, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise FwcError(f"a {flag} is not KEY=VALUE")  # it may be a key: it is not repeated
        try:
            found[key] = parse_json(value, strict=True)
        except ValueError as error:
            if value[:1] in {"{", "["} and "nested" in str(error):
                raise FwcError(f"{flag} {key}: its value cannot be sent: {error}") from None
            found[key] = value
    return found
