"""Metrics and rates of random tables, weighted and not, beside fairlearn's."""

import warnings

import fairlearn.metrics as fairlearn
import numpy as np

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.variance import arrays_of

NUMBERS = 840
_RATES = {
    "selection_rate": fairlearn.selection_rate,
    "true_positive_rate": fairlearn.true_positive_rate,
    "false_positive_rate": fairlearn.false_positive_rate,
}


def farthest(numbers: int = NUMBERS) -> float:
    """Return the largest difference between so many of our numbers and fairlearn's."""
    differences: list[float] = []
    rng = np.random.default_rng(0)
    while len(differences) < numbers:
        levels = int(rng.integers(2, 5))
        n = int(rng.integers(60, 160))
        groups = np.array([f"g{level}" for level in rng.integers(0, levels, n)])
        predicted = rng.integers(0, 2, n).astype(float)
        labels = rng.integers(0, 2, n)
        if rng.random() < 0.5:
            weight = rng.uniform(0.2, 5.0, n)
        else:
            weight = None
        if weight is None:
            weights = None
        else:
            weights = {name: {"sample_weight": weight} for name in _RATES}
        with warnings.catch_warnings(action="ignore"):
            frame = fairlearn.MetricFrame(
                metrics=_RATES,
                y_true=labels,
                y_pred=predicted,
                sensitive_features=groups,
                sample_params=weights,
            )
        gap = frame.difference()
        theirs = {
            "dp_gap": gap["selection_rate"],
            "dp_ratio": frame.ratio()["selection_rate"],
            "eo_gap": max(gap["true_positive_rate"], gap["false_positive_rate"]),
            "tpr_gap": gap["true_positive_rate"],
            "fpr_gap": gap["false_positive_rate"],
        }
        found = ArmEstimates(arrays_of(predicted, labels, groups, weight)[0])
        differences += [found[name].value - value for name, value in theirs.items()]
        for rate in _RATES:
            differences += (
                found.counted(rate).values - frame.by_group[rate].to_numpy()
            ).tolist()
    return float(np.abs(differences[:numbers]).max())
