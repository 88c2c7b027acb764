"""The nearest representative of every cell for every row: c_ig = min over j in g of c_ij (method.md, 2)."""

from dataclasses import dataclass

import numpy as np

from fwc_llm.coreset.cells import Cells
from fwc_llm.coreset.encoding import Table

_ROWS = 2048  # rows handled at once: a block of this many rows and a few dozen columns stays in the cache


@dataclass(frozen=True)
class Nearest:
    """Each cell's cheapest representative: `cost` (n, G), inf where there is none; `label` (n, G), which."""

    cost: np.ndarray
    label: np.ndarray


def between_cells(cells: Cells, cost_sensitive: float, cost_outcome: float) -> np.ndarray:
    """(G, G): what it costs to move a row from one cell to another, features aside."""
    level, outcome = np.divmod(np.arange(cells.n_cells), cells.n_outcomes)
    return np.asarray(
        cost_sensitive * (level[:, None] != level) + cost_outcome * (outcome[:, None] != outcome), dtype=float
    )


def feature_costs(values: np.ndarray, n_numeric: int, point: np.ndarray, cost: str) -> np.ndarray:
    """(n,) feature cost of the columns-first `values` (p, n) to one point (p,)."""
    difference = values[:n_numeric] - point[:n_numeric, None]
    if cost == "l1":
        total = np.abs(difference, out=difference).sum(0, dtype=np.float64)
    else:
        total = np.multiply(difference, difference, out=difference).sum(0, dtype=np.float64)
    if n_numeric < len(values):
        total += (values[n_numeric:] != point[n_numeric:, None]).sum(0)
    return np.asarray(total)


class Assigner:
    """Assigns the rows of one table, in blocks that fit the cache, with numpy alone."""

    def __init__(self, table: Table, cells: Cells, cost: str, move: np.ndarray) -> None:
        """`move` (G, G) is `between_cells`."""
        self.columns = np.ascontiguousarray(table.values.T, dtype=np.float64)
        self.n_numeric = table.n_numeric
        self.cells = cells
        self.cost = cost
        self.move = move

    def __call__(self, points: np.ndarray, cell_of: np.ndarray) -> Nearest:
        """The nearest of `points` (m, p) in each cell, ties to the first; `cell_of` (m,): their cells."""
        n = self.columns.shape[1]
        cost = np.full((self.cells.n_cells, n), np.inf)
        label = np.full((self.cells.n_cells, n), -1, np.int32)
        for start in range(0, n, _ROWS):
            rows = slice(start, start + _ROWS)
            block = np.ascontiguousarray(self.columns[:, rows])
            for j, g in enumerate(cell_of):
                costs = feature_costs(block, self.n_numeric, points[j], self.cost)
                closer = costs < cost[g, rows]
                np.copyto(cost[g, rows], costs, where=closer)
                label[g, rows][closer] = j
        return Nearest(cost.T + self.move[self.cells.cell], label.T)
