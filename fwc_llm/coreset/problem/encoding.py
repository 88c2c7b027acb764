"""A table of mixed columns as numbers and codes (docs/method.md, "Ground cost and scaling").

Numeric columns are scaled; categorical columns become codes 0, 1, …, which the costs compare only for
equality. One-hot columns are never built.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.coreset.problem.frames import column_kind, plain_array
from fwc_llm.coreset.problem.tables.frame_table import FrameTable, Scaling
from fwc_llm.coreset.problem.tables.table import Table as Table
from fwc_llm.coreset.problem.tables.table import value_ids as value_ids
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ColumnCode:
    """The encoding of one DataFrame column: its kind, its values (ordinal, categorical) and its z-score.

    `scale` is infinite for a column that is constant in the rows of the fit: it counts nothing, in other
    rows neither.
    """

    name: Any
    kind: str  # "numeric", "ordinal" or "categorical"
    values: np.ndarray
    mean: float = 0.0
    scale: float = 1.0

    @property
    def step(self) -> float:
        """The units of a difference of one; 0 in a constant column."""
        return 0.0 if np.isinf(self.scale) else self.scale

    def places(self, values: "pd.Series[Any]") -> np.ndarray:
        """The places of the values (m,) in `self.values` (ordinal, categorical); −1 for unknown values."""
        import pandas as pd

        known = pd.Index(self.values, dtype=object)
        return np.asarray(known.get_indexer(values.astype(object)))  # type: ignore[arg-type]

    def place(self, value: Any) -> int:
        """The place of one value; −1 if it is unknown."""
        found = np.flatnonzero(self.values == value)
        return int(found[0]) if len(found) else -1

    def ranks(self, values: np.ndarray) -> np.ndarray:
        """The nearest places in `self.values` (ordinal, categorical) to encoded `values` (m,)."""
        raw = np.rint(values * self.step + self.mean)
        return np.clip(raw, 0, len(self.values) - 1).astype(int)


@dataclass(frozen=True)
class Encoder:
    """Turns a DataFrame into a `Table` and points of that table back into a DataFrame.

    Numeric columns (numbers, decimals) and ordinal columns (pandas' ordered categorical dtype, replaced by
    the rank of their category) are z-scored over the rows given, a constant one becoming 0; everything else
    (text, booleans, unordered categoricals) is categorical: 1 for every mismatch.
    """

    columns: tuple[ColumnCode, ...]
    order: tuple[Any, ...]

    @classmethod
    def fit(
        cls, frame: "pd.DataFrame", scale: bool = True, masses: Masses | None = None
    ) -> tuple["Encoder", Table]:
        """The encoder of this table, and the table encoded; `InputError` for a missing or infinite value.

        Not `scale`: numbers and ranks are left as they are. `masses` weigh the rows.
        """
        import pandas as pd

        if frame.columns.duplicated().any():
            twice = frame.columns[frame.columns.duplicated()][0]
            raise InputError(f"column {twice!r} occurs twice: name every column once")
        kinds = []
        for name in frame.columns:
            missing = frame[name].isna().to_numpy()
            if missing.any():
                raise InputError(
                    f"column {name!r} is missing in row {frame.index[int(missing.argmax())]!r}: "
                    "drop or fill such rows"
                )
            kinds.append(column_kind(frame[name]))
        if not kinds:
            raise InputError("X has no columns: pass at least one feature")
        raw: list[np.ndarray] = []
        codes: list[np.ndarray] = []
        scaling: list[Scaling] = []
        scaled: list[ColumnCode] = []
        coded: list[ColumnCode] = []
        for name, kind in zip(frame.columns, kinds, strict=True):
            series = frame[name]
            if kind == "categorical":
                places, found = pd.factorize(series.astype(object), sort=False)
                codes.append(places.astype(_code_type(len(found))))
                coded.append(ColumnCode(name, kind, np.asarray(found, dtype=object)))
                continue
            values = np.empty(0)
            if kind == "ordinal":
                values = np.asarray(series.cat.categories, dtype=object)
                raw.append(series.cat.codes.to_numpy())
            else:
                plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf"
                raw.append(series.to_numpy() if plain else series.to_numpy(dtype=float))
            numeric = raw[-1].astype(np.float64, copy=False)
            if not np.isfinite(numeric).all():
                row = frame.index[int((~np.isfinite(numeric)).argmax())]
                raise InputError(f"column {name!r} is infinite in row {row!r}: clip or drop such values")
            column, how = find_scaling(name, kind, values, numeric, scale, masses)
            scaled.append(column)
            scaling.append(how)
        table = FrameTable(
            raw, scaling, np.column_stack(codes) if codes else np.empty((len(frame), 0), np.uint8)
        )
        return cls((*scaled, *coded), tuple(frame.columns)), table

    def encode(self, points: "pd.DataFrame", strict: bool = True, what: str = "init") -> Table:
        """Points in the units of the DataFrame as a table; `strict` refuses a value that X does not hold.

        Errors call the points `what`.
        """
        numbers, codes = [], []
        for column in self.columns:
            if column.name not in getattr(points, "columns", ()):
                raise InputError(
                    f"{what} lacks the column {column.name!r}: pass a DataFrame with the columns of X"
                )
            values: Any = points[column.name]
            if values.ndim > 1:
                raise InputError(f"column {column.name!r} occurs twice in {what}: name every column once")
            if (missing := values.isna().to_numpy()).any():
                row = points.index[int(missing.argmax())]
                raise InputError(f"column {column.name!r} of {what} is missing in row {row!r}")
            kind = column_kind(values)  # refuses what is no value of a column
            if column.kind == "numeric":
                _check_numbers(values, kind, what)
            else:
                places = column.places(values)
                if strict and (places < 0).any():
                    unknown = values.iloc[int(places.argmin())]
                    raise InputError(f"column {column.name!r} of {what} holds {unknown!r}, which X does not")
                values = places
            if column.kind == "categorical":
                codes.append(values)
            else:
                numbers.append((np.asarray(values, dtype=float) - column.mean) / column.scale)
        return _as_table(numbers, codes, len(points))

    @property
    def has_ranks(self) -> bool:
        """Whether there are ordinal columns."""
        return any(column.kind == "ordinal" for column in self.columns)

    def to_ranks(self, points: np.ndarray) -> np.ndarray:
        """Points (m, p) of the table with the values of ordinal columns moved to the nearest rank."""
        moved = points.copy()
        for k, column in enumerate(self.columns):
            if column.kind == "ordinal":
                rank = (column.ranks(points[:, k]) - column.mean) / column.scale
                off = np.abs(points[:, k] - rank) > 1e-9  # more than rounding
                moved[off, k] = rank[off]
        return moved

    def decode(self, points: np.ndarray) -> "pd.DataFrame":
        """Points (m, p) of the table in the units of the DataFrame, its columns in their order."""
        import pandas as pd

        decoded: dict[Any, Any] = {}
        for column, values in zip(self.columns, points.T, strict=True):
            if column.kind == "numeric":
                decoded[column.name] = values * column.step + column.mean
                continue
            chosen = column.values[column.ranks(values)]
            if column.kind == "ordinal":
                chosen = pd.Categorical(chosen, categories=column.values, ordered=True)
            try:
                decoded[column.name] = pd.Series(chosen)
            except UnicodeEncodeError:  # a lone surrogate, which only Python's own texts can hold
                decoded[column.name] = pd.Series(chosen, dtype=object)
        return pd.DataFrame(decoded)[list(self.order)]


def _check_numbers(values: "pd.Series[Any]", kind: str, what: str) -> None:
    """Refuse a column of points that is not of finite numbers; yes and no are 1 and 0."""
    if kind != "numeric" and values.dtype != bool:
        raise InputError(f"column {values.name!r} of {what} is not numeric, but that of X is")
    if not np.isfinite(np.asarray(values, dtype=float)).all():
        raise InputError(f"column {values.name!r} of {what} is infinite: clip or drop such values")


def find_scaling(
    name: Any,
    kind: str,
    values: np.ndarray,
    numbers: np.ndarray,
    scale: bool = True,
    masses: Masses | None = None,
) -> tuple[ColumnCode, Scaling]:
    """How one column becomes z-scores, a constant one all 0; not `scale`: it stays as it is.

    Mean and variance are by mass; rows without mass do not count.
    """
    if not scale:
        return ColumnCode(name, kind, values), Scaling()
    used = numbers if masses is None else numbers[masses.values > 0]
    constant = ColumnCode(name, kind, values, float(used[0]), np.inf), Scaling(spread=np.inf)
    if used.min() == used.max():
        return constant
    # Scaling by the largest magnitude first keeps the variance of tiny and huge columns finite.
    size = float(np.abs(used).max())
    if masses is None:
        mean = float((numbers / size).mean())
        spread = float((numbers / size).std())
    else:
        share = masses.values[masses.values > 0] / masses.total
        mean = float(share @ (used / size))
        spread = float(np.sqrt(share @ (used / size - mean) ** 2))
    if spread == 0.0:  # constant up to rounding
        return constant
    return ColumnCode(name, kind, values, mean * size, spread * size), Scaling(size, mean, spread)


def _code_type(count: int) -> type[np.integer[Any]]:
    """The smallest type for codes from 0 to count − 1."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int32


def _as_table(numbers: list[np.ndarray], codes: list[np.ndarray], n: int) -> Table:
    """The table of these columns."""
    return Table(
        np.column_stack(numbers) if numbers else np.empty((n, 0)),
        np.column_stack(codes).astype(np.int32) if codes else np.empty((n, 0), np.int32),
    )


def encode_array(x: Any) -> Table:
    """A plain (n, p) array as it is: numeric, unscaled; float32 stays float32, all else becomes float64."""
    array = plain_array(x)
    if array.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to (rows, columns): "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row"
        )
    for found, what in zip(array.shape, ("sample(s)", "feature(s)"), strict=True):
        if found == 0:
            raise InputError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required: X "
                "needs at least one row and one column"
            )
    if not np.isfinite(array.sum(dtype=np.float64)) and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        kind = "NaN" if np.isnan(array[row, column]) else "infinity"
        raise InputError(f"Input X contains {kind} in row {row}, column {column}: drop or fill such rows")
    return Table(array, np.empty((len(array), 0), np.int32))
