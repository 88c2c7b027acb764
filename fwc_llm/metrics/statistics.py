"""All results of a run: a list of records, and the facts around them (docs/statistics.md)."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fwc_llm.metrics import counts, records
from fwc_llm.metrics.arm_comparison import ComparedArms, comparisons
from fwc_llm.metrics.arm_estimates import (
    ArmEstimates,
    ParityWithinStrata,
    conditional_parity,
)
from fwc_llm.metrics.counts import Metric
from fwc_llm.metrics.intervals import TOO_FEW
from fwc_llm.metrics.perturbation_effects import flips, probes, repetition_records
from fwc_llm.metrics.predicted_probabilities import Probabilities, decision_notes
from fwc_llm.metrics.prediction_powered import (
    MIN_ROWS,
    RATES_ASSISTED,
    effective_sample_size,
)
from fwc_llm.metrics.records import Record, Records, record_of, with_readings
from fwc_llm.metrics.run_answers import RunAnswers, View
from fwc_llm.metrics.sampling_design import AS_NO, WORST, Unread
from fwc_llm.metrics.variance import MIN_SETS, THESE_EXAMPLES, scope_words
from fwc_llm.sanitize import listed
from fwc_llm.words import is_known

_LISTED = 4  # groups that a note names, at most
_MANY = 1_000_000  # rows; notes say "more than" for larger numbers
_QUARTER = 0.25  # of a group's rows; a person with so many is named
LEADS = "dp_gap", "label_gap"
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
    else the DP gap. `labels_fixed`: rows were drawn so. `views` are the protected
    attributes, one by one and last all crossed. `units` were drawn; `heavy` are sentences on
    people who alone hold a quarter of a group's rows.
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
    units: Units = "rows"
    heavy: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def lead(self) -> str:
        """The key of the gap that leads."""
        return LEADS[self.labels_fixed and self.labelled]

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

    def plain(self) -> dict[str, Any]:
        """The facts as plain values for JSON, without the records."""
        names = ["repeats", "labelled", "with_examples", "assisted", "margin", "unread"]
        names += ["min_group", "lead", "notes"]
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
    estimates = run.estimates
    first = next(iter(run.samples.values()))
    all_views = run.views
    attribute = run.attribute
    pairs = comparisons(run, run.plain_estimates)
    found: list[Record] = []
    facts = [_facts(run, arm, estimates[arm]) for arm in run.arms]
    for arm in facts:
        found += _of_arm(run, arm, estimates[arm.arm], all_views)
    of_arms = Records(found, attribute)
    for pair in pairs:
        undefined = _undefined(of_arms, pair)
        found += pair.records(attribute, run.with_examples, undefined)
    if run.design.labelled:
        perfect = replace(first, answer=first.label.astype(np.float64), assist=None)
        found += _true_answers(ArmEstimates(perfect), all_views[-1])
    sizes = np.bincount(first.group, minlength=first.groups)
    groups = [
        GroupFacts(name, int(n), number in first.eligible_groups)
        for number, (name, n) in enumerate(zip(run.groups, sizes, strict=True))
    ]
    content = Statistics(
        Records(found, attribute).and_also(more),
        facts,
        groups,
        pairs,
        all_views,
        first.repeats,
        run.design.labelled,
        run.with_examples,
        run.assist,
        run.design.margin,
        run.design.unread,
        run.design.min_group,
        small_groups(run),
        run.design.labels_fixed,
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


def _facts(run: RunAnswers, arm: str, estimates: ArmEstimates) -> ArmFacts:
    a = run.answers[arm]
    return ArmFacts(
        arm,
        len(a),
        scope_words(estimates.sample.scope, run.with_examples),
        int((a.reason == "error").sum()),
        int(a.unread.sum()),
        a.unparsed,
        estimates.sample.alike,
        conditional_parity(estimates.sample, run.groups),
    )


def measured(
    metric: Metric, estimates: ArmEstimates, margin: float, **cells: Any
) -> Record:
    """A metric's record with its verdict."""
    estimate = estimates[metric.key]
    verdict = estimate.verdict(margin) or ""
    return record_of(estimate, metric=metric.key, verdict=verdict, **cells)


