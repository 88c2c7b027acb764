"""The paper's synthetic table (its appendix "Runtime Analysis on Synthetic Dataset"), for
benchmarks.
"""

from typing import NamedTuple

import numpy as np


class Synthetic(NamedTuple):
    """`features` (n, p) float32, `outcome` (n,) 0/1, `sensitive` (n,) 0/1."""

    features: np.ndarray
    outcome: np.ndarray
    sensitive: np.ndarray


def synthetic(
    n: int, p: int = 25, seed: int = 0, levels: int = 2, outcomes: int = 2
) -> Synthetic:
    """n rows of the paper's set. We add what it does not say: P(D = 1) = 0.5, columns 3 to p are
    N(0, 1).

    X1 is uniform on [0, 10] for D = 0 and 0 for D = 1; X2 is N(0, 25); Y = 1 where
    X1 + X2 > mean(X1 + X2) + N(0, 1). More `levels` (X1 is 0 for all but the first) and `outcomes`
    (equal parts by the same noisy score) serve to measure growth in the number of cells.
    """
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, p), dtype=np.float32)
    sensitive = rng.integers(0, levels, n)
    features[:, 0] = np.where(sensitive == 0, rng.uniform(0, 10, n), 0.0)
    score = features[:, 0].astype(np.float64)
    if p > 1:
        features[:, 1] *= 5
        score += features[:, 1]
    noisy = score - score.mean() - rng.standard_normal(n)
    if outcomes == 2:
        outcome = (noisy > 0).astype(np.int64)
    else:
        outcome = np.searchsorted(
            np.quantile(noisy, np.arange(1, outcomes) / outcomes), noisy
        )
    return Synthetic(features, outcome, sensitive)
