"""The exact Wasserstein distance between n equally heavy rows and a weighted coreset of m points.

Unlike the inner problem of FWC, the weights here are given, as those of a rival are. With few points the
problem is a flow between m sinks, which needs no optimal-transport library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError


@dataclass(frozen=True)
class Distance:
    """`value`, the cost of the best plan, and `lower_bound`, the dual bound: equal but for rounding."""

    value: float
    lower_bound: float


def wasserstein(cost: Any, weights: Any) -> Distance:
    """min Σ_ij c_ij q_ij  subject to  Σ_j q_ij = 1/n,  Σ_i q_ij = w_j / Σw,  q ≥ 0.

    `cost` (n, m) finite, `weights` (m,) not negative, not all 0; points of weight 0 are left out. Successive
    shortest paths: every row starts at its nearest point, then the points that carry too much pass rows on,
    always along the cheapest path (Ahuja, Magnanti, Orlin, *Network Flows*, chapter 9). Memory: the cost
    matrix and a few times n + m².

    Errors: `FwcError` for wrong shapes, a cost that is not finite, weights that are none.
    """
    from fwc_llm.coreset.flow_kernels import balance

    matrix, weight = np.asarray(cost, np.float64), np.asarray(weights, np.float64)
    if matrix.ndim != 2 or weight.shape != matrix.shape[1:] or not len(matrix):
        raise FwcError(f"cost is {matrix.shape} and weights {weight.shape}: give (n, m) and (m,)")
    if not np.isfinite(matrix).all():
        raise FwcError("cost must be finite")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
        raise FwcError("weights must be finite, not negative and not all 0")
    if (weight == 0).any():
        matrix, weight = matrix[:, weight > 0], weight[weight > 0]
    n = len(matrix)
    capacity = weight * (n / weight.sum())
    total, price = balance(np.ascontiguousarray(matrix), capacity)
    bound = float((matrix - price).min(axis=1).sum() + capacity @ price)
    return Distance(total / n, bound / n)
