"""Rivals that draw rows: by reweighing or by sensitivity."""

from typing import Any

import numpy as np

from fwc_llm.coreset.array_types import Array
from fwc_llm.coreset.rivals.base import Coreset, LabelledTable, prepare
from fwc_llm.coreset.rivals.clustering import lloyd
from fwc_llm.coreset.weights import random_order

# The approximation parameter of the individually fair bound (docs/baselines.md).
_FAIRNESS_SLACK = 0.1


def reweighing(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m rows drawn without replacement by their Kamiran–Calders weights.

    Each row gets the weight n/m. In expectation the draw has about the same parity as the reweighed
    table.
    """
    rows, allowed, rng = prepare(X, y, sensitive, m, seed, candidates, sample_weight)
    weights = reweigh(rows.y, rows.sensitive, rows.mass)[allowed]
    if rows.masses.equal:
        chosen = rng.choice(allowed, m, replace=False, p=weights / weights.sum())
    else:
        chosen = allowed[random_order(weights, rng)[:m]]
    return rows.chosen(chosen, np.full(m, rows.n / m))


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


def kmedian_coreset(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    k: int = 50,
    candidates: Any = None,
    sample_weight: Any = None,
    individually_fair: bool = False,
) -> Coreset:
    """m draws with replacement in proportion to the k-median sensitivity.

    In expectation the weights sum to n. Bachem, Lucic, Lattanzi (2018). A row's sensitivity bounds
    its influence on the cost of any clustering. Weights are in proportion to the inverse
    probability, so that every weighted sum is unbiased.
    """
    rows, allowed, rng = prepare(X, y, sensitive, m, seed, candidates, sample_weight)
    probability = sampling_probability(rows, seed, k, individually_fair, allowed)
    chosen = rng.choice(rows.n, m, p=probability)
    # In expectation the weights sum to n, the size of the whole table, even if only candidates are
    # drawn.
    share = rows.mass[chosen] / rows.mass[allowed].sum()
    return rows.chosen(chosen, rows.n * share / (m * probability[chosen]))


def indfair_coreset(
    X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, **options: Any
) -> Coreset:
    """`kmedian_coreset` with the individually fair sensitivity (Chhaya et al. 2022) and its
    `options`.
    """
    return kmedian_coreset(X, y, sensitive, m, seed, **options, individually_fair=True)


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
