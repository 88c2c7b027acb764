"""All results of a run: a list of records, and the facts around them (docs/statistics.md)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import pandas as pd

from fwc_llm.metrics import counts, records
from fwc_llm.metrics.arm_comparison import ComparedArms, comparisons
from fwc_llm.metrics.arm_estimates import (
    ArmEstimates,
    ParityWithinStrata,
    conditional_parity,
)
from fwc_llm.metrics.intervals import NOWHERE, TOO_FEW
from fwc_llm.metrics.perturbation_effects import flips, probes, repetition_records
from fwc_llm.metrics.predicted_probabilities import Probabilities, decision_notes
from fwc_llm.metrics.prediction_powered import (
    MIN_ROWS,
    RATES_ASSISTED,
    effective_sample_size,
)
from fwc_llm.metrics.records import Record, Records, record_of, with_readings
from fwc_llm.metrics.run_answers import RunAnswers, View
from fwc_llm.metrics.sampling_design import AS_NO, WORST, SamplingDesign, Unread
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, UNLABELLED, scope_words
from fwc_llm.number_format import interval, number
from fwc_llm.sanitize import Json, listed
from fwc_llm.words import is_known

_LISTED = 4  # groups that a note names, at most
_MANY = 1_000_000  # rows; notes say "more than" for larger numbers
_QUARTER = 0.25  # of a group's rows; a person with so many is named
LEADS = "dp_gap", "label_gap"
_FATES: Mapping[Unread, str] = {  # what is done with replies without an answer, by arm
    WORST: "Replies without an answer: {}; intervals hold whether each is a yes or a no.",
    AS_NO: "Replies without an answer ({}) are counted as no: an assumption.",
    "ignore": "Replies without an answer ({}) are left out, as if they were like the others: an "
    "assumption.",
}
_LOST = "Requests without a reply: {}; they are left out: values are of the rows with a reply."
Units = Literal["rows", "people"]


@dataclass(frozen=True)
class ArmFacts:
    """What is known of an arm beside its records.

    `n` counts questions, `unanswered` those whose reply was lost, `unread` the other replies
    without an answer, and `unparsed` the missing answers by reason. `alike`: words for answers
    (nearly) all alike, else "".
    """

    arm: str
    n: int
    scope: str
    unanswered: int = 0
    unread: int = 0
    unparsed: Mapping[str, int] = field(default_factory=dict)
    alike: str = ""
    within_strata: ParityWithinStrata | None = None


@dataclass(frozen=True)
class GroupFacts:
    """A group: number of questions, whether the group is judged."""

    group: str
    n: int
    judged: bool


@dataclass(frozen=True)
class Statistics:
    """All results of a run or an audit.

    `lead` is the gap that leads: that at equal labels where rows were drawn with a base parity,
    else the DP gap. `labels_fixed`: rows were drawn so. `refers`: there is a third answer. `views`
    are the protected attributes, one by one and last all crossed. `units` were drawn; `heavy` are
    sentences on people who alone hold a quarter of a group's rows. `stated`: P(yes) is a number in
    the reply.
    """

    records: Records
    arms: Sequence[ArmFacts]
    groups: Sequence[GroupFacts]
    pairs: Sequence[ComparedArms]
    views: Sequence[View]
    repeats: int
    labelled: bool
    with_examples: bool
    assisted: bool
    margin: float
    unread: Unread
    min_group: int
    not_judged: Sequence[str] = ()
    labels_fixed: bool = False
    refers: bool = False
    units: Units = "rows"
    heavy: Sequence[str] = ()
    notes: Sequence[str] = ()
    stated: bool = False

    @property
    def lead(self) -> str:
        """The key of the gap that leads."""
        return LEADS[self.labels_fixed and self.labelled]

    @property
    def leading(self) -> list[str]:
        """The metrics of the first table: the gap that leads, the DP gap, that in referrals,
        accuracy.
        """
        gaps = dict.fromkeys((self.lead, "dp_gap", *["refer_gap"] * self.refers))
        return [*gaps, *["accuracy"] * self.labelled]

    @property
    def base(self) -> str:
        """The arm that others are compared with."""
        return self.pairs[0].first if self.pairs else self.arms[0].arm

    @cached_property
    def judged(self) -> list[str]:
        """The groups that are compared."""
        return [group.group for group in self.groups if group.judged]

    def of(self, metric: str, arm: str = "", group: str = "", **more: Any) -> Record:
        """Look a record up (`Records.find`)."""
        return self.records.find(metric, arm, group, **more)

    def difference(
        self, metric: str, arm: str, against: str, scope: str | None = None
    ) -> Record:
        """The difference of an arm's metric from another arm's, whichever way it is recorded."""
        key = f"{metric}_difference"
        found = self.of(key, arm, against=against, scope=scope)
        if found.metric:
            return found
        return self.of(key, against, against=arm, scope=scope).reversed()

    def same_answers(self, arm: str, other: str | None) -> bool:
        """Whether all answers that both arms gave are the same."""
        both = {arm, other}
        pairs = (pair for pair in self.pairs if pair.same)
        return any({pair.first, pair.second} == both for pair in pairs)

    def rates(self, arm: str, rate: str = "selection_rate") -> dict[str, Record]:
        """The records of a rate of the groups that are compared, without undefined ones."""
        found = {group: self.of(rate, arm, group) for group in self.judged}
        return {group: record for group, record in found.items() if record.known}

    def shares(self, arm: str, rate: str = "selection_rate") -> dict[str, float]:
        """The values of `rates`."""
        return {group: record.value for group, record in self.rates(arm, rate).items()}

    def plain(self) -> Json:
        """The facts as plain values for JSON, without the records."""
        names = ["repeats", "labelled", "with_examples", "assisted", "margin", "unread"]
        names += ["min_group", "lead", "refers", "notes"]
        arms = [
            {
                "arm": arm.arm,
                "n": arm.n,
                "alike": arm.alike,
                "unparsed": dict(arm.unparsed),
            }
            for arm in self.arms
        ]
        groups = [vars(group) for group in self.groups]
        return {name: getattr(self, name) for name in names} | {
            "arms": arms,
            "groups": groups,
        }


def statistics(run: RunAnswers, more: Iterable[Record] = ()) -> Statistics:
    """Return all results of a run; `more` are further records, such as those of `impact_tables`."""
    first = next(iter(run.samples.values()))
    attribute = run.attribute
    pairs = comparisons(run, run.plain_estimates)
    of_each = [_OfArm(run, arm) for arm in run.arms]
    found = [record for of_arm in of_each for record in of_arm.records()]
    of_arms = Records(found, attribute)
    for pair in pairs:
        undefined = _undefined(of_arms, pair)
        found += pair.records(attribute, run.with_examples, undefined)
    if run.design.labelled:
        found += _true_answers(run)
    sizes = np.bincount(first.group, minlength=first.groups)
    groups = [
        GroupFacts(name, int(n), number in first.eligible_groups)
        for number, (name, n) in enumerate(zip(run.groups, sizes, strict=True))
    ]
    content = Statistics(
        Records(found, attribute).and_also(more),
        [of_arm.facts for of_arm in of_each],
        groups,
        pairs,
        run.views,
        first.repeats,
        run.design.labelled,
        run.with_examples,
        run.assist,
        run.design.margin,
        run.design.unread,
        run.design.min_group,
        small_groups(run),
        run.design.labels_fixed,
        run.design.refers,
        "rows" if first.cluster is None else "people",
        tuple(_heavy_people(run)),
    )
    content = replace(content, notes=list(notes(run, content)))
    run.forget_estimates()
    return content


def _undefined(of_arms: Records, pair: ComparedArms) -> dict[str, str]:
    """Why metrics are undefined in an arm of a pair, by metric."""
    found: dict[str, str] = {}
    for metric in counts.BY_KEY:
        both = [of_arms.find(metric, arm) for arm in (pair.second, pair.first)]
        reasons = [arm.reason for arm in both if arm.reason and not arm.known]
        if reasons:
            found[metric] = " and ".join(dict.fromkeys(reasons))
    return found


def _is_defined(metric: counts.Metric, design: SamplingDesign) -> bool:
    """Whether a metric has what it needs: labels, unless it is of answers alone; a third answer."""
    if metric.key in counts.OF_REFERRALS:
        return design.refers
    return design.labelled or {*metric.rates} <= {*UNLABELLED}


class _OfArm:
    """The facts and records of one arm."""

    def __init__(self, run: RunAnswers, arm: str) -> None:
        self.run = run
        self.answers = a = run.answers[arm]
        self.estimates = run.estimates[arm]
        self.sample = sample = self.estimates.sample
        self.facts = ArmFacts(
            arm,
            len(a),
            scope_words(sample.scope, run.with_examples),
            int((a.reason == "error").sum()),
            int(sample.unread_rows.sum()),
            a.unparsed,
            sample.alike,
            conditional_parity(sample, run.groups),
        )
        self.of_answers = [
            metric.key for metric in counts.COUNTED if _is_defined(metric, run.design)
        ]

    def cells(self, key: str, **cells: Any) -> Json:
        """The cells of a metric's record."""
        of = "" if counts.BY_KEY[key].kind == "share" else self.run.attribute
        facts = self.facts
        own = {"arm": facts.arm, "attribute": of, "scope": facts.scope, "n": facts.n}
        return own | cells

    def record(
        self,
        key: str,
        estimates: ArmEstimates | None = None,
        groups: Sequence[str] | None = None,
        **cells: Any,
    ) -> Record:
        """A metric's record, with the reason if it is undefined."""
        own = estimates or self.estimates
        found = record_of(own[key], metric=key, **self.cells(key, **cells))
        if found.known:
            return found
        return replace(found, reason=own.undefined(key, groups or self.run.groups))

    def _of_decided(self) -> Iterator[Record]:
        """Yield the metrics of answers yes and no alone; none without a third answer."""
        run = self.run
        for key, metric in counts.DECIDED.items():
            if not (run.design.refers and _is_defined(metric, run.design)):
                continue
            of = self.cells(key, metric=key, scope=records.DECIDED_SCOPE)
            found = record_of(self.estimates.of(metric), **of)
            if not found.known:
                why = self.estimates.undefined(key, run.groups, decided=True)
                found = Record(**of, reason=why)
            yield found

    def records(self) -> Iterator[Record]:
        """Yield the arm's metrics in all scopes, then those of its groups."""
        run = self.run
        asked = np.bincount(self.sample.repeat, minlength=run.repeats).tolist()
        keys = list(self.of_answers)
        if run.design.labelled and any(
            each.p_yes is not None for each in run.samples.values()
        ):
            keys += [one.key for one in counts.TABLE if one.source == "p_yes"]
        yield from self._of_replies()
        for key in keys:
            estimate = self.estimates[key]
            yield from with_readings(estimate, self.record(key))
            of_repeats = zip(asked, estimate.per_repeat.tolist(), strict=True)
            for repeat, (n, value) in enumerate(of_repeats if run.repeats > 1 else ()):
                of = self.cells(key, n=n, repeat=repeat)
                yield Record(metric=key, value=value, **of)
        yield from self._of_scopes()
        for key in LEADS:
            gap = self.estimates[key]
            needed = self.estimates.rows_needed(key) if gap.verdict == TOO_FEW else None
            least = gap.detectable + gap.unread_effect
            for name, value in {"detectable": least, "rows_needed": needed}.items():
                if value and not math.isnan(value):
                    of = self.cells(key)
                    yield Record(metric=f"{key}_{name}", value=value, **of)
        for view in reversed(run.views):
            yield from self._of_view(view)
        holds = scope_words(THESE_EXAMPLES, run.with_examples)
        for record in self._further():
            yield replace(record, arm=self.facts.arm, scope=record.scope or holds)

    def _of_replies(self) -> Iterator[Record]:
        """Yield the shares of replies with an answer, and without one by reason, where known."""
        blanks = self.answers.without_reason
        remedy = "name replies, or add a column `reason`"
        why = f"{blanks:,} answers are missing for unknown reasons: {remedy}"
        for metric in counts.REPLIES:
            if blanks and metric.rates != ("coverage",):
                yield Record(metric=metric.key, reason=why, **self.cells(metric.key))
            else:
                yield self.record(metric.key)

    def _of_scopes(self) -> Iterator[Record]:
        """Yield the metrics in other scopes: unread as no, all groups, assisted, within strata, of
        the decided.
        """
        run = self.run
        arm = self.facts.arm
        plain = run.plain_samples[arm]
        if self.sample.worst:
            design = replace(run.design, unread=AS_NO)
            as_no = ArmEstimates(replace(plain, design=design))
            for key in self.of_answers:
                yield self.record(key, as_no, scope=records.AS_NO_SCOPE, verdict="")
        if len(self.sample.eligible_groups) < len(self.sample.known_groups):
            for key in self.of_answers:
                if counts.BY_KEY[key].kind != "share":
                    of = self.cells(key, scope=records.ALL_GROUPS)
                    yield Record(metric=key, value=self.estimates.value(key), **of)
        if arm in run.assists:
            own = run.plain_estimates[arm]
            assisted = ArmEstimates(replace(plain, assist=run.assists[arm]))
            for key in self.of_answers:
                if set(counts.BY_KEY[key].rates) <= set(RATES_ASSISTED):
                    n = effective_sample_size(own, assisted, key)
                    yield self.record(key, assisted, scope=records.ASSISTED, n=n)
        if self.facts.within_strata is not None:
            of = self.cells("dp_gap", scope=records.STRATA_SCOPE)
            yield record_of(self.facts.within_strata.estimate, metric="dp_gap", **of)
        yield from self._of_decided()

    def _of_view(self, view: View) -> Iterator[Record]:
        """Yield the groups' rates by one attribute or by all; its gaps, if it is one of several."""
        run = self.run
        crossed = view is run.views[-1]
        estimates = self.estimates if crossed else run.in_view(view)[self.facts.arm]
        sample = estimates.sample
        for key in () if crossed else self.of_answers:
            metric = counts.BY_KEY[key]
            if metric.headline and metric.kind != "share":
                found = self.record(key, estimates, view.levels, attribute=view.name)
                yield from with_readings(estimates[key], found)
        sizes = np.bincount(sample.group, minlength=sample.groups).tolist()
        rates = ["selection_rate", "coverage"]
        if run.design.refers:
            rates.append("refer_rate")
        unread = any(of.sample.unread_rows.any() for of in run.estimates.values())
        if unread and not self.answers.without_reason:
            rates += counts.REPLY_RATES[1:]
        if crossed and run.design.labelled and sample.p_yes is not None:
            rates += ["auc", "brier"]
        of: Any = {"attribute": view.name, "scope": self.facts.scope}
        for rate in rates:
            shares = zip(view.levels, estimates.rates(rate), sizes, strict=True)
            for group, share, n in shares:
                cells = {"arm": self.facts.arm, "group": group, "n": n, **of}
                found = record_of(share, metric=rate, **cells)
                yield from with_readings(share, found)
        if run.design.refers:
            decided = estimates.rates("selection_rate_decided")
            of |= {"metric": "selection_rate", "scope": records.DECIDED_SCOPE}
            for group, share in zip(view.levels, decided, strict=True):
                found = record_of(share, arm=self.facts.arm, group=group, **of)
                why = (
                    ""
                    if found.known
                    else "0/0: no answer yes or no to rows of this group"
                )
                yield replace(found, reason=why)

    def _further(self) -> Iterator[Record]:
        """Yield the records of P(yes), repeated prompts, changed attributes and probes."""
        run = self.run
        arm = self.facts.arm
        probabilities = Probabilities.of(run.plain_samples[arm])
        if probabilities is not None:
            yield from probabilities.records(run.groups, run.attribute)
            if self.facts.alike:
                yield from probabilities.at_median(run.groups, run.attribute)
        yield from repetition_records(self.answers, run)
        if arm in run.counterfactuals:
            yield from flips(self.answers, run.counterfactuals[arm])
        if arm in run.probes:
            yield from probes(run, arm)


