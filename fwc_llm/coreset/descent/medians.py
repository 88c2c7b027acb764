"""Compiled moves of the representatives, to medians and to means.

Medians are found without keeping any column sorted. Every column is cut into up to 255 *bins*, and each
entry's bin kept in a byte. What a representative carries in each bin tells in which one its median lies, and
only the values in that bin have to be looked at.

From one iteration to the next few rows change their representative. The counts are kept up to date, and only
the representatives that gained or lost something are looked at again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fwc_llm.coreset.descent import move_kernels as moves
from fwc_llm.coreset.descent.move_kernels import NONE
from fwc_llm.coreset.descent.updates import UNIT, Shares
from fwc_llm.coreset.problem.tables.table import Table
from fwc_llm.coreset.threads import CHUNK, Threads

_SAMPLE = 16_384  # rows by which bins are cut
_GRID = 1024  # steps of a grid on a column's edges
_CHUNKS = 16  # in which the table is put in bins, whatever the number of threads
_AT_ONCE = 4096  # rows whose values are looked for at once
_LARGE = 50_000  # rows from which memory counts more than the last few per cent of time
_FEW = 50_000  # numbers that one thread has read before another has begun


class Changes:
    """Which representatives have to move: those that do not carry what they carried at their last move."""

    def __init__(self) -> None:
        self.label: np.ndarray | None = None  # of every row at the last call, or m for one that was split
        self._torn = np.zeros(0, np.int64)  # representatives that had parts of rows
        self._points = np.empty(0)

    def find(self, shares: Shares, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The labels as `self.label` has them, whether (m + 1,) each has to move, and the rows that changed.

        `points` (m, p) are the representatives; the rows are None where all may have changed.
        """
        m, old = shares.m, self.label
        label = shares.label.astype(label_type(m))
        label[shares.part_row] = m
        changed = None if old is None else np.flatnonzero(label != old)
        touched = np.ones(m + 1, bool)
        if old is not None and changed is not None:
            touched[:m] = (points != self._points).any(axis=1)
            for torn in (self._torn, shares.label[shares.part_row], shares.part_label):
                touched[torn] = True
            touched[old[changed]] = touched[label[changed]] = True
        touched[m] = False
        self.label = label
        self._torn = np.concatenate([shares.label[shares.part_row], shares.part_label])
        return label, touched, changed

    def keep(self, moved: np.ndarray) -> None:
        """Where the representatives have moved."""
        self._points = moved.copy()


