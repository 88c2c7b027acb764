"""Compiled moves of the representatives, to medians and to means.

Medians are found without keeping any column sorted. Every column is cut into up to 255 *bins*, and each
entry's bin kept in a byte. What a representative carries in each bin tells in which one its median lies, and
only the values in that bin have to be looked at.

From one iteration to the next few rows change their representative. The counts are kept up to date, and only
the representatives that gained or lost something are looked at again.
"""

import numpy as np

from fwc_llm.coreset.compiled import kernel, part
from fwc_llm.coreset.descent.updates import UNIT, RowAssignment
from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.threads import CHUNK, Threads

_SAMPLE = 16_384  # rows by which bins are cut
_EACH = 4  # rows to a bin and representative, on average
_AT_ONCE = 4096  # rows whose values are looked for at once
NONE = 255  # a bin that no value is in


class Changes:
    """Finds representatives that have to move: those that do not carry what they did at the last move."""

    def __init__(self) -> None:
        self.label: np.ndarray | None = None  # of every row at the last call, or m for one that was split
        self._torn = np.zeros(0, np.int64)  # representatives that had parts of rows
        self._points = np.empty(0)

    def find(
        self, shares: RowAssignment, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
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
        """Keep where the representatives have moved."""
        self._points = moved.copy()


class Means:
    """The means of a table's numeric columns."""

    def __init__(self, table: EncodedTable, threads: Threads) -> None:
        self._table, self._threads = table, threads

    def move(self, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved to the weighted mean of what it carries."""
        table, mass = self._table, shares.row_mass

        def add(low: int, high: int) -> np.ndarray:
            sums = np.zeros((shares.m, table.n_numeric))
            values = table.numbers_of(slice(low, high))
            if mass is not None:
                values *= mass[low:high, None]
            sum_rows(values, shares.label[low:high], sums)
            return sums

        # The same chunks for any number of threads, as their sums are rounded.
        sums = self._threads.over_rows(add, n=table.n, chunk=max(CHUNK, -(-table.n // 64)))
        total = np.sum(sums, axis=0)
        part_mass = shares.part_weight if mass is None else shares.part_weight * mass[shares.part_row]
        parts = table.numbers_of(shares.part_row) * part_mass[:, None]
        np.subtract.at(total, shares.label[shares.part_row], parts)
        np.add.at(total, shares.part_label, parts)
        weights, moved = shares.weights(), points.copy()
        which = weights > 0
        moved[which, : table.n_numeric] = total[which] / weights[which, None]
        return moved


class Medians:
    """The medians of a table's numeric columns for `m` representatives."""

    def __init__(self, table: EncodedTable, m: int, threads: Threads) -> None:
        self._table, self._threads = table, threads
        n, q = table.n, table.n_numeric
        bins = int(np.clip(n // (_EACH * m), 4, NONE))
        self._only = np.full((q, bins), np.nan)  # the value of a bin that has but one
        self._bins = np.empty((n, q), np.uint8)

        edges = np.full((q, NONE), np.inf)

        def put(low: int, high: int) -> None:
            put_in_bins(table.numbers_of(slice(low, high)), edges, self._bins[low:high])

        threads.over(lambda k: cut(table.column(k), edges[k], self._only[k]), range(q))
        threads.over_rows(put, n=n, chunk=_AT_ONCE)
        self._carried = np.empty((m + 1, q, bins), np.int64)  # mass by representative and bin
        self._changes = Changes()

    def move(self, shares: RowAssignment, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved the least that reaches weighted medians of what it carries.

        Every value between the lower and the upper median is as good as another.
        """
        table, bins, (n, q) = self._table, self._bins, self._bins.shape
        moved, old = points.copy(), self._changes.label
        label, touched, changed = self._changes.find(shares, points)
        units = np.zeros(0, np.int64) if shares.masses is None else shares.masses.units
        if old is None or changed is None or 2 * len(changed) > n:
            self._carried[:] = 0
            old, changed = label[:0], np.arange(n)
        columns = -(-q // self._threads.count)
        terms = bins, old, label, changed, units, UNIT, self._carried
        self._threads.over_rows(count_bins, *terms, n=q, chunk=columns)
        which = np.flatnonzero(touched)
        part_row, part_label, part_mass = shares.torn()
        ends = np.searchsorted(part_label, [which, which + 1])
        place = np.ascontiguousarray(points[which, :q], np.float64)
        band = np.full((2, shares.m + 1, q), NONE, np.uint8)
        below, total = np.zeros((len(which), q), np.int64), np.zeros(len(which), np.int64)
        room = np.empty(self._carried.shape[2], np.int64)
        parts = part_row, part_mass, ends
        find_bands(which, self._carried, self._only, bins, *parts, room, place, band, below, total)
        slot = np.full(shares.m + 1, -1)
        slot[which] = np.arange(len(which))

        def find(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            row, where = np.empty((2, (high - low) * q + 1), np.int64)
            count = find_entries(bins, label, slot, band, row, where, low, high)
            row, where = row[:count], where[:count].copy()
            mass = units[row] if len(units) else np.full(count, UNIT)
            return table.numbers[row, where % q].astype(np.float64), mass, where

        entries = self._threads.over_rows(find, n=n if len(which) else 0, chunk=_AT_ONCE)
        of, k = np.nonzero((bins[part_row] == band[:, part_label]).any(axis=0))
        values = table.numbers[part_row[of], k].astype(np.float64)
        entries.append((values, part_mass[of], slot[part_label[of]] * q + k))
        size = np.sum([np.bincount(where, minlength=place.size) for _, _, where in entries], axis=0)
        end = np.cumsum(size) - size  # of the values of each place, so far
        near, mass = np.empty(size.sum()), np.empty(size.sum(), np.int64)
        for entry in entries:
            put_in_place(*entry, end, near, mass)
        move_to_middle(near, mass, end, size, below, total, place)
        moved[which, :q] = place
        self._changes.keep(moved)
        return moved


def cut(values: np.ndarray, edges: np.ndarray, only: np.ndarray) -> None:
    """Writes edges between bins, ascending, to `edges` (NONE,): quantiles of a sample of the values.

    A value that two quantiles share gets a bin of its own, up to the next number; it is written to its place
    in `only` (bins,). Edges left over stay as they are.
    """
    some = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    quantiles = some[np.linspace(0, len(some) - 1, len(only) + 1)[1:-1].astype(np.int64)]
    frequent = np.unique(quantiles[1:][quantiles[1:] == quantiles[:-1]])
    cuts = np.unique(np.concatenate([quantiles, np.nextafter(frequent, values.dtype.type(np.inf))]))
    edges[: len(cuts)] = cuts
    only[np.searchsorted(cuts, frequent) + 1] = frequent


@kernel
def put_in_bins(values, edges, bins):  # type: ignore[no-untyped-def]
    """Writes how many of its column's ascending `edges` (q, NONE) each value (n, q) reaches to `bins`."""
    for i in range(len(values)):
        for k in range(len(edges)):
            reached, step = 0, (NONE + 1) // 2
            while step:  # without a branch that could be mispredicted
                reached += step if edges[k, reached + step - 1] <= values[i, k] else 0
                step //= 2
            bins[i, k] = reached


@kernel
def count_bins(bins, old, new, rows, units, unit, carried, low, high):  # type: ignore[no-untyped-def]
    """Adds the masses of the `rows` to columns low … high − 1 of `carried` (m + 1, q, bins) by `new` label.

    They are taken from those of their `old` label, if there are old labels. The masses are `units` (n,), or
    `unit` if that is None.
    """
    for q in range(len(rows)):
        i = rows[q]
        mass = units[i] if len(units) else unit
        for k in range(low, high):
            if len(old):
                carried[old[i], k, bins[i, k]] -= mass
            carried[new[i], k, bins[i, k]] += mass


@kernel
def find_bands(  # type: ignore[no-untyped-def]
    which, carried, only, bins, part_row, part_mass, ends, mass, place, band, below, total
):
    """Finds the bins in which the medians of the labels `which` (t,) lie.

    `carried` (m + 1, q, bins) is the mass of each label by bin. `part_row` and `part_mass` are split rows, of
    which the label `which[t]` has those from `ends[0, t]` and before `ends[1, t]`. Where both medians lie in
    bins that hold `only` (q, bins) one value, `place` (t, q) is moved here. Else `band` (2, m + 1, q) gets
    the two bins, and `below` (t, q) the mass in the bins before. `total` (t,) gets the mass of the label,
    and `mass` (bins,) is room.
    """
    for t in range(len(which)):
        j = which[t]
        for b in range(carried.shape[2] if carried.shape[1] else 0):
            total[t] += carried[j, 0, b]
        for e in range(ends[0, t], ends[1, t]):
            total[t] += part_mass[e]
        for k in range(carried.shape[1] if total[t] else 0):
            for b in range(carried.shape[2]):
                mass[b] = carried[j, k, b]
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


@kernel
def find_entries(bins, label, slot, band, row, place, low, high):  # type: ignore[no-untyped-def]
    """The entries of rows low … high − 1 that lie in the `band` of their label, see `find_bands`.

    Column k of row i belongs to the place `slot[label[i]] · q + k`; both are written. Returns how many there
    are.
    """
    size, q = 0, bins.shape[1]
    for i in range(low, high):
        j = label[i]
        t = slot[j]
        if t < 0:
            continue
        for k in range(q):
            b = bins[i, k]
            row[size], place[size] = i, t * q + k
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
def move_to_middle(near, mass, end, size, below, total, place):  # type: ignore[no-untyped-def]
    """Moves every `place` (t, q) the least that reaches the medians.

    Those of place p are among the `size[p]` values `near` before `end[p]`; `below` (t, q) is the mass before
    them, of `total[t]` in all.
    """
    q = place.shape[1]
    for p in range(len(size)):
        if size[p]:
            t, k = p // q, p % q
            first, last = end[p] - size[p], end[p]
            least = _select(near[first:last], mass[first:last], below[t, k], total[t])
            upto, most = below[t, k], np.inf
            for at in range(first, last):
                if near[at] <= least:
                    upto += mass[at]
                else:
                    most = min(most, near[at])
            place[t, k] = min(max(place[t, k], least), least if 2 * upto > total[t] else most)


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
def sum_rows(values, label, sums):  # type: ignore[no-untyped-def]
    """Adds the rows `values` (n, q) to the `sums` (m, q) of their labels."""
    for i in range(len(values)):
        for k in range(values.shape[1]):
            sums[label[i], k] += values[i, k]
