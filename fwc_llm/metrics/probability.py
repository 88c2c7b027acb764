"""What P(yes) adds, for the arms whose model gave it."""

from dataclasses import replace
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers, samples_of
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.calibration import calibrate
from fwc_llm.metrics.counts import Floats, count_cells, levels_of, overall
from fwc_llm.metrics.probabilities import (
    auc,
    brier,
    calibration,
    calibration_error,
    held_out_equal_rates,
    probability_gap,
)
from fwc_llm.metrics.thresholds import (
    HALF,
    Curve,
    at_base_rate,
    held_out,
    least_gap,
    least_gap_keeping_half,
    most_accurate,
    threshold_curve,
)

_POINTS = 60  # of the frontier, evenly thinned
_CURVE_POINTS = 200  # of the curve, evenly thinned; choices are made on all


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
    mean, share, rows = calibration(p, labels)
    return {
        "n": len(known),
        "coverage": len(known) / len(a),
        "coverage_by_group": {
            name: float((~np.isnan(a.p_yes[a.group == name])).mean()) for name in levels_of(a.group)[0]
        },
        "auc": auc(p, labels),
        "brier": brier(p, labels),
        "calibration_error": calibration_error(p, labels),
        "calibration": {"mean": mean.tolist(), "share": share.tolist(), "rows": rows.tolist()},
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
        "calibration_of_all": _calibration(known, labels_fixed),
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
