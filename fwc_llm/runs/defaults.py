"""Defaults of a run: the paper's numbers, adjusted to what the table allows."""

from collections.abc import Sequence
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
    """Complete the settings by task, table and `api`; return them with notes."""
    cells = _Cells(task)
    chosen = settings.model_fields_set
    lines = list[str]()
    changes: dict[str, Any] = {"api": api or settings.api, "weight": task.weight or None}
    is_default = "base_parity" not in chosen
    n = settings.n_test
    if is_default:
        parity = task.base_parity
    else:
        parity = settings.base_parity
    if "n_test" not in chosen:
        n, parity, line = _fit_rows(cells, n, parity, settings.m, is_default)
        changes["n_test"] = n
        lines.append(line)
    elif parity is not None and n > 0 and (nearest := nearest_whole(task.groups, n, parity)) != n:
        lines.append(
            f"--n-test {n}: {_not_whole(n, task.groups)}: {nearest}, the nearest, are drawn"
        )
        changes["n_test"] = n = nearest
    rows = settings.threshold_rows
    if (
        rows
        and parity is not None
        and (nearest := nearest_whole(task.groups, rows, parity)) != rows
    ):
        lines.append(
            f"threshold_rows {rows}: {_not_whole(rows, task.groups)}: {nearest} are asked first"
        )
        changes["threshold_rows"] = nearest
    fits = parity is None or (
        n > 0 and n % whole_step(task.groups, parity) == 0
    )  # else the draw fails
    if chooses and "m" not in chosen and fits:
        changes["m"], line = _fit_m(cells, settings.m, cells.left(n, parity))
        lines.append(line)
    return settings.updated(**changes, base_parity=parity), tuple(filter(None, lines))


def fit_m(task: Task) -> tuple[int, str]:
    """The default of `m`, reduced to what the pool's cells give, and a note."""
    cells = _Cells(task)
    return _fit_m(cells, DEFAULT_M, cells.values)


class _Cells:
    """Numbers of rows per cell (G, 2), by group and outcome ("no" first).

    Test rows are drawn from `rows`, of which the share `share` is in the pool. `values` are the
    distinct rows of the pool, of which `shared` (G, 1) occur with both outcomes.
    """

    def __init__(self, task: Task) -> None:
        import pandas as pd

        table = task.test()
        pool = task.pool()
        names = value_names(task)
        keys = pd.util.hash_pandas_object(pool[names], index=False).to_numpy()
        frame = pd.DataFrame({"cell": cells_of_rows(task, pool), "key": keys})
        order = np.searchsorted(sorted(task.groups), task.groups)
        number = 2 * len(task.groups)
        self.task, self.rows, self.share = task, task.cells_of(table), np.zeros((len(order), 2))
        if pool is table:
            in_pool = np.bincount(frame["cell"], minlength=number).reshape(-1, 2)[order]
            self.share = in_pool / np.maximum(self.rows, 1)
        else:  # a pool row that equals a test row is not an example
            taken = pd.util.hash_pandas_object(table[names], index=False)
            frame = frame[~frame["key"].isin(taken)]
        distinct = frame.drop_duplicates().assign(group=lambda rows: rows["cell"] // 2)
        twice = distinct.loc[distinct.duplicated(["group", "key"]), "group"]
        self.values = np.bincount(distinct["cell"], minlength=number).reshape(-1, 2)[order]
        self.shared = np.bincount(twice, minlength=len(order))[order][:, None]

    def left(self, n: int, base_parity: float | None) -> np.ndarray:
        """Distinct rows (G, 2) left for examples, at least, after drawing `n` rows."""
        if base_parity is None:
            if self.share.any():
                return self.values // 2
            return self.values
        drawn = np.ceil(cell_counts(self.task.groups, n, base_parity) * self.share).astype(int)
        return np.asarray(self.values - drawn - np.minimum(drawn[:, ::-1], self.shared))

    def holds(self, n: int, base_parity: float, reserve: int) -> bool:
        """Whether a draw of `n` test rows leaves `reserve` distinct rows per cell."""
        drawn = cell_counts(self.task.groups, n, base_parity)
        return bool((drawn <= self.rows).all() and (self.left(n, base_parity) >= reserve).all())

    def smallest(self, sizes: np.ndarray) -> str:
        """The cell with the fewest rows, in words."""
        return cell_words(self.task, int(sizes.argmin()))


def _fit_rows(
    cells: _Cells, wanted: int, parity: float | None, m: int, is_default: bool
) -> tuple[int, float | None, str]:
    """The feasible number of rows, its base parity (a default may become None), a note."""
    groups = cells.task.groups
    as_they_fall = min(wanted, max(1, int(cells.rows.sum()) // (2 if cells.share.any() else 1)))
    if parity is None:
        if as_they_fall < wanted:
            moved = f"{wanted} test rows are too many: {as_they_fall} are drawn"
        else:
            moved = ""
        return as_they_fall, None, moved
    nearest = nearest_whole(groups, wanted, parity)
    step = whole_step(groups, parity)
    reserve = -(-m // (2 * len(groups)))
    numbers = range(nearest, max(step, _LEAST) - 1, -step)
    fitting = next((n for n in numbers if cells.holds(n, parity, reserve)), None)
    if fitting is None and is_default:
        why = f"the cell {cells.smallest(cells.rows)} has too few rows ({cells.rows.min():,})"
        drawn = f"{as_they_fall} test rows are drawn with --base-parity none"
        return as_they_fall, None, f"{why}: {drawn}; a map in the task file can merge groups"
    if fitting is None:  # an explicit parity: any number that can be drawn, else the draw fails
        fitting = next((n for n in range(nearest, 0, -step) if cells.holds(n, parity, 0)), nearest)
    why = _not_whole(wanted, groups)
    if fitting != nearest:
        why = (
            f"the cell {cells.smallest(cells.left(nearest, parity))} is too small for {nearest} "
            f"test rows"
        )
    if fitting != wanted:
        moved = f"{why}: {fitting} are drawn (--n-test sets another number)"
    else:
        moved = ""
    return fitting, parity, moved


def _not_whole(rows: int, groups: Sequence[str]) -> str:
    return f"{rows} rows do not divide evenly into the cells of {len(groups)} groups"


def _fit_m(cells: _Cells, m: int, left: np.ndarray) -> tuple[int, str]:
    """The number of examples, up to `m`, that cells can give in equal parts."""
    number = left.size
    per_cell = max(1, int(left.min()))
    if cells.values.min() == 0 or (m >= number and per_cell >= -(-m // number)):
        return (
            m,
            "",
        )  # with an empty cell, strategies that need every cell fail; others do not need it
    if m < number:
        fitting = number
    else:
        fitting = min(m, number * per_cell)
    why = f"fewer than the {number} cells of group and answer"
    if m >= number:
        why = f"in equal parts more than the distinct rows of the cell {cells.smallest(left)} allow"
    return fitting, f"{m} examples are {why}: {fitting} are shown (--m sets another number)"
