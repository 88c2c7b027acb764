"""Encode a DataFrame or an array as numbers and codes.

Numeric columns are scaled; categorical columns become codes 0, 1, …, which the costs compare only
for equality. See docs/method.md, "Ground cost and scaling".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.encoded_table import MISMATCH, EncodedTable, Which
from fwc_llm.coreset.problem.frames import (
    as_pandas,
    column_kind,
    is_frame,
    plain_array,
    row_name,
)
from fwc_llm.coreset.problem.ground_cost import COSTS
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError
from fwc_llm.notices import ScaleWarning, tell

_APART = 100  # ratio of the sizes of two columns above which a warning follows
_SOME = 4096  # rows from which the size of a column is computed
_HEAVIEST = 1_000_000  # largest weight of a column


@dataclass(frozen=True)
class ColumnCode:
    """The encoding of one column."""

    name: Any
    kind: str  # "numeric", "ordinal" or "categorical"
    values: Array = field(
        default_factory=lambda: np.empty(0, object)
    )  # of ordinals and categories
    mean: float = 0.0
    # infinite if the column is constant in the fitted rows: it costs 0 in all rows
    scale: float = 1.0
    factor: float = (
        1.0  # multiplies the scaled numbers or, in a categorical column, `MISMATCH`
    )

    @property
    def step(self) -> float:
        """Difference in the units of X for an encoded difference of 1; 0 if the column does not
        count.
        """
        if np.isinf(self.size):
            return 0.0
        return self.size

    @property
    def size(self) -> float:
        """Divisor that encodes the numbers; infinite if the column does not count."""
        if self.kind == "categorical":
            return 1.0
        if self.factor:
            return self.scale / self.factor
        return np.inf

    def read(self, series: "pd.Series[Any]", strict: bool, role: str) -> Any:
        """Return the numbers, ranks or codes (n,) of a column, and −1 for an unknown category."""
        kind = column_kind(series)  # refuses values of no column kind
        if self.kind == "numeric":
            if kind != "numeric":
                raise InputError(
                    f"column {self.name!r} of {role} is not numeric, but in X it is: pass numbers"
                )
            numbers = series.to_numpy(dtype=float)
            _check_finite(series, numbers, role)
            return numbers
        index = pd.Index(self.values, dtype=object).get_indexer(series.astype(object))
        if strict and (index < 0).any():
            unknown = series.iloc[int(index.argmin())]
            raise InputError(
                f"column {self.name!r} of {role} holds {unknown!r}, which does not occur in X"
            )
        return index

    def ranks(self, values: Array) -> Array:
        """Indices (m,) in `self.values` (ordinal, categorical) nearest to encoded `values` (m,)."""
        raw = np.rint(values * self.step + self.mean)
        return np.clip(raw, 0, len(self.values) - 1).astype(int)


@dataclass(frozen=True)
class Encoder:
    """Encodes a DataFrame or an array X, and decodes points to the form of X.

    In a DataFrame, numeric columns (numbers, decimals, booleans as 0 and 1) and ordinal columns
    (pandas' ordered categorical dtype, replaced by the rank of the category) are z-scored over the
    rows given; a constant column becomes 0. Everything else (text, unordered categoricals) is
    categorical.
    """

    columns: tuple[ColumnCode, ...]
    order: tuple[Any, ...]  # names of X's columns
    dtype: Any = None  # of an array, whose precision is kept; None for a DataFrame

    def encode(
        self, points: Any, strict: bool = True, role: str = "init"
    ) -> EncodedTable:
        """Encode `points` in the units of X; `strict` refuses a category that X does not hold."""
        points = as_pandas(points)
        if self.dtype is None:
            table = self._read_frame(points, strict, role)
        else:
            table = encode_array(points)
        if table.p != len(self.columns):
            raise InputError(
                f"{role} has {table.p} features, but FairCoreset is expecting {len(self.columns)} "
                "features as input"
            )
        return self.scaled(table)

    def _read_frame(self, points: Any, strict: bool, role: str) -> EncodedTable:
        """Read the columns of a DataFrame as numbers, ranks and codes."""
        if not is_frame(points):
            raise InputError(
                f"{role} is not a DataFrame, but FairCoreset was fitted on one: pass one with the "
                f"columns {', '.join(map(repr, self.order))}"
            )
        if not len(points):
            raise InputError(f"{role} has no rows: pass at least one")
        count = len(self.numeric)
        numbers = np.empty((len(points), count))
        largest = max(len(column.values) for column in self.columns)
        codes = np.empty(
            (len(points), len(self.columns) - count), np.min_scalar_type(-largest)
        )
        for k, column in enumerate(self.columns):
            series = _checked_column(points, column.name, role)
            values = column.read(series, strict, role)
            if k < count:
                numbers[:, k] = values
            else:
                codes[:, k - count] = values
        return EncodedTable(numbers, codes)

    @property
    def numeric(self) -> list[ColumnCode]:
        """The columns that are encoded as numbers; they come first."""
        return [column for column in self.columns if column.kind != "categorical"]

    def scaled(self, table: EncodedTable) -> EncodedTable:
        """Scale the numbers of a table in the units of X; those of a DataFrame in place."""
        mean = np.array([column.mean for column in self.numeric])
        size = np.array([column.size for column in self.numeric])
        numbers = table.numbers
        if mean.any() or (size != 1).any():
            numbers = numbers.astype(np.float64, copy=self.dtype is not None)
            numbers -= mean
            numbers /= size
        return EncodedTable(numbers, table.codes, units=self.units)

    @property
    def units(self) -> Array:
        """(c,) float32 cost of a mismatch in each categorical column."""
        factors = [
            column.factor for column in self.columns if column.kind == "categorical"
        ]
        return MISMATCH * np.array(factors, np.float32)

    def to_ranks(self, points: Array) -> Array:
        """Move the ordinal columns of encoded points (m, p) to the nearest rank."""
        moved = points.copy()
        for k, column in enumerate(self.columns):
            if column.kind == "ordinal":
                rank = (column.ranks(points[:, k]) - column.mean) / column.size
                off = np.abs(points[:, k] - rank) > 1e-9  # more than rounding
                moved[off, k] = rank[off]
        return moved

    def decode(self, points: Array) -> Any:
        """Turn encoded points (m, p) into the units of X: a DataFrame, or an array of X's dtype."""
        if self.dtype is not None:
            step, mean = (
                np.array([getattr(c, name) for c in self.columns])
                for name in ("step", "mean")
            )
            return np.asarray(points * step + mean).astype(self.dtype, copy=False)
        decoded: dict[Any, Any] = {}
        for column, values in zip(self.columns, points.T, strict=True):
            if column.kind == "numeric":
                decoded[column.name] = values * column.step + column.mean
                continue
            chosen = column.values[column.ranks(values)]
            if column.kind == "ordinal":
                chosen = pd.Categorical(chosen, categories=column.values, ordered=True)
            decoded[column.name] = pd.Series(chosen)
        return pd.DataFrame(decoded)[list(self.order)]


def _columns_of(frame: pd.DataFrame) -> tuple[ColumnCode, ...]:
    """Find the kind and the categories of every column: numbers first, each in the order of X."""
    if not len(frame):
        raise InputError("X has no rows: pass at least one")
    if not len(frame.columns):
        raise InputError("X has no columns: pass at least one feature")
    columns = []
    for name in frame.columns:
        series = _checked_column(frame, name, "X")
        kind = column_kind(series)
        labels: Any = []
        if kind == "ordinal":
            labels = series.cat.categories
        elif kind == "categorical":
            labels = pd.unique(series.astype(object))
        columns.append(ColumnCode(series.name, kind, np.asarray(labels, dtype=object)))
    return tuple(sorted(columns, key=lambda column: column.kind == "categorical"))


def numbers_of(frame: pd.DataFrame, role: str) -> dict[Any, Array]:
    """The numbers or ranks (n,) of the numeric and ordinal columns of a frame."""
    numbers = {}
    for name in frame:
        series = _checked_column(frame, name, role)
        kind = column_kind(series)
        if kind != "categorical":
            labels = series.cat.categories if kind == "ordinal" else ()
            column = ColumnCode(name, kind, np.asarray(labels, dtype=object))
            numbers[name] = column.read(series, strict=True, role=role)
    return numbers


def _checked_column(frame: pd.DataFrame, name: Any, role: str) -> "pd.Series[Any]":
    """Return a column; refuse it if it is absent, occurs twice or has missing values."""
    if name not in frame.columns:
        raise InputError(
            f"{role} lacks the column {name!r}: pass a DataFrame with the columns of X"
        )
    values: Any = frame[name]
    if values.ndim > 1:
        raise InputError(
            f"column {name!r} occurs twice in {role}: name every column once"
        )
    missing = values.isna().to_numpy()
    if missing.any():
        row = row_name(frame.index, int(missing.argmax()))
        raise InputError(
            f"column {name!r} of {role} has no value in row {row}: drop or fill such rows"
        )
    return values  # type: ignore[no-any-return]


def _check_finite(values: "pd.Series[Any]", numbers: Array, role: str) -> None:
    if not np.isfinite(numbers).all():
        row = row_name(values.index, int((~np.isfinite(numbers)).argmax()))
        raise InputError(
            f"column {values.name!r} of {role} is infinite in row {row}: clip or drop it"
        )


def _z_scored(column: ColumnCode, numbers: Array, masses: Masses) -> ColumnCode:
    """Scale a column's numbers (n,) to z-scores, a constant column's to 0; rows without mass do
    not count.
    """
    used = numbers[masses.positive].astype(np.float64)
    mass = masses.values[masses.positive]
    # Scaling by the largest magnitude first keeps the variance of tiny and huge columns finite.
    size = float(np.abs(used).max())
    mean = 0.0
    spread = 0.0
    if used.min() < used.max():
        mean = float(np.average(used / size, weights=mass))
        spread = float(np.sqrt(np.average((used / size - mean) ** 2, weights=mass)))
    if spread == 0.0:  # constant, at least up to rounding
        return replace(column, mean=float(used[0]), scale=np.inf)
    return replace(column, mean=mean * size, scale=spread * size)


def encode_array(x: Any) -> EncodedTable:
    """Encode a plain (n, p) array as unscaled numbers: float32 stays float32, all else becomes
    float64.
    """
    array = plain_array(x)
    if not np.isfinite(array.sum(dtype=np.float64)) and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        if np.isnan(array[row, column]):
            kind = "NaN"
        else:
            kind = "infinity"
        raise InputError(
            f"Input X contains {kind} in row {row}, column {column}: drop or fill such rows"
        )
    return EncodedTable(array, np.empty((len(array), 0), np.int32))


ColumnWeights: TypeAlias = Mapping[Any, float] | Sequence[float] | Array | None


def _column_weights(weights: Any, names: tuple[Any, ...]) -> dict[Any, float]:
    """Check the weights of columns, and return that of every column (default 1)."""
    if weights is None:
        return dict.fromkeys(names, 1.0)
    columns = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if not isinstance(weights, Mapping):
        if (
            isinstance(weights, str)
            or np.ndim(weights) != 1
            or len(weights) != len(names)
        ):
            raise InputError(
                f"column_weights={weights!r}: give {{column: weight}}, or one weight for each of "
                f"{columns}"
            )
        weights = dict(zip(names, weights, strict=True))
    unknown = [name for name in weights if name not in names]
    if unknown:
        raise InputError(
            f"column_weights names {unknown[0]!r}, not a column of the features: these are "
            f"{columns}"
        )
    for name, weight in weights.items():
        if (
            isinstance(weight, bool)
            or not isinstance(weight, Real)
            or not 0 <= float(weight) <= _HEAVIEST
        ):
            raise InputError(
                f"column_weights[{name!r}] is {weight!r}: give a number from 0 (left out) to "
                f"{_HEAVIEST:,}"
            )
    if not any(weights.get(name, 1.0) for name in names):
        raise InputError(
            "column_weights are all 0: give at least one column a weight above 0"
        )
    return {name: float(weights.get(name, 1.0)) for name in names}


def encode(
    X: Any,
    scale: bool | str = "auto",
    sample_weight: Any = None,
    column_weights: ColumnWeights = None,
    cost: str = "l1",
) -> tuple[Encoder, EncodedTable, Masses]:
    """Encode a DataFrame or an array, as in `FairCoreset`; return the encoder, the table and the
    masses.
    """
    if scale not in (True, False, "auto") or not isinstance(scale, bool | str):
        raise InputError(f"scale={scale!r}: use True, False or 'auto'")
    X = as_pandas(X)
    if is_frame(X):
        encoder = Encoder(_columns_of(X), tuple(X.columns))
        table = encoder.encode(X, role="X")
    else:
        table = encode_array(X)
        names = tuple(range(table.p))
        numeric = tuple(ColumnCode(name, "numeric") for name in names)
        encoder = Encoder(numeric, names, table.numbers.dtype)
    masses = read_weights(sample_weight, table.n)
    scaled = is_scaled(scale, encoder.columns)
    if scale == "auto" and not scaled and column_weights is None:
        warn_of_sizes(table, encoder.columns)
    weights = _column_weights(column_weights, encoder.order)
    columns = []
    for k, column in enumerate(encoder.columns):
        factor = weights[column.name]
        if column.kind != "categorical":
            numbers = table.numbers[:, k]
            factor = COSTS[cost].scale(factor)
            if scaled:
                column = _z_scored(column, numbers, masses)
            if not factor:  # representatives are at the mean
                column = replace(column, mean=float(numbers.mean(dtype=np.float64)))
        columns.append(replace(column, factor=factor))
    encoder = replace(encoder, columns=tuple(columns))
    return encoder, encoder.scaled(table), masses


def is_scaled(scale: bool | str, columns: Sequence[ColumnCode]) -> bool:
    """Whether numbers become z-scores: "auto" does so beside columns of other kinds."""
    if scale == "auto":
        return any(column.kind != "numeric" for column in columns)
    return bool(scale)


def pick(X: Any, rows: Which) -> Any:
    """Return some rows of X, a DataFrame or an array."""
    if is_frame(X):
        return X.iloc[rows]
    return plain_array(X)[rows]


def warn_of_sizes(table: EncodedTable, columns: Sequence[ColumnCode]) -> None:
    """Issue a `ScaleWarning` if some columns are so large that they decide nearly all distances."""
    some = np.array(table.numbers[:: max(1, table.n // _SOME)].T, np.float64, order="C")
    low = some.min(axis=1)
    high = some.max(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(some - np.median(some, axis=1)[:, None]).mean(axis=1)
        # A column of two values has half their difference as its size, even if one is rare.
        two = ((some == low[:, None]) | (some == high[:, None])).all(axis=1)
        size[two] = high[two] / 2 - low[two] / 2
    size[(size == 0) | ~np.isfinite(size)] = np.nan
    if np.isnan(size).all():
        return
    least = int(np.nanargmin(size))
    most = int(np.nanargmax(size))
    if size[most] / _APART > size[least]:
        tell(
            f"columns of X differ by orders of magnitude (column {columns[most].name!r} typically "
            f"by {size[most]:.3g}, column {columns[least].name!r} by {size[least]:.3g}), so that "
            "the large ones decide the distances; the columns of a table without categories are "
            "not scaled: pass scale=True, or scale=False if they are meant as they are",
            ScaleWarning,
        )
