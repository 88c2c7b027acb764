"""Compare a coreset with rows: exact Wasserstein distance, clustering cost, parity."""

import numpy as np

from fwc_llm.coreset.problem.encoded_table import EncodedTable
from fwc_llm.coreset.problem.ground_cost import cost_matrix
from fwc_llm.errors import FwcError


def wasserstein(rows: EncodedTable, points: EncodedTable, weights: np.ndarray) -> float:
    """Exact W1 in L1 between `rows`, mass 1/n each, and `points` with `weights` (m,) ∝ mass, by
    POT.

    `fwc_llm.coreset.distance.wasserstein` is slow with hundreds of points.
    """
    carrying = weights > 0
    cost = cost_matrix(rows, points.take(carrying), "l1")
    return network_simplex(
        np.full(rows.n, 1 / rows.n), weights[carrying] / weights.sum(), cost
    )


def network_simplex(first: np.ndarray, second: np.ndarray, cost: np.ndarray) -> float:
    """Least cost (n, m) of moving masses (n,) to masses (m,), both summing to 1, by POT's
    network simplex.

    The default iteration limit is too low for Adult's size, so it is raised.
    """
    import ot

    value, log = ot.emd2(first, second, cost, numItermax=10**9, log=True)
    if log["warning"]:
        raise FwcError(f"the transport solver did not finish: {log['warning']}")
    return float(value)


def clustering_cost(rows: EncodedTable, points: EncodedTable) -> float:
    """Mean squared L2 distance of `rows` to the nearest of `points`; a sum in the paper."""
    return float(cost_matrix(rows, points, "sqeuclidean").min(axis=1).mean())


def parity_violation(
    d: np.ndarray, y: np.ndarray, weights: np.ndarray, target: float
) -> float:
    """Largest |p_θ(y|d) / p_T(y) − 1| over the levels that carry weight; `target` is p_T(y = 1)."""
    worst = 0.0
    for level in np.unique(d):
        here = d == level
        total = weights[here].sum()
        if total <= 0:
            continue
        rate = weights[here & (y == 1)].sum() / total
        worst = max(worst, abs(rate / target - 1), abs((1 - rate) / (1 - target) - 1))
    return float(worst)
