"""Frames and arrays of Dask: each partition is a block, and work on it runs where Dask runs it.

That is on the workers of the current client, else the scheduler that Dask is set to. No cluster is started.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.coreset.out_of_core.blocks import MERGED, Block, Part, Table
from fwc_llm.coreset.problem.frames import Columns, is_dask, take_named
from fwc_llm.errors import InputError
from fwc_llm.untrusted import shortened, visible


class DaskTable(Table):
    """A dask.dataframe or a dask.array (n, p), whose labels are columns of it or have the same partitions.

    Raises:
        InputError: no table, or parts that do not belong together.
    """

    def __init__(self, columns: Columns) -> None:
        X = columns.X
        if not (_is_frame(X) or _is_array(X)) or X.ndim != 2:
            raise InputError(f"X is a dask {type(X).__name__}: pass a dask.dataframe or a dask.array (n, p)")
        self.name = name = "the dask DataFrame" if _is_frame(X) else "the dask array"
        self._names = Columns(None, *(None if is_dask(part) else part for part in columns[1:]))
        labels = columns.labels().items()
        if _is_frame(X):
            empty = pd.DataFrame(columns=list(X.columns))
            if not take_named(empty, *self._names[1:], only_names=True).X.shape[1]:
                raise InputError("every column of X is named as a label or weight: no feature is left")
        elif plain := [(role, values) for role, values in labels if not is_dask(values)]:
            raise InputError(
                f"{plain[0][0]} is of type {type(plain[0][1]).__name__} but X is a dask.array: pass one with "
                "the same chunks, such as dask.array.from_array(values, chunks=X.chunks[0])"
            )
        else:
            X = X.rechunk({1: -1})
        beside = {role: _aligned(values, role, X) for role, values in labels if is_dask(values)}
        self._collections = {"X": X, **beside}

        self.lengths = self._count()
        super().__init__(name, sum(self.lengths), 1, lambda: iter(()), self._whole)

    def _count(self) -> tuple[int, ...]:
        """Rows of each partition; Dask counts them where it does not know them."""
        X = self._collections["X"]
        if _is_array(X) and not np.isnan(X.chunks[0]).any():
            return tuple(map(int, X.chunks[0]))
        import dask

        count = dask.delayed(len)
        narrow = X if _is_array(X) else X[list(X.columns[:1])]
        return tuple(self._compute([count(part) for part in _parts(narrow)]))

    def _whole(self) -> Columns:
        values = dict(zip(self._collections, self._compute(list(self._collections.values())), strict=True))
        return _named(values, self._names)

    def read(
        self,
        task: Callable[[Block], Part],
        shrink: Callable[[list[Part]], list[Part]],
        tick: Callable[[float], None],
    ) -> list[Part]:
        """See `Table`: parts are joined as a tree, so that few travel."""
        import dask

        if not self.n:
            raise InputError(f"{self.name} has no rows: pass at least one")
        shared = dask.delayed(task, traverse=False)
        run, join = dask.delayed(_run, pure=False), dask.delayed(_join, pure=False)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        columns = {role: _parts(values) for role, values in self._collections.items()}
        parts = [
            run(shared, self.name, firsts[k], length, self._names, {r: c[k] for r, c in columns.items()})
            for k, length in enumerate(self.lengths)
        ]
        while len(parts) > 1:
            parts = [join(shrink, parts[low : low + MERGED]) for low in range(0, len(parts), MERGED)]
        joined: list[Part] = self._compute(parts)[0]
        tick(1.0)
        return joined

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
    task: Callable[[Block], Part], name: str, first: int, length: int, names: Columns, values: dict[str, Any]
) -> list[Part]:
    """The task of one partition; runs on a worker."""
    for role, part in values.items():
        if len(part) != length:
            raise InputError(f"{role} has {len(part)} rows in a partition of {length}: align it with X")
    return [task(Block(first, name, _named(values, names)))]


def _join(shrink: Callable[[list[Part]], list[Part]], lists: list[list[Part]]) -> list[Part]:
    return shrink([part for some in lists for part in some])


def _named(values: dict[str, Any], names: Columns) -> Columns:
    """The columns of a partition: those that are named, and those beside it."""
    return take_named(values["X"], *names[1:])._replace(**{r: v for r, v in values.items() if r != "X"})


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
    count, wanted = (len(_parts(c)) for c in (values, X))
    if count != wanted:
        raise InputError(f"{role} has {count} partitions but X has {wanted}: give both the same ones")
    return values
