"""Convert tables of other libraries to pandas, and classify their columns."""

import os
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array
from fwc_llm.errors import InputError, InputTypeError, check_index
from fwc_llm.sanitize import as_single_line, kind_of


class Columns(NamedTuple):
    """The caller's features, outcomes, protected levels and weights of the rows; None if not
    given.
    """

    X: Any
    y: Any = None
    sensitive: Any = None
    sample_weight: Any = None


_NUMBERS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal")


def as_pandas(table: Any) -> Any:
    """Convert a table with Arrow's C stream, such as Polars', to pandas; return all else as it
    is.
    """
    if hasattr(table, "collect"):
        raise InputError(
            f"{type(table).__name__} is a lazy table: pass what its collect() returns"
        )
    if not _is_of_arrow(table):
        return table
    try:
        frames: Any = pd.DataFrame  # the stubs do not know of `from_arrow` yet
        return frames.from_arrow(table)
    except ImportError:
        raise InputError(
            f"to read a table of type {type(table).__name__} takes pyarrow: pip install "
            f"'fwc-llm[parquet]', "
            "or pass a pandas DataFrame"
        ) from None


def as_given(frame: Any, X: Any) -> Any:
    """A frame of pandas as a table of the library of X, such as Polars."""
    if not _is_of_arrow(X):
        return frame
    import narwhals as nw

    return nw.from_arrow(
        frame.reset_index(drop=True), backend=nw.get_native_namespace(X)
    ).to_native()


def _is_of_arrow(table: Any) -> bool:
    """Whether this is a table of another library than pandas that speaks Arrow."""
    speaks = hasattr(table, "__arrow_c_stream__") and hasattr(table, "columns")
    return speaks and not is_frame(table)


def is_frame(table: Any) -> bool:
    """Whether this is a pandas DataFrame, or has `columns` and `iloc` like one."""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def row_name(index: Any, position: int) -> str:
    """The index label of a row as text: 3 and not np.int64(3)."""
    name = index[position]
    return repr(name.item() if isinstance(name, np.generic) else name)


def column_kind(series: "pd.Series[Any]") -> str:
    """Return "numeric" (also booleans, and numbers among objects), "ordinal" or "categorical"."""
    dtype = series.dtype
    types = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        return "ordinal" if dtype.ordered else "categorical"
    if isinstance(dtype, pd.StringDtype):
        return "categorical"
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return "numeric"
    values = types.infer_dtype(series.astype(object), skipna=True)
    if values.startswith(("date", "time", "period")):
        raise InputError(
            f"column {series.name!r} holds {values}: turn times into numbers, such as days"
        )
    if values in _NUMBERS:
        return "numeric"
    if values == "string":
        return "categorical"
    for row, value in series.items():
        if getattr(type(value), "__hash__", None) is None:
            raise InputError(
                f"column {series.name!r} holds a {type(value).__name__} in row {row!r}: pass a "
                f"single value"
            )
    return "categorical"


def plain_array(x: Any) -> Array:
    """Convert a plain table to an (n, p) array: float32 stays float32, all else becomes float64."""
    if np.ma.is_masked(x):
        raise InputError("X is an array with masked values: drop or fill such rows")
    if getattr(getattr(x, "dtype", None), "kind", "") in ("m", "M"):
        raise InputError(
            "X holds dates or durations: turn them into numbers, such as days"
        )
    try:
        shape = x.shape if hasattr(x, "shape") else np.asarray(x).shape
    except ValueError:
        shape = ()  # a tuple of tables
    if len(shape) != 2 or not shape[0]:
        raise InputError(
            f"X is {kind_of(x)} of shape {shape}: give a table (n, p) with rows. "
            "Reshape your data: "
            f"X.reshape(-1, 1) or Series.to_frame()"
        )
    from sklearn.utils.validation import check_array  # importing takes a second

    try:
        return np.asarray(
            check_array(x, dtype=(np.float64, np.float32), ensure_all_finite=False)
        )
    except (TypeError, ValueError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        reason = as_single_line(str(error))
        raise kind(
            f"X is not numeric: {reason}; pass mixed columns as a pandas DataFrame"
        ) from None


def take_named(
    X: Any,
    y: Any,
    sensitive: Any,
    sample_weight: Any,
    source_name: str = "X",
    only_names: bool = False,
) -> Columns:
    """Look up columns that y, sensitive and sample_weight name; drop them from X.

    `sensitive` may also be a list of names; a list as long as X counts as values (unless
    `only_names`). Arguments that are values are returned as they are; `only_names` refuses them.
    `InputError` for values with another index than X.
    """
    labels = {"y": y, "sensitive": sensitive, "sample_weight": sample_weight}
    for role, given in labels.items():
        check_index(given, X, role)
    X = as_pandas(X)
    _check_in_memory(X)
    taken: set[Any] = set()

    def column(values: Any, role: str) -> Any:
        if _is_name(values, X):
            names = [values]
        else:
            names = []
        listed = (
            not names
            and role == "sensitive"
            and is_frame(X)
            and isinstance(values, list | tuple)
        )
        if (
            listed
            and (only_names or len(values) != len(X))
            and all(_is_name(v, X) for v in values)
        ):
            names = list(values)
        if not names:
            if only_names and values is not None:
                raise InputError(
                    f"{role} is not the name of a column: tables in files or blocks take only names"
                )
            return values
        if not is_frame(X):
            raise InputError(
                f"{role}={values!r}: the columns of {source_name} have no names; pass the values"
            )
        lacking = [name for name in names if name not in X.columns]
        if lacking:
            raise InputError(
                f"{role} names the column {lacking[0]!r}, which {source_name} does not "
                "have: it has "
                f"{', '.join(map(repr, X.columns[:20]))}{', …' if len(X.columns) > 20 else ''}"
            )
        taken.update(names)
        if names == [values]:
            return X[values]
        return X[names]

    found = [column(given, role) for role, given in labels.items()]
    return Columns(X.drop(columns=list(taken)) if taken else X, *found)


def _is_name(value: Any, X: Any) -> bool:
    """Whether a value names a column: any text, or an integer or tuple that is a column label of
    X.
    """
    return isinstance(value, str) or (
        is_frame(X) and isinstance(value, int | tuple) and value in X.columns
    )


def is_dask(X: Any, module: str = "dask") -> bool:
    """Whether X is a collection of Dask, or of this module of Dask, without importing Dask."""
    return any(
        f"{base.__module__}.".startswith(f"{module}.") for base in type(X).__mro__
    )


def is_dataset(X: Any) -> bool:
    """Whether X is a pyarrow `Dataset`."""
    return hasattr(X, "get_fragments") and hasattr(X, "schema")


def are_paths(X: Any) -> bool:
    """Whether X is a path or a list of paths."""
    if isinstance(X, list | tuple):
        paths = X
    else:
        paths = [X]
    return bool(paths) and all(isinstance(path, str | os.PathLike) for path in paths)


def _check_in_memory(X: Any) -> None:
    """Refuse files, datasets and frames of Dask, which `FairCoreset.fit` alone can read."""
    problem = ""
    if are_paths(X):
        problem = f"names files ({X!r})"
    elif is_dask(X, "dask.dataframe") or is_dataset(X):
        problem = f"is a {type(X).__name__}"
    if problem:
        raise InputError(
            f"X {problem}, which only FairCoreset.fit reads in blocks: pass the rows in "
            "memory, such "
            f"as "
            "pandas.read_parquet(path) or X.compute(), if need be in several calls"
        )
