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

from fwc_llm.coreset.compiled import kernel, part
from fwc_llm.coreset.descent.updates import UNIT, Shares
from fwc_llm.coreset.problem.table import Table
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
        # Nearly always of one type, as kernels are compiled for each.
        label = shares.label.astype(np.uint16 if m < 2**16 else np.uint32)
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
            sum_rows(values, shares.label[low:high], touched, sums)
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
        by_rows = table.numbers.flags.c_contiguous
        numbers = table.numbers if by_rows else np.asfortranarray(table.numbers)
        # All numbers in one row, and the steps from row to row and from column to column.
        self._flat, self._steps = numbers.ravel(order="K"), (q, 1) if by_rows else (1, n)
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
            put_in_bins(values, edges, *grid, self._bins[low:high])

        threads.over_rows(put, n=n, chunk=min(-(-n // _CHUNKS), _AT_ONCE))
        self._count = np.empty((m + 1, q, bins), np.int32)  # rows by representative and bin
        self._carried = np.empty((0, q, bins), np.int64)  # their mass, where rows have masses
        self._changes = Changes()

    def move(self, shares: Shares, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved the least that reaches weighted medians of what it carries.

        Every value between the lower and the upper median is as good as another.
        """
        (n, q), bins = self._bins.shape, self._count.shape[2]
        moved, old = points.copy(), self._changes.label
        label, touched, changed = self._changes.find(shares, points)
        units = None if shares.masses is None else shares.masses.units
        if old is None or changed is None or 2 * len(changed) > n:
            self._count[:] = 0
            if units is not None:
                self._carried = np.zeros(self._count.shape, np.int64)
            old, changed = label[:0], np.arange(n)
        masses = np.zeros(0, np.int64) if units is None else units
        terms = old, label, changed, masses, self._count, self._carried
        self._over(q, len(changed), count_bins, self._bins, *terms)
        which = np.flatnonzero(touched)
        t = len(which)
        part_row, part_label, part_mass = shares.torn()
        ends = np.searchsorted(part_label, [which, which + 1])
        place = np.ascontiguousarray(points[which, :q], np.float64)
        band = np.full((2, shares.m + 1, q), NONE, np.uint8)
        size, below = np.zeros((t, q), np.int64), np.empty((t, q), np.int64)
        total = np.empty(t, np.int64)
        parts = part_row, part_mass
        fixed = (which, self._count, self._carried, self._only, self._bins, UNIT, parts, ends)
        written = (place, band, size, below, total)
        self._over(
            t, q * bins, lambda low, high: find_bands(*fixed, np.empty(bins, np.int64), *written, low, high)
        )
        slot = np.full(shares.m + 1, -1)
        slot[which] = np.arange(t)
        end = np.cumsum(size) - size.ravel()  # of the values of each place, so far
        near, mass = np.empty(size.sum()), np.empty(size.sum(), np.int64)

        def find(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            room = (high - low) * q + 1
            at, where = np.empty(room, np.int64), np.empty(room, np.int64)
            count = find_entries(self._bins, label, slot, band, *self._steps, at, where, low, high)
            # The places first, then the values: so the reads of distant values overlap.
            where = where[:count].copy()  # not the whole room, which would stay until all is put in place
            values = self._flat.take(at[:count]).astype(np.float64)
            if units is None:
                return values, where, np.full(count, UNIT)
            rows = at[:count] // q if self._steps[1] == 1 else at[:count] % n
            return values, where, units[rows]

        # Few rows at once, whose room is small.
        for values, where, own in self._threads.over_rows(find, n=n if len(near) else 0, chunk=self._at_once):
            put_in_place(values, own, where, end, near, mass)
        of, k = np.nonzero((self._bins[part_row] == band[:, part_label]).any(axis=0))
        at = part_row[of] * self._steps[0] + k * self._steps[1]
        values = self._flat.take(at).astype(np.float64)
        put_in_place(values, part_mass[of], slot[part_label[of]] * q + k, end, near, mass)
        self._over(t, q * bins, move_to_middle, near, mass, end, size, below, total, place)
        moved[which, :q] = place
        self._changes.keep(moved)
        return moved

    def _over(self, n: int, work: int, kernel: Callable[..., Any], *arguments: Any) -> list[Any]:
        """`kernel(*arguments, low, high)` on ranges of n things, in threads if there is enough work."""
        pieces = min(n, self._threads.count, n * work // _FEW)
        if pieces < 2:
            return [kernel(*arguments, 0, n)]
        return self._threads.over_rows(kernel, *arguments, n=n, chunk=-(-n // pieces))


def cut(edges: np.ndarray, only: np.ndarray, values: np.ndarray) -> None:
    """Writes edges between bins, ascending, to `edges` (bins − 1,): quantiles of a sample of the values.

    A value that two quantiles share gets a bin of its own, up to the next number; it is written to its place
    in `only` (bins,). Edges left over stay as they are.
    """
    some = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    quantiles = some[np.linspace(0, len(some) - 1, len(only) + 1)[1:-1].astype(np.int64)]
    frequent = np.unique(quantiles[1:][quantiles[1:] == quantiles[:-1]])
    cuts = np.unique(np.concatenate([quantiles, np.nextafter(frequent, values.dtype.type(np.inf))]))
    edges[: len(cuts)] = cuts
    only[np.searchsorted(cuts, frequent) + 1] = frequent


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


NONE = 255  # a bin that no value is in


@kernel
def put_in_bins(values, edges, start, step, first, bins):  # type: ignore[no-untyped-def]
    """Writes how many of its column's ascending `edges` (q, e) each value (n, q) reaches to `bins` (n, q).

    Place `(value − start[k]) · step[k]` of a grid says that the edges before `first[k, place]` are not above
    the value, and those from `first[k, place + 1]` on are above it: few are left to compare.
    """
    last = first.shape[1] - 2
    for i in range(len(values)):
        for k in range(len(edges)):
            value = values[i, k]
            place = int(min(max((value - start[k]) * step[k], 0.0), float(last)))
            b, end = first[k, place], first[k, place + 1]
            while b < end:
                middle = (b + end) // 2
                if edges[k, middle] <= value:
                    b = middle + 1
                else:
                    end = middle
            bins[i, k] = b


@kernel
def count_bins(bins, old, new, rows, units, count, carried, low, high):  # type: ignore[no-untyped-def]
    """Counts the `rows` by their new label and bin: columns low … high − 1 of `count` (m + 1, q, bins).

    They are taken from those of their `old` label, if there are old labels. So are their `units` (n,) in
    `carried` (m + 1, q, bins), if they have any.
    """
    for q in range(len(rows)):
        i = rows[q]
        for k in range(low, high):
            b = bins[i, k]
            if len(old):
                count[old[i], k, b] -= 1
            count[new[i], k, b] += 1
            if len(units):
                if len(old):
                    carried[old[i], k, b] -= units[i]
                carried[new[i], k, b] += units[i]


@kernel
def find_bands(  # type: ignore[no-untyped-def]
    which, count, carried, only, bins, unit, parts, ends, mass, place, band, size, below, total, low, high
):
    """Finds the bins in which the medians of the labels `which[low … high − 1]` lie.

    `count` (m + 1, q, bins) are the rows of each label by bin, and `carried` (m + 1, q, bins) their mass; if
    it is empty, each row has the mass `unit`. `parts`, rows and masses, are split rows, of which the label
    `which[t]` has those from `ends[0, t]` and before `ends[1, t]`. Where
    both medians lie in bins that hold `only` (q, bins) one value, `place` (t, q) is moved here. Else `band`
    (2, m + 1, q) gets the two bins, `size` (t, q) how many entries they have, and `below` (t, q) the mass in
    the bins before. `total` (t,) gets the mass of the label, and `mass` (bins,) is room.
    """
    part_row, part_mass = parts
    weighted = len(carried) > 0
    for t in range(low, high):
        j = which[t]
        total[t] = 0
        for b in range(count.shape[2] if count.shape[1] else 0):
            total[t] += carried[j, 0, b] if weighted else count[j, 0, b] * unit
        for e in range(ends[0, t], ends[1, t]):
            total[t] += part_mass[e]
        for k in range(count.shape[1] if total[t] else 0):
            for b in range(count.shape[2]):
                mass[b] = carried[j, k, b] if weighted else count[j, k, b] * unit
            for e in range(ends[0, t], ends[1, t]):
                mass[bins[part_row[e], k]] += part_mass[e]
            before, left = 0, 0
            while 2 * (before + mass[left]) < total[t]:
                before += mass[left]
                left += 1
            right, upto = left, before + mass[left]
            while 2 * upto <= total[t]:
                right += 1
                upto += mass[right]
            if only[k, left] == only[k, left] and only[k, right] == only[k, right]:  # neither is NaN
                place[t, k] = min(max(place[t, k], only[k, left]), only[k, right])
                continue
            band[0, j, k], band[1, j, k], below[t, k] = left, right, before
            size[t, k] = count[j, k, left] + (count[j, k, right] if right > left else 0)
            for e in range(ends[0, t], ends[1, t]):
                b = bins[part_row[e], k]
                size[t, k] += (b == left) | (b == right)


@kernel
def find_entries(bins, label, slot, band, row_step, column_step, at, place, low, high):  # type: ignore[no-untyped-def]
    """The entries of rows low … high − 1 that lie in the `band` of their label, see `find_bands`.

    Column k of row i is entry `row_step · i + column_step · k` of the table, written to `at`, and belongs to
    the place `slot[label[i]] · q + k`, written to `place`. Returns how many there are.
    """
    size, q = 0, bins.shape[1]
    for i in range(low, high):
        j = label[i]
        t = slot[j]
        if t < 0:
            continue
        for k in range(q):
            b = bins[i, k]
            at[size] = row_step * i + column_step * k
            place[size] = t * q + k
            size += (b == band[0, j, k]) | (b == band[1, j, k])
    return size


@kernel
def put_in_place(values, mass, place, end, near, near_mass):  # type: ignore[no-untyped-def]
    """Puts the `values` and their masses side by side with those of their place, behind its `end`."""
    for q in range(len(values)):
        at = end[place[q]]
        near[at], near_mass[at] = values[q], mass[q]
        end[place[q]] += 1


@kernel
def move_to_middle(near, mass, end, size, below, total, place, low, high):  # type: ignore[no-untyped-def]
    """Moves rows low … high − 1 of `place` (t, q) the least that reaches the medians.

    Those of `place[t, k]` are among the `size[t, k]` values `near` before `end`; `below` is the mass before
    them, of `total[t]` in all.
    """
    q = place.shape[1]
    for t in range(low, high):
        for k in range(q):
            if size[t, k]:
                last = end[t * q + k]
                first = last - size[t, k]
                values, masses = near[first:last], mass[first:last]
                least, most = _middle(values, masses, below[t, k], total[t])
                place[t, k] = min(max(place[t, k], least), most)


@part
def _middle(values, mass, below, total):  # type: ignore[no-untyped-def]
    """The lower and the upper median, see `_select`; they exchange values and their masses in place."""
    least = _select(values, mass, below, total)
    upto, most = below, np.inf
    for at in range(len(values)):
        if values[at] <= least:
            upto += mass[at]
        else:
            most = min(most, values[at])
    return least, least if 2 * upto > total else most


@part
def _select(values, mass, below, total):  # type: ignore[no-untyped-def]
    """The least value up to which, with `below`, lies half of the `total` (Hoare's FIND, in place).

    Equal values are exchanged like larger and smaller ones: they fall into halves, however many they are.
    """
    low, high = 0, len(values) - 1
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while pivot < values[right]:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                mass[left], mass[right] = mass[right], mass[left]
                left += 1
                right -= 1
        before = below
        for at in range(low, right + 1):
            before += mass[at]
        if 2 * before >= total:
            high = right
            continue
        for at in range(right + 1, left):
            before += mass[at]
        if 2 * before >= total:
            return pivot
        low, below = left, before
    return values[low]


@kernel
def sum_rows(values, label, wanted, sums):  # type: ignore[no-untyped-def]
    """Adds the rows `values` (n, q) to the `sums` (m, q) of their labels, where these are `wanted` (m,)."""
    for i in range(len(values)):
        if wanted[label[i]]:
            for k in range(values.shape[1]):
                sums[label[i], k] += values[i, k]
