"""One threshold per group: the most accurate answers at a limited gap.

Such answers look at the protected attribute to decide, which is often unlawful: a bound to hold others
against, no recommendation (docs/statistics.md, "Reference lines").
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Codes, Floats

_STEPS = 200  # of a rate of yes


def group_thresholds(
    p: Floats, labels: Codes, groups: Codes, weights: Floats, limits: Sequence[float | None]
) -> Floats:
    """Return the thresholds (L, G) that are most accurate among those with a gap of at most each limit.

    Yes is p ≥ threshold. `p`, `labels`, `groups` and `weights` (n,) are rows that take no part in the test;
    weights say what each row counts. Rates are told apart in steps of 1/200. None is no limit.
    """
    number = int(groups.max()) + 1
    best = np.full((number, _STEPS + 1), -np.inf)
    thresholds = np.full((number, _STEPS + 1), np.inf)
    for group in range(number):
        here = groups == group
        rate, right, edge = _choices(p[here], labels[here], weights[here])
        step = np.floor(rate * _STEPS + 1e-9).astype(np.intp)
        rising = np.argsort(right, kind="stable")  # of cuts in one step the last, most accurate one stays
        best[group, step[rising]] = right[rising]
        thresholds[group, step[rising]] = edge[rising]
    return np.array([_within(best, thresholds, limit) for limit in limits])


def design_weights(labels: Codes, groups: Codes, shares: Floats) -> Floats:
    """Return weights (n,) that give the rows of each group and label their part of `shares` (G, 2)."""
    size = np.zeros(shares.shape)
    np.add.at(size, (groups, labels), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(size > 0, shares / size, 0.0)
    return np.asarray(each[groups, labels], np.float64)


def _choices(p: Floats, labels: Codes, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Rate of yes, weight of right answers and threshold of every cut of one group, from all no on."""
    edges, place = np.unique(-p, return_inverse=True)
    yes = np.bincount(place, weights * (labels == 1), len(edges))
    no = np.bincount(place, weights * (labels == 0), len(edges))
    hits, false = np.r_[0.0, np.cumsum(yes)], np.r_[0.0, np.cumsum(no)]
    total = max(hits[-1] + false[-1], np.finfo(float).tiny)
    rate = np.minimum((hits + false) / total, 1.0)
    return rate, hits + false[-1] - false, np.r_[np.inf, -edges]


def _within(best: npt.NDArray[np.float64], thresholds: Floats, limit: float | None) -> Floats:
    """The thresholds (G,) of the most accurate window of rates that is no wider than the limit."""
    groups = np.arange(len(best))
    if limit is None:
        return np.asarray(thresholds[groups, best.argmax(1)], np.float64)
    width = max(1, min(int(limit * _STEPS + 1e-9), _STEPS))
    windows = np.lib.stride_tricks.sliding_window_view(best, width, axis=1)
    start = int(windows.max(2).sum(0).argmax())
    chosen = start + windows[:, start].argmax(1)
    return np.asarray(thresholds[groups, chosen], np.float64)
