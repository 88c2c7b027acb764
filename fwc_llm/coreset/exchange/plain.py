"""The kernels of swaps with numpy alone, for tables that should not wait for a compiler.

They are called as those of `fwc_llm.coreset.exchange.kernels` are, and give the same, except that sums
over rows run in another order.
"""

from collections.abc import Iterator

import numpy as np

from fwc_llm.coreset.exchange.space import L1, L2, Columns

_AT_ONCE = 2**18  # pairs of a row and a point


def best_exchanges(
    table: Columns,
    unit: np.float32,
    kind: int,
    price: np.ndarray,
    cell_of: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    values: np.ndarray,
    kinds: np.ndarray,
    candidates: np.ndarray,
    cells: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For every candidate the point to exchange for it, and the change of the loss: (batch,) each."""
    _, nearest, second = rows.astype(np.float64)
    occupied = np.flatnonzero(np.diff(starts))
    removal = np.zeros(len(cell_of))
    removal[occupied] = np.add.reduceat(second - nearest, starts[occupied])
    slots, changes = np.zeros(len(cells), np.int64), np.zeros(len(cells))
    everything = np.arange(rows.shape[1])
    for part in _parts(len(cells), len(everything)):
        cost = _metric(table, unit, kind, everything, values, kinds, candidates[part], cells[part])
        cost = (cost - price[cells[part], None]).astype(np.float64)
        gain = np.tile(removal, (len(cost), 1))
        change = np.minimum(np.maximum(cost, nearest) - second, 0)
        gain[:, occupied] += np.add.reduceat(change, starts[occupied], axis=1)
        gain[cells[part, None] != cell_of] = np.inf
        slots[part] = gain.argmin(axis=1)
        changes[part] = gain.min(axis=1) + np.minimum(cost - nearest, 0).sum(axis=1)
    return slots, changes


def two_nearest(
    table: Columns,
    unit: np.float32,
    kind: int,
    price: np.ndarray,
    cell: np.ndarray,
    cell_of: np.ndarray,
    rows: np.ndarray,
    nearest: np.ndarray,
    second: np.ndarray,
    d_nearest: np.ndarray,
    d_second: np.ndarray,
) -> None:
    """Writes the places of the two nearest points of `rows`, and their costs there, to (n,) arrays."""
    n, m = len(cell), len(cell_of)
    for part in _parts(len(rows), m):
        own, places = rows[part], np.arange(len(rows[part]))
        costs = _metric(table, unit, kind, own, *table[:2], np.arange(n, n + m), cell_of)
        costs -= price[cell_of, None]
        nearest[own] = costs.argmin(axis=0)
        d_nearest[own] = costs[nearest[own], places]
        costs[nearest[own], places] = np.inf
        second[own] = costs.argmin(axis=0) if m > 1 else -1
        d_second[own] = costs.min(axis=0)


def costs_to(table: Columns, unit: np.float32, kind: int, n: int, point: int, cell: int) -> np.ndarray:
    """(n,): F, or F², between the rows and column `point` of their own table."""
    point_only, cell_only = np.array([point]), np.array([cell])
    return np.asarray(_metric(table, unit, kind, np.arange(n), *table[:2], point_only, cell_only)[0])


def _metric(
    table: Columns,
    unit: np.float32,
    kind: int,
    rows: np.ndarray,
    values: np.ndarray,
    kinds: np.ndarray,
    points: np.ndarray,
    cells: np.ndarray,
) -> np.ndarray:
    """(points, rows): F, or F², between `rows` of `table` and `points`, columns of `values` and `kinds`."""
    numbers, codes, between = table
    mismatches = np.zeros((len(points), len(rows)), codes.dtype)
    for c, column in enumerate(codes):
        mismatches += column[rows] != kinds[c, points, None]
    out: np.ndarray = unit * mismatches.astype(np.float32) + between[cells][:, rows]
    for k, column in enumerate(numbers):
        difference = column[rows] - values[k, points, None]
        out += np.abs(difference) if kind == L1 else difference * difference
    return np.sqrt(out) if kind == L2 else out


def _parts(count: int, width: int) -> Iterator[slice]:
    """Ranges of `count` things, of which each takes `width` pairs."""
    step = max(1, _AT_ONCE // max(width, 1))
    return (slice(low, low + step) for low in range(0, count, step))
