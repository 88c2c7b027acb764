"""A logistic regression, to set beside a language model: on its few examples, and on the whole table.

A few lines of Newton's method rather than scikit-learn, which would weigh as much as everything else
installed here together; the tests compare the two.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import solve
from scipy.special import expit

from fwc_llm.metrics.counts import Floats

_STEPS = 100


def fit_logistic(
    x: Any,
    y: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    penalty: float = 1.0,
) -> Floats:
    """Return the coefficients (p + 1,), intercept last, of a weighted ridge logistic regression.

    Minimises `Σ_i w_i log(1 + exp(−s_i x_iᵀβ)) + penalty/2 · ‖β‖²`, s = ±1, the intercept free of penalty
    (scikit-learn's LogisticRegression with C = 1/penalty). `x` (n, p) is an array or a sparse matrix, `y`
    (n,) 0 or 1, both of which must occur, `weights` (n,) ≥ 0. Newton's method: a dozen passes over the rows,
    where first-order methods need hundreds on columns as rare as some categories are.
    """
    table: Any = sparse.csr_array(x)
    ones: Any = np.ones((table.shape[0], 1))
    features: Any = sparse.csr_array(sparse.hstack([table, ones]))
    sign = 2.0 * np.asarray(y, np.float64) - 1.0
    weight = np.ones(len(sign)) if weights is None else np.asarray(weights, np.float64)
    ridge = np.full(features.shape[1], penalty)
    ridge[-1] = 0.0

    def loss(beta: Floats) -> float:
        return float(weight @ np.logaddexp(0.0, -sign * (features @ beta)) + 0.5 * ridge @ beta**2)

    beta = np.zeros(features.shape[1])
    value = loss(beta)
    for _ in range(_STEPS):
        wrong = expit(-sign * (features @ beta))
        gradient = features.T @ (-weight * sign * wrong) + ridge * beta
        curvature = weight * wrong * (1.0 - wrong)
        curved = (features.T @ features.multiply(curvature[:, None])).toarray()
        hessian = curved + np.diag(ridge + 1e-12)
        step = solve(hessian, -gradient, assume_a="pos")
        size = 1.0
        while (trial := loss(beta + size * step)) > value + 1e-4 * size * float(
            gradient @ step
        ) and size > 1e-8:
            size /= 2  # the loss is convex: some shorter step descends
        beta, value, before = beta + size * step, trial, value
        if before - value <= 1e-12 * max(1.0, value):
            break
    return np.asarray(beta, np.float64)


def logistic_probability(beta: Floats, x: Any) -> Floats:
    """Return the probabilities of yes (n,) for rows (n, p)."""
    return np.asarray(expit(sparse.csr_array(x) @ beta[:-1] + beta[-1]), np.float64)
