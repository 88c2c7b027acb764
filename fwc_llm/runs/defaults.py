"""What a run does where nobody says otherwise: the paper's numbers, moved to what comes out on this table.

A number that somebody gives is taken or refused, never moved.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.runs.row_matching import row_hashes
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import cell_counts, nearest_whole, whole_step
from fwc_llm.shots.base import DEFAULT_M

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

_LEAST = 40  # test rows; below it, equal numbers of every group are given up before the other groups are


def fit_defaults(task: "Task", settings: Settings, chooses: bool = True) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with defaults that come out on this table, and one line for each that moved.

    Test rows: the nearest number that comes out whole and leaves examples in every cell of group and outcome;
    where cells are too small for that, rows as they fall. Base parity: the task's. Examples: as many as the
    cells can give in equal parts; their number stays where no arm `chooses` examples. `FwcError` for a base
    parity outside [0, 1].
    """
    cells = _Cells.of(task)
    is_default = "base_parity" not in settings.model_fields_set
    if is_default and settings.base_parity != task.base_parity:
        settings = settings.updated(base_parity=task.base_parity)
    settings, said = _fit_rows(cells, settings, is_default)
    settings, said_too = _fit_examples(cells, settings) if chooses else (settings, "")
    return settings, tuple(line for line in (said, said_too) if line)


def fit_m(task: "Task") -> tuple[int, str]:
    """Return the default of `m`, moved where the pool's cells cannot give it, and a line that says so."""
    cells = _Cells.of(task)
    return _fitting_m(cells, DEFAULT_M, cells.values)


@dataclass(frozen=True)
class _Cells:
    """Rows per cell, groups by "no" and "yes" (G, 2): those that test rows come from, and the examples'.

    `values` counts distinct rows of the pool; `shared` (G,), those of a group that both answers have. `share`
    (G, 2) says how many of a table's rows are in memory.
    """

    task: "Task"
    rows: np.ndarray
    values: np.ndarray
    shared: np.ndarray
    is_split: bool
    share: np.ndarray

    @classmethod
    def of(cls, task: "Task") -> "_Cells":
        table, pool = task.test(), task.pool()
        groups, labels, keys = task.sensitive(pool), task.labels(pool), row_hashes(task, pool)
        seen = np.unique(row_hashes(task, table)) if pool is not table else np.empty(0, keys.dtype)
        free = ~np.isin(keys, seen)  # a pool row that equals a test row is no example
        distinct = [
            [np.unique(keys[free & (groups == group) & (labels == answer)]) for answer in (0, 1)]
            for group in task.groups
        ]
        rows = task.cells_of(task.test())
        here = [
            [((groups == group) & (labels == answer)).sum() for answer in (0, 1)] for group in task.groups
        ]
        return cls(
            task,
            rows,
            np.array([[len(no), len(yes)] for no, yes in distinct]),
            np.array([len(np.intersect1d(no, yes)) for no, yes in distinct]),
            pool is table,
            np.array(here) / np.maximum(rows, 1) if task.whole is not None else np.ones(rows.shape),
        )

    def left(self, n: int, base_parity: float) -> np.ndarray:
        """How many distinct rows every cell keeps for examples, at least, when `n` test rows are drawn."""
        if not self.is_split:
            return self.values
        # Of a table on disk only some of the rows that are drawn are among those in memory.
        drawn = np.ceil(self.drawn(n, base_parity) * self.share).astype(int)
        return np.asarray(self.values - drawn - np.minimum(drawn[:, ::-1], self.shared[:, None]))

    def drawn(self, n: int, base_parity: float) -> np.ndarray:
        """How many test rows every cell gives."""
        counts = cell_counts(self.task.groups, n, base_parity)
        return np.array([[counts[group, answer] for answer in ("no", "yes")] for group in self.task.groups])

    def holds(self, n: int, base_parity: float, reserve: int) -> bool:
        """Whether `n` test rows can be drawn and leave `reserve` rows in every cell."""
        return bool(
            (self.drawn(n, base_parity) <= self.rows).all() and (self.left(n, base_parity) >= reserve).all()
        )

    def smallest(self, sizes: np.ndarray) -> str:
        """The cell with the fewest rows, in words."""
        group, answer = divmod(int(sizes.argmin()), 2)
        attribute = " & ".join(self.task.protected)
        return f"{attribute} = {self.task.groups[group]}, {self.task.outcome} = {('no', 'yes')[answer]}"


def _fit_rows(cells: _Cells, settings: Settings, is_default: bool) -> tuple[Settings, str]:
    if "n_test" in settings.model_fields_set:
        return settings, ""
    wanted, groups, parity = settings.n_test, cells.task.groups, settings.base_parity
    as_they_fall = min(wanted, max(1, int(cells.rows.sum()) // (2 if cells.is_split else 1)))
    if parity is None:
        moved = "" if as_they_fall == wanted else f"{wanted} test rows are too many: {as_they_fall} are drawn"
        return settings.updated(n_test=as_they_fall), moved
    nearest, step = nearest_whole(groups, wanted, parity), whole_step(groups, parity)
    reserve = -(-settings.m // (2 * len(groups)))
    least = max(step, _LEAST)
    fitting = next((n for n in range(nearest, least - 1, -step) if cells.holds(n, parity, reserve)), None)
    if fitting is None and is_default:
        said = (
            f"the cell {cells.smallest(cells.rows)} has {cells.rows.min():,} rows, too few for equal numbers "
            f"of every group: {as_they_fall} test rows are drawn as they fall (--base-parity none); a map in "
            "the task file can merge groups"
        )
        return settings.updated(n_test=as_they_fall, base_parity=None), said
    if fitting is None:  # an explicit parity: what can be drawn at all, or the draw says why not
        fitting = next((n for n in range(nearest, 0, -step) if cells.holds(n, parity, 0)), nearest)
    if fitting == wanted:
        return settings.updated(n_test=wanted), ""
    why = f"{wanted} test rows over {len(groups)} groups do not come out whole"
    if fitting != nearest:
        why = f"the cell {cells.smallest(cells.left(nearest, parity))} is too small for {nearest} test rows"
    return settings.updated(n_test=fitting), f"{why}: {fitting} are drawn (--n-test sets another number)"


def _fit_examples(cells: _Cells, settings: Settings) -> tuple[Settings, str]:
    if "m" in settings.model_fields_set:
        return settings, ""
    n, parity = settings.n_test, settings.base_parity
    if parity is None:
        left = cells.values // 2 if cells.is_split else cells.values
    elif n % whole_step(cells.task.groups, parity) or n < 1:
        return settings, ""  # the draw refuses it
    else:
        left = cells.left(n, parity)
    m, said = _fitting_m(cells, settings.m, left)
    return settings.updated(m=m), said


def _fitting_m(cells: _Cells, m: int, left: np.ndarray) -> tuple[int, str]:
    """The examples that cells of which so many rows are `left` can give in equal parts."""
    wanted, least = int(m), left.size
    if cells.values.min() == 0:  # strategies that need every cell refuse; the others do not care
        return wanted, ""
    if wanted < least:
        return (
            least,
            f"{wanted} examples are fewer than the {least} cells of group and answer: {least} are shown",
        )
    each = max(1, int(left.min()))
    if each >= -(-wanted // least):
        return wanted, ""
    fitting = min(wanted, least * each)
    return fitting, (
        f"{wanted} examples in equal parts are more than the different rows of {cells.smallest(left)} give: "
        f"{fitting} are shown (--m sets another number)"
    )
