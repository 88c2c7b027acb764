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
from functools import cached_property

import numpy as np

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.limits import Z, pairs_reach, ratio_limits
from fwc_llm.metrics.noise import NoiseFloor, noise_floor
from fwc_llm.metrics.sample import Codes, Of, Sample
from fwc_llm.metrics.shares import Shares, count_shares, over_rows_and_sets


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
    """Every metric of one arm, each worked out when it is first asked for."""

    sample: Sample

    @property
    def of(self) -> Of:
        """What the intervals speak of."""
        return self.sample.of

    @cached_property
    def accuracy(self) -> Estimate:
        """The share of parsed answers that are right."""
        return share_limits(self.sample, self.counted_accuracy).at(0)

    @cached_property
    def coverage(self) -> Estimate:
        """The share of answers that could be parsed."""
        one = self.sample
        return share_limits(
            one, count_shares(one, one.asked, one.read, one.everyone, 1, one.labels_fixed)
        ).at(0)

    @cached_property
    def coverage_by_group(self) -> Rates:
        """The share of each group's answers that could be parsed."""
        one = self.sample
        counted = count_shares(one, one.asked, one.read, one.group, one.groups, one.labels_fixed)
        return share_limits(one, counted)

    @cached_property
    def rates(self) -> Rates:
        """Each group's rate of yes."""
        return share_limits(self.sample, self.counted_rates)

    @cached_property
    def true_positive_rates(self) -> Rates:
        """Each group's rate of yes among the rows with label yes."""
        return share_limits(self.sample, self.counted_odds).every_second(1)

    @cached_property
    def false_positive_rates(self) -> Rates:
        """Each group's rate of yes among the rows with label no."""
        return share_limits(self.sample, self.counted_odds).every_second(0)

    @cached_property
    def signed_gap(self) -> Estimate | None:
        """The second group's rate less the first's; None unless there are two groups."""
        if self.sample.groups != 2:
            return None
        (value,), (low,), (high,) = self._gaps
        rates = self.counted_rates.per_repeat
        return Estimate(float(value), float(low), float(high), rates[:, 1] - rates[:, 0])

    @cached_property
    def demographic_parity_difference(self) -> Estimate:
        """The largest less the smallest rate of yes."""
        return _largest(*self._gaps, _range(self.counted_rates.per_repeat))

    @cached_property
    def demographic_parity_ratio(self) -> Estimate:
        """The smallest over the largest rate of yes."""
        return _ratio(self.sample, self.counted_rates)

    @cached_property
    def equalized_odds_difference(self) -> Estimate:
        """The larger of the gaps in true and in false positive rates."""
        return _odds(self.sample, self.counted_odds)

    @cached_property
    def noise(self) -> NoiseFloor:
        """The gap that groups treated alike would show."""
        return _noise(self.sample, self.counted_rates, self.demographic_parity_difference.value)

    @cached_property
    def counted_accuracy(self) -> Shares:
        """The right answers, as `contrast` needs them."""
        one = self.sample
        right = (one.yes == one.label).astype(np.float64)
        return count_shares(one, one.parsed, right, one.everyone, 1, one.labels_fixed)

    @cached_property
    def counted_rates(self) -> Shares:
        """The yes answers of each group, as `contrast` needs them."""
        one = self.sample
        return count_shares(one, one.parsed, one.yes, one.group, one.groups, one.labels_fixed)

    @cached_property
    def counted_odds(self) -> Shares:
        """The yes answers of each group and label: label no and yes of the first group, then the next."""
        one = self.sample
        return count_shares(one, one.parsed, one.yes, one.cell, 2 * one.groups, True)

    @cached_property
    def _gaps(self) -> tuple[Floats, Floats, Floats]:
        return gaps_of_pairs(
            self.sample, self.counted_rates, np.arange(self.sample.groups), self.sample.groups
        )


def estimate(sample: Sample) -> Estimates:
    """Return every metric of the sample with its 95 % interval (docs/statistics.md, "One arm")."""
    return Estimates(sample)


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


def share_limits(sample: Sample, shares: Shares) -> Rates:
    """Return shares with their limits, each share by itself."""
    grown = _growth(sample, shares.variance, shares.variance_of_questions, shares.per_repeat)
    low = np.clip(shares.values - grown * shares.below, 0.0, shares.values)
    high = np.clip(shares.values + grown * shares.above, shares.values, 1.0)
    return Rates(shares.values, low, high, shares.per_repeat)


def _pairs(groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Every two groups, as two index arrays."""
    return np.triu_indices(groups, 1)


def gaps_of_pairs(
    sample: Sample, shares: Shares, places: np.ndarray, groups: int, kinds: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Return the gaps of all pairs of groups (P,), second less first, with simultaneous limits.

    `places` are the groups' shares.
    """
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
    kinds = [gaps_of_pairs(sample, odds, places[side::2], groups, kinds=2) for side in (0, 1)]
    value, low, high = (np.concatenate(parts) for parts in zip(*kinds, strict=True))
    each = np.maximum(_range(odds.per_repeat[:, 0::2]), _range(odds.per_repeat[:, 1::2]))
    return _largest(value, low, high, each)


def ratios_of_pairs(
    sample: Sample, shares: Shares, first: Codes, second: Codes, groups: int = 2
) -> tuple[Floats, Floats]:
    """Return the lower limits of first over second and of second over first, for pairs of shares (P,).

    An upper limit is 1 over the other's lower one. All pairs of `groups` groups hold together.
    """
    p = shares.values
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = shares.per_repeat / p
        parts = shares.variance / p**2, shares.variance_of_questions / p**2
    # Relative deviations have no meaning where a rate is 0: there the gap's own growth serves.
    whole = (p[first] > 0) & (p[second] > 0)
    if not whole.all():
        relative, parts = shares.per_repeat, (shares.variance, shares.variance_of_questions)
    grown = _growth(
        sample,
        parts[0][first] + parts[0][second],
        parts[1][first] + parts[1][second],
        relative[:, second] - relative[:, first],
        groups,
    )
    under = ratio_limits(p[first], grown * shares.below[first], p[second], grown * shares.above[second])
    over = ratio_limits(p[second], grown * shares.below[second], p[first], grown * shares.above[first])
    return under, over


def _ratio(sample: Sample, rates: Shares) -> Estimate:
    """The smallest rate over the largest, from the limits of the ratios of all pairs of groups."""
    groups, p = sample.groups, rates.values
    with np.errstate(divide="ignore", invalid="ignore"):
        each = rates.per_repeat.min(1) / rates.per_repeat.max(1)
    if groups < 2 or np.isnan(p).any() or p.max() <= 0:
        undefined = np.full(len(each), np.nan) if groups < 2 else each
        return Estimate(np.nan, np.nan, np.nan, undefined)
    under, over = ratios_of_pairs(sample, rates, *_pairs(groups), groups)
    value = float(p.min() / p.max())
    with np.errstate(divide="ignore"):
        upper = np.minimum(1.0 / under, 1.0 / over)
    low, high = float(np.minimum(under, over).min()), min(1.0, float(upper.min()))
    return Estimate(value, min(value, low), max(value, high), each)
