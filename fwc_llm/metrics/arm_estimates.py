"""One arm's metrics with intervals and verdicts, from plain arrays (docs/statistics.md, "The method").

    sample = Sample(answer, label, group, repeat, row, groups=2, labels_fixed=True, examples=repeat)
    estimates = estimate(sample)
    estimates.of, estimates["accuracy"].value, estimates["accuracy"].low, estimates["accuracy"].high
    gap = estimates["demographic_parity_difference"]
    gap.verdict(0.05), gap.p_value, estimates.noise("demographic_parity_difference")[1]

Every key of `counts.TABLE` is a metric; a new one needs its line there and nothing here. Two arms:
`arm_comparison`. Both are a few dozen numpy operations, so that a simulation may call them often.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fwc_llm.metrics.counts import BY_KEY, RATES, UNPARSED, Codes, Floats, Metric, levels_of, value_of
from fwc_llm.metrics.intervals import LEVEL, NOWHERE, Interval, Verdict, Z, pairs_reach, ratio_limits, verdict
from fwc_llm.metrics.planning import smallest_difference
from fwc_llm.metrics.variance import Of, Sample, Shares, auc_shares, mean_shares, rate_shares

MARGIN, RATIO_MARGIN = 0.05, 0.8  # within which a gap, or a ratio, does not matter
_PAIRS = 1_000_000  # pairs of groups that are held at once
_DRAWS = 10_000  # of what chance alone would show; fewer of very many groups


@dataclass(frozen=True)
class Estimate:
    """A metric: its value over all repeats, the 95 % interval, and each repeat (R,). NaN where undefined.

    `equal` is the value at equality, `p_value` that of no difference at all: below 0.05 exactly where the
    interval excludes equality. `reach` is the longest distance from a compared difference to an end.
    """

    value: float
    low: float
    high: float
    per_repeat: Floats
    p_value: float = np.nan
    equal: float = np.nan
    reach: float = np.nan

    @property
    def ends(self) -> dict[str, float]:
        """The value with its limits."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def verdict(self, margin: float = MARGIN, ratio_margin: float = RATIO_MARGIN) -> Verdict | None:
        """Return the one decision of a gap or ratio; None of what has no interval or no equality."""
        if np.isnan(self.equal):
            return None
        return verdict(self.low, self.high, ratio_margin if self.equal == 1.0 else margin, self.equal)


UNDEFINED = Estimate(np.nan, np.nan, np.nan, np.zeros(0))


