"""What P(yes) adds: ranking, calibration, thresholds, and what equal rates would cost.

Probabilities `p` (n,) are shares; rows without one are left out before. Rows that are asked about in several
repeats count once in intervals and bins (docs/statistics.md, "P(yes)").
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fwc_llm.metrics.answers import Answers, as_names, samples_of
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.counts import Floats, count_cells, levels_of, overall
from fwc_llm.metrics.intervals import Z, clopper_pearson
from fwc_llm.metrics.thresholds import (
    HALF,
    Curve,
    at_base_rate,
    held_out,
    least_gap,
    least_gap_keeping_half,
    most_accurate,
    threshold_curve,
    two_halves,
)  # fmt: skip
from fwc_llm.metrics.variance import area

_POINTS = 60  # of the frontier, evenly thinned
_CURVE_POINTS = 200  # of the curve, evenly thinned; choices are made on all
BINS = 10
_SIMULATIONS = 200
_AT_ONCE = 4_000_000  # uniform numbers
_MOST_DRAWN = 100_000  # rows whose labels are drawn one by one
_NORMAL_DRAWS = 10_000


def probability_statistics(a: Answers, order: tuple[str, ...], labels_fixed: bool) -> dict[str, Any] | None:
    """Return ranking, calibration and thresholds over the rows with a probability; None without any.

    All repeats together: a threshold is one for the whole run. `coverage` is the share of all rows that
    have a probability. The frontier holds the thresholds that no other beats on both accuracy and
    demographic parity. `order` are the groups as they are shown, `labels_fixed` whether the design fixed how
    many rows of each have the label yes.
    """
    known = a.where(~np.isnan(a.p_yes))
    if not len(known):
        return None
    p, labels, groups = known.p_yes, known.label, known.group
    curve = threshold_curve(p, labels, groups)
    best = np.flatnonzero(curve.best)
    best = best[np.argsort(curve.gap[best], kind="stable")]
    best = best[np.unique(np.linspace(0, len(best) - 1, _POINTS).astype(np.intp))]
    equal = held_out_equal_rates(p, labels, groups, levels_of(known.row)[1])
    measured = overall(count_cells(equal, labels, groups, repeats=known.repeat).counts)
    of_all = _calibration(known, labels_fixed)
    bins = of_all["bins"]
    return {
        "n": len(known),
        "coverage": len(known) / len(a),
        "coverage_by_group": {
            name: float((~np.isnan(a.p_yes[a.group == name])).mean()) for name in levels_of(a.group)[0]
        },
        "auc": auc(p, labels),
        "brier": brier(p, labels),
        "calibration_error": of_all["error"],
        "calibration": {
            "mean": bins["mean"],
            "share": bins["share"],
            "rows": [float(n) for n in bins["questions"]],
        },
        "mean_probability_gap": probability_gap(p, groups),
        "frontier": {
            "threshold": curve.thresholds[best].tolist(),
            "accuracy": curve.accuracy[best].tolist(),
            "demographic_parity_difference": curve.gap[best].tolist(),
        },
        "equal_rate_thresholds": {
            "accuracy": float(measured["accuracy"][0]),
            "demographic_parity_difference": float(measured["demographic_parity_difference"][0]),
            "coverage": float(measured.coverage[0]),
        },
        "labels_fixed": labels_fixed,
        "calibration_of_all": of_all,
        "calibration_by_group": {
            name: _calibration(known.where(groups == name), labels_fixed)
            for name in order
            if (groups == name).any()
        },
        "thresholds": _thresholds(known, curve, order, labels_fixed),
    }


def _calibration(a: Answers, labels_fixed: bool) -> dict[str, Any]:
    """Stated against true shares, in the large and by bins; limits are over rows."""
    label = a.label.astype(np.float64)
    strata = np.zeros(len(a), dtype=np.intp)
    if labels_fixed:
        strata = 2 * levels_of(a.group)[1] + a.label
    found = calibrate(a.p_yes, label, levels_of(a.row)[1], strata)
    return {
        "n": len(a),
        **{name: value for name, value in vars(found).items() if name != "bins"},
        "bins": {name: values.tolist() for name, values in vars(found.bins).items()},
    }


def _thresholds(a: Answers, curve: Curve, order: tuple[str, ...], labels_fixed: bool) -> dict[str, Any]:
    """Accuracy, rates and gap by threshold, and the thresholds that somebody may want.

    Only that of one half was known beforehand, so that it alone has limits. The others were chosen on these
    very rows and look better here than elsewhere. `least_gap_keeping_half` keeps half of what the most
    accurate one gains over one answer for all. `held_out` is what that one becomes where each row's threshold
    was chosen on the half of the rows that it is not in.
    """
    chosen: dict[str, int | None] = {
        "one_half": curve.place(HALF),
        "most_accurate": most_accurate(curve),
        "base_rate": at_base_rate(curve),
        "least_gap_keeping_half": least_gap_keeping_half(curve),
        "least_gap": least_gap(curve),
    }
    shown = np.unique(np.linspace(0, len(curve.thresholds) - 1, _CURVE_POINTS).astype(np.intp))
    shown = np.union1d(shown, [place for place in chosen.values() if place is not None])
    held = held_out(least_gap_keeping_half, a.p_yes, a.label, a.group, levels_of(a.row)[1])
    measured = overall(count_cells(held, a.label, a.group, order, a.repeat).counts)
    return {
        "base_rate": curve.base_rate,
        "constant_accuracy": max(curve.base_rate, 1.0 - curve.base_rate),
        "different_values": len(curve.thresholds) - 1,
        "chosen": {name: None if place is None else _point(curve, place) for name, place in chosen.items()}
        | {"one_half": _at(curve, HALF)},
        "tenths": [_at(curve, tenth / 10) for tenth in range(1, 10)],
        "one_half_limits": _limits((a.p_yes >= HALF).astype(np.float64), a, order, labels_fixed),
        "held_out": {
            "accuracy": float(measured["accuracy"][0]),
            "demographic_parity_difference": float(measured["demographic_parity_difference"][0]),
            "coverage": float(measured.coverage[0]),
        },
        "curve": {
            "threshold": curve.thresholds[shown].tolist(),
            "accuracy": curve.accuracy[shown].tolist(),
            "share": curve.share[shown].tolist(),
            "demographic_parity_difference": curve.gap[shown].tolist(),
            "rates": {name: curve.rates[shown, curve.groups.index(name)].tolist() for name in curve.groups},
        },
    }


def _point(curve: Curve, place: int) -> dict[str, Any]:
    return {
        "threshold": float(curve.thresholds[place]),
        "accuracy": float(curve.accuracy[place]),
        "demographic_parity_difference": float(curve.gap[place]),
        "share": float(curve.share[place]),
        "rates": dict(zip(curve.groups, curve.rates[place].tolist(), strict=True)),
        "ties": int(curve.ties[place]),
    }


def _at(curve: Curve, threshold: float) -> dict[str, Any]:
    """A threshold that need not be a value of P(yes)."""
    point = _point(curve, curve.place(threshold))
    return point | {"threshold": threshold, "ties": curve.ties_at(threshold)}


def _limits(answer: Floats, a: Answers, order: tuple[str, ...], labels_fixed: bool) -> dict[str, Any]:
    """Limits of accuracy and gap of answers at a threshold that no row chose, as of the arms' own."""
    found = estimate(samples_of({"": replace(a, answer=answer)}, order, labels_fixed)[""])
    metrics = "accuracy", "demographic_parity_difference"
    return {
        "of": found.of,
        **{name: [found[name].low, found[name].high] for name in metrics},
    }