def _true_answers(run: RunAnswers) -> Iterator[Record]:
    """Yield what answers that agree with every label have: gaps, and each group's base rate.

    As in the arms, rows without any reply are left out: all rates are of the same rows.
    """
    view = run.views[-1]
    first, *others = run.samples.values()
    lost = reduce(lambda rows, sample: rows & sample.lost, others, first.lost)
    answer = np.where(lost, np.nan, first.label)
    perfect = ArmEstimates(replace(first, answer=answer, assist=None))
    of: Any = {"arm": records.TRUTH, "scope": "these rows"}
    for metric in counts.COUNTED:
        referral = metric.key in counts.OF_REFERRALS and run.design.refers
        if metric.headline or referral:
            attribute = "" if metric.kind == "share" else view.name
            found = perfect[metric.key]
            low, high = NOWHERE
            if metric.key == "dp_gap" and not perfect.sample.design.labels_fixed:
                low, high = found.decisive
            ends: Any = {"value": found.value, "low": low, "high": high}
            yield Record(metric=metric.key, attribute=attribute, **ends, **of)
    shares = perfect.counted("selection_rate").values.tolist()
    for group, share in zip(view.levels, shares, strict=True):
        yield Record(
            metric="selection_rate", group=group, attribute=view.name, value=share, **of
        )


