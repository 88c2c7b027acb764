"""What one threshold on P(yes), the same for all groups, would answer: every one that changes an answer.

    curve = threshold_curve(p, labels, groups)
    place = most_accurate(curve)  # or least_gap(curve), at_base_rate(curve), curve.place(0.5)
    curve.thresholds[place], curve.accuracy[place], curve.gap[place], curve.ties[place]

Thresholds are the values of P(yes) themselves, so nothing lies between two points of a curve. A threshold
that was chosen on some rows looks better on them than on others (`held_out`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import as_names
from fwc_llm.metrics.counts import Floats, group_order, levels_of

HALF = 0.5  # the threshold where nothing else is said

Mask = npt.NDArray[np.bool_]
_DIGITS = 12  # equal shares may differ in their last bit


@dataclass(frozen=True)
class Curve:
    """T thresholds, ascending: the answer is yes where p ≥ threshold; the last is infinite, no to all.

    `accuracy` (T,), `share` (T,) the rate of yes of all rows, `rates` (T, G) of each of the `groups`, `gap`
    (T,) the largest less the smallest of them (NaN for one group). `ties` (T,) counts the rows that lie
    exactly at a threshold: their answer is yes, and another rule for ties would make it no. `base_rate` is
    the share of label yes. Shares are weighted where weights were given; `ties` are rows.
    """

    thresholds: Floats
    accuracy: Floats
    share: Floats
    rates: Floats
    gap: Floats
    ties: npt.NDArray[np.int64]
    base_rate: float
    groups: tuple[str, ...]

    def place(self, threshold: float) -> int:
        """Where a threshold, whatever its value, stands: the point with the same answers."""
        return int(np.searchsorted(self.thresholds, threshold, side="left"))

    def ties_at(self, threshold: float) -> int:
        """How many rows lie exactly at a threshold."""
        place = self.place(threshold)
        return int(self.ties[place]) if self.thresholds[place] == threshold else 0

    @property
    def mixed(self) -> Mask:
        """The thresholds (T,) that answer some rows yes and some no."""
        return (self.share > 0.0) & (self.share < 1.0)

    @property
    def best(self) -> Mask:
        """The thresholds (T,) that no other beats on both accuracy and gap."""
        best = np.zeros(len(self.thresholds), dtype=bool)
        reached = -1.0
        order = np.lexsort((-self.accuracy, self.gap.round(_DIGITS)))
        accuracy = self.accuracy[order]
        before = np.maximum.accumulate(np.append(reached, accuracy[:-1]))
        rising = accuracy > before  # the others are beaten by an earlier one
        for place, one in zip(order[rising].tolist(), accuracy[rising].tolist(), strict=True):
            if one > reached + 10.0**-_DIGITS:
                best[place], reached = True, one
        return best


def threshold_curve(
    p: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    weights: npt.ArrayLike | None = None,
    order: tuple[str, ...] | None = None,
) -> Curve:
    """Return what every threshold on `p` (n,) answers, in one pass over the sorted values.

    `labels` (n,) are 1 or 0, `groups` (n,) names, `weights` (n,) what a row counts for (default: 1). `order`
    names the groups in the order wanted. Raises `FwcError` for arrays that do not fit, no rows, a `p` that is
    missing or outside [0, 1], and weights that are negative or all 0.
    """
    score, truth, weight = np.asarray(p, float), np.asarray(labels, float), _weights(weights, p)
    shape = np.shape(groups)
    if not score.shape == truth.shape == shape == weight.shape or score.ndim != 1 or not len(score):
        shapes = f"{score.shape}, {truth.shape}, {shape}, {weight.shape}"
        raise FwcError(f"P(yes), labels, groups and weights must be lists of one length, not {shapes}")
    if not ((score >= 0.0) & (score <= 1.0)).all():
        raise FwcError("P(yes) must be numbers from 0 to 1: leave out the rows without one")
    if not np.isin(truth, (0.0, 1.0)).all():
        raise FwcError("a label is 1 (yes) or 0 (no): something else was given")
    levels, code = levels_of(groups)
    names = group_order(levels, order)
    values, place, ties = np.unique(score, return_inverse=True, return_counts=True)
    # Group by group: a column each for all groups and labels together takes several times as much memory.
    rates = np.full((len(values) + 1, len(names)), np.nan)
    of_label, totals = np.zeros((2, len(values) + 1)), np.zeros((len(names), 2))
    for number, name in enumerate(names):
        yes = np.zeros((2, len(values) + 1))  # of the group, answered yes at each threshold, by label
        for label in (0, 1) if name in levels else ():
            here = (code == levels.index(name)) & (truth == label)
            counts = np.bincount(place[here], weight[here], len(values))
            yes[label, :-1] = counts[::-1].cumsum()[::-1]
        totals[number] = yes[:, 0]
        of_label += yes
        if totals[number].any():
            rates[:, number] = (yes[0] + yes[1]) / totals[number].sum()
    total, no = totals.sum(), totals[:, 0].sum()
    return Curve(
        thresholds=np.append(values, np.inf),
        accuracy=(of_label[1] + (no - of_label[0])) / total,
        share=(of_label[0] + of_label[1]) / total,
        rates=rates,
        gap=rates.max(1) - rates.min(1) if len(names) > 1 else np.full(len(rates), np.nan),
        ties=np.append(ties, 0).astype(np.int64),
        base_rate=float(totals[:, 1].sum() / total),
        groups=tuple(names),
    )


def _weights(weights: npt.ArrayLike | None, p: npt.ArrayLike) -> Floats:
    found = np.ones(np.shape(p)) if weights is None else np.asarray(weights, float)
    if not np.isfinite(found).all() or (found < 0).any() or (found.size and not found.any()):
        raise FwcError("weights must be numbers of 0 or more, and not all 0")
    return found


def most_accurate(curve: Curve) -> int:
    """Return the place of the most accurate threshold; of equal ones that of the least gap, near one half.

    It may be one that answers all rows alike: the first (yes to all) or the last (no to all).
    """
    everywhere = np.arange(len(curve.thresholds))
    return _least(everywhere, -curve.accuracy.round(_DIGITS), curve.gap.round(_DIGITS), _from_half(curve))


def least_gap(curve: Curve, least_accuracy: float = 0.0) -> int | None:
    """Return the place of the threshold with the least gap; of equal ones that of the most accurate.

    Thresholds that answer all rows alike have no gap and are no choice; nor are those less accurate than
    `least_accuracy`. None where nothing is left, and where there is one group.
    """
    allowed = curve.mixed & ~np.isnan(curve.gap) & (curve.accuracy > least_accuracy - 10.0**-_DIGITS)
    if not allowed.any():
        return None
    keys = curve.gap.round(_DIGITS), -curve.accuracy.round(_DIGITS), _from_half(curve)
    return _least(np.flatnonzero(allowed), *keys)


def least_gap_keeping_half(curve: Curve) -> int | None:
    """Return the place of the least gap that keeps half of what the most accurate threshold gains.

    The gain is over one answer for all; None where there is none.
    """
    constant, top = max(curve.base_rate, 1.0 - curve.base_rate), float(curve.accuracy[most_accurate(curve)])
    return least_gap(curve, (constant + top) / 2) if top > constant + 10.0**-_DIGITS else None


def at_base_rate(curve: Curve, base_rate: float | None = None) -> int:
    """Return the place of the threshold whose rate of yes is nearest to the share of label yes.

    `base_rate` takes the place of that share, where another is known.
    """
    wanted = curve.base_rate if base_rate is None else base_rate
    off = np.abs(curve.share - wanted).round(_DIGITS)
    return _least(np.arange(len(off)), off, -curve.accuracy)


def _least(places: npt.NDArray[np.intp], *keys: Floats) -> int:
    """Return the first of `places` with the least key; of equal ones by the next key. NaN is the largest."""
    for key in keys:
        known = np.where(np.isnan(key[places]), np.inf, key[places])
        places = places[known == known.min()]
    return int(places[0])


def _from_half(curve: Curve) -> Floats:
    return np.abs(np.minimum(curve.thresholds, 2.0) - HALF)


def held_out(
    choose: Callable[[Curve], int | None],
    p: npt.ArrayLike,
    labels: npt.ArrayLike,
    groups: Any,
    rows: npt.ArrayLike,
    seed: int = 0,
) -> Floats:
    """Return answers (n,) at thresholds that `choose` finds, each row's on the half that it is not in.

    A half in which nothing can be chosen leaves the rows of the other unanswered (NaN).
    """
    score, truth, level = np.asarray(p, float), np.asarray(labels, float), as_names(groups)
    half = two_halves(truth, level, rows, seed)
    answers = np.full(len(score), np.nan)
    for side in (0, 1):
        fitting, using = half != side, half == side
        if not fitting.any() or not using.any():
            continue
        curve = threshold_curve(score[fitting], truth[fitting], level[fitting])
        if (place := choose(curve)) is not None:
            answers[using] = score[using] >= curve.thresholds[place]
    return answers


def two_halves(
    labels: npt.ArrayLike, groups: Any, rows: npt.ArrayLike, seed: int = 0
) -> npt.NDArray[np.intp]:
    """Return 0 or 1 for each answer (n,): rows are split in two within group and label.

    All questions about one row stay in one half.
    """
    truth, level = np.asarray(labels), levels_of(groups)[1]
    units, first, unit = np.unique(np.asarray(rows), return_index=True, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(units))
    by_cell = shuffled[np.lexsort((truth[first][shuffled], level[first][shuffled]))]
    half = np.empty(len(units), dtype=np.intp)
    half[by_cell] = np.arange(len(units)) % 2
    return half[unit]
