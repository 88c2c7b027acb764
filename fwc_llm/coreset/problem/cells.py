"""Cells: protected level × outcome (docs/method.md, "Notation").

Cells are ordered `g = d * |Y| + y`, with the levels of D and the outcomes in sorted order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.checks import check_target
from fwc_llm.coreset.problem.frames import as_pandas, is_frame
from fwc_llm.coreset.transport.linear_program import GroupedParitySet, least_limit
from fwc_llm.coreset.weights import Masses
from fwc_llm.errors import InputError

_MOST_FRACTIONS = 30  # distinct fractional labels, such as shares in steps of 0.05


@dataclass(frozen=True)
class Cells:
    """The cell of every row."""

    cell: Array  # (n,) int64
    levels: Array  # (|D|,) or, for k crossed attributes, (|D|, k)
    outcomes: Array  # (|Y|,)
    counts: Array  # (G,) rows per cell
    sizes: Array  # (G,) mass per cell, equal to `counts` without weights

    @property
    def n_levels(self) -> int:
        """Number of levels, |D|."""
        return len(self.levels)

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes, |Y|."""
        return len(self.outcomes)

    @property
    def n_cells(self) -> int:
        """Number of cells, G = |D| |Y|."""
        return self.n_levels * self.n_outcomes

    def take(self, rows: Array, masses: Masses) -> "Cells":
        """The cells of some rows (n',), with the masses of these rows."""
        cell = self.cell[rows]
        return replace(self, cell=cell, **_sums(cell, self.n_cells, masses))

    def labels(self, g: int) -> tuple[str, str]:
        """The level and the outcome of a cell, as text."""
        level, outcome = divmod(g, self.n_outcomes)
        return level_names(self.levels, True)[level], str(self.outcomes[outcome])

    def name(self, g: int) -> str:
        """The cell as text for messages."""
        level, outcome = self.labels(g)
        return f"(sensitive = {level}, y = {outcome})"


def find_cells(y: Any, sensitive: Any, n: int, masses: Masses | None = None) -> Cells:
    """Return the cells of `n` rows; rows without mass are left out. None: 1 per row.

    `y` is (n,), `sensitive` (n,) or (n, k), whose columns are crossed. None: one label for all
    rows.
    """
    alike = np.zeros(n, np.int8)
    labels = _labels(alike if y is None else y, "y", n, columns=False)
    columns = _labels(
        alike if sensitive is None else sensitive, "sensitive", n, columns=True
    )
    masses = masses or Masses(np.ones(n))
    if len(masses.positive) < n:
        labels = [column[masses.positive] for column in labels]
        columns = [column[masses.positive] for column in columns]
        masses = masses.take(masses.positive)
    outcomes, y_code = np.unique(labels[0], return_inverse=True)
    _check_not_continuous(outcomes, "y")
    members, codes = zip(
        *(np.unique(column, return_inverse=True) for column in columns), strict=True
    )
    for values in members:
        _check_not_continuous(values, "sensitive")
    shape = tuple(map(len, members))
    present, d_code = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
    # Attributes of numbers and attributes of text keep their types.
    kind = (
        np.result_type(*members)
        if len({values.dtype.kind for values in members}) == 1
        else object
    )
    kept = [
        values[code]
        for values, code in zip(members, np.unravel_index(present, shape), strict=True)
    ]
    if len(kept) == 1:
        levels = kept[0]
    else:
        levels = np.stack([values.astype(kind) for values in kept], axis=1)
    cell = d_code.astype(np.int64) * len(outcomes) + y_code
    return Cells(
        cell, levels, outcomes, **_sums(cell, len(levels) * len(outcomes), masses)
    )


def _sums(cell: Array, n_cells: int, masses: Masses) -> dict[str, Array]:
    return {
        "counts": np.bincount(cell, minlength=n_cells),
        "sizes": np.bincount(cell, masses.values, n_cells),
    }


