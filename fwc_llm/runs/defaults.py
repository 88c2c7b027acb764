"""Defaults of a run: the paper's numbers, adjusted to what the table allows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import (
    cell_counts,
    cell_words,
    cells_of_rows,
    most_rows,
    nearest_whole,
    value_names,
    whole_step,
)
from fwc_llm.sanitize import Json, listed
from fwc_llm.shots.base import DEFAULT_M
from fwc_llm.tasks import Task, known_groups
from fwc_llm.words import is_known

_LISTED = 4  # groups that a note names, at most
_LEAST = 40  # with fewer test rows in equal groups, draw rows without a base parity


def fit_defaults(
    task: Task, settings: Settings, chooses: bool = True, api: str | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Complete the settings by task, table and `api`; return them with notes.

    `chooses`: whether a strategy chooses examples, so that m matters.
    """
    cells = CellCounts.of(task)
    chosen = settings.model_fields_set
    given_parity = "base_parity" in chosen
    parity = settings.base_parity if given_parity else task.rules.base_parity
    changes: Json = {"api": api or settings.api, "weight": task.rules.weight or None}
    notes = list[str]()
    rows = settings.n_test
    if "n_test" in chosen:
        rows = nearest_whole(task.groups, rows, parity)
        if rows != settings.n_test:
            why = _not_whole(settings.n_test, task.groups)
            notes.append(
                f"--n-test {settings.n_test}: {why}: {rows}, the nearest, are drawn"
            )
            changes["n_test"] = rows
    else:
        rows, parity, note = _fit_rows(
            cells, rows, parity, settings.m, not given_parity
        )
        notes.append(note)
        changes["n_test"] = rows
    divides = rows > 0 and not rows % whole_step(task.groups, parity)
    if chooses and "m" not in chosen and divides:
        left = cells.left(rows, parity)
        changes["m"], note = _fit_m(cells, settings.m, left)
        notes.append(note)
    unknown = [group for group in task.groups if not is_known(group)]
    if unknown and parity is not None:
        left_out = (
            f"rows of {listed(unknown, _LISTED)} are not drawn with a base parity"
        )
        notes.append(f"{left_out}: the category of these people is not known")
    fitted = settings.updated(**changes, base_parity=parity)
    return fitted, tuple(filter(None, notes))


def fit_m(task: Task) -> tuple[int, str]:
    """The default of `m`, reduced to what the pool's cells give, and a note."""
    cells = CellCounts.of(task)
    return _fit_m(cells, DEFAULT_M, cells.distinct)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Numbers of rows per cell (G, L), by group and outcome ("no" first).

    Test rows are drawn from `rows`; `distinct` are the different rows of the pool without those of
    another table of test rows. `shared`: the pool is the table from which test rows are drawn.
    """

    task: Task
    rows: np.ndarray
    distinct: np.ndarray
    shared: bool

    @classmethod
    def of(cls, task: Task) -> "CellCounts":
        """Count the rows of a task's table."""
        import pandas as pd

        table = task.test()
        pool = task.pool()
        names = value_names(task)
        keys = pd.util.hash_pandas_object(pool[names], index=False).to_numpy()
        frame = pd.DataFrame({"cell": cells_of_rows(task, pool), "key": keys})
        if pool is not table:  # a pool row that equals a test row is not an example
            tested = pd.util.hash_pandas_object(table[names], index=False)
            frame = frame[~frame["key"].isin(tested)]
        rows = task.cells_of(table)
        distinct = np.bincount(frame.drop_duplicates()["cell"], minlength=rows.size)
        shown = distinct.reshape(rows.shape)[:, : len(task.example_labels)]
        return cls(task, rows, shown, pool is table)

    def left(self, n: int, base_parity: float | None) -> np.ndarray:
        """Distinct rows (G, L) left for examples after drawing `n` rows, about."""
        if not self.shared:
            return self.distinct
        if base_parity is None:
            return self.distinct // 2
        drawn = cell_counts(self.task.groups, n, base_parity)
        return np.asarray(self.distinct - drawn)

    def most(self, base_parity: float, reserve: int) -> int:
        """The most test rows with `reserve` distinct rows left for examples in each drawn cell."""
        spare = self.distinct - reserve
        if self.shared:
            available = np.minimum(self.rows, spare)
        else:
            available = np.where(spare < 0, 0, self.rows)
        return most_rows(self.task.groups, available, base_parity)

    def smallest(self, sizes: np.ndarray) -> str:
        """The cell with the fewest rows, in words."""
        return cell_words(self.task, int(sizes.argmin()))


def _fit_rows(
    cells: CellCounts, wanted: int, parity: float | None, m: int, is_default: bool
) -> tuple[int, float | None, str]:
    """The feasible number of rows, its base parity (a default may become None), a note."""
    groups = cells.task.groups
    # half of a table of one file is left for examples
    as_they_fall = min(wanted, max(1, int(cells.rows.sum()) // (1 + cells.shared)))
    if parity is None:
        many = f"{wanted} test rows are too many: {as_they_fall} are drawn"
        return as_they_fall, None, many if as_they_fall < wanted else ""
    nearest = nearest_whole(groups, wanted, parity)
    reserve = -(-m // (2 * len(known_groups(cells.task))))
    fitting = min(nearest, cells.most(parity, reserve))
    is_idle = cell_counts(groups, nearest, parity) == 0
    if fitting < _LEAST and is_default:
        sizes = np.ma.masked_array(cells.rows, is_idle)
        why = f"the cell {cells.smallest(sizes)} has too few rows ({sizes.min():,})"
        drawn = f"{as_they_fall} test rows are drawn with --base-parity none"
        note = f"{why}: {drawn}; a map in the task file can merge groups"
        return as_they_fall, None, note
    if fitting < _LEAST:  # an explicit parity: any number that can be drawn
        fitting = min(nearest, cells.most(parity, 0)) or nearest
    if fitting == wanted:
        return fitting, parity, ""
    why = _not_whole(wanted, groups)
    if fitting != nearest:
        cell = cells.smallest(np.ma.masked_array(cells.left(nearest, parity), is_idle))
        why = f"the cell {cell} is too small for {nearest} test rows"
    return fitting, parity, f"{why}: {fitting} are drawn (--n-test sets another number)"


def _not_whole(rows: int, groups: Sequence[str]) -> str:
    number = sum(map(is_known, groups))
    return f"{rows} rows do not divide evenly into the cells of {number} groups"


def _fit_m(cells: CellCounts, m: int, left: np.ndarray) -> tuple[int, str]:
    """The number of examples, up to `m`, that cells can give in equal parts."""
    labels = left.shape[1]
    unknown = np.tile([[not is_known(group)] for group in cells.task.groups], labels)
    left = np.ma.masked_array(left, unknown)
    number = int(left.count())
    most = number * max(1, int(left.min()))
    if cells.distinct[~unknown].min() == 0 or number <= m <= most:
        return m, ""  # strategies that need every cell fail; others do not need it
    why = f"fewer than the {number} cells of group and answer"
    fitting = number
    if m > most:
        cell = cells.smallest(left)
        why = f"in equal parts more than the distinct rows of the cell {cell} allow"
        fitting = most
    note = f"{m} examples are {why}: {fitting} are shown (--m sets another number)"
    return fitting, note
