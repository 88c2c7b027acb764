"""k-means and k-medoids.

k-means is scikit-learn's (Lloyd 1982; Arthur, Vassilvitskii 2007). k-medoids is
`fwc_llm.coreset.fasterpam` with one cell and prices of 0 (Schubert, Rousseeuw 2021).
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array, Rng
from fwc_llm.coreset.fasterpam import Exchanged, Points, Space, exchange
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.rivals.base import (
    DISTANCES,
    Coreset,
    LabelledTable,
    prepare,
    sizes,
)
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

_MOST_CANDIDATES = 100_000


def kmeans(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    max_iter: int = 300,
    sample_weight: Any = None,
) -> Coreset:
    """m k-means centres of the points (x, d, y), weighted by their clusters' rows.

    Distances are squared L2. A centre's protected level, outcome and categorical features are the
    most frequent ones of its cluster.
    """
    rows, _, _ = prepare(X, y, sensitive, m, seed, sample_weight=sample_weight)
    clusters = lloyd(rows.squared_points(), m, seed, max_iter, rows.mass)
    return rounded_coreset(
        rows, clusters.cluster_centers_, sizes(clusters.labels_, m, rows)
    )


def lloyd(
    points: Array, k: int, seed: int, max_iter: int = 300, mass: Array | None = None
) -> Any:
    """Fit scikit-learn's `KMeans` to `points` (n, q) with row weights `mass` (n,), None: 1 per row.

    One thread, because sums over several threads depend on their order.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct rows than centres
        return KMeans(k, n_init=1, max_iter=max_iter, random_state=seed).fit(
            points, sample_weight=mass
        )


def rounded_coreset(rows: LabelledTable, centres: Array, weights: Array) -> Coreset:
    """Make a coreset of centres (m, q): every one-hot part becomes the code of its largest
    entry.
    """
    k = rows.n_numeric
    parts = np.split(centres[:, k:], np.cumsum(rows.sizes)[:-1], axis=1)
    codes = [part.argmax(axis=1) for part in parts]
    points: Any = np.column_stack([centres[:, :k].astype(float), *codes[:-2]])
    if rows.encoder.dtype is None:
        points = rows.encoder.decode(points)
    return Coreset(
        points,
        None,
        rows.levels[codes[-2]],
        rows.outcomes[codes[-1]],
        weights.astype(float),
    )


def kmedoids(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    metric: str = "l1",
    max_passes: int = 20,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m rows with the least summed distance to all rows, weighted by cluster size.

    Distances are L1 or (not squared) L2. The search ends in a local optimum, where no swap of one
    medoid for one candidate lowers the sum, or after `max_passes` passes over all candidates. Of
    more than 100,000 candidates a seeded sample of 100,000 (or m) is tried, and the coreset's note
    says so.
    """
    rows, allowed, rng = prepare(X, y, sensitive, m, seed, candidates, sample_weight)
    note = ""
    if len(allowed) > _MOST_CANDIDATES:
        note = f"medoids among a sample of {_MOST_CANDIDATES} of {len(allowed)} rows"
        allowed = np.sort(rng.choice(allowed, max(_MOST_CANDIDATES, m), replace=False))
    clusters = swap_medoids(rows, m, rng, metric, max_passes, allowed)
    if not clusters.converged:
        note = "; ".join(filter(None, (note, f"stopped after {max_passes} passes")))
    return rows.chosen(clusters.rows, sizes(clusters.labels, m, rows), note)


def swap_medoids(
    rows: LabelledTable, m: int, rng: Rng, metric: str, max_passes: int, allowed: Array
) -> Exchanged:
    """Run FasterPAM from random medoids among `allowed` (positions); `rows` (m,) are the last
    medoids.
    """
    if metric not in DISTANCES:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(DISTANCES)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = rows.mass.astype(np.float32)
    single = np.zeros(rows.n, int), np.zeros((1, 1)), np.zeros(1)
    space = Space(
        values, FeatureCost.of(rows, metric), *single, mass, root=metric == "l2"
    )
    order = rng.permutation(allowed)
    points = Points(values[order[:m]], np.zeros(m, int), order[:m])
    exchanged = exchange(
        space, points, order, np.zeros(len(order), int), order, Threads(), max_passes
    )
    return replace(
        exchanged, rows=np.where(exchanged.rows < 0, order[:m], exchanged.rows)
    )
