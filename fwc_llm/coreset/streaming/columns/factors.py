"""The distinct values of a column, and each row's place among them."""

from typing import Any

import numpy as np

from fwc_llm.errors import InputError

_NARROW = 4096  # whole numbers this close together are their own places
_EXACT = 2**53  # whole numbers up to here are floats, too
_MISSING = {"nan", "NaN", "<NA>", "NaT", "None"}


def factorize(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The place (n,) of every value of a Series or an array among the distinct ones, and these (q,).

    They are in the order in which they appear. The place of a missing value is −1.
    """
    import pandas as pd

    array = getattr(values, "to_numpy", lambda: values)() if _whole(values) else None
    if array is not None and len(array) and int(array.max()) - int(array.min()) < _NARROW:
        return _of_narrow(array)
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy()
        found, used = pd.factorize(codes)
        known = np.asarray(values.cat.categories.to_numpy())[np.maximum(used, 0)]
        if (used < 0).any():  # the missing ones are a value of their own here
            lost = int((used < 0).argmax())
            return np.where(found == lost, -1, found - (found > lost)), np.delete(known, lost)
        return found, known
    codes, distinct = pd.factorize(values)
    return codes, distinct.to_numpy() if hasattr(distinct, "to_numpy") else np.asarray(distinct)


def _whole(values: Any) -> bool:
    return isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind in "iu"


def _of_narrow(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`factorize` for whole numbers close together, without a hash for every row."""
    least = array.min()
    offset = np.subtract(array, least, dtype=np.int64)
    size = int(offset.max()) + 1
    first = np.full(size, len(array))
    # The last writer wins: backwards, that is the first row of each value.
    first[offset[::-1]] = np.arange(len(array) - 1, -1, -1)
    used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(array))]
    place = np.empty(size, np.int64)
    place[used] = np.arange(len(used))
    return place[offset], array[first[used]]


def check_present(codes: np.ndarray, distinct: np.ndarray, what: str, where: str, start: int) -> None:
    """Refuse a label that is missing, also as a text that says so."""
    missing = codes < 0
    if distinct.dtype.kind == "O":
        said = np.array([value is None or str(value) in _MISSING - {"None"} for value in distinct], bool)
        if said.any():
            missing |= said[np.maximum(codes, 0)]
    if missing.any():
        row = start + int(missing.argmax())
        raise InputError(
            f"{what} is missing in row {row} of {where}: drop such rows or give them a level of their own"
        )


def joined(arrays: list[np.ndarray], what: str) -> np.ndarray:
    """Labels of several blocks as one array, of their type if they have one; True is 1 among numbers."""
    arrays = [array for array in arrays if len(array)] or arrays[:1]
    types = {array.dtype for array in arrays}
    kinds = {"n" if dtype.kind in "iuf" else dtype.kind for dtype in types}
    alike = len(kinds) == 1 or kinds == {"b", "n"}
    exact = not alike or "n" not in kinds or np.result_type(*types).kind in "iu"
    large = not exact and any(
        array.dtype.kind in "iu" and (int(array.max()) > _EXACT or int(array.min()) < -_EXACT)
        for array in arrays
    )
    if large:
        names = " and ".join(sorted(map(str, types)))
        raise InputError(f"{what} is {names} in different blocks: give every block the same type")
    if alike:
        return np.concatenate(arrays)
    return np.concatenate([array.astype(object) for array in arrays])


def stacked(parts: list[Any], texts: frozenset[str] = frozenset()) -> Any:
    """Rows of several blocks, one after the other: arrays, columns or DataFrames.

    A column among `texts`, which was read as categories, is text again.
    """
    import pandas as pd

    parts = [part for part in parts if len(part)] or parts[:1]
    if all(hasattr(part, "columns") for part in parts):
        names = parts[0].columns
        joint = {
            k: _column([part.iloc[:, k] for part in parts], name in texts) for k, name in enumerate(names)
        }
        return pd.DataFrame(joint).set_axis(names, axis=1)
    if all(hasattr(part, "iloc") for part in parts):
        return _column(parts, parts[0].name in texts)
    return np.concatenate([np.asarray(part) for part in parts])


def _column(parts: list[Any], is_text: bool) -> Any:
    """A column of several blocks."""
    import pandas as pd
    from pandas.api.types import union_categoricals

    kinds = [part.dtype for part in parts]
    categorical = all(isinstance(kind, pd.CategoricalDtype) for kind in kinds)
    if is_text:
        parts = [part.astype("str") for part in parts]
    elif categorical and any(kind != kinds[0] for kind in kinds):
        if not kinds[0].ordered:
            return pd.Series(union_categoricals(parts), name=parts[0].name)
        longest = max(kinds, key=lambda kind: len(kind.categories))
        parts = [part.astype(longest) for part in parts]
    if all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds) and len(set(kinds)) > 1:
        return pd.Series(np.concatenate(parts), name=parts[0].name)  # True is 1 beside numbers
    return pd.concat(parts, ignore_index=True)
