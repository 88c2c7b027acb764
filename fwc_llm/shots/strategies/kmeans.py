"""`kmeans`: real rows nearest to the centres of k-means."""

import numpy as np

from fwc_llm.shots.base import Request, Shots
from fwc_llm.shots.examples import labelled_pool, make_weighted
from fwc_llm.shots.registry import strategy


@strategy(max_iter=300)
def kmeans(request: Request, max_iter: int) -> Shots:
    """The nearest row to each of m k-means centres within its cell, weighted by the cluster's size.

    Lloyd (1982) on the points (features, protected level, outcome), from a k-means++ start. A centre has the
    most frequent protected level and outcome of its cluster. Rows are assigned in order of the centres'
    weight, none twice. If a centre's cell has no row left, it gets the nearest row of any cell.

    Option: `max_iter` iterations at most.
    """
    from fwc_llm.coreset.rivals.base import sizes
    from fwc_llm.coreset.rivals.clustering import lloyd, rounded_coreset

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
    return make_weighted(request, "kmeans", chosen, weights)