def auc(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the area under the ROC curve: the chance that a yes ranks above a no, ties counting half."""
    score, truth = np.asarray(p, float), (np.asarray(labels) == 1).astype(np.int64)
    return area(score, truth, np.ones(len(score)))[0] if 0 < truth.sum() < len(truth) else np.nan


def brier(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean squared distance between probability and label; 0.25 is a coin's."""
    score, truth = np.asarray(p, float), np.asarray(labels, float)
    return float(np.mean((score - truth) ** 2)) if len(score) else np.nan


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


@dataclass(frozen=True)
class Bins:
    """The non-empty bins (B,) of equal width: lower edge, questions, rows, mean P(yes), share of yes."""

    start: Floats
    questions: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    mean: Floats
    share: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Calibration:
    """How P(yes) of some rows compares with their labels.

    `difference` is the mean P(yes) less the share of label yes ("in the large"), with 95 % limits. `error` is
    the expected calibration error of the bins. It is never negative, and noise adds to it: P(yes) that is
    calibrated has `expected` on average, and more than `noise_95` in 1 of 20 samples of this size.
    """

    bins: Bins
    mean: float
    share: float
    difference: float
    low: float
    high: float
    error: float
    expected: float
    noise_95: float


def calibrate(
    p: Floats, labels: Floats, rows: npt.NDArray[np.int64], strata: npt.NDArray[np.intp]
) -> Calibration:
    """Return the calibration of n > 0 answers: `p` (n,), `labels` 1 or 0, `rows` numbers from 0.

    `strata` (n,) numbers what the design fixed: the label where it set base rates, else all 0.
    """
    _, row = np.unique(rows, return_inverse=True)
    difference = float(np.mean(p - labels))
    reach = Z * float(np.sqrt(_variance(p - labels, row, strata)))
    place = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    bins = _bins(p, labels, row, place)
    expected, noise = _by_chance(p, row, place)
    return Calibration(
        bins=bins,
        mean=float(p.mean()),
        share=float(labels.mean()),
        difference=difference,
        low=max(-1.0, difference - reach),
        high=min(1.0, difference + reach),
        error=float(np.abs(bins.mean - bins.share) @ bins.questions / len(p)),
        expected=expected,
        noise_95=noise,
    )


def _variance(off: Floats, row: npt.NDArray[np.intp], strata: npt.NDArray[np.intp]) -> float:
    """The variance of a mean over rows, as of the difference of two arms: two pseudo-rows in each stratum.

    With them no variance is 0, however alike a few rows are (after Agresti & Min 2005).
    """
    total = 0.0
    for stratum in np.unique(strata):
        here = strata == stratum
        units, code = np.unique(row[here], return_inverse=True)
        k, weight = len(units), here.mean()
        own = np.bincount(code, off[here] - off[here].mean()) / len(off)
        spread = k / (k - 1) * float(own @ own) if k > 1 else weight**2
        total += spread + 2.0 * weight * (weight / k) ** 2
    return total


def _bins(p: Floats, labels: Floats, row: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> Bins:
    questions = np.bincount(place, minlength=BINS)
    filled = np.flatnonzero(questions)
    # A row counts once in a bin, whatever the number of its questions there: its label is the same in all.
    pairs, often = np.unique(row * BINS + place, return_counts=True)
    squares = np.bincount(pairs % BINS, often.astype(float) ** 2, BINS)[filled]
    size = questions[filled].astype(float)
    share = np.bincount(place, labels, BINS)[filled] / size
    low, high = clopper_pearson(share, size**2 / squares)
    return Bins(
        start=filled / BINS,
        questions=questions[filled],
        rows=np.bincount(pairs % BINS, minlength=BINS)[filled],
        mean=np.bincount(place, p, BINS)[filled] / size,
        share=share,
        low=np.minimum(low, share),
        high=np.maximum(high, share),
    )


def _by_chance(p: Floats, row: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> tuple[float, float]:
    """The mean and the 95th percentile of the error of labels that are yes as often as P(yes) says.

    With more than `_MOST_DRAWN` rows, each asked about once, a bin's number of yes is drawn as a normal
    variable. The difference is far below that between two sets of 200 drawn tables.
    """
    number = int(row.max()) + 1
    if number == len(p) > _MOST_DRAWN:
        deviation = np.sqrt(np.bincount(place, p * (1.0 - p), BINS))
        drawn_off = np.random.default_rng(0).standard_normal((_NORMAL_DRAWS, BINS)) * deviation
        away = np.abs(drawn_off).sum(1) / len(p)
        return float(away.mean()), float(np.quantile(away, 0.95))
    order = np.argsort(place, kind="stable")
    said, unit = p[order], row[order]
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    stated = np.add.reduceat(said, starts)
    rng = np.random.default_rng(0)
    errors: list[Floats] = []
    while (done := sum(map(len, errors))) < _SIMULATIONS:
        size = min(_SIMULATIONS - done, max(1, _AT_ONCE // len(p)))
        uniform = rng.random((size, number))
        drawn = (uniform if number == len(p) else uniform[:, unit]) < said
        yes = np.add.reduceat(drawn, starts, axis=1, dtype=np.int64)
        errors.append(np.abs(yes - stated).sum(1) / len(p))
    found = np.concatenate(errors)
    return float(found.mean()), float(np.quantile(found, 0.95))
