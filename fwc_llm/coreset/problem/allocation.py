"""Slots: the number of representatives per cell (docs/method.md, "Slots")."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fwc_llm.apportion import largest_remainder
from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.problem.cells import Cells, empty_cell, level_name, places
from fwc_llm.coreset.weights import read_numbers
from fwc_llm.errors import InputError

RULES = ("balanced-positive", "proportional", "equal")
Slots: TypeAlias = str | Sequence[Any] | Array | Mapping[Any, int]


def count_slots(
    slots: Slots,
    m: int,
    cells: Cells,
    available: Array,
    *,
    constrained: bool,
    positive: Any = 1,
) -> Array:
    """Return the number of representatives per cell, (G,) int64, which sum to `m`.

    `available` (G,): number of distinct candidates per cell; `constrained`: whether a parity limit
    needs every cell (else empty cells are left out).
    """
    needed = available > 0
    for g in np.flatnonzero(~needed).tolist():
        if cells.counts[g] > 0:
            raise InputError(
                f"cell {cells.name(g)} has rows, but none of them may be chosen: allow one of them "
                "as a candidate, draw fewer test rows, or merge its level with another"
            )
        if constrained:
            raise empty_cell(cells, g)
    if not isinstance(slots, str):
        seats = read_counts(slots, m, cells)
        wrong = np.flatnonzero((seats < needed) | (seats > cells.counts))
        if len(wrong):
            g = int(wrong[0])
            raise InputError(
                f"slots gives {seats[g]} representatives to the cell {cells.name(g)}: give it at "
                f"least 1, "
                f"and at most one for each of its {cells.counts[g]} rows"
            )
        return seats
    if m < needed.sum():
        raise InputError(
            f"m={m} is too small, as each of the {int(needed.sum())} cells needs one: raise m"
        )
    if m > available.sum():
        raise InputError(
            f"m={m} is more than the {int(available.sum())} distinct rows to choose from: lower m"
        )
    if slots == "proportional":
        return _by_share(cells.sizes * needed, m, available)
    if slots == "balanced-positive":
        return _balanced_positive(m, cells, available, positive)
    if (
        slots == "equal"
    ):  # the remainder to the largest cells; a full cell passes its excess on
        seats = np.minimum(m // needed.sum(), available)
        while seats.sum() < m:
            fewest = (seats < available) & (seats == seats[seats < available].min())
            seats[np.argmax(np.where(fewest, cells.sizes, -1))] += 1
        return np.asarray(seats, dtype=np.int64)
    raise InputError(
        f"slots={slots!r} is unknown: use {', '.join(RULES)} or a table of counts"
    )


def _by_share(sizes: Array, m: int, available: Array) -> Array:
    """Divide m seats in proportion to `sizes` (G,); a cell gets at least 1 and at most
    `available`.
    """
    return largest_remainder(
        m * sizes / sizes.sum(), m, np.minimum(available, 1), available
    )


def _balanced_positive(m: int, cells: Cells, available: Array, positive: Any) -> Array:
    """Give every level the same number k of positives; the other cells share the rest by size."""
    match = places([positive], cells.outcomes)[0]
    if match < 0:
        raise InputError(
            f"slots='balanced-positive' needs the positive outcome, but positive={positive!r} is "
            f"not in "
            f"{cells.outcomes.tolist()}: name one of them"
        )
    is_positive = (np.arange(cells.n_cells) % cells.n_outcomes == match) & (
        available > 0
    )
    others = ~is_positive & (available > 0)
    n_positive = int(is_positive.sum())
    if n_positive == 0:
        return _by_share(cells.sizes * others, m, available)
    p_positive = cells.sizes[is_positive].sum() / cells.sizes.sum()
    # With fewer, the other cells cannot hold the rest; with more, some would get none.
    fewest = max(1, -(-(m - int(available[others].sum())) // n_positive))
    most = min((m - int(others.sum())) // n_positive, int(available[is_positive].min()))
    if fewest > most:
        raise InputError(
            f"m={m} with slots='balanced-positive' is more than the cells can hold: lower m"
        )
    k = min(max(fewest, round(m * p_positive / n_positive)), most)
    rest = m - k * n_positive
    seats = np.where(is_positive, k, 0).astype(np.int64)
    if rest:
        seats += _by_share(cells.sizes * others, rest, np.where(others, available, 0))
    return seats


def read_counts(slots: Any, m: int, cells: Cells) -> Array:
    """Read counts (G,) from a table (|D|, |Y|), an array (G,), or {(level, outcome): count}."""
    if isinstance(slots, Mapping):
        counts = np.zeros(cells.n_cells)
        numbers = {cells.labels(g): g for g in range(cells.n_cells)}
        for key, count in slots.items():
            level, outcome = (
                key if isinstance(key, tuple) and len(key) == 2 else (key, None)
            )
            cell = numbers.get((level_name(level), str(outcome)))
            if cell is None:
                raise InputError(
                    f"slots names the cell {key!r}, which no row is in: use (level, outcome) pairs"
                )
            counts[cell] = read_numbers(count, "slots")
    else:
        counts = read_numbers(slots, "slots")
        shape = (cells.n_levels, cells.n_outcomes)
        if counts.shape not in {shape, (cells.n_cells,)}:
            raise InputError(
                f"slots has shape {counts.shape}: give counts as {shape}, level by outcome"
            )
        counts = counts.ravel()
    if (
        not np.isfinite(counts).all()
        or (counts < 0).any()
        or (counts != np.round(counts)).any()
    ):
        raise InputError(
            f"slots {counts.tolist()}: counts must be whole and not negative"
        )
    if counts.sum() != m:
        raise InputError(
            f"slots sum to {int(counts.sum())}, but m={m}: they must agree"
        )
    return counts.astype(np.int64)