def _metrics(run: RunAnswers) -> list[Metric]:
    """The metrics that need no P(yes). Where the rows have no labels, they need none either."""
    known = run.design.labelled
    return [
        metric
        for metric in counts.COUNTED
        if known or metric.rates == ("selection_rate",)
    ]


def _of_arm(
    run: RunAnswers, facts: ArmFacts, estimates: ArmEstimates, all_views: Sequence[View]
) -> Iterator[Record]:
    """Yield the records of one arm: its metrics in all scopes, then those of its groups."""
    arm = facts.arm
    sample = estimates.sample
    margin = run.design.margin
    attribute = all_views[-1].name
    asked = np.bincount(sample.repeat, minlength=run.repeats).tolist()
    of_answers = _metrics(run)
    of_p_yes = [metric for metric in counts.TABLE if metric.source == "p_yes"]
    known = any(each.p_yes is not None for each in run.samples.values())
    if not (known and run.design.labelled):
        of_p_yes = []

    def cells(metric: Metric, scope: str = facts.scope) -> dict[str, Any]:
        of = "" if metric.kind == "share" else attribute
        return {"arm": arm, "attribute": of, "scope": scope, "n": facts.n}

    yield from _of_replies(run, arm, estimates, cells)
    for metric in (*of_answers, *of_p_yes):
        found = measured(metric, estimates, margin, **cells(metric))
        found = _with_reason(found, estimates, run)
        estimate = estimates[metric.key]
        yield from with_readings(estimate, found)
        if run.repeats > 1:
            of_repeats = zip(asked, estimate.per_repeat.tolist(), strict=True)
            for repeat, (n, value) in enumerate(of_repeats):
                of = {**cells(metric), "n": n}
                yield Record(metric=metric.key, repeat=repeat, value=value, **of)
    yield from _of_scopes(run, facts, estimates, of_answers, cells)
    for key in LEADS:
        gap = estimates[key]
        of = cells(counts.BY_KEY[key])
        found_with = estimates.detectable(key)
        if not math.isnan(found_with):
            yield Record(metric=f"{key}_detectable", value=found_with, **of)
        if gap.verdict(margin) == TOO_FEW:
            size = len(sample.eligible_groups), 1
            needed = gap.rows_needed(sample.rows, margin, *size)
            if needed:
                yield Record(metric=f"{key}_rows_needed", value=needed, **of)
    for view in reversed(all_views):
        yield from _of_view(run, facts, estimates, view, view is all_views[-1])
    holds = scope_words(THESE_EXAMPLES, run.with_examples)
    for record in _further(run, facts, estimates):
        yield replace(record, arm=arm, scope=record.scope or holds)


def _with_reason(found: Record, estimates: ArmEstimates, run: RunAnswers) -> Record:
    """The record of a metric, with the reason if it is undefined."""
    if found.known:
        return found
    return replace(found, reason=estimates.undefined(found.metric, run.groups))


def _of_replies(
    run: RunAnswers,
    arm: str,
    estimates: ArmEstimates,
    cells: Callable[[Metric], dict[str, Any]],
) -> Iterator[Record]:
    """Yield the shares of replies with an answer, and without one by reason, where known."""
    blanks = run.answers[arm].without_reason
    for metric in counts.REPLIES:
        if blanks and metric.rates != ("coverage",):
            remedy = "name replies, or add a column `reason`"
            why = f"{blanks:,} answers are missing for unknown reasons: {remedy}"
            yield Record(metric=metric.key, reason=why, **cells(metric))
        else:
            found = measured(metric, estimates, run.design.margin, **cells(metric))
            yield _with_reason(found, estimates, run)


