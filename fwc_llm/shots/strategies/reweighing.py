"""`reweighing`: rows drawn by Kamiran–Calders weights."""

import numpy as np

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_shots
from fwc_llm.shots.registry import strategy


@strategy()
def reweighing(request: Request) -> Shots:
    """m rows drawn without replacement, each in proportion to its reweighing weight; unweighted.

    Kamiran, Calders, *Data preprocessing techniques for classification without discrimination* (2012): under
    these weights every protected level has the table's rate of yes.
    """
    from fwc_llm.coreset.rivals import reweigh
    from fwc_llm.coreset.weights import random_order

    task, pool = request.task, request.pool
    allowed = np.flatnonzero(request.candidates)
    weights = reweigh(task.labels(pool), task.sensitive(pool), request.weights)[allowed]
    rng = np.random.default_rng(request.seed)
    if request.weights is None:
        chosen = rng.choice(allowed, request.m, replace=False, p=weights / weights.sum())
    else:
        chosen = allowed[random_order(weights, rng)[: request.m]]
    return make_shots(request, "reweighing", chosen)