def notes(run: RunAnswers, content: Statistics) -> list[str]:
    """Return notes that a reader must know before trusting a number, made for this run."""
    return [
        *_about_rows(run),
        *_about_predictions(run, content),
        *fates(content.arms, content.unread),
        *run.unused,
        *_about_arms(content),
        *content.heavy,
        *decision_notes(run),
    ]


def _about_rows(run: RunAnswers) -> Iterator[str]:
    """Yield notes on groups, referrals, repeats, people and draws of examples."""
    if run.design.refers:
        yield (
            "An answer that refers a case to a person is not a yes, and not right. Rows whose true "
            "answer is to refer count in no number that compares answers with true ones."
        )
    sample = next(iter(run.samples.values()))
    small = small_groups(run)
    sizes = zip(run.groups, sample.of_groups(sample.unit), strict=True)
    few = [
        name
        for name, size in sizes
        if size < run.design.min_group and is_known(name) and name not in small
    ]
    fewer = f"fewer than {run.design.min_group} {'rows' if sample.cluster is None else 'people'}"
    if small:
        yield f"Not judged, with {fewer}: {group_words(small)}."
    if few and len(run.groups) > 1:
        yield f"Judged, though with {fewer}, because a gap takes two groups: {group_words(few)}."
    unknown = [name for name in run.groups if not is_known(name)]
    if unknown:
        yield (
            f"Not judged, because the category of these people is not known: "
            f"{group_words(unknown)}."
        )
    if sample.weight is not None:
        yield "Rates, gaps and true shares are weighted; counts of rows are not."
    if len(run.groups) < 2:
        yield "All rows are of one group: there is no disparity to measure."

    about = f"{len(sample.row):,} questions are about {sample.rows:,} rows."
    if run.design.times > 1:
        yield (
            f"Every prompt was asked {run.design.times} times: {about} Identical answers to one "
            f"prompt do "
            "not narrow the intervals."
        )
    elif sample.rows < len(sample.row):
        yield f"Repeats share test rows: {about}"
    if sample.cluster is not None:
        people = len(np.unique(sample.cluster))
        yield (
            f"{len(sample.row):,} answers are about {people:,} people: intervals count people, not "
            f"rows."
        )
        if people < 2 * MIN_SETS:
            yield f"{people} people are few: with fewer than ten, intervals may be too narrow."
    drawn = {
        arm: arrays.number_of_sets
        for arm, arrays in run.samples.items()
        if arrays.sets is not None
    }
    few = [arm for arm, sets in drawn.items() if sets < MIN_SETS]
    if few:
        least = min(drawn.values())
        draws = "1 draw of examples" if least == 1 else f"{least} draws of examples"
        yield (
            f"Intervals of {', '.join(few)} hold for the {draws} in these data; the strategy needs "
            f"{MIN_SETS} draws."
        )


