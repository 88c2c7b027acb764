"""Where tables come in: a DataFrame by its kinds of columns, an array as it is or scaled.

See docs/method.md, "Ground cost and scaling".
"""

import sys
import warnings
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from fwc_llm.coreset.problem.encoding import ColumnCode, Encoder, Table, encode_array, find_scaling
from fwc_llm.coreset.problem.frames import as_pandas, is_frame, plain_array
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError, ScaleWarning

_APART = 100  # how many times as large as another a column may be without a warning
_SOME = 4096  # rows that say how large a column is
_FEW = 64  # rows that say whether it may hold only two values


@dataclass(frozen=True)
class ArrayScaler:
    """Turns the columns of an array into z-scores and back; float32 stays float32."""

    columns: tuple[ColumnCode, ...]
    dtype: Any

    @classmethod
    def fit(cls, table: Table, masses: Masses | None = None) -> tuple[Self, Table]:
        """The scaler of an unscaled table of numbers, whose rows `masses` weigh, and the table scaled."""
        columns, scaled = [], np.empty_like(table.numbers)
        for k in range(table.n_numeric):
            numbers = table.numbers[:, k].astype(np.float64)
            column, scaling = find_scaling(k, "numeric", np.empty(0), numbers, True, masses)
            scaled[:, k] = scaling(numbers)
            columns.append(column)
        return cls(tuple(columns), table.numbers.dtype), Table(scaled, table.codes)

    def encode(self, points: Any, strict: bool = True, what: str = "init") -> Table:
        """Points in the units of the array as a table; `strict` and `what` are those of `Encoder`."""
        table = encode_array(points)
        if table.p != len(self.columns):
            raise InputError(f"{what} has {table.p} columns: give the {len(self.columns)} of X")
        mean = np.array([column.mean for column in self.columns])
        scale = np.array([column.scale for column in self.columns])
        return Table(((table.numbers - mean) / scale).astype(table.numbers.dtype, copy=False), table.codes)

    def decode(self, points: np.ndarray) -> np.ndarray:
        """Points (m, p) of the table in the units of the array, in its precision."""
        units = [
            values * column.step + column.mean for column, values in zip(self.columns, points.T, strict=True)
        ]
        return np.column_stack(units).astype(self.dtype, copy=False)


Encoding: TypeAlias = Encoder | ArrayScaler | None  # None: an array as it is


def encode(X: Any, scale: bool | str = "auto") -> tuple[Encoding, Table]:
    """A table by its kinds of columns, or an array; and how others are encoded likewise.

    `scale`: whether numbers become z-scores; "auto": those of a DataFrame do, those of an array do not, with
    a `ScaleWarning` where its columns differ by orders of magnitude.
    """
    return encode_weighted(X, None, scale)[:2]


def encode_weighted(
    X: Any, sample_weight: Any, scale: bool | str = "auto"
) -> tuple[Encoding, Table, Masses | None]:
    """What `encode` returns for rows of these weights, and their masses."""
    if scale not in (True, False, "auto") or not isinstance(scale, bool | str):
        raise InputError(f"scale={scale!r}: use True, False or 'auto'")
    X = as_pandas(X)
    if is_frame(X):
        if not len(X):
            raise InputError("X has no rows: pass at least one")
        masses = read_weights(sample_weight, len(X))
        return *Encoder.fit(X, bool(scale), masses), masses
    table = encode_array(X)
    masses = read_weights(sample_weight, table.n)
    if scale is True:
        return *ArrayScaler.fit(table, masses), masses
    if scale == "auto":
        warn_of_sizes(table)
    return None, table, masses


def pick(X: Any, rows: np.ndarray) -> Any:
    """Some of the rows of what was encoded, in its own form."""
    return X.iloc[rows] if is_frame(X) else plain_array(X)[rows]


def warn_of_sizes(table: Table) -> None:
    """Warn where some columns decide nearly all distances."""
    some = np.array(table.numbers[:: max(1, table.n // _SOME)].T, np.float64, order="C")
    low, high = some.min(axis=1), some.max(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(some - np.median(some, axis=1)[:, None]).mean(axis=1)
        # A rare yes among many noes is not small: half a step, as if both were common.
        ends = low[:, None], high[:, None]
        few = some[:, :_FEW]
        for k in np.flatnonzero(((few == ends[0]) | (few == ends[1])).all(axis=1)):
            if ((some[k] == low[k]) | (some[k] == high[k])).all():
                size[k] = high[k] / 2 - low[k] / 2
    varying = np.flatnonzero((size > 0) & np.isfinite(size))
    if not len(varying):
        return
    least, most = varying[size[varying].argmin()], varying[size[varying].argmax()]
    if size[most] / _APART > size[least]:
        warnings.warn(
            f"columns of X differ by orders of magnitude (column {most} typically by {size[most]:.3g}, "
            f"column {least} by {size[least]:.3g}), so that the large ones decide the distances; the "
            "columns of an array are not scaled, those of a DataFrame are: pass scale=True (FairCoreset, "
            "FairWASP) or a DataFrame, or scale=False if they are meant as they are",
            ScaleWarning,
            stacklevel=outside(),
        )


def outside() -> int:
    """The level of the stack, seen from `warnings.warn`'s caller, that called the solver."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("fwc_llm.coreset."):
        frame, level = frame.f_back, level + 1
    return level
