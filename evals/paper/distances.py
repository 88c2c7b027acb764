"""How far a coreset is from rows: exact Wasserstein distance, clustering cost, parity."""

import numpy as np
from scipy.spatial.distance import cdist

from fwc_llm.errors import FwcError


def wasserstein(rows: np.ndarray, points: np.ndarray, weights: np.ndarray) -> float:
    """Exact W1 in L1 between `rows` (n, q), mass 1/n each, and `points` (m, q) with `weights` (m,) ∝ mass.

    Solved by POT's network simplex, whose default iteration limit stops early at Adult's size and is raised.
    Where every row's nearest point is also its share of the weights (k-medoids' clusters on their own rows),
    the mean distance to the nearest point is the optimum, as no plan can be cheaper, and nothing is solved.
    """
    import ot

    carrying = weights > 0
    cost = cdist(rows, points[carrying], "cityblock")
    mass = weights[carrying] / weights.sum()
    nearest = np.bincount(cost.argmin(axis=1), minlength=len(mass)) / len(rows)
    if np.allclose(nearest, mass, rtol=0, atol=1e-12):
        return float(cost.min(axis=1).mean())
    value, log = ot.emd2(np.full(len(rows), 1 / len(rows)), mass, cost, numItermax=10**9, log=True)
    if log["warning"]:
        raise FwcError(f"the transport solver did not finish: {log['warning']}")
    return float(value)


def clustering_cost(rows: np.ndarray, points: np.ndarray) -> float:
    """Mean squared L2 distance of `rows` (n, q) to the nearest of `points` (m, q); a sum in the paper."""
    norms = (points**2).sum(axis=1)
    total = 0.0
    for start in range(0, len(rows), 4096):
        block = rows[start : start + 4096]
        squared = (block**2).sum(axis=1)[:, None] + norms - 2 * block @ points.T
        total += float(np.maximum(squared.min(axis=1), 0.0).sum())
    return total / len(rows)


def parity_violation(d: np.ndarray, y: np.ndarray, weights: np.ndarray, target: float) -> float:
    """Largest |p_θ(y|d) / p_T(y) − 1| over the levels that carry weight; `target` is p_T(y = 1)."""
    worst = 0.0
    for level in np.unique(d):
        here = d == level
        if (total := weights[here].sum()) <= 0:
            continue
        rate = weights[here & (y == 1)].sum() / total
        worst = max(worst, abs(rate / target - 1), abs((1 - rate) / (1 - target) - 1))
    return float(worst)
