"""Cells (protected level × outcome) and slots: how many representatives each cell gets (method.md, 1 and 4).

Cells are ordered `g = d * |Y| + y`, with the levels of D and the outcomes in sorted order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError


@dataclass(frozen=True)
class Cells:
    """Which cell every row is in.

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
        """The level as a reader knows it; crossed attributes are joined by " & "."""
        return " & ".join(str(value) for value in np.atleast_1d(self.levels[d]))

    def name(self, g: int) -> str:
        """The cell as a reader knows it."""
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
        # Mixed types do not sort; homogeneous ones keep their type, so that outputs look like inputs.
        kinds = {type(v) for v in array.ravel()}
        if kinds == {str} or len(kinds) > 1:
            array = array.astype(str)
    return array


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


def count_slots(
    slots: str | Sequence[Any] | np.ndarray | Mapping[Any, int],
    m: int,
    cells: Cells,
    available: np.ndarray,
    *,
    constrained: bool,
    positive: Any = 1,
) -> np.ndarray:
    """How many of the `m` representatives each cell gets, (G,) int64 (method.md, section 4).

    `available` (G,): how many distinct candidates a cell has; `constrained`: whether the fairness
    constraint needs every cell (else empty cells are left out).
    """
    counts = cells.counts
    for g in np.flatnonzero(available == 0).tolist():
        if counts[g] == 0 and constrained:
            raise FwcError(
                f"cell {cells.name(g)} has no rows, but every level needs every outcome to be fair: merge or "
                "drop levels, or use epsilon=None"
            )
        if counts[g] > 0:
            raise FwcError(
                f"cell {cells.name(g)} has rows, but no candidate among them: widen the candidates"
            )
    needed = available > 0
    if not isinstance(slots, str):
        return _explicit(slots, m, cells, needed)
    if m < needed.sum():
        raise FwcError(f"m={m} is smaller than the {int(needed.sum())} cells, which need one each: raise m")
    if m > available.sum():
        raise FwcError(f"m={m} is more than the {int(available.sum())} distinct rows to choose from: lower m")
    if slots == "proportional":
        return largest_remainder(counts * needed, m, available)
    if slots == "equal":
        return _equal(counts, m, available)
    if slots == "balanced-positive":
        return _balanced_positive(m, cells, available, positive)
    raise FwcError(
        f"slots={slots!r} is unknown: use 'proportional', 'balanced-positive', 'equal' or a table of counts"
    )


def largest_remainder(shares: np.ndarray, total: int, most: np.ndarray) -> np.ndarray:
    """`total` seats by largest remainder: at least 1 and at most `most` each, ties to the earlier cell."""
    quota = total * shares / shares.sum()
    seats = np.where(most > 0, np.clip(np.floor(quota + 1e-9), 1, most), 0).astype(np.int64)
    while seats.sum() < total:
        seats[np.argmax(np.where(seats < most, quota - seats, -np.inf))] += 1
    while seats.sum() > total:
        surplus = np.where(seats > 1, seats - quota, -np.inf)
        seats[len(seats) - 1 - np.argmax(surplus[::-1])] -= 1
    return seats


def _equal(counts: np.ndarray, m: int, available: np.ndarray) -> np.ndarray:
    """m / G each, the remainder to the largest cells; a cell that is full passes on what it cannot hold."""
    seats = np.minimum(m // (available > 0).sum(), available)
    while seats.sum() < m:
        room = seats < available
        fewest = room & (seats == seats[room].min())
        seats[np.argmax(np.where(fewest, counts, -1))] += 1
    return np.asarray(seats, dtype=np.int64)


def _balanced_positive(m: int, cells: Cells, available: np.ndarray, positive: Any) -> np.ndarray:
    """The same number k of positives for every level, the other cells by largest remainder."""
    matches = np.flatnonzero([bool(value == positive) for value in cells.outcomes])
    if len(matches) != 1:
        raise FwcError(
            f"slots='balanced-positive' needs the positive outcome, but positive={positive!r} is none of "
            f"{cells.outcomes.tolist()}: name one of them"
        )
    is_positive = (np.arange(cells.n_cells) % cells.n_outcomes == matches[0]) & (available > 0)
    others = ~is_positive & (available > 0)
    n_positive = int(is_positive.sum())
    if n_positive == 0:
        return largest_remainder(cells.counts * others, m, available)
    p_positive = cells.counts[is_positive].sum() / cells.counts.sum()
    k = max(1, round(m * p_positive / n_positive))
    k = min(k, (m - int(others.sum())) // n_positive, int(available[is_positive].min()))
    rest = m - k * n_positive
    if rest > available[others].sum():
        # The other cells are full: only more positives can make up m.
        k = -(-(m - int(available[others].sum())) // n_positive)
        rest = m - k * n_positive
        if k > available[is_positive].min() or rest < others.sum():
            raise FwcError(f"m={m} with slots='balanced-positive' is more than the cells can hold: lower m")
    seats = np.where(is_positive, k, 0).astype(np.int64)
    if rest:
        seats += largest_remainder(cells.counts * others, rest, np.where(others, available, 0))
    return seats


def _explicit(slots: Any, m: int, cells: Cells, needed: np.ndarray) -> np.ndarray:
    """Counts as (G,) or (|D|, |Y|) in cell order, or {(level, outcome): count}: taken as given or refused."""
    shape = (cells.n_levels, cells.n_outcomes)
    if isinstance(slots, Mapping):
        table = np.zeros(cells.n_cells, np.int64)
        places = {
            (cells.level_name(g // shape[1]), str(cells.outcomes[g % shape[1]])): g
            for g in range(cells.n_cells)
        }
        for key, count in slots.items():
            level, outcome = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
            place = places.get((" & ".join(map(str, np.atleast_1d(level))), str(outcome)))
            if place is None:
                raise FwcError(
                    f"slots names the cell {key!r}, which no row is in: use (level, outcome) pairs"
                )
            table[place] = count
        given = table
    else:
        given = np.asarray(slots)
        if given.shape not in {shape, (cells.n_cells,)}:
            raise FwcError(f"slots has shape {given.shape}: give counts as {shape}, level by outcome")
    flat = np.asarray(given, dtype=float).ravel()
    if not np.isfinite(flat).all() or (flat < 0).any() or (flat != np.round(flat)).any():
        raise FwcError(f"slots {flat.tolist()}: counts are whole and not negative")
    seats = flat.astype(np.int64)
    if seats.sum() != m:
        raise FwcError(f"slots sum to {int(seats.sum())}, but m={m}: they must agree")
    for g in range(cells.n_cells):
        if needed[g] and seats[g] == 0:
            raise FwcError(f"slots gives the cell {cells.name(g)} no representative, but it needs one")
        if seats[g] > cells.counts[g]:
            raise FwcError(
                f"slots gives {seats[g]} to the cell {cells.name(g)}, which has {cells.counts[g]} rows"
            )
    return seats
