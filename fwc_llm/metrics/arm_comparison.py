"""Compare two arms: differences of their metrics, with intervals and tests.

A test rejects equality exactly if the interval excludes 0, so that test and interval never disagree
(docs/statistics.md, "Two arms"). A difference is that of the two arms' own values: a reply without
an answer is missing from the value of its own arm only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np

from fwc_llm.metrics.arm_estimates import MARGIN, ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, REFER, Codes, Floats, quotient
from fwc_llm.metrics.intervals import (
    LEVEL,
    TOO_FEW,
    Estimate,
    Interval,
    Z,
    critical_value,
    p_value,
)
from fwc_llm.metrics.planning import smallest_difference
from fwc_llm.metrics.records import Record, record_of, with_readings
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.variance import (
    MIN_SETS,
    THESE_EXAMPLES,
    THIS_STRATEGY,
    Influence,
    RateEstimates,
    Scope,
    both_asked,
    effective_number,
    scope_words,
)

# Metrics with paired tests and verdicts.
COMPARED = "accuracy", "dp_gap", "label_gap", "refer_gap"
ALL = "all"
SAME = "the answers are the same"  # the reason for no verdict
_TINY = 1e-12
_FIRST = np.zeros(1, dtype=np.int64)  # the first share
Arms = tuple[ArmEstimates, ArmEstimates]


def of_error(
    difference: float, error: float, freedom: float, groups: int = 2
) -> Estimate:
    """Make a difference with limits and test from its standard `error`, simultaneous over
    `groups`.
    """
    if np.isnan(difference) or np.isnan(error):
        return Estimate(difference)
    reach = critical_value(groups, 1, freedom) * error
    chance = p_value(abs(difference) / error, groups, 1, freedom)
    smallest = smallest_difference(error**2, groups, freedom)
    low = max(-1.0, difference - reach)
    return Estimate(difference, low, min(1.0, difference + reach), chance, smallest)


def _test(metric: str, arms: Arms, aligned: bool, strategy: bool) -> Estimate:
    """Return a metric's difference; its worst case, too, if verdicts must hold in it."""
    how = metric, arms, aligned, strategy
    test = _over_readings(*how, worst=False)
    if not any(arm[metric].worst_case for arm in arms) or np.isnan(test.low):
        return test
    (least, most), (of_second, most_of_second) = (
        arm[metric].readings[0] for arm in arms
    )
    worst = _over_readings(*how, worst=True)
    ends = of_second - most, most_of_second - least
    return test.over(ends, (worst.low, worst.high))


def _over_readings(
    metric: str, arms: Arms, aligned: bool, strategy: bool, worst: bool
) -> Estimate:
    """Return a metric's lowest difference, and limits for all readings of the replies that were
    read, or of the `worst` case.
    """
    first, second = (
        arm[metric].readings if worst else arm[metric].read for arm in arms
    )
    ends = second[0][0] - first[0][1], second[0][1] - first[0][0]
    if metric not in COMPARED:
        return _of_intervals(first, second)
    rate = BY_KEY[metric].rates[0] + " of all" * (metric == "accuracy")
    sides = [arm.readings(rate) if worst else [arm.counted(rate)] * 2 for arm in arms]

    def nets(sign: float) -> list[_Net]:
        """The net shares as replies without an answer lower them most, then raise them most."""
        of_first = sides[0][::-1] if sign < 0 else sides[0]
        pairs = zip(of_first, sides[1], strict=True)
        return [_Net(pair, sign, aligned, strategy) for pair in pairs]

    lowered, raised = nets(-1.0)
    if metric == "accuracy":
        return replace(lowered.test(), high=raised.test().high)
    if np.isnan(ends[0]):
        return Estimate(np.nan)
    judged = arms[1].sample.eligible_groups
    i, j = (judged[places] for places in np.triu_indices(len(judged), 1))
    if len(judged) == 2:
        apart, together = (
            replace(low.test(i, j, high), low=high.test(i, j, low).low)
            for low, high in ((lowered, raised), nets(1.0))
        )
        return _of_sizes(ends, apart, together)
    # The largest gap changes by at most as much as the pair of groups that changes most.
    moments = raised.moments(i, j, lowered), lowered.moments(i, j, raised)
    variance, freedom = (np.concatenate(parts) for parts in zip(*moments, strict=True))
    widest = int(np.argmax(variance))
    error = float(np.sqrt(variance[widest])), float(freedom[widest])
    down, up = (of_error(end, *error, len(judged)) for end in ends)
    return replace(down, high=up.high)


