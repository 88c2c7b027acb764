"""One arm's metrics with intervals and verdicts (docs/statistics.md, "The method").

A new metric needs only a line in `counts.TABLE`. This module and `arm_comparison` need a few dozen
numpy operations, so that simulations can call them often.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fwc_llm.metrics.counts import (
    AMONG,
    BY_KEY,
    DECIDED,
    OF_REFERRALS,
    RATES,
    REFER,
    REPLY_RATES,
    Codes,
    Floats,
    Metric,
    levels_of,
    quotient,
    undefined_is_nan,
    value_of,
)
from fwc_llm.metrics.intervals import (
    LEVEL,
    NOWHERE,
    Estimate,
    Interval,
    Z,
    critical_value,
    p_value,
    range_critical_value,
    ratio_limits,
)
from fwc_llm.metrics.planning import POWER, smallest_difference
from fwc_llm.metrics.variance import (
    REASONS,
    WITHHELD_MIX,
    ArmArrays,
    RateEstimates,
    auc_shares,
    is_withheld,
    mean_shares,
    rate_shares,
)

MARGIN = 0.05  # largest negligible gap
UNDEFINED = Estimate(np.nan)
_PAIRS = 1_000_000  # pairs of groups in memory at once
# The shares of a sample as replies without an answer lower and raise them most; the same shares
# twice if these replies are left out.
Sides = Sequence[RateEstimates]


class ArmEstimates:
    """All metrics of one arm with 95 % intervals, each computed at its first use."""

    def __init__(self, sample: ArmArrays) -> None:
        self.sample = sample
        self._metrics: dict[str, Estimate] = {}
        self._shares: dict[str, RateEstimates] = {}
        self._readings: dict[str, Sides] = {}

    def __getitem__(self, key: str) -> Estimate:
        """Return a metric of `counts.TABLE` or `counts.REPLIES`.

        Its worst case has the lowest and highest value over all readings, and limits. A reading
        chooses an answer for every reply without one. The limits cover the true value under any
        reading (Stoye 2009, for each pair of groups), and enclose the limits of the parsed answers.
        Some reading attains the worst value; the best value is a bound, off by less than one row.
        """
        if key not in self._metrics:
            self._metrics[key] = self.of(BY_KEY[key])
        return self._metrics[key]

    def of(self, metric: Metric) -> Estimate:
        """Compute a metric, as `__getitem__` explains."""
        sample = self.sample
        if metric.kind == "share":
            return self.rates(f"{metric.rates[0]} of all")[0]
        shares = {rate: self.counted(rate) for rate in metric.rates}
        estimate = self._between(metric, [[own, own] for own in shares.values()])
        each = {
            rate: own.per_repeat[:, sample.eligible_groups]
            for rate, own in shares.items()
        }
        estimate = replace(estimate, worst_case=None, per_repeat=value_of(metric, each))
        of_answers = metric.source == "answers"
        if of_answers and sample.worst:
            worst = self._between(metric, [self.readings(rate) for rate in shares])
            estimate = estimate.over(*(worst.worst_case or (NOWHERE, NOWHERE)))
        if not metric.judged:
            return estimate
        alike = sample.selects_alike
        if metric.key in OF_REFERRALS:
            alike = bool(sample.alike)
        elif metric in DECIDED.values():
            referred = sample.answer == REFER
            decided = np.where(referred, np.nan, sample.answer)
            alike = replace(sample, answer=decided).selects_alike
        return estimate.judged(sample.design.margin, of_answers and alike)

    def _between(self, metric: Metric, shares: Sequence[Sides]) -> Estimate:
        """A gap or ratio of the judged groups; its worst case is that over the `shares`' sides."""
        judged = self.sample.eligible_groups
        rates = [side.values[judged] for sides in shares for side in sides]
        if len(judged) < 2 or np.isnan(rates).any():
            return UNDEFINED
        if metric.kind == "gap":
            size = len(judged), len(shares)
            pairs = (
                gaps_of_readings(sides, *pair, *size)
                for sides in shares
                for pair in pairs_of(sides, judged)
            )
            return _largest(pairs, *size)
        ((lowered, raised),) = shares
        p, most = rates
        if most.max() <= 0:
            return UNDEFINED
        limits = _ratio_ends([lowered, raised], judged)
        none = np.zeros_like(lowered.values)
        exact = [replace(side, below=none, above=none) for side in (lowered, raised)]
        worst = _ratio_ends(exact, judged), limits
        gap = self["dp_gap"]
        value = float(p.min() / max(p.max(), 1e-300))
        # below 1 exactly if the gap differs
        high = min(limits[1], 1.0 - gap.low) if gap.low > 0 else 1.0
        ends = min(value, limits[0]), max(value, high)
        return Estimate(value, *ends, p_value=gap.p_value, worst_case=worst)

    def readings(self, rate: str) -> Sides:
        """Return a rate twice: with replies without an answer read as they lower it most, then
        raise it most.
        """
        if rate not in self._readings:
            sides = (read_as(self.sample, rate, side) for side in (0, 1))
            self._readings[rate] = [ArmEstimates(side).counted(rate) for side in sides]
        return self._readings[rate]

    def value(self, key: str) -> float:
        """Return the value of a metric over all known groups, judged or not."""
        metric = BY_KEY[key]
        if metric.kind == "share":
            return float(self.counted(f"{metric.rates[0]} of all").values[0])
        known = self.sample.known_groups
        shares = {rate: self.counted(rate).values[known] for rate in metric.rates}
        return float(value_of(metric, shares))

    def undefined(self, key: str, groups: Sequence[str], decided: bool = False) -> str:
        """Why a metric is undefined, or its value among the answers that were `decided`."""
        metric = DECIDED[key] if decided else BY_KEY[key]
        judged = self.sample.eligible_groups
        if metric.kind == "share" and self.sample.design.refers:
            return "no answer that it counts was given to a row that it counts"
        if metric.kind == "share":
            return "no answer could be parsed"
        if len(judged) < 2:
            return "it takes two groups to differ"
        if any(is_withheld(self.sample.design, rate) for rate in metric.rates):
            return WITHHELD_MIX.format("labels")
        lacking = []
        for rate in metric.rates:
            unknown = np.isnan(self.counted(rate).values[judged])
            silent = [groups[group] for group in judged[unknown]]
            if silent:
                several = "s" * (len(silent) > 1)
                of = f"group{several} {' and '.join(silent)}"
                lacking.append(f"no {AMONG[rate]} in {of}")
        return "; ".join(lacking) or "no group was answered yes even once"

    def counted(self, rate: str) -> RateEstimates:
        """Return a rate of each group (G,); with " of all" in its name, that of all (1,)."""
        if rate not in self._shares:
            self._shares[rate] = self._counted(rate)
        return self._shares[rate]

    def _counted(self, rate: str) -> RateEstimates:
        sample, name, n = (
            self.sample,
            rate.removesuffix(" of all"),
            len(self.sample.answer),
        )
        owner, owners = (
            (sample.group, sample.groups)
            if name == rate
            else (np.zeros(n, dtype=np.int64), 1)
        )
        by_label = sample.design.labels_fixed
        if name in REPLY_RATES:  # of all questions, or of the replies received
            counted = np.ones(n)
            hits = sample.parsed
            if name != "coverage":
                reason = np.zeros(n) if sample.reason is None else sample.reason
                received = sample.unread_rows | sample.parsed
                unknown = sample.unread_rows & (reason == REASONS.index(""))
                counted = np.where(received & ~unknown.any(), 1.0, 0.0)
                hits = sample.unread_rows & (reason == REASONS.index(name))
            return mean_shares(
                sample, counted, hits.astype(np.float64), owner, owners, by_label, name
            )
        sample = sample.assumed
        if name == "auc":
            return auc_shares(sample, owner, owners)
        if (
            rate == "label_rate"
        ):  # the mean of a group's rates of yes at label no and at label yes
            cells = 2 * sample.groups
            of_cells = rate_shares(sample, rate, sample.cell, cells, True)
            return of_cells.combined(
                np.arange(cells) // 2, np.full(cells, 0.5), sample.groups
            )
        if name == "brier":
            p = sample.scores
            known = ~np.isnan(p) & sample.design.labelled
            counted = known.astype(np.float64)
            off = np.where(counted > 0, p - sample.label, 0.0) ** 2
            return mean_shares(sample, counted, off, owner, owners, by_label)
        return rate_shares(sample, name, owner, owners, by_label)

    def rates(self, rate: str = "selection_rate") -> list[Estimate]:
        """Return a rate of each group (G,), with limits; with " of all" in its name, that of all
        (1,).
        """
        own = self.counted(rate)
        name = rate.removesuffix(" of all")
        if not self.sample.worst or name not in RATES or name in REPLY_RATES:
            return share_limits(own)
        return share_limits(own, self.readings(rate))

    def rows_needed(self, key: str) -> int | None:
        """Return the rows with which 4 in 5 runs would have the verdict `EQUAL` on a gap.

        The groups are assumed to be treated alike. None if no number is enough, or known.
        """
        gap = self[key]
        groups = len(self.sample.eligible_groups)
        room = self.sample.design.margin - gap.unread_effect
        if not gap.half_width >= 0 or not room > 0:
            return None
        chance = critical_value(groups, 1, np.inf, POWER) / critical_value(groups)
        times = ((1 + chance) * gap.half_width / room) ** 2
        return int(np.ceil(self.sample.rows * max(1.0, times)))


