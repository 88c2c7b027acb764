"""k-means (Lloyd 1982) from a greedy k-means++ start (Arthur, Vassilvitskii 2007), by scikit-learn."""

import warnings
from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, LabelledTable, prepare, sizes


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
