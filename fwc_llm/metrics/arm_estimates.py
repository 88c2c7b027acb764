"""One arm's metrics with intervals and verdicts (docs/statistics.md, "The method").

A new metric needs only a line in `counts.TABLE`. This module and `arm_comparison` need a few dozen
numpy operations, so that simulations can call them often.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np

from fwc_llm.metrics.counts import (
    BY_KEY,
    COUNTED,
    RATES,
    REPLY_RATES,
    UNPARSED,
    Codes,
    Floats,
    Metric,
    levels_of,
    value_of,
)
from fwc_llm.metrics.intervals import (
    LEVEL,
    NOWHERE,
    Enclosed,
    Interval,
    Verdict,
    Z,
    critical_value,
    judge,
    p_value,
    range_critical_value,
    ratio_limits,
)
from fwc_llm.metrics.planning import POWER, smallest_difference
from fwc_llm.metrics.variance import (
    REASONS,
    ArmArrays,
    RateEstimates,
    auc_shares,
    mean_shares,
    rate_shares,
)

MARGIN = 0.05  # largest negligible gap
_PAIRS = 1_000_000  # pairs of groups in memory at once


@dataclass(frozen=True)
class MetricEstimate(Enclosed):
    """A metric: value over all repeats, 95 % interval, and value per repeat (R,); NaN if undefined.

    `p_value` tests equality; it is below 0.05 exactly if the interval excludes equality.
    `half_width` is the longest distance from a pair's difference to a limit, without the widening
    for looks at the answers. Only `judged` metrics have a verdict. `alike`: a model gave (nearly)
    all rows one answer, so that the verdict is inconclusive.
    """

    value: float
    low: float
    high: float
    per_repeat: Floats = field(default_factory=lambda: np.zeros(0))
    p_value: float = np.nan
    judged: bool = False
    half_width: float = np.nan
    worst_case: tuple[Interval, Interval] | None = None
    alike: bool = False

    @property
    def ends(self) -> dict[str, float]:
        """Value and limits."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def over(self, lowered: "MetricEstimate", raised: "MetricEstimate") -> Self:
        """The estimate with the limits of its lowest and highest readings."""
        low, high = np.fmin(lowered.low, self.low), np.fmax(raised.high, self.high)
        ends = lowered.value, raised.value
        return replace(self, worst_case=(ends, (float(low), float(high))))

    def verdict(self, margin: float = MARGIN) -> Verdict | None:
        """Return the verdict on a gap; None for other metrics, and without an interval."""
        if not self.judged:
            return None
        return judge(self, margin, self.alike)

    def rows_needed(
        self, rows: int, margin: float, groups: int, kinds: int
    ) -> int | None:
        """Return the rows with which 4 in 5 runs would have the verdict `EQUAL`.

        The groups are assumed to be treated alike. `rows` is this estimate's number of rows. None
        if no number is enough, or if the number is unknown.
        """
        if self.worst_case:
            most = self.worst_case[0][1]
        else:
            most = self.value
        room = margin - (
            most - self.value
        )  # minus the effect of replies without an answer
        if self.alike or not self.half_width >= 0 or room <= 0:
            return None
        chance = critical_value(groups, kinds, np.inf, POWER) / critical_value(
            groups, kinds
        )
        return math.ceil(rows * max(1.0, ((1 + chance) * self.half_width / room) ** 2))


UNDEFINED = MetricEstimate(np.nan, np.nan, np.nan)


