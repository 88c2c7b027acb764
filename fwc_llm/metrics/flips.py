"""The counterfactual probe: does the answer change when only the protected attribute does?"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.limits import NOWHERE, Interval
from fwc_llm.metrics.sample import Codes, Sample
from fwc_llm.metrics.shares import count_shares


@dataclass(frozen=True)
class Flips:
    """Answers of one group's rows against the same rows told as another group.

    `to_yes` and `to_no` count answers that changed, of `n` rows answered both times; `rate` is the share
    that changed either way, with its 95 % interval; a row asked about again counts for less than a new one.
    """

    group: str
    told_as: str
    n: int
    to_yes: int
    to_no: int
    rate: float
    interval: Interval


def flips(
    answers: npt.ArrayLike,
    changed: npt.ArrayLike,
    groups: npt.ArrayLike,
    told_as: npt.ArrayLike,
    rows: npt.ArrayLike | None = None,
) -> list[Flips]:
    """Return the flips of each direction (group, told as), in the order in which they first appear.

    `answers` (n,) are to the rows as they are, `changed` (n,) to the same rows with the protected attribute
    changed; 1, 0 or NaN, and a pair with a NaN is left out. `rows` (n,) names the rows; without, every pair
    is about a row of its own.
    """
    before, after = np.asarray(answers, float), np.asarray(changed, float)
    source, target = np.asarray(groups), np.asarray(told_as)
    unit = np.arange(len(before)) if rows is None else np.unique(np.asarray(rows), return_inverse=True)[1]
    both = ~np.isnan(before) & ~np.isnan(after)
    found = []
    for group, other in dict.fromkeys(zip(source.tolist(), target.tolist(), strict=True)):
        here = both & (source == group) & (target == other)
        n = int(here.sum())
        to_yes = int((here & (before == 0) & (after == 1)).sum())
        to_no = int((here & (before == 1) & (after == 0)).sum())
        interval = _interval((before != after)[here].astype(np.float64), unit[here])
        rate = (to_yes + to_no) / n if n else np.nan
        found.append(Flips(str(group), str(other), n, to_yes, to_no, rate, interval))
    return found


def _interval(changed: Floats, rows: Codes) -> Interval:
    """The interval of the share of answers that changed (n,), as of any share of rows."""
    if not len(changed):
        return NOWHERE
    nothing = np.zeros(len(changed), dtype=np.int64)
    sample = Sample(changed, nothing, nothing, nothing, np.unique(rows, return_inverse=True)[1], 1)
    share = count_shares(sample, sample.parsed, changed, nothing, 1, False)
    value = float(share.values[0])
    return value - float(share.below[0]), value + float(share.above[0])
