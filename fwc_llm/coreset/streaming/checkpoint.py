"""Where a fit of a table in blocks stands, in a file: a fit that was cut off goes on from there."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np

from fwc_llm.coreset.streaming.blocks import Survey
from fwc_llm.coreset.streaming.loop import Course
from fwc_llm.coreset.streaming.sampled import widths_of
from fwc_llm.errors import InputError
from fwc_llm.files import LARGEST_FILE, home_expanded, read_text, reason, write_whole
from fwc_llm.untrusted import parse_json, shortened, visible

_FORMAT = 2
_FREE = ("n_jobs", "checkpoint", "max_passes")  # may change from one run to the next
_ARRAYS = {
    **dict.fromkeys(("points", "best"), (2, np.float64)),
    **dict.fromkeys(("prices", "sample_prices", "weights"), (1, np.float64)),
    **dict.fromkeys(("rows", "best_rows"), (1, np.int64)),
}
_COUNTS = ("starts", "agreeing", "readings")
_FLAGS = ("rough", "finished", "starved", "short", "converged")
_CLOSE = 1e-6  # relative difference of sums of the same masses


class Checkpoint:
    """A file for one fit: of these parameters, of one table.

    Raises:
        InputError: the file is no checkpoint, or one of a fit with other parameters.
    """

    def __init__(self, path: Any, parameters: Mapping[str, Any]) -> None:
        try:
            self.path = home_expanded(os.fspath(path))
            there = self.path.exists()
        except (TypeError, ValueError, OSError):
            raise InputError(f"checkpoint={_shown(repr(path))}: give the path of a file, or None") from None
        kept = {name: _in_words(value) for name, value in parameters.items() if name not in _FREE}
        if not isinstance(parameters["random_state"], Integral):
            kept["random_state"] = "no number"
        self._m = int(parameters["m"])
        self._parameters = kept
        self._check_writable()
        self._found = self._read() if there else {}

    def _check_writable(self) -> None:
        """Refuse a place where the work would be lost."""
        if not self.path.parent.is_dir():
            raise InputError(f"checkpoint {self.path}: its folder does not exist")
        if self.path.is_dir():
            raise InputError(f"checkpoint {self.path} is a folder: give the path of a file")
        trial = self.path.with_name(self.path.name + ".partial")  # the name of a file that is being written
        try:
            trial.unlink(missing_ok=True)
            trial.touch(exist_ok=False)
            trial.unlink()
        except OSError as error:
            raise InputError(f"checkpoint {self.path} cannot be written: {reason(error)}") from None

    def _read(self) -> dict[str, Any]:
        """What the file holds, checked."""
        try:
            found = parse_json(read_text(self.path, LARGEST_FILE))
            if found["format"] != _FORMAT:
                raise ValueError("it is of another version")
            parameters = dict(found["parameters"])
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
                    f"{_shown(self._parameters.get(name))}: delete it to start anew, or name another file"
                )
        try:
            seed = found["seed"]
            if not (type(seed) is int and 0 < seed < 2**53 and isinstance(found["table"], str)):
                raise ValueError("no seed, or no table")
            _check(_course(found))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise self._damaged(_shown(error)) from None
        return dict(found)

    def _damaged(self, what: str) -> InputError:
        return InputError(f"checkpoint {self.path} is damaged ({what}): delete it")

    @property
    def seed(self) -> int | None:
        """The seed of the fit that the file holds."""
        return int(self._found["seed"]) if self._found else None

    def load(self, stamp: str, survey: Survey, max_passes: int) -> Course | None:
        """Where the fit of the table stood, of which this is the survey; None if there was no file.

        Raises:
            InputError: it was a fit of another table.
        """
        if not self._found:
            return None
        if self._found["table"] != _hash(stamp + survey.fingerprint):
            raise InputError(
                f"checkpoint {self.path} is of another table, or the table has changed since: delete it to "
                "start anew, or name another file"
            )
        course = _course(self._found)
        if len(course.points) != self._m or not _fits(course, survey):
            raise self._damaged("its points are none of this table")
        if course.starved and course.readings < max_passes:
            course.finished = course.starved = False
        return course

    def save(self, course: Course, seed: int, stamp: str, survey: Survey) -> None:
        """Writes where the fit stands."""
        found = {
            "format": _FORMAT,
            "seed": seed,
            "table": _hash(stamp + survey.fingerprint),
            "parameters": self._parameters,
            "course": asdict(course),
        }
        write_whole(json.dumps(found, default=_listed), self.path, "the checkpoint ")


def _course(found: dict[str, Any]) -> Course:
    """The course in a file's content; `ValueError`, `KeyError` or `TypeError` if there is none."""
    course = Course(**found["course"])
    for name, (ndim, kind) in _ARRAYS.items():
        value = getattr(course, name)
        if value is None:
            continue
        array = np.array(value)
        if array.size and array.dtype.kind not in ("i" if kind is np.int64 else "if"):
            raise ValueError(f"{name} are no numbers")
        if array.ndim != ndim or not np.isfinite(array).all():
            raise ValueError(f"{name} have another shape, or are not finite")
        setattr(course, name, array.astype(kind))
    return course


def _check(course: Course) -> None:
    """`ValueError` or `TypeError` for what no fit leaves."""
    if course.points is None or course.weights is None:
        raise ValueError("no points")
    m = len(course.points)
    for name in _COUNTS:
        if type(getattr(course, name)) is not int or getattr(course, name) < 0:
            raise ValueError(f"{name} is no number of times")
    if any(type(getattr(course, name)) is not bool for name in _FLAGS):
        raise ValueError("it does not say where the fit stood")
    if any(rows is not None and len(rows) != m for rows in (course.rows, course.best_rows)):
        raise ValueError("not a row for every point")
    history = np.array(course.history, np.float64)
    begun = [course.best is not None, len(history) > 0, len(course.weights) > 0]
    if history.ndim != 1 or not np.isfinite(history).all() or (np.diff(history) >= 0).any():
        raise ValueError("its history does not fall")
    if any(begun) != all(begun) or (course.finished and not all(begun)):
        raise ValueError("a result is there in part")
    if course.best is None:
        return
    if course.best.shape != course.points.shape or course.weights.shape != (m,):
        raise ValueError("its arrays differ in shape")
    if (course.rows is None) != (course.best_rows is None):
        raise ValueError("rows are there in part")
    prices, expected = course.prices, course.sample_prices
    if prices is None or expected is None or prices.shape != expected.shape:
        raise ValueError("its prices differ in shape")
    if type(course.lower_bound) is not float or not -np.inf < course.lower_bound <= history[-1]:
        raise ValueError("its lower bound is none")
    if (course.weights < 0).any() or not course.weights.any():
        raise ValueError("its weights are none")


def _fits(course: Course, survey: Survey) -> bool:
    """Whether this is where a fit of a table may stand."""
    table, cells, widths = survey.sample, survey.cells, widths_of(survey)
    for points, rows in ((course.points, course.rows), (course.best, course.best_rows)):
        if points is None:
            continue
        codes = points[:, table.n_numeric :]
        if points.shape[1] != table.p or (codes != np.floor(codes)).any():
            return False
        if (codes < 0).any() or (codes >= np.array(widths)).any():
            return False
        if rows is not None and (rows.min() < 0 or rows.max() >= table.n):
            return False
        if rows is not None and (table.values[rows] != points).any():
            return False
    if course.best is None:
        return True
    near = np.isclose(course.weights.sum(), cells.sizes.sum(), rtol=_CLOSE)
    return bool(near and course.prices is not None and len(course.prices) == cells.n_cells)


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
