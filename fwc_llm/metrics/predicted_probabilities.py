"""Statistics of P(yes): ranking, calibration, thresholds, and warnings.

P(yes) `p` (n,) is from 0 to 1; callers leave out rows without P(yes). Values use the rows' weights;
in intervals a row, or a person, counts once (docs/statistics.md, "P(yes)").
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from fwc_llm.metrics import decision_thresholds as thresholds
from fwc_llm.metrics.arm_estimates import UNDEFINED, ArmEstimates, MetricEstimate
from fwc_llm.metrics.counts import Codes, Floats, levels_of
from fwc_llm.metrics.intervals import LEVEL, Z, clopper_pearson
from fwc_llm.metrics.run_answers import MIN_PROBABILITIES, ArmAnswers, RunAnswers, samples_of
from fwc_llm.metrics.sampling_design import AS_THEY_FALL, SamplingDesign
from fwc_llm.metrics.variance import ArmArrays, area, codes

BINS = 10
_DRAWS = 1000  # of the bootstrap
_WEIGHTS = 4_000_000  # weights in memory at once
_GAP = "dp_gap"
# range of P(yes) without dependence on rows: the step of services that round to 2 decimals
_STILL = 0.01
_STILL_ODDS = 0.1  # the same range of log-odds: small P(yes) may depend on the row
_ROUNDING = 1e-9
LEAST_CERTAIN = 0.01  # P(yes) below this value, or above 1 minus this value, counts as clipped


def probability_statistics(
    a: ArmAnswers, order: tuple[str, ...], design: SamplingDesign
) -> dict[str, Any] | None:
    """Return ranking, calibration and thresholds over at least ten answers with P(yes), else None.

    All repeats are pooled: a threshold is for the whole run.
    """
    known = a.where(~np.isnan(a.p_yes))
    if len(known) < MIN_PROBABILITIES:
        return None
    p = known.p_yes
    labels = known.label
    groups = known.group
    weight = known.weight
    of_all = calibrate(known, design)
    bins = of_all["bins"]
    return {
        "n": len(known),
        "coverage": len(known) / len(a),
        "coverage_by_group": {
            name: float((~np.isnan(a.p_yes[a.group == name])).mean())
            for name in levels_of(a.group)[0]
        },
        "clipped": float(np.mean((p < LEAST_CERTAIN) | (p > 1 - LEAST_CERTAIN))),
        "auc": area(p, labels, weight)[0] if np.ptp(labels) else np.nan,
        "brier": float(np.average((p - labels) ** 2, weights=weight)),
        "calibration_error": of_all["error"],
        "calibration": {
            **{name: bins[name] for name in ("mean", "share")},
            "rows": [float(n) for n in bins["questions"]],
        },
        "mean_probability_gap": probability_gap(p, groups, weight),
        "labels_fixed": design.labels_fixed,
        "calibration_of_all": of_all,
        "calibration_by_group": {
            name: calibrate(known.where(here), design)
            for name in order
            if (here := groups == name).any()
        },
        "thresholds": _thresholds(known, order, design),
    }


def _thresholds(a: ArmAnswers, order: tuple[str, ...], design: SamplingDesign) -> dict[str, Any]:
    """Return accuracy, rates and gap at candidate thresholds.

    Only 0.5 has limits: the others are chosen on the same rows, on which they look better than on
    new rows.
    """
    curve = thresholds.threshold_curve(a.p_yes, a.label, a.group, a.weight)
    chosen = {
        "one_half": thresholds.HALF,
        "most_accurate": float(curve.thresholds[thresholds.most_accurate(curve)]),
        "base_rate": float(curve.thresholds[thresholds.at_base_rate(curve)]),
    }
    at_half = replace(a, answer=(a.p_yes >= thresholds.HALF).astype(np.float64))
    half = ArmEstimates(samples_of({"": at_half}, order, replace(design, min_group=1))[""])
    return {
        "base_rate": curve.base_rate,
        "different_values": len(curve.thresholds) - 1,
        "chosen": {name: _point(curve, threshold) for name, threshold in chosen.items()},
        "one_half_limits": {
            "of": half.sample.scope,
            **{name: [half[name].low, half[name].high] for name in ("accuracy", _GAP)},
        },
    }


def _point(curve: thresholds.Curve, threshold: float) -> dict[str, Any]:
    """Results at a threshold, which need not be a point of the curve."""
    place = curve.place(threshold)
    return {
        "threshold": float(threshold),
        "accuracy": float(curve.accuracy[place]),
        _GAP: float(curve.gap[place]),
        "share": float(curve.share[place]),
        "rates": dict(zip(curve.groups, curve.rates[place].tolist(), strict=True)),
        "ties": int(curve.ties[place]) * bool(curve.thresholds[place] == threshold),
    }


def probability_gap(p: npt.ArrayLike, groups: Any, weights: Floats | None = None) -> float:
    """Return the largest minus the smallest mean P(yes) of the groups; NaN for one group."""
    score, (names, level) = np.asarray(p, float), levels_of(groups)
    means = np.bincount(level, score if weights is None else weights * score) / np.bincount(
        level, weights
    )
    if len(names) > 1:
        return float(np.ptp(means))
    return np.nan


def calibrate(a: ArmAnswers, design: SamplingDesign = AS_THEY_FALL) -> dict[str, Any]:
    """Return the calibration of answers that all have P(yes).

    `difference` is the mean P(yes) minus the share of label yes (calibration in the large), with 95
    % limits over rows or people, within groups and labels if the design fixed their numbers.
    `error` is the expected calibration error over the non-empty `bins`; noise raises it, the more
    the fewer rows there are.
    """
    p = a.p_yes
    labels = a.label.astype(np.float64)
    row = levels_of(a.row)[1]
    unit = levels_of(a.unit)[1]
    if design.labels_fixed:
        strata = 2 * levels_of(a.group)[1] + a.label
    else:
        strata = np.zeros(len(a), dtype=np.int64)
    if a.weight is None:
        weight = np.full(len(a), 1.0 / len(a))
    else:
        weight = a.weight / a.weight.sum()
    difference = float(weight @ (p - labels))
    reach = Z * float(np.sqrt(_variance(p - labels, weight, unit, strata)))
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return {
        "n": len(a),
        "bins": _bins(p, labels, weight, row, unit, place),
        "mean": float(weight @ p),
        "share": float(weight @ labels),
        "difference": difference,
        "low": max(-1.0, difference - reach),
        "high": min(1.0, difference + reach),
        "error": float(np.abs(np.bincount(place, weight * (p - labels))).sum()),
    }


def _variance(off: Floats, weight: Floats, unit: Codes, strata: Codes) -> float:
    """Return the variance of the mean of `off` over rows.

    Two added rows in each stratum keep it above 0 (after Agresti & Min 2005).
    """
    total = 0.0
    for stratum in np.unique(strata):
        here = strata == stratum
        units, code = np.unique(unit[here], return_inverse=True)
        k = len(units)
        part = float(weight[here].sum())
        own = np.bincount(code, weight[here] * (off[here] - weight[here] @ off[here] / part))
        if k > 1:
            spread = k / (k - 1) * float(own @ own)
        else:
            spread = part**2
        total += spread + 2.0 * part * (part / k) ** 2
    return total


def _bins(
    p: Floats, labels: Floats, weight: Floats, row: Codes, unit: Codes, place: Codes
) -> dict[str, list[Any]]:
    """Per bin: lower edge, questions, rows, mean P(yes), share of label yes, and its limits."""
    questions = np.bincount(place[weight > 0], minlength=BINS)
    filled = np.flatnonzero(questions)
    # Questions about one row have one label, so a row counts once in a bin.
    pairs, of = np.unique(unit * BINS + place, return_inverse=True)
    squares = np.bincount(pairs % BINS, np.bincount(of, weight) ** 2, BINS)[filled]
    size, yes, stated = (np.bincount(place, weight * x, BINS)[filled] for x in (1.0, labels, p))
    share = np.clip(yes / size, 0.0, 1.0)
    mean = stated / size
    low, high = clopper_pearson(share, size**2 / squares)
    rows = np.bincount(np.unique(row * BINS + place) % BINS, minlength=BINS)[filled]
    ends = np.minimum(low, share), np.maximum(high, share)
    names = "start", "questions", "rows", "mean", "share", "low", "high"
    columns = filled / BINS, questions[filled], rows, mean, share, *ends
    return {name: values.tolist() for name, values in zip(names, columns, strict=True)}


def decision_notes(run: RunAnswers) -> Iterator[str]:
    """Yield notes on the arms' P(yes): ties, too few values, and no dependence on the row."""
    for arm, a in run.answers.items():
        known = a.where(~np.isnan(a.p_yes))
        ties = known.p_yes == thresholds.HALF
        tied = int(ties.sum())
        if tied:
            count = f"{tied:,} of {len(known):,} P(yes)"
            if (known.answer[ties] == 1.0).all():
                counted = " and count as yes"
            else:
                counted = ""
            lie = "lies" if tied == 1 else "lie"
            yield f"{arm}: {count} {lie} exactly on the threshold {thresholds.HALF:g}{counted}."
        if 0 < len(known) < MIN_PROBABILITIES:
            few = f"{len(known)} of {len(a)} answers {'has' if len(known) == 1 else 'have'} P(yes)"
            yield f"{arm}: {few}: too few for an AUC, a Brier score or calibration."
        if _is_still(known):
            lowest = f"{known.p_yes.min():.3g}"
            highest = f"{known.p_yes.max():.3g}"
            if lowest == highest:
                values = f"is {lowest}"
            else:
                values = f"lies from {lowest} to {highest}"
            yield (
                f"{arm}: P(yes) {values} whatever the row ({len(known):,} answers): it hardly "
                f"depends on the "
                "row, as when a service cuts its input off (try fewer examples or a shorter "
                "template)."
            )


