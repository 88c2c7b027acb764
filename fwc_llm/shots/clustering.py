"""Representatives of clusters: k-means, k-medoids, fairlets."""

import numpy as np

from fwc_llm.coreset.rivals.base import sizes
from fwc_llm.coreset.rivals.clustering import lloyd, rounded_coreset
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import labelled_pool, make_shots, rival_coreset
from fwc_llm.shots.registry import strategy


@strategy(max_iter=300)
def kmeans(request: Request, max_iter: int) -> Shots:
    """The nearest row to each of m k-means centres within its cell, weighted by the cluster's size.

    Lloyd (1982) on the points (features, protected level, outcome), from a k-means++ start. A centre has the
    most frequent protected level and outcome of its cluster. Rows are assigned in order of the centres'
    weight, none twice. If a centre's cell has no row left, it gets the nearest row of any cell.

    Option: `max_iter` iterations at most.
    """
    rows = labelled_pool(request.task, request.pool, request.weights)
    points = rows.squared_points()
    clusters = lloyd(points, request.m, request.seed, max_iter, rows.mass)
    weights = sizes(clusters.labels_, request.m, rows)
    centres = rounded_coreset(rows, clusters.cluster_centers_, weights)
    half_norms = 0.5 * np.einsum("ij,ij->i", points, points)
    free, sensitive, y = request.candidates.copy(), rows.sensitive, rows.y
    chosen = np.empty(request.m, np.int64)
    for j in np.argsort(-weights, kind="stable"):
        own = np.flatnonzero(free & (sensitive == centres.sensitive[j]) & (y == centres.y[j]))
        allowed = own if len(own) else np.flatnonzero(free)
        away = half_norms[allowed] - (points @ clusters.cluster_centers_[j])[allowed]
        chosen[j] = allowed[np.argmin(away)]
        free[chosen[j]] = False
    return make_shots(request, "kmeans", chosen, weights)


@strategy(metric="l1", max_passes=20)
def kmedoids(request: Request, metric: str, max_passes: int) -> Shots:
    """m medoids among the candidates, weighted by the size of their clusters.

    FasterPAM (Schubert, Rousseeuw 2021) on the points (features, protected level, outcome), without a matrix
    of distances.

    Options: `metric`, "l1" or "l2"; `max_passes` rounds over all candidates at most.
    """
    medoids = rival_coreset(request, "kmedoids", metric=metric, max_passes=max_passes)
    return make_shots(request, "kmedoids", medoids.rows, medoids.weights, medoids.note, metric=metric)


@strategy(balance=None)
def fairlets(request: Request, balance: "tuple[int, int] | str | None") -> Shots:
    """m medoids of the fairlets' centres, weighted by the rows they represent; for two protected levels.

    Backurs et al., *Scalable Fair Clustering* (ICML 2019). A quadtree groups the rows into fairlets. In each,
    the rarer level is at least p/q times as frequent as the other. k-medoids clusters the fairlets' centres
    (members with the least summed distance), here without a distance matrix.

    Option: `balance`, (p, q) or "p/q"; by default the largest with q ≤ 5 that the table allows.

    Errors: `FwcError` unless there are two levels, and for a balance that the table does not have.
    """
    if request.weights is not None:
        raise FwcError("fairlets groups rows by their number and knows no weights: choose another strategy")
    medoids = rival_coreset(request, "fairlets", balance=balance)
    return make_shots(request, "fairlets", medoids.rows, medoids.weights, medoids.note, balance=balance)
