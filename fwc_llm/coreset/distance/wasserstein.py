"""The exact Wasserstein distance between n rows of equal mass and a weighted coreset of m points.

Unlike in the inner problem of FWC, the weights are given. With few points the problem is a flow between m
sinks, which needs no optimal-transport library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.errors import InputError

_GROWTH = 4  # factor from one sample size to the next
_BLOCK = 4096  # rows per step in the sum of the bound


@dataclass(frozen=True)
class Distance:
    """`value`, the cost of the best plan, and `lower_bound`, the dual bound: equal up to rounding."""

    value: float
    lower_bound: float


def wasserstein(cost: Any, weights: Any) -> Distance:
    """min Σ_ij c_ij q_ij  subject to  Σ_j q_ij = 1/n,  Σ_i q_ij = w_j / Σw,  q ≥ 0.

    `cost` (n, m) finite, `weights` (m,) not negative, not all 0; points of weight 0 are left out. Successive
    shortest paths (Ahuja, Magnanti, Orlin, *Network Flows*, chapter 9): every row starts at its nearest
    point, at prices from a sample of the rows, so that few rows start at a wrong point. Points with a surplus
    then pass rows on along the cheapest paths. Memory: 1.25 times the cost matrix, plus a few times n + m².

    Errors: `InputError` for wrong shapes, a cost that is not finite or too large, invalid weights.
    """
    from fwc_llm.coreset.distance.shortest_paths import balance

    matrix, weight = np.asarray(cost, np.float64), np.asarray(weights, np.float64)
    if matrix.ndim != 2 or weight.shape != matrix.shape[1:] or not len(matrix):
        raise InputError(f"cost is {matrix.shape} and weights {weight.shape}: give (n, m) and (m,)")
    if not np.isfinite(matrix).all():
        raise InputError("cost must be finite")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and (weight > 0).any()):
        raise InputError("weights must be finite, not negative and not all 0")
    matrix = np.ascontiguousarray(np.compress(weight > 0, matrix, axis=1) if (weight == 0).any() else matrix)
    weight = weight[weight > 0] / weight.max()
    share = weight / weight.sum()
    prices = np.zeros(len(share))
    order = np.random.default_rng(0).permutation(len(matrix))
    for size in _sizes(len(matrix), len(share)):
        rows = matrix[order[:size]] if size < len(matrix) else matrix
        total = balance(rows, *capacities(share, size), prices)
    if not np.isfinite(total):
        raise InputError(
            f"no plan was found: the costs, up to {np.abs(matrix).max()}, are too large to be added"
        )
    bound = sum(
        float((matrix[i : i + _BLOCK] - prices).min(axis=1).sum()) for i in range(0, len(matrix), _BLOCK)
    )
    return Distance(total / len(matrix), bound / len(matrix) + float(share @ prices))


def _sizes(n: int, m: int) -> list[int]:
    """Sizes of the initial samples, each a quarter of the next; the smallest has about m rows."""
    sizes = [n]
    while sizes[0] // _GROWTH >= m:
        sizes.insert(0, sizes[0] // _GROWTH)
    return sizes


def capacities(share: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """The capacity of each point for n rows, (m,) int64 in units, and the number of units of a row."""
    unit = 1 << (62 - n.bit_length())
    capacity = np.floor(share * (float(n) * unit)).astype(np.int64)
    capacity[np.argmax(capacity)] += n * unit - int(capacity.sum())  # the rounding error
    return capacity, unit
