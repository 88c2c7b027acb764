"""Decision thresholds on P(yes): resulting rates, and candidate thresholds.

The thresholds of a curve are all values of P(yes), so every other threshold gives the same answers
as one of them. A threshold looks better on the rows on which it was chosen than on other rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.counts import Codes, Flags, Floats, levels_of

HALF = 0.5  # the default threshold
_DIGITS = 12  # decimals of comparisons: equal shares may differ in their last bit


@dataclass(frozen=True)
class Curve:
    """The results of T ascending thresholds: the answer is yes if p ≥ threshold.

    The last threshold is infinite: all answers are no. `share` (T,) is the rate of yes of all rows,
    and `gap` (T,) the largest minus the smallest rate of the groups (NaN for one group). `ties`
    (T,) counts the rows whose P(yes) equals the threshold. `base_rate` is the share of label yes.
    """

    thresholds: Floats
    accuracy: Floats
    share: Floats
    gap: Floats
    ties: Codes
    base_rate: float

    def place(self, threshold: float) -> int:
        """Return the index of the point of the curve with the same answers as `threshold`."""
        return int(np.searchsorted(self.thresholds, threshold, side="left"))


def threshold_curve(
    p: npt.ArrayLike, labels: npt.ArrayLike, groups: Any, weights: Floats | None = None
) -> Curve:
    """Compute the results of every threshold on `p` (n,)."""
    score, truth, (names, code) = (
        np.asarray(p, float),
        np.asarray(labels, float),
        levels_of(groups),
    )
    if weights is None:
        weight = np.ones(len(score))
    else:
        weight = weights
    values, inverse, ties = np.unique(score, return_inverse=True, return_counts=True)

    def yes(chosen: Flags) -> Floats:
        """Weight (T,) of the rows `here` that each threshold answers yes."""
        return np.append(
            np.bincount(inverse[chosen], weight[chosen], len(values))[::-1].cumsum()[
                ::-1
            ],
            0.0,
        )

    right = yes(truth == 1.0)
    wrong = yes(truth == 0.0)
    rates = np.stack(
        [
            yes(code == group) / weight[code == group].sum()
            for group in range(len(names))
        ],
        1,
    )
    return Curve(
        thresholds=np.append(values, np.inf),
        accuracy=(right + wrong[0] - wrong) / weight.sum(),
        share=(right + wrong) / weight.sum(),
        gap=np.ptp(rates, axis=1) if len(names) > 1 else np.full(len(rates), np.nan),
        ties=np.append(ties, 0),
        base_rate=float(np.average(truth, weights=weight)),
    )


def most_accurate(curve: Curve) -> int:
    """Return the index of the most accurate threshold, which may give all rows one answer.

    On ties, the least gap decides, then the distance from one half.
    """
    return _least(
        np.arange(len(curve.thresholds)), -curve.accuracy, curve.gap, _from_half(curve)
    )


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