def _of_intervals(
    first: tuple[Interval, Interval], second: tuple[Interval, Interval]
) -> Estimate:
    """Return the difference from both arms' values and intervals, by MOVER.

    The arms count as independent: if they answer alike, the limits are wider than necessary.
    """
    (least, most), (low, high) = first
    (least_of_second, most_of_second), (low_of_second, high_of_second) = second
    value = least_of_second - most
    if np.isnan([low, low_of_second]).any():
        return Estimate(value)
    down = float(np.hypot(least_of_second - low_of_second, high - most))
    up = float(np.hypot(high_of_second - most_of_second, least - low))
    to_zero = down if value > 0 else up
    errors = 0.0 if value == 0 else abs(value) / to_zero * Z if to_zero > 0 else np.inf
    ends = max(-1.0, value - down), min(1.0, most_of_second - least + up)
    smallest = smallest_difference((max(down, up) / Z) ** 2)
    return Estimate(value, *ends, p_value(errors), smallest)


def _of_sizes(values: Interval, difference: Estimate, together: Estimate) -> Estimate:
    """Return |b| − |a|, of range `values`, from the tests of b − a and of b + a (`together`).

    The size of |b| − |a| is the smaller size of b − a and b + a, and its sign is the product of
    their signs. It differs from 0 if both b − a and b + a do.
    """
    if np.isnan(difference.p_value) or np.isnan(together.p_value):
        return Estimate(values[0])
    ends = [
        float(np.sign(x) * np.sign(y) * min(abs(x), abs(y)))
        for x in (difference.low, difference.high)
        for y in (together.low, together.high)
    ]
    larger = max(difference.p_value, together.p_value)
    low = max(-1.0, min(*ends, *values))
    high = min(1.0, max(*ends, *values))
    return Estimate(values[0], low, high, larger, difference.detectable)


@dataclass(frozen=True)
class _Net:
    """The second arm's shares plus `sign` times the first's.

    The variance is over rows and, if `strategy`, over sets of examples too. The variance over rows
    includes two added rows that changed, one each way (Agresti & Min 2005), so that it is never 0.
    """

    own: tuple[RateEstimates, RateEstimates]
    sign: float
    aligned: bool
    strategy: bool

    @cached_property
    def _sets(self) -> Codes | None:
        """A set of both arms together, for each arm's questions (2n,)."""
        if not (self.strategy and self.aligned):
            return None
        samples = [share.sample for share in self.own]
        redrawn = [one.redrawn for one in samples if one.redrawn is not None]
        both = np.unique(np.stack(redrawn), axis=1, return_inverse=True)[1].ravel()
        return np.resize(both, sum(len(one.answer) for one in samples))

    @cached_property
    def _influence(self) -> Influence:
        one, other = (share.influence for share in self.own)
        psi = np.concatenate([self.sign * one.psi, other.psi])
        owner = np.concatenate([one.owner, other.owner])
        unit = np.concatenate([one.unit, other.unit])
        return replace(one, psi=psi, owner=owner, unit=unit, sets=self._sets)

    @cached_property
    def _by_row(self) -> tuple[Floats, Floats]:
        """Variances over rows and degrees of freedom (O,)."""
        first, second = self.own
        two_rows = np.nan_to_num((first.two_rows + second.two_rows) / 2)
        freedom = np.minimum(first.freedom, second.freedom)
        return self._influence.over_units + two_rows, freedom

    def moments(
        self, first: Codes, second: Codes | None = None, other: "_Net | None" = None
    ) -> tuple[Floats, Floats]:
        """Return variances (P,) and degrees of freedom of shares `first`, or of the other's
        `second` minus `first`.
        """
        other = other or self
        variance, freedom = (part[first] for part in self._by_row)
        if second is not None:
            of_second = [part[second] for part in other._by_row]
            shared = self._influence.shared(first, other._influence, second)
            variance = variance + of_second[0] - 2 * shared
            freedom = np.minimum(freedom, of_second[1])
        if not self.strategy:
            return variance, np.maximum(1.0, freedom)
        if self._sets is not None:
            of_sets = self._influence.over_sets(first, other._influence, second)
            fewer = np.minimum(freedom, max(1.0, effective_number(self._sets) - 1.0))
            return variance + of_sets, np.maximum(1.0, fewer)
        both = zip(self.own, other.own, strict=True)
        parts = [
            (
                share.influence.over_sets(first, of_other.influence, second),
                share.sample.number_of_sets - 1.0,
            )
            for share, of_other in both
            if share.influence.sets is not None
        ]
        total = np.sum([part for part, _ in parts], axis=0)
        squares = np.sum([part**2 / degrees for part, degrees in parts], axis=0)
        welch = quotient(total**2, squares)  # Welch (1947)
        fewest = min(degrees for _, degrees in parts)
        return variance + total, np.where(
            np.isnan(welch), fewest, np.maximum(fewest, welch)
        )

    @property
    def values(self) -> Floats:
        """The net shares (O,)."""
        return self.own[1].values + self.sign * self.own[0].values

    def test(
        self,
        first: Codes = _FIRST,
        second: Codes | None = None,
        other: "_Net | None" = None,
    ) -> Estimate:
        """Return the test of the share `first`, or of the other's share `second` minus `first`."""
        net = self.values[first]
        if second is not None:
            net = (other or self).values[second] - net
        variance, freedom = self.moments(first, second, other)
        return of_error(float(net[0]), float(np.sqrt(variance[0])), float(freedom[0]))


