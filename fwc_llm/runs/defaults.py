"""Defaults of a run: the paper's numbers, adjusted to what the table allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import (
    cell_counts,
    cell_words,
    cells_of_rows,
    nearest_whole,
    value_names,
    whole_step,
)
from fwc_llm.shots.base import DEFAULT_M
from fwc_llm.tasks import Task

_LEAST = 40  # with fewer test rows in equal groups, draw rows without a base parity


def fit_defaults(
    task: Task, settings: Settings, chooses: bool = True, api: str | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Complete the settings by task, table and `api`; return them with notes.

    `chooses`: whether a strategy chooses examples, so that m matters.
    """
    cells = CellCounts.of(task)
    chosen = settings.model_fields_set
    changes: dict[str, Any] = {
        "api": api or settings.api,
        "weight": task.rules.weight or None,
    }
    parity = settings.base_parity if "base_parity" in chosen else task.rules.base_parity
    rows = settings.n_test
    if "n_test" not in chosen:
        is_default = "base_parity" not in chosen
        rows, parity, line = _fit_rows(cells, rows, parity, settings.m, is_default)
    else:
        rows, line = _whole(
            task, rows, parity, "--n-test {}: {}: {}, the nearest, are drawn"
        )
    lines = [line]
    if rows != settings.n_test or "n_test" not in chosen:
        changes["n_test"] = rows
    if settings.threshold_rows:
        number, line = _whole(
            task,
            settings.threshold_rows,
            parity,
            "threshold_rows {}: {}: {} are asked first",
        )
        changes["threshold_rows"] = number
        lines.append(line)
    can_be_drawn = parity is None or (
        rows > 0 and rows % whole_step(task.groups, parity) == 0
    )
    if chooses and "m" not in chosen and can_be_drawn:
        changes["m"], line = _fit_m(cells, settings.m, cells.left(rows, parity))
        lines.append(line)
    fitted = settings.updated(**changes, base_parity=parity)
    return fitted, tuple(filter(None, lines))