class Means:
    """The means of a table's numeric columns."""

    def __init__(self, table: Table, threads: Threads) -> None:
        self._table = table
        self._threads = threads
        self._changes = Changes()

    def move(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved to the weighted mean of what it carries."""
        table, (_, touched, _) = self._table, self._changes.find(shares, points)
        mass = shares.row_mass

        def add(low: int, high: int) -> np.ndarray:
            sums = np.zeros((shares.m, table.n_numeric))
            values = table.numbers_of(slice(low, high))
            if mass is not None:
                values *= mass[low:high, None]
            moves.sum_rows(values, shares.label[low:high], touched, sums)
            return sums

        # The same chunks for any number of threads, as their sums are rounded.
        sums = self._threads.over_rows(add, n=table.n, chunk=max(CHUNK, -(-table.n // 64)))
        total = np.sum(sums, axis=0)
        part_mass = shares.part_weight if mass is None else shares.part_weight * mass[shares.part_row]
        parts = table.numbers_of(shares.part_row) * part_mass[:, None]
        np.subtract.at(total, shares.label[shares.part_row], parts)
        np.add.at(total, shares.part_label, parts)
        weights, moved = shares.weights(), points.copy()
        which = touched[:-1] & (weights > 0)
        moved[which, : table.n_numeric] = total[which] / weights[which, None]
        self._changes.keep(moved)
        return moved


class Medians:
    """The medians of a table's numeric columns for `m` representatives."""

    def __init__(self, table: Table, m: int, threads: Threads) -> None:
        n, q = table.n, table.n_numeric
        self._threads = threads
        self._flat, self._steps = table.flat()  # the steps from row to row and from column to column
        # Two rows to a bin and representative: the counts take half as much as the table, or a quarter.
        each, self._at_once = (2, _AT_ONCE) if n < _LARGE else (4, _AT_ONCE // 4)
        bins = int(np.clip(n // (each * m), 4, NONE))
        edges = np.full((q, bins - 1), np.inf)
        self._only = np.full((q, bins), np.nan)  # the value of a bin that has but one
        threads.over(lambda k: cut(edges[k], self._only[k], table.column(k)), range(q))
        grid = make_grid(edges)
        self._bins = np.empty((n, q), np.uint8)

        def put(low: int, high: int) -> None:
            values = table.numbers_of(slice(low, high))
            moves.put_in_bins(values, edges, *grid, self._bins[low:high])

        threads.over_rows(put, n=n, chunk=min(-(-n // _CHUNKS), _AT_ONCE))
        self._count = np.empty((m + 1, q, bins), np.int32)  # rows by representative and bin
        self._held = np.empty((0, q, bins), np.int64)  # their mass, where rows have masses
        self._changes = Changes()

    def move(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved the least that reaches weighted medians of what it carries.

        Every value between the lower and the upper median is as good as another.
        """
        (n, q), bins = self._bins.shape, self._count.shape[2]
        moved, old = points.copy(), self._changes.label
        label, touched, changed = self._changes.find(shares, points)
        if changed is None or 2 * len(changed) > n:
            self._over(q, n, moves.count_bins, self._bins, label, self._count)
        else:
            self._over(q, len(changed), moves.recount_bins, self._bins, old, label, changed, self._count)
        units = None if shares.masses is None else shares.masses.units
        if units is not None:
            self._weigh(old, label, changed, units)
        which = np.flatnonzero(touched)
        t = len(which)
        part_row, part_label, part_mass = shares.torn()
        ends = np.searchsorted(part_label, [which, which + 1])
        place = np.ascontiguousarray(points[which, :q], np.float64)
        band = np.full((2, shares.m + 1, q), NONE, np.uint8)
        size, below = np.zeros((t, q), np.int64), np.empty((t, q), np.int64)
        total = np.empty(t, np.int64)
        parts = part_row, part_mass
        fixed = (which, self._count, self._held, self._only, self._bins, UNIT, parts, ends)
        written = (place, band, size, below, total)
        self._over(
            t,
            q * bins,
            lambda low, high: moves.find_bands(*fixed, np.empty(bins, np.int64), *written, low, high),
        )
        slot = np.full(shares.m + 1, -1)
        slot[which] = np.arange(t)
        end = np.cumsum(size) - size.ravel()  # of the values of each place, so far
        near, mass = np.empty(size.sum()), np.empty(size.sum(), np.int64)

        def find(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            room = (high - low) * q + 1
            at, where = np.empty(room, np.int64), np.empty(room, np.int64)
            found = moves.find_entries(self._bins, label, slot, band, *self._steps, at, where, low, high)
            # The places first, then the values: so the reads of distant values overlap.
            where = where[:found].copy()  # not the whole room, which would stay until all is put in place
            values = self._flat.take(at[:found]).astype(np.float64)
            if units is None:
                return values, where, np.full(found, UNIT)
            rows = at[:found] // q if self._steps[1] == 1 else at[:found] % n
            return values, where, units[rows]

        # Few rows at once, whose room is small.
        for values, where, own in self._threads.over_rows(find, n=n if len(near) else 0, chunk=self._at_once):
            moves.put_in_place(values, own, where, end, near, mass)
        of, k = np.nonzero((self._bins[part_row] == band[:, part_label]).any(axis=0))
        at = part_row[of] * self._steps[0] + k * self._steps[1]
        values = self._flat.take(at).astype(np.float64)
        moves.put_in_place(values, part_mass[of], slot[part_label[of]] * q + k, end, near, mass)
        self._over(t, q * bins, moves.move_to_middle, near, mass, end, size, below, total, place)
        moved[which, :q] = place
        self._changes.keep(moved)
        return moved

    def _weigh(
        self, old: np.ndarray | None, label: np.ndarray, changed: np.ndarray | None, units: np.ndarray
    ) -> None:
        """Brings the masses by representative and bin up to date, from the labels before."""
        n, q = self._bins.shape
        if old is None or changed is None or 2 * len(changed) > n:
            self._held = np.zeros(self._count.shape, np.int64)
            old, changed = label[:0], np.arange(n)
        self._over(q, len(changed), moves.weigh_bins, self._bins, old, label, changed, units, self._held)

    def _over(self, n: int, work: int, kernel: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`kernel(*arguments, low, high)` on ranges of n things, in threads if there is enough work."""
        pieces = min(n, self._threads.count, n * work // _FEW)
        if pieces < 2:
            return [kernel(*arguments, 0, n)]
        return self._threads.over_rows(kernel, *arguments, n=n, chunk=-(-n // pieces))


def label_type(m: int) -> type[np.unsignedinteger]:
    """The type of labels from 0 to m: nearly always the same, as kernels are compiled for each."""
    return np.uint16 if m < 2**16 else np.uint32


def cut(edges: np.ndarray, only: np.ndarray, values: np.ndarray) -> None:
    """Writes edges between bins, ascending, to `edges` (bins − 1,): quantiles of a sample of the values.

    A value that two quantiles share gets a bin of its own, up to the next number; it is written to its place
    in `only` (bins,). Edges left over stay as they are.
    """
    some = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    quantiles = some[np.linspace(0, len(some) - 1, len(only) + 1)[1:-1].astype(np.int64)]
    frequent = np.unique(quantiles[1:][quantiles[1:] == quantiles[:-1]])
    found = np.unique(np.concatenate([quantiles, np.nextafter(frequent, values.dtype.type(np.inf))]))
    edges[: len(found)] = found
    only[np.searchsorted(found, frequent) + 1] = frequent


def make_grid(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and step (q,) of a grid on each column, and (q, _GRID + 1) the first edge in each of its steps.

    Places on the grid are rounded, but an edge in an earlier place than a value is not above it all the same.
    """
    start = edges[:, 0].copy()
    last = np.where(np.isfinite(edges), edges, start[:, None]).max(axis=1, initial=-np.inf)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        step = (_GRID - 1) / (last - start)
        step[~np.isfinite(step)] = 0.0
        place = np.clip((edges - start[:, None]) * step[:, None], 0, _GRID - 1)
    first = np.empty((len(edges), _GRID + 1), np.int64)
    for k, own in enumerate(place):
        first[k] = np.searchsorted(np.nan_to_num(own, nan=_GRID - 1).astype(np.int64), np.arange(_GRID + 1))
    return start, step, first
