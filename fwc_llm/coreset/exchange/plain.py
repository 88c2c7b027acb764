"""The kernels of swaps with numpy alone, for tables that should not wait for a compiler.

They are called as those of `fwc_llm.coreset.exchange.kernels` are, and give the same, except that sums over
rows run in another order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.exchange.space import Nearest, Space

_AT_ONCE = 2**18  # pairs of a row and a point


@dataclass(frozen=True)
class Sorted:
    """All rows sorted by nearest point: `columns` (p, n), costs there, and what every cell is from theirs.

    Those of the point occupied[q] begin at starts[q].
    """

    columns: np.ndarray
    apart: np.ndarray
    d_first: np.ndarray
    d_second: np.ndarray
    occupied: np.ndarray
    starts: np.ndarray
    removal: np.ndarray
    mass: np.ndarray | None


def sort_rows(space: Space, nearest: Nearest, reach: np.ndarray, m: int) -> Sorted:
    """The rows of `space` sorted; all are looked at, whatever their `reach`."""
    order = np.argsort(nearest.first, kind="stable")
    occupied, starts = np.unique(nearest.first[order], return_index=True)
    return Sorted(
        columns=np.ascontiguousarray(space.values[order].T),
        apart=space.move[:, space.cell[order]],
        d_first=nearest.d_first[order].astype(np.float64),
        d_second=nearest.d_second[order].astype(np.float64),
        occupied=occupied,
        starts=starts,
        removal=nearest.removal(m, space.mass),
        mass=None if space.mass is None else space.mass[order],
    )


def feature_costs(columns: np.ndarray, space: Space, points: np.ndarray) -> np.ndarray:
    """(q, n) what the `points` (q, p) cost the rows, without cells and prices, and in L2 squared."""
    out = np.zeros((len(points), columns.shape[1]), np.float32)
    for k, column in enumerate(columns):
        if k >= space.n_numeric:
            out += column != points[:, k, None]
            continue
        difference = column - points[:, k, None]
        out += np.abs(difference) if space.cost == "l1" else difference * difference
    return out


def best_exchanges(
    rows: Sorted,
    space: Space,
    prices: np.ndarray,
    points: np.ndarray,
    cell_of: np.ndarray,
    candidates: np.ndarray,
    cells: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For every candidate the point to exchange for it, and the change of the loss: (q,) each."""
    slots, changes = np.zeros(len(cells), np.int64), np.zeros(len(cells))
    for part in _parts(len(cells), len(rows.d_first)):
        costs = feature_costs(rows.columns, space, candidates[part]) + rows.apart[cells[part]]
        costs = np.sqrt(costs) if space.cost == "l2" else costs
        costs = (costs - prices[cells[part], None]).astype(np.float64)
        gain = np.tile(rows.removal, (len(costs), 1))
        change = np.minimum(np.maximum(costs, rows.d_first) - rows.d_second, 0)
        added = np.minimum(costs - rows.d_first, 0)
        if rows.mass is not None:
            change *= rows.mass
            added *= rows.mass
        gain[:, rows.occupied] += np.add.reduceat(change, rows.starts, axis=1)
        gain[cells[part, None] != cell_of] = np.inf
        slots[part] = gain.argmin(axis=1)
        changes[part] = gain.min(axis=1) + added.sum(axis=1)
    return slots, changes


def two_nearest(
    space: Space,
    prices: np.ndarray,
    points: np.ndarray,
    cell_of: np.ndarray,
    slots: np.ndarray | None,
    rows: np.ndarray,
    found: Nearest,
) -> None:
    """Writes which two points are nearest to the `rows`, and what the rows cost there.

    With `slots` only these points are looked at: they are new, and none of them is among those found.
    """
    only = np.arange(len(points)) if slots is None else slots
    for part in _parts(len(rows), len(only)):
        own = rows[part]
        costs = feature_costs(np.ascontiguousarray(space.values[own].T), space, points[only])
        costs += space.move[cell_of[only]][:, space.cell[own]]
        costs = (np.sqrt(costs) if space.cost == "l2" else costs) - prices[cell_of[only], None]
        label = np.repeat(only[:, None], len(own), axis=1)
        if slots is not None:  # what was nearest comes first: of equally near ones it stays
            costs = np.vstack([found.d_first[own], found.d_second[own], costs])
            label = np.vstack([found.first[own], found.second[own], label])
        places = np.arange(len(own))
        for nearest, d_nearest in ((found.first, found.d_first), (found.second, found.d_second)):
            least = costs.argmin(axis=0)
            nearest[own], d_nearest[own] = label[least, places], costs[least, places]
            costs[least, places] = np.inf
        if slots is None and len(points) == 1:
            found.second[own] = -1


def _parts(count: int, width: int) -> Iterator[slice]:
    """Ranges of `count` things, of which each takes `width` pairs."""
    step = max(1, _AT_ONCE // max(width, 1))
    return (slice(low, low + step) for low in range(0, count, step))
