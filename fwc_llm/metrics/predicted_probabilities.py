"""Statistics of P(yes): ranking, calibration, thresholds, and warnings.

P(yes) `p` (n,) is from 0 to 1; callers leave out rows without P(yes). Values use the rows' weights;
in intervals a row, or a person, counts once (docs/statistics.md, "P(yes)").
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from fwc_llm.metrics import decision_thresholds as thresholds
from fwc_llm.metrics.arm_estimates import UNDEFINED, ArmEstimates, MetricEstimate
from fwc_llm.metrics.counts import Floats, levels_of
from fwc_llm.metrics.intervals import LEVEL, critical_value
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import (
    MIN_PROBABILITIES,
    ArmAnswers,
    RunAnswers,
    samples_of,
)
from fwc_llm.metrics.sampling_design import AS_THEY_FALL, SamplingDesign
from fwc_llm.metrics.variance import ArmArrays, codes, mean_shares

BINS = 10
_DRAWS = 1000  # of the bootstrap
_WEIGHTS = 4_000_000  # weights in memory at once
# range of P(yes) without dependence on rows: the step of services that round to 2 decimals
_STILL = 0.01
_STILL_ODDS = 0.1  # the same range of log-odds: small P(yes) may depend on the row
_ROUNDING = 1e-9
LEAST_CERTAIN = (
    0.01  # P(yes) below this value, or above 1 minus this value, counts as clipped
)


@dataclass(frozen=True)
class Probabilities:
    """An arm's answers that have P(yes), `known`, out of `answers`, with the curve of thresholds.

    All repeats are pooled: a threshold is for the whole run.
    """

    answers: ArmAnswers
    known: ArmAnswers
    order: tuple[str, ...]
    design: SamplingDesign
    curve: thresholds.Curve

    @classmethod
    def of(
        cls, answers: ArmAnswers, order: tuple[str, ...], design: SamplingDesign
    ) -> "Probabilities | None":
        """Return them if at least ten answers have P(yes), else None."""
        known = answers.where(~np.isnan(answers.p_yes))
        if len(known) < MIN_PROBABILITIES:
            return None
        curve = thresholds.threshold_curve(
            known.p_yes, known.label, known.group, known.weight
        )
        return cls(answers, known, order, design, curve)

    @property
    def clipped(self) -> float:
        """The share of P(yes) too near 0 or 1 to show calibration."""
        p = self.known.p_yes
        return float(np.mean((p < LEAST_CERTAIN) | (p > 1 - LEAST_CERTAIN)))

    @property
    def different_values(self) -> int:
        """The number of different P(yes)."""
        return len(self.curve.thresholds) - 1

    @property
    def candidates(self) -> dict[str, float]:
        """The candidate thresholds by name."""
        curve = self.curve
        return {
            "half": thresholds.HALF,
            "most_accurate": float(curve.thresholds[thresholds.most_accurate(curve)]),
            "base_rate": float(curve.thresholds[thresholds.at_base_rate(curve)]),
        }

    def ties(self, threshold: float) -> int:
        """The number of P(yes) exactly at a threshold."""
        place = self.curve.place(threshold)
        return int(self.curve.ties[place]) * bool(
            self.curve.thresholds[place] == threshold
        )

    def records(self, attribute: str) -> Iterator[Record]:
        """Yield ranking, calibration and thresholds."""
        known = self.known
        n = len(known)
        if np.ptp(known.label):
            sample = samples_of({"": known}, self.order, self.design)[""]
            (auc,) = ArmEstimates(replace(sample, examples=None)).rates("auc of all")
            of: Any = {**auc.ends, "n": n}
            yield Record(metric="auc", **of)
        brier = float(
            np.average((known.p_yes - known.label) ** 2, weights=known.weight)
        )
        yield Record(metric="brier", value=brier, n=n)
        gap = probability_gap(known.p_yes, known.group, known.weight)
        yield Record(metric="mean_p_yes_gap", value=gap, attribute=attribute, n=n)
        yield Record(
            metric="p_yes_coverage", value=n / len(self.answers), n=len(self.answers)
        )
        yield Record(metric="p_yes_clipped", value=self.clipped, n=n)
        yield from _calibration(known, self.design)
        for group in self.order:
            here = self.answers.group == group
            of_group: Any = {"attribute": attribute, "group": group}
            if here.any():
                share = float((~np.isnan(self.answers.p_yes[here])).mean())
                yield Record(
                    metric="p_yes_coverage", value=share, n=int(here.sum()), **of_group
                )
            of_known = known.where(known.group == group)
            for record in _calibration(of_known, self.design) if len(of_known) else ():
                yield replace(record, **of_group)
        for name, threshold in self.candidates.items():
            yield from self._at(name, threshold, attribute)

    def _at(self, name: str, threshold: float, attribute: str) -> Iterator[Record]:
        """Yield the results at a threshold, computed as those of the answers as given.

        Only 0.5 has limits: the others are chosen on the same rows, on which they look better than
        on new rows.
        """
        yield Record(metric=f"threshold_{name}", value=threshold)
        yield Record(metric=f"ties_at_{name}", value=self.ties(threshold))
        design = replace(self.design, min_group=1)
        said = (self.known.p_yes >= threshold).astype(np.float64)
        answered = {"": replace(self.known, answer=said)}
        found = ArmEstimates(samples_of(answered, self.order, design)[""])
        for key, of in (("accuracy", ""), ("dp_gap", attribute)):
            estimate = found[key]
            record = Record(
                metric=f"{key}_at_{name}", attribute=of, value=estimate.value
            )
            if name == "half":
                record = replace(record, low=estimate.low, high=estimate.high)
            yield record
        rate = f"selection_rate_at_{name}"
        (of_all,) = found.rates("selection_rate of all")
        yield Record(metric=rate, value=of_all.value)
        for group, share in zip(self.order, found.rates(), strict=True):
            where: Any = {"attribute": attribute, "group": group}
            yield Record(metric=rate, value=share.value, **where)


def _calibration(known: ArmAnswers, design: SamplingDesign) -> Iterator[Record]:
    """Yield mean P(yes), the share of label yes, their difference and the calibration error."""
    found = calibrate(known, design)
    n = len(known)
    yield Record(metric="mean_p_yes", value=found.mean, n=n)
    yield Record(metric="base_rate", value=found.share, n=n)
    yield Record(
        metric="calibration",
        value=found.difference,
        low=found.low,
        high=found.high,
        n=n,
    )
    yield Record(metric="calibration_error", value=found.error, n=n)


def probability_gap(
    p: npt.ArrayLike, groups: Any, weights: Floats | None = None
) -> float:
    """Return the largest minus the smallest mean P(yes) of the groups; NaN for one group."""
    score, (names, level) = np.asarray(p, float), levels_of(groups)
    means = np.bincount(
        level, score if weights is None else weights * score
    ) / np.bincount(level, weights)
    if len(names) > 1:
        return float(np.ptp(means))
    return np.nan


class Calibration(NamedTuple):
    """Mean P(yes), share of label yes, their difference with 95 % limits, and the error."""

    mean: float
    share: float
    difference: float
    low: float
    high: float
    error: float


def calibrate(a: ArmAnswers, design: SamplingDesign = AS_THEY_FALL) -> Calibration:
    """Return the calibration of answers that all have P(yes).

    `difference` is the mean P(yes) minus the share of label yes (calibration in the large), with 95
    % limits over rows or people, within groups and labels if the design fixed their numbers. Two
    added rows keep its variance above 0 (after Agresti & Min 2005); weights and people take t.
    `error` is the expected calibration error over ten bins; noise raises it, the more the fewer
    rows there are.
    """
    p = a.p_yes
    labels = a.label.astype(np.float64)
    if a.weight is None:
        weight = np.full(len(a), 1.0 / len(a))
    else:
        weight = a.weight / a.weight.sum()
    difference = float(weight @ (p - labels))
    none = np.zeros(len(a), dtype=np.int64)
    halved = replace(a, answer=(1.0 + p - labels) / 2, repeat=none)  # from 0 to 1
    sample = samples_of({"": halved}, levels_of(a.group)[0], design)[""]
    shares = mean_shares(
        sample, np.ones(len(a)), sample.answer, none, 1, design.labels_fixed
    )
    freedom = np.inf
    if a.weight is not None or a.cluster is not None:
        freedom = max(1.0, float(shares.freedom[0]))
    variance = 4 * shares.influence.over_units + shares.two_rows
    reach = critical_value(2, 1, freedom) * float(np.sqrt(variance[0]))
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return Calibration(
        mean=float(weight @ p),
        share=float(weight @ labels),
        difference=difference,
        low=max(-1.0, difference - reach),
        high=min(1.0, difference + reach),
        error=float(np.abs(np.bincount(bins, weight * (p - labels))).sum()),
    )


def decision_notes(run: RunAnswers) -> Iterator[str]:
    """Yield notes on the arms' P(yes): ties, too few values, and no dependence on the row."""
    for arm, a in run.answers.items():
        with_p = a.where(~np.isnan(a.p_yes))
        ties = with_p.p_yes == thresholds.HALF
        tied = int(ties.sum())
        if tied:
            count = f"{tied:,} of {len(with_p):,} P(yes)"
            if (with_p.answer[ties] == 1.0).all():
                counted = " and count as yes"
            else:
                counted = ""
            lie = "lies" if tied == 1 else "lie"
            yield f"{arm}: {count} {lie} exactly on the threshold {thresholds.HALF:g}{counted}."
        if 0 < len(with_p) < MIN_PROBABILITIES:
            few = (
                f"{len(with_p)} of {len(a)} answers "
                f"{'has' if len(with_p) == 1 else 'have'} P(yes)"
            )
            yield f"{arm}: {few}: too few for an AUC, a Brier score or calibration."
        if _is_still(with_p):
            lowest = f"{with_p.p_yes.min():.3g}"
            highest = f"{with_p.p_yes.max():.3g}"
            if lowest == highest:
                values = f"is {lowest}"
            else:
                values = f"lies from {lowest} to {highest}"
            yield (
                f"{arm}: P(yes) {values} whatever the row ({len(with_p):,} answers): it hardly "
                f"depends on the "
                "row, as when a service cuts its input off (try fewer examples or a shorter "
                "template)."
            )


