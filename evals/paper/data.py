"""Train/test splits of the paper's data sets, and the space in which distances are measured."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.encoding import encode, encode_array
from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import Task, load_task

if TYPE_CHECKING:
    import pandas as pd

UNITS = ("standardised", "raw")
TRAIN_SHARE = 0.75


@dataclass(frozen=True)
class Part:
    """Rows of a table: `frame` (n rows, the feature columns), `y` (n,) 0/1, `d` (n,) protected
    levels.
    """

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
def draw_split(
    dataset: str, run: int, data_dir: str | None = None, limit: int | None = None
) -> Split:
    """The split of run `run`: the whole table shuffled by that seed, at most `limit` rows of it."""
    task = load_task(dataset, data_dir)
    order = np.random.default_rng(run).permutation(len(task.table))[:limit]
    cut = round(TRAIN_SHARE * len(order))

    def part(rows: np.ndarray) -> Part:
        chosen = task.table.iloc[rows]
        return Part(
            features_frame(task, chosen), task.labels(chosen), task.sensitive(chosen)
        )

    return Split(task, part(order[:cut]), part(order[cut:]))


@lru_cache(maxsize=4)
def open_space(
    dataset: str,
    run: int,
    units: str,
    data_dir: str | None = None,
    limit: int | None = None,
) -> "Space":
    """The space of one run's split, kept while neighbouring cells need it."""
    return Space(draw_split(dataset, run, data_dir, limit), units)


class Space:
    """Rows and representatives (x, d, y) as tables, fitted to the train rows.

    Distances between `table`s are ground costs without scales for cells: a categorical mismatch,
    another protected level and another outcome cost 1 each
    (docs/method.md, "Ground cost and scaling"). Numeric columns, and the ranks of ordinal ones,
    are z-scored ("standardised") or
    unchanged ("raw").

    In standardised units the methods get the features as a DataFrame, which they scale in the same
    way. In raw units they get a plain array with one-hot columns, which they use as it is.
    """

    def __init__(self, split: Split, units: str = "standardised") -> None:
        self.split = split
        self.units = units
        self._kept: dict[tuple[bool, str], EncodedTable] = {}
        encoder = encode(split.train.frame)[0]
        if units == "raw":
            encoder = replace(
                encoder,
                columns=tuple(replace(c, mean=0.0, scale=1.0) for c in encoder.columns),
            )
        self._encoder = encoder
        both = [split.train.frame, split.test.frame]
        self._categories = {
            column.name: np.unique(
                np.concatenate(
                    [frame[column.name].to_numpy(dtype=str) for frame in both]
                )
            )
            for column in encoder.columns
            if column.kind == "categorical"
        }
        self._levels = np.unique(np.concatenate([split.train.d, split.test.d]))

    def features(self, part: Part, metric: str) -> Any:
        """The X for a method that works in `metric`."""
        if self.units == "standardised":
            return part.frame
        return self._one_hot(part.frame, _mismatch(metric))

    def rows(self, part: Part, metric: str) -> EncodedTable:
        """The split's train or test rows, encoded once."""
        key = (part is self.split.train, metric)
        if key not in self._kept:
            self._kept[key] = self.table(self.features(part, metric), part.d, part.y)
        return self._kept[key]

    def table(self, points: Any, d: np.ndarray, y: np.ndarray) -> EncodedTable:
        """Points (m) in the units of `features`, with their protected levels and outcomes as
        codes.
        """
        if hasattr(points, "iloc"):
            features = self._encoder.encode(points, strict=False)
        else:
            features = encode_array(points)
        labels = [features.codes, np.searchsorted(self._levels, d), y]
        return EncodedTable(features.numbers, np.column_stack(labels).astype(np.int32))

    def design(self, points: Any, d: np.ndarray) -> np.ndarray:
        """(m, q) input of a classifier: numbers in the space's units, one-hot columns, the
        protected level.

        `points` are a DataFrame, or an array as `features` gives it in raw units. The outcome is
        left out.
        """
        return np.hstack(
            [self.design_without(points), _columns(d, self._levels)[:, 1:]]
        )

    def design_without(self, points: Any) -> np.ndarray:
        """`design` without the protected level."""
        if hasattr(points, "iloc"):
            return self._one_hot(points, 1.0)
        n_codes = sum(map(len, self._categories.values()))
        numbers, codes = np.split(
            np.asarray(points, float), [np.shape(points)[1] - n_codes], axis=1
        )
        return np.hstack([numbers, codes / _mismatch("l1")])

    def _one_hot(self, frame: "pd.DataFrame", height: float) -> np.ndarray:
        """The numbers, and a column of this height for every category of the train and the test
        rows.
        """
        numbers = self._encoder.encode(frame, strict=False).numbers
        blocks = [
            height * _columns(frame[name].to_numpy(dtype=str), known)
            for name, known in self._categories.items()
        ]
        return np.hstack([numbers, *blocks])


def _mismatch(metric: str) -> float:
    """The height of a one-hot column at which a mismatch costs 1: twice ½ in L1, twice √½
    squared in L2.
    """
    if metric == "l1":
        return 0.5
    return float(np.sqrt(0.5))


def _columns(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """A column of 0 and 1 for each of the `known` values."""
    return np.asarray(np.asarray(values)[:, None] == known[None], float)
