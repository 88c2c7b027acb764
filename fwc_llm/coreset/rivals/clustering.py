"""k-means, by scikit-learn (Lloyd 1982; Arthur, Vassilvitskii 2007), and k-medoids, by
`fwc_llm.coreset.fasterpam` with one cell and no prices (Schubert, Rousseeuw 2021).
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.coreset.fasterpam import Exchanged, Patience, Points, Space, exchange
from fwc_llm.coreset.problem.ground_cost import FeatureCost
from fwc_llm.coreset.rivals.base import DISTANCES, Coreset, LabelledTable, prepare, sizes
from fwc_llm.coreset.threads import Threads
from fwc_llm.errors import InputError

_MOST_CANDIDATES = 100_000


def kmeans(
    X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, max_iter: int = 300, sample_weight: Any = None
) -> Coreset:
    """m free centres of the points (x, d, y) in squared L2, weighted by the rows they represent.

    A centre's protected level, outcome and categorical features are the most frequent ones of its cluster.
    """
    rows, _, _ = prepare(X, y, sensitive, m, seed, sample_weight=sample_weight)
    clusters = lloyd(rows.squared_points(), m, seed, max_iter, rows.mass)
    return rounded_coreset(rows, clusters.cluster_centers_, sizes(clusters.labels_, m, rows))


def lloyd(points: np.ndarray, k: int, seed: int, max_iter: int = 300, mass: np.ndarray | None = None) -> Any:
    """Return scikit-learn's fitted `KMeans` of `points` (n, q), of this `mass` (n,); None stands for 1 each.

    It runs in one thread: sums of several threads depend on which is first.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres
        return KMeans(k, n_init=1, max_iter=max_iter, random_state=seed).fit(points, sample_weight=mass)


def rounded_coreset(rows: LabelledTable, centres: np.ndarray, weights: np.ndarray) -> Coreset:
    """The `centres` (m, q) of `rows` as a coreset: their one-hot parts become their largest entry."""
    k = rows.n_numeric
    parts = np.split(centres[:, k:], np.cumsum(rows.sizes)[:-1], axis=1)
    codes = [part.argmax(axis=1) for part in parts]
    points: Any = np.column_stack([centres[:, :k].astype(float), *codes[:-2]])
    if rows.encoder.dtype is None:
        points = rows.encoder.decode(points)
    return Coreset(points, None, rows.levels[codes[-2]], rows.outcomes[codes[-1]], weights.astype(float))


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
    """m rows with the least summed distance to all rows, in L1 or (not squared) L2; weight = cluster size.

    A local optimum with respect to swaps of one medoid for one candidate. `max_passes` bounds the rounds over
    all candidates; of more than 100,000 candidates a seeded sample of that size is tried, with a note.
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
    rows: LabelledTable, m: int, rng: np.random.Generator, metric: str, max_passes: int, allowed: np.ndarray
) -> Exchanged:
    """FasterPAM from random medoids among `allowed` (positions); every swap lowers the loss.

    The `rows` (m,) of the result are the medoids.
    """
    if metric not in DISTANCES:
        raise InputError(f"metric is {metric!r}: choose one of {', '.join(DISTANCES)}")
    values = np.column_stack([rows.numbers, rows.codes]).astype(np.float32)
    mass = None if rows.mass is None else rows.mass.astype(np.float32)
    single = np.zeros(rows.n, int), np.zeros((1, 1)), np.zeros(1)
    space = Space(values, FeatureCost.of(rows, metric), *single, mass, root=metric == "l2")
    order = rng.permutation(allowed)
    points = Points(values[order[:m]], np.zeros(m, int), order[:m])
    cells, patience = np.zeros(len(order), int), Patience(passes=max_passes)
    exchanged = exchange(space, points, order, cells, order, patience, Threads())
    return replace(exchanged, rows=np.where(exchanged.rows < 0, order[:m], exchanged.rows))
