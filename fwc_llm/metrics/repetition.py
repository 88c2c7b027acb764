"""The same prompt asked again: how often a model agrees with itself, and P(yes) from its answers."""

from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.limits import clopper_pearson
from fwc_llm.metrics.probability import probability_statistics


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
    found: dict[str, Any] = {
        "times": times,
        "prompts": int(twice.sum()),
        "changed": float((same[twice] < 1.0).mean()) if twice.any() else np.nan,
        **_agreement(same[twice], averaged.row.codes[twice]),
        "probabilities": probability_statistics(replace(averaged, p_yes=share), order, labels_fixed),
    }
    return found


def _agreement(same: np.ndarray, row: np.ndarray) -> dict[str, float]:
    """The mean with limits by Clopper and Pearson, at the number of rows that have its variance."""
    if not len(same):
        return {"self_agreement": np.nan, "low": np.nan, "high": np.nan}
    value = float(same.mean())
    rows = np.unique(row, return_inverse=True)[1].ravel()
    number = int(rows.max()) + 1
    n = float(number)
    off = np.bincount(rows, same - value)
    variance = number / max(number - 1, 1) * float((off**2).sum()) / len(same) ** 2
    if variance > 0:
        n = value * (1 - value) / variance
    low, high = clopper_pearson(np.array([value]), np.array([n]))
    return {"self_agreement": value, "low": float(low[0]), "high": float(high[0])}
