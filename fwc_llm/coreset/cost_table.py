"""The rows' costs as the caller holds them, read in blocks by numpy or by compiled code."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fwc_llm.coreset.dual import Vertex
from fwc_llm.coreset.narrowing import Columns, Floats, Optimum, Scan, Table
from fwc_llm.errors import FwcError

_IN_MEMORY = 20_000  # entries up to which a second copy of the costs is nothing
_COMPILED = 2_000_000  # entries from which compiled code pays
BLOCK = 16_384  # rows that are looked at together; sums go block by block, whoever computes them


@dataclass(frozen=True)
class CostTable:
    """A `Table` over (n, G) costs, float32 or float64, that are never copied as a whole."""

    cost: NDArray[Any]
    compiled: bool | None = None  # None: by size

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.cost)

    def table(self) -> Table:
        """Return what to solve: a checked copy in memory if the table is small, else the table itself."""
        if self.cost.size > _IN_MEMORY:
            return self
        _check(self.cost, 0)
        return Columns(np.ascontiguousarray(self.cost.T, dtype=np.float64), np.ones(self.size))

    def typical_cost(self) -> float:
        """Return the mean, over some rows, of the second smallest cost: the size of what is optimised."""
        some = np.abs(self.cost[:: max(1, self.size // 1000)], dtype=np.float64)
        second = np.partition(some, min(1, some.shape[1] - 1), axis=1)[:, : 2].max(axis=1)
        for costs in (second[np.isfinite(second)], some[np.isfinite(some)]):
            if costs.any():
                return float(costs.mean())
        return 1.0

    def nearest(self) -> Optimum:
        """Return the plan without a parity limit: every row goes to its cheapest cell, the first if many."""
        prices = np.zeros(self.cost.shape[1])
        scan = self.scan(prices, -1.0)  # no row is in doubt
        none = np.zeros(0, dtype=np.intp)
        vertex = Vertex(prices, scan.key, none, none, np.zeros(0), 0)
        return Optimum(vertex, scan.kept_cost, scan.kept_cost, scan.kept)

    def sample(self, count: int) -> Columns:
        """Take every k-th row."""
        rows = np.array(self.cost[:: max(1, self.size // count)].T, dtype=np.float64, order="C")
        _check(rows.T, None)
        return Columns(rows, np.full(rows.shape[1], self.size / rows.shape[1]))

    def scan(self, prices: Floats, margin: float) -> Scan:
        """See `Table`."""
        compiled = self.cost.size >= _COMPILED if self.compiled is None else self.compiled
        key = np.empty(self.size, dtype=np.int32)
        doubt = np.empty(self.size, dtype=np.int32 if self.size < 2**31 else np.int64)
        blocks = -(-self.size // BLOCK)
        n_doubt, faulty = np.zeros(blocks, dtype=np.intp), np.zeros(blocks, dtype=np.bool_)
        kept, kept_cost = np.zeros((blocks, len(prices))), np.zeros(blocks)
        if compiled:
            from fwc_llm.coreset.transport_kernels import scan as scan_blocks
        else:
            scan_blocks = _scan_blocks
        scan_blocks(self.cost, prices, margin, BLOCK, key, doubt, n_doubt, kept, kept_cost, faulty)
        for block in np.flatnonzero(faulty):
            _check(self.cost[block * BLOCK : (block + 1) * BLOCK], block * BLOCK)
        rows = np.concatenate([doubt[k * BLOCK : k * BLOCK + n_doubt[k]] for k in range(blocks)])
        return Scan(
            key,
            rows,
            np.ascontiguousarray(self.cost[rows].T, dtype=np.float64),
            np.ones(len(rows)),
            kept.sum(axis=0),
            float(kept_cost.sum()),
        )


def _scan_blocks(
    cost: NDArray[Any],
    prices: Floats,
    margin: float,
    size: int,
    key: NDArray[np.int32],
    doubt: NDArray[np.integer],
    n_doubt: NDArray[np.intp],
    kept: Floats,
    kept_cost: Floats,
    faulty: NDArray[np.bool_],
) -> None:
    """Scan block by block; the same as the compiled `scan`, but for rounding in the sums."""
    for block in range(len(n_doubt)):
        start = block * size
        part = cost[start : start + size]
        slack = part - prices
        least = slack.min(axis=1, keepdims=True)
        if not np.isfinite(least).all():
            faulty[block] = True
            continue
        cells = slack.argmin(axis=1)
        unsure = np.count_nonzero(slack <= least + margin, axis=1) > 1
        rows = np.flatnonzero(unsure)
        key[start : start + len(part)] = cells
        doubt[start : start + len(rows)] = start + rows
        n_doubt[block] = len(rows)
        sure = np.flatnonzero(~unsure)
        kept[block] = np.bincount(cells[sure], minlength=len(prices))
        kept_cost[block] = part[sure, cells[sure]].sum(dtype=np.float64)


def _check(cost: NDArray[Any], first: int | None) -> None:
    """Refuse costs that are no costs; `first` is the index of the first row, if rows follow each other."""
    bad = np.argwhere(np.isnan(cost) | np.isneginf(cost))
    if len(bad):
        row, cell = bad[0]
        where = "" if first is None else f" of row {first + row}"
        raise FwcError(
            f"cost{where} to cell {cell} is {cost[row, cell]}: give a number, or inf where a cell has no representative"
        )
    lost = np.flatnonzero(np.isinf(cost).all(axis=1))
    if len(lost):
        where = "a row" if first is None else f"row {first + lost[0]}"
        raise FwcError(f"{where} has no cell to go to: its cost to every usable cell is inf")
