"""Shared parts of the rivals: rows as points (x, d, y), and `Coreset`.

All but fairlets take row weights `sample_weight` (n,) (docs/method.md, "Weighted rows"). X is an
(n, p) float array, which is not scaled, or a DataFrame of mixed columns, scaled as in `FairCoreset`
(docs/method.md, "Ground cost and scaling"). docs/baselines.md has the rivals' sources and formulas.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.checks import candidate_mask
from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.encoded_table import MISMATCH, EncodedTable, Which
from fwc_llm.coreset.problem.encoding import Encoder, encode, pick
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

DISTANCES = ("l1", "l2")


@dataclass(frozen=True, repr=False)
class Coreset:
    """m weighted points that represent n rows.

    `points` (m, p) are in the units of X, a DataFrame if X was one. `rows` (m,) are the points'
    positions in X; None for free points. `sensitive` (m,) and `y` (m,) are the points' levels and
    outcomes. `weights` (m,) are the numbers of rows (of mean weight) that the points represent:
    they sum to n, for sensitivity sampling only in expectation. `note` names any deviation from the
    method.
    """

    points: "Array | pd.DataFrame"
    rows: Array | None
    sensitive: Array
    y: Array
    weights: Array
    note: str = ""

    def __repr__(self) -> str:
        if self.rows is None:
            kind = "free points"
        else:
            kind = "rows"
        if self.note:
            note = f"; {self.note}"
        else:
            note = ""
        return (
            f"<Coreset of {len(self.weights):,} {kind} with weights that sum to "
            f"{self.weights.sum():g}{note}>"
        )


@dataclass(frozen=True)
class LabelledTable(EncodedTable):
    """A table whose last two `codes` are d and y, as indices in `levels` and `outcomes`, and its
    source.
    """

    levels: Array
    outcomes: Array
    source: Any
    encoder: Encoder
    masses: Masses

    @property
    def sensitive(self) -> Array:
        """(n,) protected levels."""
        return np.asarray(self.levels[self.codes[:, -2]])

    @property
    def y(self) -> Array:
        """(n,) outcomes."""
        return np.asarray(self.outcomes[self.codes[:, -1]])

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
        matrix = np.zeros((self.n, self.n_numeric + sum(self.sizes)), np.float32)
        matrix[:, : self.n_numeric] = self.numbers
        start = self.n_numeric
        for codes, size in zip(self.codes.T, self.sizes, strict=True):
            matrix[np.arange(self.n), start + codes] = height
            start += size
        return matrix

    def take(self, rows: Which) -> Self:
        """Return the table of some rows, with their source."""
        source = pick(self.source, rows)
        return replace(super().take(rows), source=source, masses=self.masses.take(rows))

    def chosen(self, rows: Array, weights: Array, note: str = "") -> Coreset:
        """Make the coreset of these rows."""
        points = pick(self.source, rows)
        weights = np.asarray(weights, float)
        return Coreset(points, rows, self.sensitive[rows], self.y[rows], weights, note)


def as_rows(X: Any, y: Any, sensitive: Any, sample_weight: Any = None) -> LabelledTable:
    """Encode rows as points (x, d, y)."""
    encoder, table, masses = encode(X, is_frame(X), sample_weight)
    cells = find_cells(y, sensitive, table.n)
    codes = np.column_stack(
        [table.codes, *np.divmod(cells.cell, cells.n_outcomes)]
    ).astype(np.int32)
    if encoder.dtype is None:
        source = X
    else:
        source = table.numbers
    numbers = table.numbers.astype(np.float64)
    return LabelledTable(
        numbers, codes, cells.levels, cells.outcomes, source, encoder, masses
    )


def prepare(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int,
    candidates: Any = None,
    sample_weight: Any = None,
) -> tuple[LabelledTable, Array, Rng]:
    """Return the encoded rows, the positions of the rows that may be chosen (at least m), and a
    generator.
    """
    rows = as_rows(X, y, sensitive, sample_weight)
    may = candidate_mask(candidates, rows.n)
    allowed = np.flatnonzero(may & (rows.mass > 0))
    if not 1 <= m <= len(allowed):
        raise InputError(
            f"m is {m}: give a number from 1 to {len(allowed)}, as only so many rows may be chosen"
        )
    return rows, allowed, np.random.default_rng(seed)


def sizes(labels: Array, m: int, rows: LabelledTable) -> Array:
    """Return (m,) the number of rows, of mean weight, with each label in `labels` (n,)."""
    return np.bincount(labels, rows.mass, m) * (rows.n / rows.masses.total)
