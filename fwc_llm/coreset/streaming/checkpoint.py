"""Where a fit of a table in blocks stands, in a file: a fit that was cut off goes on from there."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fwc_llm.coreset.streaming.loop import Course
from fwc_llm.errors import InputError
from fwc_llm.files import LARGEST_FILE, read_text, reason, write_whole
from fwc_llm.untrusted import parse_json, shortened, visible

_FORMAT = 1
_FREE = ("n_jobs", "checkpoint", "max_passes", "random_state")  # may change from one run to the next
_ARRAYS = {
    **dict.fromkeys(("points", "prices", "sample_prices", "best", "weights"), np.float64),
    **dict.fromkeys(("rows", "best_rows"), np.int64),
}


class Checkpoint:
    """A file for one fit: of these parameters, of one table.

    Raises:
        InputError: the file is no checkpoint, or one of a fit with other parameters.
    """

    def __init__(self, path: Any, parameters: Mapping[str, Any]) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise InputError(f"checkpoint={path!r}: give the path of a file, or None") from None
        self._parameters = {name: _in_words(value) for name, value in parameters.items() if name not in _FREE}
        self._found = self._read()

    def _read(self) -> dict[str, Any]:
        """What the file holds, checked; nothing if there is none."""
        if not self.path.exists():
            if not self.path.parent.is_dir():
                raise InputError(f"checkpoint {self.path}: its folder does not exist")
            return {}
        try:
            found = parse_json(read_text(self.path, LARGEST_FILE))
            if found["format"] != _FORMAT:
                raise ValueError("it is of another version")
            parameters = dict(found["parameters"])
            _course(found)
            int(found["seed"])
        except OSError as error:
            raise InputError(f"checkpoint {self.path} cannot be read: {reason(error)}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{self.path} is no checkpoint of a fit ({_shown(error)}): delete it, or name another file"
            ) from None
        for name in sorted(parameters.keys() | self._parameters.keys()):
            if parameters.get(name) != self._parameters.get(name):
                raise InputError(
                    f"checkpoint {self.path} is of a fit with {name}={_shown(parameters.get(name))}, not "
                    f"{self._parameters.get(name)}: delete it to start anew, or name another file"
                )
        return dict(found)

    @property
    def seed(self) -> int | None:
        """The seed of the fit that the file holds."""
        return int(self._found["seed"]) if self._found else None

    def load(self, stamp: str, max_passes: int) -> Course | None:
        """Where the fit stood; None if there was no file.

        Raises:
            InputError: it was a fit of another table.
        """
        if not self._found:
            return None
        if self._found["table"] != _hash(stamp):
            raise InputError(
                f"checkpoint {self.path} is of another table, or the table has changed since: delete it to "
                "start anew, or name another file"
            )
        course = _course(self._found)
        if course.starved and course.readings < max_passes:
            course.finished = course.starved = False
        return course

    def save(self, course: Course, seed: int, stamp: str) -> None:
        """Writes where the fit stands."""
        found = {
            "format": _FORMAT,
            "seed": seed,
            "table": _hash(stamp),
            "parameters": self._parameters,
            "course": asdict(course),
        }
        write_whole(json.dumps(found, default=_listed), self.path, "the checkpoint ")


def _course(found: dict[str, Any]) -> Course:
    """The course in a file's content; `ValueError`, `KeyError` or `TypeError` if there is none."""
    course = Course(**found["course"])
    for name, kind in _ARRAYS.items():
        if getattr(course, name) is not None:
            setattr(course, name, np.array(getattr(course, name), kind))
    return course


def _listed(value: Any) -> Any:
    """Arrays and numbers of numpy as JSON has them."""
    return value.tolist()


def _shown(value: Any) -> str:
    return visible(shortened(str(value), 80))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _in_words(value: Any) -> str:
    """A parameter in a line; arrays and tables by their content."""
    if hasattr(value, "shape"):
        array = np.asarray(value)
        return f"{type(value).__name__} {array.shape} {_hash(str(array.tolist()))[:16]}"
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__} {_hash(text)[:16]}"
