"""Metrics within periods, pooled over periods, with intervals that hold at every look.

Two groups are compared within each period, so that a changing mix of groups or a season is no gap.
Of a pair with n and m decisions in period p, the weight is w = n m / (n + m) (Mantel & Haenszel
1959). A group's pooled rate is the mean of its rates with these weights, and its effective number
of decisions is (Σ w)² / Σ (w² / n).

The interval has Clopper and Pearson's limits of both groups, combined by MOVER. Its critical value
is that of the normal mixture (Robbins 1970; asymptotically for estimated variances: Waudby-Smith et
al. 2024), with the pair's information Σ w as the time: all looks together err with a probability of
at most `error`. Only counts enter: neither the order of rows nor their division into calls matters.
"""

from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw, ndtr

from fwc_llm.metrics.counts import RATES, Codes, Floats, Metric, undefined_is_nan
from fwc_llm.metrics.intervals import clopper_pearson, ratio_limits

MIN_DECISIONS = 30  # effective decisions of a group before it is compared
ERROR = 0.05  # largest probability that any of a file's intervals ever leaves out the true value
_TIGHTEST = (
    1_000  # decisions, of two equally large groups, at which an interval is tightest
)


def split_error(arrival: npt.ArrayLike, conditions: int = 1) -> tuple[float, Floats]:
    """Divide `ERROR`: half for the pooled interval, the other half for those of the periods (P,).

    The period that came k-th (`arrival` (P,), from 0) has 1 / ((k + 1) (k + 2)) of its half, so
    that all intervals hold together, at all calls, whatever the number of periods.
    """
    half = ERROR / (2 * conditions)
    order = np.asarray(arrival, np.float64)
    return half, half / ((order + 1.0) * (order + 2.0))


def intervals(counts: Codes, metric: Metric, error: npt.ArrayLike) -> Floats:
    """Return value, low and high (3, ...) of a metric, from counts (..., P, G, 2, 3).

    The counts are by period, group, label and answer (no, yes, unread). `error` (...) is shared by
    the pairs of groups and by the rates of the metric. Without two groups of `MIN_DECISIONS`, a gap
    or ratio is NaN.
    """
    level = np.asarray(error, np.float64) / len(metric.rates)
    if metric.kind == "share":
        counted, hits = _counted(counts.sum((-4, -3)), metric.rates[0])
        tail = ndtr(-_critical_value(counted, level))
        share = hits / counted
        return np.array([share, *clopper_pearson(share, counted, tail)])
    pairs = list(combinations(range(counts.shape[-3]), 2))
    if not pairs:
        return np.full((3, *counts.shape[:-4]), np.nan)
    share_of_pair = level[..., None] / len(pairs)
    compared = [
        _pairs(counts, rate, metric.kind, np.array(pairs), share_of_pair)
        for rate in metric.rates
    ]
    together = np.concatenate(compared, axis=-1)
    pick = np.fmin if metric.kind == "ratio" else np.fmax
    return np.asarray(np.clip(pick.reduce(together, axis=-1), 0.0, 1.0))


def rates_of_groups(counts: Codes, rate: str) -> Floats:
    """Return the rates (..., G) of counts (..., G, 2, 3); NaN under `MIN_DECISIONS`."""
    counted, hits = _counted(counts, rate)
    return np.asarray(hits / counted)


def _counted(
    counts: Codes, rate: str, least: int = MIN_DECISIONS
) -> tuple[Floats, Floats]:
    """Return the decisions that a rate counts, NaN under `least`, and its hits among them (...)."""
    definition = RATES[rate]
    counted = counts[..., definition.counted].sum(-1).astype(np.float64)
    hits = counts[..., definition.hits].sum(-1).astype(np.float64)
    return np.where(counted >= least, counted, np.nan), hits


@undefined_is_nan
def _pairs(counts: Codes, rate: str, kind: str, pairs: Codes, level: Floats) -> Floats:
    """Value, low and high (3, ..., K) of the gap or ratio of each of the pairs (K, 2) of groups.

    Arrays of both groups are (..., 2, K), before sums over periods (..., P, 2, K).
    """
    n, hits = (of[..., pairs.T] for of in _counted(counts, rate, 1))
    weight = np.nan_to_num(n.prod(-2, keepdims=True) / n.sum(-2, keepdims=True))
    information = weight.sum(-3)
    effective = information**2 / np.nan_to_num(weight**2 / n).sum(-3)
    rates = np.nan_to_num(weight * hits / n).sum(-3) / information
    enough = effective.min(-2, keepdims=True) >= MIN_DECISIONS
    rates = np.where(enough, rates, np.nan)
    tail = ndtr(-_critical_value(4.0 * information, level[..., None, :]))
    low, high = clopper_pearson(rates, effective, tail)
    others = np.flip(rates, -2)
    above = np.flip(high - rates, -2)
    if kind == "ratio":
        limits = ratio_limits(rates, rates - low, others, above)
        value = rates.min(-2) / rates.max(-2)
        return np.array([value, limits.min(-2), 1.0 / limits.max(-2)])
    gaps = rates - others
    reach = np.hypot(rates - low, above)
    ends = gaps - reach, gaps + np.flip(reach, -2)
    return np.array([of.max(-2) for of in (gaps, *ends)])


def _critical_value(decisions: Floats, level: Floats) -> Floats:
    """The normal mixture's boundary after a number of decisions, in standard errors."""
    tightest = -lambertw(-(level**2) / np.e, -1).real - 1.0
    time = tightest * decisions / _TIGHTEST
    return np.asarray(np.sqrt((time + 1.0) / time * np.log((time + 1.0) / level**2)))
