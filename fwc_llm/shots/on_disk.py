"""Examples from a table that is too large for memory, with the certificate of the whole table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.disk_table import LABEL, LEVEL
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import DEFAULT_M, Shots
from fwc_llm.shots.examples import RULES, make_examples
from fwc_llm.shots.select import order_shots
from fwc_llm.shots.strategies.coresets import certified

if TYPE_CHECKING:
    from fwc_llm.tasks import Task


def disk_shots(
    task: "Task",
    m: int = DEFAULT_M,
    epsilon: float | None = 0.01,
    seed: int = 0,
    order: str = "given",
    say: Callable[[str], None] = lambda words: None,
    **options: Any,
) -> Shots:
    """The examples that the strategy `fwc`, with its `options`, chooses from a task's table on disk.

    Raises:
        FwcError: an unknown option, a table of slots, or a table that `FairCoreset.fit` refuses.
    """
    from fwc_llm.coreset import FairCoreset

    settings: dict[str, Any] = {"slots": "balanced-positive", "max_iter": 300} | options
    if unknown := sorted(set(settings) - {"slots", "max_iter", "n_init"}):
        raise FwcError(f"the strategy has no option {unknown[0]!r}: it takes slots, n_init, max_iter")
    if settings["slots"] not in RULES:
        raise FwcError(f"slots={settings['slots']!r}: for a table on disk, name one of {', '.join(RULES)}")
    whole = task.whole
    assert whole is not None
    columns = [column.name for column in task.features]
    extra = [task.weight] if task.weight and task.weight not in columns else []
    weight = whole.names[task.weight] if task.weight else None
    estimator = FairCoreset(m, epsilon=epsilon, support="rows", random_state=seed, **settings).fit(
        whole.dataset([*columns, *extra]), LABEL, LEVEL, sample_weight=weight, progress=say
    )
    weights, positions = np.asarray(estimator.weights_), np.asarray(estimator.row_index_)
    heaviest = np.argsort(-weights, kind="stable")
    rows = whole.take(positions[heaviest])
    recorded = {"m": m, "epsilon": epsilon, "slots": settings["slots"]}
    if task.weight:
        recorded["sample_weight"] = task.weight
    say("a checksum of the table")
    examples = make_examples(task, rows, weights[heaviest])
    shots = Shots(
        "fwc", task.name, task.fingerprint, seed, examples, options=recorded, protected=task.protected
    )
    return order_shots(certified(shots, estimator, task.sensitive(rows), task.labels(rows)), order, seed)
