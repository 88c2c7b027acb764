"""Representatives, and what it costs to move rows of any table to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.problem.cells import find_cells
from fwc_llm.coreset.problem.encoding import Encoder, Table, encode_array
from fwc_llm.coreset.problem.entry import ArrayScaler, Encoding
from fwc_llm.coreset.problem.frames import is_frame, plain_array, take_named
from fwc_llm.coreset.problem.ground_cost import BLOCK, cost_matrix
from fwc_llm.coreset.weights import Masses, read_weights
from fwc_llm.errors import InputError


@dataclass(frozen=True)
class Rows:
    """Rows to be compared with representatives: features, and the places of what is known of their cells.

    `level` and `outcome` (n,) are places in the representatives' levels and outcomes, −1 for those that no
    representative has; None where they are not known, so that they cost nothing. `masses`: None for 1 each.
    """

    table: Table
    level: np.ndarray | None
    outcome: np.ndarray | None
    masses: Masses | None = None


@dataclass(frozen=True)
class Represented:
    """m representatives, encoded, and the terms of their problem.

    `points` are encoded by `encoding` and have the cells `cell_of` (m,); `levels` and `outcomes` are the
    labels of the cells, None where the fit had none; `target` (|Y|,) is p_T.
    """

    points: Table
    encoding: Encoding
    cell_of: np.ndarray
    levels: np.ndarray | None
    outcomes: np.ndarray | None
    target: np.ndarray
    epsilon: float | None
    cost: str
    cost_sensitive: float
    cost_outcome: float

    @property
    def m(self) -> int:
        """Number of representatives."""
        return len(self.cell_of)

    @property
    def n_outcomes(self) -> int:
        """|Y|."""
        return len(self.target)

    @property
    def n_levels(self) -> int:
        """|D|."""
        return 1 if self.levels is None else len(self.levels)

    def read(self, X: Any, y: Any, sensitive: Any, name: str, sample_weight: Any = None) -> Rows:
        """The rows (X, y, sensitive) as this estimator (`name`) sees them; y and sensitive may be None."""
        X, y, sensitive, sample_weight = take_named(X, y, sensitive, sample_weight)
        table = self._features(X, name)
        alike = np.zeros(table.n, np.int8)
        use_y, use_levels = y is not None, sensitive is not None
        cells = find_cells(y if use_y else alike, sensitive if use_levels else alike, table.n)
        level, outcome = np.divmod(cells.cell, cells.n_outcomes)
        return Rows(
            table,
            places(cells.levels, self.levels)[level] if use_levels and self.levels is not None else None,
            places(cells.outcomes, self.outcomes)[outcome] if use_y and self.outcomes is not None else None,
            read_weights(sample_weight, table.n),
        )

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, np.ndarray]]:
        """The ground costs (b, m) of b rows at a time to all representatives."""
        level, outcome = np.divmod(self.cell_of, self.n_outcomes)
        for start in range(0, rows.table.n, BLOCK):
            block = slice(start, min(start + BLOCK, rows.table.n))
            costs = cost_matrix(rows.table.take(np.arange(block.start, block.stop)), self.points, self.cost)
            if rows.level is not None:
                costs += self.cost_sensitive * (rows.level[block, None] != level)
            if rows.outcome is not None:
                costs += self.cost_outcome * (rows.outcome[block, None] != outcome)
            yield block, costs

    def costs(self, rows: Rows) -> np.ndarray:
        """The ground costs (n, m) of all rows to all representatives."""
        matrix = np.empty((rows.table.n, self.m))
        for block, costs in self.blocks(rows):
            matrix[block] = costs
        return matrix

    def _features(self, X: Any, name: str) -> Table:
        if isinstance(self.encoding, Encoder):
            if not is_frame(X):
                plain_array(X)  # what is wrong with it as an array is said first
                raise InputError(
                    f"{name} was fitted on a DataFrame: pass a DataFrame with the columns "
                    f"{', '.join(map(repr, self.encoding.order))}"
                )
            if not len(X):
                raise InputError("X has no rows: pass at least one")
            return self.encoding.encode(X, strict=False, what="X")
        table = encode_array(X)
        if table.p != self.points.p:
            raise InputError(
                f"X has {table.p} features, but {name} is expecting {self.points.p} features as input"
            )
        return table if self.encoding is None else self.encoding.encode(X, what="X")


def published(points: np.ndarray, chosen: Any, table: Table, encoding: Encoding) -> tuple[np.ndarray, Any]:
    """The points (m, p) float64 of the table as the certificate has them, and as X has them.

    `chosen` are the rows of X that they are, None if they are free.
    """
    if encoding is None:
        exact = points.astype(table.values.dtype, copy=False)
        return exact.astype(np.float64, copy=False), exact
    if chosen is not None:
        return points, chosen
    returned: Any = encoding.decode(points)
    if isinstance(encoding, ArrayScaler):
        points = encoding.encode(returned).values.astype(np.float64, copy=False)
    return points, returned


def places(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The place of every label (of crossed attributes: a row) in `known`, −1 where it is not there.

    A label that is there as text, or as what the text says, is the same: files hold text for numbers.
    """
    place = {read(label): k for read in (_text, _key) for k, label in enumerate(known.tolist())}
    found = [place.get(_key(label), place.get(_text(label), -1)) for label in labels.tolist()]
    return np.array(found, dtype=np.intp)


def _key(label: Any) -> Any:
    return tuple(label) if isinstance(label, list) else label


def _text(label: Any) -> Any:
    return tuple(map(str, label)) if isinstance(label, list) else str(label)
