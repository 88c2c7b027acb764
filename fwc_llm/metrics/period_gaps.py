"""Metrics within periods, pooled over periods, with intervals that hold at every look.

Two groups are compared within each period, so that a changing mix of groups or a season is no gap.
Of a pair with n and m decisions in period p, the weight is w = n m / (n + m) (Mantel & Haenszel
1959). A group's pooled rate is the mean of its rates with these weights, and its effective number
of decisions is (Σ w)² / Σ (w² / n).

The interval has Clopper and Pearson's limits of both groups, combined by MOVER. Its critical value
is that of the normal mixture (Robbins 1970; asymptotically for estimated variances: Waudby-Smith et
al. 2024), with the pair's information Σ w as the time: all looks together err with a probability of
at most `error`. Only counts enter: neither the order of rows nor their division into calls matters
to a pooled interval. Those of single periods share their error by arrival (`split_error`).

Decisions without an answer are read as they lower and as they raise a rate most. n and m are the
decisions that count whatever the answer, so that all readings have the same weights, and none is
beyond these two.
"""

from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw, ndtr

from fwc_llm.metrics.counts import (
    RATES,
    SHAPE,
    UNPARSED,
    Codes,
    Floats,
    Metric,
    undefined_is_nan,
)
from fwc_llm.metrics.intervals import Estimate, clopper_pearson, ratio_limits

MIN_DECISIONS = 30  # effective decisions of a group before it is compared
ERROR = 0.05  # largest probability that any of a file's intervals ever leaves out the true value
_TIGHTEST = (
    1_000  # decisions, of two equally large groups, at which an interval is tightest
)


def split_error(arrival: npt.ArrayLike, conditions: int = 1) -> tuple[float, Floats]:
    """Divide `ERROR`: half for the pooled interval, the other half for those of the periods (P,).

    The period that came k-th (`arrival` (P,), from 0) has 1 / ((k + 1) (k + 2)) of its half, so
    that all intervals hold together, at all calls, whatever the number of periods. So a period that
    came later has a wider interval. An order by the calendar would change with an earlier period
    that comes late, after verdicts.
    """
    half = ERROR / (2 * conditions)
    order = np.asarray(arrival, np.float64)
    return half, half / ((order + 1.0) * (order + 2.0))


@undefined_is_nan
def intervals(counts: Codes, metric: Metric, error: npt.ArrayLike) -> Floats:
    """Return numbers (2, 2, 2, ...) of a metric, from counts (..., P, G, 3, 4).

    First by the answers that were read, then over all readings of decisions without an answer; of
    both, least and greatest value, then lower and upper limit. The counts are by period, group,
    label and answer (`SHAPE`). `error` (...) is shared by the pairs of groups and by the
    rates of the metric. Without two groups of `MIN_DECISIONS`, a gap or ratio is NaN.
    """
    level = np.asarray(error, np.float64)[..., None] / len(metric.rates)
    bounds = partial(_pairs, metric.kind)
    if metric.kind == "share":
        counts = counts.sum((-4, -3))[..., None, :, :]
        bounds = partial(_share)
    found = []
    for rate in metric.rates:
        n, rates = _counted(counts, rate)
        anyway = counts[..., RATES[rate].counted_anyway].sum(-1)
        sides = [_read_as(counts, rate, side) for side in (0, 1)]
        found.append([bounds(level, n, rates, rates), bounds(level, anyway, *sides)])
    together = np.concatenate(found, axis=-1)
    worst = np.fmin if metric.kind == "ratio" else np.fmax
    most = worst.reduce(together, axis=-1, initial=np.nan)  # NaN without any pair
    return np.asarray(np.clip(most, 0.0, 1.0) + 0.0)  # no −0


def estimates(counts: Codes, metric: Metric, error: npt.ArrayLike) -> list[Estimate]:
    """Return the `intervals` of counts (E, P, G, 3, 4) as estimates."""
    numbers = np.moveaxis(intervals(counts, metric, error), -1, 0).tolist()
    return [
        Estimate(read[0][0], *read[1]).over(*of_readings)
        for read, of_readings in numbers
    ]


@undefined_is_nan
def furthest_apart(counts: Codes, metric: Metric) -> tuple[str, dict[int, float]]:
    """Return the rate and the two groups whose gap or ratio in counts (P, G, 3, 4) is that of the
    metric: the rate's name, and the pooled rate by index of the group; none if it is undefined.
    """
    each = [_pooled(*_counted(counts, rate)) for rate in metric.rates]
    pooled = np.array([rates for *_, rates in each])  # (rates, 2, K)
    most = pooled.max(1)
    apart = most - pooled.min(1)
    if metric.kind == "ratio":
        apart = apart / np.maximum(most, np.finfo(float).tiny)
    if np.isnan(apart).all():
        return "", {}
    which, pair = np.unravel_index(np.nanargmax(apart), apart.shape)
    groups = _pairs_of(counts.shape[-3])[:, pair].tolist()
    rates = pooled[which, :, pair].tolist()
    return metric.rates[which], dict(zip(groups, rates, strict=True))


