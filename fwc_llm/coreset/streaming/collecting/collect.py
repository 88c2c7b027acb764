"""What a reading collects for the moves: sums, categories, histograms, values, costs of candidates.

A collector says what it collects `of` rows with known representatives, and how two findings `join`. Findings
are whole numbers, or kept by block, so that the order of blocks decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.streaming.collecting import kernels
from fwc_llm.coreset.streaming.collecting.sums import BlockSums

_ROWS = 4096  # rows at once: converted to float64, they stay in the cache


class Carried(NamedTuple):
    """Rows of one block: their features, their representative (−1: none that is known), and their mass."""

    block: int
    table: Table
    label: np.ndarray  # (b,)
    units: np.ndarray  # (b,) int64


class Collector(Protocol):
    """See the module."""

    def of(self, rows: Carried) -> Any:
        """What these rows have."""

    def join(self, one: Any, other: Any) -> Any:
        """What both have; may change the first."""


def _over(values: np.ndarray, read: Callable[[np.ndarray, slice], None]) -> None:
    """`read(values, rows)` on a few rows (b, p) at a time, as float64."""
    for low in range(0, len(values), _ROWS):
        rows = slice(low, low + _ROWS)
        read(np.array(values[rows], np.float64, order="C"), rows)


@dataclass(frozen=True)
class Sums:
    """Weighted sums (m, q) of the numeric columns."""

    m: int

    def of(self, rows: Carried) -> BlockSums:
        """See `Collector`."""
        from fwc_llm.coreset.descent.medians import sum_rows

        sums = np.zeros((self.m + 1, rows.table.n_numeric))
        wanted = np.append(np.ones(self.m, bool), False)
        label = np.where(rows.label < 0, self.m, rows.label).astype(np.int32)  # as in memory: compiled once

        def read(values: np.ndarray, at: slice) -> None:
            values *= rows.units[at, None]
            sum_rows(values, label[at], wanted, sums)

        _over(rows.table.numbers, read)
        return BlockSums.of(rows.block, sums[:-1])

    def join(self, one: BlockSums, other: BlockSums) -> BlockSums:
        """See `Collector`."""
        return one.join(other)


@dataclass(frozen=True)
class Categories:
    """The mass of every category: (m, Σ widths), the columns side by side."""

    m: int
    widths: tuple[int, ...]

    def of(self, rows: Carried) -> np.ndarray:
        """See `Collector`."""
        held = np.zeros((self.m, sum(self.widths)), np.int64)
        known = np.flatnonzero(rows.label >= 0)
        label, units, first = rows.label[known].astype(np.int64), rows.units[known], 0
        alike = len(units) and (units == units[0]).all()
        for k, width in enumerate(self.widths):
            at = label * width + rows.table.codes[known, k]
            if alike:
                own = np.bincount(at, minlength=self.m * width) * units[0]
            else:
                own = np.zeros(self.m * width, np.int64)
                np.add.at(own, at, units)
            held[:, first : first + width] += own.reshape(self.m, width)
            first += width
        return held

    def join(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """See `Collector`."""
        one += other
        return one


@dataclass(frozen=True)
class Steps:
    """The mass (m, q, bins + 2) before, on the steps of, and behind the place where a median is expected."""

    low: np.ndarray  # (m, q)
    high: np.ndarray  # (m, q)
    bins: int

    @cached_property
    def scale(self) -> np.ndarray:
        """(m, q) steps to a unit; 0 where all is one step."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            scale = self.bins / (self.high - self.low)
        return np.where(np.isfinite(scale), scale, 0.0)

    def of(self, rows: Carried) -> np.ndarray:
        """See `Collector`."""
        count = np.zeros((*self.low.shape, self.bins + 2), np.int64)
        step = np.empty(self.low.shape[1], np.int32)

        def read(values: np.ndarray, at: slice) -> None:
            place = self.low, self.high, self.scale
            kernels.count_steps(values, rows.label[at], rows.units[at], *place, step, count)

        _over(rows.table.numbers, read)
        return count

    def join(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """See `Collector`."""
        one += other
        return one


@dataclass
class Values:
    """Distinct values by place (j · q + k), each with its mass; `fresh` ones are still to be put in order."""

    below: np.ndarray  # (m, q) mass before each place
    place: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    fresh: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

    def tidy(self) -> "Values":
        """Sorted by place and value, each value once."""
        parts = [(self.place, self.value, self.mass), *self.fresh]
        place, value, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((value, place))
        place, value, mass = place[order], value[order], mass[order]
        first = np.ones(len(place), bool)
        first[1:] = (place[1:] != place[:-1]) | (value[1:] != value[:-1])
        start = np.flatnonzero(first)
        mass = np.add.reduceat(mass, start) if len(start) else mass
        return Values(self.below, place[start], value[start], mass, [])


@dataclass(frozen=True)
class Within:
    """The values that lie in [low, high] (m, q) of each representative and column, and the mass before."""

    low: np.ndarray
    high: np.ndarray

    def of(self, rows: Carried) -> Values:
        """See `Collector`."""
        shape = self.low.shape
        below, common, held = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.int64)
        room = _ROWS * shape[1]
        place, value, mass = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
        found = []

        def read(values: np.ndarray, at: slice) -> None:
            given = values, rows.label[at], rows.units[at], self.low, self.high
            size = kernels.find_values(*given, below, common, held, place, value, mass)
            found.append((place[:size].copy(), value[:size].copy(), mass[:size].copy()))

        _over(rows.table.numbers, read)
        there = np.flatnonzero(held)
        return Values(below, there, common.ravel()[there], held.ravel()[there], found).tidy()

    def join(self, one: Values, other: Values) -> Values:
        """See `Collector`."""
        one.below += other.below
        one.fresh += [(other.place, other.value, other.mass), *other.fresh]
        waiting = sum(len(place) for place, _, _ in one.fresh)
        return one.tidy() if waiting > max(2 * len(one.place), 100_000) else one


@dataclass(frozen=True)
class CandidateCosts:
    """What the rows cost at every candidate (m, c, p) of their representative: (m, c)."""

    candidates: np.ndarray
    n_numeric: int
    squared: bool

    def of(self, rows: Carried) -> BlockSums:
        """See `Collector`."""
        total = np.zeros(self.candidates.shape[:2])
        mass = rows.units.astype(np.float64)
        terms = self.candidates, self.n_numeric, self.squared

        def read(values: np.ndarray, at: slice) -> None:
            kernels.cost_candidates(values, rows.label[at], mass[at], *terms, total)

        _over(rows.table.values, read)
        return BlockSums.of(rows.block, total)

    def join(self, one: BlockSums, other: BlockSums) -> BlockSums:
        """See `Collector`."""
        return one.join(other)
