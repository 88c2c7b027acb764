"""Sensitivity sampling: k-median coresets (Bachem et al. 2018), individually fair ones (Chhaya et al. 2022).

A row's sensitivity bounds its influence on the cost of any clustering. Rows are drawn in proportion to it and
weighted by the inverse of their probability, so that every weighted sum is unbiased.
"""

from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, LabelledTable, as_rows, candidate_rows, check_size
from fwc_llm.coreset.rivals.lloyd import lloyd, nearest_centre

# The approximation parameter of the individually fair bound (docs/baselines.md, "Sensitivity sampling").
_FAIRNESS_SLACK = 0.1


def kmedian_coreset(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    k: int = 50,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m draws with replacement in proportion to the k-median sensitivity; E[Σ weights] = n."""
    return _sampled(X, y, sensitive, m, seed, k, candidates, sample_weight, individually_fair=False)


def indfair_coreset(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    k: int = 50,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m draws with replacement in proportion to the individually fair sensitivity; E[Σ weights] = n."""
    return _sampled(X, y, sensitive, m, seed, k, candidates, sample_weight, individually_fair=True)


def _sampled(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int,
    k: int,
    candidates: Any,
    sample_weight: Any,
    individually_fair: bool,
) -> Coreset:
    rows = as_rows(X, y, sensitive, sample_weight)
    allowed = candidate_rows(candidates, rows)
    check_size(m, len(allowed))
    rng = np.random.default_rng(seed)
    probability = sampling_probability(rows, rng, k, individually_fair, allowed)
    chosen = rng.choice(rows.n, m, p=probability)
    # Weights sum to n, the size of the whole table, in expectation, even if only candidates are drawn.
    if rows.mass is None:
        return rows.chosen(chosen, rows.n / len(allowed) / (m * probability[chosen]))
    own = rows.mass[chosen] / rows.mass[allowed].sum()
    return rows.chosen(chosen, rows.n * own / (m * probability[chosen]))


def sampling_probability(
    rows: LabelledTable, rng: np.random.Generator, k: int, individually_fair: bool, allowed: np.ndarray
) -> np.ndarray:
    """(n,) probability of each row in one draw; rows outside `allowed` (positions) have 0."""
    scores = np.zeros(rows.n)
    scores[allowed] = sensitivity(rows, rng, k, individually_fair)[allowed]
    if rows.mass is not None:
        scores *= rows.mass
    return np.asarray(scores / scores.sum())


def sensitivity(rows: LabelledTable, rng: np.random.Generator, k: int, individually_fair: bool) -> np.ndarray:
    """(n,) upper bounds on the sensitivities, from k rough centres (one iteration of k-means).

    `s_i = α d_i / c̄ + α c̄_b(i) / c̄ + 4 n / |b(i)|` with d_i the Euclidean distance to the nearest centre,
    b(i) its cluster, c̄ and c̄_b the mean of d over all rows and over the cluster, α = 16 (ln k + 2); the
    individually fair bound adds `16 k ln n / (0.1 n)`. Means and sizes are weighted; the mean weight is 1.
    """
    n = rows.n
    k = min(k, n if rows.mass is None else int(np.count_nonzero(rows.mass)))
    points = rows.dense(np.sqrt(0.5))
    clusters = lloyd(points, k, rng, max_iter=1, mass=rows.mass)
    labels, squared = nearest_centre(points, clusters.centres)
    distance = np.sqrt(squared.astype(float))
    if rows.mass is None:
        mean = distance.mean()
        size = np.bincount(labels, minlength=k)
        cluster_mean = np.bincount(labels, weights=distance, minlength=k) / np.maximum(size, 1)
    else:
        mass = rows.mass * (n / rows.total)
        mean = mass @ distance / n
        size = np.bincount(labels, mass, k)
        cluster_mean = np.bincount(labels, mass * distance, k) / np.where(size > 0, size, 1.0)
        size = np.where(size > 0, size, np.inf)  # rows without weight alone
    alpha = 16.0 * (np.log(k) + 2.0)
    spread = (distance + cluster_mean[labels]) / mean if mean > 0 else np.zeros(n)
    scores = alpha * spread + 4.0 * n / size[labels]
    if individually_fair:
        scores = scores + 16.0 * k * np.log(n) / (_FAIRNESS_SLACK * n)
    return np.asarray(scores)
