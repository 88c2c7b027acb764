"""Weighted medians of every numeric column for groups of rows, in one compiled call.

A number's bits, read as an integer with the sign's bit moved (`keys`), are in the order of the numbers. So a median
is found by halving a range of integers: in each pass the range shrinks to values that occur. No row is moved.
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.compiled import kernel, read_only
from fwc_llm.coreset.threads import Threads

_PARTS = 4  # calls per thread, so that threads end at about the same time


@dataclass(frozen=True)
class Groups:
    """Group j has `rows[start[j]:start[j + 1]]` with the masses `units` · `unit`."""

    rows: np.ndarray
    units: np.ndarray  # int64
    start: np.ndarray
    unit: float

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.start) - 1

    def of(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of group j, and their masses."""
        part = slice(self.start[j], self.start[j + 1])
        return self.rows[part], self.units[part] * self.unit


def medians(numbers: np.ndarray, groups: Groups, threads: Threads) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper median (g, k) of `numbers` (n, k); a group without rows gets 0."""
    size = numbers.dtype.itemsize
    whole = np.dtype(f"i{size}")
    bits = read_only(np.ascontiguousarray(numbers)).view(whole)
    low = np.zeros((groups.count, numbers.shape[1]), whole)
    high = np.zeros_like(low)
    largest = whole.type(np.iinfo(whole).max)
    sign = whole.type(8 * size - 1)

    def find(part: np.ndarray) -> None:
        if len(part):
            most = np.diff(groups.start)[part].max()
            keys = np.empty((numbers.shape[1], most), whole)
            terms = groups.rows, groups.units, groups.start, part[0], part[-1] + 1
            find_medians(bits, *terms, sign, largest, keys, low, high)

    pieces = 1 if threads.count == 1 else _PARTS * threads.count
    threads.over(find, np.array_split(np.arange(groups.count), pieces))
    for found in (low, high):
        found ^= (found >> sign) & largest
    return low.view(numbers.dtype), high.view(numbers.dtype)


@kernel
def find_medians(bits, rows, units, start, first, last, sign, largest, keys, low, high):  # type: ignore[no-untyped-def]
    """Write the keys of the medians of groups first … last − 1 to `low` and `high` (g, k).

    `bits` (n, k) are the numbers read as integers, `keys` (k, r) is room for the rows of the largest group.
    """
    key = keys.dtype.type
    columns = np.uintp(bits.shape[1])
    for j in range(first, last):
        begin = np.uintp(start[j])
        count = np.uintp(start[j + 1] - start[j])
        total = np.int64(0)
        even = True
        for i in range(count):
            total += units[begin + i]
            even &= units[begin + i] == units[begin]
            row = np.uintp(rows[begin + i])
            for c in range(columns):
                word = bits[row, c]
                keys[c, i] = word ^ ((word >> sign) & largest)
        for c in range(columns if count > 0 else np.uintp(0)):
            least, most = largest, key(~largest)
            for i in range(count):
                least = min(least, keys[c, i])
                most = max(most, keys[c, i])
            # The mass of the values below `least`, and of those up to `most`.
            under, upto = np.int64(0), total
            turn = 0
            while least < most:
                middle = key((least & most) + ((least ^ most) >> 1))
                if turn % 3 < 2:  # most often interpolation is faster than halving
                    share = (0.5 * total - under) / (upto - under)
                    between = np.int64(share * (np.float64(most) - np.float64(least)))
                    middle = min(max(key(least + between), least), key(most - 1))
                turn += 1
                above, below = largest, least
                if even:
                    number = key(0)
                    for i in range(count):
                        value = keys[c, i]
                        number = key(number + key(value <= middle))
                        above = min(above, value if value > middle else largest)
                        below = max(below, value if value <= middle else least)
                    mass = number * units[begin]
                else:
                    mass = np.int64(0)
                    for i in range(count):
                        value = keys[c, i]
                        mass += units[begin + i] if value <= middle else 0
                        above = min(above, value if value > middle else largest)
                        below = max(below, value if value <= middle else least)
                if 2 * mass >= total:
                    most, upto = below, mass
                else:
                    least, under = above, mass
            low[j, c] = least
            high[j, c] = least
            if 2 * upto <= total:
                following = largest
                for i in range(count):
                    value = keys[c, i]
                    following = min(following, value if value > least else largest)
                high[j, c] = following
