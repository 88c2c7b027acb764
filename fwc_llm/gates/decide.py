"""Decide conditions by intervals, and write checks as JUnit XML."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from fwc_llm.errors import Ambiguous
from fwc_llm.gates.condition import UNTIL_VERDICT, GateCondition, parse_condition
from fwc_llm.metrics.counts import BY_KEY, REPLIES, Metric
from fwc_llm.metrics.intervals import ALIKE, LEVEL, OPEN, Interval, lacks_answers
from fwc_llm.metrics.records import READ, READINGS, Record
from fwc_llm.metrics.statistics import Statistics, group_words
from fwc_llm.metrics.variance import UNREAD_WORDS

Outcome = Literal["within", "outside", "cannot say"]
WITHIN: Outcome = "within"
OUTSIDE: Outcome = "outside"
CANNOT_SAY: Outcome = "cannot say"
# Characters that XML 1.0 cannot represent, even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LARGEST_ERROR = 1 - LEVEL  # largest probability that a check is outside though it should not be


@dataclass(frozen=True)
class Check(Ambiguous):
    """The result of a condition, a limit that is not to be met.

    `outcome` is "outside" (the limits) if the whole 95 % interval meets the condition, "within" if
    none of it does, else "cannot say". `value`, `low` and `high` are those of the record that was
    judged; NaN where undefined, and in a check that combines several arms. `more_rows`: more rows
    may settle the check.
    """

    instead = "write check.passed, or compare check.outcome"

    condition: str
    outcome: Outcome
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    more_rows: bool = False
    arm: str = ""

    @property
    def passed(self) -> bool:
        """Whether the outcome is "within": no value in the interval meets the condition."""
        return self.outcome == WITHIN


def decide(condition: GateCondition, stats: Statistics) -> list[Check]:
    """Return a check for the condition's arm, or one for every arm; `FwcError` for an unknown
    arm.
    """
    arms = [arm.arm for arm in stats.arms]
    condition.check_arms(arms)
    if condition.arm is not None:
        arms = [condition.arm]
    return [_decide(condition, stats, arm) for arm in arms]


def all_of(condition: str, checks: Sequence[Check]) -> Check:
    """Combine checks: "outside" if any check is, else "cannot say" if any is, else "within"."""
    if len(checks) == 1:
        return checks[0]
    outcomes = {check.outcome for check in checks}
    outcome = next(one for one in (OUTSIDE, CANNOT_SAY, WITHIN) if one in outcomes)
    reason = "; ".join(check.reason for check in checks if check.outcome == outcome)
    return Check(condition, outcome, reason)


def all_decided(texts: Sequence[str], stats: Statistics) -> bool:
    """Whether every condition is decided: "verdict" once the leading gap of every arm has a
    conclusive verdict.
    """
    for text in texts:
        if text == UNTIL_VERDICT:
            verdicts = {stats.of(stats.lead, arm.arm).verdict for arm in stats.arms}
            if verdicts & {"", *OPEN}:
                return False
        elif any(check.outcome == CANNOT_SAY for check in decide(parse_condition(text), stats)):
            return False
    return True


def several(checks: int) -> str:
    """State the error rate of several checks together; empty for one check."""
    if checks < 2:
        return ""
    share = min(1.0, LARGEST_ERROR * checks)
    return (
        f"{checks} checks, each at 95 %: if all limits are truly kept, one or more checks are "
        f"outside in at most {share:.0%} of such runs"
    )


def _decide(condition: GateCondition, stats: Statistics, arm: str) -> Check:
    name = condition.about(arm)
    record, read, readings = (_record(condition, stats, arm, s) for s in (None, READ, READINGS))
    metric = BY_KEY[condition.metric]
    if not record.known:
        why = record.reason or _undefined(metric, stats, arm, condition.minus)
        text = f"{name}: {condition.metric} is not known, {why}"
        return Check(name, CANNOT_SAY, text, arm=arm)
    if math.isnan(record.low):
        text = f"{name}: {record.value:.3f} has no interval: it {record.reason}"
        return Check(name, CANNOT_SAY, text, record.value, arm=arm)
    low, high = record.ends
    value = record.value
    fold: Callable[[float, float], Interval] = lambda low, high: (low, high)  # noqa: E731
    if condition.size:
        value, fold = abs(value), _folded
        low, high = _folded(low, high)
    of = f"of {record.scope}"
    if condition.minus is not None and record.verdict:
        of = f"paired, {of}"
    if stats.sequential:
        of = "of the population, valid at every check"
    told = f"{name}: {value:.3f}, 95 % interval {low:.3f} to {high:.3f} ({of})"
    if metric.kind != "share" and stats.not_judged:
        told += f", not judged: {group_words(stats.not_judged)}"
    numbers = (value, low, high)
    alike = [f"{one.arm} {one.alike}" for one in stats.arms if one.arm in (arm, condition.minus)]
    if record.verdict == ALIKE:
        words = " and ".join(text for text in alike if not text.endswith(" "))
        return Check(name, CANNOT_SAY, f"{told}; {words}: the gap says nothing", *numbers, arm=arm)
    outcome = outcome_of(condition, low, high)
    words = {
        OUTSIDE: "the whole interval is outside the limit",
        WITHIN: "the whole interval is within the limit",
        CANNOT_SAY: f"{condition.bound:g} lies in the interval: too few rows to tell",
    }[outcome]
    more_rows = outcome == CANNOT_SAY
    unread = sum(one.unread for one in stats.arms if one.arm in (arm, condition.minus))
    if unread and metric.source == "answers":
        told += f", {UNREAD_WORDS[stats.unread].format(f'{unread:,}')}"

        def settles(low: float, high: float) -> bool:
            return outcome_of(condition, *fold(low, high)) != CANNOT_SAY

        if more_rows and read.known and lacks_answers(readings.ends, read.ends, settles):
            more_rows = settles(*readings.ends)
            remedy = "fewer of them, or more rows" if more_rows else "only fewer of them"
            words = f"{condition.bound:g} lies in the interval: {remedy} would settle it"
    return Check(name, outcome, f"{told}; {words}", *numbers, more_rows, arm)


def _record(condition: GateCondition, stats: Statistics, arm: str, scope: str | None) -> Record:
    """The record of a condition's number: a metric of one arm, or a difference of two arms."""
    if condition.minus is None:
        return stats.of(condition.metric, arm, scope=scope)
    key = f"{condition.metric}_difference"
    record = stats.of(key, arm, against=condition.minus, scope=scope)
    if record.metric:
        return record
    return stats.of(key, condition.minus, against=arm, scope=scope).reversed()


