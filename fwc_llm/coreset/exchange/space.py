"""Where swaps are sought: rows and points by columns, and what it costs that one stands for the other."""

from dataclasses import dataclass

import numpy as np

L1, L2, SQUARED = 0, 1, 2
KINDS = {"l1": L1, "l2": L2, "sqeuclidean": SQUARED}
ROOM = 64  # columns behind the points of a table: compiled loops compare so many at once
_MOST_TIMES = 4  # a code may be written, to cost as much

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # a table, see `exchange_kernels`


@dataclass(frozen=True)
class Space:
    """n rows and what it costs to stand for them: F less the price of a cell, or F² less it.

    `numbers` (k, n) float32 and `codes` (c, n) of a small type, a mismatch of which costs `unit`; `cell` (n,)
    each row's cell, `move` (G, G), symmetric, what cells are apart, and `price` (G,). `cost` is "l1", "l2" or
    "sqeuclidean".
    """

    numbers: np.ndarray
    codes: np.ndarray
    unit: np.float32
    cell: np.ndarray
    move: np.ndarray
    price: np.ndarray
    cost: str


@dataclass(frozen=True)
class Points:
    """m points: `numbers` (k, m), `codes` (c, m), `cells` (m,), and `keys` (m,), −1 for what is no row."""

    numbers: np.ndarray
    codes: np.ndarray
    cells: np.ndarray
    keys: np.ndarray


def as_columns(
    numbers: np.ndarray, codes: np.ndarray, squared: bool
) -> tuple[np.ndarray, np.ndarray, np.float32]:
    """A table (n, k), (n, c) by columns: numbers (k', n) float32, codes (c', n), and what a mismatch costs.

    A column of two numbers is a code too, and codes in a small type are compared several times as fast. So
    one-hot columns become codes. Where a mismatch of these costs 1 / t, every other code is repeated t times,
    so that its mismatch still costs 1.
    """
    columns = np.ascontiguousarray(numbers.T, dtype=np.float32)
    low, high = columns.min(axis=1, keepdims=True), columns.max(axis=1, keepdims=True)
    costs = (high - low)[:, 0].astype(np.float64) ** (2 if squared else 1)
    two = ((columns == low) | (columns == high)).all(axis=1) & (costs > 0)
    unit = min(costs[two], default=1.0)
    times = round(1 / unit)
    if 1 <= times <= _MOST_TIMES and np.isclose(times * unit, 1.0, rtol=1e-6):
        two &= np.isclose(costs, unit, rtol=1e-6)
    else:
        two[:], times = False, 1
    kinds = np.concatenate([columns[two] == high[two], *[codes.T] * times])
    # The type must hold the codes, and their number.
    small = np.uint8 if kinds.max(initial=0) < 256 and len(kinds) < 256 else np.int32
    return columns[~two], np.ascontiguousarray(kinds, small), np.float32(1 / times)
