"""Rows that are equal by value: what no test row and no example may be of one another."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError
from fwc_llm.tasks import Task

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def value_names(task: Task) -> list[str]:
    """The columns by which rows are compared.

    Extras and the outcome are left out: people who differ only in a sampling weight give one question.
    """
    return [column.name for column in task.features] + list(task.protected)


def row_values(task: Task, rows: "pd.DataFrame | Sequence[Mapping[str, Any]]") -> list[tuple[Any, ...]]:
    """One tuple per row for comparing rows by value, of `value_names`."""
    names = value_names(task)
    if isinstance(rows, Sequence):
        for row in rows:
            for name in names:
                if name not in row:
                    raise FwcError(f"an example has no value for {name!r}; task {task.name!r} needs it")
        return [tuple(row[name] for name in names) for row in rows]
    return list(zip(*(rows[name].tolist() for name in names), strict=True))


def equal_rows(
    task: Task, rows: "pd.DataFrame", others: "pd.DataFrame | Sequence[Mapping[str, Any]]"
) -> "np.ndarray":
    """Which rows (n,) of the table equal one of the others by value, or are of the same person."""
    import numpy as np
    import pandas as pd

    known = set(row_values(task, others))
    equal = np.array([values in known for values in row_values(task, rows)], dtype=bool)
    if task.cluster and len(others):
        equal |= rows[task.cluster].isin(pd.DataFrame(others)[task.cluster]).to_numpy()
    return equal
