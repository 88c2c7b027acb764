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


def equal_rows(task: Task, rows: "pd.DataFrame", others: "pd.DataFrame") -> "np.ndarray":
    """Which rows (n,) of the table equal one of the others by value, or are of the same person."""
    import numpy as np

    # Of a million rows tuples would take hundreds of bytes each: only those whose hashes meet are compared.
    equal = np.isin(row_hashes(task, rows), row_hashes(task, others), kind="sort")  # numpy 2.0 overflows
    at = np.flatnonzero(equal)
    if len(at):
        like = np.isin(row_hashes(task, others), row_hashes(task, rows.iloc[at]), kind="sort")
        known = set(row_values(task, others[like]))
        equal[at] = [key in known for key in row_values(task, rows.iloc[at])]
    return equal | rows[task.cluster].isin(others[task.cluster]).to_numpy() if task.cluster else equal


def unlike(
    task: Task, rows: "pd.DataFrame", others: "pd.DataFrame | Sequence[Mapping[str, Any]]"
) -> "np.ndarray":
    """Which rows (n,) neither equal one of the others by value nor are of the same person."""
    import numpy as np
    import pandas as pd

    taken = set(row_values(task, others))
    free = np.array([key not in taken for key in row_values(task, rows)], dtype=bool)
    if task.cluster and len(others):
        free &= ~rows[task.cluster].isin(pd.DataFrame(others)[task.cluster]).to_numpy()
    return free


def row_hashes(task: Task, rows: "pd.DataFrame") -> "np.ndarray":
    """A hash (n,) of every row's features and protected attributes; 0.0 is -0.0, as it is for `==`."""
    import pandas as pd

    names = value_names(task)
    numeric = {column.name for column in task.columns if column.kind == "numeric"}
    values = {name: rows[name] + 0 if name in numeric else rows[name] for name in names}
    return pd.util.hash_pandas_object(pd.DataFrame(values), index=False).to_numpy()
