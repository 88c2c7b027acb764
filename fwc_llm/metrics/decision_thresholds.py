"""Decision thresholds on P(yes): resulting rates, and candidate thresholds.

The thresholds of a curve are all values of P(yes), so every other threshold gives the same answers as one of
them. A threshold looks better on the rows on which it was chosen than on other rows (`held_out`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Codes, Floats, levels_of

HALF = 0.5  # the default threshold
_DIGITS = 12  # decimals of comparisons: equal shares may differ in their last bit


@dataclass(frozen=True)
class Curve:
    """The results of T ascending thresholds: the answer is yes if p ≥ threshold.

    The last threshold is infinite: all answers are no. `share` (T,) is the rate of yes of all rows, `rates`
    (T, G) that of each group, and `gap` (T,) the largest minus the smallest of these (NaN for one group).
    `ties` (T,) counts the rows whose P(yes) equals the threshold. `base_rate` is the share of label yes.
    """

    thresholds: Floats
    accuracy: Floats
    share: Floats
    rates: Floats
    gap: Floats
    ties: Codes
    base_rate: float
    groups: tuple[str, ...]

    def place(self, threshold: float) -> int:
        """Return the index of the point of the curve with the same answers as `threshold`."""
        return int(np.searchsorted(self.thresholds, threshold, side="left"))

    @property
    def constant_accuracy(self) -> float:
        """Accuracy of the better of the two constant answers."""
        return max(self.base_rate, 1.0 - self.base_rate)


def threshold_curve(
    p: npt.ArrayLike, labels: npt.ArrayLike, groups: Any, weights: Floats | None = None
) -> Curve:
    """Compute the results of every threshold on `p` (n,)."""
    score, truth, (names, code) = np.asarray(p, float), np.asarray(labels, float), levels_of(groups)
    weight = np.ones(len(score)) if weights is None else weights
    values, place, ties = np.unique(score, return_inverse=True, return_counts=True)

    def yes(here: npt.NDArray[np.bool_]) -> Floats:
        """Weight (T,) of the rows `here` that each threshold answers yes."""
        return np.append(np.bincount(place[here], weight[here], len(values))[::-1].cumsum()[::-1], 0.0)

    right, wrong = yes(truth == 1.0), yes(truth == 0.0)
    rates = np.stack([yes(code == group) / weight[code == group].sum() for group in range(len(names))], 1)
    return Curve(
        thresholds=np.append(values, np.inf),
        accuracy=(right + wrong[0] - wrong) / weight.sum(),
        share=(right + wrong) / weight.sum(),
        rates=rates,
        gap=np.ptp(rates, axis=1) if len(names) > 1 else np.full(len(rates), np.nan),
        ties=np.append(ties, 0),
        base_rate=float(np.average(truth, weights=weight)),
        groups=tuple(names),
    )


def most_accurate(curve: Curve) -> int:
    """Return the index of the most accurate threshold, which may give all rows one answer.

    On ties, the least gap decides, then the distance from one half.
    """
    return _least(np.arange(len(curve.thresholds)), -curve.accuracy, curve.gap, _from_half(curve))


def least_gap(curve: Curve, least_accuracy: float = 0.0) -> int | None:
    """Return the index of the least gap among thresholds with answers of both kinds; or None."""
    mixed = (curve.share > 0.0) & (curve.share < 1.0)
    allowed = mixed & ~np.isnan(curve.gap) & (curve.accuracy > least_accuracy - 10.0**-_DIGITS)
    if not allowed.any():
        return None
    return _least(np.flatnonzero(allowed), curve.gap, -curve.accuracy, _from_half(curve))


def least_gap_keeping_half(curve: Curve) -> int | None:
    """Return the index of the least gap that keeps half of the best gain over a constant answer; or None."""
    constant, top = curve.constant_accuracy, float(curve.accuracy[most_accurate(curve)])
    return least_gap(curve, (constant + top) / 2) if top > constant + 10.0**-_DIGITS else None


def at_base_rate(curve: Curve) -> int:
    """Return the index of the threshold whose rate of yes is nearest to the share of label yes."""
    off = np.abs(curve.share - curve.base_rate)
    return _least(np.arange(len(off)), off, -curve.accuracy)


def _least(places: Codes, *keys: Floats) -> int:
    """Return the first of `places` with the least key; later keys break ties. NaN is largest."""
    for key in keys:
        values = key[places].round(_DIGITS)
        if not np.isnan(values).all():
            places = places[values == np.nanmin(values)]
    return int(places[0])


def _from_half(curve: Curve) -> Floats:
    return np.abs(np.minimum(curve.thresholds, 2.0) - HALF)


def held_out(
    choose: Callable[[Curve], int | None],
    p: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    rows: npt.ArrayLike,
    weights: Floats | None = None,
) -> Floats:
    """Return answers (n,) by the thresholds of the other half of the rows; NaN without one."""
    score, truth, code = np.asarray(p, float), np.asarray(labels, float), levels_of(groups)[1]
    half, answers = two_halves(truth, groups, rows), np.full(len(score), np.nan)
    for side in (0, 1):
        fitting, using = half != side, half == side
        if fitting.any() and using.any():
            weight = None if weights is None else weights[fitting]
            curve = threshold_curve(score[fitting], truth[fitting], code[fitting], weight)
            if (place := choose(curve)) is not None:
                answers[using] = score[using] >= curve.thresholds[place]
    return answers


def two_halves(labels: npt.ArrayLike, groups: Any, rows: npt.ArrayLike) -> Codes:
    """Divide the rows at random into halves, 0 and 1 (n,), within group and label."""
    truth, level = np.asarray(labels), levels_of(groups)[1]
    units, first, unit = np.unique(np.asarray(rows), return_index=True, return_inverse=True)
    shuffled = np.random.default_rng(0).permutation(len(units))
    by_cell = shuffled[np.lexsort((truth[first][shuffled], level[first][shuffled]))]
    half = np.empty(len(units), dtype=np.int64)
    half[by_cell] = np.arange(len(units)) % 2
    return half[unit]
