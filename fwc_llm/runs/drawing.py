"""Test rows drawn from a table, in memory or on disk: of the same table the same rows."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fwc_llm.runs.counts import cell_counts, check_cells, check_size
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.data.whole import Whole

Cell = tuple[str, str]  # a group, and "no" or "yes"


class Free(Protocol):
    """The rows of a table that may be drawn."""

    def size(self, cell: Cell | None = None) -> int:
        """How many there are: of a cell, or of all."""

    def nth(self, ranks: np.ndarray, cell: Cell | None = None) -> np.ndarray:
        """The positions of those with these numbers, from 0, among those that `size` counts."""


@dataclass(frozen=True)
class FreeInMemory:
    """Those of the `rows` of a task that are `free` (n,)."""

    task: Task
    rows: "pd.DataFrame"
    free: np.ndarray

    def size(self, cell: Cell | None = None) -> int:
        """See `Free`."""
        return len(self._positions(cell))

    def nth(self, ranks: np.ndarray, cell: Cell | None = None) -> np.ndarray:
        """See `Free`."""
        return np.asarray(self._positions(cell)[ranks])

    @cached_property
    def _labelled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.task.sensitive(self.rows), self.task.labels(self.rows)

    def _positions(self, cell: Cell | None) -> np.ndarray:
        if cell is None:
            return np.flatnonzero(self.free)
        levels, labels = self._labelled
        return np.flatnonzero(self.free & (levels == cell[0]) & (labels == (cell[1] == "yes")))


@dataclass(frozen=True)
class FreeOnDisk:
    """Those rows of a table on disk that are `free` (n,), or all."""

    whole: "Whole"
    free: np.ndarray | None

    def size(self, cell: Cell | None = None) -> int:
        """See `Free`."""
        return self.whole.size(self.free, _with_answer(cell))

    def nth(self, ranks: np.ndarray, cell: Cell | None = None) -> np.ndarray:
        """See `Free`."""
        return self.whole.nth(ranks, self.free, _with_answer(cell))


def _with_answer(cell: Cell | None) -> tuple[str, bool] | None:
    return None if cell is None else (cell[0], cell[1] == "yes")


def draw(task: Task, free: Free, n: int, base_parity: float | None, rng: np.random.Generator) -> np.ndarray:
    """The positions (n,) of rows drawn without replacement, in random order; see `draw_split`."""
    if base_parity is None:
        size = free.size()
        check_size(n, size)
        return free.nth(rng.choice(size, size=n, replace=False))
    counts = cell_counts(task.groups, n, base_parity)
    sizes = {cell: free.size(cell) for cell in counts}
    check_cells(task, sizes, counts)
    drawn = [free.nth(rng.choice(sizes[cell], count, replace=False), cell) for cell, count in counts.items()]
    return rng.permutation(np.concatenate(drawn))
