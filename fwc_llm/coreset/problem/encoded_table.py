"""A table of numbers and codes, in memory."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np

from fwc_llm.errors import InputError

# Whether a ground cost squares the differences of numbers; "l2" is the root of one that does.
SQUARED = {"l1": False, "sqeuclidean": True, "l2": True}
MISMATCH = 1.0  # cost of two different categories, times the column's weight
_SOME = 4096  # rows that say where the centre is
_SAFE = 1e10  # largest magnitude whose square, summed over columns, is far from float32's end
_LARGEST = 1e303  # cost of a row, far enough from float64's end for sums over the rows
_BLOCK = 16_384  # rows at once
Which: TypeAlias = np.ndarray | slice  # of the rows: positions, flags, or a range


@dataclass(frozen=True)
class EncodedTable:
    """The features of n rows: `numbers` (n, k), float32 or float64, and `codes` (n, c), whole numbers.

    A code of −1 stands for a value that the encoder has not seen. `units` (c,) are what a mismatch costs in
    each column of codes; None: `MISMATCH`.
    """

    numbers: np.ndarray
    codes: np.ndarray
    units: np.ndarray | None = field(default=None, kw_only=True)

    @cached_property
    def mismatch(self) -> np.ndarray:
        """(c,) float32, what a mismatch costs in each column of codes."""
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
    def values(self) -> np.ndarray:
        """(n, p) the numbers and then the codes as one matrix of floats, the form of free points too."""
        return np.column_stack([self.numbers, self.codes]) if self.codes.shape[1] else self.numbers

    def numbers_of(self, rows: Which) -> np.ndarray:
        """The numbers (r, k) of some rows, as a matrix of float64 of its own."""
        return np.array(self.numbers[rows], np.float64, order="C")

    def values_of(self, rows: Which) -> np.ndarray:
        """The numbers and codes (r, p) of some rows, as a matrix of float64 of its own."""
        numbers = self.numbers_of(rows)
        return np.hstack([numbers, self.codes[rows]]) if self.codes.shape[1] else numbers

    @property
    def is_single(self) -> bool:
        """Whether `values` are float32 in memory, row after row."""
        numbers = self.numbers
        return self.p == self.n_numeric and numbers.dtype == np.float32 and numbers.flags.c_contiguous

    @cached_property
    def single(self) -> np.ndarray:
        """(n, p) float32: `values` themselves if they are that, else less the `centre`."""
        return self.numbers if self.is_single else self.about(self.centre)

    def about(self, point: np.ndarray) -> np.ndarray:
        """(n, p) float32 `values` less a point (p,), in memory of their own."""
        near = np.empty((self.n, self.p), np.float32)
        for low in range(0, self.n, _BLOCK):
            near[low : low + _BLOCK] = self.values_of(slice(low, low + _BLOCK)) - point
        return near

    @cached_property
    def centre(self) -> np.ndarray:
        """(p,) about which float32 holds most of the digits: medians, for outliers; 0 for codes."""
        some = self.numbers[:: max(1, self.n // _SOME)]
        return np.append(np.median(some, axis=0), np.zeros(self.p - self.n_numeric))

    @cached_property
    def span(self) -> np.ndarray:
        """(k,) largest difference within each numeric column; inf if it is beyond float64."""
        with np.errstate(over="ignore"):
            return np.asarray(self.largest - self.least)

    @cached_property
    def least(self) -> np.ndarray:
        """(k,) least number of each numeric column."""
        return np.asarray(self.numbers.min(axis=0), np.float64)

    @cached_property
    def largest(self) -> np.ndarray:
        """(k,) largest number of each numeric column."""
        return np.asarray(self.numbers.max(axis=0), np.float64)

    @property
    def fits_single(self) -> bool:
        """Whether float32 can hold the differences within the columns, and their squares."""
        # float32 is used as it is, all else about its centre.
        float32 = self.numbers.dtype == np.float32
        offset = max(-self.least.min(initial=0.0), self.largest.max(initial=0.0)) if float32 else 0.0
        span = self.span.max(initial=0.0)
        return bool((span == 0 or span > 1 / _SAFE) and max(span, offset) < _SAFE)

    def check_costs(self, cost: str) -> None:
        """Refuse numbers whose costs are beyond float64."""
        with np.errstate(over="ignore"):
            costs = self.span**2 if SQUARED[cost] else self.span
        if costs.sum() > _LARGEST:
            k = int(costs.argmax())
            raise InputError(
                f"the numbers of column {k} of X are up to {self.span[k]:.3g} apart: the costs are too large "
                "for double precision; scale that column"
            )

    def take(self, rows: Which) -> Self:
        """Some of the rows."""
        return replace(self, numbers=np.ascontiguousarray(self.numbers[rows]), codes=self.codes[rows])


def value_ids(table: EncodedTable) -> np.ndarray:
    """64-bit hashes of the rows (n,): equal rows have equal ids, and different rows different ones."""
    whole = np.int32 if table.n < 2**31 else np.int64  # half the memory, where they fit
    factors = 2 * np.random.default_rng(0).integers(1, 2**62, size=table.p).astype(np.uint64) + 1
    keys = np.zeros(table.n, np.uint64)
    for factor, column in zip(factors, (*table.numbers.T, *table.codes.T), strict=True):
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # adding 0 makes -0 and 0 one
        keys = (keys ^ bits ^ (bits >> np.uint64(29))) * factor
        keys ^= keys >> np.uint64(32)
    ordered = np.sort(keys)
    if (ordered[1:] != ordered[:-1]).all():  # no two rows are equal: faster to see than to order the rows
        return np.arange(table.n, dtype=whole)
    return np.unique(keys, return_inverse=True)[1].astype(whole)
