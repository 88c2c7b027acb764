"""Cells: protected level × outcome (docs/method.md, "Notation").

Cells are ordered `g = d * |Y| + y`, with the levels of D and the outcomes in sorted order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError


@dataclass(frozen=True)
class Cells:
    """The cell of every row.

    `cell` (n,) int64; `levels` (|D|,) or, for several crossed attributes, (|D|, k); `outcomes` (|Y|,);
    `counts` (G,) rows per cell.
    """

    cell: np.ndarray
    levels: np.ndarray
    outcomes: np.ndarray
    counts: np.ndarray

    @property
    def n_levels(self) -> int:
        """|D|."""
        return len(self.levels)

    @property
    def n_outcomes(self) -> int:
        """|Y|."""
        return len(self.outcomes)

    @property
    def n_cells(self) -> int:
        """G = |D| |Y|."""
        return self.n_levels * self.n_outcomes

    def level_name(self, d: int) -> str:
        """The level in the user's terms; crossed attributes are joined by " & "."""
        return " & ".join(str(value) for value in np.atleast_1d(self.levels[d]))

    def name(self, g: int) -> str:
        """The cell in the user's terms."""
        level, outcome = divmod(g, self.n_outcomes)
        return f"(sensitive = {self.level_name(level)}, y = {self.outcomes[outcome]})"


def find_cells(y: Any, sensitive: Any, n: int) -> Cells:
    """The cells of `n` rows; `sensitive` (n,) or (n, k), whose columns are crossed.

    Raises `FwcError` for wrong shapes and missing values.
    """
    outcome = _labels(y, "y", n, columns=False)
    level = _labels(sensitive, "sensitive", n, columns=True)
    outcomes, y_code = np.unique(outcome, return_inverse=True)
    if level.ndim == 1:
        levels, d_code = np.unique(level, return_inverse=True)
    else:
        d_code, members = np.zeros(n, np.int64), []
        for column in level.T:
            values, code = np.unique(column, return_inverse=True)
            members.append(values)
            d_code = d_code * len(values) + code
        present, d_code = np.unique(d_code, return_inverse=True)
        levels = np.empty((len(present), level.shape[1]), dtype=level.dtype)
        for k in reversed(range(level.shape[1])):
            present, code = np.divmod(present, len(members[k]))
            levels[:, k] = members[k][code]
    cell = d_code.astype(np.int64) * len(outcomes) + y_code
    counts = np.bincount(cell, minlength=len(levels) * len(outcomes))
    return Cells(cell, levels, outcomes, counts)


def _labels(values: Any, what: str, n: int, columns: bool) -> np.ndarray:
    """Labels as an array that `np.unique` can sort; (n,), or (n, k) where columns are crossed."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 and not (columns and array.ndim == 2 and array.shape[1] > 0):
        raise FwcError(f"{what} has shape {array.shape}: pass one value per row, ({n},)")
    if len(array) != n:
        raise FwcError(f"{what} has {len(array)} rows but X has {n}: pass one value per row")
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype.kind == "O":
        missing = np.reshape(
            [v is None or str(v) in {"nan", "<NA>", "NaT"} for v in array.ravel()], array.shape
        )
    else:
        missing = np.zeros(array.shape, bool)
    if missing.any():
        row = int(np.argwhere(missing)[0][0])
        raise FwcError(f"{what} is missing in row {row}: drop such rows or give them a level of their own")
    if array.dtype.kind == "O":
        # Mixed types cannot be sorted; a single type is kept, so that outputs have the type of the input.
        kinds = {type(v) for v in array.ravel()}
        if kinds == {str} or len(kinds) > 1:
            array = array.astype(str)
    return array


def check_levels(cells: Cells) -> None:
    """Refuse a single protected level: parity needs at least two."""
    if cells.n_levels == 1:
        raise FwcError(
            f"sensitive has one level only ({cells.level_name(0)}), but parity needs at least two: "
            "pass another attribute, or epsilon=None"
        )


def empty_cell(cells: Cells, g: int) -> FwcError:
    """The error for a cell that needs mass but has no rows."""
    return FwcError(
        f"cell {cells.name(g)} has no rows, but every level needs every outcome to be fair: merge or drop "
        "levels, or use epsilon=None"
    )


def overall_target(cells: Cells, target: Any) -> np.ndarray:
    """p_T(y), (|Y|,): the rows' own distribution, or the caller's (in sorted order, or {outcome: p})."""
    if target is None:
        by_outcome = cells.counts.reshape(cells.n_levels, cells.n_outcomes).sum(0)
        return np.asarray(by_outcome / by_outcome.sum())
    if isinstance(target, Mapping):
        unknown = [key for key in target if key not in set(cells.outcomes.tolist())]
        if unknown or len(target) != cells.n_outcomes:
            raise FwcError(
                f"target names {list(target)}: give a probability for each of {cells.outcomes.tolist()}"
            )
        target = [target[value] for value in cells.outcomes.tolist()]
    p = np.asarray(target, dtype=float)
    if p.shape != (cells.n_outcomes,):
        raise FwcError(
            f"target has shape {p.shape}: give one probability per outcome, in the order "
            f"{cells.outcomes.tolist()}"
        )
    if not np.isfinite(p).all() or (p <= 0).any() or abs(p.sum() - 1) > 1e-9:
        raise FwcError(f"target {p.tolist()}: every probability must be positive and they must sum to 1")
    return np.asarray(p / p.sum())
