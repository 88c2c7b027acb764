"""Two arms side by side, from plain arrays: differences, their intervals, and the tests that they make.

A test is its interval excluding 0, so that neither can contradict the other, nor the sign of the difference
(docs/statistics.md, "Two arms"). Differences are those of the two arms' own values: what an arm left unparsed
it leaves out of its own value only.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, stdtr

from fwc_llm.metrics.cells import Floats
from fwc_llm.metrics.estimates import Estimates
from fwc_llm.metrics.limits import pairs_reach, pairs_within
from fwc_llm.metrics.planning import smallest_difference
from fwc_llm.metrics.sample import LEAST_SETS, THESE_EXAMPLES, THIS_STRATEGY, Codes, Of, Sample
from fwc_llm.metrics.shares import Shares, spread_over_sets


@dataclass(frozen=True)
class Difference:
    """The second arm's value less the first's, with 95 % limits and p-value; NaN where there is none.

    The limits exclude 0 exactly where the p-value is below 0.05. `smallest_found` is the difference that such
    a test finds four times in five (see `planning`): smaller ones are missed more often.
    """

    difference: float
    low: float = np.nan
    high: float = np.nan
    p_value: float = np.nan
    smallest_found: float = np.nan


@dataclass(frozen=True)
class Contrast:
    """Two arms compared. `of` says what limits and p-values speak of; `reason` why there are none.

    The differences `of_these` speak of these examples whatever `of` is: of the very prompts that were sent,
    on other rows like these.
    """

    of: Of
    accuracy: Difference
    demographic_parity_difference: Difference
    accuracy_of_these: Difference
    parity_of_these: Difference
    reason: str = ""


def contrast(first: Estimates, second: Estimates, aligned: bool = True) -> Contrast:
    """Return the comparison of two arms whose rows are numbered alike, second less first.

    `aligned` says that both were asked the same questions in the same order, as the arms of one run are. Else
    rows that both were asked about still count as pairs, and the repeats of one are not those of the other.
    """
    one, other = first.sample, second.sample
    these = _Both(first, second, aligned, None)
    accuracy, parity = these.accuracy(), these.parity()
    drawn = [sample for sample in (one, other) if sample.sets is not None]
    if not drawn:
        of = THIS_STRATEGY if one.per_row or other.per_row else THESE_EXAMPLES
        return Contrast(of, accuracy, parity, accuracy, parity)
    fewest = min(len(np.unique(_numbered(sample))) for sample in drawn)
    if fewest < LEAST_SETS:
        few = (
            f"cannot be told with {fewest} draws of examples: it takes {LEAST_SETS} repeats, each with "
            "examples of its own, to tell strategies apart"
        )
        unknown = Difference(accuracy.difference), Difference(parity.difference)
        return Contrast(THIS_STRATEGY, *unknown, accuracy, parity, few)
    both = _Both(first, second, aligned, (_numbered(one), _numbered(other)))
    return Contrast(THIS_STRATEGY, both.accuracy(), both.parity(), accuracy, parity)


def _numbered(sample: Sample) -> Codes:
    return np.zeros(sample.repeats, dtype=np.int64) if sample.sets is None else sample.sets


@dataclass(frozen=True)
class _Moments:
    """Differences (or sums) of two arms' values (O,): variances, and the freedom that those rest on."""

    value: Floats
    variance: Floats
    freedom: Floats

    def test(self, place: int = 0) -> Difference:
        value, error = float(self.value[place]), float(np.sqrt(self.variance[place]))
        if np.isnan(value) or np.isnan(error):
            return Difference(value)
        freedom = float(self.freedom[place])
        reach = pairs_reach(2, 1, freedom) * error
        tail = ndtr(-abs(value) / error) if freedom == np.inf else stdtr(freedom, -abs(value) / error)
        found = smallest_difference(error**2, freedom=freedom)
        return Difference(value, value - reach, value + reach, float(2 * tail), found)


@dataclass(frozen=True)
class _Both:
    """Two arms, over rows alone or (with the sets of examples of both) over rows and sets."""

    first: Estimates
    second: Estimates
    aligned: bool
    sets: tuple[Codes, Codes] | None

    def accuracy(self) -> Difference:
        """The difference of the accuracies."""
        own = self.first.counted_accuracy, self.second.counted_accuracy
        return _within(self._moments(own, -1.0, np.zeros(1, dtype=np.int64), None).test())

    def parity(self) -> Difference:
        """The difference of the demographic parity differences."""
        values = [arm.demographic_parity_difference.value for arm in (self.first, self.second)]
        difference = values[1] - values[0]
        if np.isnan(difference):
            return Difference(np.nan)
        own = self.first.counted_rates, self.second.counted_rates
        groups = self.first.sample.groups
        pairs = np.triu_indices(groups, 1)
        apart = self._moments(own, -1.0, *pairs)
        if groups == 2:
            return _of_sizes(difference, apart.test(), self._moments(own, 1.0, *pairs).test())
        # The largest gap moves by no more than the pair of groups that moves most.
        widest = int(np.argmax(apart.variance))
        error, freedom = float(np.sqrt(apart.variance[widest])), float(apart.freedom[widest])
        reach = pairs_reach(groups, 1, freedom) * error
        chance = 1.0 - pairs_within(abs(difference) / error, groups, 1, freedom)
        found = smallest_difference(error**2, groups, freedom)
        test = Difference(difference, difference - reach, difference + reach, max(0.0, chance), found)
        return _within(test)

    def _moments(self, own: tuple[Shares, Shares], sign: float, one: Codes, other: Codes | None) -> _Moments:
        """The second arm's share `one`, or its gap `other` less `one`, plus `sign` times the first arm's."""

        def gap(values: Floats) -> Floats:
            return values[..., one] if other is None else values[..., other] - values[..., one]

        def both(values: Floats) -> Floats:
            return values[one] if other is None else values[one] + values[other]

        samples = self.first.sample, self.second.sample
        value = gap(own[1].values) + sign * gap(own[0].values)
        by_row = both(_over_rows(samples, own, sign))
        if self.sets is None:
            return _Moments(value, by_row, np.full(len(value), np.inf))
        each = gap(own[0].per_repeat), gap(own[1].per_repeat)
        by_question = both(_over_questions(samples, own, sign, self.aligned))
        if self.aligned:
            together = np.unique(np.stack(self.sets), axis=1, return_inverse=True)[1].ravel()
            spread, number = spread_over_sets(each[1] + sign * each[0], together)
            freedom = number - 1.0
        else:
            (spread, freedom) = _independent(each, self.sets)
        return _Moments(value, np.maximum(by_row, spread + by_row - by_question), np.maximum(1.0, freedom))


