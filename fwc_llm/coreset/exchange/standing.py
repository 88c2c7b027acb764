"""The points that stand, the two nearest of every row, and what swaps of them would change."""

from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.exchange import plain
from fwc_llm.coreset.exchange.space import Nearest, Points, Space
from fwc_llm.coreset.threads import Threads

_WORTH_SHARING = 2_000_000  # comparisons of two values: about half a millisecond


class Standing:
    """Some points of a space. `threads` share the compiled work; None: with numpy alone."""

    def __init__(self, space: Space, points: Points, threads: Threads | None) -> None:
        self._kernels: Any = plain
        self._threads = threads
        values = np.ascontiguousarray(space.values, np.float32)
        self._columns = np.ascontiguousarray(values.T)
        if threads:
            from fwc_llm.coreset.compiling.kernel import read_only
            from fwc_llm.coreset.exchange import kernels

            self._kernels, values = kernels, read_only(values)
        self._space = replace(space, values=values, move=space.move.astype(np.float32))
        self.prices = space.prices.astype(np.float32)
        self._points, self._cell_of = points.values.astype(np.float32), points.cells
        self._n = n = len(values)
        places, costs = np.empty((2, n), np.int64), np.empty((2, n), np.float32)
        self._nearest = Nearest(*places, *costs)
        self._sorted: Any = None  # until something is compared
        self._find_nearest(np.arange(n))

    @property
    def labels(self) -> np.ndarray:
        """(n,) the nearest point of every row."""
        return self._nearest.first

    def loss(self) -> float:
        """The sum of the rows' costs."""
        return float(self._nearest.d_first.sum(dtype=np.float64))

    def compare(self, candidates: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each candidate (q, p), to stand for a cell (q,), the best point to exchange, and the change."""

        if self._sorted is None:
            self._sorted = self._sort()

        def exchanges(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found: tuple[np.ndarray, np.ndarray] = self._kernels.best_exchanges(
                *(self._sorted, self._space, self.prices, self._points, self._cell_of),
                *(candidates[part], cells[part]),
            )
            return found

        everything = np.arange(len(candidates))
        if self._threads is None or self._threads.count == 1 or self._n * candidates.size < _WORTH_SHARING:
            return exchanges(everything)
        parts = np.array_split(everything, min(self._threads.count, len(everything)))
        slots, changes = zip(*self._threads.over(exchanges, parts), strict=True)
        return np.concatenate(slots), np.concatenate(changes)

    def values(self, slot: int) -> np.ndarray:
        """The values (p,) of a point."""
        return np.array(self._points[slot])

    def swap(self, slot: int, values: np.ndarray, prices: np.ndarray | None = None) -> None:
        """Puts other values in the place of point `slot`, and sets new prices, if given."""
        self._points[slot] = values
        if prices is not None:
            self.set_prices(prices.astype(np.float32))
            return
        stale = (self._nearest.first == slot) | (self._nearest.second == slot)
        self._come_closer(slot, ~stale)
        self._find_nearest(np.flatnonzero(stale))

    def set_prices(self, prices: np.ndarray) -> None:
        """Sets other prices, (G,) float32."""
        self.prices = prices
        self._find_nearest(np.arange(self._n))

    def _come_closer(self, slot: int, rows: np.ndarray) -> None:
        """Point `slot` is new: puts it where it is nearer than the two nearest of the `rows` (n,) bool."""
        space, cell, near = self._space, self._cell_of[slot], self._nearest
        costs = plain.feature_costs(self._columns, space, self._points[slot : slot + 1])[0]
        costs += space.move[cell, space.cell]
        costs = (np.sqrt(costs) if space.cost == "l2" else costs) - self.prices[cell]
        first = rows & (costs < near.d_first)
        second = rows & ~first & (costs < near.d_second)
        near.second[first], near.d_second[first] = near.first[first], near.d_first[first]
        near.first[first], near.d_first[first] = slot, costs[first]
        near.second[second], near.d_second[second] = slot, costs[second]

    def _find_nearest(self, rows: np.ndarray) -> None:
        """Finds the two nearest points of the rows."""
        near = self._nearest
        self._sorted = None
        self._kernels.two_nearest(self._space, self.prices, self._points, self._cell_of, rows, near)
        if len(self._points) == 1:  # no second point: F(i, x) ≤ F(i, s) + F(x, s), where s is the single one
            price = self.prices[self._cell_of[0]]
            near.d_second[:] = 4 * (near.d_first.max() + price) - price + 1

    def _sort(self) -> Any:
        """The rows sorted, as `best_exchanges` takes them.

        A candidate x of cell g matters to row i of point s if F(i, x) < F₂, what the second costs without its
        price, and F(i, x) ≥ F(x, s) − F(i, s): if F(x, s) < F(i, s) + F₂, the reach of the row.
        """
        near, m = self._nearest, len(self._points)
        first = near.d_first + self.prices[self._cell_of[near.first]]
        second = near.d_second + self.prices[self._cell_of].max()
        if self._space.cost == "sqeuclidean":
            first, second = np.sqrt(np.maximum(first, 0)), np.sqrt(np.maximum(second, 0))
        return self._kernels.sort_rows(self._columns, self._space, near, first + second, m)
