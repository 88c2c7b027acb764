"""Cells: protected level × outcome (docs/method.md, "Notation").

Cells are ordered `g = d * |Y| + y`, with the levels of D and the outcomes in sorted order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.checks import check_target
from fwc_llm.coreset.problem.frames import as_pandas, is_frame
from fwc_llm.coreset.transport.linear_program import GroupedParitySet
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

    @cached_property
    def level_names(self) -> list[str]:
        """Names of the levels."""
        return level_names(self.levels, crossed=True)

    def take(self, rows: Array, masses: Masses) -> "Cells":
        """The cells of some rows (n',), with the masses of these rows."""
        cell = self.cell[rows]
        return replace(self, cell=cell, **_sums(cell, self.n_cells, masses))

    def labels(self, g: int) -> tuple[str, str]:
        """The level and the outcome of a cell, as text."""
        level, outcome = divmod(g, self.n_outcomes)
        return self.level_names[level], str(self.outcomes[outcome])

    def name(self, g: int) -> str:
        """The cell as text for messages."""
        level, outcome = self.labels(g)
        return f"(sensitive = {level}, y = {outcome})"


def find_cells(y: Any, sensitive: Any, n: int, masses: Masses | None = None) -> Cells:
    """Return the cells of `n` rows; rows without mass are left out. None: 1 per row.

    `y` is (n,), `sensitive` (n,) or (n, k), whose columns are crossed. None: one label for all
    rows.
    """
    masses = masses or Masses(np.ones(n))
    used = masses.positive
    found = [
        _coded(column, role, used, n)
        for role, values in (("y", y), ("sensitive", sensitive))
        for column in _columns(np.zeros(n, np.int8) if values is None else values, role)
    ]
    (outcomes, outcome), *attributes = found
    members, codes = zip(*attributes, strict=True)
    shape = tuple(map(len, members))
    present, level = np.unique(np.ravel_multi_index(codes, shape), return_inverse=True)
    crossed = np.unravel_index(present, shape)
    levels = [labels[code] for labels, code in zip(members, crossed, strict=True)]
    if len({labels.dtype.kind for labels in levels}) > 1:  # keep numbers beside text
        levels = [labels.astype(object) for labels in levels]
    cell = level.astype(np.int64) * len(outcomes) + outcome
    return Cells(
        cell,
        levels[0] if len(levels) == 1 else np.stack(levels, axis=1),
        outcomes,
        **_sums(cell, len(present) * len(outcomes), masses.take(used)),
    )


def _sums(cell: Array, n_cells: int, masses: Masses) -> dict[str, Array]:
    return {
        "counts": np.bincount(cell, minlength=n_cells),
        "sizes": np.bincount(cell, masses.values, n_cells),
    }


def _columns(values: Any, role: str) -> list[Any]:
    """The columns (n,) of labels: one, or of protected levels those of a matrix or frame."""
    if np.ma.is_masked(values):
        raise InputError(f"{role} is an array with masked values: drop such rows")
    values = as_pandas(values)
    shape = values.shape if hasattr(values, "shape") else np.asarray(values).shape
    if is_frame(values):
        columns = [values.iloc[:, k] for k in range(values.shape[1])]
    elif len(shape) == 2:
        columns = list(np.asarray(values).T)
    else:
        columns = [values]
    if not columns or (role == "y" and len(columns) > 1):
        raise InputError(f"{role} has shape {shape}: pass one value per row")
    return columns


def _coded(column: Any, role: str, used: Array, n: int) -> tuple[Array, Array]:
    """The distinct labels of the rows `used` (n',), sorted, and the index (n',) of each row's
    label.

    Numbers of several types become one type; other labels of several types become text.
    """
    if not hasattr(column, "iloc"):
        column = np.asarray(column)
    if column.ndim != 1 or len(column) != n:
        raise InputError(
            f"{role} has {column.size} rows but X has {n}: pass one value per row, ({n},)"
        )
    code, distinct = pd.factorize(column)
    if (code < 0).any():
        raise InputError(
            f"{role} has no value in row {int(code.argmin())}: drop such rows or give them a "
            "level of their own"
        )
    code = code[used]
    present = np.bincount(code, minlength=len(distinct)) > 0
    labels = np.asarray(distinct)[present]
    kinds = {type(label) for label in labels}
    # A single type stays: outputs have the type of the input.
    if labels.dtype.kind == "O" and (kinds == {str} or len(kinds) > 1):
        numbers = all(issubclass(kind, Real) for kind in kinds)
        labels = np.array(labels.tolist()) if numbers else labels.astype(str)
    labels, order = np.unique(labels, return_inverse=True)
    measured = labels.dtype.kind == "f" and (labels != np.floor(labels)).any()
    if len(labels) > _MOST_FRACTIONS and measured:
        raise InputError(
            f"{role} has {len(labels):,} distinct values: bin it, for example by pandas.qcut, as "
            "groups and outcomes are labels"
        )
    place = np.zeros(len(distinct), np.int64)
    place[present] = order
    return labels, place[code]


def level_name(level: Any) -> str:
    """The name of a level, or of crossed ones."""
    return " & ".join(map(str, np.atleast_1d(level)))


def level_names(levels: Array, crossed: bool) -> list[str]:
    """Names of the levels that have a limit: crossed levels or, if not `crossed`, each
    attribute's levels.
    """
    if crossed or levels.ndim == 1:
        return list(map(level_name, levels))
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
    level = places(rows.levels.tolist(), points.levels)[level]
    outcome = places(rows.outcomes.tolist(), points.outcomes)[outcome]
    to_level, to_outcome = np.divmod(np.arange(points.n_cells), points.n_outcomes)
    costs = cost_sensitive * (level[:, None] != to_level)
    return np.asarray(
        costs + cost_outcome * (outcome[:, None] != to_outcome), np.float64
    )


def places(labels: list[Any], categories: Array) -> Array:
    """Index (n,) of every label in `categories`, −1 if absent; labels of crossed attributes are
    lists.

    A number and its text are the same label: files may store numbers as text.
    """

    def read(label: Any) -> tuple[Any, Any]:
        parts = label if isinstance(label, list) else [label]
        return tuple(map(str, parts)), tuple(parts)

    texts, values = zip(*map(read, categories.tolist()), strict=True)
    index = {label: k for labels in (texts, values) for k, label in enumerate(labels)}
    found = [index.get(value, index.get(text, -1)) for text, value in map(read, labels)]
    return np.array(found, np.intp)


def check_known(labels: Array, categories: Array, role: str, whose: str) -> Array:
    """Index (n,) of every label in `categories`; refuse a label that is not there."""
    found = places(labels.tolist(), categories)
    if (found < 0).any():
        unknown = labels.tolist()[found.argmin()]
        raise InputError(
            f"{role} holds {unknown!r}, which {whose}: leave such rows out"
        )
    return found


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


def check_attributes(
    cells: Cells, carried: Array, groups: Array, limits: Any, target: Array
) -> None:
    """Refuse a level of an attribute, of `groups` (L, |D|), that can have no mass, or none of an
    outcome, in the cells `carried` (G,).
    """
    carried_by = groups @ carried.reshape(-1, cells.n_outcomes)
    for level, outcome in np.argwhere(carried_by == 0).tolist():
        raise InputError(
            f"level {level_names(cells.levels, crossed=False)[level]} has no rows with y = "
            f"{cells.outcomes[outcome]}, but parity needs rows of every outcome in every level: "
            "merge or drop levels, or use --epsilon none"
        )
    if not GroupedParitySet(target, limits, groups).reaches_all(carried):
        raise InputError(
            "epsilon cannot be met: some crossings of the attributes lack an outcome, so that one "
            "of the levels would have no mass: raise epsilon, or use --epsilon none"
        )


def limits_of(epsilon: Any, levels: Array, crossed: bool = True) -> Any:
    """Turn {level: limit} into an array in the order of the levels; return all else as it is."""
    if not isinstance(epsilon, Mapping):
        return epsilon
    names = level_names(levels, crossed)
    limits = {level_name(level): limit for level, limit in epsilon.items()}
    for problem, lacking in (
        ("no limit", set(names) - set(limits)),
        ("a limit", set(limits) - set(names)),
    ):
        if lacking:
            raise InputError(
                f"epsilon has {problem} for {', '.join(sorted(lacking))}: give one "
                "limit for each of "
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
        "or drop levels, or use --epsilon none"
    )


def overall_target(cells: Cells, target: Any) -> Array:
    """Return p_T (|Y|,): the caller's target (sorted by outcome, or {outcome: p}), or that of
    the rows.
    """
    if target is None:
        by_outcome = cells.sizes.reshape(cells.n_levels, cells.n_outcomes).sum(0)
        return np.asarray(by_outcome / by_outcome.sum())
    if isinstance(target, Mapping):
        place = places(list(target), cells.outcomes)
        if sorted(place) != list(range(cells.n_outcomes)):
            raise InputError(
                f"target names {list(target)}: give a probability for each of "
                f"{cells.outcomes.tolist()}"
            )
        target = np.array(list(target.values()))[np.argsort(place)]
    return check_target(target, cells.n_outcomes)
