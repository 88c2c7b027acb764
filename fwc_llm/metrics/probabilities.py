"""When the model also gives P(yes): how well it ranks, how it is calibrated, what equal rates would cost.

Probabilities `p` (n,) are shares; rows without one must be left out before.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import as_names
from fwc_llm.metrics.counts import Floats, levels_of
from fwc_llm.metrics.thresholds import two_halves


def auc(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the area under the ROC curve: the chance that a yes ranks above a no, ties counting half."""
    score, truth = np.asarray(p, float), np.asarray(labels) == 1
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return np.nan
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    total = rank[place][truth].sum()
    return float((total - positives * (positives + 1) / 2) / (positives * negatives))


def brier(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean squared distance between probability and label; 0.25 is a coin's."""
    score, truth = np.asarray(p, float), np.asarray(labels, float)
    return float(np.mean((score - truth) ** 2)) if len(score) else np.nan


def calibration(p: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> tuple[Floats, Floats, Floats]:
    """Return per non-empty bin of equal width: mean probability, share of label yes, and rows."""
    score, truth = np.asarray(p, float), np.asarray(labels, float)
    place = np.minimum((score * bins).astype(np.intp), bins - 1)
    rows = np.bincount(place, minlength=bins).astype(float)
    filled = rows > 0
    mean = np.bincount(place, weights=score, minlength=bins)[filled] / rows[filled]
    share = np.bincount(place, weights=truth, minlength=bins)[filled] / rows[filled]
    return mean, share, rows[filled]


def calibration_error(p: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> float:
    """Return the expected calibration error: the bins' |mean probability − share of yes|, by their rows."""
    mean, share, rows = calibration(p, labels, bins)
    return float(np.abs(mean - share) @ rows / rows.sum()) if len(rows) else np.nan


def probability_gap(p: npt.ArrayLike, groups: Any) -> float:
    """Return the demographic parity difference of the mean probability: largest group mean minus smallest."""
    score, (names, level) = np.asarray(p, float), levels_of(groups)
    means = [float(score[level == place].mean()) for place in range(len(names))]
    return max(means) - min(means) if len(means) > 1 else np.nan


def equal_rate_thresholds(p: npt.ArrayLike, labels: npt.ArrayLike, groups: Any) -> dict[str, float]:
    """Return one threshold per group that give all groups the same rate of yes, as accurately as possible.

    Every common rate k/n is tried; a group's threshold is then its own quantile. Fit on some rows, use on
    others (`held_out_equal_rates`): on the rows they were fitted on, the rates are equal by construction,
    but for ties and for what does not divide.
    """
    score, truth, (names, level) = np.asarray(p, float), np.asarray(labels, float), levels_of(groups)
    rates = np.linspace(0.0, 1.0, len(score) + 1)
    right = np.zeros(len(rates))
    thresholds = np.empty((len(names), len(rates)))
    for index in range(len(names)):
        here, yes = score[level == index], truth[level == index] == 1
        edges = np.concatenate([[np.inf], np.sort(here)[::-1]])
        thresholds[index] = edges[np.rint(rates * len(here)).astype(np.intp)]
        right += _at_least(here[yes], thresholds[index]) - _at_least(here[~yes], thresholds[index])
    choice = int(np.argmax(right))
    return {name: float(thresholds[index, choice]) for index, name in enumerate(names)}


def _at_least(score: Floats, thresholds: Floats) -> Floats:
    """How many scores reach each threshold (its length)."""
    return len(score) - np.searchsorted(np.sort(score), thresholds, side="left").astype(float)


def held_out_equal_rates(
    p: npt.ArrayLike, labels: npt.ArrayLike, groups: Any, rows: npt.ArrayLike, seed: int = 0
) -> Floats:
    """Return answers (n,) from per-group thresholds, each row's fitted on the half that it is not in.

    Rows are split in two within group and label; all questions about one row stay in one half. A group that
    the fitting half does not have is left unanswered (NaN).
    """
    score, truth, level = np.asarray(p, float), np.asarray(labels, float), as_names(groups)
    half = two_halves(truth, level, rows, seed)
    answers = np.full(len(score), np.nan)
    for side in (0, 1):
        fitting, using = half != side, half == side
        fitted = (
            equal_rate_thresholds(score[fitting], truth[fitting], level[fitting]) if fitting.any() else {}
        )
        for name, threshold in fitted.items():
            here = using & (level == name)
            answers[here] = score[here] >= threshold
    return answers
