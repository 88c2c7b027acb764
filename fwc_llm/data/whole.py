"""The clean rows of a table on disk, of which a sample is in memory."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_STEP = 2**20  # rows looked at at once

Rows = np.ndarray  # whole numbers
Cell = tuple[str, bool]  # a level, and whether the answer is yes


class OnDisk(Protocol):
    """Clean rows in a file."""

    def fingerprint(self) -> str:
        """That of the table, as `Task.fingerprint` has it."""

    def take(self, positions: Rows) -> "pd.DataFrame":
        """Some of the rows, in this order, as `Task.pool` has them."""

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """The rows in blocks: their ids, then these columns of the task."""


@dataclass(frozen=True, eq=False)
class Whole:
    """A table on disk. `levels` are its groups in alphabetical order.

    `cells` (n,) says of every row its group and answer: twice the place of its level, and one more for yes.
    `sample` are the positions of the rows in memory, ascending. The files last as long as the `folder` does.
    """

    clean: OnDisk
    levels: tuple[str, ...]
    cells: np.ndarray
    sample: Rows
    folder: "TemporaryDirectory[str]" = field(repr=False)

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def counts(self) -> Rows:
        """Rows per level (k, 2): those with the answer no, and with yes."""
        return np.bincount(self.cells, minlength=2 * len(self.levels)).reshape(-1, 2)

    @cached_property
    def fingerprint(self) -> str:
        """That of the whole table, as `Task.fingerprint` has it."""
        return self.clean.fingerprint()

    def free(self, taken: Rows) -> np.ndarray | None:
        """Which rows (n,) are not among these positions; None for all of them."""
        if not len(taken):
            return None
        free = np.ones(len(self), dtype=bool)
        free[taken] = False
        return free

    def size(self, free: np.ndarray | None, cell: Cell | None = None) -> int:
        """How many free rows there are: of a cell, or of all."""
        return sum(int(here.sum()) for _, here in self._steps(free, cell))

    def nth(self, ranks: Rows, free: np.ndarray | None, cell: Cell | None = None) -> Rows:
        """The positions of the free rows with these numbers, from 0, among those that `size` counts."""
        order = np.argsort(ranks, kind="stable")
        wanted = np.asarray(ranks)[order]
        positions = np.empty(len(wanted), dtype=np.int64)
        seen = 0
        for first, here in self._steps(free, cell):
            places = np.flatnonzero(here)
            low, high = np.searchsorted(wanted, (seen, seen + len(places)))
            positions[order[low:high]] = first + places[wanted[low:high] - seen]
            seen += len(places)
        return positions

    def take(self, positions: Rows) -> "pd.DataFrame":
        """These rows, in this order, as `Task.pool` has them."""
        return self.clean.take(positions)

    def find(self, ids: Collection[str]) -> Rows:
        """The positions of the rows with these ids, ascending."""
        import pyarrow.compute as pc

        wanted = _cells(ids, numeric=False)
        return self._where([], lambda batch: pc.is_in(batch.column(0), wanted).to_numpy(False))

    def equal(self, names: Sequence[str], values: Collection[tuple[Any, ...]]) -> Rows:
        """The positions of the rows whose columns `names` have one of these `values`, ascending."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = set(values)

        def same(batch: Any) -> np.ndarray:
            at = np.arange(batch.num_rows)
            columns = [batch.column(k + 1) for k in range(len(names))]
            for column, cells in zip(columns, zip(*known, strict=True), strict=True):
                wanted = _cells(cells, pa.types.is_floating(column.type))
                is_one = pc.is_in(column.take(at).cast(wanted.type), wanted)
                at = at[is_one.to_numpy(False)]
            rows = zip(*(column.take(at).to_pylist() for column in columns), strict=True)
            here = np.zeros(batch.num_rows, dtype=bool)
            here[at] = [row in known for row in rows]
            return here

        return self._where(names, same)

    def _steps(self, free: np.ndarray | None, cell: Cell | None) -> Iterator[tuple[int, np.ndarray]]:
        """The first position of some rows, and which of them are meant."""
        code = None if cell is None else 2 * self.levels.index(cell[0]) + cell[1]
        for first in range(0, len(self), _STEP):
            cells = self.cells[first : first + _STEP]
            here = np.ones(len(cells), dtype=bool) if code is None else cells == code
            yield first, here if free is None else here & free[first : first + _STEP]

    def _where(self, names: Sequence[str], same: Callable[[Any], np.ndarray]) -> Rows:
        found, first = [np.zeros(0, dtype=np.int64)], 0
        for batch in self.clean.batches(names):
            found.append(first + np.flatnonzero(same(batch)))
            first += batch.num_rows
        return np.concatenate(found)


def _cells(values: Collection[Any], numeric: bool) -> Any:
    """Those of the values that a column can hold, numbers or texts: anybody may have written them."""
    import pyarrow as pa

    found: set[float | str] = set()
    for value in values:
        with suppress(TypeError, ValueError, OverflowError):
            if numeric and isinstance(value, int | float):
                found.add(float(value))
            elif not numeric and isinstance(value, str):
                value.encode()
                found.add(value)
    return pa.array(list(found), pa.float64() if numeric else pa.string())