@dataclass(frozen=True)
class ComparedArms:
    """The comparison of a run's arm `second` with its arm `first`.

    `n` is the number of questions that both were asked, `same` whether these are all questions, all
    answers agree and the same replies hold none, `alike` whether an arm's answers are all alike. Of
    `rows` that both answered, the second arm is right more often on `better`, and less often on
    `worse`. Only `decided` pairs were asked for. `reason` explains the absence of limits and
    p-values. The differences `of_these` always have the scope "these examples": the prompts that
    were sent, on other rows like these.
    """

    first: str
    second: str
    scope: Scope
    tests: Mapping[str, Estimate]
    of_these: Mapping[str, Estimate]
    reason: str = ""
    n: int = 0
    alike: bool = False
    same: bool = False
    rows: int = 0
    better: int = 0
    worse: int = 0
    labelled: bool = True
    decided: bool = True

    def __getitem__(self, metric: str) -> Estimate:
        return self.tests[metric]

    def records(
        self,
        attribute: str,
        with_examples: bool,
        undefined: Mapping[str, str] = MappingProxyType({}),
    ) -> Iterator[Record]:
        """Yield the differences, those of these examples, and what could have been found.

        `undefined` has the reasons why metrics have no value in one of the arms: then they have no
        difference either.
        """
        between: Any = {"arm": self.second, "against": self.first, "n": self.n}
        scope = scope_words(self.scope, with_examples)
        tests = {scope: self.tests}
        if self.reason or self.scope != THESE_EXAMPLES:
            tests[scope_words(THESE_EXAMPLES, with_examples)] = self.of_these
        for of, differences in tests.items():
            for metric, test in differences.items():
                where: Any = {"metric": f"{metric}_difference", "scope": of, **between}
                if BY_KEY[metric].kind != "share":
                    where["attribute"] = attribute
                if metric in undefined:
                    if of == scope:
                        yield Record(**where, reason=undefined[metric])
                elif of != scope and not np.isnan(test.value):
                    yield record_of(test, **where)
                elif not np.isnan(test.value):
                    own = record_of(test, **where, reason=self.reason)
                    if self.same and own.verdict == TOO_FEW:
                        own = replace(own, verdict="", reason=SAME)
                    yield from with_readings(test, own)
                if not np.isnan(test.detectable) and metric in COMPARED:
                    least = test.detectable + test.unread_effect
                    where["metric"] += "_detectable"
                    yield Record(**where, value=least)
        if self.labelled:
            between["n"] = self.rows
            yield Record(**between, metric="rows_better", value=self.better)
            yield Record(**between, metric="rows_worse", value=self.worse)


def comparisons(
    run: RunAnswers, estimates: Mapping[str, ArmEstimates]
) -> list[ComparedArms]:
    """Compare every pair of arms, and add verdicts.

    Pairs with the arm `run.against` have it first, and are `decided`. Decided pairs are corrected
    for their number, the others for the number of all pairs (`adjust`).
    """
    against = run.against or (run.arms[0] if run.arms else "")
    order = sorted(run.arms, key=lambda arm: arm != against)
    tests = [
        replace(
            compare((estimates[first], estimates[second]), first, second),
            decided=against in (ALL, first, second),
        )
        for first, second in combinations(order, 2)
    ]
    decided = [test for test in tests if test.decided]
    margin = run.design.margin
    others = [test for test in adjust(tests, margin) if not test.decided]
    return [*adjust(decided, margin), *others]


