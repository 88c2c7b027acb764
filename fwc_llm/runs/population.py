"""The people behind a design: how many rows of each group and label the test rows were drawn from."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fwc_llm.metrics.reweighting import Population
    from fwc_llm.tasks import Task


def population(task: "Task") -> "Population":
    """Return the rows per group and label of the table that test rows are drawn from."""
    import numpy as np

    from fwc_llm.metrics.reweighting import Population

    table = task.test()
    place = {group: number for number, group in enumerate(task.groups)}
    codes = np.array([place[level] for level in task.sensitive(table).tolist()], dtype=np.intp)
    cells = np.bincount(2 * codes + task.labels(table), minlength=2 * len(place)).astype(np.float64)
    return Population(task.groups, cells.reshape(-1, 2))
