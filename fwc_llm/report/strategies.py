"""How close examples are to their table, and how far from parity."""

from fwc_llm.coreset.certificate import certify
from fwc_llm.shots.base import Shots
from fwc_llm.shots.examples import features_frame
from fwc_llm.tasks import Task, sampling_weights


def closeness(task: Task, shots: Shots) -> tuple[float, float]:
    """The distance of weighted examples from the task's pool, and their parity violation.

    The rows have their sampling weights, if the task has any; examples without weights count
    equally. The distance is the exact Wasserstein distance in the cost of FWC: L1 over z-scored
    numbers, plus 1 for each category that differs, for a different level and outcome. The violation
    is the largest |p(y|d) / p(y) − 1| over the levels d with weight.
    """
    pool = task.pool()
    chosen = pool.loc[[example.row for example in shots.examples]]
    rows, points = (
        (features_frame(task, frame), task.labels(frame), task.sensitive(frame))
        for frame in (pool, chosen)
    )
    found = certify(
        *rows,
        *points,
        [example.weight or 1.0 for example in shots.examples],
        epsilon=None,
        scale=True,
        sample_weight=sampling_weights(task, pool),
    )
    return found.objective, found.violation