def _is_still(known: ArmAnswers) -> bool:
    """Whether every repeat has enough P(yes), all of them close together."""
    for repeat in np.unique(known.repeat):
        p = known.p_yes[known.repeat == repeat]
        odds = logit(np.clip(p, _ROUNDING, 1.0 - _ROUNDING))
        if (
            len(p) < MIN_PROBABILITIES
            or np.ptp(p) > _STILL + _ROUNDING
            or np.ptp(odds) > _STILL_ODDS
        ):
            return False
    return len(known) > 0


def centred(sample: ArmArrays, groups: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the results of answers by centred log-odds; None if P(yes) is unknown or constant.

    The answer is yes if the log-odds exceed their mean over the arm's rows: about half of all
    answers, whatever the share of true yes, so no gate uses them (docs/statistics.md). Batch
    calibration (Zhou et al. 2024) divides by the mean of P(yes) instead, which depends on few rows
    if most P(yes) are near 0 or 1. The limits of `accuracy` and `gap` are percentiles of a
    bootstrap of rows (people), which recomputes the centre.
    """
    known = np.flatnonzero(~np.isnan(np.nan if sample.p_yes is None else sample.p_yes))
    if sample.p_yes is None or not len(known) or not sample.design.labelled:
        return None
    p = sample.p_yes[known]
    label = sample.label[known]
    group = sample.group[known]
    odds = logit(np.clip(p, _ROUNDING, 1 - _ROUNDING))
    if np.ptp(odds) < _ROUNDING or not 0 < label.sum() < len(label):
        return None
    if sample.weight is None:
        weight = np.ones(len(known))
    else:
        weight = sample.weight[known]
    members = (group[:, None] == np.arange(sample.groups)).astype(np.float64)
    unit = codes(sample.unit[known])
    units = int(unit.max()) + 1
    rng = np.random.default_rng(0)

    def measured(weights: Floats) -> Floats:
        """The groups' rates of yes, then the accuracy (D, G + 1), under weights (D, n) of rows."""
        total = weights.sum(1, keepdims=True)
        yes = odds > weights @ odds[:, None] / total
        with np.errstate(invalid="ignore"):
            rates = (weights * yes) @ members / (weights @ members)
        return np.hstack([rates, (weights * (yes == label)).sum(1, keepdims=True) / total])

    block = max(1, _WEIGHTS // len(known))
    sizes = [min(block, _DRAWS - start) for start in range(0, _DRAWS, block)]
    times = (rng.multinomial(units, np.full(units, 1 / units), size) for size in sizes)
    drawn = np.concatenate([measured(weight * drawn[:, unit]) for drawn in times])
    (value,) = measured(weight[None])
    auc, psi = area(p, label, weight)
    reach = Z * float(np.sqrt((np.bincount(unit, psi) ** 2).sum()))
    low, high = np.quantile(drawn[:, -1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {
        "rows": len(np.unique(sample.row[known])),
        "auc": MetricEstimate(auc, max(0.0, auc - reach), min(1.0, auc + reach)).ends,
        "accuracy": MetricEstimate(float(value[-1]), low, high).ends,
        "gap": _gap(value[sample.eligible_groups], drawn[:, sample.eligible_groups]),
        "rates": dict(zip(groups, value[:-1].tolist(), strict=True)),
    }


def _gap(rates: Floats, drawn: Floats) -> dict[str, float]:
    """Return the largest gap of rates (G,), with simultaneous limits from draws (D, G)."""
    if len(rates) < 2:
        return UNDEFINED.ends
    first, second = np.triu_indices(len(rates), 1)
    tail = (1 - LEVEL) / 2 / len(first)
    low, high = np.nanquantile(drawn[:, second] - drawn[:, first], [tail, 1 - tail], axis=0)
    value = float(np.ptp(rates))
    least = float(np.maximum(np.maximum(low, -high), 0.0).max())
    most = float(np.maximum(high, -low).max())
    return MetricEstimate(value, min(value, least), max(value, most)).ends