class ArmEstimates:
    """All metrics of one arm with 95 % intervals, each computed at its first use."""

    def __init__(self, sample: ArmArrays) -> None:
        self.sample = sample
        self._metrics: dict[str, MetricEstimate] = {}
        self._shares: dict[str, RateEstimates] = {}
        self._worst: dict[str, tuple[Interval, Interval]] = {}

    def __getitem__(self, key: str) -> MetricEstimate:
        """Return a metric of `counts.TABLE` or `counts.REPLIES`."""
        estimate = self._read(key)
        metric = BY_KEY[key]
        if metric.source != "answers":
            return estimate
        alike = metric.kind != "share" and bool(self.sample.alike)
        if self.sample.worst:
            worst = self.worst_case(key)
        else:
            worst = None
        if alike or worst:
            return replace(estimate, alike=alike, worst_case=worst)
        return estimate

    def _read(self, key: str) -> MetricEstimate:
        """A metric of the parsed answers alone."""
        if key not in self._metrics:
            self._metrics[key] = self._of_metric(BY_KEY[key])
        return self._metrics[key]

    def _of_metric(self, metric: Metric) -> MetricEstimate:
        if metric.kind == "share":
            return self.rates(f"{metric.rates[0]} of all")[0]
        judged = self.sample.eligible_groups
        shares = {rate: self.counted(rate) for rate in metric.rates}
        each = value_of(
            metric,
            {
                rate: rate_estimates.per_repeat[:, judged]
                for rate, rate_estimates in shares.items()
            },
        )
        if len(judged) < 2 or any(
            np.isnan(rate_estimates.values[judged]).any()
            for rate_estimates in shares.values()
        ):
            return MetricEstimate(np.nan, np.nan, np.nan, each)
        if metric.kind == "ratio":
            (rates,), gap = shares.values(), self._read("dp_gap")
            p = rates.values[judged]
            if p.max() <= 0:
                return MetricEstimate(np.nan, np.nan, np.nan, each)
            low, high = _ratio_ends(rates, judged)
            high = (
                min(high, 1.0 - gap.low) if gap.low > 0 else 1.0
            )  # below 1 exactly if the gap differs
            value = float(p.min() / p.max())
            return MetricEstimate(
                value, min(value, low), max(value, high), each, gap.p_value
            )
        size = len(judged), len(shares)
        pairs = (
            gaps_of_pairs(rate_estimates, *pair, *size)
            for rate_estimates in shares.values()
            for pair in pairs_of(rate_estimates, judged)
        )
        return replace(_largest(self.sample, pairs, *size, each), judged=metric.judged)

    def readings(self, rate: str, raised: bool = False) -> RateEstimates:
        """Return a rate twice: with replies without an answer read as they lower it most, then
        raise it most.

        With `raised`, the raised rate comes first.
        """
        key = f"{rate}, {raised}"
        if key not in self._shares:
            sides = (
                read_as(self.sample, rate, side) for side in (int(raised), 1 - raised)
            )
            low, high = (ArmEstimates(side).counted(rate) for side in sides)
            self._shares[key] = low.beside(high)
        return self._shares[key]

    def worst_case(self, key: str) -> tuple[Interval, Interval]:
        """Return a metric's (lowest, highest) value over all readings, and limits; NaN if
        undefined.

        A reading chooses an answer for every reply without one. The limits cover the true value
        under any reading (Stoye 2009, for each pair of groups), and enclose the limits of the
        parsed answers. Some reading attains the worst value; the best value is a bound, off by less
        than one row.
        """
        if key not in self._worst:
            (ends, (low, high)), estimate = (
                self._worst_case(BY_KEY[key]),
                self._read(key),
            )
            if not np.isnan(estimate.low):
                low = float(np.minimum(low, estimate.low))
                high = float(np.maximum(high, estimate.high))
            self._worst[key] = ends, (low, high)
        return self._worst[key]

    def _worst_case(self, metric: Metric) -> tuple[Interval, Interval]:
        if metric.kind == "share":
            low_end, high_end = share_limits(self.readings(f"{metric.rates[0]} of all"))
            return (low_end.value, high_end.value), (low_end.low, high_end.high)
        judged = self.sample.eligible_groups
        raised = self.sample.groups
        shares = [self.readings(rate) for rate in metric.rates]
        size = (len(judged), len(metric.rates))
        both = np.concatenate([judged, judged + raised])
        if size[0] < 2 or any(
            np.isnan(rate_estimates.values[both]).any() for rate_estimates in shares
        ):
            return NOWHERE, NOWHERE
        if metric.kind == "ratio":
            rates = shares[0]
            exact = replace(rates, below=0 * rates.below, above=0 * rates.above)
            if rates.values[raised + judged].max() <= 0:
                return NOWHERE, NOWHERE
            return _ratio_ends(exact, judged, raised), _ratio_ends(
                rates, judged, raised
            )
        least = most = low = high = 0.0
        for rate_estimates in shares:
            for pair in pairs_of(rate_estimates, judged, raised):
                down, up = gaps_of_readings(rate_estimates, *pair, *size)
                least = max(least, float(np.maximum(down.value, -up.value).max()))
                most = max(most, float(np.maximum(up.value, -down.value).max()))
                low = max(low, float(np.maximum(down.low, -up.high).max()))
                high = max(high, float(np.maximum(up.high, -down.low).max()))
        return (least, most), (low, high)

    def value(self, key: str) -> float:
        """Return the value of a metric over all groups, judged or not."""
        metric = BY_KEY[key]
        if metric.kind == "share":
            return float(self.counted(f"{metric.rates[0]} of all").values[0])
        return float(
            value_of(metric, {rate: self.counted(rate).values for rate in metric.rates})
        )

    def undefined(self, groups: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield (metric, reason) for each metric of answers that is undefined over all groups."""
        for metric in COUNTED:
            if not np.isnan(self.value(metric.key)):
                continue
            lacking = []
            for rate in metric.rates if metric.kind != "share" else ():
                unknown = np.isnan(self.counted(rate).values)
                silent = [
                    name for name, lost in zip(groups, unknown, strict=True) if lost
                ]
                if silent:
                    several = "s" * (len(silent) > 1)
                    of = f"group{several} {' and '.join(silent)}"
                    lacking.append(f"no {RATES[rate].among} in {of}")
            if metric.kind == "share":
                yield metric.key, "no answer could be parsed"
            elif len(groups) < 2:
                yield metric.key, "it takes two groups to differ"
            else:
                yield (
                    metric.key,
                    "; ".join(lacking) or "no group was answered yes even once",
                )

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
                counted = np.where(sample.unread_rows | sample.parsed, 1.0, 0.0)
                reason = np.zeros(n) if sample.reason is None else sample.reason
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
        if rate == "brier":
            if sample.p_yes is None:
                p = np.full(n, np.nan)
            else:
                p = sample.p_yes
            counted = (~np.isnan(p) if sample.design.labelled else np.zeros(n)).astype(
                np.float64
            )
            off = np.where(counted > 0, p - sample.label, 0.0) ** 2
            return mean_shares(sample, counted, off, owner, owners, by_label)
        no, yes, _ = RATES[
            name
        ].counted.T  # in a precision the answer decides which rows are counted
        return rate_shares(
            sample, name, owner, owners, by_label and np.array_equal(no, yes)
        )

    def rates(self, rate: str = "selection_rate") -> list[MetricEstimate]:
        """Return a rate of each group (G,), with limits."""
        own = self.counted(rate)
        of_answers = rate in RATES and rate not in REPLY_RATES
        if not self.sample.worst or not of_answers:
            return share_limits(own)
        return share_limits(own, self.readings(rate))

    def detectable(self, key: str) -> float:
        """Return the gap that a test at 5 % detects with a power of 80 %; NaN without a test."""
        if self.sample.design.sequential is not None:
            return np.nan
        groups = len(self.sample.eligible_groups)
        error = self[key].half_width / critical_value(groups)  # includes t
        return smallest_difference(error**2, groups)


def share_limits(
    shares: RateEstimates, readings: RateEstimates | None = None
) -> list[MetricEstimate]:
    """Return each of the shares (O,) with its own limits.

    With `readings` (2 O,) of replies without an answer, lowered and then raised, their limits, too.
    """
    if readings is not None:
        ends = share_limits(readings)
        owners = len(shares.values)
        sides = zip(share_limits(shares), ends[:owners], ends[owners:], strict=True)
        return [own.over(lowered, raised) for own, lowered, raised in sides]
    factor, freedom = shares.spread()
    grown = factor * shares.sample.critical_values(freedom) / Z
    low = np.clip(shares.values - grown * shares.below, 0.0, shares.values)
    high = np.clip(shares.values + grown * shares.above, shares.values, 1.0)
    limits = zip(
        shares.values.tolist(),
        low.tolist(),
        high.tolist(),
        shares.per_repeat.T,
        strict=True,
    )
    return [MetricEstimate(*numbers) for numbers in limits]


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


def gaps_of_pairs(
    shares: RateEstimates,
    first: Codes,
    second: Codes,
    groups: int,
    kinds: int = 1,
    width: Floats | None = None,
) -> Pairs:
    """Return the gaps of pairs of shares (P,), second minus first, by MOVER (Zou & Donner 2008).

    Limits hold simultaneously for all pairs of `groups` and all `kinds` of rates. With a `width`
    (P,), each gap is one end of a range of that width over the readings of replies without an
    answer.
    """
    factor, freedom = shares.spread(first, second)
    critical = shares.sample.critical_values(freedom, groups, kinds)
    value = shares.values[second] - shares.values[first]
    down = factor * np.hypot(shares.below[second], shares.above[first])
    up = factor * np.hypot(shares.above[second], shares.below[first])
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(
            value == 0, 0.0, np.abs(value) / np.where(value > 0, down, up) * Z
        )
    if width is not None and (groups, kinds, shares.sample.design.sequential) == (
        2,
        1,
        None,
    ):
        wide = width / np.maximum(np.maximum(down, up) / Z, 1e-12)
        critical = np.array(
            [
                range_critical_value(w, f)
                for w, f in zip(wide.tolist(), freedom.tolist(), strict=True)
            ]
        )
    low = value - critical / Z * down
    high = value + critical / Z * up
    return Pairs(
        value, np.maximum(low, -1.0), np.minimum(high, 1.0), errors, freedom, critical
    )


def representatives(
    shares: RateEstimates, places: Codes, owners: int | None = None
) -> tuple[Codes, Codes, Codes]:
    """Group the shares at `places` into kinds of equal value and error: thousands of groups have
    few kinds.

    Returns the index of one share per kind (K,), each share's kind (P,), and the size of each kind
    (K,). With `owners`, owner g has the shares g, g + owners, ….
    """
    if len(places) <= 50 or shares.influence.sets is not None or shares.influence.spans:
        return places, np.arange(len(places)), np.ones(len(places), dtype=np.int64)
    kinds = np.stack(
        [shares.values, shares.below, shares.above, shares.plain, shares.variance]
    )
    kinds = kinds.reshape(-1, owners or len(shares.values))[:, places]
    _, first, of, count = np.unique(
        kinds.round(12),
        axis=1,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    return places[first], of.ravel(), count


def pairs_of(
    shares: RateEstimates, places: Codes, owners: int | None = None
) -> Iterator[tuple[Codes, Codes]]:
    """Yield all pairs of the shares at `places`, in blocks that fit into memory.

    One of several equal shares represents them all, and is also paired with itself
    (`representatives`).
    """
    places, _, count = representatives(shares, places, owners)
    if len(twice := places[count > 1]):
        yield twice, twice
    n = len(places)
    sets = len(shares.influence.of_sets)
    rows = max(1, _PAIRS // max(n, 1) // (1 + sets // 50))
    for start in range(0, n - 1, rows):
        first, second = np.triu_indices(min(rows, n - start), 1, n - start)
        yield places[start + first], places[start + second]


def _largest(
    sample: ArmArrays,
    pairs: Iterable[Pairs],
    groups: int,
    kinds: int,
    per_repeat: Floats,
) -> MetricEstimate:
    """Return the largest |gap| of one or several rates, and the largest limits of any pair's |gap|.

    Limits and p-value hold simultaneously for all pairs (Tukey–Kramer).
    """
    value = low = high = errors = beyond = half_width = 0.0
    freedom = np.inf
    for pair in pairs:
        value = max(value, float(np.abs(pair.value).max()))
        low = max(low, float(np.maximum(pair.low, -pair.high).max()))
        high = max(high, float(np.maximum(pair.high, -pair.low).max()))
        half_width = max(
            half_width,
            float(np.maximum(pair.high - pair.value, pair.value - pair.low).max()),
        )
        most = int(np.argmax(pair.errors / pair.critical))
        if pair.errors[most] / pair.critical[most] > beyond:
            beyond = float(pair.errors[most] / pair.critical[most])
            errors = float(pair.errors[most])
            freedom = float(pair.freedom[most])
    p = p_value(errors, groups, kinds, freedom)
    looks = sample.design.sequential
    if looks:  # tests for a fixed number of rows are invalid
        half_width *= critical_value(groups, kinds) / looks.critical_value(
            sample.rows, groups, kinds
        )
        p = np.nan
    p = (
        min(p, np.nextafter(1 - LEVEL, 0)) if low > 0 else max(p, 1 - LEVEL)
    )  # agree despite rounding
    return MetricEstimate(
        value,
        min(low, value),
        min(1.0, max(high, value)),
        per_repeat,
        p,
        True,
        half_width,
    )


def ratios_of_pairs(
    shares: RateEstimates, first: Codes, second: Codes, groups: int = 2
) -> tuple[Floats, Floats]:
    """Return the lower limits of first over second and of second over first, for pairs of shares
    (P,).

    An upper limit is 1 over the lower limit of the inverse ratio.
    """
    relative = shares
    p = shares.values
    if (
        shares.influence.sets is not None
        and (np.minimum(p[first], p[second]) > 0).all()
    ):
        # Over sets of examples, a ratio varies with the relative deviations of its rates.
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = shares.combined(
                np.arange(len(p)), np.where(p > 0, 1.0 / p, 0.0), len(p)
            )
    factor, freedom = relative.spread(first, second)
    grown = factor * shares.sample.critical_values(freedom, groups) / Z
    under = ratio_limits(
        p[first], grown * shares.below[first], p[second], grown * shares.above[second]
    )
    over = ratio_limits(
        p[second], grown * shares.below[second], p[first], grown * shares.above[first]
    )
    return under, over


def ratios_of_readings(
    shares: RateEstimates, first: Codes, second: Codes, raised: int, groups: int
) -> tuple[Floats, Floats]:
    """The limits of `ratios_of_pairs` over readings; `raised` is the raised ones' offset, or 0."""
    if not raised:
        return ratios_of_pairs(shares, first, second, groups)
    under, _ = ratios_of_pairs(shares, first, raised + second, groups)
    _, over = ratios_of_pairs(shares, raised + first, second, groups)
    return under, over


def gaps_of_readings(
    shares: RateEstimates, first: Codes, second: Codes, groups: int, kinds: int = 1
) -> tuple[Pairs, Pairs]:
    """The gaps (P,) of pairs, second minus first, in their lowest and highest readings.

    `shares` (2 G,) are lowered, then raised.
    """
    raised = len(shares.values) // 2
    grown = shares.values[raised:] - shares.values[:raised]
    width = grown[first] + grown[second]
    down = gaps_of_pairs(shares, raised + first, second, groups, kinds, width)
    up = gaps_of_pairs(shares, first, raised + second, groups, kinds, width)
    return down, up


def read_as(sample: ArmArrays, rate: str, side: int) -> ArmArrays:
    """The sample with replies without an answer read as they lower (side 0) or raise (side 1) a
    rate most.
    """
    kinds = RATES[rate.removesuffix(" of all")]
    # By label and answer: a hit raises the rate, another counted answer lowers it, others do not
    # count.
    effect = np.where(kinds.hits, 1, np.where(kinds.counted, -1, 0))[:, :UNPARSED]
    answer = (effect.argmax(1) if side else effect.argmin(1))[sample.label]
    return replace(
        sample, answer=np.where(sample.unread_rows, answer, sample.answer), assist=None
    )


def _ratio_ends(shares: RateEstimates, judged: Codes, raised: int = 0) -> Interval:
    """Limits of the smallest ratio of pairs of groups; `raised` is the offset of raised
    readings.
    """
    low = high = 1.0
    for first, second in pairs_of(shares, judged, raised or None):
        under, over = ratios_of_readings(shares, first, second, raised, len(judged))
        low = min(low, float(np.minimum(under, over).min()))
        with np.errstate(divide="ignore"):
            high = min(high, float((1.0 / np.maximum(under, over)).min()))
    return low, high


class ParityWithinStrata(NamedTuple):
    """A DP gap within strata: of which groups, over how many strata, and which were `dropped`."""

    estimate: MetricEstimate
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
        weight = arm.parsed * (1.0 if arm.weight is None else arm.weight)
        weight = weight * (arm.parsed.sum() / max(weight.sum(), 1e-300))
        cell = np.ravel_multi_index((code, arm.group), shape)
        yes, n = (
            np.bincount(cell, w, shape[0] * shape[1])
            for w in (weight * arm.yes, 1.0 * weight)
        )
        return np.asarray(yes.reshape(shape), float), np.asarray(
            n.reshape(shape), float
        )

    yes, n = counts(known)
    if sample.worst:
        readings = [counts(read_as(sample, "selection_rate", side)) for side in (0, 1)]
    else:
        readings = []
    kept = (n[:, eligible] > 0).all(1)
    dropped = [names[index] for index in np.flatnonzero(~kept)]
    gaps = list[Pairs]()
    worst = list[Pairs]()
    if kept.any():
        pairs = [np.array(pair) for pair in combinations(eligible, 2)]
    else:
        pairs = []
    for pair in pairs:
        factor, freedom = rates.spread(pair[:1], pair[1:])
        p = rates.values[pair]
        questions = n[:, pair].sum(0)
        independent = float((p * (1 - p) / questions).sum())
        if independent > 0:
            effect = float(factor[0] ** 2 * rates.plain[pair].sum()) / independent
        else:
            effect = 1.0
        of_pair = (effect, sample.critical_values(freedom, len(eligible)), freedom)
        gaps.append(_mantel_haenszel(yes[kept][:, pair], n[kept][:, pair], *of_pair))
        worst.append(gaps[-1])
        if readings:
            (lowered, read), (raised, _) = (
                (x[kept], m[kept][:, pair]) for x, m in readings
            )
            ends = (
                np.stack([raised[:, pair[0]], lowered[:, pair[1]]], 1),
                np.stack([lowered[:, pair[0]], raised[:, pair[1]]], 1),
            )
            down, up = (_mantel_haenszel(end, read, *of_pair) for end in ends)
            worst[-1] = gaps[-1]._replace(low=down.low, high=up.high)
    if not gaps:
        return ParityWithinStrata(UNDEFINED, int(kept.sum()), dropped)
    nothing = np.zeros(0)
    largest = _largest(sample, gaps, len(eligible), 1, nothing)
    if readings:
        limits = _largest(sample, worst, len(eligible), 1, nothing)
        value = largest.value
        largest = replace(
            largest, worst_case=((value, value), (limits.low, limits.high))
        )
    widest = pairs[int(np.argmax([abs(gap.value[0]) for gap in gaps]))]
    of_groups = tuple(groups[index] for index in widest)
    estimate = replace(largest, alike=bool(sample.alike))
    return ParityWithinStrata(estimate, int(kept.sum()), dropped, of_groups)


def _mantel_haenszel(
    yes: Floats, n: Floats, effect: float, critical: Floats, freedom: Floats
) -> Pairs:
    """Return the difference of two rates within strata (K, 2), second minus first.

    The variance is Sato's (1989) plus that of two rows that changed, one each way, so that it is
    never 0; `effect` multiplies it.
    """
    (x, other), (m, k) = yes.T, n.T
    share = k / (m + k)
    rest = m / (m + k)
    total = (m * share).sum(keepdims=True)
    value = (other * rest - x * share).sum() / total
    sparse = (x * share**2 - other * rest**2 + share * rest * (m - k) / 2).sum()
    mixed = ((other * (m - x) + x * (k - other)) / (m + k)).sum() / 2
    error = np.sqrt(effect * (value * sparse + mixed + 0.5)) / total
    low, high = (
        np.clip(value + side * critical * error, -1.0, 1.0) for side in (-1, 1)
    )
    return Pairs(value, low, high, np.abs(value) / error, freedom, critical)