def _of_scopes(
    run: RunAnswers,
    facts: ArmFacts,
    estimates: ArmEstimates,
    metrics: Sequence[Metric],
    cells: Callable[[Metric, str], dict[str, Any]],
) -> Iterator[Record]:
    """Yield the metrics in other scopes: unread as no, all groups, assisted, within strata."""
    plain = run.plain_samples[facts.arm]
    margin = run.design.margin
    if estimates.sample.worst:
        as_no = ArmEstimates(replace(plain, design=replace(run.design, unread=AS_NO)))
        for metric in metrics:
            of = cells(metric, records.AS_NO_SCOPE)
            yield record_of(as_no[metric.key], metric=metric.key, **of)
    if len(estimates.sample.eligible_groups) < estimates.sample.groups:
        for metric in metrics:
            if metric.kind != "share":
                value = estimates.value(metric.key)
                yield Record(
                    metric=metric.key, value=value, **cells(metric, records.ALL_GROUPS)
                )
    if facts.arm in run.assists:
        own = run.plain_estimates[facts.arm]
        assisted = ArmEstimates(replace(plain, assist=run.assists[facts.arm]))
        for metric in metrics:
            if set(metric.rates) <= set(RATES_ASSISTED):
                of = cells(metric, records.ASSISTED)
                worth = effective_sample_size(own, assisted, metric.key)
                yield replace(measured(metric, assisted, margin, **of), n=worth)
    if facts.within_strata is not None:
        gap = facts.within_strata.estimate
        of = cells(counts.BY_KEY["dp_gap"], records.STRATA_SCOPE)
        yield record_of(gap, metric="dp_gap", verdict=gap.verdict(margin) or "", **of)


def _of_view(
    run: RunAnswers, facts: ArmFacts, estimates: ArmEstimates, view: View, crossed: bool
) -> Iterator[Record]:
    """Yield the groups' rates by one attribute or by all; its gaps, if it is one of several."""
    if not crossed:
        estimates = run.in_view(view)[facts.arm]
    sample = estimates.sample
    of: Any = {"arm": facts.arm, "attribute": view.name, "scope": facts.scope}
    for metric in _metrics(run) if not crossed else ():
        if metric.headline and metric.kind != "share":
            found = measured(metric, estimates, run.design.margin, **of, n=facts.n)
            yield from with_readings(estimates[metric.key], found)
    sizes = np.bincount(sample.group, minlength=sample.groups).tolist()
    rates = ["selection_rate", "coverage"]
    unread = any(a.unread.any() for a in run.answers.values())
    if unread and not run.answers[facts.arm].without_reason:
        rates += counts.REPLY_RATES[1:]
    if crossed and run.design.labelled and sample.p_yes is not None:
        rates += ["auc", "brier"]
    for rate in rates:
        shares = estimates.rates(rate)
        for group, share, n in zip(view.levels, shares, sizes, strict=True):
            found = record_of(share, metric=rate, group=group, **of, n=n)
            yield from with_readings(share, found)


def _further(
    run: RunAnswers, facts: ArmFacts, estimates: ArmEstimates
) -> Iterator[Record]:
    """Yield the records of P(yes), repeated prompts, changed attributes and probes."""
    a = run.answers[facts.arm]
    probabilities = Probabilities.of(run.plain_samples[facts.arm])
    if probabilities is not None:
        yield from probabilities.records(run.groups, run.attribute)
        if facts.alike:
            yield from probabilities.at_median(run.groups, run.attribute)
    yield from repetition_records(a, run)
    if facts.arm in run.counterfactuals:
        yield from flips(a, run.counterfactuals[facts.arm])
    if facts.arm in run.probes:
        yield from probes(run, facts.arm)


def _true_answers(perfect: ArmEstimates, view: View) -> Iterator[Record]:
    """Yield what answers that agree with every label have: gaps, and each group's base rate."""
    of: Any = {"arm": records.TRUTH, "scope": "these rows"}
    for metric in counts.COUNTED:
        if metric.headline:
            attribute = "" if metric.kind == "share" else view.name
            value = perfect[metric.key].value
            yield Record(metric=metric.key, value=value, attribute=attribute, **of)
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
        *_about_unread(run),
        *run.unused,
        *_about_arms(content),
        *content.heavy,
        *decision_notes(run),
    ]


def _about_rows(run: RunAnswers) -> Iterator[str]:
    """Yield notes on groups, repeats, people and draws of examples."""
    sample = next(iter(run.samples.values()))
    small = small_groups(run)
    sizes = zip(run.groups, sample.of_groups(sample.unit), strict=True)
    few = [
        name for name, size in sizes if size < run.design.min_group and is_known(name)
    ]
    fewer = f"fewer than {run.design.min_group} {'rows' if sample.cluster is None else 'people'}"
    if small:
        yield f"Not judged, with {fewer}: {group_words(small)}."
    elif few and len(run.groups) > 1:
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
            worth = f", effective sample size {_about(gap.n)}" if gap.n else ""
            limits = f"{gap.value:.2f} ({gap.low:.2f} to {gap.high:.2f})"
            yield f"{arm.arm}, assisted: DP gap {limits}{worth}."


