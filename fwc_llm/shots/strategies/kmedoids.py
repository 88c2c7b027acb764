"""`kmedoids`: the rows with the least summed distance to all rows."""

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import make_weighted, rival_coreset
from fwc_llm.shots.registry import strategy


@strategy(metric="l1", max_passes=20)
def kmedoids(request: Request, metric: str, max_passes: int) -> Shots:
    """m medoids among the candidates, weighted by the size of their clusters.

    FasterPAM (Schubert, Rousseeuw 2021) on the points (features, protected level, outcome), without a matrix
    of distances.

    Options: `metric`, "l1" or "l2"; `max_passes` rounds over all candidates at most.
    """
    found = rival_coreset(request, "kmedoids", metric=metric, max_passes=max_passes)
    return make_weighted(request, "kmedoids", found.rows, found.weights, found.note, metric=metric)
