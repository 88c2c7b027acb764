"""The exact Wasserstein distance between n rows, weighted or not, and a weighted coreset of m points.

Unlike in the inner problem of FWC, the weights are given. With few points the problem is a flow between m
sinks, which needs no optimal-transport library.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwc_llm.coreset.weights import read_weights
from fwc_llm.errors import InputError

_GROWTH = 4  # factor from one sample size to the next
_BLOCK = 4096  # rows per step in the sum of the bound


@dataclass(frozen=True)
class Distance:
    """`value`, the cost of the best plan, and `lower_bound`, the dual bound: equal up to rounding."""

    value: float
    lower_bound: float


def wasserstein(cost: Any, weights: Any, sample_weight: Any = None) -> Distance:
    """min Σ_ij c_ij q_ij  subject to  Σ_j q_ij = 1/n,  Σ_i q_ij = w_j / Σw,  q ≥ 0.

    `cost` (n, m) finite, `weights` (m,) not negative, not all 0; points of weight 0 are left out. With
    `sample_weight` (n,) row i has its share of these weights in the place of 1/n. Successive
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
    masses = read_weights(sample_weight, len(matrix))
    if masses is not None and masses.positive is not None:
        matrix, masses = matrix[masses.positive], masses.take(masses.positive)
    matrix = np.ascontiguousarray(np.compress(weight > 0, matrix, axis=1) if (weight == 0).any() else matrix)
    weight = weight[weight > 0] / weight.max()
    share = weight / weight.sum()
    prices = np.zeros(len(share))
    order = np.random.default_rng(0).permutation(len(matrix))
    for size in _sizes(len(matrix), len(share)):
        chosen = order[:size] if size < len(matrix) else None
        rows = matrix if chosen is None else matrix[chosen]
        if masses is None:
            value = balance(rows, *capacities(share, size), prices) / size
        else:
            supply = _supply(masses.values if chosen is None else masses.values[chosen])
            rows, supply = (rows, supply) if supply.all() else (rows[supply > 0], supply[supply > 0])
            units = int(supply.sum())
            value = balance(rows, _parts(share, units), supply, prices) / units
    if not np.isfinite(value):
        raise InputError(
            f"no plan was found: the costs, up to {np.abs(matrix).max()}, are too large to be added"
        )
    bound = 0.0
    for low in range(0, len(matrix), _BLOCK):
        least = (matrix[low : low + _BLOCK] - prices).min(axis=1)
        bound += float(least.sum() if masses is None else masses.values[low : low + _BLOCK] @ least)
    whole = len(matrix) if masses is None else masses.total
    return Distance(value, bound / whole + float(share @ prices))


def _sizes(n: int, m: int) -> list[int]:
    """Sizes of the initial samples, each a quarter of the next; the smallest has about m rows."""
    sizes = [n]
    while sizes[0] // _GROWTH >= m:
        sizes.insert(0, sizes[0] // _GROWTH)
    return sizes


def capacities(share: np.ndarray, n: int) -> tuple[np.ndarray, int]:
    """The capacity of each point for n rows, (m,) int64 in units, and the number of units of a row."""
    unit = 1 << (62 - n.bit_length())
    return _parts(share, n * unit), unit


def _parts(share: np.ndarray, units: int) -> np.ndarray:
    """The units that each share (m,) gets, (m,) int64, all of them together."""
    parts = np.floor(share * float(units)).astype(np.int64)
    parts[np.argmax(parts)] += units - int(parts.sum())  # the rounding error
    return parts


def _supply(mass: np.ndarray) -> np.ndarray:
    """The rows' masses (n,) as whole units, int64, fewer than 2⁶² in all."""
    return np.asarray(np.floor(mass / mass.sum() * 2.0**61), dtype=np.int64)
