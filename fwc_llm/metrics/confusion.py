"""Each group's confusion matrix, its true and false positive rates and its precision, with intervals."""

import math
from typing import Any

import numpy as np

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.estimates import Rates, estimate, ratios_of_pairs, share_limits
from fwc_llm.metrics.reweighting import Population, joint_rates, rates_by_label
from fwc_llm.metrics.sample import Codes, Sample
from fwc_llm.metrics.shares import Shares, count_shares
from fwc_llm.metrics.views import View

_RATES = ("true_positive_rate", "false_positive_rate", "precision")
_WHY = {
    "true_positive_rate": "0/0: no parsed answer to a row with label yes",
    "false_positive_rate": "0/0: no parsed answer to a row with label no",
    "precision": "0/0: no row was answered yes",
}
_Limits = tuple[Floats, Floats, Floats]  # values, lower and upper limits (L,)


def confusion(
    sample: Sample, view: View, designed: bool, cells: Shares | None, population: Population | None
) -> dict[str, Any]:
    """Return of every level the counts of its parsed answers, its rates and its precision, for JSON.

    `sample` has the levels for groups, `cells` are the shares of each of the run's own groups and labels. In
    a designed sample rates are re-weighted to `population`; without one those that rest on the design's own
    mix of labels, or of groups, are None.
    """
    cell = (2 * sample.cell + sample.yes.astype(np.int64))[sample.parsed]
    counts = np.bincount(cell, minlength=4 * len(view.levels)).reshape(-1, 2, 2)
    measured = _designed(sample, view, cells, population) if designed else _as_drawn(sample)
    return {
        name: _counted(counts[place]) | _described(measured, place) for place, name in enumerate(view.levels)
    }


def _counted(counts: Codes) -> dict[str, Any]:
    (true_no, false_yes), (false_no, true_yes) = counts.astype(int).tolist()
    return {
        "true_positives": true_yes,
        "false_positives": false_yes,
        "false_negatives": false_no,
        "true_negatives": true_no,
    }


def _described(measured: dict[str, _Limits | str], place: int) -> dict[str, Any]:
    described: dict[str, Any] = {"reasons": {}}
    for name in _RATES:
        found = measured[name]
        numbers = (math.nan,) * 3 if isinstance(found, str) else tuple(float(part[place]) for part in found)
        described |= dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))
        if math.isnan(numbers[0]):
            described["reasons"][name] = found if isinstance(found, str) else _WHY[name]
    return described


def _as_drawn(sample: Sample) -> dict[str, _Limits | str]:
    """Labels as they came: every rate is a share of the rows that it speaks of."""
    found = estimate(sample)
    said_yes = sample.parsed & (sample.yes == 1)
    right = (sample.label == 1).astype(np.float64)
    counted = count_shares(sample, said_yes, right, sample.group, sample.groups, False)
    return {
        "true_positive_rate": _of(found.true_positive_rates),
        "false_positive_rate": _of(found.false_positive_rates),
        "precision": _of(share_limits(sample, counted)),
    }


def _designed(
    sample: Sample, view: View, cells: Shares | None, population: Population | None
) -> dict[str, _Limits | str]:
    if population is None or cells is None:
        why = "withheld: it rests on the design's own mix of labels, and the table's is not known"
        if len(view.levels) < len(view.level_of):
            mixed = "withheld: it rests on the design's own mix of groups, and the table's is not known"
            return {**dict.fromkeys(_RATES[:2], mixed), "precision": why}
        return {**_as_drawn(sample), "precision": why}
    by_label = share_limits(sample, rates_by_label(cells, view, population))
    return {
        "true_positive_rate": _of(by_label.every_second(1)),
        "false_positive_rate": _of(by_label.every_second(0)),
        "precision": _precision(sample, joint_rates(cells, view, population)),
    }


def _precision(sample: Sample, joint: Shares) -> _Limits:
    """From the shares rightly and wrongly answered yes: r / (1 + r), with the limits of their ratio r."""
    wrong = np.arange(0, len(joint.values), 2)
    right = wrong + 1
    under, over = ratios_of_pairs(sample, joint, right, wrong)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = joint.values[right] / (joint.values[right] + joint.values[wrong])
    undefined = np.isnan(value)
    low = np.where(undefined, np.nan, np.minimum(under / (1 + under), value))
    high = np.where(undefined, np.nan, np.maximum(1 / (1 + over), value))
    return value, low, high


def _of(rates: Rates) -> _Limits:
    return rates.values, rates.low, rates.high
