"""The rows that a caller passes, checked and encoded."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.cells import Cells, find_cells
from fwc_llm.coreset.problem.encoding import Encoding, encode_weighted
from fwc_llm.coreset.problem.frames import take_named
from fwc_llm.coreset.problem.table import Table
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class InputRows:
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


def read_rows(
    X: Any,
    y: Any,
    sensitive: Any,
    sample_weight: Any,
    cost: str,
    scale: bool | str,
    epsilon: float | None,
) -> InputRows:
    """Check and encode rows, whose columns y, sensitive and sample_weight may name (`take_named`).

    Those of weight 0 are checked as the others are, and then left out.
    """
    X, y, sensitive, sample_weight = take_named(X, y, sensitive, sample_weight)
    encoding, table, masses = encode_weighted(X, sample_weight, scale)
    n = table.n
    cells = cells_of_rows(y, sensitive, n, epsilon, masses)
    kept = None if masses is None else masses.positive
    if masses is not None and kept is not None:
        table, masses = table.take(kept), masses.take(kept)
    table.check_costs(cost)
    return InputRows(encoding, table, cells, masses, kept, n)


def cells_of_rows(
    y: Any, sensitive: Any, n: int, epsilon: float | None, masses: Masses | None = None
) -> Cells:
    """The cells of n rows, those without mass left out.

    Without a parity limit, `y` and `sensitive` may be None: all rows are alike.
    """
    if epsilon is not None and n == 1:
        raise InputError("X has 1 sample, but a parity limit compares at least two protected levels")
    if epsilon is not None and y is None:
        raise InputError(
            "a parity limit requires y to be passed, but the target y is None: pass y, or epsilon=None "
            "for no limit"
        )
    if epsilon is not None and sensitive is None:
        raise InputError(
            "a parity limit needs the protected levels: pass sensitive, one level a row (in a pipeline, by "
            "metadata routing), or epsilon=None for no limit"
        )
    alike = np.zeros(n, np.int8)
    return find_cells(alike if y is None else y, alike if sensitive is None else sensitive, n, masses)
