"""Fisher's exact test of two shares, for numbers of any size."""

import math

import numpy as np
from scipy.special import gammaln

from fwc_llm.metrics.cells import Floats

_TIES = 1e-7  # as others do: tables whose chance differs by rounding alone are equally likely


def fisher_exact(yes: int, n: int, other_yes: int, other_n: int) -> float:
    """Return the two-sided p-value that two groups of `n` and `other_n` rows have the same rate of yes.

    It adds the chances of all tables with the same sums that are no likelier than this one (Fisher 1935).
    NaN where a group has no row.
    """
    if n < 1 or other_n < 1:
        return math.nan
    together = yes + other_yes
    possible = np.arange(max(0, together - other_n), min(together, n) + 1)
    log_chance = _log_choose(n, possible) + _log_choose(other_n, together - possible)
    chance = np.exp(log_chance - log_chance.max())
    here = chance[yes - possible[0]]
    if here == 0.0:
        return 0.0
    return float(min(1.0, chance[chance <= here * (1 + _TIES)].sum() / chance.sum()))


def _log_choose(n: int, k: "np.ndarray") -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0), dtype=np.float64)
