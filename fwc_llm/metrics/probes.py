"""Probes of a model: the same prompt again, a row with another protected attribute, or asked with others."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import Answers, questions_of
from fwc_llm.metrics.arm_estimates import share_limits
from fwc_llm.metrics.counts import Codes, Floats
from fwc_llm.metrics.intervals import LEVEL, NOWHERE, Interval, mover
from fwc_llm.metrics.probability import probability_statistics
from fwc_llm.metrics.variance import Sample, codes, mean_shares


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
    (prompt,) = questions_of([replace(a, repeat=a.repeat // times)])
    unit, first, place = np.unique(prompt, return_index=True, return_inverse=True)
    known = ~np.isnan(a.answer)
    count = np.bincount(place[known], minlength=len(unit)).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.bincount(place[known], a.answer[known], len(unit)) / count
        same = 1.0 - 2.0 * share * (1.0 - share) * count / (count - 1.0)
    twice, averaged = count > 1, a.where(first)
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


def _limits(value: Floats, rows: Any) -> Interval:
    """The limits of a mean of shares (n,) about `rows` (n,), as of any share of rows."""
    if not len(value):
        return NOWHERE
    none = np.zeros(len(value), dtype=np.int64)
    sample = Sample(value, none, none, none, codes(rows), 1)
    (mean,) = share_limits(mean_shares(sample, np.ones(len(value)), value, none, 1, False))
    return mean.low, mean.high


def flips(
    answers: npt.ArrayLike,
    changed: npt.ArrayLike,
    groups: npt.ArrayLike,
    told_as: npt.ArrayLike,
    rows: npt.ArrayLike | None = None,
) -> list[dict[str, Any]]:
    """Return the flips of each direction (group, told as), in the order in which they first appear.

    `answers` (n,) are to the rows as they are, `changed` (n,) to the same rows with the protected attribute
    changed; 1, 0 or NaN, and a pair with a NaN is left out. `rows` (n,) names the rows; without, every pair
    is about a row of its own. Keys: `group`, `told_as`, `to_yes` and `to_no` (answers that changed, of `n`
    rows answered both times), `rate` (the share that changed either way) and `interval`, its 95 % limits, in
    which a row asked about again counts for less than a new one.
    """
    before, after = np.asarray(answers, float), np.asarray(changed, float)
    source, target = np.asarray(groups), np.asarray(told_as)
    unit = np.arange(len(before)) if rows is None else np.asarray(rows)
    both = ~np.isnan(before) & ~np.isnan(after)
    described = []
    for group, other in dict.fromkeys(zip(source.tolist(), target.tolist(), strict=True)):
        here = both & (source == group) & (target == other)
        first, second = before[here], after[here]
        described.append(
            {
                "group": str(group),
                "told_as": str(other),
                "n": len(first),
                "to_yes": int((first < second).sum()),
                "to_no": int((first > second).sum()),
                "rate": float((first != second).mean()) if len(first) else np.nan,
                "interval": list(_limits((first != second).astype(np.float64), unit[here])),
            }
        )
    return described


def changes(factual: Answers, changed: Answers, cluster: Codes) -> dict[str, Any]:
    """Return what changes between answers (n,) to rows as they are and to the same rows asked in another way.

    `changed` is the share of answers that differ, `yes` the change of the rate of yes, `accuracy` and `p_yes`
    those of accuracy and of the mean P(yes), each with `value`, `low` and `high`: paired, 95 %, with the
    answers of one `cluster` (n,) as one observation. A pair with a missing answer is left out of all but
    `p_yes`. `n` counts the pairs, `lost` those whose second answer alone is missing.
    """
    before_all, after_all = factual.answer, changed.answer
    both = ~np.isnan(before_all) & ~np.isnan(after_all)
    before, after, label = before_all[both], after_all[both], factual.label[both]
    moved = np.asarray(after != before, dtype=np.float64)
    right = np.asarray(after == label, dtype=np.float64)
    described = {
        "n": int(both.sum()),
        "lost": int((~np.isnan(before_all) & np.isnan(after_all)).sum()),
        "changed": _numbers(float(moved.mean()) if len(moved) else np.nan, _limits(moved, cluster[both])),
        "yes": _moved(moved * after, moved * before, cluster[both]),
        "accuracy": _moved(moved * right, moved * (1.0 - right), cluster[both]),
    }
    known = ~np.isnan(factual.p_yes) & ~np.isnan(changed.p_yes)
    return described | {"p_yes": _mean(changed.p_yes[known] - factual.p_yes[known], cluster[known])}


def _numbers(value: float, ends: Interval) -> dict[str, float]:
    return {"value": value, "low": ends[0], "high": ends[1]}


def _moved(up: Floats, down: Floats, cluster: Codes) -> dict[str, float]:
    """The share that went up less the share that went down."""
    if not len(up):
        return _numbers(np.nan, NOWHERE)
    rise, fall = float(up.mean()), float(down.mean())
    below, above = mover(rise, _limits(up, cluster), fall, _limits(down, cluster))
    return _numbers(rise - fall, (max(rise - fall - below, -1.0), min(rise - fall + above, 1.0)))


def _mean(change: Floats, cluster: Codes) -> dict[str, float]:
    """The mean of a change (n,), by t over clusters; limits from two clusters on."""
    from scipy.stats import t

    names, place = np.unique(cluster, return_inverse=True)
    n, sets = len(change), len(names)
    value = float(change.mean()) if n else np.nan
    if sets < 2:
        return _numbers(value, NOWHERE)
    sums = np.bincount(place, change - value)
    error = float(np.sqrt(sets / (sets - 1) * (sums**2).sum()) / n * t.ppf((1 + LEVEL) / 2, sets - 1))
    return _numbers(value, (value - error, value + error))
