"""What reads the values of a task file and complains with the file's name and the key's path."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.untrusted import shortened

_LONGEST_COMPLAINT = 2000  # characters


class Reader:
    """Reads values of the parsed TOML; a mistake is an `FwcError` with file, key and remedy."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, where: str, problem: str) -> FwcError:
        """The error for a problem at the key `where`."""
        said = shortened(f"{where}: {problem}" if where else problem, _LONGEST_COMPLAINT)
        return FwcError(f"{self.path}: {said}")

    def table(self, value: Any, where: str, allowed: Sequence[str]) -> dict[str, Any]:
        """`value` as a TOML table without keys that nobody would read."""
        if not isinstance(value, dict):
            raise self.fail(where, f"expected a table, found {value!r}")
        for key in value:
            if key not in allowed:
                near = get_close_matches(key, allowed, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(allowed)}"
                raise self.fail(where, f"unknown key {key!r}; {hint}")
        return value

    def string(self, table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
        """A text, not empty unless there is a default."""
        value = table.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            found = "it is missing" if value is None else f"found {value!r}"
            raise self.fail(where, f"{key!r} must be a text; {found}")
        return value

    def choice(
        self, table: Mapping[str, Any], key: str, where: str, options: Sequence[str], default: str
    ) -> str:
        """One of the `options`."""
        value = table.get(key, default)
        if value not in options:
            raise self.fail(where, f"{key} = {value!r} is none of {', '.join(map(repr, options))}")
        return str(value)

    def flag(self, table: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
        """True or false."""
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(where, f"{key} = {value!r} must be true or false")
        return value

    def values(self, table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
        """One value or a list of values, as the texts that the file has (1 and "1" are the same)."""
        value = table.get(key, [])
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, (str, int, float)) for item in items):
            raise self.fail(where, f"{key!r} must be a value or a list of values; found {value!r}")
        return tuple(_as_written(item) for item in items)

    def mapping(self, value: Any, where: str) -> dict[str, str]:
        """A table of texts."""
        if not isinstance(value, dict) or not all(isinstance(words, str) for words in value.values()):
            raise self.fail(where, f'expected a table of value = "words"; found {value!r}')
        return dict(value)

    def above(self, table: Mapping[str, Any], where: str) -> float | None:
        """The number in `threshold = { above = 0.06 }`, or None without a threshold."""
        if "threshold" not in table:
            return None
        threshold = self.table(table["threshold"], f"{where}.threshold", ("above",))
        number = threshold.get("above")
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not abs(number) < float("inf"):
            raise self.fail(where, f"write the threshold as {{ above = NUMBER }}; found {threshold!r}")
        return float(number)


def _as_written(value: str | int | float) -> str:
    """A TOML value as a CSV file would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def near(name: str, names: Sequence[Any]) -> str:
    """A hint: the name that was perhaps meant, or those there are."""
    names = [known for known in names if isinstance(known, str)]
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names[:20])}"
