"""Compiled moves of the representatives to medians.

Medians are found without keeping any column sorted. Every column is cut into up to 256 *bins*, and each
entry's bin kept in a byte. How many of a representative's rows lie in each bin tells in which one their
median lies, and only the values in that bin have to be looked at. From one iteration to the next few rows
change their representative: the counts are kept up to date.
"""

import numpy as np

from fwc_llm.coreset.descent import move_kernels as moves
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.threads import Threads

_BINS = 256
_SAMPLE = 65_536  # rows by which bins are cut
_CHUNKS = 16  # in which the table is put in bins, whatever the number of threads


class Medians:
    """The medians of a table's numeric columns for `m` representatives."""

    def __init__(self, table: Table, m: int, threads: Threads) -> None:
        n, q = table.n, table.n_numeric
        self._threads = threads
        self._columns = list(table.numbers.T)
        # So few that the counts take little against the table.
        bins = int(np.clip(n // (8 * m), 4, _BINS))
        edges = np.empty((q, bins - 1))
        for k, own in enumerate(threads.over(lambda column: cut(column, bins), self._columns)):
            edges[k] = own
        self._bins = np.empty((q, n), np.uint8)

        def put(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
            least, most = np.empty((q, bins)), np.empty((q, bins))
            values = np.array(table.numbers[low:high], np.float64, order="C")
            moves.put_in_bins(values, edges, self._bins[:, low:high], least, most)
            return least, most

        ends = threads.over_rows(put, n=n, chunk=-(-n // _CHUNKS))
        least, most = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
        self._only = np.where(least == most, least, np.nan)  # (q, bins) the value of a bin that has but one
        self._count = np.empty((q, m + 1, self._only.shape[1]), np.int32)  # rows by representative and bin
        self._label: np.ndarray | None = None

    def move(self, label: np.ndarray, points: np.ndarray) -> np.ndarray:
        """A copy of `points` (m, p), each moved the least that reaches medians of the rows that carry it.

        `label` (n,), of `label_type(m)`: the representative of each row, or m for none; it is kept. Every
        value between the lower and the upper median is as good as another.
        """
        old = self._label
        changed = None if old is None else np.flatnonzero(label != old)
        if changed is not None and 2 * len(changed) > len(label):
            changed = None  # counting anew is faster
        moved, m = points.copy(), len(points)

        def one(k: int) -> None:
            bins, count = self._bins[k], self._count[k]
            if changed is None:
                moves.count_bins(bins, label, count)
            else:
                moves.recount_bins(bins, old, label, changed, count)
            place = points[:, k].copy()
            band, rank = np.empty((2, m + 1), np.int16), np.empty((3, m + 1), np.int64)
            room = np.empty(len(label) + 1, np.int64)
            rows = room[: moves.find_middle(bins, label, count, self._only[k], place, band, rank, room)]
            # The rows first, then their values: so the reads of distant values overlap.
            found = self._columns[k][rows].astype(np.float64)
            moves.move_to_middle(rows, found, label, band, rank, np.empty(len(rows)), place)
            moved[:, k] = place

        self._threads.over(one, range(len(self._columns)))
        self._label = label
        return moved


def label_type(m: int) -> type[np.unsignedinteger]:
    """The type of labels from 0 to m: nearly always the same, as kernels are compiled for each."""
    return np.uint16 if m < 2**16 else np.uint32


def cut(values: np.ndarray, bins: int) -> np.ndarray:
    """The edges between `bins` bins, ascending, (bins − 1,): quantiles of a sample.

    A value that two quantiles share gets a bin of its own, up to the next number. Edges left over are inf.
    """
    some = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    quantiles = some[np.linspace(0, len(some) - 1, bins + 1)[1:-1].astype(np.int64)]
    frequent = quantiles[1:][quantiles[1:] == quantiles[:-1]]
    edges = np.unique(np.concatenate([quantiles, np.nextafter(frequent, values.dtype.type(np.inf))]))
    return np.concatenate([edges, np.full(bins - 1 - len(edges), np.inf, values.dtype)])