def compare(
    arms: Arms,
    first_name: str = "",
    second_name: str = "",
    aligned: bool = True,
    metrics: Sequence[str] = tuple(BY_KEY),
    one_strategy: bool = False,
) -> ComparedArms:
    """Compare two arms, second minus first, without verdicts; a row has the same number in both.

    `aligned`: both were asked the same questions in the same order, like the arms of one run.
    Otherwise rows that both were asked about still count as pairs, but the two arms' repeats are
    unrelated. `one_strategy`: where one arm's examples were drawn again, a single set of the other
    is a draw, too.
    """
    samples = [arm.sample for arm in arms]
    of_these = {metric: _test(metric, arms, aligned, False) for metric in metrics}
    unknown = {metric: Estimate(test.value) for metric, test in of_these.items()}
    drawn = [sample.number_of_sets for sample in samples if sample.sets is not None]
    if one_strategy and drawn:
        drawn += [1 for of in samples if of.sets is None and not of.per_row]
    scope: Scope = THESE_EXAMPLES
    tests = of_these
    reason = ""
    if drawn or any(sample.per_row for sample in samples):
        scope = THIS_STRATEGY
        fewest = min(drawn, default=MIN_SETS)
        if fewest < MIN_SETS:
            reason = (
                f"cannot be told with {fewest} draw{'s' * (fewest > 1)} of examples: "
                f"to compare strategies takes {MIN_SETS} repeats, each with its own examples"
            )
            tests = unknown
        elif drawn:
            tests = {metric: _test(metric, arms, aligned, True) for metric in metrics}
    before, after = (sample.assumed for sample in samples)
    asked, there = both_asked(before, after)
    said = before.answer[asked], after.answer[there]
    both = ~np.isnan(said).any(0)
    all_common = len(asked) == len(before.answer) == len(after.answer)
    labels = before.label[asked][both]
    net = (said[1][both] == labels) * 1.0 - (said[0][both] == labels)
    net[labels == REFER] = 0.0  # neither right nor wrong
    net = np.bincount(before.row[asked][both], net)
    return ComparedArms(
        first_name,
        second_name,
        scope,
        tests,
        of_these,
        reason,
        n=len(asked),
        alike=bool(before.alike or after.alike),
        same=all_common and bool(both.any()) and np.array_equal(*said, equal_nan=True),
        rows=len(np.unique(before.row[asked][both])),
        better=int((net > 0).sum()),
        worse=int((net < 0).sum()),
        labelled=before.design.labelled,
    )


def adjust(tests: Sequence[ComparedArms], margin: float = MARGIN) -> list[ComparedArms]:
    """Correct limits and p-values for k comparisons (Bonferroni), and add verdicts."""
    corrected = [dict(test.tests) for test in tests]
    for metric in BY_KEY:
        tested = [own[metric] for own in corrected if metric in own]
        k = sum(not np.isnan(one.p_value) for one in tested)
        wider = critical_value(2, 1, np.inf, 1 - (1 - LEVEL) / k) / Z if k > 1 else 1.0
        for test, own in zip(tests, corrected, strict=True):
            if metric in own:
                own[metric] = _corrected(own[metric], k, wider)
            if metric in own and metric in COMPARED:
                alike = test.alike and metric != "accuracy"
                own[metric] = own[metric].judged(margin, alike)
    both = zip(tests, corrected, strict=True)
    return [replace(test, tests=own) for test, own in both]


def _corrected(test: Estimate, k: int, wider: float) -> Estimate:
    """The difference with limits that are `wider`, and with the p-value of k tests."""
    if np.isnan(test.p_value):
        return test
    p = min(1.0, k * test.p_value)

    def widened(end: float, limit: float) -> float:
        return float(np.clip(end + wider * (limit - end), -1.0, 1.0))

    low = widened(test.value, test.low)
    high = widened(test.value, test.high)
    if p >= 1 - LEVEL:  # interval and p-value agree despite rounding and folding
        low = min(low, 0.0)
        high = max(high, 0.0)
    elif test.value > 0:
        low = max(low, _TINY)
    else:
        high = min(high, -_TINY)
    smallest = test.detectable * (1 + (wider - 1) * Z / smallest_difference(1.0))
    found = replace(test, low=low, high=high, p_value=p, detectable=smallest)
    if test.worst_case is None:
        return found
    ends, limits = test.worst_case
    return found.over(ends, (widened(ends[0], limits[0]), widened(ends[1], limits[1])))
