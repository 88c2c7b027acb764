"""Weighted medians of every numeric column for groups of rows, in one compiled call.

The bits of numbers, read as integers and changed for negative ones (`keys`), have the order of the
numbers, and compare faster. Passes over the keys halve the range of a median, to values that occur,
until one is left.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.compiled import kernel
from fwc_llm.coreset.threads import Threads

_AT_ONCE = 8192  # rows per call, about: their numbers fit into the cache


@dataclass(frozen=True)
class Groups:
    """Group j has `rows[start[j]:start[j + 1]]` with the masses `units` · `unit`."""

    rows: Array
    units: Array  # int64
    start: Array
    unit: float

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.start) - 1

    def of(self, j: int) -> tuple[Array, Array]:
        """Return the rows of group j, and their masses."""
        part = slice(self.start[j], self.start[j + 1])
        return self.rows[part], self.units[part] * self.unit


def medians(numbers: Array, groups: Groups, threads: Threads) -> tuple[Array, Array]:
    """Return the lower and the upper median (g, k) of `numbers` (n, k); a group without rows
    gets 0.
    """
    size = numbers.dtype.itemsize
    integer = np.dtype(f"i{size}")
    largest = integer.type(np.iinfo(integer).max)
    sign = integer.type(8 * size - 1)
    low = np.zeros((groups.count, numbers.shape[1]), integer)
    high = np.zeros_like(low)

    def find(part: Array) -> None:
        start = groups.start[part[0] : part[-1] + 2]
        rows = slice(start[0], start[-1])
        values = np.take(numbers, groups.rows[rows], axis=0)  # faster than an index
        keys = np.empty((numbers.shape[1], np.diff(start).max()), integer)
        terms = groups.units[rows], start - start[0], sign, largest, keys
        found = low[part[0] : part[-1] + 1], high[part[0] : part[-1] + 1]
        find_medians(values.view(integer), *terms, *found)

    ends = np.flatnonzero(np.diff(groups.start[:-1] // _AT_ONCE)) + 1
    parts = np.split(np.arange(groups.count), ends)
    threads.over(find, parts if groups.count else [])
    for found in (low, high):
        found ^= (found >> sign) & largest
    return low.view(numbers.dtype), high.view(numbers.dtype)


@kernel
def find_medians(  # type: ignore[no-untyped-def]
    bits, units, start, sign, largest, keys, low, high
):
    """Write the keys of the medians of groups to `low` and `high` (g, k).

    `bits` (n, k) are the numbers of the groups' rows, read as integers, and `units` (n,) their
    masses; `keys` (k, r) is room for the rows of the largest group.
    """
    key = keys.dtype.type
    columns = np.uintp(bits.shape[1])
    for j in range(len(low)):
        begin = np.uintp(start[j])
        count = np.uintp(start[j + 1] - start[j])
        total = np.int64(0)
        for i in range(count):
            total += units[begin + i]
            for c in range(columns):
                found = bits[begin + i, c]
                keys[c, i] = found ^ ((found >> sign) & largest)
        for c in range(columns if count > 0 else np.uintp(0)):
            least = largest
            most = key(~largest)
            for i in range(count):
                least = min(least, keys[c, i])
                most = max(most, keys[c, i])
            upto = total  # mass of the values up to `most`
            while least < most:
                middle = key((least & most) + ((least ^ most) >> 1))
                above = largest
                below = least
                mass = np.int64(0)
                for i in range(count):
                    value = keys[c, i]
                    mass += units[begin + i] if value <= middle else 0
                    above = min(above, value if value > middle else largest)
                    below = max(below, value if value <= middle else least)
                if 2 * mass >= total:
                    most = below
                    upto = mass
                else:
                    least = above
            low[j, c] = least
            high[j, c] = least
            if 2 * upto <= total:
                following = largest
                for i in range(count):
                    value = keys[c, i]
                    following = min(following, value if value > least else largest)
                high[j, c] = following
