"""Test rows with controlled base rates, and the rows that may still become examples.

The rules of the evaluation protocol: test rows are drawn first; a pool row with equal values cannot become
an example; groups have equal numbers of test rows, with base rates evenly spaced over 0.5 ± b/2.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.runs.counts import cell_counts, check_cells, check_size
from fwc_llm.runs.row_matching import equal_rows, row_values, value_names
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fwc_llm.metrics.planning import Design


_VALIDATION = 1  # beside the seed: validation rows are drawn apart from test rows


@dataclass(frozen=True)
class Split:
    """`test` rows in the order they are asked; `pool` rows (n), of which `candidates` (n,) may be examples.

    The examples represent the whole pool; `candidates` only marks the rows that may become examples.
    """

    pool: "pd.DataFrame"
    test: "pd.DataFrame"
    candidates: "np.ndarray"


def draw_split(
    task: Task,
    n_test: int = 200,
    base_parity: float | None = 0.5,
    seed: int = 0,
    exclude: Collection[str] | None = None,
    not_equal_to: "pd.DataFrame | Sequence[Mapping[str, Any]] | None" = None,
) -> Split:
    """Draw `n_test` test rows without replacement, then mark the pool rows that may be examples.

    `base_parity` b gives every group n_test / G rows and base rates evenly spaced from 0.5 − b/2 to 0.5 + b/2
    in the order of `task.groups`; None draws from all test rows alike. Rows whose id is in `exclude`, or that
    equal one of `not_equal_to` in every feature and protected attribute, are not drawn. The same `seed`
    draws the same rows.

    Raises `FwcError` for b outside [0, 1], counts that are not whole (naming the nearest n that works) and a
    cell with too few rows (naming it).
    """
    import numpy as np

    from fwc_llm.runs.drawing import cells_of_rows, draw

    taken = set(row_values(task, not_equal_to)) if not_equal_to is not None and len(not_equal_to) else set()
    asked = n_test, base_parity, np.random.default_rng(seed)
    if task.whole is None:
        table = task.test()
        test = table.iloc[draw(task, cells_of_rows(task, table), _free(task, exclude, taken), *asked)]
    else:
        free = np.ones(len(task.whole), dtype=bool)
        if exclude:
            free[task.whole.find(exclude)] = False
        if taken:
            free[task.whole.equal(value_names(task), taken)] = False
        test = task.whole.take(draw(task, task.whole.cells, free, *asked))
    pool = task.pool()
    if pool is task.test():  # one file: the pool is the rest
        pool = pool[~pool.index.isin(test.index)]
    return Split(pool, test, ~equal_rows(task, pool, test))


def hold_out(
    task: Task, split: Split, n: int, base_parity: float | None, seed: int
) -> "tuple[pd.DataFrame, Split]":
    """`n` validation rows of the split's pool, drawn like test rows, and the split without them as examples.

    No validation row equals a test row, and none of the candidates that are left equals a validation row.

    Raises `FwcError` as `draw_split` does; for a pool with too few rows it says how many are needed.
    """
    import numpy as np

    from fwc_llm.runs.drawing import cells_of_rows, draw

    rng = np.random.default_rng([seed, _VALIDATION])
    cells = cells_of_rows(task, split.pool)
    rows = split.pool.iloc[draw(task, cells, split.candidates, n, base_parity, rng)]
    left = ~equal_rows(task, split.pool, rows)
    return rows, Split(split.pool, split.test, split.candidates & left)


def design_of(task: Task, n_test: int, base_parity: float | None, repeats: int) -> "Design":
    """The rows per cell that a run asks about, and the rows per cell that it can draw from.

    Raises `FwcError` as `draw_split` does. Nothing is drawn.
    """
    import numpy as np

    from fwc_llm.metrics.planning import Design

    if repeats < 1:
        raise FwcError(f"repeats is {repeats}: a run needs at least 1")
    held = task.cells_of(task.test())
    if base_parity is None:
        check_size(n_test, int(held.sum()))
        of_groups = held.sum(1, keepdims=True).astype(float)
        return Design(task.groups, n_test * of_groups / held.sum(), of_groups, repeats)
    counts = cell_counts(task.groups, n_test, base_parity)
    rows = np.array([[counts[group, answer] for answer in ("no", "yes")] for group in task.groups])
    check_cells(task, dict(zip(counts, held.ravel().tolist(), strict=True)), counts)
    return Design(task.groups, rows.astype(float), held.astype(float), repeats)


def _free(task: Task, exclude: Collection[str] | None, taken: Collection[tuple[Any, ...]]) -> "np.ndarray":
    """Which test rows (n,) have none of the ids `exclude`, nor values that are `taken`."""
    import numpy as np

    table = task.test()
    free = np.ones(len(table), dtype=bool)
    if exclude:
        free &= ~table.index.isin(list(exclude))
    if taken:
        free &= np.fromiter((key not in taken for key in row_values(task, table)), bool, len(table))
    return free
