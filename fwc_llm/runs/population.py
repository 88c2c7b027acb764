"""The people behind a design: how many rows of each group and label the test rows were drawn from."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fwc_llm.metrics.adverse_impact import Population
    from fwc_llm.tasks import Task


def population(task: "Task") -> "Population":
    """Return the rows per group and label of the table that test rows are drawn from."""
    import numpy as np

    from fwc_llm.metrics.adverse_impact import Population

    return Population(task.groups, task.cells_of(task.test()).astype(np.float64))
