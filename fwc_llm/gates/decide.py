"""Decide conditions by intervals, and write checks as JUnit XML."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from fwc_llm.gates.condition import KEY_OF, UNTIL_VERDICT, GateCondition, parse_condition
from fwc_llm.metrics.arm_comparison import COMPARED, compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import BY_KEY, Metric
from fwc_llm.metrics.intervals import INCONCLUSIVE, LEVEL, Enclosed, Interval
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.statistics import group_words, small_groups
from fwc_llm.metrics.variance import UNLABELLED, UNREAD_WORDS, scope_words

Outcome = Literal["passed", "failed", "undecided"]
# Characters that XML 1.0 cannot represent, even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LARGEST_ERROR = 1 - LEVEL  # largest probability that a check fails though it should not


@dataclass(frozen=True)
class Check:
    """The result of a condition.

    `outcome` is "failed" if the whole 95 % interval meets the condition, "passed" if none of it
    does, else "undecided". `value`, `low` and `high` are NaN where undefined, and in a check that
    combines several arms. `more_rows`: the check is undecided, and more rows may decide it.
    """

    condition: str
    outcome: Outcome
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    more_rows: bool = False


def decide(condition: GateCondition, answered: RunAnswers) -> list[Check]:
    """Return a check for the condition's arm, or one for every arm; `FwcError` for an unknown
    arm.
    """
    condition.check_arms(answered.arms)
    if condition.arm is None:
        arms = answered.arms
    else:
        arms = (condition.arm,)
    return [_decide(condition, answered, arm) for arm in arms]


def all_of(condition: str, checks: Sequence[Check]) -> Check:
    """Combine checks: "failed" if any check is, else "undecided" if any check is, else "passed"."""
    if len(checks) == 1:
        return checks[0]
    outcomes = {check.outcome for check in checks}
    order: tuple[Outcome, ...] = ("failed", "undecided", "passed")
    outcome = next(outcome for outcome in order if outcome in outcomes)
    reason = "; ".join(check.reason for check in checks if check.outcome == outcome)
    return Check(condition, outcome, reason)


def all_decided(texts: Sequence[str], answered: RunAnswers) -> bool:
    """Whether every condition is decided: "verdict" once the DP gap of every arm has a
    conclusive verdict.
    """
    for text in texts:
        if text == UNTIL_VERDICT:
            arms = map(ArmEstimates, answered.samples.values())
            gaps = (arm["dp_gap"] for arm in arms)
            if any(gap.verdict(answered.design.margin) in (None, INCONCLUSIVE) for gap in gaps):
                return False
        elif any(check.outcome == "undecided" for check in decide(parse_condition(text), answered)):
            return False
    return True


def several(checks: int) -> str:
    """State the error rate of several checks together; empty for one check."""
    if checks < 2:
        return ""
    share = min(1.0, LARGEST_ERROR * checks)
    return (
        f"{checks} checks, each at 95 %: if no condition is truly met, one or more checks fail in "
        f"at most "
        f"{share:.0%} of such runs"
    )


def _decide(condition: GateCondition, answered: RunAnswers, arm: str) -> Check:
    name = condition.about(arm)
    metric = BY_KEY[KEY_OF[condition.metric]]
    arms = [name for name in (arm, condition.minus) if name is not None]
    if not answered.design.labelled and not set(metric.rates) <= set(UNLABELLED):
        return Check(
            name, "undecided", f"{name}: {condition.metric} is undefined, there are no labels"
        )
    if metric.source == "replies" and metric.rates != ("coverage",):
        blanks = sum(answered.answers[name].without_reason for name in arms)
        if blanks:
            remedy = "name replies, or add a column `reason`"
            why = f"{blanks:,} answers are missing for unknown reasons: {remedy}"
            return Check(name, "undecided", f"{name}: {condition.metric} is not known, {why}")
    one, value, of = _measured(condition, answered, arm)
    if math.isnan(value):
        why = " and ".join(dict.fromkeys(_undefined(metric, answered, name) for name in arms))
        return Check(name, "undecided", f"{name}: {condition.metric} is undefined, {why}")
    ends, (low, high) = one.worst_case[0] if one.worst_case else (value, value), one.decisive
    if math.isnan(low) or math.isnan(high):
        return Check(name, "undecided", f"{name}: {value:.3f} has no interval: it {of}", value)
    if condition.size:
        value, ends, (low, high) = abs(value), _folded(*ends), _folded(low, high)
    if answered.design.sequential is None:
        of = of
    else:
        of = "of the population, valid at every check"
    shown = f"{name}: {value:.3f}, 95 % interval {low:.3f} to {high:.3f} ({of})"
    if metric.kind != "share" and (apart := small_groups(answered)):
        shown += f", not judged: {group_words(apart)}"
    alike = [f"{name} {words}" for name in arms if (words := answered.samples[name].alike)]
    if metric.kind != "share" and metric.source == "answers" and alike:
        words = " and ".join(alike)
        return Check(name, "undecided", f"{shown}; {words}: the gap says nothing", value, low, high)
    outcome = outcome_of(condition, low, high)
    words = {
        "failed": "the whole interval meets the condition",
        "passed": "no value in the interval meets the condition",
        "undecided": f"{condition.bound:g} lies in the interval: too few rows to tell",
    }[outcome]
    more_rows = outcome == "undecided"
    if metric.source == "answers" and (
        unread := sum(answered.answers[name].unread.sum() for name in arms)
    ):
        shown += f", {UNREAD_WORDS[answered.design.unread].format(f'{unread:,}')}"
        if more_rows and outcome_of(condition, *ends) == "undecided":
            words = (
                f"{condition.bound:g} lies in the interval: these replies are the cause, not too "
                f"few rows"
            )
            more_rows = False
    return Check(name, outcome, f"{shown}; {words}", value, low, high, more_rows)


def outcome_of(condition: GateCondition, low: float, high: float) -> Outcome:
    """Return "failed" if all of the interval meets the condition, "passed" if none does, else
    "undecided".
    """
    bound = condition.bound
    holds, fails = {
        ">": (low > bound, high <= bound),
        ">=": (low >= bound, high < bound),
        "<": (high < bound, low >= bound),
        "<=": (high <= bound, low > bound),
    }[condition.operator]
    return "failed" if holds else "passed" if fails else "undecided"


def _measured(
    condition: GateCondition, answered: RunAnswers, arm: str
) -> tuple[Enclosed, float, str]:
    """Return a metric of one arm, or a difference of two arms: with its interval, its value and
    its scope.
    """
    estimates = ArmEstimates(answered.samples[arm])
    key = KEY_OF[condition.metric]
    if condition.minus is None:
        of = f"of {scope_words(estimates.sample.scope, answered.with_examples)}"
        return estimates[key], estimates[key].value, of
    plain = answered.plain_samples  # predictions narrow no difference
    tested = compare(ArmEstimates(plain[condition.minus]), ArmEstimates(plain[arm]), metrics=(key,))
    paired = "paired, " if key in COMPARED else ""
    of = tested.reason or f"{paired}of {scope_words(tested.scope, answered.with_examples)}"
    return tested[key], tested[key].difference, of


def _folded(low: float, high: float) -> Interval:
    """Return the interval of |x|, given an interval of x."""
    ends = abs(low), abs(high)
    return 0.0 if low <= 0.0 <= high else min(ends), max(ends)


def _undefined(metric: Metric, answered: RunAnswers, arm: str) -> str:
    reasons = dict(ArmEstimates(answered.samples[arm]).undefined(answered.groups))
    if metric.source == "p_yes":
        lacking = "P(yes)"
    else:
        lacking = "answer"
    return reasons.get(metric.key, f"a group has no {lacking} that is counted")


def junit_xml(suites: Mapping[str, Sequence[Check]], undecided: Outcome = "undecided") -> str:
    """Return checks as JUnit XML, with one suite per run; `undecided` is how such a check
    counts.
    """
    kinds = {
        "failed": "failure",
        "undecided": {"failed": "failure", "passed": "skipped"}.get(undecided),
    }

    def counts(checks: Sequence[Check]) -> dict[str, str]:
        outcomes = [kinds.get(check.outcome, "passed") or "error" for check in checks]
        names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        of_kinds = {name: f"{outcomes.count(kind)}" for name, kind in names.items()}
        return {"tests": f"{len(outcomes)}", **of_kinds, "time": "0"}

    everything = [check for checks in suites.values() for check in checks]
    root = ElementTree.Element("testsuites", {"name": "fwc-llm gate", **counts(everything)})
    for name, checks in ((_legal(name), checks) for name, checks in suites.items()):
        of = ElementTree.SubElement(root, "testsuite", {"name": name, **counts(checks)})
        for check in checks:
            about = {"classname": name, "name": _legal(check.condition), "time": "0"}
            case = ElementTree.SubElement(of, "testcase", about)
            reason = _legal(check.reason)
            kind = kinds.get(check.outcome, "system-out") or "error"
            if kind == "system-out":
                attributes = {}
            else:
                attributes = {"message": reason}
            attributes |= {"type": check.outcome} if kind in {"failure", "error"} else {}
            ElementTree.SubElement(case, kind, attributes).text = reason
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
