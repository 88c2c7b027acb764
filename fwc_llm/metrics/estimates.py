"""One arm's metrics with their intervals, from plain arrays (docs/statistics.md, "One arm").

`estimate(sample)` returns every metric of one arm; `contrast(one, other)` in contrasts.py sets two side by
side. Both are a few dozen numpy operations, so that a simulation may call them often:

    sample = Sample(answer, label, group, repeat, row, groups=2, labels_fixed=True, examples=repeat)
    found = estimate(sample)
    found.of, found.accuracy.value, found.accuracy.low, found.accuracy.high
    found.noise.percentile_95, found.noise.p_value
    test = contrast(found, estimate(other))
    test.accuracy.difference, test.accuracy.low, test.accuracy.high, test.accuracy.p_value
"""

from dataclasses import dataclass

import numpy as np

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.limits import Z, pairs_reach, ratio_limits
from fwc_llm.metrics.noise import NoiseFloor, noise_floor
from fwc_llm.metrics.sample import Of, Sample, Shares, count_shares, over_rows_and_sets


@dataclass(frozen=True)
class Estimate:
    """A metric: its value over all repeats, the 95 % interval, and each repeat (R,). NaN where undefined."""

    value: float
    low: float
    high: float
    per_repeat: Floats


@dataclass(frozen=True)
class Rates:
    """Shares of several groups (G,), their limits (G,), and each repeat (R, G)."""

    values: Floats
    low: Floats
    high: Floats
    per_repeat: Floats

    def at(self, place: int) -> Estimate:
        """Return one of the shares."""
        ends = float(self.low[place]), float(self.high[place])
        return Estimate(float(self.values[place]), *ends, self.per_repeat[:, place])

    def every_second(self, first: int) -> "Rates":
        """Return every second share, from `first` on."""
        here = slice(first, None, 2)
        return Rates(self.values[here], self.low[here], self.high[here], self.per_repeat[:, here])


@dataclass(frozen=True)
class Estimates:
    """Every metric of one arm. `of` says what the intervals speak of.

    `signed_gap` is the second group's rate less the first's, None unless there are two groups. The counted
    shares are what `contrast` starts from.
    """

    sample: Sample
    of: Of
    accuracy: Estimate
    coverage: Estimate
    demographic_parity_difference: Estimate
    demographic_parity_ratio: Estimate
    equalized_odds_difference: Estimate
    signed_gap: Estimate | None
    rates: Rates
    true_positive_rates: Rates
    false_positive_rates: Rates
    coverage_by_group: Rates
    noise: NoiseFloor
    counted_accuracy: Shares
    counted_rates: Shares


def estimate(sample: Sample) -> Estimates:
    """Return every metric of the sample with its 95 % interval (docs/statistics.md, "One arm")."""
    everything = np.ones(len(sample.answer), dtype=np.bool_)
    everyone = np.zeros(len(sample.answer), dtype=np.int64)
    right = (sample.yes == sample.label).astype(np.float64)
    read, fixed, groups = sample.parsed.astype(np.float64), sample.labels_fixed, sample.groups
    cell = 2 * sample.group + sample.label
    accuracy = count_shares(sample, sample.parsed, right, everyone, 1, fixed)
    rates = count_shares(sample, sample.parsed, sample.yes, sample.group, groups, fixed)
    odds = count_shares(sample, sample.parsed, sample.yes, cell, 2 * groups, True)
    coverage = count_shares(sample, everything, read, everyone, 1, fixed)
    covered = count_shares(sample, everything, read, sample.group, groups, fixed)
    by_cell = _limits(sample, odds)
    parity, signed, noise = _parity(sample, rates)
    return Estimates(
        sample=sample,
        of=sample.of,
        accuracy=_limits(sample, accuracy).at(0),
        coverage=_limits(sample, coverage).at(0),
        demographic_parity_difference=parity,
        demographic_parity_ratio=_ratio(sample, rates),
        equalized_odds_difference=_odds(sample, odds),
        signed_gap=signed,
        rates=_limits(sample, rates),
        true_positive_rates=by_cell.every_second(1),
        false_positive_rates=by_cell.every_second(0),
        coverage_by_group=_limits(sample, covered),
        noise=noise,
        counted_accuracy=accuracy,
        counted_rates=rates,
    )


def _growth(
    sample: Sample,
    variance: Floats,
    of_questions: Floats,
    per_repeat: Floats,
    groups: int = 2,
    kinds: int = 1,
) -> Floats:
    """Return the factor (O,) on distances over rows: for several pairs at once, for examples drawn anew."""
    if sample.redrawn is None:
        return np.full(len(variance), pairs_reach(groups, kinds) / Z)
    crossed, number = over_rows_and_sets(variance, of_questions, per_repeat, sample.redrawn)
    reach = np.array([pairs_reach(groups, kinds, max(1.0, n - 1.0)) for n in number.tolist()])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(reach / Z * np.sqrt(np.where(variance > 0, crossed / variance, 1.0)))


def _limits(sample: Sample, shares: Shares) -> Rates:
    grown = _growth(sample, shares.variance, shares.variance_of_questions, shares.per_repeat)
    low = np.clip(shares.values - grown * shares.below, 0.0, shares.values)
    high = np.clip(shares.values + grown * shares.above, shares.values, 1.0)
    return Rates(shares.values, low, high, shares.per_repeat)