def _check_not_continuous(labels: Array, role: str) -> None:
    """Refuse measurements as labels: more than 30 distinct numbers, not all of them whole."""
    if (
        len(labels) > _MOST_FRACTIONS
        and labels.dtype.kind == "f"
        and (labels != np.floor(labels)).any()
    ):
        raise InputError(
            f"{role} has {len(labels):,} distinct values: bin it, for example by pandas.qcut, as "
            f"groups and "
            "outcomes are labels"
        )


def label_columns(values: Any) -> list[Any]:
    """Return the columns (n,) of labels, which are one array, a matrix or a frame."""
    values = as_pandas(values)
    if is_frame(values):
        return [values.iloc[:, k] for k in range(values.shape[1])]
    if hasattr(values, "iloc"):
        values = values
    else:
        values = np.asarray(values)
    if values.ndim == 2:
        return list(values.T)
    return [values]


def _labels(values: Any, role: str, n: int, columns: bool) -> list[Array]:
    """Return labels as arrays (n,) that `np.unique` can sort: one, or with `columns` one per
    column.

    Numbers of several types become one type; other labels of several types become text.
    """
    if np.ma.is_masked(values):
        raise InputError(f"{role} is an array with masked values: drop such rows")
    arrays = [np.asarray(column) for column in label_columns(values)]
    if not arrays or arrays[0].ndim != 1 or (len(arrays) > 1 and not columns):
        raise InputError(
            f"{role} has shape {np.shape(values)}: pass one value per row, ({n},)"
        )
    if len(arrays[0]) != n:
        raise InputError(
            f"{role} has {len(arrays[0])} rows but X has {n}: pass one value per row"
        )
    for k, column in enumerate(arrays):
        if column.dtype.kind == "c":
            raise InputError(f"{role} holds complex numbers: pass labels")
        missing = np.asarray(pd.isna(column))
        if missing.any():
            raise InputError(
                f"{role} has no value in row {int(missing.argmax())}: drop such rows or give them "
                f"a level of "
                "their own"
            )
        if column.dtype.kind == "O":
            kinds = {type(v) for v in column}
            if (
                kinds == {str} or len(kinds) > 1
            ):  # keep a single type: outputs have the type of the input
                numbers = all(issubclass(kind, Real) for kind in kinds)
                arrays[k] = np.array(column.tolist()) if numbers else column.astype(str)
    return arrays


def as_known(label: Any, labels: Array) -> Any:
    """Return a caller's label as it is in `labels`: as text if these became text."""
    if labels.dtype.kind == "U":
        return str(label)
    return label


def level_names(levels: Array, crossed: bool) -> list[str]:
    """Names of the levels that have a limit: crossed levels or, if not `crossed`, each
    attribute's levels.
    """
    if crossed or levels.ndim == 1:
        return [" & ".join(map(str, np.atleast_1d(level))) for level in levels]
    names = [
        (k, str(value))
        for k, column in enumerate(levels.T)
        for value in np.unique(column)
    ]
    texts = [value for _, value in names]
    return [value if texts.count(value) == 1 else f"{k}: {value}" for k, value in names]


def between_cells(
    rows: Cells, points: Cells, cost_sensitive: float, cost_outcome: float
) -> Array:
    """(H, G) cost of moving a row from each cell of `rows` to each of `points`, without features.

    A label that no point has differs from all others.
    """
    level, outcome = np.divmod(np.arange(rows.n_cells), rows.n_outcomes)
    level = places(rows.levels, points.levels)[level]
    outcome = places(rows.outcomes, points.outcomes)[outcome]
    to_level, to_outcome = np.divmod(np.arange(points.n_cells), points.n_outcomes)
    costs = cost_sensitive * (level[:, None] != to_level)
    return np.asarray(
        costs + cost_outcome * (outcome[:, None] != to_outcome), np.float64
    )


