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

from fwc_llm.coreset.problem.encoded_table import MISMATCH, EncodedTable, Which
from fwc_llm.coreset.problem.frames import as_pandas, column_kind, is_frame, plain_array, row_name
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
    values: np.ndarray = field(
        default_factory=lambda: np.empty(0, object)
    )  # of ordinals and categories
    mean: float = 0.0
    scale: float = (
        1.0  # infinite if the column is constant in the fitted rows: it costs 0 in all rows
    )
    factor: float = 1.0  # multiplies the scaled numbers or, in a categorical column, `MISMATCH`

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

    def ranks(self, values: np.ndarray) -> np.ndarray:
        """Indices (m,) in `self.values` (ordinal, categorical) nearest to encoded `values` (m,)."""
        raw = np.rint(values * self.step + self.mean)
        return np.clip(raw, 0, len(self.values) - 1).astype(int)


@dataclass(frozen=True)
class Encoder:
    """Encodes a DataFrame or an array X, and decodes points to the form of X.

    In a DataFrame, numeric columns (numbers, decimals) and ordinal columns (pandas' ordered
    categorical dtype, replaced by the rank of the category) are z-scored over the rows given; a
    constant column becomes 0. Everything else (text, booleans, unordered categoricals) is
    categorical.
    """

    columns: tuple[ColumnCode, ...]
    order: tuple[Any, ...]  # names of X's columns
    dtype: Any = None  # of an array, whose precision is kept; None for a DataFrame

    def encode(self, points: Any, strict: bool = True, what: str = "init") -> EncodedTable:
        """Encode `points` in the units of X; `strict` refuses a category that X does not hold."""
        points = as_pandas(points)
        if self.dtype is not None:
            return self._encode_array(points, what)
        if not is_frame(points):
            raise InputError(
                f"{what} is not a DataFrame, but FairCoreset was fitted on one: pass one with the "
                f"columns "
                f"{', '.join(map(repr, self.order))}"
            )
        if not len(points):
            raise InputError(f"{what} has no rows: pass at least one")
        numbers = []
        codes = []
        for column in self.columns:
            values: Any = _checked_column(points, column.name, what)
            kind = column_kind(values)  # refuses values of no column kind
            if column.kind == "numeric":
                if kind != "numeric" and values.dtype != bool:  # booleans count as 1 and 0
                    raise InputError(
                        f"column {column.name!r} of {what} is not numeric, but in X it is: pass "
                        f"numbers"
                    )
                _check_finite(values, np.asarray(values, dtype=float), what)
            else:
                places = pd.Index(column.values, dtype=object).get_indexer(values.astype(object))
                if strict and (places < 0).any():
                    unknown = values.iloc[int(places.argmin())]
                    raise InputError(
                        f"column {column.name!r} of {what} holds {unknown!r}, which does not occur "
                        f"in X"
                    )
                values = places
            if column.kind == "categorical":
                codes.append(values)
            else:
                numbers.append((np.asarray(values, dtype=float) - column.mean) / column.size)
        none = np.empty((len(points), 0))
        encoded = (
            np.column_stack([none, *numbers]),
            np.column_stack([none, *codes]).astype(np.int32),
        )
        return EncodedTable(*encoded, units=self.units)

    def _encode_array(self, points: Any, what: str) -> EncodedTable:
        table = encode_array(points)
        p = len(self.columns)
        if table.p != p:
            raise InputError(
                f"{what} has {table.p} features, but FairCoreset is expecting {p} features as input"
            )
        mean, size = (
            np.array([getattr(own, name) for own in self.columns]) for name in ("mean", "size")
        )
        as_given = not mean.any() and (size == 1).all()
        if as_given:
            return table
        return EncodedTable((table.numbers - mean) / size, table.codes)

    @property
    def units(self) -> np.ndarray:
        """(c,) float32 cost of a mismatch in each categorical column."""
        factors = [own.factor for own in self.columns if own.kind == "categorical"]
        return MISMATCH * np.array(factors, np.float32)

    def to_ranks(self, points: np.ndarray) -> np.ndarray:
        """Move the ordinal columns of encoded points (m, p) to the nearest rank."""
        moved = points.copy()
        for k, column in enumerate(self.columns):
            if column.kind == "ordinal":
                rank = (column.ranks(points[:, k]) - column.mean) / column.size
                off = np.abs(points[:, k] - rank) > 1e-9  # more than rounding
                moved[off, k] = rank[off]
        return moved

    def decode(self, points: np.ndarray) -> Any:
        """Turn encoded points (m, p) into the units of X: a DataFrame, or an array of X's dtype."""
        if self.dtype is not None:
            step, mean = (
                np.array([getattr(c, name) for c in self.columns]) for name in ("step", "mean")
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


def _read_frame(frame: pd.DataFrame) -> tuple[Encoder, EncodedTable]:
    """Encode a DataFrame; its numbers and ranks are not yet scaled."""
    if not len(frame):
        raise InputError("X has no rows: pass at least one")
    if not len(frame.columns):
        raise InputError("X has no columns: pass at least one feature")
    series = [_checked_column(frame, name, "X") for name in frame.columns]
    kinds = [column_kind(column) for column in series]
    columns: list[ColumnCode] = []
    numbers = np.empty((len(frame), len(kinds) - kinds.count("categorical")))
    codes: list[np.ndarray] = []
    labels: Any
    # The sort is stable: numbers first, each kind in the order of X.
    for own, kind in sorted(
        zip(series, kinds, strict=True), key=lambda pair: pair[1] == "categorical"
    ):
        if kind == "categorical":
            places, labels = pd.factorize(own.astype(object), sort=False)
            codes.append(places.astype(np.min_scalar_type(len(labels) - 1)))
        else:
            if kind == "ordinal":
                labels = own.cat.categories
            else:
                labels = []
            raw = (own.cat.codes if kind == "ordinal" else own).to_numpy(dtype=float)
            _check_finite(own, raw, "X")
            numbers[:, len(columns)] = raw
        columns.append(ColumnCode(own.name, kind, np.asarray(labels, dtype=object)))
    table = EncodedTable(numbers, np.column_stack([np.empty((len(frame), 0), np.uint8), *codes]))
    return Encoder(tuple(columns), tuple(frame.columns)), table


def _checked_column(frame: pd.DataFrame, name: Any, what: str) -> "pd.Series[Any]":
    """Return a column; refuse it if it is absent, occurs twice or has missing values."""
    if name not in frame.columns:
        raise InputError(
            f"{what} lacks the column {name!r}: pass a DataFrame with the columns of X"
        )
    values: Any = frame[name]
    if values.ndim > 1:
        raise InputError(f"column {name!r} occurs twice in {what}: name every column once")
    missing = values.isna().to_numpy()
    if missing.any():
        row = row_name(frame.index, int(missing.argmax()))
        raise InputError(
            f"column {name!r} of {what} has no value in row {row}: drop or fill such rows"
        )
    return values  # type: ignore[no-any-return]


def _check_finite(values: "pd.Series[Any]", numbers: np.ndarray, what: str) -> None:
    if not np.isfinite(numbers).all():
        row = row_name(values.index, int((~np.isfinite(numbers)).argmax()))
        raise InputError(
            f"column {values.name!r} of {what} is infinite in row {row}: clip or drop it"
        )


def _z_scores(
    column: ColumnCode, numbers: np.ndarray, masses: Masses
) -> tuple[ColumnCode, np.ndarray]:
    """Scale a column's numbers (n,) to z-scores, a constant column's to 0; rows without mass do
    not count.
    """
    used = numbers[masses.positive]
    mass = masses.values[masses.positive]
    # Scaling by the largest magnitude first keeps the variance of tiny and huge columns finite.
    size = float(np.abs(used).max())
    mean = 0.0
    spread = 0.0
    if used.min() < used.max():
        mean = float(np.average(used / size, weights=mass))
        spread = float(np.sqrt(np.average((used / size - mean) ** 2, weights=mass)))
    if spread == 0.0:  # constant, at least up to rounding
        return replace(column, mean=float(used[0]), scale=np.inf), np.zeros(len(numbers))
    return replace(column, mean=mean * size, scale=spread * size), (numbers / size - mean) / spread


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


ColumnWeights: TypeAlias = Mapping[Any, float] | Sequence[float] | np.ndarray | None


def _weighted(
    encoder: Encoder, table: EncodedTable, weights: dict[Any, float], cost: str
) -> tuple[Encoder, EncodedTable]:
    """Multiply each column's part of the cost by the column's weight."""
    columns = []
    numbers = table.numbers.astype(np.float64)
    for k, column in enumerate(encoder.columns):
        factor = weights[column.name]
        mean = column.mean
        if column.kind != "categorical":
            factor = COSTS[cost].scale(factor)
            mean += 0.0 if factor else float(numbers[:, k].mean(dtype=np.float64)) * column.step
            numbers[:, k] *= factor
        columns.append(replace(column, factor=factor, mean=mean))
    encoder = replace(encoder, columns=tuple(columns))
    return encoder, replace(table, numbers=numbers, units=encoder.units)


def _column_weights(weights: Any, names: tuple[Any, ...]) -> dict[Any, float]:
    """Check the weights of columns, and return that of every column (default 1)."""
    columns = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if not isinstance(weights, Mapping):
        if isinstance(weights, str) or np.ndim(weights) != 1 or len(weights) != len(names):
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
        raise InputError("column_weights are all 0: give at least one column a weight above 0")
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
        encoder, table = _read_frame(X)
    else:
        table = encode_array(X)
        columns = tuple(ColumnCode(k, "numeric") for k in range(table.p))
        encoder = Encoder(columns, tuple(range(table.p)), table.numbers.dtype)
    masses = read_weights(sample_weight, table.n)
    if scale is True or (scale == "auto" and is_frame(X)):
        scaled = list(encoder.columns)
        if is_frame(X):
            numbers = table.numbers
        else:
            numbers = np.empty(table.numbers.shape)
        for k, raw in enumerate(table.numbers.T):
            scaled[k], numbers[:, k] = _z_scores(scaled[k], raw.astype(np.float64), masses)
        encoder = replace(encoder, columns=tuple(scaled))
        table = replace(table, numbers=numbers)
    elif scale == "auto" and column_weights is None:
        warn_of_sizes(table)
    if column_weights is not None:
        encoder, table = _weighted(
            encoder, table, _column_weights(column_weights, encoder.order), cost
        )
    return encoder, table, masses


def pick(X: Any, rows: Which) -> Any:
    """Return some rows of X, a DataFrame or an array."""
    if is_frame(X):
        return X.iloc[rows]
    return plain_array(X)[rows]


def warn_of_sizes(table: EncodedTable) -> None:
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
    least = np.nanargmin(size)
    most = np.nanargmax(size)
    if size[most] / _APART > size[least]:
        tell(
            f"columns of X differ by orders of magnitude (column {most} typically by "
            f"{size[most]:.3g}, "
            f"column {least} by {size[least]:.3g}), so that the large ones decide the distances; "
            f"the "
            "columns of an array are not scaled, those of a DataFrame are: pass scale=True, "
            "or a DataFrame, or scale=False if they are meant as they are",
            ScaleWarning,
        )
