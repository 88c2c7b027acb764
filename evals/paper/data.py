"""Train/test splits of the paper's data sets, and the space in which distances are measured."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import Task, load_task

if TYPE_CHECKING:
    import pandas as pd

UNITS = ("standardised", "raw")
TRAIN_SHARE = 0.75


@dataclass(frozen=True)
class Part:
    """Rows of a table: `frame` (n rows, the feature columns), `y` (n,) 0/1, `d` (n,) protected levels."""

    frame: "pd.DataFrame"
    y: np.ndarray
    d: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)


@dataclass(frozen=True)
class Split:
    """One run's random division of a table: 75 % train, 25 % test, the same for every method."""

    task: Task
    train: Part
    test: Part


@lru_cache(maxsize=4)
def draw_split(dataset: str, run: int, data_dir: str | None = None, limit: int | None = None) -> Split:
    """The split of run `run`: the whole table shuffled by that seed, at most `limit` rows of it."""
    task = load_task(dataset, data_dir)
    order = np.random.default_rng(run).permutation(len(task.table))[:limit]
    cut = round(TRAIN_SHARE * len(order))

    def part(rows: np.ndarray) -> Part:
        chosen = task.table.iloc[rows]
        return Part(features_frame(task, chosen), task.labels(chosen), task.sensitive(chosen))

    return Split(task, part(order[:cut]), part(order[cut:]))


@lru_cache(maxsize=4)
def open_space(
    dataset: str, run: int, units: str, data_dir: str | None = None, limit: int | None = None
) -> "Space":
    """The space of one run's split, kept while neighbouring cells need it."""
    return Space(draw_split(dataset, run, data_dir, limit), units)


class Space:
    """Rows and representatives (x, d, y) as vectors, fitted to the train rows.

    In L1 between `vectors(…, "l1")`, and in squared L2 between `vectors(…, "sqeuclidean")`, a categorical
    mismatch, another protected level and another outcome cost 1 each (docs/method.md, "Ground cost and
    scaling"); numeric columns, and the ranks of ordinal ones, count z-scored ("standardised") or as they are
    ("raw").

    The methods get the features as a DataFrame in standardised units, which they scale in the same way, and
    as a plain array with one-hot columns in raw units, which they take as it is.
    """

    def __init__(self, split: Split, units: str = "standardised") -> None:
        self.split = split
        self.units = units
        self._kept: dict[tuple[bool, str], np.ndarray] = {}
        frame = split.train.frame
        both = [split.train.frame, split.test.frame]
        self._numeric = [c for c in frame.columns if _is_number(frame[c])]
        self._categories = {
            c: np.unique(np.concatenate([f[c].to_numpy(dtype=str) for f in both]))
            for c in frame.columns
            if c not in self._numeric
        }
        self._levels = np.unique(np.concatenate([split.train.d, split.test.d]))
        numbers = self._numbers(frame)
        self._mean, self._scale = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        if units == "standardised":
            spread = numbers.std(axis=0)
            self._mean, self._scale = numbers.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def features(self, part: Part, metric: str) -> Any:
        """What a method is given as X when it works in `metric`."""
        return part.frame if self.units == "standardised" else self._features(part.frame, metric)

    def rows(self, part: Part, metric: str) -> np.ndarray:
        """(n, q) vectors of the split's train or test rows, computed once."""
        key = (part is self.split.train, metric)
        if key not in self._kept:
            self._kept[key] = self.vectors(self.features(part, metric), part.d, part.y, metric)
        return self._kept[key]

    def vectors(self, points: Any, d: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
        """(m, q) vectors of points in the units of `features`, with their protected levels and outcomes."""
        x = self._features(points, metric) if hasattr(points, "iloc") else np.asarray(points, float)
        size = _mismatch(metric)
        return np.hstack([x, size * _one_hot(d, self._levels), size * _one_hot(y, np.array([0, 1]))])

    def design(self, points: Any, d: np.ndarray) -> np.ndarray:
        """(m, q) what a classifier sees: numbers in the space's units, one-hot columns, the protected level.

        `points` are a DataFrame, or an array as `features` gives it in raw units. The outcome is left out.
        """
        return np.hstack([self.design_without(points), _one_hot(d, self._levels)[:, 1:]])

    def design_without(self, points: Any) -> np.ndarray:
        """`design` without the protected level."""
        if hasattr(points, "iloc"):
            return np.hstack([self._scaled(points), self._coded(points)])
        numbers, codes = np.split(np.asarray(points, float), [len(self._numeric)], axis=1)
        return np.hstack([numbers, codes / _mismatch("l1")])

    def _features(self, frame: "pd.DataFrame", metric: str) -> np.ndarray:
        return np.hstack([self._scaled(frame), _mismatch(metric) * self._coded(frame)])

    def _scaled(self, frame: "pd.DataFrame") -> np.ndarray:
        return np.asarray((self._numbers(frame) - self._mean) / self._scale)

    def _numbers(self, frame: "pd.DataFrame") -> np.ndarray:
        columns = [_as_numbers(frame[c]) for c in self._numeric]
        return np.column_stack(columns) if columns else np.empty((len(frame), 0))

    def _coded(self, frame: "pd.DataFrame") -> np.ndarray:
        blocks = [_one_hot(frame[c].to_numpy(dtype=str), known) for c, known in self._categories.items()]
        return np.hstack(blocks) if blocks else np.empty((len(frame), 0))


def _mismatch(metric: str) -> float:
    """The height of a one-hot column at which a mismatch costs 1: twice ½ in L1, twice √½ squared in L2."""
    return 0.5 if metric == "l1" else float(np.sqrt(0.5))


def _one_hot(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.asarray(np.asarray(values)[:, None] == known[None], float)


def _is_number(series: "pd.Series[Any]") -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(series.dtype) or hasattr(series, "cat")


def _as_numbers(series: "pd.Series[Any]") -> np.ndarray:
    codes = series.cat.codes if hasattr(series, "cat") else series
    return codes.to_numpy(dtype=float)
