"""Test rows drawn from a table, in memory or on disk: of the same table the same rows."""

from typing import TYPE_CHECKING

import numpy as np

from fwc_llm.runs.counts import cell_counts, check_cells, check_size
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import pandas as pd


def cells_of_rows(task: Task, rows: "pd.DataFrame") -> np.ndarray:
    """The group and answer (n,) of every row, as `DiskTable.cells` has them."""
    levels = np.array(sorted(task.groups))
    return np.asarray(2 * np.searchsorted(levels, task.sensitive(rows)) + task.labels(rows))


def draw(
    task: Task,
    cells: np.ndarray,
    free: np.ndarray,
    n: int,
    base_parity: float | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """The positions of n of the rows that are `free` (n,), drawn without replacement, in random order.

    `cells` are those of all rows; see `draw_split`.
    """
    if base_parity is None:
        rows = np.flatnonzero(free)
        check_size(n, len(rows))
        return np.asarray(rows[rng.choice(len(rows), size=n, replace=False)])
    counts, levels = cell_counts(task.groups, n, base_parity), sorted(task.groups)
    places = {
        (level, answer): np.flatnonzero(free & (cells == 2 * levels.index(level) + (answer == "yes")))
        for level, answer in counts
    }
    check_cells(task, {cell: len(rows) for cell, rows in places.items()}, counts)
    drawn = [
        places[cell][rng.choice(len(places[cell]), count, replace=False)] for cell, count in counts.items()
    ]
    return rng.permutation(np.concatenate(drawn))
