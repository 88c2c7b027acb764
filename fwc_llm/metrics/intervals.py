"""Limits of shares, combinations of limits, and verdicts.

See docs/statistics.md, "Intervals". All intervals are two-sided at 95 %.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, chdtri, ndtr, ndtri, stdtr, stdtrit

from fwc_llm.metrics.counts import Floats, undefined_is_nan

Interval = tuple[float, float]
Verdict = Literal[
    "differs",
    "differs, but by less than the margin",
    "no difference that matters",
    "not settled: too few rows",
    "not settled: too many unread replies",
    "no verdict: all answers alike",
]
DIFFERS: Verdict = "differs"
WITHIN: Verdict = "differs, but by less than the margin"
EQUAL: Verdict = "no difference that matters"
TOO_FEW: Verdict = "not settled: too few rows"
UNREAD: Verdict = "not settled: too many unread replies"
ALIKE: Verdict = "no verdict: all answers alike"
SHOWN = DIFFERS, WITHIN  # verdicts that show a difference
NOWHERE: Interval = (np.nan, np.nan)
LEVEL = 0.95
Z = float(ndtri((1 + LEVEL) / 2))
FEW_EVENTS = 3.0  # expected events below which limits are exact
_ROUNDING = 1e-12


def verdict(low: float, high: float, margin: float) -> Verdict | None:
    """Return the verdict of an interval of a difference; None without one."""
    if np.isnan(low) or np.isnan(high):
        return None
    negligible = -margin <= low and high <= margin
    if low > 0 or high < 0:
        return WITHIN if negligible else DIFFERS
    return EQUAL if negligible else TOO_FEW


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; NaN if undefined.

    `p_value` tests equality; it is below 0.05 exactly if the interval excludes equality. If
    verdicts must hold in the worst case, `worst_case` has the lowest and highest value over all
    answers that the replies without an answer might have had, and limits for all these values.
    `detectable` is the number that a test at 5 % detects with a power of 80 %, beside the effect of
    those replies. `half_width` is the longest distance of a gap to a limit.
    `per_repeat` (R,) are the values of the repeats.
    """

    value: float
    low: float = np.nan
    high: float = np.nan
    p_value: float = np.nan
    detectable: float = np.nan
    half_width: float = np.nan
    per_repeat: Floats = field(default_factory=lambda: np.zeros(0))
    worst_case: tuple[Interval, Interval] | None = None
    verdict: Verdict | None = None

    @property
    def ends(self) -> dict[str, float]:
        """Value and limits."""
        return {"value": self.value, "low": self.low, "high": self.high}

    @property
    def read(self) -> tuple[Interval, Interval]:
        """The value twice, and its limits, by the replies that were read."""
        return (self.value, self.value), (self.low, self.high)

    @property
    def readings(self) -> tuple[Interval, Interval]:
        """The worst case; without replies that hold no answer, the value and its limits."""
        return self.worst_case or self.read

    @property
    def decisive(self) -> Interval:
        """The interval that is shown, and that decides verdicts and gates."""
        return self.readings[1]

    @property
    def unread_effect(self) -> float:
        """The most by which the value may change with replies that hold no answer."""
        least, most = self.readings[0]
        return max(self.value - least, most - self.value)

    def over(self, ends: Interval, limits: Interval) -> "Estimate":
        """The estimate with the values and the limits of its lowest and highest readings."""
        low, high = np.fmin(limits[0], self.low), np.fmax(limits[1], self.high)
        return replace(self, worst_case=(ends, (float(low), float(high))))

    def judged(self, margin: float, alike: bool = False) -> "Estimate":
        """The estimate of a difference, with its verdict. `alike`: no answer differs."""
        return replace(self, verdict=_judge(self, margin, alike))


def lacks_answers(
    readings: Interval, read: Interval, settles: Callable[[float, float], bool]
) -> bool:
    """Whether replies without an answer keep a question open that an interval `settles`.

    So it is if the values of all their `readings` do not settle it, or if the interval of the
    answers that were `read` would.
    """
    return not settles(*readings) or settles(*read)


def _judge(of: Estimate, margin: float, alike: bool) -> Verdict | None:
    if np.isnan(of.low):
        return None
    if alike:
        return ALIKE
    told = verdict(*of.decisive, margin)
    if told is None:
        return UNREAD

    def settles(low: float, high: float) -> bool:
        return verdict(low, high, margin) not in (TOO_FEW, None)

    if told != TOO_FEW or of.worst_case is None:
        return told
    if lacks_answers(of.worst_case[0], (of.low, of.high), settles):
        return UNREAD
    return told