def fit_m(task: Task) -> tuple[int, str]:
    """The default of `m`, reduced to what the pool's cells give, and a note."""
    cells = CellCounts.of(task)
    return _fit_m(cells, DEFAULT_M, cells.distinct)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Numbers of rows per cell (G, 2), by group and outcome ("no" first).

    Test rows are drawn from `rows`, of which the share `in_pool` is also in the pool. `distinct`
    are the different rows of the pool; `ambiguous` (G, 1) of them occur with both outcomes.
    """

    task: Task
    rows: np.ndarray
    in_pool: np.ndarray
    distinct: np.ndarray
    ambiguous: np.ndarray

    @classmethod
    def of(cls, task: Task) -> "CellCounts":
        """Count the rows of a task's table."""
        import pandas as pd

        table = task.test()
        pool = task.pool()
        names = value_names(task)
        rows = task.cells_of(table)
        keys = pd.util.hash_pandas_object(pool[names], index=False).to_numpy()
        frame = pd.DataFrame({"cell": cells_of_rows(task, pool), "key": keys})
        by_rate = np.searchsorted(sorted(task.groups), task.groups)
        number = 2 * len(task.groups)

        def count(cells: "pd.Series") -> np.ndarray:
            return np.bincount(cells, minlength=number).reshape(-1, 2)[by_rate]

        in_pool = np.zeros(rows.shape)
        if pool is table:
            in_pool = count(frame["cell"]) / np.maximum(rows, 1)
        else:  # a pool row that equals a test row is not an example
            tested = pd.util.hash_pandas_object(table[names], index=False)
            frame = frame[~frame["key"].isin(tested)]
        distinct = frame.drop_duplicates().assign(group=lambda part: part["cell"] // 2)
        both = distinct.loc[distinct.duplicated(["group", "key"]), "group"]
        ambiguous = np.bincount(both, minlength=len(task.groups))[by_rate]
        return cls(task, rows, in_pool, count(distinct["cell"]), ambiguous[:, None])

    def left(self, n: int, base_parity: float | None) -> np.ndarray:
        """Distinct rows (G, 2) left for examples, at least, after drawing `n` rows."""
        if base_parity is None:
            return self.distinct // 2 if self.in_pool.any() else self.distinct
        counts = cell_counts(self.task.groups, n, base_parity)
        drawn = np.ceil(counts * self.in_pool).astype(int)
        of_other_outcome = np.minimum(drawn[:, ::-1], self.ambiguous)
        return np.asarray(self.distinct - drawn - of_other_outcome)

    def holds(self, n: int, base_parity: float, reserve: int) -> bool:
        """Whether a draw of `n` test rows leaves `reserve` distinct rows per cell."""
        drawn = cell_counts(self.task.groups, n, base_parity)
        enough = (drawn <= self.rows).all()
        return bool(enough and (self.left(n, base_parity) >= reserve).all())

    def smallest(self, sizes: np.ndarray) -> str:
        """The cell with the fewest rows, in words."""
        return cell_words(self.task, int(sizes.argmin()))


def _whole(task: Task, rows: int, parity: float | None, note: str) -> tuple[int, str]:
    """The nearest number of rows that divides evenly into cells, and the note about it."""
    if parity is None or rows <= 0:
        return rows, ""
    nearest = nearest_whole(task.groups, rows, parity)
    if nearest == rows:
        return rows, ""
    return nearest, note.format(rows, _not_whole(rows, task.groups), nearest)


def _fit_rows(
    cells: CellCounts, wanted: int, parity: float | None, m: int, is_default: bool
) -> tuple[int, float | None, str]:
    """The feasible number of rows, its base parity (a default may become None), a note."""
    groups = cells.task.groups
    shared = (
        2 if cells.in_pool.any() else 1
    )  # half of a table of one file is left for examples
    as_they_fall = min(wanted, max(1, int(cells.rows.sum()) // shared))
    if parity is None:
        many = f"{wanted} test rows are too many: {as_they_fall} are drawn"
        return as_they_fall, None, many if as_they_fall < wanted else ""
    nearest = nearest_whole(groups, wanted, parity)
    step = whole_step(groups, parity)
    reserve = -(-m // (2 * len(groups)))
    numbers = range(nearest, max(step, _LEAST) - 1, -step)
    fitting = next((n for n in numbers if cells.holds(n, parity, reserve)), None)
    if fitting is None and is_default:
        why = f"the cell {cells.smallest(cells.rows)} has too few rows ({cells.rows.min():,})"
        drawn = f"{as_they_fall} test rows are drawn with --base-parity none"
        return (
            as_they_fall,
            None,
            f"{why}: {drawn}; a map in the task file can merge groups",
        )
    if (
        fitting is None
    ):  # an explicit parity: any number that can be drawn, else the draw fails
        numbers = range(nearest, 0, -step)
        fitting = next((n for n in numbers if cells.holds(n, parity, 0)), nearest)
    if fitting == wanted:
        return fitting, parity, ""
    why = _not_whole(wanted, groups)
    if fitting != nearest:
        cell = cells.smallest(cells.left(nearest, parity))
        why = f"the cell {cell} is too small for {nearest} test rows"
    return fitting, parity, f"{why}: {fitting} are drawn (--n-test sets another number)"


def _not_whole(rows: int, groups: Sequence[str]) -> str:
    return f"{rows} rows do not divide evenly into the cells of {len(groups)} groups"


def _fit_m(cells: CellCounts, m: int, left: np.ndarray) -> tuple[int, str]:
    """The number of examples, up to `m`, that cells can give in equal parts."""
    number = left.size
    per_cell = max(1, int(left.min()))
    if cells.distinct.min() == 0:
        return m, ""  # strategies that need every cell fail; others do not need it
    if m < number:
        why = f"fewer than the {number} cells of group and answer"
        fitting = number
    elif number * per_cell < m:
        cell = cells.smallest(left)
        why = f"in equal parts more than the distinct rows of the cell {cell} allow"
        fitting = number * per_cell
    else:
        return m, ""
    return (
        fitting,
        f"{m} examples are {why}: {fitting} are shown (--m sets another number)",
    )
