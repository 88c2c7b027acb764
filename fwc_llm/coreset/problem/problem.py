"""The data that stay fixed while the representatives move."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoding import Encoder, Table, encode
from fwc_llm.coreset.problem.frames import is_frame
from fwc_llm.coreset.transport.fair import Transport, fair_transport
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import FwcError


@dataclass(frozen=True)
class Problem:
    """A table, its cells, and the parameters of the problem (docs/method.md, "The problem").

    `cell_of` (m,) is each representative's cell, ascending; `target` (|Y|,) is p_T; `move` (G, G) is the
    cost of a change of cell; `pools[g]` are the rows that may represent cell g, and `ids` (n,) are equal for
    rows that count as the same. `to_ranks` moves points (m, p) to the nearest ones whose ordinal columns are
    at ranks; None if there are no such columns. `masses` of the rows are positive; None stands for 1 each.
    """

    table: Table
    cells: Cells
    cell_of: np.ndarray
    target: np.ndarray
    epsilon: float | None
    cost: str
    support: str
    move: np.ndarray
    pools: list[np.ndarray]
    ids: np.ndarray
    to_ranks: Callable[[np.ndarray], np.ndarray] | None = None
    masses: Masses | None = None

    @property
    def m(self) -> int:
        """Number of representatives."""
        return len(self.cell_of)

    @property
    def total(self) -> float:
        """The mass of all rows."""
        return float(self.table.n) if self.masses is None else self.masses.total

    def subset(self, rows: np.ndarray, masses: Masses | None = None) -> "Problem":
        """The same problem for some of the rows (n',), of other `masses` if given; renumbered 0, 1, …"""
        if masses is None and self.masses is not None:
            masses = self.masses.take(rows)
        place = np.full(self.table.n, -1)
        place[rows] = np.arange(len(rows))
        return replace(
            self,
            table=self.table.take(rows),
            cells=self.cells.take(rows, masses),
            pools=[found[found >= 0] for found in (place[pool] for pool in self.pools)],
            ids=self.ids[rows],
            masses=masses,
        )

    def candidates(self) -> tuple[np.ndarray, np.ndarray]:
        """One row for every distinct value that may represent a cell with representatives, and that cell."""
        rows, cells = [], []
        for g in np.unique(self.cell_of):
            pool = self.pools[g]
            _, first = np.unique(self.ids[pool], return_index=True)
            rows.append(pool[np.sort(first)])
            cells.append(np.full(len(first), g))
        return np.concatenate(rows), np.concatenate(cells)

    def transport(self, cost: np.ndarray, prices: np.ndarray | None) -> Transport:
        """The inner problem for the costs (n, G), from these prices (G,)."""
        return fair_transport(
            cost,
            self.cells.n_levels,
            self.cells.n_outcomes,
            self.target,
            self.epsilon,
            prices,
            sample_weight=self.masses,
        )


@dataclass(frozen=True)
class Rows:
    """What a caller gave, checked and encoded, without the rows of weight 0.

    `kept` (n',) are the rows' positions in X, which has `n_given`; None if they are all of them.
    """

    encoder: Encoder | None
    table: Table
    cells: Cells
    masses: Masses | None
    kept: np.ndarray | None
    n_given: int

    def of_all(self, values: np.ndarray) -> np.ndarray:
        """Those of the values, one for each row of X, that belong to these rows."""
        return values if self.kept is None else values[self.kept]

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Where these rows stand in X."""
        return rows if self.kept is None else self.kept[rows]

    def places(self, positions: np.ndarray) -> np.ndarray:
        """The rows at these positions in X; `FwcError` for one of weight 0."""
        if self.kept is None:
            return positions
        places = np.minimum(np.searchsorted(self.kept, positions), len(self.kept) - 1)
        lost = self.kept[places] != positions
        if lost.any():
            raise FwcError(f"init names row {positions[lost.argmax()]}, whose weight is 0")
        return places


def read_rows(X: Any, y: Any, sensitive: Any, sample_weight: Any, cost: str) -> Rows:
    """Check and encode the rows; X is a plain array or a pandas DataFrame.

    A row of weight 0 is checked as the others are, and then it is as if it were not there.
    """
    masses = read_weights(sample_weight, len(X)) if is_frame(X) else None
    encoder, table = encode(X, masses)
    n = table.n
    masses = read_weights(sample_weight, n) if masses is None else masses
    cells = find_cells(y, sensitive, n, masses)
    kept = None if masses is None else masses.positive
    if masses is not None and kept is not None:
        table, masses = table.take(kept), masses.take(kept)
    table.check_costs(cost)
    return Rows(encoder, table, cells, masses, kept, n)