def _pairs(groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Every two groups, as two index arrays."""
    return np.triu_indices(groups, 1)


def _gaps(
    sample: Sample, shares: Shares, places: np.ndarray, groups: int, kinds: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Return the gaps of all pairs of groups (P,) with simultaneous limits; `places` are their shares."""
    first, second = (places[side] for side in _pairs(groups))
    value = shares.values[second] - shares.values[first]
    between = shares.per_repeat[:, second] - shares.per_repeat[:, first]
    grown = _growth(
        sample,
        shares.variance[first] + shares.variance[second],
        shares.variance_of_questions[first] + shares.variance_of_questions[second],
        between,
        groups,
        kinds,
    )
    low = value - grown * np.hypot(shares.below[second], shares.above[first])
    high = value + grown * np.hypot(shares.above[second], shares.below[first])
    return value, np.maximum(low, -1.0), np.minimum(high, 1.0)


def _largest(value: Floats, low: Floats, high: Floats, per_repeat: Floats) -> Estimate:
    """The largest |gap|: at least every pair's lower limit, at most the largest upper one."""
    if np.isnan(value).any() or not len(value):
        return Estimate(np.nan, np.nan, np.nan, per_repeat)
    largest = float(np.abs(value).max())
    least = float(np.maximum(0.0, np.maximum(low, -high)).max())
    most = float(np.maximum(high, -low).max())
    return Estimate(largest, min(least, largest), max(most, largest), per_repeat)


def _range(rates: Floats) -> Floats:
    """Largest less smallest rate of each repeat (R,); NaN for one group."""
    if rates.shape[1] < 2:
        return np.full(len(rates), np.nan)
    return np.asarray(rates.max(1) - rates.min(1))


def _parity(sample: Sample, rates: Shares) -> tuple[Estimate, Estimate | None, NoiseFloor]:
    """The demographic parity difference, the signed gap of two groups, and what chance alone would show."""
    groups = sample.groups
    value, low, high = _gaps(sample, rates, np.arange(groups), groups)
    parity = _largest(value, low, high, _range(rates.per_repeat))
    signed = None
    if groups == 2:
        each = rates.per_repeat[:, 1] - rates.per_repeat[:, 0]
        signed = Estimate(float(value[0]), float(low[0]), float(high[0]), each)
    return parity, signed, _noise(sample, rates, parity.value)


def _noise(sample: Sample, rates: Shares, gap: float) -> NoiseFloor:
    alike, freedom = rates.variance_if_alike, np.inf
    if sample.redrawn is not None and sample.groups > 1:
        # What the groups share moves no gap: only the spread of each group against the others counts.
        middle = rates.per_repeat.mean(1, keepdims=True)
        scale = np.sqrt(sample.groups / (sample.groups - 1))
        each = (rates.per_repeat - middle) * scale
        alike, number = over_rows_and_sets(alike, rates.variance_of_questions, each, sample.redrawn)
        freedom = float(max(1, number.min() - 1))
    return noise_floor(gap, np.sqrt(alike), freedom)


def _odds(sample: Sample, odds: Shares) -> Estimate:
    """Equalized odds: the larger of the gaps in true and in false positive rates."""
    groups = sample.groups
    places = np.arange(2 * groups)
    kinds = [_gaps(sample, odds, places[side::2], groups, kinds=2) for side in (0, 1)]
    value, low, high = (np.concatenate(parts) for parts in zip(*kinds, strict=True))
    each = np.maximum(_range(odds.per_repeat[:, 0::2]), _range(odds.per_repeat[:, 1::2]))
    return _largest(value, low, high, each)


def _ratio(sample: Sample, rates: Shares) -> Estimate:
    """The smallest rate over the largest, from the limits of the ratios of all pairs of groups."""
    groups, p = sample.groups, rates.values
    with np.errstate(divide="ignore", invalid="ignore"):
        each = rates.per_repeat.min(1) / rates.per_repeat.max(1)
        relative = rates.per_repeat / p
        parts = rates.variance / p**2, rates.variance_of_questions / p**2
    if groups < 2 or np.isnan(p).any() or p.max() <= 0:
        undefined = np.full(len(each), np.nan) if groups < 2 else each
        return Estimate(np.nan, np.nan, np.nan, undefined)
    first, second = _pairs(groups)
    # Relative deviations have no meaning where a rate is 0: there the gap's own growth serves.
    whole = (p[first] > 0) & (p[second] > 0)
    if not whole.all():
        relative, parts = rates.per_repeat, (rates.variance, rates.variance_of_questions)
    grown = _growth(
        sample,
        parts[0][first] + parts[0][second],
        parts[1][first] + parts[1][second],
        relative[:, second] - relative[:, first],
        groups,
    )
    under = ratio_limits(p[first], grown * rates.below[first], p[second], grown * rates.above[second])
    over = ratio_limits(p[second], grown * rates.below[second], p[first], grown * rates.above[first])
    value = float(p.min() / p.max())
    with np.errstate(divide="ignore"):
        upper = np.minimum(1.0 / under, 1.0 / over)
    low, high = float(np.minimum(under, over).min()), min(1.0, float(upper.min()))
    return Estimate(value, min(value, low), max(value, high), each)