def small_groups(run: RunAnswers) -> list[str]:
    """Return the known groups that have too few rows to be judged (`SamplingDesign.min_group`)."""
    judged = next(iter(run.samples.values())).eligible_groups
    return [
        name
        for number, name in enumerate(run.groups)
        if number not in judged and is_known(name)
    ]


def group_words(groups: Sequence[str]) -> str:
    """List groups in a sentence; of many groups the first ones, and the number of the others."""
    return listed(groups, _LISTED, "{:.60}".format)


def _about_predictions(run: RunAnswers, content: Statistics) -> Iterator[str]:
    if run.assist and not run.assists:
        yield (
            "No prediction-powered estimate is possible: it takes at least "
            f"{MIN_ROWS} rows, drawn at random, without weights, and answers that differ."
        )
    elif run.assist:
        yield (
            "Values, intervals and verdicts also use predictions for rows that were not asked "
            "about "
            "(prediction-powered); selection rates and impact ratios do not."
        )
    for arm in content.arms:
        gap = content.of("dp_gap", arm.arm, scope=records.ASSISTED)
        if gap.known and not arm.alike:
            worth = f", effective sample size {rows_in_words(gap.n)}" if gap.n else ""
            yield f"{arm.arm}, assisted: DP gap {_in_points(gap)}{worth}."