def rates_of_groups(counts: Codes, rate: str) -> Floats:
    """Return the rates (..., G) of counts (..., G, 3, 4); NaN under `MIN_DECISIONS`."""
    n, rates = _counted(counts, rate)
    return np.where(n >= MIN_DECISIONS, rates, np.nan)


@undefined_is_nan
def _counted(counts: Codes, rate: str) -> tuple[Floats, Floats]:
    """Return the decisions that a rate counts, and the rate (...)."""
    definition = RATES[rate]
    n, hits = (
        counts[..., kinds].sum(-1).astype(np.float64)
        for kinds in (definition.counted, definition.hits)
    )
    return n, hits / n


def _read_as(counts: Codes, rate: str, side: int) -> Floats:
    """The rate with decisions without an answer read as they lower (side 0) or raise (side 1) it
    most.
    """
    read = counts.copy()
    read[..., UNPARSED] = 0
    labels = np.arange(SHAPE[0])
    read[..., labels, RATES[rate].extreme_answers(side)] += counts[..., UNPARSED]
    return _counted(read, rate)[1]


def _share(level: Floats, n: Floats, lowest: Floats, highest: Floats) -> Floats:
    """Return the lowest and the highest share, then its limits (2, 2, ...), for n decisions."""
    tail = ndtr(-_critical_value(n, level))
    low, _ = clopper_pearson(lowest, n, tail)
    _, high = clopper_pearson(highest, n, tail)
    ends = np.array([[lowest, highest], [low, high]])
    return np.where(n >= MIN_DECISIONS, ends, np.nan)


def _pairs(
    kind: str, level: Floats, n: Floats, lowest: Floats, highest: Floats
) -> Floats:
    """Return the ends and limits (2, 2, ..., K) of the gaps or ratios of all K pairs of groups.

    Rates and decisions n are (..., P, G). The lowest rate of each group is compared with the
    highest of the other.
    """
    total, effective, p, q = _pooled(n, lowest, highest)
    level = level[..., None] / total.shape[-1]
    tail = ndtr(-_critical_value(4.0 * total, level))
    below = p - clopper_pearson(p, effective, tail)[0]
    above = clopper_pearson(q, effective, tail)[1] - q
    q, above = np.flip([q, above], -2)
    if kind == "ratio":
        least = p / q, ratio_limits(p, below, q, above)
        ends = [[of.min(-2), 1.0 / of.max(-2)] for of in least]
    else:
        least = p - q, p - q - np.hypot(below, above)
        ends = [[of.max(-2), -of.min(-2)] for of in least]
    return np.where(np.isnan(p[..., 0, :]), np.nan, np.array(ends))


def _pairs_of(groups: int) -> Codes:
    """Return the two groups (2, K) of each pair."""
    return np.array(np.triu_indices(groups, 1))


def _pooled(n: Floats, *of: Floats) -> tuple[Floats, ...]:
    """Return the information (..., 1, K) of all K pairs of groups, their effective numbers of
    decisions (..., 2, K), and the pooled rates (..., 2, K) of each rate in `of`.

    Rates and decisions n are (..., P, G). A pair with a group under `MIN_DECISIONS` has none.
    """
    pairs = _pairs_of(n.shape[-1])
    of_pairs = n[..., pairs]
    weight = of_pairs.prod(-2, keepdims=True) / of_pairs.sum(-2, keepdims=True)
    weight = np.nan_to_num(weight)
    total = weight.sum(-3)
    effective = total**2 / np.nan_to_num(weight**2 / of_pairs).sum(-3)
    enough = effective.min(-2, keepdims=True) >= MIN_DECISIONS
    pooled = (np.nan_to_num(weight * rates[..., pairs]).sum(-3) / total for rates in of)
    return total, effective, *(np.where(enough, rates, np.nan) for rates in pooled)


def _critical_value(decisions: Floats, level: Floats) -> Floats:
    """The normal mixture's boundary after a number of decisions, in standard errors."""
    tightest = -lambertw(-(level**2) / np.e, -1).real - 1.0
    time = tightest * decisions / _TIGHTEST
    return np.asarray(np.sqrt((time + 1.0) / time * np.log((time + 1.0) / level**2)))
