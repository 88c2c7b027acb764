"""The rows of one cell in leaves: groups of rows that lie together, each with the box that holds it."""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.tile import WIDTH

LEAF = 16 * WIDTH  # rows of a leaf
_SOME = 128  # rows of a node that say along which column to divide it


@dataclass(frozen=True)
class Leaves:
    """Rows in the order of their leaves: leaf q has the rows `members[q · LEAF : (q + 1) · LEAF]`.

    `members` (K,) positions, `tiles` (T, p, WIDTH) their values, the last tile filled up with the last row;
    `low` and `high` (L, p) the boxes; `error` (L,) the largest rounding error of the rows' own values.
    """

    members: np.ndarray
    tiles: np.ndarray
    low: np.ndarray
    high: np.ndarray
    error: np.ndarray


def make_leaves(
    values: np.ndarray, n_numeric: int, squared: bool, members: np.ndarray, error: np.ndarray
) -> Leaves:
    """The rows `members` of `values` (n, p) float32, whose rounding errors are `error` (n,)."""
    order = members[_order(values[members], n_numeric, squared)]
    own = values[order]
    starts = np.arange(0, len(order), LEAF)
    full = np.minimum(np.arange(-(-len(order) // WIDTH) * WIDTH), len(order) - 1)
    tiles = own[full].reshape(-1, WIDTH, own.shape[1])
    return Leaves(
        members=order,
        tiles=np.ascontiguousarray(tiles.transpose(0, 2, 1)),
        low=np.minimum.reduceat(own, starts, axis=0),
        high=np.maximum.reduceat(own, starts, axis=0),
        error=np.maximum.reduceat(error[order], starts),
    )


def box_costs(low: np.ndarray, high: np.ndarray, leaves: Leaves, n_numeric: int, squared: bool) -> np.ndarray:
    """(L,) lower bounds of the costs between a box, `low` to `high` (p,), and the leaves' boxes."""
    apart = np.maximum(np.maximum(leaves.low - high, low - leaves.high), np.float32(0))
    numbers = apart[:, :n_numeric]
    total = np.einsum("ij,ij->i", numbers, numbers) if squared else numbers.sum(axis=1)
    return np.asarray(total + (apart[:, n_numeric:] > 0).sum(axis=1, dtype=np.float32))


def _order(values: np.ndarray, n_numeric: int, squared: bool) -> np.ndarray:
    """The order of the rows (n,) that halving them again and again, along the widest column, gives."""
    order = np.arange(len(values))
    nodes = [(0, len(order))]
    while nodes:
        start, stop = nodes.pop()
        leaves = -(-(stop - start) // LEAF)
        if leaves < 2:
            continue
        rows = order[start:stop]
        column = values[rows, _widest(values[rows[:: max(1, len(rows) // _SOME)]], n_numeric, squared)]
        middle = leaves // 2 * LEAF  # all leaves are full, except the last
        order[start:stop] = rows[np.argpartition(column, middle)]
        nodes += [(start, start + middle), (start + middle, stop)]
    return order


def _widest(some: np.ndarray, n_numeric: int, squared: bool) -> int:
    """The column that adds most to the costs between some rows and their middle."""
    apart = np.abs(some[:, :n_numeric] - some[:, :n_numeric].mean(axis=0))
    numbers = (apart * apart if squared else apart).mean(axis=0)
    codes = (some[:, n_numeric:] != some[len(some) // 2, n_numeric:]).mean(axis=0)
    return int(np.concatenate([numbers, codes]).argmax())