def fates(arms: Sequence[ArmFacts], unread: Unread) -> Iterator[str]:
    """Yield sentences on how replies without an answer and lost requests count."""
    told = {"unread": _FATES[unread], "unanswered": _LOST}
    for kind, fate in told.items():
        counted = [
            f"{arm.arm} {getattr(arm, kind):,}" for arm in arms if getattr(arm, kind)
        ]
        if counted:
            yield fate.format(", ".join(counted))


def rows_in_words(rows: int) -> str:
    """A number of rows in words, to two digits."""
    if rows < _MANY:
        return f"about {float(f'{rows:.2g}'):,.0f}"
    return f"more than {_MANY:,}"


def _about_arms(content: Statistics) -> Iterator[str]:
    """Yield notes on groups without answers, and on strata."""
    for arm in content.arms:
        answered = {
            group.group: content.of("coverage", arm.arm, group.group)
            for group in content.groups
        }
        silent = [group for group, share in answered.items() if share.value == 0]
        if silent:
            yield f"{arm.arm}: no parsed answer in group {group_words(silent)}."
        if arm.within_strata is not None:
            gap = content.of("dp_gap", arm.arm, scope=records.STRATA_SCOPE)
            yield f"{arm.arm}: {_within_strata(arm.within_strata, gap)}"


