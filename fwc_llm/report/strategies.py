"""How close examples are to their table, and how far from parity."""

import numpy as np
import pandas as pd

from fwc_llm.coreset.distance import wasserstein
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.coreset.transport.parity import violation
from fwc_llm.shots.base import Shots
from fwc_llm.shots.examples import labelled_pool
from fwc_llm.tasks import Task, sampling_weights


def closeness(task: Task, shots: Shots) -> tuple[float, float]:
    """The distance of weighted examples from the task's pool, and their parity violation.

    The rows have their sampling weights, if the task has any; examples without weights count
    equally. The distance is the exact Wasserstein distance in the cost of FWC: L1 over z-scored
    numbers, plus 1 for each category that differs, for a different level and outcome. The violation
    is the largest |p(y|d) / p(y) − 1| over the levels d with weight.
    """
    pool = task.pool()
    rows = labelled_pool(task, pool, sampling_weights(task, pool))
    index = pd.Index([example.row for example in shots.examples], dtype=object)
    positions = pool.index.get_indexer(index)
    weights = np.array([example.weight or 1.0 for example in shots.examples])
    costs = cost_matrix(rows, rows.take(positions), "l1")
    codes = rows.codes[positions]
    target = np.bincount(rows.codes[:, -1], rows.mass)
    carried = np.zeros((len(rows.levels), len(rows.outcomes)))
    np.add.at(carried, (codes[:, -2], codes[:, -1]), weights)
    found = wasserstein(costs, weights, rows.masses)
    return found.objective, violation(carried, target / target.sum())
