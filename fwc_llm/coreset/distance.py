"""The exact Wasserstein distance between n rows and m weighted points.

The distance is the optimum of FWC's inner problem with one protected level, every point as an
outcome, the points' weights as the target, and ε = 0.
"""

from typing import Any

import numpy as np

from fwc_llm.coreset.transport.inner_problem import Transport, fair_transport
from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError

_DUST = (
    1e-14  # share of all weight: a smaller weight is lost in the rounding of the sum
)


def wasserstein(cost: Any, weights: Any, sample_weight: Any = None) -> Transport:
    """Solve  min Σ_ij c_ij q_ij  subject to  Σ_j q_ij = 1/n,  Σ_i q_ij = w_j / Σw,  q ≥ 0.

    `cost` (n, m) is finite; `weights` (m,) are not negative and not all 0. Points of weight 0 are
    left out. With `sample_weight` s (n,) row i has the mass s_i / Σs instead of 1/n. The plan's
    `objective` and `lower_bound` are equal up to rounding.

    Raises `InputError`: a cost that is not finite, or invalid weights.
    """
    matrix = np.asarray(cost, np.float64)
    if not np.isfinite(matrix).all():
        raise InputError("cost must be finite")
    share = read_weights(weights, matrix.shape[1], "weights", "point").values
    positive = share > _DUST * share.sum()
    if not positive.all():
        matrix = matrix[:, positive]
        share = share[positive]
    share = share / share.sum()
    return fair_transport(
        matrix, 1, len(share), share, 0.0, sample_weight=sample_weight
    )
