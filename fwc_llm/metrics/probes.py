"""The two probes of a model: the same prompt asked again, and a row told with another protected attribute."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.arm_estimates import share_limits
from fwc_llm.metrics.counts import Codes, Floats
from fwc_llm.metrics.intervals import NOWHERE, Interval
from fwc_llm.metrics.probability import probability_statistics
from fwc_llm.metrics.variance import Sample, mean_shares


def repetition_statistics(
    a: Answers, times: int, order: tuple[str, ...], labels_fixed: bool
) -> dict[str, Any] | None:
    """Return how alike an arm's answers to one prompt are; None where each was asked once.

    `self_agreement` is the chance that two answers to one prompt are the same, with 95 % limits over rows;
    `changed` the share of prompts whose answers were not all the same. `probabilities` is as of P(yes), which
    here is the share of yes among a prompt's answers.
    """
    if times < 2:
        return None
    key = replace(a, repeat=a.repeat // times).key
    unit, first, place = np.unique(key, return_index=True, return_inverse=True)
    known = ~np.isnan(a.answer)
    count = np.bincount(place[known], minlength=len(unit)).astype(np.float64)
    yes = np.bincount(place[known], a.answer[known], len(unit))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = yes / count
        same = 1.0 - 2.0 * share * (1.0 - share) * count / (count - 1.0)
    twice = count > 1
    averaged = a.where(first)
    low, high = _limits(same[twice], averaged.row.codes[twice])
    return {
        "times": times,
        "prompts": int(twice.sum()),
        "changed": float((same[twice] < 1.0).mean()) if twice.any() else np.nan,
        "self_agreement": float(same[twice].mean()) if twice.any() else np.nan,
        "low": low,
        "high": high,
        "probabilities": probability_statistics(replace(averaged, p_yes=share), order, labels_fixed),
    }


def _limits(value: Floats, rows: Codes) -> Interval:
    """The limits of a mean of shares (n,) about `rows` (n,), as of any share of rows."""
    if not len(value):
        return NOWHERE
    none, row = np.zeros(len(value), dtype=np.int64), np.unique(rows, return_inverse=True)[1].ravel()
    sample = Sample(value, none, none, none, row, 1)
    limits = share_limits(mean_shares(sample, np.ones(len(value)), value, none, 1, False))
    return float(limits.low[0]), float(limits.high[0])


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
        interval = _limits((before != after)[here].astype(np.float64), unit[here])
        rate = (to_yes + to_no) / n if n else np.nan
        found.append(Flips(str(group), str(other), n, to_yes, to_no, rate, interval))
    return found
