"""A table whose numbers stay where the caller has them: in the columns of a DataFrame.

Scaled in double precision they would take twice the memory of a float32 table, or four times with the matrix
of all values. They are scaled where they are read instead, a few rows or a column at once: always to the same
digits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.tables.table import Table, Which


@dataclass(frozen=True)
class Scaling:
    """How the numbers of a column become z-scores: divided by `size`, less the `mean`, divided by `spread`.

    A column with an infinite spread is constant: it becomes 0. As it is by default, it changes nothing.
    """

    size: float = 1.0
    mean: float = 0.0
    spread: float = 1.0

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers (r,) float64 scaled."""
        if np.isinf(self.spread):
            return np.zeros(len(numbers))
        return numbers if self == Scaling() else (numbers / self.size - self.mean) / self.spread


class FrameTable(Table):
    """Columns of numbers `raw` (n,), of any type, with how each is scaled, and `codes` (n, c).

    What asks for `numbers` or `values` as a whole gets matrices that stay; the compiled descent does not.
    """

    raw: list[np.ndarray]
    scaling: list[Scaling]

    def __init__(self, raw: list[np.ndarray], scaling: list[Scaling], codes: np.ndarray) -> None:
        for name, value in (("raw", raw), ("scaling", scaling), ("codes", codes)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def n_numeric(self) -> int:
        """Number of numeric columns, k."""
        return len(self.raw)

    @cached_property
    def numbers(self) -> np.ndarray:  # type: ignore[override]
        """(n, k) float64."""
        return self.numbers_of(slice(None))

    def numbers_of(self, rows: Which) -> np.ndarray:
        """See `Table`."""
        numbers = np.empty((len(self.codes[rows]), self.n_numeric))
        for k in range(self.n_numeric):
            numbers[:, k] = self.column(k, rows)
        return numbers

    def column(self, k: int, rows: Which = slice(None)) -> np.ndarray:
        """See `Table`."""
        if k < self.n_numeric:
            return self.scaling[k](np.asarray(self.raw[k][rows], np.float64))
        return np.asarray(self.codes[rows, k - self.n_numeric])

    def flat(self) -> tuple[Any, tuple[int, int]]:
        """See `Table`."""
        return Entries(self), (self.n_numeric, 1)

    @cached_property
    def least(self) -> np.ndarray:
        """See `Table`."""
        return np.array([self.column(k).min() for k in range(self.n_numeric)])

    @cached_property
    def largest(self) -> np.ndarray:
        """See `Table`."""
        return np.array([self.column(k).max() for k in range(self.n_numeric)])

    @property
    def is_single(self) -> bool:
        """See `Table`."""
        return False

    @property
    def is_float32(self) -> bool:
        """See `Table`."""
        return False

    def take(self, rows: np.ndarray) -> Table:  # type: ignore[override]
        """Some of the rows, in memory."""
        return Table(self.numbers_of(rows), self.codes[rows])

    def _every(self, step: int) -> np.ndarray:
        return self.numbers_of(slice(None, None, step))


class Entries:
    """The numbers of a table by their places, row after row."""

    def __init__(self, table: FrameTable) -> None:
        self._table = table
        self._size, self._mean, self._spread = (
            np.array([getattr(own, name) for own in table.scaling]) for name in ("size", "mean", "spread")
        )

    def take(self, places: np.ndarray) -> np.ndarray:
        """The numbers (r,) at `places` (r,)."""
        row, column = np.divmod(places, self._table.n_numeric)
        order = np.argsort(column.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(column, minlength=self._table.n_numeric))
        found = np.empty(len(places))
        for own, at in zip(self._table.raw, np.split(order, ends[:-1]), strict=True):
            found[at] = own[row[at]]
        # A column as it is has 1, 0 and 1 here, which change nothing; a constant one becomes 0.
        scaled = (found / self._size[column] - self._mean[column]) / self._spread[column]
        return np.asarray(scaled)
