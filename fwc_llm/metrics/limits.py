"""Limits of shares, and how limits combine (docs/statistics.md, "Limits"): 95 %, two-sided, plain arrays."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, chdtri, ndtr, ndtri, stdtrit

from fwc_llm.metrics.cells import Floats

Interval = tuple[float, float]
NOWHERE: Interval = (np.nan, np.nan)
LEVEL = 0.95
Z = float(ndtri((1 + LEVEL) / 2))
_ROUNDING = 1e-12


def clopper_pearson(share: npt.ArrayLike, n: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the limits of shares observed in `n` rows each (Clopper & Pearson 1934).

    `n` need not be whole: the incomplete beta function continues the binomial's tails to effective numbers
    of rows. Limits are NaN where n is 0.
    """
    p, size = np.asarray(share, np.float64), np.asarray(n, np.float64)
    yes, no = p * size, (1.0 - p) * size
    with np.errstate(invalid="ignore"):
        low = np.where(yes > _ROUNDING, betaincinv(yes, no + 1.0, (1 - LEVEL) / 2), 0.0)
        high = np.where(no > _ROUNDING, betaincinv(yes + 1.0, no, (1 + LEVEL) / 2), 1.0)
        known = size > 0
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def ratio_limits(p: Floats, below: Floats, q: Floats, above: Floats) -> Floats:
    """Return the lower limits of the ratios p / q, by MOVER-R (Donner & Zou 2012).

    `below` is the distance from p to its lower limit, `above` that from q to its upper limit. The limit r
    solves p − r q = √(below² + r² above²). An upper limit of p / q is 1 over the lower limit of q / p.
    """
    # The smaller root of a r² − 2 b r + c, written so that no near-equal numbers are subtracted.
    a, b, c = q**2 - above**2, p * q, p**2 - below**2
    root = b + np.sqrt(np.maximum(0.0, b**2 - a * c))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(root > 0, np.maximum(0.0, c) / root, 0.0))


@lru_cache(maxsize=256)
def pairs_reach(groups: int, kinds: int = 1, freedom: float = np.inf) -> float:
    """Return how many standard errors all differences between groups keep within, 95 times in 100.

    For two groups it is the quantile of the normal distribution (or of Student's with `freedom`); for more it
    is Tukey's studentized range over √2, for `kinds` independent sets of groups together (Tukey 1953; Kramer
    1956 for unequal sizes, where it errs on the safe side).
    """
    if groups == 2 and kinds == 1:
        return Z if freedom == np.inf else float(stdtrit(freedom, (1 + LEVEL) / 2))
    low, high = 0.0, 1e3
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if pairs_within(middle, groups, kinds, freedom) < LEVEL else (low, middle)
    return (low + high) / 2


def pairs_within(reach: float, groups: int, kinds: int = 1, freedom: float = np.inf) -> float:
    """Return how often all differences between groups keep within so many standard errors; see there."""
    x = np.linspace(-8.0, 8.0, 161)
    scale = np.ones(1)
    if freedom != np.inf:  # the standard error is an estimate: average over what it may be
        places = (np.arange(100) + 0.5) / 100
        scale = np.sqrt(chdtri(freedom, places) / freedom)
    width = np.sqrt(2.0) * reach * scale[:, None]
    inside = np.exp(-(x**2) / 2) * (ndtr(x + width) - ndtr(x)) ** (groups - 1)
    ranges = groups * inside.sum(-1) * (x[1] - x[0]) / np.sqrt(2 * np.pi)
    return float((np.minimum(1.0, ranges) ** kinds).mean())


def ranges_of_noise(deviations: Floats) -> Floats:
    """Return 10,000 sorted ranges of G normal variables with these standard deviations and mean 0."""
    drawn = _normal_draws(len(deviations)) * deviations
    return np.asarray(np.sort(drawn.max(-1) - drawn.min(-1)))


@lru_cache(maxsize=16)
def _normal_draws(groups: int) -> Floats:
    """The same draws in every call: the same answers give the same floor."""
    draws = np.random.default_rng(0).standard_normal((10_000, groups))
    draws.flags.writeable = False
    return draws