def places(labels: Array, categories: Array) -> Array:
    """Index (n,) of every label in `categories`, −1 if absent; labels of crossed attributes are
    rows.

    A number and its text are the same label: files may store numbers as text.
    """

    def read(label: Any) -> tuple[Any, Any]:
        if isinstance(label, list):
            parts = label
        else:
            parts = [label]
        return tuple(map(str, parts)), tuple(parts)

    texts, values = zip(*map(read, categories.tolist()), strict=True)
    index = {label: k for labels in (texts, values) for k, label in enumerate(labels)}
    found = [
        index.get(value, index.get(text, -1))
        for text, value in map(read, labels.tolist())
    ]
    return np.array(found, np.intp)


def groups_of(levels: Array, crossed: bool) -> Array | None:
    """(L, |D|) 1 if an attribute's level contains a crossed level, else 0; None unless limits
    overlap.
    """
    if crossed or levels.ndim == 1:
        return None
    return np.array(
        [column == value for column in levels.T for value in np.unique(column)],
        np.float64,
    )


def check_attributes(epsilon: Any, cells: Cells, carried: Array, target: Array) -> None:
    """Refuse limits of single attributes at which some level can have no mass in the cells
    `carried` (G,).
    """
    groups = groups_of(cells.levels, crossed=False)
    names = level_names(cells.levels, crossed=False)
    if groups is None or epsilon is None:
        return  # one attribute, or no limit
    for level, outcome in np.argwhere(
        groups @ carried.reshape(-1, cells.n_outcomes) == 0
    ).tolist():
        raise InputError(
            f"level {names[level]} has no rows with y = {cells.outcomes[outcome]}, but parity "
            f"needs rows of "
            "every outcome in every level: merge or drop levels, or use epsilon=None"
        )
    least = least_limit(
        GroupedParitySet(target, limits_of(epsilon, cells.levels, False), groups),
        carried,
    )
    if least != 0:
        if least is None:
            use = "epsilon=None"
        else:
            use = f"at least epsilon={ceil(1000 * least) / 1000:g}"
        raise InputError(
            f"epsilon={epsilon} cannot be met: some crossings lack an outcome, so that one of the "
            f"levels "
            f"{', '.join(names)} would have no mass; use {use}"
        )


def limits_of(epsilon: Any, levels: Array, crossed: bool = True) -> Any:
    """Turn {level: limit} into an array in the order of the levels; return all else as it is."""
    if not isinstance(epsilon, Mapping):
        return epsilon
    names = level_names(levels, crossed)
    limits = {
        " & ".join(map(str, np.atleast_1d(level))): limit
        for level, limit in epsilon.items()
    }
    for problem, lacking in (
        ("no limit", set(names) - set(limits)),
        ("a limit", set(limits) - set(names)),
    ):
        if lacking:
            raise InputError(
                f"epsilon has {problem} for {', '.join(sorted(lacking))}: give one limit for each of "
                f"the levels "
                f"{', '.join(names)}"
            )
    return np.array([limits[name] for name in names], np.float64)


def empty_cell(cells: Cells, g: int) -> InputError:
    """Make the error for a cell that needs mass but has no rows."""
    if (cells.sizes == cells.counts).all():
        lacking = "no rows"
    else:
        lacking = "no rows of positive weight"
    return InputError(
        f"cell {cells.name(g)} has {lacking}, but parity needs rows of every outcome in every "
        f"level: merge "
        "or drop levels, or use epsilon=None"
    )


def overall_target(cells: Cells, target: Any) -> Array:
    """Return p_T (|Y|,): the caller's target (sorted by outcome, or {outcome: p}), or that of
    the rows.
    """
    if target is None:
        by_outcome = cells.sizes.reshape(cells.n_levels, cells.n_outcomes).sum(0)
        return np.asarray(by_outcome / by_outcome.sum())
    if isinstance(target, Mapping):
        target = {as_known(key, cells.outcomes): share for key, share in target.items()}
        unknown = [key for key in target if key not in set(cells.outcomes.tolist())]
        if unknown or len(target) != cells.n_outcomes:
            raise InputError(
                f"target names {list(target)}: give a probability for each of "
                f"{cells.outcomes.tolist()}"
            )
        target = [target[value] for value in cells.outcomes.tolist()]
    return check_target(target, cells.n_outcomes)