class Estimates:
    """Every metric of one arm, each worked out when it is first asked for."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._metrics: dict[str, Estimate] = {}
        self._shares: dict[str, Shares] = {}

    def __getitem__(self, key: str) -> Estimate:
        """Return a metric of `counts.TABLE`, or the "coverage"."""
        if key == "coverage":
            return self.rates("coverage of all")[0]
        if key not in self._metrics:
            self._metrics[key] = self._of_metric(BY_KEY[key])
        return self._metrics[key]

    def _of_metric(self, metric: Metric) -> Estimate:
        if metric.kind == "share":
            return self.rates(f"{metric.rates[0]} of all")[0]
        judged, shares = self.sample.judged, {rate: self.counted(rate) for rate in metric.rates}
        each = value_of(metric, {rate: own.per_repeat[:, judged] for rate, own in shares.items()}, {})
        if len(judged) < 2 or any(np.isnan(own.values[judged]).any() for own in shares.values()):
            return Estimate(np.nan, np.nan, np.nan, each)
        if metric.kind == "ratio":
            return _ratio(self, shares[metric.rates[0]], judged, each)
        size = len(judged), len(shares)
        pairs = (
            gaps_of_pairs(own, *pair, *size) for own in shares.values() for pair in pairs_of(own, judged)
        )
        return _largest(self.sample, pairs, *size, each)

    @property
    def of(self) -> Of:
        """The scope of the intervals."""
        return self.sample.of

    def counted(self, rate: str) -> Shares:
        """Return a rate of `counts.RATES`, "auc" or "brier", of each group; "accuracy of all" and "coverage
        of all" of all.
        """
        if rate not in self._shares:
            self._shares[rate] = self._counted(rate)
        return self._shares[rate]

    def _counted(self, rate: str) -> Shares:
        sample = self.sample
        if rate == "auc":
            return auc_shares(sample)
        if rate.endswith(" of all"):
            return rate_shares(sample, rate.removesuffix(" of all"), sample.everyone, 1, sample.labels_fixed)
        if rate == "brier":
            p = np.full(len(sample.answer), np.nan) if sample.p_yes is None else sample.p_yes
            counted = (~np.isnan(p) if sample.labelled else np.zeros(len(p))).astype(np.float64)
            off = np.where(counted > 0, p - sample.label, 0.0) ** 2
            return mean_shares(sample, counted, off, sample.group, sample.groups, sample.labels_fixed)
        by_label = sample.labels_fixed and not RATES[rate].of_answers
        return rate_shares(sample, rate, sample.group, sample.groups, by_label)

    def rates(self, rate: str = "rate") -> list[Estimate]:
        """Return a rate of each group (G)."""
        return share_limits(self.counted(rate))

    @property
    def signed_gap(self) -> Estimate | None:
        """The second group's rate less the first's; None unless there are two groups."""
        if self.sample.groups != 2:
            return None
        rates = self.counted("rate")
        gap = gaps_of_pairs(rates, np.array([0]), np.array([1]), 2)
        each = rates.per_repeat[:, 1] - rates.per_repeat[:, 0]
        return Estimate(float(gap.value[0]), float(gap.low[0]), float(gap.high[0]), each)

    def noise(self, key: str) -> Interval:
        """Return what groups that are treated alike would show of a metric that compares them: the mean and
        the 95th percentile, or of a ratio, which is 1 then, the 5th. NaN where it is undefined.
        """
        metric, judged = BY_KEY[key], self.sample.judged
        shares = [self.counted(rate) for rate in metric.rates]
        deviations = np.stack([_deviations(share)[judged] for share in shares])
        if np.isnan(self[key].value) or np.isnan(deviations).any():
            return NOWHERE
        wider = pairs_reach(2, 1, float(min(share.spread(judged)[1].min() for share in shares))) / Z
        if metric.kind == "gap" and deviations.shape == (1, 2):
            deviation = float(np.hypot(*deviations[0]))
            return min(1.0, deviation * float(np.sqrt(2 / np.pi))), min(1.0, wider * Z * deviation)
        rng = np.random.default_rng(0)  # the same draws in every call: the same answers give the same floor
        number = max(200, min(_DRAWS, 200_000 // len(judged)))
        draws = rng.standard_normal((number, *deviations.shape))
        drawn, wide = draws * deviations, draws * deviations * wider
        if metric.kind == "gap":
            expected, far = (np.ptp(x, axis=-1).max(-1) for x in (drawn, wide))
            return min(1.0, float(expected.mean())), min(1.0, float(np.quantile(far, LEVEL)))
        size = np.maximum(self.sample.rows_of_groups[judged], 1)
        middle = float(np.average(shares[0].values[judged], weights=size))
        rates = (np.clip(middle + x[:, 0], 0.0, 1.0) for x in (drawn, wide))
        expected, far = (each.min(-1) / np.maximum(each.max(-1), 1e-12) for each in rates)
        return float(expected.mean()), float(np.quantile(far, 1 - LEVEL))

    def smallest_found(self) -> float:
        """Return the DP gap that a test at 5 % finds four times in five; NaN where there is no test."""
        shares, judged = self.counted("rate"), self.sample.judged
        if np.isnan(self["demographic_parity_difference"].value) or self.sample.looks is not None:
            return np.nan
        variance = np.sort(_deviations(shares)[judged] ** 2)[-2:].sum()
        freedom = float(shares.spread(judged)[1].min())
        return smallest_difference(float(variance), len(judged), freedom)


def estimate(sample: Sample) -> Estimates:
    """Return every metric of the sample with its 95 % interval (docs/statistics.md, "The method")."""
    return Estimates(sample)


def share_limits(shares: Shares) -> list[Estimate]:
    """Return each of the shares (O) with limits by itself."""
    factor, freedom = shares.spread()
    grown = factor * shares.sample.reach(freedom) / Z
    low = np.clip(shares.values - grown * shares.below, 0.0, shares.values)
    high = np.clip(shares.values + grown * shares.above, shares.values, 1.0)
    each = zip(shares.values.tolist(), low.tolist(), high.tolist(), shares.per_repeat.T, strict=True)
    return [Estimate(*numbers) for numbers in each]


class Pairs(NamedTuple):
    """Differences (P,) of second less first, limits that hold together, and standard errors from 0."""

    value: Floats
    low: Floats
    high: Floats
    errors: Floats
    freedom: Floats
    reach: Floats


def gaps_of_pairs(shares: Shares, first: Codes, second: Codes, groups: int, kinds: int = 1) -> Pairs:
    """Return the gaps of pairs of shares (P,), second less first, by MOVER (Zou & Donner 2008).

    All pairs of `groups` hold together, those of so many `kinds` of rates.
    """
    factor, freedom = shares.spread(first, second)
    reach = shares.sample.reach(freedom, groups, kinds)
    value = shares.values[second] - shares.values[first]
    down = factor * np.hypot(shares.below[second], shares.above[first])
    up = factor * np.hypot(shares.above[second], shares.below[first])
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(value == 0, 0.0, np.abs(value) / np.where(value > 0, down, up) * Z)
    low, high = value - reach / Z * down, value + reach / Z * up
    return Pairs(value, np.maximum(low, -1.0), np.minimum(high, 1.0), errors, freedom, reach)


def representatives(shares: Shares, places: Codes) -> tuple[Codes, Codes, Codes]:
    """Return shares (K,) that stand for those at `places` that are alike in value and error, which of them
    stands for each (P,), and for how many each stands (K,): thousands of groups of few rows are few kinds.
    """
    if len(places) <= 50 or shares.influence.sets is not None or shares.influence.spans:
        return places, np.arange(len(places)), np.ones(len(places), dtype=np.int64)
    kinds = np.stack([shares.values, shares.below, shares.above, shares.plain, shares.variance])[:, places]
    _, first, of, count = np.unique(
        kinds.round(12), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return places[first], of.ravel(), count


def pairs_of(shares: Shares, places: Codes) -> Iterator[tuple[Codes, Codes]]:
    """Yield all pairs of the shares at `places`, so many at once as memory bears.

    Of shares that are alike one stands for all, and is paired with itself too.
    """
    places, _, count = representatives(shares, places)
    if len(twice := places[count > 1]):
        yield twice, twice
    n, sets = len(places), len(shares.influence.of_sets)
    rows = max(1, _PAIRS // max(n, 1) // (1 + sets // 50))
    for start in range(0, n - 1, rows):
        first, second = np.triu_indices(min(rows, n - start), 1, n - start)
        yield places[start + first], places[start + second]


def _largest(sample: Sample, pairs: Iterable[Pairs], groups: int, kinds: int, each: Floats) -> Estimate:
    """The largest |gap| of one or several rates: at least every pair's lower limit, at most the largest
    upper one (Tukey–Kramer: limits and p-value of all pairs hold together).
    """
    value = low = high = errors = beyond = reach = 0.0
    freedom = np.inf
    for pair in pairs:
        value = max(value, float(np.abs(pair.value).max()))
        low = max(low, float(np.maximum(pair.low, -pair.high).max()))
        high = max(high, float(np.maximum(pair.high, -pair.low).max()))
        reach = max(reach, float(np.maximum(pair.high - pair.value, pair.value - pair.low).max()))
        most = int(np.argmax(pair.errors / pair.reach))
        if pair.errors[most] / pair.reach[most] > beyond:
            beyond = float(pair.errors[most] / pair.reach[most])
            errors, freedom = float(pair.errors[most]), float(pair.freedom[most])
    p = sample.p_value(errors, groups, kinds, freedom)
    p = min(p, np.nextafter(1 - LEVEL, 0)) if low > 0 else max(p, 1 - LEVEL)  # whatever rounding did
    return Estimate(value, min(low, value), min(1.0, max(high, value)), each, p, 0.0, reach)


def ratios_of_pairs(shares: Shares, first: Codes, second: Codes, groups: int = 2) -> tuple[Floats, Floats]:
    """Return the lower limits of first over second and of second over first, for pairs of shares (P,).

    An upper limit is 1 over the other's lower one. All pairs of `groups` groups hold together.
    """
    relative, p = shares, shares.values
    if shares.influence.sets is not None and (np.minimum(p[first], p[second]) > 0).all():
        # Sets of examples move rates: what they do to a ratio shows in relative deviations.
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = shares.combined(np.arange(len(p)), np.where(p > 0, 1.0 / p, 0.0), len(p))
    factor, freedom = relative.spread(first, second)
    grown = factor * shares.sample.reach(freedom, groups) / Z
    under = ratio_limits(p[first], grown * shares.below[first], p[second], grown * shares.above[second])
    over = ratio_limits(p[second], grown * shares.below[second], p[first], grown * shares.above[first])
    return under, over


def _ratio(estimates: Estimates, rates: Shares, judged: Codes, each: Floats) -> Estimate:
    """The smallest rate over the largest, from the limits of the ratios of all pairs of groups.

    Its upper limit is below 1 exactly where the gap's lower one is above 0: a gap of g makes any ratio at
    most 1 − g.
    """
    p, gap = rates.values[judged], estimates["demographic_parity_difference"]
    if p.max() <= 0:
        return Estimate(np.nan, np.nan, np.nan, each)
    low, high = 1.0, 1.0 - gap.low
    for first, second in pairs_of(rates, judged):
        under, over = ratios_of_pairs(rates, first, second, len(judged))
        low = min(low, float(np.minimum(under, over).min()))
        with np.errstate(divide="ignore"):
            high = min(high, float((1.0 / np.maximum(under, over)).min())) if gap.low > 0 else 1.0
    value = float(p.min() / p.max())
    return Estimate(value, min(value, low), max(value, high), each, gap.p_value, 1.0)


def _deviations(shares: Shares) -> Floats:
    """The standard deviations (O,) of rates that are alike: drawn towards one half, so that none is 0."""
    p, plain = shares.values, shares.plain
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(plain > 0, p * (1 - p) / plain, Z**2 / np.maximum(shares.below, shares.above))
        middle = np.clip((p * rows + 1) / (rows + 2), 0.0, 1.0)  # rounding
        alike = middle * (1 - middle) / np.maximum(rows - 1, 0.5)
        alike = alike * np.where(plain > 0, shares.variance / plain, 1.0)
    if shares.influence.sets is not None and len(p) > 1:
        alike = alike + shares.influence.sets_apart()  # what sets do to all groups moves no gap
    return np.asarray(np.sqrt(alike))


def worst_case(estimates: Estimates, metric: Metric) -> tuple[Interval, Interval]:
    """Return the (lowest, highest) value of a metric of counts over all readings of the unparsed answers, and
    limits with sampling error: each rate lies between those with the least and the most favourable readings,
    each with its interval. The worst value is one that some reading attains; the best is a bound that whole
    answers may miss by less than one row. NaN where such a rate is undefined.
    """
    sample, kinds = estimates.sample, len(metric.rates)
    if metric.kind == "share":
        name = f"{metric.rates[0]} of all"
        least, most = (Estimates(_read(sample, metric.rates[0], s)).rates(name)[0] for s in (0, 1))
        return (least.value, most.value), (least.low, most.high)
    if len(sample.judged) < 2:
        return NOWHERE, NOWHERE
    ends = np.array([_worst_pairs(sample, rate, metric.kind, kinds) for rate in metric.rates]).max(0).tolist()
    return (ends[0][0], ends[0][1]), (ends[1][0], ends[1][1])


def _read(sample: Sample, rate: str, side: int) -> Sample:
    """The sample with its unparsed answers as they lower (side 0) or raise (side 1) a rate most."""
    kinds = RATES[rate]
    # By label and answer: what is no hit lowers a rate, what is not counted leaves it, a hit raises it.
    effect = np.where(kinds.hits, 1, np.where(kinds.counted, -1, 0))[:, :UNPARSED]
    answer = (effect.argmax(1) if side else effect.argmin(1))[sample.label]
    return replace(sample, answer=np.where(sample.parsed, sample.answer, answer), assist=None)


def _worst_pairs(sample: Sample, rate: str, kind: str, kinds: int) -> tuple[Interval, Interval]:
    """The ends of the largest gap, or of the smallest ratio, of a rate that two readings enclose: those of
    the values, and their limits.
    """
    judged, ends = sample.judged, []
    for side in (0, 1):
        shares = Estimates(_read(sample, rate, side)).counted(rate)
        factor, freedom = shares.spread()
        reach = factor * sample.reach(freedom, len(judged), kinds) / Z
        value = shares.values[judged]
        limit = value + (reach * shares.above if side else -reach * shares.below)[judged]
        ends += [value, np.abs(np.clip(limit, 0.0, 1.0) - value)]
    if np.isnan(ends).any():
        return NOWHERE, NOWHERE
    # Of thousands of small groups few differ.
    (least, down, most, up), number = np.unique(np.vstack(ends), axis=1, return_counts=True)
    other = ~np.eye(len(number), dtype=np.bool_) | np.diag(number > 1)
    ends_of, column = [], np.s_[:, None]
    for below, above in ((0 * down, 0 * up), (down, up)):
        if kind == "gap":
            high = (most[column] - least + np.hypot(above[column], below))[other].max()
            low = (least[column] - most - np.hypot(below[column], above))[other].max()
            ends_of.append((max(0.0, float(low)), float(np.clip(high, 0.0, 1.0))))
            continue
        limits = ratio_limits(least[column], below[column], most, above)[other]
        with np.errstate(divide="ignore"):  # a ratio is at most one over the least that its inverse can be
            high = min(1.0, float(1.0 / limits.max())) if (most + above).min() > 0 else 0.0
        ends_of.append((min(1.0, float(limits.min())), high) if (most + above).max() > 0 else NOWHERE)
    return ends_of[0], ends_of[1]


def shrunken(shares: Shares) -> Floats:
    """Return the groups' rates (G,) drawn towards their mean by as much as noise explains their spread.

    Empirical Bayes with the variance between groups by moments (DerSimonian & Laird 1986); for small
    intersections, whose raw rates are the most extreme by chance.
    """
    p, variance = shares.values, _deviations(shares) ** 2
    known = ~np.isnan(p)
    if known.sum() < 3:
        return p
    weight = 1.0 / variance[known]
    mean = np.average(p[known], weights=weight)
    spread = weight @ (p[known] - mean) ** 2 - (known.sum() - 1)
    between = max(0.0, float(spread / (weight.sum() - (weight**2).sum() / weight.sum())))
    return np.asarray(mean + between / (between + variance) * (p - mean))


def conditional_parity(
    sample: Sample, groups: Sequence[str], margin: float = MARGIN
) -> dict[str, Any] | None:
    """Return the DP gap within strata, summed with Mantel and Haenszel's (1959) weights; None without strata.

    For each pair of groups the gaps of the strata count by
    n₁ n₂ / (n₁ + n₂). Strata that lack a judged group, or an answer of one, are `dropped`.
    """
    if sample.strata is None:
        return None
    names, code = levels_of(sample.strata)
    judged, number = sample.judged, sample.groups
    cell = code * number + sample.group
    cells = rate_shares(sample, "rate", cell, len(names) * number, False)
    weight = sample.parsed if sample.weight is None else sample.weight * sample.parsed
    rows = np.bincount(cell, weight, len(names) * number).reshape(-1, number)
    whole = (rows[:, judged] > 0).all(1)
    here = np.flatnonzero(whole)
    described: dict[str, Any] = {
        "strata": len(here),
        "dropped": [names[place] for place in np.flatnonzero(~whole)],
        **dict.fromkeys(("value", "low", "high", "p_value", "verdict", "first", "second")),
    }
    gaps: list[Pairs] = []
    ends: list[tuple[str, str]] = []
    for i, j in zip(*np.triu_indices(len(judged), 1), strict=True) if len(here) else ():
        pair = judged[i], judged[j]
        share = rows[here, pair[0]] * rows[here, pair[1]] / (rows[here, pair[0]] + rows[here, pair[1]])
        owner, part = np.zeros(rows.size, dtype=np.int64), np.zeros(rows.size)
        for place, group in enumerate(pair):
            owner[here * number + group], part[here * number + group] = place, share / share.sum()
        both = cells.combined(owner, part, 2)
        gaps.append(gaps_of_pairs(both, np.array([0]), np.array([1]), len(judged)))
        ends.append((groups[pair[0]], groups[pair[1]]))
    if gaps:
        largest = _largest(sample, gaps, len(judged), 1, np.zeros(0))
        described |= {name: getattr(largest, name) for name in ("value", "low", "high", "p_value")}
        first, second = ends[int(np.argmax([abs(gap.value[0]) for gap in gaps]))]
        described |= {"verdict": largest.verdict(margin), "first": first, "second": second}
    return described
