"""Rows as points (x, d, y).

X is an (n, p) float array, which is not scaled, or a DataFrame of mixed columns, scaled as in
`FairCoreset` (docs/method.md, "Ground cost and scaling").
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.encoded_table import MISMATCH, EncodedTable, Which
from fwc_llm.coreset.problem.encoding import encode
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.weights import Masses


@dataclass(frozen=True)
class LabelledTable(EncodedTable):
    """A table whose last two `codes` are d and y, as indices in `levels` and `outcomes`."""

    levels: Array
    outcomes: Array
    masses: Masses

    @property
    def mass(self) -> Array:
        """(n,) row weights."""
        return self.masses.values

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each categorical column, including d and y."""
        return tuple(int(column.max()) + 1 for column in self.codes.T)

    def squared_points(self) -> Array:
        """(n, q) float32 points whose squared L2 distances are the ground cost "sqeuclidean"."""
        return self.dense(np.sqrt(MISMATCH / 2))  # a mismatch counts in two columns

    def dense(self, height: float) -> Array:
        """(n, q) float32 numbers, then one-hot columns of 0 and `height`."""
        columns = [
            height * np.eye(size, dtype=np.float32)[codes]
            for codes, size in zip(self.codes.T, self.sizes, strict=True)
        ]
        return np.hstack([self.numbers, *columns], dtype=np.float32)

    def take(self, rows: Which) -> Self:
        """Return the table of some rows."""
        return replace(super().take(rows), masses=self.masses.take(rows))


def as_rows(X: Any, y: Any, sensitive: Any, sample_weight: Any = None) -> LabelledTable:
    """Encode rows as points (x, d, y)."""
    _, table, masses = encode(X, is_frame(X), sample_weight)
    cells = find_cells(y, sensitive, table.n)
    codes = np.column_stack(
        [table.codes, *np.divmod(cells.cell, cells.n_outcomes)]
    ).astype(np.int32)
    numbers = table.numbers.astype(np.float64)
    return LabelledTable(numbers, codes, cells.levels, cells.outcomes, masses)


def sizes(labels: Array, m: int, rows: LabelledTable) -> Array:
    """Return (m,) the number of rows, of mean weight, with each label in `labels` (n,)."""
    return np.bincount(labels, rows.mass, m) * (rows.n / rows.masses.total)
