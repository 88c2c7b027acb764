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
        if threads:
            from fwc_llm.coreset.compiling.kernel import read_only
            from fwc_llm.coreset.exchange import kernels

            self._kernels, values = kernels, read_only(values)
        self._space = replace(space, values=values, move=space.move.astype(np.float32))
        self.prices = space.prices.astype(np.float32)
        self._points, self._cell_of = points.values.astype(np.float32), points.cells
        self._n = n = len(values)
        places, costs = np.empty((2, n), np.int32), np.empty((2, n), np.float32)
        self._nearest = Nearest(*places, *costs)
        self._sorted: Any = None  # until something is compared
        self._find_nearest(np.arange(n))

    @property
    def labels(self) -> np.ndarray:
        """(n,) the nearest point of every row."""
        return self._nearest.first

    def loss(self) -> float:
        """The sum of the rows' costs, each as often as its mass says."""
        costs, mass = self._nearest.d_first, self._space.mass
        return float(costs.sum(dtype=np.float64) if mass is None else costs.astype(np.float64) @ mass)

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

    def swap(self, slots: np.ndarray, values: np.ndarray, prices: np.ndarray | None = None) -> None:
        """Puts other `values` (k, p) in the place of the points `slots` (k,); sets new prices, if given."""
        self._points[slots] = values
        if prices is not None:
            self.set_prices(prices.astype(np.float32))
            return
        gone = np.zeros(len(self._points), bool)
        gone[slots] = True
        stale = gone[self._nearest.first] | gone[self._nearest.second]
        self._find_nearest(np.flatnonzero(~stale), slots)
        self._find_nearest(np.flatnonzero(stale))

    def set_prices(self, prices: np.ndarray) -> None:
        """Sets other prices, (G,) float32."""
        self.prices = prices
        self._find_nearest(np.arange(self._n))

    def state(self) -> tuple[Any, ...]:
        """What stands now, for `restore`."""
        near = self._nearest
        found = Nearest(near.first.copy(), near.second.copy(), near.d_first.copy(), near.d_second.copy())
        return self._points.copy(), self.prices, found, self._sorted

    def restore(self, state: tuple[Any, ...]) -> None:
        """Makes what stood then stand again."""
        self._points, self.prices, self._nearest, self._sorted = state

    def _find_nearest(self, rows: np.ndarray, slots: np.ndarray | None = None) -> None:
        """Finds the two nearest points of the rows, of all or, beside those known, of some that are new."""
        near = self._nearest
        self._sorted = None

        def find(part: np.ndarray) -> None:
            self._kernels.two_nearest(
                *(self._space, self.prices, self._points, self._cell_of, slots, part, near)
            )

        work = len(rows) * (self._points if slots is None else self._points[slots]).size
        count = self._threads.count if self._threads and work >= _WORTH_SHARING else 1
        if self._threads and count > 1:
            self._threads.over(find, np.array_split(rows, count))
        else:
            find(rows)
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
        return self._kernels.sort_rows(self._space, near, first + second, m)
