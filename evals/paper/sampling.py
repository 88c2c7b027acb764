"""Weights by reweighing, and probabilities by sensitivity."""

from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.rivals.base import LabelledTable
from fwc_llm.coreset.rivals.clustering import lloyd

# The approximation parameter of the individually fair bound (docs/baselines.md).
_FAIRNESS_SLACK = 0.1


def reweigh(y: Any, sensitive: Any, weights: Any = None) -> Array:
    """Return weights (n,) `w'_i = w_i · W_d · W_y / (W · W_dy)`.

    There may be any number of levels and outcomes. Kamiran, Calders (2012). W, W_d, W_y and W_dy
    are the sums of `weights` w (default: 1 per row) over all rows, the level, the outcome and the
    cell of row i. Rows of a cell without weight keep the weight 0. If every cell has weight, p(y|d)
    = p(y) under w' for every d, and W, W_d and W_y do not change.
    """
    outcomes, outcome = np.unique(np.asarray(y), return_inverse=True)
    _, level = np.unique(np.asarray(sensitive), return_inverse=True)
    if weights is None:
        weight = np.ones(len(outcome))
    else:
        weight = np.asarray(weights, float)
    cell = level * len(outcomes) + outcome
    by_level, by_outcome, by_cell = (
        np.bincount(code, weights=weight) for code in (level, outcome, cell)
    )
    cell_weight = np.where(by_cell > 0, by_cell, 1.0)[cell]
    return np.asarray(
        weight * by_level[level] * by_outcome[outcome] / (weight.sum() * cell_weight)
    )


def sampling_probability(
    rows: LabelledTable, seed: int, k: int, individually_fair: bool, allowed: Array
) -> Array:
    """Return (n,) the probability of each row in one draw, 0 for rows outside `allowed`
    (positions).
    """
    scores = np.zeros(rows.n)
    scores[allowed] = sensitivity(rows, seed, k, individually_fair)[allowed]
    scores *= rows.mass
    return np.asarray(scores / scores.sum())


def sensitivity(
    rows: LabelledTable, seed: int, k: int, individually_fair: bool
) -> Array:
    """Return upper bounds (n,) on the sensitivities, from k rough centres.

    One iteration of k-means finds the centres. `s_i = α d_i / c̄ + α c̄_b(i) / c̄ + 4 n / |b(i)|`
    with d_i the Euclidean distance to the nearest centre, b(i) its cluster, c̄ and c̄_b the mean of
    d over all rows and over the cluster, α = 16 (ln k + 2); the individually fair bound adds `16 k
    ln n / (0.1 n)`. Means and sizes are weighted; the mean weight is 1.
    """
    from sklearn.metrics import pairwise_distances_argmin_min

    n = rows.n
    mass = rows.mass * (n / rows.masses.total)
    k = min(k, int(np.count_nonzero(mass)))
    points = rows.squared_points()
    centres = lloyd(points, k, seed, 1, rows.mass).cluster_centers_
    labels, distance = pairwise_distances_argmin_min(points, centres)
    distance = distance.astype(float)
    mean = mass @ distance / n
    size = np.bincount(labels, mass, k)
    size = np.where(size > 0, size, np.inf)  # a cluster without weight
    cluster_mean = np.bincount(labels, mass * distance, k) / size
    alpha = 16.0 * (np.log(k) + 2.0)
    if mean > 0:
        spread = (distance + cluster_mean[labels]) / mean
    else:
        spread = np.zeros(n)
    scores = alpha * spread + 4.0 * n / size[labels]
    if individually_fair:
        scores = scores + 16.0 * k * np.log(n) / (_FAIRNESS_SLACK * n)
    return np.asarray(scores)
