"""Answers of a model that are (nearly) all alike, and how its P(yes) ranks the rows.

A model that says no to everybody treats all groups alike, whatever its P(yes) says of them: its gap says
nothing about the model. Where P(yes) is known, centring shows how rows are ranked, without labels: yes where
the log-odds lie above their mean over the arm's rows. That makes about half of all answers yes, whatever the
share of true yes, so it is a diagnostic that no gate reads; `--threshold fit` chooses a threshold by labels.
Batch calibration (Zhou et al. 2024) divides by the mean of P(yes) instead. Real answers do not tell the two
rules apart; where P(yes) crowds near 0 or 1, its mean follows the few rows in the tail, that of log-odds does
not.
"""

from typing import Any

import numpy as np
from scipy.special import logit

from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.intervals import LEVEL, Z
from fwc_llm.metrics.variance import ArmArrays, area, codes

DRAWS = 1000
_BLOCK = 4_000_000  # weights of rows that are held at once
_LEAST = 1e-9  # of P(yes), for its log-odds


def centred(sample: ArmArrays, groups: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what answers by centred log-odds would be; None where P(yes) is unknown or the same for all.

    Keys: `rows`, `auc` (of P(yes)), `accuracy` and `gap`, each with 95 % limits, and the groups' `rates` of
    yes. Limits are percentiles of the bootstrap of rows (people), which recomputes the centre.
    """
    known = np.flatnonzero(~np.isnan(np.nan if sample.p_yes is None else sample.p_yes))
    if sample.p_yes is None or not len(known) or not sample.design.labelled:
        return None
    p, label, group = sample.p_yes[known], sample.label[known], sample.group[known]
    odds = logit(np.clip(p, _LEAST, 1 - _LEAST))
    if np.ptp(odds) < _LEAST or not 0 < label.sum() < len(label):
        return None
    weight = np.ones(len(known)) if sample.weight is None else sample.weight[known]
    members = (group[:, None] == np.arange(sample.groups)).astype(np.float64)
    unit = codes(sample.unit[known])
    units, rng = int(unit.max()) + 1, np.random.default_rng(0)

    def measured(weights: Floats) -> Floats:
        """The groups' rates of yes, then the accuracy (D, G + 1), under weights (D, n) of rows."""
        total = weights.sum(1, keepdims=True)
        yes = odds > weights @ odds[:, None] / total
        with np.errstate(invalid="ignore"):
            rates = (weights * yes) @ members / (weights @ members)
        return np.hstack([rates, (weights * (yes == label)).sum(1, keepdims=True) / total])

    block = max(1, _BLOCK // len(known))
    sizes = [min(block, DRAWS - start) for start in range(0, DRAWS, block)]
    times = (rng.multinomial(units, np.full(units, 1 / units), size) for size in sizes)
    drawn = np.concatenate([measured(weight * drawn[:, unit]) for drawn in times])
    (value,) = measured(weight[None])
    auc, psi = area(p, label, weight)
    reach = Z * float(np.sqrt((np.bincount(unit, psi) ** 2).sum()))
    low, high = np.quantile(drawn[:, -1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {
        "rows": len(np.unique(sample.row[known])),
        "auc": _ends(auc, max(0.0, auc - reach), min(1.0, auc + reach)),
        "accuracy": _ends(float(value[-1]), low, high),
        "gap": _gap(value[sample.eligible_groups], drawn[:, sample.eligible_groups]),
        "rates": dict(zip(groups, value[:-1].tolist(), strict=True)),
    }


def _gap(rates: Floats, drawn: Floats) -> dict[str, float]:
    """The largest gap of rates (G,) with limits from draws (D, G) that hold for all pairs together."""
    if len(rates) < 2:
        return _ends(np.nan, np.nan, np.nan)
    first, second = np.triu_indices(len(rates), 1)
    tail = (1 - LEVEL) / 2 / len(first)
    low, high = np.nanquantile(drawn[:, second] - drawn[:, first], [tail, 1 - tail], axis=0)
    value = float(np.ptp(rates))
    least = float(np.maximum(np.maximum(low, -high), 0.0).max())
    return _ends(value, min(value, least), max(value, float(np.maximum(high, -low).max())))


def _ends(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}
