"""The counterfactual probe: does the answer change when only the protected attribute does?"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.intervals import Interval, wilson


@dataclass(frozen=True)
class Flips:
    """Answers of one group's rows against the same rows told as another group.

    `to_yes` and `to_no` count answers that changed, of `n` rows answered both times; `rate` is the share
    that changed either way, with Wilson's interval.
    """

    group: str
    told_as: str
    n: int
    to_yes: int
    to_no: int
    rate: float
    interval: Interval


def flips(
    answers: npt.ArrayLike, changed: npt.ArrayLike, groups: npt.ArrayLike, told_as: npt.ArrayLike
) -> list[Flips]:
    """Return the flips of each direction (group, told as), in the order in which they first appear.

    `answers` (n,) are to the rows as they are, `changed` (n,) to the same rows with the protected attribute
    changed; 1, 0 or NaN, and a pair with a NaN is left out.
    """
    before, after = np.asarray(answers, float), np.asarray(changed, float)
    source, target = np.asarray(groups), np.asarray(told_as)
    both = ~np.isnan(before) & ~np.isnan(after)
    found = []
    for group, other in dict.fromkeys(zip(source.tolist(), target.tolist(), strict=True)):
        here = both & (source == group) & (target == other)
        n = int(here.sum())
        to_yes = int((here & (before == 0) & (after == 1)).sum())
        to_no = int((here & (before == 1) & (after == 0)).sum())
        rate = (to_yes + to_no) / n if n else np.nan
        found.append(Flips(str(group), str(other), n, to_yes, to_no, rate, wilson(to_yes + to_no, n)))
    return found
