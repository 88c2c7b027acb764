"""Uniform sampling: the baseline that every coreset has to beat."""

from typing import Any

import numpy as np

from fwc_llm.coreset.rivals.base import Coreset, as_rows, candidate_rows, check_size
from fwc_llm.coreset.weights import random_order


def uniform(
    X: Any,
    y: Any,
    sensitive: Any,
    m: int,
    seed: int = 0,
    candidates: Any = None,
    sample_weight: Any = None,
) -> Coreset:
    """m rows drawn without replacement, in proportion to their weight, each of weight n/m."""
    rows = as_rows(X, y, sensitive, sample_weight)
    allowed = candidate_rows(candidates, rows)
    check_size(m, len(allowed))
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(allowed) if rows.mass is None else allowed[random_order(rows.mass[allowed], rng)]
    chosen = chosen[:m]
    return rows.chosen(chosen, np.full(m, rows.n / m))
