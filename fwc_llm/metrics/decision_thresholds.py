"""Decision thresholds on P(yes): resulting rates, and candidate thresholds.

The thresholds of a curve are all values of P(yes), so every other threshold gives the same answers
as one of them. A threshold looks better on the rows on which it was chosen than on other rows.
"""

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


def threshold_curve(
    p: npt.ArrayLike, labels: npt.ArrayLike, groups: Any, weights: Floats | None = None
) -> Curve:
    """Compute the results of every threshold on `p` (n,), for up to some thousand rows."""
    score = np.asarray(p, float)[:, None]
    truth = np.asarray(labels, bool)
    names, code = levels_of(groups)
    weight = np.ones(len(truth)) if weights is None else weights
    thresholds = np.append(np.unique(score), np.inf)
    yes = score >= thresholds
    rates = [
        np.average(yes[code == group], 0, weight[code == group])
        for group in range(len(names))
    ]
    gap = np.ptp(rates, axis=0)
    return Curve(
        thresholds,
        accuracy=np.average(yes == truth[:, None], 0, weight),
        share=np.average(yes, 0, weight),
        gap=gap if len(names) > 1 else np.full_like(gap, np.nan),
        ties=(score == thresholds).sum(0),
        base_rate=float(np.average(truth, weights=weight)),
    )


def most_accurate(curve: Curve) -> int:
    """Return the index of the most accurate threshold, which may give all rows one answer.

    On ties, the least gap decides, then the distance from one half.
    """
    from_half = np.abs(np.minimum(curve.thresholds, 2.0) - HALF)
    return _least(-curve.accuracy, curve.gap, from_half)


def at_base_rate(curve: Curve) -> int:
    """Return the index of the threshold whose rate of yes is nearest to the share of label yes."""
    off = np.abs(curve.share - curve.base_rate)
    return _least(off, -curve.accuracy)


def _least(*keys: Floats) -> int:
    """Return the first place of the least key; later keys break ties. NaN is largest."""
    rounded = [np.nan_to_num(key.round(_DIGITS), nan=np.inf) for key in keys]
    return int(np.lexsort(rounded[::-1])[0])
