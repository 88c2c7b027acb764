"""The defaults of a run: the paper's numbers, moved to what this table allows.

A number that the user gives is taken or refused; only numbers of rows that give no whole cells are rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import cell_counts, cell_words, cells_of_rows, nearest_whole, value_names, whole_step
from fwc_llm.shots.base import DEFAULT_M
from fwc_llm.tasks import Task

_LEAST = 40  # test rows; below it, equal numbers of every group are given up before the other groups are


def fit_defaults(
    task: Task, settings: Settings, chooses: bool = True, api: str | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Complete the settings by task, table and the model's `api`; say in a line each which number moved.

    Test rows: the nearest number that comes out whole and leaves examples in every cell of group and outcome;
    if cells are too small for that, rows are drawn without a base parity. Base parity and weight: the task's.
    Examples: as many as the cells can give in equal parts, where an arm `chooses` some. `FwcError` for a base
    parity outside [0, 1].
    """
    cells, chosen, lines = _Cells.of(task), settings.model_fields_set, list[str]()
    changes: dict[str, Any] = {"api": api or settings.api, "weight": task.weight or None}
    is_default = "base_parity" not in chosen
    n, parity = settings.n_test, task.base_parity if is_default else settings.base_parity
    if "n_test" not in chosen:
        n, parity, line = _fit_rows(cells, n, parity, settings.m, is_default)
        changes["n_test"] = n
        lines.append(line)
    elif parity is not None and n > 0 and (nearest := nearest_whole(task.groups, n, parity)) != n:
        lines.append(f"--n-test {n}: {_not_whole(n, task.groups)}: {nearest}, the nearest, are drawn")
        changes["n_test"] = n = nearest
    rows = settings.threshold_rows
    if rows and parity is not None and (nearest := nearest_whole(task.groups, rows, parity)) != rows:
        lines.append(f"--threshold-rows {rows}: {_not_whole(rows, task.groups)}: {nearest} are asked first")
        changes["threshold_rows"] = nearest
    fits = parity is None or (n > 0 and n % whole_step(task.groups, parity) == 0)  # else the draw refuses it
    if chooses and "m" not in chosen and fits:
        changes["m"], line = _fit_m(cells, settings.m, cells.left(n, parity))
        lines.append(line)
    return settings.updated(**changes, base_parity=parity), tuple(filter(None, lines))


def fit_m(task: Task) -> tuple[int, str]:
    """Return the default of `m`, moved where the pool's cells cannot give it, and a line that says so."""
    cells = _Cells.of(task)
    return _fit_m(cells, DEFAULT_M, cells.values)


@dataclass(frozen=True)
class _Cells:
    """Rows per cell, groups by "no" and "yes" (G, 2): those of test rows, and the examples'. `values` counts
    distinct rows of the pool; `shared` (G, 1), those that both answers have; `share` (G, 2), rows in the
    pool.
    """

    task: Task
    rows: np.ndarray
    values: np.ndarray
    shared: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, task: Task) -> "_Cells":
        import pandas as pd

        table, pool = task.test(), task.pool()
        names = value_names(task)
        keys = pd.util.hash_pandas_object(pool[names], index=False).to_numpy()
        frame = pd.DataFrame({"cell": cells_of_rows(task, pool), "key": keys})
        order, number = np.searchsorted(sorted(task.groups), task.groups), 2 * len(task.groups)
        rows, share = task.cells_of(table), np.zeros((len(order), 2))
        if pool is table:
            in_pool = np.bincount(frame["cell"], minlength=number).reshape(-1, 2)[order]
            share = in_pool / np.maximum(rows, 1)
        else:  # a pool row that equals a test row is not an example
            taken = pd.util.hash_pandas_object(table[names], index=False)
            frame = frame[~frame["key"].isin(taken)]
        distinct = frame.drop_duplicates().assign(group=lambda rows: rows["cell"] // 2)
        twice = distinct.loc[distinct.duplicated(["group", "key"]), "group"]
        values = np.bincount(distinct["cell"], minlength=number).reshape(-1, 2)[order]
        shared = np.bincount(twice, minlength=len(order))[order][:, None]
        return cls(task, rows, values, shared, share)

    def left(self, n: int, base_parity: float | None) -> np.ndarray:
        """The distinct rows (G, 2) that cells keep for examples, at least, when `n` test rows are drawn."""
        if base_parity is None:
            return self.values // 2 if self.share.any() else self.values
        drawn = np.ceil(cell_counts(self.task.groups, n, base_parity) * self.share).astype(int)
        return np.asarray(self.values - drawn - np.minimum(drawn[:, ::-1], self.shared))

    def holds(self, n: int, base_parity: float, reserve: int) -> bool:
        """Whether `n` test rows can be drawn and leave `reserve` rows in every cell."""
        drawn = cell_counts(self.task.groups, n, base_parity)
        return bool((drawn <= self.rows).all() and (self.left(n, base_parity) >= reserve).all())

    def smallest(self, sizes: np.ndarray) -> str:
        """The cell with the fewest rows, in words."""
        return cell_words(self.task, int(sizes.argmin()))


def _fit_rows(
    cells: _Cells, wanted: int, parity: float | None, m: int, is_default: bool
) -> tuple[int, float | None, str]:
    """The number of test rows and the parity that come out: no base parity if a default is infeasible."""
    groups = cells.task.groups
    as_they_fall = min(wanted, max(1, int(cells.rows.sum()) // (2 if cells.share.any() else 1)))
    if parity is None:
        moved = f"{wanted} test rows are too many: {as_they_fall} are drawn" if as_they_fall < wanted else ""
        return as_they_fall, None, moved
    nearest, step = nearest_whole(groups, wanted, parity), whole_step(groups, parity)
    reserve = -(-m // (2 * len(groups)))
    numbers = range(nearest, max(step, _LEAST) - 1, -step)
    fitting = next((n for n in numbers if cells.holds(n, parity, reserve)), None)
    if fitting is None and is_default:
        why = f"the cell {cells.smallest(cells.rows)} has too few rows ({cells.rows.min():,})"
        drawn = f"{as_they_fall} test rows are drawn with --base-parity none"
        return as_they_fall, None, f"{why}: {drawn}; a map in the task file can merge groups"
    if fitting is None:  # an explicit parity: what can be drawn at all, or the draw says why not
        fitting = next((n for n in range(nearest, 0, -step) if cells.holds(n, parity, 0)), nearest)
    why = _not_whole(wanted, groups)
    if fitting != nearest:
        why = f"the cell {cells.smallest(cells.left(nearest, parity))} is too small for {nearest} test rows"
    moved = f"{why}: {fitting} are drawn (--n-test sets another number)" if fitting != wanted else ""
    return fitting, parity, moved


def _not_whole(rows: int, groups: Sequence[str]) -> str:
    return f"{rows} rows do not divide evenly into the cells of {len(groups)} groups"


def _fit_m(cells: _Cells, m: int, left: np.ndarray) -> tuple[int, str]:
    """The number of examples that cells with `left` rows can give in equal parts."""
    number, each = left.size, max(1, int(left.min()))
    if cells.values.min() == 0 or (m >= number and each >= -(-m // number)):
        return m, ""  # of an empty cell, strategies that need every cell refuse; the others do not care
    fitting = number if m < number else min(m, number * each)
    why = f"fewer than the {number} cells of group and answer"
    if m >= number:
        why = f"in equal parts more than the distinct rows of the cell {cells.smallest(left)} allow"
    return fitting, f"{m} examples are {why}: {fitting} are shown (--m sets another number)"