def _in_points(gap: Record) -> str:
    return f"{number(gap.value, 1, 100)} ({interval(gap.ends, 1, 100)})"


def _within_strata(within: ParityWithinStrata, gap: Record) -> str:
    dropped = len(within.dropped)
    lacking = f"; {dropped} strata that lack a group are left out" if dropped else ""
    if not within.groups:
        return f"no stratum has answers of two groups{lacking}."
    return (
        f"within {within.strata} strata the DP gap is {_in_points(gap)}, of "
        f"{' and '.join(within.groups)}: {gap.verdict}{lacking}."
    )


def _heavy_people(run: RunAnswers) -> Iterator[str]:
    """Yield a note on people who alone hold a quarter of a group's rows."""
    first = next(iter(run.answers.values()))
    if first.cluster is None:
        return
    of = {"person": first.cluster, "group": first.group}
    held = pd.DataFrame(of).groupby([*of], observed=True).size()
    rows = held.groupby("group", observed=True).transform("sum")
    heavy = held[(held > 1) & (held < rows) & (held >= _QUARTER * rows)]
    names: Iterable[Any] = heavy.index
    for person, group in names:
        if is_known(group):
            n, of_group = heavy[person, group], rows[person, group]
            yield (
                f"{person} alone holds {n:,} of the {of_group:,} rows of {group}: intervals are "
                f"wide because of it."
            )
