"""Reweighing (Kamiran, Calders 2012): weights that make the outcome independent of the protected level."""

from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, as_rows, candidate_rows, check_size
from fwc_llm.coreset.weights import random_order


def reweigh(y: Any, sensitive: Any, weights: Any = None) -> np.ndarray:
    """(n,) weights `w'_i = w_i · W_d · W_y / (W · W_dy)`, for any number of levels and outcomes.

    W, W_d, W_y and W_dy are sums of the weights `w` (1 each by default) over all rows, a level, an outcome
    and a cell; a cell without weight is skipped. If no cell is empty, p(y|d) = p(y) under w' for every d,
    and W, W_d and W_y do not change.
    """
    outcomes, outcome = np.unique(np.asarray(y), return_inverse=True)
    _, level = np.unique(np.asarray(sensitive), return_inverse=True)
    weight = np.ones(len(outcome)) if weights is None else np.asarray(weights, float)
    cell = level * len(outcomes) + outcome
    by_level, by_outcome, by_cell = (np.bincount(code, weights=weight) for code in (level, outcome, cell))
    total = weight.sum()
    held = np.where(by_cell > 0, by_cell, 1.0)[cell]
    return np.asarray(weight * by_level[level] * by_outcome[outcome] / (total * held))


def reweighing(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m rows drawn without replacement in proportion to their Kamiran–Calders weights, each of weight n/m.

    In expectation the draw has about the parity of the reweighed table.
    """
    rows = as_rows(X, y, sensitive, sample_weight)
    allowed = candidate_rows(candidates, rows)
    check_size(m, len(allowed))
    weights = reweigh(rows.y, rows.sensitive, rows.mass)[allowed]
    rng = np.random.default_rng(seed)
    if rows.mass is None:
        chosen = rng.choice(allowed, m, replace=False, p=weights / weights.sum())
    else:
        chosen = allowed[random_order(weights, rng)[:m]]
    return rows.chosen(chosen, np.full(m, rows.n / m))
