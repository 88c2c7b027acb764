"""Frames and arrays of Dask: each partition is a block, and work on it runs where Dask runs it.

That is on the workers of the current client, else the scheduler that Dask is set to. No cluster is started.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.coreset.out_of_core.blocks import MERGED, Block, Columns, Part, is_dask
from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible

_ROLES = ("y", "sensitive", "sample_weight")


class DaskTable:
    """Collections with the same partitions: X, and `beside` it the labels that are no columns of it."""

    texts: frozenset[str] = frozenset()

    def __init__(self, X: Any, beside: dict[str, Any], names: dict[str, Any]) -> None:
        self.name = "the dask DataFrame" if _is_frame(X) else "the dask array"
        self._collections = {"X": X, **beside}
        self._names = names

    @classmethod
    def open(cls, X: Any, y: Any, sensitive: Any, sample_weight: Any) -> "DaskTable":
        """The table of a dask.dataframe or a dask.array (n, p); see `open_table`.

        Raises:
            InputError: no table, or parts that do not belong together.
        """
        if not (_is_frame(X) or _is_array(X)) or X.ndim != 2:
            raise InputError(f"X is a dask {type(X).__name__}: pass a dask.dataframe or a dask.array (n, p)")
        beside, names = {}, {}
        for role, values in zip(_ROLES, (y, sensitive, sample_weight), strict=True):
            if is_dask(values):
                beside[role] = _aligned(values, role, X)
            elif values is not None and _is_frame(X):
                names[role] = list(values) if isinstance(values, tuple) else values
            elif values is not None:
                raise InputError(
                    f"{role} is of type {type(values).__name__} but X is a dask.array: pass one with "
                    "the same chunks, such as dask.array.from_array(values, chunks=X.chunks[0])"
                )
        if _is_frame(X):
            import pandas as pd

            y, sensitive, sample_weight = (names.get(role) for role in _ROLES)
            columns = pd.DataFrame(columns=list(X.columns))
            rest = take_named(columns, y, sensitive, sample_weight, only_names=True)[0]
            if not rest.shape[1]:
                raise InputError(
                    "every column of X is named as y, sensitive or sample_weight: no feature is left"
                )
        else:
            X = X.rechunk({1: -1})
        return cls(X, beside, names)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each partition; Dask counts them where it does not know them."""
        X = self._collections["X"]
        if _is_array(X) and not np.isnan(X.chunks[0]).any():
            return tuple(map(int, X.chunks[0]))
        import dask

        count = dask.delayed(len)
        narrow = X if _is_array(X) else X[list(X.columns[:1])]
        return tuple(self._compute([count(part) for part in _parts(narrow)]))

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    def whole(self) -> Columns:
        """See `Table`."""
        values = dict(zip(self._collections, self._compute(list(self._collections.values())), strict=True))
        return _named(values, self._names)

    def read(
        self,
        task: Callable[[Block], Part],
        merge: Callable[[list[Part]], Part],
        tick: Callable[[float], None],
    ) -> Part:
        """See `Table`: parts are merged as a tree, so that few travel."""
        import dask

        if not self.n:
            raise InputError(f"{self.name} has no rows: pass at least one")
        shared = dask.delayed(task, traverse=False)
        run, join = dask.delayed(_run, pure=False), dask.delayed(merge, pure=False)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        columns = {role: _parts(values) for role, values in self._collections.items()}
        parts = [
            run(shared, self.name, k, firsts[k], self.lengths[k], self._names,
                {role: column[k] for role, column in columns.items()})
            for k in range(len(self.lengths))
        ]  # fmt: skip
        while len(parts) > 1:
            parts = [join(parts[low : low + MERGED]) for low in range(0, len(parts), MERGED)]
        merged: Part = self._compute(parts)[0]
        tick(1.0)
        return merged

    def _compute(self, values: list[Any]) -> Any:
        import dask

        try:
            return dask.compute(*values)
        except InputError:
            raise
        except Exception as error:
            cause = visible(shortened(f"{type(error).__name__}: {error}", 300))
            raise InputError(f"{self.name} cannot be computed ({cause})") from error


def _run(
    task: Callable[[Block], Part],
    name: str,
    index: int,
    first: int,
    length: int,
    names: dict[str, Any],
    values: dict[str, Any],
) -> Part:
    """The task of one partition; runs on a worker."""
    where = f"partition {index} of {name}"
    for role, part in values.items():
        if len(part) != length:
            raise InputError(f"{role} has {len(part)} rows in {where}, not {length}: align it with X")
    return task(Block(index, first, name, *_named(values, names)))


def _named(values: dict[str, Any], names: dict[str, Any]) -> Columns:
    """X, y, sensitive and weights of a partition."""
    y, sensitive, weight = (names.get(role) for role in _ROLES)
    X, *columns = take_named(values["X"], y, sensitive, weight)
    y, sensitive, weight = (values.get(role, column) for role, column in zip(_ROLES, columns, strict=True))
    return X, y, sensitive, weight


def _is_array(x: Any) -> bool:
    return is_dask(x, "dask.array")


def _is_frame(x: Any) -> bool:
    """A frame or a series."""
    return is_dask(x, "dask.dataframe") and hasattr(x, "npartitions")


def _parts(collection: Any) -> list[Any]:
    """The partitions, each a `Delayed`."""
    return list(np.ravel(collection.to_delayed()))


def _aligned(values: Any, role: str, X: Any) -> Any:
    """Labels or weights with the partitions of X."""
    if not (_is_array(values) or _is_frame(values)):
        raise InputError(f"{role} is a dask {type(values).__name__}: pass a dask.array or a Series")
    if _is_array(values):
        values = values.rechunk({1: -1}) if values.ndim == 2 else values
        counted = _is_array(X) and not np.isnan([*X.chunks[0], *values.chunks[0]]).any()
        if counted and len(values) == len(X):
            return values.rechunk({0: X.chunks[0]})
    count = values.numblocks[0] if _is_array(values) else values.npartitions
    wanted = X.numblocks[0] if _is_array(X) else X.npartitions
    if count != wanted:
        raise InputError(f"{role} has {count} partitions but X has {wanted}: give both the same ones")
    return values