def _about_unread(run: RunAnswers) -> Iterator[str]:
    """Yield notes on how replies without an answer count, and on their effect on the DP gap."""
    unread = {arm: n for arm, a in run.answers.items() if (n := int(a.unread.sum()))}
    if not unread:
        return
    counted = ", ".join(f"{arm} {n:,}" for arm, n in unread.items())
    assumed = run.design.unread
    if assumed != WORST:
        how = (
            "counted as no"
            if assumed == AS_NO
            else "left out, as if they were like the others"
        )
        yield (f"Replies without an answer ({counted}) are {how}: an assumption.")
        return
    yield (
        f"Replies without an answer: {counted}; intervals hold whether each is a yes or a no."
    )


def _about(rows: int) -> str:
    """A number of rows in words, to two digits."""
    if rows < _MANY:
        return f"about {float(f'{rows:.2g}'):,.0f}"
    return f"more than {_MANY:,}"


def _about_arms(content: Statistics) -> Iterator[str]:
    """Yield notes on power, groups without answers, strata, lost replies and comparisons."""
    lead = content.lead
    needed = {
        arm.arm: content.of(f"{lead}_rows_needed", arm.arm) for arm in content.arms
    }
    of_whom = " of more people" * (content.units == "people")
    needed_rows = [
        f"{_about(int(rows.value))} rows{of_whom} ({arm})"
        for arm, rows in needed.items()
        if rows.known
    ]
    if needed_rows:
        yield (
            f"To show, 4 times in 5, that an unsettled {counts.BY_KEY[lead].words} is within "
            f"{content.margin:g}, if the groups are treated alike, takes "
            f"{group_words(needed_rows)}."
        )
    for arm in content.arms:
        answered = {
            group.group: content.of("coverage", arm.arm, group.group)
            for group in content.groups
        }
        silent = [group for group, share in answered.items() if share.value == 0]
        if silent:
            yield f"{arm.arm}: no parsed answer in group {group_words(silent)}."
        if arm.within_strata is not None:
            verdict = content.of("dp_gap", arm.arm, scope=records.STRATA_SCOPE).verdict
            yield f"{arm.arm}: {_within_strata(arm.within_strata, verdict)}"
    unanswered = sum(arm.unanswered for arm in content.arms)
    if unanswered:
        have = "question has" if unanswered == 1 else "questions have"
        yield f"{unanswered} {have} no reply at all and count{'s' * (unanswered == 1)} as unparsed."


def _within_strata(within: ParityWithinStrata, verdict: str) -> str:
    dropped = len(within.dropped)
    lacking = f"; {dropped} strata that lack a group are left out" if dropped else ""
    if not within.groups:
        return f"no stratum has answers of two groups{lacking}."
    low, high = within.estimate.decisive
    return (
        f"within {within.strata} strata the DP gap is {within.estimate.value:.3f} "
        f"({low:.3f} to {high:.3f}), of {' and '.join(within.groups)}: {verdict}{lacking}."
    )


def _heavy_people(run: RunAnswers) -> Iterator[str]:
    """Yield a note on people who alone hold a quarter of a group's rows."""
    first = next(iter(run.answers.values()))
    if first.cluster is None:
        return
    rows = np.bincount(first.group.codes, minlength=len(first.group.categories))
    pairs = first.cluster.codes.astype(np.int64) * len(rows) + first.group.codes
    several, held = np.unique(pairs, return_counts=True)
    for pair, n in zip(several.tolist(), held.tolist(), strict=True):
        person, group = divmod(pair, len(rows))
        if n >= _QUARTER * rows[group] and rows[group] > n > 1:
            yield (
                f"{first.cluster.categories[person]} alone holds {n:,} of the {rows[group]:,} rows "
                f"of {first.group.categories[group]}: intervals are wide because of it."
            )
