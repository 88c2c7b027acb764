"""The rows that a caller gave, checked and encoded."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.interface.labels import given_cells
from fwc_llm.coreset.problem.cells import Cells
from fwc_llm.coreset.problem.encoding import Table
from fwc_llm.coreset.problem.entry import Encoding, encode_weighted
from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class Given:
    """Rows without those of weight 0, which are as if they were not there.

    `masses` are those of the rows, None for 1 each; `kept` (n',) are the rows' positions in X, which has `n`
    rows, None if they are all of them.
    """

    encoding: Encoding
    table: Table
    cells: Cells
    masses: Masses | None
    kept: np.ndarray | None
    n: int

    def of_all(self, values: np.ndarray) -> np.ndarray:
        """Those of the values, one for each row of X, that belong to these rows."""
        return values if self.kept is None else values[self.kept]

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Where these rows stand in X."""
        return rows if self.kept is None else self.kept[rows]

    def places(self, positions: np.ndarray) -> np.ndarray:
        """The rows at these positions in X; `InputError` for one of weight 0."""
        if self.kept is None:
            return positions
        places = np.minimum(np.searchsorted(self.kept, positions), len(self.kept) - 1)
        lost = self.kept[places] != positions
        if lost.any():
            raise InputError(f"init names row {positions[lost.argmax()]}, whose weight is 0")
        return places


def read_given(
    X: Any,
    y: Any,
    sensitive: Any,
    sample_weight: Any,
    cost: str,
    scale: bool | str,
    epsilon: float | None,
) -> Given:
    """Check and encode rows, whose columns y, sensitive and sample_weight may name (`take_named`).

    Those of weight 0 are checked as the others are, and then left out.
    """
    X, y, sensitive, sample_weight = take_named(X, y, sensitive, sample_weight)
    encoding, table, masses = encode_weighted(X, sample_weight, scale)
    n = table.n
    cells = given_cells(y, sensitive, n, epsilon, masses)
    kept = None if masses is None else masses.positive
    if masses is not None and kept is not None:
        table, masses = table.take(kept), masses.take(kept)
    table.check_costs(cost)
    return Given(encoding, table, cells, masses, kept, n)
