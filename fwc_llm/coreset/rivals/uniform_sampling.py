"""Uniform sampling: the baseline that every coreset has to beat."""

from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, as_rows, candidate_rows, check_size


def uniform(X: Any, y: Any, sensitive: Any, m: int, seed: int = 0, candidates: Any = None) -> Coreset:
    """m rows drawn without replacement, each of weight n/m."""
    rows = as_rows(X, y, sensitive)
    allowed = candidate_rows(candidates, rows.n)
    check_size(m, len(allowed))
    chosen = np.random.default_rng(seed).permutation(allowed)[:m]
    return rows.chosen(chosen, np.full(m, rows.n / m))
