"""Moving each representative to the minimiser of its share of the plan (method.md, section 3)."""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.encoding import Table, column_codes

_HALF = 0.5 * (1 - 1e-12)  # half of a weight whose fractions were rounded


@dataclass(frozen=True)
class Shares:
    """Which rows each representative carries, and how much of each (1 = the whole row), by representative.

    Representative j carries `rows[start[j]:start[j + 1]]` with the positive weights `weight[…]`.
    """

    rows: np.ndarray
    weight: np.ndarray
    start: np.ndarray

    def of(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows and weights of representative j."""
        part = slice(self.start[j], self.start[j + 1])
        return self.rows[part], self.weight[part]


def means(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
    """The points moved to weighted means of their numeric columns and weighted modes of the others."""
    moved = points.copy()
    for j in range(len(points)):
        rows, weight = shares.of(j)
        if len(rows):
            numeric = table.values[rows, : table.n_numeric].astype(np.float64)
            moved[j, : table.n_numeric] = weight @ numeric / weight.sum()
    return _modes(table, shares, moved)


def medians(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
    """The points moved to weighted medians of their numeric columns and weighted modes of the others.

    Any value between the lower and the upper median is as good: a point moves the least that reaches one.
    """
    moved = points.copy()
    for j in range(len(points)):
        rows, weight = shares.of(j)
        if len(rows) == 0:
            continue
        numeric = table.values[rows, : table.n_numeric]
        order = np.argsort(numeric, axis=0, kind="stable")
        ordered = np.take_along_axis(numeric, order, axis=0)
        up_to = np.cumsum(weight[order], axis=0)
        half = up_to[-1] * _HALF
        # First position with at least half of the weight; the last with no more than half before it.
        low = (up_to < half).sum(0)
        high = np.minimum((up_to <= up_to[-1] * (1 - _HALF)).sum(0), len(rows) - 1)
        columns = np.arange(table.n_numeric)
        moved[j, : table.n_numeric] = np.clip(
            points[j, : table.n_numeric], ordered[low, columns], ordered[high, columns]
        )
    return _modes(table, shares, moved)


def _modes(table: Table, shares: Shares, points: np.ndarray) -> np.ndarray:
    """Sets the categorical columns of `points`, in place, to the heaviest category; a tie keeps one's own."""
    for j in range(len(points)):
        rows, weight = shares.of(j)
        if len(rows) == 0:
            continue
        for k in range(table.n_numeric, table.p):
            total = np.bincount(table.values[rows, k].astype(np.int64), weights=weight)
            own = int(points[j, k])
            if own >= len(total) or total[own] < total.max() * (1 - 1e-12):
                points[j, k] = total.argmax()
    return points


class Medoids:
    """Finds each representative's best real row, exactly and without row-to-row distances.

    The cost of a candidate is a sum over columns of a function of one number, tabulated on the column's
    distinct values by prefix sums: gather and add, O(n p) for all candidates of one representative.
    """

    def __init__(self, table: Table, cost: str, ids: np.ndarray, pools: list[np.ndarray]) -> None:
        """`ids` (n,): equal for rows that count as the same; `pools[g]`: the candidates of cell g."""
        self.table = table
        self.cost = cost
        self.ids = ids
        self.pools = pools
        self.values, self.codes = column_codes(table)
        # Columns first within each pool: the gathers of one column then run through memory in order.
        self.pool_codes = [np.ascontiguousarray(self.codes[pool].T) for pool in pools]

    def move(self, shares: Shares, row_index: np.ndarray, cell_of: np.ndarray) -> np.ndarray:
        """The representatives' rows (m,), moved one after another, distinct by `ids` wherever they were."""
        moved = row_index.copy()
        for j, g in enumerate(cell_of):
            rows, weight = shares.of(j)
            if len(rows) == 0:
                continue
            costs = self._costs(rows, weight, self.pool_codes[g])
            taken = np.delete(self.ids[moved], j)[np.delete(cell_of, j) == g]
            costs[np.isin(self.ids[self.pools[g]], taken)] = np.inf
            own = self._costs(rows, weight, self.codes[moved[j]][:, None])[0]
            best = int(costs.argmin())
            if costs[best] < own - 1e-12 * abs(own):
                moved[j] = self.pools[g][best]
        return moved

    def _costs(self, rows: np.ndarray, weight: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The cost of moving `rows` to each of the `candidates`, given as codes (p, c)."""
        total = np.zeros(candidates.shape[1])
        for k, values in enumerate(self.values):
            mass = np.bincount(self.codes[rows, k], weights=weight, minlength=len(values))
            total += column_table(mass, values, k < self.table.n_numeric, self.cost)[candidates[k]]
        return total


def column_table(mass: np.ndarray, values: np.ndarray, numeric: bool, cost: str) -> np.ndarray:
    """Σ_i w_i c(x_i, v) for every distinct value v of one column; `mass` is the weight on each value."""
    if not numeric:
        return np.asarray(mass.sum() - mass)
    # About the weighted mean, so that neither sum cancels.
    centred = values.astype(np.float64) - mass @ values / mass.sum()
    if cost == "sqeuclidean":
        return np.asarray(mass.sum() * centred * centred + mass @ (centred * centred))
    below, moment = np.cumsum(mass), np.cumsum(mass * centred)
    return np.asarray(centred * (2 * below - below[-1]) - (2 * moment - moment[-1]))
