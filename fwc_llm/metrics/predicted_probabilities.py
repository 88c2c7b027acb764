"""Statistics of P(yes): ranking, calibration, and warnings.

P(yes) `p` (n,) is from 0 to 1; callers leave out rows without P(yes). Values use the rows' weights;
in intervals a row, or a person, counts once (docs/statistics.md, "P(yes)").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import Codes, Floats, sums_by, undefined_is_nan
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import MIN_PROBABILITIES, ArmAnswers, RunAnswers
from fwc_llm.metrics.variance import ArmArrays, mean_shares

BINS = 10
# range of P(yes) without dependence on rows: the step of services that round to 2 decimals
_STILL = 0.01
_STILL_ODDS = 0.1  # the same range of log-odds: small P(yes) may depend on the row
_ROUNDING = 1e-9
LEAST_CERTAIN = (
    0.01  # P(yes) below this value, or above 1 minus this value, counts as clipped
)


@dataclass(frozen=True)
class Probabilities:
    """The questions of an arm that have P(yes), `known`, of `asked` ones, by group (G,)."""

    known: ArmArrays
    asked: Codes

    @classmethod
    def of(cls, sample: ArmArrays) -> "Probabilities | None":
        """Return them if at least ten answers have P(yes), else None."""
        if sample.p_yes is None or not sample.design.labelled:
            return None
        known = sample.where(~np.isnan(sample.p_yes))
        return cls(known, np.bincount(sample.group, minlength=sample.groups))

    @property
    def p(self) -> Floats:
        """P(yes) (n,)."""
        return np.asarray(self.known.p_yes)

    @property
    def clipped(self) -> float:
        """The share of P(yes) too near 0 or 1 to show calibration."""
        return float(np.mean((self.p < LEAST_CERTAIN) | (self.p > 1 - LEAST_CERTAIN)))

    def records(self, groups: Sequence[str], attribute: str) -> Iterator[Record]:
        """Yield ranking and calibration."""
        known = self.known
        n = len(self.p)
        if np.ptp(known.label):
            (auc,) = ArmEstimates(replace(known, examples=None)).rates("auc of all")
            ends: Any = auc.ends
            yield Record(metric="auc", **ends, n=n)
        (brier,) = ArmEstimates(known).counted("brier of all").values.tolist()
        yield Record(metric="brier", value=brier, n=n)
        clipped = self.clipped
        yield Record(metric="p_yes_clipped", value=clipped, n=n)
        of_all = calibrate(known, np.zeros_like(known.group), 1)
        of_groups = calibrate(known, known.group, known.groups)
        means = of_groups.mean[known.eligible_groups]
        gap = float(np.ptp(means)) if len(means) > 1 else np.nan
        yield Record(metric="mean_p_yes_gap", value=gap, attribute=attribute, n=n)
        yield from of_all.records(0, int(self.asked.sum()))
        for place, group in enumerate(groups):
            for record in of_groups.records(place, int(self.asked[place])):
                yield replace(record, attribute=attribute, group=group)

    def at_median(self, groups: Sequence[str], attribute: str) -> Iterator[Record]:
        """Yield the results of answers that are yes where P(yes) exceeds its median.

        About half of them are yes, whatever the share of true yes, so no gate uses them
        (docs/statistics.md). Nothing is yielded where P(yes) is constant, or one label is absent.
        """
        odds = logit(np.clip(self.p, _ROUNDING, 1 - _ROUNDING))
        if np.ptp(odds) < _ROUNDING or not np.ptp(self.known.label):
            return
        known = self.known
        values, inverse = np.unique(self.p, return_inverse=True)
        reaching = np.bincount(inverse, known.weights)[::-1].cumsum()[::-1]
        half = known.weights.sum() * (0.5 + _ROUNDING)
        threshold = values[reaching <= half].min(initial=np.inf)
        said = (self.p >= threshold).astype(np.float64)
        design = replace(known.design, model=False)
        found = ArmEstimates(replace(known, answer=said, design=design))
        of: Any = {"scope": "these rows", "n": len(self.p)}
        for key, by in (("accuracy", ""), ("dp_gap", attribute)):
            ends: Any = found[key].ends
            yield Record(metric=f"{key}_at_median", attribute=by, **ends, **of)
        of["metric"] = "selection_rate_at_median"
        (of_all,) = found.counted("selection_rate of all").values.tolist()
        yield Record(value=of_all, **of)
        shares = found.counted("selection_rate").values.tolist()
        for group, share in zip(groups, shares, strict=True):
            yield Record(attribute=attribute, group=group, value=share, **of)


@dataclass(frozen=True)
class Calibration:
    """Calibration of owners (O,): mean P(yes), share of label yes, their difference with 95 %
    limits, the calibration error, and the number of P(yes); NaN without one.
    """

    mean: Floats
    share: Floats
    difference: Floats
    low: Floats
    high: Floats
    error: Floats
    n: Codes

    def records(self, place: int, asked: int) -> Iterator[Record]:
        """Yield the records of one owner; `asked` counts its questions."""
        n = int(self.n[place])
        if asked:
            yield Record(metric="p_yes_coverage", value=n / asked, n=asked)
        if not n:
            return
        value, low, high = (
            float(part[place]) for part in (self.difference, self.low, self.high)
        )
        yield Record(metric="mean_p_yes", value=float(self.mean[place]), n=n)
        yield Record(metric="base_rate", value=float(self.share[place]), n=n)
        yield Record(metric="calibration", value=value, low=low, high=high, n=n)
        yield Record(metric="calibration_error", value=float(self.error[place]), n=n)


@undefined_is_nan
def calibrate(sample: ArmArrays, owner: Codes, owners: int) -> Calibration:
    """Return the calibration of answers that all have P(yes), by `owner` (n,).

    `difference` is the mean P(yes) minus the share of label yes (calibration in the large), with 95
    % limits over rows or people, within groups and labels if the design fixed their numbers. Two
    added rows keep its variance above 0 (after Agresti & Min 2005); weights and people take t.
    `error` is the expected calibration error over ten bins; noise raises it, the more the fewer
    rows there are.
    """
    p = np.asarray(sample.p_yes)
    off = p - sample.label
    weight = sample.weights
    by_owner = sums_by(owner, owners)
    total = by_owner(weight)
    pooled = replace(sample, repeat=np.zeros_like(sample.repeat), assist=None)
    halved = (1.0 + off) / 2  # from 0 to 1
    by_label = sample.design.labels_fixed
    shares = mean_shares(pooled, np.ones(len(p)), halved, owner, owners, by_label)
    freedom = np.full(owners, np.inf)
    if sample.weight is not None or sample.cluster is not None:
        freedom = np.maximum(1.0, shares.freedom)
    variance = 4 * shares.influence.over_units + shares.two_rows
    reach = sample.critical_values(freedom) * np.sqrt(variance)
    difference = by_owner(weight * off) / total
    bins = owner * BINS + np.minimum((p * BINS).astype(np.int64), BINS - 1)
    errors = np.abs(np.bincount(bins, weight * off, owners * BINS))
    return Calibration(
        mean=by_owner(weight * p) / total,
        share=by_owner(weight * sample.label) / total,
        difference=difference,
        low=np.maximum(-1.0, difference - reach),
        high=np.minimum(1.0, difference + reach),
        error=errors.reshape(owners, BINS).sum(1) / total,
        n=np.bincount(owner, minlength=owners),
    )


def decision_notes(run: RunAnswers) -> Iterator[str]:
    """Yield notes on the arms' P(yes): ties, too few values, and no dependence on the row."""
    for arm, a in run.answers.items():
        with_p = a.where(~np.isnan(a.p_yes))
        ties = with_p.p_yes == HALF
        tied = int(ties.sum())
        if tied:
            count = f"{tied:,} of {len(with_p):,} P(yes)"
            if (with_p.answer[ties] == 1.0).all():
                counted = ", which means yes"
            else:
                counted = ""
            lie = "lies" if tied == 1 else "lie"
            yield f"{arm}: {count} {lie} exactly on the threshold {HALF:g}{counted}."
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