def outcome_of(condition: GateCondition, low: float, high: float) -> Outcome:
    """Return "outside" if all of the interval meets the condition, "within" if none does, else
    "cannot say".
    """
    bound = condition.bound
    holds, fails = {
        ">": (low > bound, high <= bound),
        ">=": (low >= bound, high < bound),
        "<": (high < bound, low >= bound),
        "<=": (high <= bound, low > bound),
    }[condition.operator]
    if holds:
        return OUTSIDE
    return WITHIN if fails else CANNOT_SAY


def _folded(low: float, high: float) -> Interval:
    """Return the interval of |x|, given an interval of x."""
    ends = abs(low), abs(high)
    return 0.0 if low <= 0.0 <= high else min(ends), max(ends)


def _undefined(metric: Metric, stats: Statistics, arm: str, minus: str | None) -> str:
    """Why a metric of one or two arms is undefined."""
    if not stats.labelled and metric not in REPLIES and metric.rates != ("selection_rate",):
        return "there are no labels"
    reasons = [stats.of(metric.key, one).reason for one in (arm, minus) if one is not None]
    lacking = "P(yes)" if metric.source == "p_yes" else "answer"
    told = " and ".join(dict.fromkeys(filter(None, reasons)))
    return told or f"a group has no {lacking} that is counted"


def junit_xml(suites: Mapping[str, Sequence[Check]], undecided: Outcome = CANNOT_SAY) -> str:
    """Return checks as JUnit XML, with one suite per run; `undecided` is how such a check
    counts.
    """
    kinds = {OUTSIDE: "failure", CANNOT_SAY: {OUTSIDE: "failure", WITHIN: "skipped"}.get(undecided)}

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
