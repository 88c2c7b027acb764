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

from fwc_llm.metrics.counts import RATES, Codes, Floats, Metric
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
        return _share(counts.sum((-4, -3)), metric, level)
    pairs = list(combinations(range(counts.shape[-3]), 2))
    if not pairs:
        return np.full((3, *counts.shape[:-4]), np.nan)
    compared = [
        _pairs(counts, rate, metric.kind, pairs, level / len(pairs))
        for rate in metric.rates
    ]
    together = np.concatenate(compared, axis=-1)
    pick = np.fmin if metric.kind == "ratio" else np.fmax
    return np.asarray(np.clip(pick.reduce(together, axis=-1), 0.0, 1.0))


def rates_of_groups(counts: Codes, rate: str) -> Floats:
    """Return the rates (..., G) of counts (..., G, 2, 3); NaN where nothing is counted."""
    counted, hits = _counted(counts, rate)
    with np.errstate(invalid="ignore"):
        return np.asarray(hits / counted)


def compared_groups(counts: Codes, rate: str) -> npt.NDArray[np.bool_]:
    """Return which groups (G,) of counts (P, G, 2, 3) have a gap or ratio with some other."""
    counted, _ = _counted(counts, rate)
    groups = range(counts.shape[-3])
    compared = np.zeros(len(groups), np.bool_)
    for pair in combinations(groups, 2):
        _, effective = _weighted(counted[:, [pair[0]]], counted[:, [pair[1]]])
        if effective.min() >= MIN_DECISIONS:
            compared[[*pair]] = True
    return compared


@np.errstate(invalid="ignore", divide="ignore")
def _weighted(n: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Weights (..., P, pairs), and effective decisions (2, ..., pairs) of both groups, from
    decisions (..., P, pairs).
    """
    weight = np.nan_to_num(n * m / (n + m))
    squares = np.nan_to_num(weight**2 / np.array([n, m]))
    return weight, weight.sum(-2) ** 2 / squares.sum(-2)


def _counted(counts: Codes, rate: str) -> tuple[Floats, Floats]:
    """Return the decisions that a rate counts, and its hits among them (...)."""
    definition = RATES[rate]
    counted = counts[..., definition.counted].sum(-1).astype(np.float64)
    hits = counts[..., definition.hits].sum(-1).astype(np.float64)
    return counted, hits


def _share(counts: Codes, metric: Metric, level: Floats) -> Floats:
    """Value, low and high (3, ...) of a share of all decisions, from counts (..., 2, 3)."""
    counted, hits = _counted(counts, metric.rates[0])
    n_decisions = np.where(counted >= MIN_DECISIONS, counted, np.nan)
    value = hits / n_decisions
    low, high = clopper_pearson(
        value, n_decisions, ndtr(-_critical_value(n_decisions, level))
    )
    return np.array([value, low, high])


@np.errstate(invalid="ignore", divide="ignore")
def _pairs(
    counts: Codes, rate: str, kind: str, pairs: list[tuple[int, int]], level: Floats
) -> Floats:
    """Value, low and high (3, ..., pairs) of the gap or ratio of each pair of groups."""
    counted, hits = _counted(counts, rate)
    rates = np.nan_to_num(hits / counted)
    first, second = np.array(pairs).T
    weight, effective = _weighted(counted[..., first], counted[..., second])
    information = weight.sum(-2)
    one = (weight * rates[..., first]).sum(-2) / information
    other = (weight * rates[..., second]).sum(-2) / information
    n_effective, m_effective = effective
    enough = effective.min(0) >= MIN_DECISIONS
    one = np.where(enough, one, np.nan)
    tail = ndtr(-_critical_value(4.0 * information, level[..., None]))
    one_low, one_high = clopper_pearson(one, n_effective, tail)
    other_low, other_high = clopper_pearson(other, m_effective, tail)
    if kind == "ratio":
        value = np.minimum(one, other) / np.maximum(one, other)
        of_one = ratio_limits(one, one - one_low, other, other_high - other)
        of_other = ratio_limits(other, other - other_low, one, one_high - one)
        low = np.minimum(of_one, of_other)
        return np.array([value, low, 1.0 / np.maximum(of_one, of_other)])
    gap = one - other
    down = np.hypot(one - one_low, other_high - other)
    up = np.hypot(one_high - one, other - other_low)
    low = np.maximum(gap - down, -gap - up)
    high = np.maximum(gap + up, down - gap)
    return np.array([np.abs(gap), low, high])


def _critical_value(decisions: Floats, level: Floats) -> Floats:
    """The normal mixture's boundary after a number of decisions, in standard errors."""
    tightest = -lambertw(-(level**2) / np.e, -1).real - 1.0
    time = tightest * decisions / _TIGHTEST
    return np.asarray(np.sqrt((time + 1.0) / time * np.log((time + 1.0) / level**2)))
