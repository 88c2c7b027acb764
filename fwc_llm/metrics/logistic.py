"""A logistic regression, to set beside a language model: on its few examples, and on the whole table.

Some forty lines over scipy's L-BFGS rather than scikit-learn, which would weigh as much as everything else
installed here together; the tests compare the two.
"""

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from fwc_llm.metrics.cells import Floats


def fit_logistic(
    x: npt.ArrayLike, y: npt.ArrayLike, weights: npt.ArrayLike | None = None, penalty: float = 1.0
) -> Floats:
    """Return the coefficients (p + 1,), intercept last, of a weighted ridge logistic regression.

    Minimises `Σ_i w_i log(1 + exp(−s_i x_iᵀβ)) + penalty/2 · ‖β‖²`, s = ±1, the intercept free of penalty
    (scikit-learn's LogisticRegression with C = 1/penalty). `x` (n, p), `y` (n,) 0 or 1, `weights` (n,) ≥ 0.
    """
    features = np.asarray(x, np.float64)
    sign = 2.0 * np.asarray(y, np.float64) - 1.0
    weight = np.ones(len(sign)) if weights is None else np.asarray(weights, np.float64)

    def loss(beta: Floats) -> tuple[float, Floats]:
        margin = sign * (features @ beta[:-1] + beta[-1])
        pull = -weight * sign * expit(-margin)
        gradient = np.append(features.T @ pull + penalty * beta[:-1], pull.sum())
        return float(weight @ np.logaddexp(0.0, -margin) + penalty / 2 * beta[:-1] @ beta[:-1]), gradient

    start = np.zeros(features.shape[1] + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-12})
    return np.asarray(found.x, np.float64)


def logistic_probability(beta: Floats, x: npt.ArrayLike) -> Floats:
    """Return the probabilities of yes (n,) for rows (n, p)."""
    return np.asarray(expit(np.asarray(x, np.float64) @ beta[:-1] + beta[-1]), np.float64)