def share_limits(
    shares: RateEstimates, readings: Sides | None = None
) -> list[Estimate]:
    """Return each of the shares (O,) with its own limits.

    With `readings` of replies without an answer, their limits, too.
    """
    if readings is not None:
        sides = zip(*map(share_limits, (shares, *readings)), strict=True)
        return [
            own.over((lowered.value, raised.value), (lowered.low, raised.high))
            for own, lowered, raised in sides
        ]
    factor, freedom = shares.spread()
    grown = factor * shares.sample.critical_values(freedom) / Z
    low = np.clip(shares.values - grown * shares.below, 0.0, shares.values)
    high = np.clip(shares.values + grown * shares.above, shares.values, 1.0)
    numbers = zip(shares.values, low, high, shares.per_repeat.T, strict=True)
    return [
        Estimate(float(value), float(least), float(most), per_repeat=each)
        for value, least, most, each in numbers
    ]


class Pairs(NamedTuple):
    """Differences (P,) of pairs, their simultaneous limits, and their sizes in standard
    `errors`.
    """

    value: Floats
    low: Floats
    high: Floats
    errors: Floats
    freedom: Floats
    critical: Floats


@undefined_is_nan
def gaps_of_pairs(
    one: RateEstimates,
    other: RateEstimates,
    first: Codes,
    second: Codes,
    groups: int,
    kinds: int,
    width: Floats,
) -> Pairs:
    """Return the gaps of pairs of shares (P,), by MOVER (Zou & Donner 2008): the other's second
    minus the first.

    Limits hold simultaneously for all pairs of `groups` and all `kinds` of rates. Each gap is one
    end of a range of `width` (P,) over the readings of replies without an answer.
    """
    factor, freedom = one.spread(first, second, other)
    critical = one.sample.critical_values(freedom, groups, kinds)
    value = other.values[second] - one.values[first]
    down = factor * np.hypot(other.below[second], one.above[first])
    up = factor * np.hypot(other.above[second], one.below[first])
    errors = np.abs(value) / np.where(value > 0, down, up) * Z
    errors = np.where(value == 0, 0.0, errors)
    alone = groups == 2 and kinds == 1
    if alone and width.any():
        wide = width / np.maximum(np.maximum(down, up) / Z, 1e-12)
        ranges = zip(wide.tolist(), freedom.tolist(), strict=True)
        critical = np.array([range_critical_value(*one_range) for one_range in ranges])
    low = np.maximum(value - critical / Z * down, -1.0)
    high = np.minimum(value + critical / Z * up, 1.0)
    return Pairs(value, low, high, errors, freedom, critical)