def _independent(each: tuple[Floats, Floats], sets: tuple[Codes, Codes]) -> tuple[Floats, Floats]:
    """The spread over sets of two arms that share no repeats, with Welch's freedom (Welch 1947)."""
    spread, weight = np.zeros(each[0].shape[1]), np.zeros(each[0].shape[1])
    for values, code in zip(each, sets, strict=True):
        if len(np.unique(code)) > 1:
            own, number = spread_over_sets(values, code)
            spread, weight = spread + own, weight + own**2 / (number - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return spread, np.where(weight > 0, spread**2 / weight, 1.0)


def _over_rows(samples: tuple[Sample, Sample], own: tuple[Shares, Shares], sign: float) -> Floats:
    """The variance (O,) over rows: the rows' net influence on both arms, two pseudo-rows added to each share.

    A stratum with a single row cannot show its variance; the largest possible stands in.
    """
    k = max(int(sample.row.max(initial=-1)) + 1 for sample in samples)
    net, stratum = np.zeros(k), np.full(k, -1)
    for sample, shares, factor in zip(samples, own, (sign, 1.0), strict=True):
        net += factor * np.bincount(sample.row, shares.residual, k)
        stratum[sample.row] = shares.stratum
    known = stratum >= 0
    strata = len(own[0].owner)
    rows = np.bincount(stratum[known], minlength=strata)
    squares = np.bincount(stratum[known], net[known] ** 2, strata)
    alone = np.maximum(own[0].coefficient, own[1].coefficient) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(rows > 1, rows / (rows - 1) * squares, np.where(rows == 1, alone, 0.0))
    return _with_pseudo_rows(parts, rows, *own)


def _over_questions(
    samples: tuple[Sample, Sample], own: tuple[Shares, Shares], sign: float, aligned: bool
) -> Floats:
    """The variance (O,) if no row were asked about twice."""
    residuals = own[1].residual + sign * own[0].residual if aligned else None
    total = np.zeros(len(own[0].values))
    for shares in own[1:] if aligned else own:
        values = shares.residual if residuals is None else residuals
        strata = len(shares.owner)
        number = np.bincount(shares.stratum, minlength=strata)
        squares = np.bincount(shares.stratum, values**2, strata)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(number > 1, number / (number - 1) * squares, 0.0)
        total += _with_pseudo_rows(parts, number, *(own if aligned else (shares, shares)))
    return total


def _with_pseudo_rows(parts: Floats, number: Codes, one: Shares, other: Shares) -> Floats:
    """Sums (O,) over strata, with two more rows that changed, one each way (after Agresti & Min 2005).

    They fall on the strata as questions do. Where repeats have used up a small stratum, each of its rows
    weighs more than one of the others, and so does a pseudo-row.
    """
    coefficient = (one.coefficient + other.coefficient) / 2
    weight = np.divide(coefficient, number, out=np.zeros(len(number)), where=number > 0)
    sums = np.bincount(one.owner, parts + 2.0 * coefficient * weight**2, len(one.values))
    return np.asarray(sums, np.float64)


def _within(test: Difference) -> Difference:
    """The same with limits that a difference of shares can have."""
    if np.isnan(test.p_value):
        return test
    return replace(test, low=max(-1.0, test.low), high=min(1.0, test.high))


def _of_sizes(difference: float, apart: Difference, together: Difference) -> Difference:
    """The difference of |b| and |a| from those of b − a (`apart`) and b + a (`together`).

    |b| − |a| is the smaller of both in size, with the product of their signs; its range over both intervals
    is at their ends. It differs from 0 where both do.
    """
    if np.isnan(apart.p_value) or np.isnan(together.p_value):
        return Difference(difference)
    ends = [
        np.sign(x) * np.sign(y) * min(abs(x), abs(y))
        for x in (apart.low, apart.high)
        for y in (together.low, together.high)
    ]
    low, high = min(*ends, difference), max(*ends, difference)
    p_value = max(apart.p_value, together.p_value)
    return _within(Difference(difference, float(low), float(high), p_value, apart.smallest_found))
