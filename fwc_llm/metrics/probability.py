"""What P(yes) adds, for the arms whose model gave it."""

from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.cells import count_cells, overall
from fwc_llm.metrics.probabilities import (
    auc,
    brier,
    calibration,
    calibration_error,
    held_out_equal_rates,
    probability_gap,
)
from fwc_llm.metrics.thresholds import threshold_curve

_POINTS = 60  # of the frontier, evenly thinned


def probability_statistics(a: Answers) -> dict[str, Any] | None:
    """Return ranking, calibration and thresholds over the rows with a probability; None without any.

    All repeats together: a threshold is one for the whole run. `coverage` is the share of all rows that
    have a probability. The frontier holds the thresholds that no other beats on both accuracy and
    demographic parity.
    """
    known = a.where(~np.isnan(a.p_yes))
    if not len(known):
        return None
    p, labels, groups = known.p_yes, known.label, known.group
    curve = threshold_curve(p, labels, groups)
    best = np.flatnonzero(curve.best)
    best = best[np.argsort(curve.gap[best], kind="stable")]
    best = best[np.unique(np.linspace(0, len(best) - 1, _POINTS).astype(np.intp))]
    equal = held_out_equal_rates(p, labels, groups, known.row)
    measured = overall(count_cells(equal, labels, groups, repeats=known.repeat).counts)
    mean, share, rows = calibration(p, labels)
    return {
        "n": len(known),
        "coverage": len(known) / len(a),
        "coverage_by_group": {
            str(name): float((~np.isnan(a.p_yes[a.group == name])).mean()) for name in np.unique(a.group)
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
            "accuracy": float(measured.accuracy[0]),
            "demographic_parity_difference": float(measured.demographic_parity_difference[0]),
            "coverage": float(measured.coverage[0]),
        },
    }