@undefined_is_nan
def wilson(share: npt.ArrayLike, n: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return Wilson's limits (1927) of shares of `n` rows each.

    A limit at which fewer than three events are expected is Clopper and Pearson's (1934) instead,
    because Wilson's coverage there is 0.87 to 0.93. `n` need not be whole. Limits are NaN if n is
    0.
    """
    p = np.asarray(share, np.float64)
    size = np.asarray(n, np.float64)
    centre = (p + Z**2 / (2 * size)) / (1 + Z**2 / size)
    half = Z / (1 + Z**2 / size) * np.sqrt(p * (1 - p) / size + Z**2 / (4 * size**2))
    low = np.maximum(centre - half, 0.0)
    high = np.minimum(centre + half, 1.0)
    exact_low, exact_high = clopper_pearson(p, size)
    low = np.where(size * low < FEW_EVENTS, exact_low, low)
    high = np.where(size * (1 - high) < FEW_EVENTS, exact_high, high)
    return np.minimum(low, p), np.maximum(high, p)


@undefined_is_nan
def clopper_pearson(
    share: npt.ArrayLike, n: npt.ArrayLike, tail: float | Floats = (1 - LEVEL) / 2
) -> tuple[Floats, Floats]:
    """Return the exact limits of shares of `n` rows each (Clopper & Pearson 1934); NaN if n is 0.

    `tail` is the error of each limit.
    """
    p = np.asarray(share, np.float64)
    size = np.asarray(n, np.float64)
    yes = p * size
    no = (1.0 - p) * size
    low = np.where(yes > _ROUNDING, betaincinv(yes, no + 1.0, tail), 0.0)
    high = np.where(no > _ROUNDING, 1.0 - betaincinv(no, yes + 1.0, tail), 1.0)
    defined = size > 0
    return np.where(defined, low, np.nan), np.where(defined, high, np.nan)


@undefined_is_nan
def ratio_limits(p: Floats, below: Floats, q: Floats, above: Floats) -> Floats:
    """Return the lower limits of the ratios p / q, by MOVER-R (Donner & Zou 2012).

    `below` is the distance from p to its lower limit, `above` that from q to its upper limit. The
    limit r solves p − r q = √(below² + r² above²). An upper limit of p / q is 1 over the lower
    limit of q / p.
    """
    # The smaller root of a r² − 2 b r + c, in a form without cancellation.
    a = q**2 - above**2
    b = p * q
    c = p**2 - below**2
    root = b + np.sqrt(np.maximum(0.0, b**2 - a * c))
    return np.asarray(np.where(root > 0, np.maximum(0.0, c) / root, 0.0))


def quantile(share: float, freedom: float) -> float:
    """Student's quantile; the normal one if `freedom` is infinite."""
    return float(ndtri(share) if freedom == np.inf else stdtrit(freedom, share))


def below(errors: float, freedom: float) -> float:
    """The chance of a value below that many standard errors, by the distribution of `quantile`."""
    return float(ndtr(errors) if freedom == np.inf else stdtr(freedom, errors))


@lru_cache(maxsize=1024)
def critical_value(
    groups: int, kinds: int = 1, freedom: float = np.inf, level: float = LEVEL
) -> float:
    """Return the critical value, in standard errors, of all pairwise differences of groups
    together.

    For two groups, Student's quantile. For more, Tukey's studentized range over √2, for `kinds`
    independent sets of groups together (Tukey 1953; Kramer 1956 for unequal sizes, for which it is
    conservative).
    """
    if groups <= 2 and kinds == 1:
        return quantile((1 + level) / 2, freedom)
    pairs = kinds * groups * (groups - 1) / 2
    one_pair = critical_value(2, 1, freedom, level)
    bonferroni = critical_value(2, 1, freedom, 1 - (1 - level) / pairs)
    return root(
        lambda at: coverage_of_pairs(at, groups, kinds, freedom) - level,
        one_pair,
        bonferroni,
    )


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of an increasing function; the nearer end if it has none between the ends.

    Regula falsi, Illinois method (Dowell & Jarratt 1971); `scipy.optimize` is slow to import.
    """
    below = function(low)
    above = function(high)
    last = 0.0
    if below >= 0:
        return low
    if above <= 0:
        return high
    while high - low > _ROUNDING * high:
        middle = high - above * (high - low) / (above - below)
        value = function(middle)
        if value == 0 or not low < middle < high:
            return middle
        if value < 0:
            low = middle
            below = value
            if last < 0:
                above = above / 2
        else:
            high = middle
            above = value
            if last > 0:
                below = below / 2
        last = value
    return (low + high) / 2


def coverage_of_pairs(
    critical: float, groups: int, kinds: int = 1, freedom: float = np.inf
) -> float:
    """Return P(all pairwise differences < `critical` standard errors), by the studentized range."""
    if groups <= 2 and kinds == 1:
        return 1 - 2 * below(-critical, freedom)
    x = np.linspace(-8.0, 8.0, 161)
    scale = np.ones(1)
    if (
        freedom != np.inf
    ):  # average over the distribution of the estimated standard error
        places = (np.arange(100) + 0.5) / 100
        scale = np.sqrt(chdtri(freedom, places) / freedom)
    width = np.sqrt(2.0) * critical * scale[:, None]
    inside = np.exp(-(x**2) / 2) * (ndtr(x + width) - ndtr(x)) ** (groups - 1)
    ranges = groups * inside.sum(-1) * (x[1] - x[0]) / np.sqrt(2 * np.pi)
    return float((np.minimum(1.0, ranges) ** kinds).mean())


def range_critical_value(width: float, freedom: float = np.inf) -> float:
    """Return the critical value to cover any one value in a range of `width` standard errors at
    95 %.

    It falls from 1.96 for a point to 1.64 for a wide range (Imbens & Manski 2004; the ends of the
    range are always in order, as in Stoye 2009, lemma 3).
    """

    def within(critical: float) -> float:
        chances = below(critical + width, freedom), below(-critical, freedom)
        return chances[0] - chances[1] - LEVEL

    return root(within, 0.0, critical_value(2, 1, freedom) + 1e-9)


def p_value(
    errors: float, groups: int = 2, kinds: int = 1, freedom: float = np.inf
) -> float:
    """Return the p-value of the largest pairwise difference, which is `errors` standard errors."""
    if groups <= 2 and kinds == 1:
        return 2 * below(-errors, freedom)
    return max(0.0, 1.0 - coverage_of_pairs(errors, groups, kinds, freedom))
