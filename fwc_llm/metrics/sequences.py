"""Confidence sequences: limits that hold at every look together, so that one may stop when one likes.

    low, high = shares([41, 12], [80, 75])   # each group's rate
    low, high = gap([41, 12], [80, 75])      # the largest gap of any two groups
    low, high = ratio([41, 12], [80, 75])    # the smallest rate over the largest

These count independent 0/1 decisions and are exact, in whatever order groups arrive: decisions bet against a
rate p with odds mixed over Beta(r p, r (1 − p)), and gain a factor of 1/α with a chance of at most α (Ville
1939; Robbins 1970; the two-sided beta-binomial mixture of Howard, Ramdas, McAuliffe & Sekhon 2021). The gains
of two groups multiply, and several limits share the level (Bonferroni). What is no count: `looks`.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, xlog1py, xlogy

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import LEVEL, NOWHERE, Interval

ALPHA = 1 - LEVEL
TUNED = 600.0  # rows at which sequences are shortest
_GRID = 2_001  # rates that two groups may have together, closer near 0 and 1


def spread(alpha: float, tuned: float = TUNED) -> float:
    """Return ρ², the variance of the mixture (in standardised means) that is best after `tuned` rows."""
    more = -2.0 * np.log(alpha)
    return float((more + np.log(more + 1.0)) / tuned)


def shares(
    successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float = ALPHA, tuned: float = TUNED
) -> tuple[Floats, Floats]:
    """Return limits (G,) of rates, each of which keeps within its own at all times with 1 − `alpha`.

    (0, 1) where nothing is known. `FwcError` for counts that do not fit.
    """
    yes, n = _counts(successes, trials)
    low, high = np.zeros(len(n)), np.ones(len(n))
    middle = np.divide(yes, n, out=np.full(len(n), 0.5), where=n > 0)
    for end, start in ((low, 0.0), (high, 1.0)):
        outside, inside = np.full(len(n), start), middle.copy()
        for _ in range(50):
            between = (outside + inside) / 2
            out = _gain(between, yes, n, alpha, tuned) >= -np.log(alpha)
            outside, inside = np.where(out, between, outside), np.where(out, inside, between)
        end[:] = outside
    return low, high


def gap(
    successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float = ALPHA, tuned: float = TUNED
) -> Interval:
    """Return limits of the largest gap of any two groups' rates; NaN for fewer than two groups."""
    lowest = lowest_of_pairs(successes, trials, alpha, tuned)[0]
    return (
        NOWHERE if np.isnan(lowest).all() else (max(0.0, float(np.nanmax(lowest))), -float(np.nanmin(lowest)))
    )


def ratio(
    successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float = ALPHA, tuned: float = TUNED
) -> Interval:
    """Return limits of the smallest rate over the largest; NaN for fewer than two groups."""
    lowest = lowest_of_pairs(successes, trials, alpha, tuned)[1]
    if np.isnan(lowest).all():
        return NOWHERE
    return min(1.0, float(np.nanmin(lowest))), 1.0 / max(1.0, float(np.nanmax(lowest)))


def lowest_of_pairs(
    successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float = ALPHA, tuned: float = TUNED
) -> tuple[Floats, Floats]:
    """Return the lower limits (G, G) of each group's rate less that of another (the column), and over it.

    All hold together. The upper limit is −1 times, or 1 over, the transposed one. NaN in the diagonal.
    """
    yes, n = _counts(successes, trials)
    groups = len(n)
    alpha = alpha / max(1, groups * (groups - 1) // 2)
    rate = np.sin(np.linspace(0.0, np.pi / 2, _GRID)) ** 2
    gains = _gain(rate, yes[:, None], n[:, None], alpha, tuned)
    below, above = (
        rate[np.maximum(np.arange(_GRID) - 1, 0)],
        rate[np.minimum(np.arange(_GRID) + 1, _GRID - 1)],
    )
    less, over = np.full((2, groups, groups), np.nan)
    for own in range(groups):
        falling = -np.minimum.accumulate(gains[own])  # up to its least gain
        for other in set(range(groups)) - {own}:
            place = np.searchsorted(
                falling, gains[other] + np.log(alpha)
            )  # the lowest rate with each other one
            may = place < _GRID
            own_rate, other_rate = below[place[may]], above[may]
            less[own, other], over[own, other] = (own_rate - other_rate).min(), (own_rate / other_rate).min()
    return less, over


def _gain(rate: Floats, yes: Floats, n: Floats, alpha: float, tuned: float) -> Floats:
    """The logarithm of what bets against a rate have gained."""
    weight = 1.0 / spread(alpha, tuned)
    a, b = np.maximum(weight * rate, 1e-300), np.maximum(weight * (1.0 - rate), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = betaln(a + yes, b + n - yes) - betaln(a, b) - xlogy(yes, rate) - xlog1py(n - yes, -rate)
    return np.asarray(np.where((rate <= 0) & (yes > 0) | (rate >= 1) & (n > yes), np.inf, gain))


def _counts(successes: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[Floats, Floats]:
    yes, n = np.asarray(successes, np.float64), np.asarray(trials, np.float64)
    if (
        yes.shape != n.shape
        or yes.ndim != 1
        or not ((yes >= 0) & (yes <= n) & (n % 1 == 0) & (yes % 1 == 0)).all()
    ):
        raise FwcError(
            "a sequence counts decisions: whole successes (G,), from 0 to the trials (G,) of each group"
        )
    return yes, n
