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

from fwc_llm.metrics.counts import Codes, Floats, levels_of
from fwc_llm.metrics.intervals import LEVEL, Z
from fwc_llm.metrics.variance import Sample, area

DRAWS = 1000
_BLOCK = 4_000_000  # weights of rows that are held at once
_LEAST = 1e-9  # of P(yes), for its log-odds


def all_alike(sample: Sample) -> str:
    """Return words for a model's answers that are (nearly) all alike; empty where they differ."""
    side = sample.all_alike
    if side is None:
        return ""
    known = sample.assumed.parsed
    rows = len(np.unique(sample.row[known]))
    rarer = len(np.unique(sample.row[known & (sample.assumed.answer != side)]))
    but = f"but {rarer} of " if rarer else ""
    return f"answered {'yes' if side else 'no'} to all {but}{rows:,} rows"


def alike_statistics(sample: Sample, groups: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what is said of answers all alike, for JSON; None where answers differ.

    Keys: `answer` ("yes" or "no"), `words`, and `centred`: None without P(yes), else `rows`, `auc`,
    `accuracy` and `gap` with 95 % limits, and the `rates` of yes of the groups.
    """
    if sample.all_alike is None:
        return None
    answer = "yes" if sample.all_alike else "no"
    return {"answer": answer, "words": all_alike(sample), "centred": centred(sample, groups)}


def centred(sample: Sample, groups: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what answers by centred log-odds would be; None where P(yes) is unknown or the same for all.

    Limits are percentiles of the bootstrap of rows (people), which draws the centre anew: within groups and
    labels where the design fixed these.
    """
    if sample.p_yes is None or not sample.labelled:
        return None
    known = np.flatnonzero(~np.isnan(sample.p_yes))
    odds = logit(np.clip(sample.p_yes[known], _LEAST, 1 - _LEAST))
    label, group = sample.label[known], sample.group[known]
    if not len(known) or np.ptp(odds) < _LEAST or not 0 < label.sum() < len(label):
        return None
    weight = np.ones(len(known)) if sample.weight is None else sample.weight[known]
    members = (group[:, None] == np.arange(sample.groups)).astype(np.float64)

    def measured(weights: Floats) -> tuple[Floats, Floats]:
        """The accuracy (D,) and the groups' rates of yes (D, G) under weights (D, n) of rows."""
        total = weights.sum(1)
        yes = odds > (weights @ odds / total)[:, None]
        with np.errstate(invalid="ignore"):
            rates = (weights * yes) @ members / (weights @ members)
        return (weights * (yes == label)).sum(1) / total, rates

    unit, stratum = levels_of(sample.unit[known])[1], sample.cell[known] * sample.labels_fixed
    rng, drawn = np.random.default_rng(0), list[tuple[Floats, Floats]]()
    block = max(1, _BLOCK // len(known))
    for start in range(0, DRAWS, block):
        times = _resampled(rng, unit, stratum, min(block, DRAWS - start))
        drawn.append(measured(weight * times[:, unit]))
    accuracy, rates = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    (value,), (own,) = measured(weight[None])
    area_value, psi = area(sample.p_yes[known], label, weight)
    reach = Z * float(np.sqrt((np.bincount(unit, psi) ** 2).sum()))
    ends = np.quantile(accuracy, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {
        "rows": len(np.unique(sample.row[known])),
        "auc": _ends(area_value, max(0.0, area_value - reach), min(1.0, area_value + reach)),
        "accuracy": _ends(float(value), *ends),
        "gap": _gap(own[sample.judged], rates[:, sample.judged]),
        "rates": dict(zip(groups, own.tolist(), strict=True)),
    }


def _resampled(rng: np.random.Generator, unit: Codes, stratum: Codes, draws: int) -> Floats:
    """How often each unit is drawn (D, U), within strata."""
    first = np.unique(unit, return_index=True)[1]
    of_unit, times = stratum[first], np.zeros((draws, len(first)))
    for each in np.unique(of_unit):
        units = np.flatnonzero(of_unit == each)
        times[:, units] = rng.multinomial(len(units), np.full(len(units), 1 / len(units)), draws)
    return times


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
