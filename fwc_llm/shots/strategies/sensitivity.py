"""What the two sensitivity samplers share: draw until m different rows are found."""

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import labelled_pool, make_weighted

_DRAWS = 10_000  # times m: far beyond what any table of distinct rows needs


def draw(request: Request, strategy: str, k: int, individually_fair: bool) -> Shots:
    """m different candidates by sensitivity sampling, weights proportional to count / probability."""
    from fwc_llm.coreset.rivals.sampling import sampling_probability

    if k < 1:
        raise FwcError(f"k is {k}: at least 1 centre is needed")
    rows = labelled_pool(request.task, request.pool, request.weights)
    rng = np.random.default_rng(request.seed)
    probability = sampling_probability(
        rows, request.seed, k, individually_fair, np.flatnonzero(request.candidates)
    )
    cumulative = np.cumsum(probability)
    counts: dict[int, int] = {}
    for _ in range(_DRAWS * request.m):
        row = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        counts[row] = counts.get(row, 0) + 1
        if len(counts) == request.m:
            break
    else:
        raise FwcError(f"{strategy} did not find {request.m} different rows: lower m")
    chosen = np.array(list(counts))
    weights = np.array(list(counts.values())) / probability[chosen]
    if rows.mass is not None:
        weights *= rows.mass[chosen]
    return make_weighted(request, strategy, chosen, weights, k=k)