def _is_still(with_p: ArmAnswers) -> bool:
    """Whether every repeat has enough P(yes), all of them close together."""
    for repeat in np.unique(with_p.repeat):
        p = with_p.p_yes[with_p.repeat == repeat]
        odds = logit(np.clip(p, _ROUNDING, 1.0 - _ROUNDING))
        if (
            len(p) < MIN_PROBABILITIES
            or np.ptp(p) > _STILL + _ROUNDING
            or np.ptp(odds) > _STILL_ODDS
        ):
            return False
    return len(with_p) > 0


def centred(sample: ArmArrays, groups: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the results of answers at the median of P(yes); None if P(yes) is unknown or constant.

    The answer is yes if P(yes) exceeds its median over the arm's rows: about half of all answers
    are yes, whatever the share of true yes, so no gate uses them (docs/statistics.md). The limits
    of `accuracy` and `gap` are percentiles of a bootstrap of rows (people), which takes the median
    again.
    """
    with_p = np.flatnonzero(~np.isnan(np.nan if sample.p_yes is None else sample.p_yes))
    if sample.p_yes is None or not len(with_p) or not sample.design.labelled:
        return None
    p = sample.p_yes[with_p]
    label = sample.label[with_p]
    group = sample.group[with_p]
    if np.ptp(logit(np.clip(p, _ROUNDING, 1 - _ROUNDING))) < _ROUNDING:
        return None
    if not 0 < label.sum() < len(label):
        return None
    if sample.weight is None:
        weight = np.ones(len(with_p))
    else:
        weight = sample.weight[with_p]
    members = (group[:, None] == np.arange(sample.groups)).astype(np.float64)
    unit = codes(sample.unit[with_p])
    units = int(unit.max()) + 1
    order = np.argsort(p, kind="stable")
    rng = np.random.default_rng(0)

    def measured(weights: Floats) -> Floats:
        """The groups' rates of yes, then the accuracy (D, G + 1), under weights (D, n) of rows."""
        total = weights.sum(1, keepdims=True)
        below = weights[:, order].cumsum(1)
        median = p[order][(below >= total / 2).argmax(1)]
        yes = p > median[:, None]
        with np.errstate(invalid="ignore"):
            rates = (weights * yes) @ members / (weights @ members)
        return np.hstack(
            [rates, (weights * (yes == label)).sum(1, keepdims=True) / total]
        )

    block = max(1, _WEIGHTS // len(with_p))
    sizes = [min(block, _DRAWS - start) for start in range(0, _DRAWS, block)]
    times = (rng.multinomial(units, np.full(units, 1 / units), size) for size in sizes)
    drawn = np.concatenate([measured(weight * drawn[:, unit]) for drawn in times])
    (value,) = measured(weight[None])
    low, high = np.quantile(drawn[:, -1], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {
        "rows": len(np.unique(sample.row[with_p])),
        "accuracy": MetricEstimate(float(value[-1]), low, high),
        "gap": _gap(value[sample.eligible_groups], drawn[:, sample.eligible_groups]),
        "rates": dict(zip(groups, value[:-1].tolist(), strict=True)),
    }


def centred_records(
    found: Mapping[str, Any] | None, attribute: str
) -> Iterator[Record]:
    """Yield the results of `centred` as records."""
    if found is None:
        return
    accuracy, gap = found["accuracy"], found["gap"]
    of: Any = {"n": found["rows"], "scope": "these rows"}
    ends: Any = {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high}
    yield Record(metric="accuracy_at_median", **ends, **of)
    ends = {"value": gap.value, "low": gap.low, "high": gap.high}
    yield Record(metric="dp_gap_at_median", attribute=attribute, **ends, **of)
    for group, rate in found["rates"].items():
        where: Any = {"attribute": attribute, "group": group, "scope": "these rows"}
        yield Record(metric="selection_rate_at_median", value=rate, **where)


def _gap(rates: Floats, drawn: Floats) -> MetricEstimate:
    """Return the largest gap of rates (G,), with simultaneous limits from draws (D, G)."""
    if len(rates) < 2:
        return UNDEFINED
    first, second = np.triu_indices(len(rates), 1)
    tail = (1 - LEVEL) / 2 / len(first)
    low, high = np.nanquantile(
        drawn[:, second] - drawn[:, first], [tail, 1 - tail], axis=0
    )
    value = float(np.ptp(rates))
    least = float(np.maximum(np.maximum(low, -high), 0.0).max())
    most = float(np.maximum(high, -low).max())
    return MetricEstimate(value, min(value, least), max(value, most))