def representatives(sides: Sides, places: Codes) -> tuple[Codes, Codes, Codes]:
    """Group the shares at `places` into kinds of equal value and error: thousands of groups have
    few kinds.

    Returns the index of one share per kind (K,), each share's kind (P,), and the size of each kind
    (K,).
    """
    influence = sides[0].influence
    if len(places) <= 50 or influence.sets is not None or influence.spans:
        return places, np.arange(len(places)), np.ones(len(places), dtype=np.int64)
    kinds = np.stack(
        [
            numbers[places].round(12)
            for side in sides
            for numbers in (
                *(side.values, side.below, side.above),
                *(side.plain, side.variance),
            )
        ]
    )
    _, first, of, count = np.unique(
        kinds, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return places[first], of.ravel(), count


def pairs_of(sides: Sides, places: Codes) -> Iterator[tuple[Codes, Codes]]:
    """Yield all pairs of the shares at `places`, in blocks that fit into memory.

    One of several equal shares represents them all, and is also paired with itself
    (`representatives`).
    """
    places, _, count = representatives(sides, places)
    if len(twice := places[count > 1]):
        yield twice, twice
    n = len(places)
    sets = len(sides[0].influence.of_sets)
    rows = max(1, _PAIRS // max(n, 1) // (1 + sets // 50))
    for start in range(0, n - 1, rows):
        first, second = np.triu_indices(min(rows, n - start), 1, n - start)
        yield places[start + first], places[start + second]


def _sizes(low: Sequence[Floats], high: Sequence[Floats]) -> Floats:
    """The largest lower and upper limits (2, k) of the sizes of differences, from their limits
    (k, P).
    """
    lower = np.array(low)
    upper = np.array(high)
    sizes = [np.maximum(lower, -upper), np.maximum(upper, -lower)]
    return np.asarray(np.max(sizes, axis=-1))


def _largest(pairs: Iterable[tuple[Pairs, Pairs]], groups: int, kinds: int) -> Estimate:
    """Return the largest |gap| of one or several rates, and the largest limits of any pair's |gap|.

    Pairs are in their lowest and highest readings, over which the worst case holds. Limits and
    p-value hold simultaneously for all pairs (Tukey–Kramer).
    """
    found = [np.zeros((2, 2))]
    errors = beyond = half_width = 0.0
    freedom = np.inf
    for down, up in pairs:
        found.append(_sizes((down.value, down.low), (up.value, up.high)))
        reach = np.maximum(up.high - up.value, down.value - down.low)
        half_width = max(half_width, float(reach.max()))
        relative = down.errors / down.critical
        most = int(np.argmax(relative))
        if relative[most] > beyond:
            beyond = float(relative[most])
            errors = float(down.errors[most])
            freedom = float(down.freedom[most])
    (value, low), (highest, high) = (np.max(found, axis=0) + 0.0).tolist()  # no −0
    # agree despite rounding
    p = p_value(errors, groups, kinds, freedom)
    p = min(p, np.nextafter(1 - LEVEL, 0)) if low > 0 else max(p, 1 - LEVEL)
    usual = critical_value(groups, kinds)
    detectable = smallest_difference((half_width / usual) ** 2, groups)
    ends = (value, highest), (low, high)
    return Estimate(value, low, high, p, detectable, half_width, worst_case=ends)


def ratios_of_pairs(
    sides: Sides, first: Codes, second: Codes, groups: int = 2
) -> tuple[Floats, Floats]:
    """The lower limits (P,) of first over second, and of second over first (`_least_ratios`)."""
    under = _least_ratios(sides, first, second, groups)
    return under, _least_ratios(sides, second, first, groups)


def _least_ratios(sides: Sides, first: Codes, second: Codes, groups: int) -> Floats:
    """Return the lower limits of the first side's first over the last side's second share, for
    pairs of shares (P,).

    An upper limit is 1 over the lower limit of the inverse ratio.
    """
    low = sides[0]
    high = sides[-1]
    p = low.values[first]
    q = high.values[second]
    relative = sides
    if low.influence.sets is not None and (np.minimum(p, q) > 0).all():
        # Over sets of examples, a ratio varies with the relative deviations of its rates.
        relative = [_relative(side) for side in sides]
    factor, freedom = relative[0].spread(first, second, relative[-1])
    grown = factor * low.sample.critical_values(freedom, groups) / Z
    return ratio_limits(p, grown * low.below[first], q, grown * high.above[second])


@undefined_is_nan
def _relative(side: RateEstimates) -> RateEstimates:
    """Shares divided by their values."""
    p = side.values
    weight = np.where(p > 0, 1.0 / p, 0.0)
    return side.combined(np.arange(len(p)), weight, len(p))


def gaps_of_readings(
    sides: Sides, first: Codes, second: Codes, groups: int, kinds: int = 1
) -> tuple[Pairs, Pairs]:
    """The gaps (P,) of pairs, second minus first, in their lowest and highest readings."""
    low, high = sides
    grown = high.values - low.values
    of: tuple[Codes, Codes, int, int, Floats]
    of = first, second, groups, kinds, grown[first] + grown[second]
    down = gaps_of_pairs(high, low, *of)
    return down, down if low is high else gaps_of_pairs(low, high, *of)


def read_as(sample: ArmArrays, rate: str, side: int) -> ArmArrays:
    """The sample with replies without an answer read as they lower (side 0) or raise (side 1) a
    rate most.
    """
    extreme = RATES[rate.removesuffix(" of all")].extreme_answers(side)
    answer = np.where(sample.unread_rows, extreme[sample.label], sample.answer)
    return replace(sample, answer=answer, assist=None)


def ratios_to_all(sides: Sides, judged: Codes) -> tuple[Floats, Floats]:
    """Least lower and upper limits (L,) of each judged level's ratios to all judged levels; 1 to
    itself.
    """
    low = np.ones(len(sides[0].values))
    high = np.ones_like(low)
    kinds, of, _ = representatives(sides, judged)
    for first, second in pairs_of(sides, judged):
        under, over = ratios_of_pairs(sides, first, second, len(judged))
        for level, least, inverse in ((first, under, over), (second, over, under)):
            np.minimum.at(low, level, least)
            np.minimum.at(high, level, quotient(1.0, inverse))
    low[judged], high[judged] = low[kinds[of]], high[kinds[of]]
    return low, high


def _ratio_ends(sides: Sides, judged: Codes) -> Interval:
    """Limits of the smallest ratio of pairs of groups."""
    low, high = (float(of[judged].min()) for of in ratios_to_all(sides, judged))
    return low, high


class ParityWithinStrata(NamedTuple):
    """A DP gap within strata: of which groups, over how many strata, and which were `dropped`."""

    estimate: Estimate
    strata: int
    dropped: list[str]
    groups: tuple[str, ...] = ()


def conditional_parity(
    sample: ArmArrays, groups: Sequence[str]
) -> ParityWithinStrata | None:
    """Return the DP gap within strata (Mantel & Haenszel 1959); None without strata.

    Its variance is Sato's (1989), times the design effect of the gap without strata, from weights,
    people, repeats and examples. Strata in which some judged group has no answer are `dropped`.
    """
    if sample.strata is None:
        return None
    names, code = levels_of(sample.strata)
    eligible = sample.eligible_groups
    shape = (len(names), sample.groups)
    known = replace(sample.assumed, assist=None)
    rates = rate_shares(known, "selection_rate", sample.group, sample.groups, False)

    def counts(arm: ArmArrays) -> tuple[Floats, Floats]:
        """Yes and answers (K, G) by stratum and group, with weights scaled to the number of
        answers.
        """
        weight = arm.parsed * arm.weights
        weight = weight * (arm.parsed.sum() / max(weight.sum(), 1e-300))
        cell = np.ravel_multi_index((code, arm.group), shape)
        sums = (
            np.bincount(cell, parts, shape[0] * shape[1])
            for parts in (weight * arm.yes, weight)
        )
        yes, n = (np.asarray(part.reshape(shape), float) for part in sums)
        return yes, n

    yes, n = counts(known)
    kept = (n[:, eligible] > 0).all(1)
    dropped = [names[index] for index in np.flatnonzero(~kept)]
    pairs = eligible[np.array(np.triu_indices(len(eligible), 1))]
    if not kept.any() or not pairs.size:
        return ParityWithinStrata(UNDEFINED, int(kept.sum()), dropped)
    factor, freedom = rates.spread(*pairs)
    p = rates.values[pairs]
    independent = (p * (1 - p) / n.sum(0)[pairs]).sum(0)
    designed = factor**2 * rates.plain[pairs].sum(0)
    ones = np.ones_like(independent)
    effect = np.divide(designed, independent, out=ones, where=independent > 0)
    of_pairs = effect, sample.critical_values(freedom, len(eligible)), freedom
    gaps = _mantel_haenszel(yes[kept][:, pairs], n[kept][:, pairs], *of_pairs)
    estimate = _largest([(gaps, gaps)], len(eligible), 1)
    estimate = replace(estimate, worst_case=None)
    if sample.worst:
        (lowered, read), (raised, _) = (
            counts(read_as(sample, "selection_rate", side)) for side in (0, 1)
        )
        first, second = pairs
        down, up = (
            _mantel_haenszel(
                np.stack([one[kept][:, first], other[kept][:, second]], 1),
                read[kept][:, pairs],
                *of_pairs,
            )
            for one, other in ((raised, lowered), (lowered, raised))
        )
        ends = gaps._replace(low=down.low), gaps._replace(high=up.high)
        worst = _largest([ends], len(eligible), 1).worst_case
        estimate = replace(estimate, worst_case=worst)
    estimate = estimate.judged(sample.design.margin, sample.selects_alike)
    widest = pairs[:, int(np.argmax(np.abs(gaps.value)))]
    of_groups = tuple(groups[index] for index in widest)
    return ParityWithinStrata(estimate, int(kept.sum()), dropped, of_groups)


def _mantel_haenszel(
    yes: Floats, n: Floats, effect: Floats, critical: Floats, freedom: Floats
) -> Pairs:
    """Return the differences (P,) of two rates within strata (K, 2, P), second minus first.

    The variance is Sato's (1989) plus that of two rows that changed, one each way, so that it is
    never 0; `effect` (P,) multiplies it.
    """
    x = yes[:, 0]
    other = yes[:, 1]
    m = n[:, 0]
    k = n[:, 1]
    share = k / (m + k)
    rest = m / (m + k)
    total = (m * share).sum(0)
    value = (other * rest - x * share).sum(0) / total
    sparse = (x * share**2 - other * rest**2 + share * rest * (m - k) / 2).sum(0)
    mixed = ((other * (m - x) + x * (k - other)) / (m + k)).sum(0) / 2
    error = np.sqrt(effect * (value * sparse + mixed + 0.5)) / total
    low, high = (
        np.clip(value + side * critical * error, -1.0, 1.0) for side in (-1, 1)
    )
    return Pairs(value, low, high, np.abs(value) / error, freedom, critical)
