"""The nearest row of a cell, for rows that need it, up to a reach beyond which it does not matter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fwc_llm.coreset.fairwasp.leaves import Leaves, box_costs, make_leaves
from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.ground_cost import feature_costs
from fwc_llm.coreset.threads import Threads

COMPILED = 10**8  # number of differences from which compiled code is faster
_CHUNK = 1024  # rows that are searched for together
_AT_ONCE = 16  # chunks of a thread between two reports
Report = Callable[[int], None]


class NearestRows:
    """The rows of a table, of which those of a cell are searched. Equal rows of a cell are searched once.

    Rows lie in leaves (see `leaves`), and whole leaves that are too far are left out. The rest is compared
    in float32, and what may be nearest by that, rounding considered, in float64: the costs are exact.
    """

    def __init__(self, table: Table, cells: Cells, cost: str) -> None:
        self._values = np.ascontiguousarray(table.values, dtype=np.float64)
        self._n_numeric, self._cost, self._squared = table.n_numeric, cost, cost == "sqeuclidean"
        self._first, self._kind = _distinct(self._values, cells.cell)
        self._members = [self._first[cells.cell[self._first] == g] for g in range(cells.n_cells)]
        single = table.fits_single or table.n_numeric == table.p
        self._compiled = table.n * table.n * table.p >= COMPILED and single
        if self._compiled:
            self._prepare(table)

    def search(
        self, g: int, rows: np.ndarray, reach: np.ndarray, report: Report | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each of `rows` (q,) the nearest row of cell g and the cost; −1 and `reach` if that is less.

        `reach` (q,) may be inf. `report` is called with the number of rows done since its last call.
        """
        kinds, group = np.unique(self._kind[rows], return_inverse=True)
        best = np.zeros(len(kinds))
        np.maximum.at(best, group, reach)
        found = np.full(len(kinds), -1)
        if self._compiled:
            self._find_compiled(g, self._first[kinds], best, found, report)
        else:
            self._find_plainly(g, self._first[kinds], best, found)
        return best[group], found[group]

    def _find_plainly(self, g: int, rows: np.ndarray, best: np.ndarray, found: np.ndarray) -> None:
        """Compares all pairs; the same as the compiled search, up to rounding and ties."""
        members = self._members[g]
        columns = np.ascontiguousarray(self._values[members].T)
        for q, i in enumerate(rows.tolist()):
            costs = feature_costs(columns, self._n_numeric, self._values[i], self._cost)
            j = costs.argmin()
            if costs[j] < best[q]:
                best[q], found[q] = costs[j], members[j]

    def _prepare(self, table: Table) -> None:
        """The rows in float32, what that takes from each, and leaves for every cell."""
        span = float(table.span.max(initial=0.0))
        # Numbers that float32 cannot hold are scaled by a power of two: no digits are lost.
        self._scale = 1.0 if table.fits_single else float(np.ldexp(1.0, -int(np.frexp(span)[1])))
        self._x = ((self._values - table.centre) * self._scale).astype(np.float32)
        sizes = np.abs(self._x[:, : self._n_numeric].astype(np.float64))
        size = np.sqrt((sizes**2).sum(axis=1)) if self._squared else sizes.sum(axis=1)
        self._error = (size * 2.0**-23 + 1e-37 * table.p).astype(np.float32)
        self._rounding = np.float32(1.0 + (table.p + 8) * 2.0**-22)
        self._leaves = [
            make_leaves(self._x, self._n_numeric, self._squared, members, self._error)
            for members in self._members
        ]
        self._place = np.zeros(table.n, np.int64)  # of each row in the order of the leaves
        order = np.concatenate([leaves.members for leaves in self._leaves])
        self._place[order] = np.arange(len(order))
        self._threads = Threads()

    def _find_compiled(
        self, g: int, rows: np.ndarray, best: np.ndarray, found: np.ndarray, report: Report | None
    ) -> None:
        leaves = self._leaves[g]
        order = np.argsort(self._place[rows])  # neighbours together
        chunks = [order[low : low + _CHUNK] for low in range(0, len(order), _CHUNK)]

        def search(chunk: np.ndarray) -> None:
            own, row = best[chunk], found[chunk]
            self._find_in_leaves(leaves, rows[chunk], own, row)
            best[chunk], found[chunk] = own, row

        step = _AT_ONCE * self._threads.count
        for low in range(0, len(chunks), step):
            some = chunks[low : low + step]
            self._threads.over(search, some)
            if report:
                report(sum(len(chunk) for chunk in some))

    def _find_in_leaves(self, leaves: Leaves, rows: np.ndarray, best: np.ndarray, found: np.ndarray) -> None:
        from fwc_llm.coreset.fairwasp.nearest_kernels import find_nearest
        from fwc_llm.coreset.tile import ROWS, WIDTH

        own, p = self._x[rows], self._x.shape[1]
        centre = np.median(own, axis=0)
        order = np.argsort(box_costs(centre, centre, leaves, self._n_numeric, self._squared), kind="stable")
        bounds = box_costs(own.min(axis=0), own.max(axis=0), leaves, self._n_numeric, self._squared)[order]
        room: tuple[Any, ...] = (
            np.empty((p, len(rows)), np.float32),
            *(np.empty(len(rows), np.float32) for _ in range(3)),
            np.empty(ROWS, np.int64),
            np.empty((p, ROWS), np.float32),
            np.empty(ROWS, np.float32),
            np.empty((WIDTH, ROWS), np.float32),
        )
        find_nearest(
            *(self._x, self._values, self._error, rows, best, found),
            *(leaves.members, leaves.tiles, leaves.low, leaves.high, leaves.error, order, bounds),
            *(self._n_numeric, self._squared, self._scale, self._rounding, *room),
        )


def _distinct(values: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of all equal rows of a cell (k,), and for every row (n,) which of these it equals."""
    keys = np.ascontiguousarray(np.column_stack([cell, values]))
    whole = keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1])))[:, 0]
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    return first, kind
