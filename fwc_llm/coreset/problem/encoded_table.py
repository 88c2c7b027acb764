"""A table in memory, encoded as numbers and category codes."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array

MISMATCH = 1.0  # cost of two different categories, times the column's weight
_SOME = 4096  # rows from which the centre is computed
# largest magnitude whose squares, summed over columns, stay far below float32's maximum
_SAFE = 1e10
_BLOCK = 16_384  # rows at once
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplies a hash before the next column's
Which: TypeAlias = Array | slice  # which rows: positions, flags, or a range


@dataclass(frozen=True)
class EncodedTable:
    """The features of n rows as numbers and codes."""

    numbers: Array  # (n, k) float32 or float64
    codes: Array  # (n, c) integer numbers; −1 is a value that the encoder has not seen
    units: Array | None = field(
        default=None, kw_only=True
    )  # see `mismatch`; None: `MISMATCH`

    @cached_property
    def mismatch(self) -> Array:
        """(c,) float32 cost of a mismatch in each column of codes."""
        if self.units is not None:
            return self.units
        return np.full(self.p - self.n_numeric, MISMATCH, np.float32)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def n_numeric(self) -> int:
        """Number of numeric columns, k."""
        return int(self.numbers.shape[1])

    @property
    def p(self) -> int:
        """Number of columns, k + c."""
        return self.n_numeric + int(self.codes.shape[1])

    @cached_property
    def values(self) -> Array:
        """(n, p) numbers, then codes, as one matrix of floats; free points have the same form."""
        if self.codes.shape[1]:
            return np.column_stack([self.numbers, self.codes])
        return self.numbers

    def values_of(self, rows: Which) -> Array:
        """Copy the numbers and codes of some rows as (r, p) float64."""
        numbers = np.array(self.numbers[rows], np.float64, order="C")
        if self.codes.shape[1]:
            return np.hstack([numbers, self.codes[rows]])
        return numbers

    @property
    def is_single(self) -> bool:
        """Whether `values` is a C-ordered float32 matrix in memory."""
        numbers = self.numbers
        return (
            self.p == self.n_numeric
            and numbers.dtype == np.float32
            and numbers.flags.c_contiguous
        )

    @cached_property
    def single(self) -> Array:
        """(n, p) float32: `values` minus the `origin`, without a copy if `is_single`."""
        if self.is_single:
            return self.numbers
        near = np.empty((self.n, self.p), np.float32)
        for low in range(0, self.n, _BLOCK):
            near[low : low + _BLOCK] = (
                self.values_of(slice(low, low + _BLOCK)) - self.origin
            )
        return near

    @cached_property
    def origin(self) -> Array:
        """(p,) point to subtract before rounding to float32: medians of numbers, 0 for codes."""
        if self.is_single:
            return np.zeros(self.p)
        some = self.numbers[:: max(1, self.n // _SOME)]
        return np.append(np.median(some, axis=0), np.zeros(self.p - self.n_numeric))

    @cached_property
    def span(self) -> Array:
        """(k,) largest difference within each numeric column; inf if it exceeds float64."""
        with np.errstate(over="ignore"):
            return np.asarray(
                np.subtract(
                    self.numbers.max(axis=0), self.numbers.min(axis=0), dtype=float
                )
            )

    @property
    def fits_single(self) -> bool:
        """Whether float32 can hold all differences within columns, and their squares."""
        # float32 numbers are used as they are, float64 ones minus the centre.
        single = self.numbers.dtype == np.float32
        span = self.span.max(initial=0.0)
        if single:
            offset = max(-self.numbers.min(initial=0.0), self.numbers.max(initial=0.0))
        else:
            offset = 0.0
        return bool((span == 0 or span > 1 / _SAFE) and max(span, offset) < _SAFE)

    def take(self, rows: Which) -> Self:
        """Return the table of some rows."""
        return replace(
            self,
            numbers=np.ascontiguousarray(self.numbers[rows]),
            codes=self.codes[rows],
        )


def first_of_each(ids: Array) -> Array:
    """Positions of the first of each of the `ids` (n,), ascending."""
    return np.sort(np.unique(ids, return_index=True)[1])


def value_ids(table: EncodedTable) -> Array:
    """Number the distinct rows: (n,) ids, equal for equal rows (found by 64-bit hashes)."""
    integer = np.int32 if table.n < 2**31 else np.int64  # int32 halves the memory
    keys = np.zeros(table.n, np.uint64)
    for column in (*table.numbers.T, *table.codes.T):
        keys *= _ODD
        # Adding 0 makes −0 and 0 equal.
        keys ^= pd.util.hash_array(column.astype(np.float64) + 0.0)
    ordered = np.sort(keys)
    if (
        ordered[1:] != ordered[:-1]
    ).all():  # no two rows are equal: less memory and time than np.unique
        return np.arange(table.n, dtype=integer)
    return np.unique(keys, return_inverse=True)[1].astype(integer)
