"""The rows of the pool on which a threshold is chosen: no test rows and no examples.

See docs/protocol.md, "A threshold".
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.runs.counts import cell_counts, nearest_whole, whole_step
from fwc_llm.runs.same import row_values
from fwc_llm.runs.settings import FITTED, Settings
from fwc_llm.runs.splits import Split, hold_out

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.tasks import Task

_MOST, _LEAST = 200, 20  # rows, where nobody says how many


def hold(
    task: "Task", split: Split, settings: Settings, seed: int, examples: Sequence[Mapping[str, Any]]
) -> "tuple[pd.DataFrame | None, Split]":
    """The held rows of one repeat, drawn like its test rows, and the split without them as examples.

    None, and the split as it is, for a threshold that takes no rows. No held row equals a test row or one of
    the `examples` that are given. Unless their number is set, at least half of the pool's rows of every cell
    remain for examples.

    Errors: `FwcError` for a pool with too few rows.
    """
    if settings.threshold not in FITTED:
        return None, split
    free = split
    if examples:
        taken = set(row_values(task, examples))
        others = [key not in taken for key in row_values(task, split.pool)]
        free = replace(split, candidates=split.candidates & others)
    rows = settings.threshold_rows or _default_rows(task, free, settings)
    try:
        held, left = hold_out(task, free, rows, settings.base_parity, seed)
    except FwcError as error:
        raise FwcError(f"the rows of the pool for --threshold (--threshold-rows): {error}") from None
    return held, replace(left, candidates=left.candidates | (split.candidates & ~free.candidates))


def _default_rows(task: "Task", split: Split, settings: Settings) -> int:
    """As many rows as are tested, at most 200, and at most half of what any cell has."""
    most, parity = min(settings.n_test, _MOST), settings.base_parity
    if parity is None:
        return max(min(most, int(split.candidates.sum()) // 2), 2)
    groups, labels = task.sensitive(split.pool), task.labels(split.pool)
    step = whole_step(task.groups, parity)
    n = nearest_whole(task.groups, most, parity)
    while n - step >= _LEAST and any(
        2 * count > (split.candidates & (groups == group) & (labels == (answer == "yes"))).sum()
        for (group, answer), count in cell_counts(task.groups, n, parity).items()
    ):
        n -= step
    return n
