"""Decide conditions by intervals, and write checks as JUnit XML."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from fwc_llm.errors import Ambiguous
from fwc_llm.files import is_file, write_whole
from fwc_llm.gates.condition import GateCondition, parse_condition
from fwc_llm.gates.sentences import (
    MORE,
    difference_words,
    in_words,
    still_open,
    who_gets_how_much,
)
from fwc_llm.metrics.arm_comparison import SAME
from fwc_llm.metrics.counts import BY_KEY, OF_REFERRALS
from fwc_llm.metrics.intervals import ALIKE, LEVEL, Interval, lacks_answers
from fwc_llm.metrics.records import READ, READINGS, Record
from fwc_llm.metrics.statistics import Statistics, group_words
from fwc_llm.number_format import number, percent
from fwc_llm.sanitize import Json, listed, redact

Outcome = Literal["within", "outside", "cannot say"]
Lacking = Literal["", "rows", "people", "decisions", "replies", "draws"]
WITHIN: Outcome = "within"
OUTSIDE: Outcome = "outside"
CANNOT_SAY: Outcome = "cannot say"
IN_WORDS: Mapping[str, str] = {
    WITHIN: "Within the limits",
    OUTSIDE: "Outside the limits",
    CANNOT_SAY: "Cannot say",
}
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_UNFINISHED = "the run is not finished"
_MOST_NAMES = 4  # of arms in a sentence
# Characters that XML 1.0 cannot represent, even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LARGEST_ERROR = (
    1 - LEVEL
)  # largest probability that a check is outside though it should not be


@dataclass(frozen=True)
class Check(Ambiguous):
    """The result of a condition, a limit that is not to be met.

    `outcome` is "outside" (the limits) if the whole 95 % interval meets the condition, "within" if
    none of it does, else "cannot say". `value`, `low` and `high` are those of the record that was
    judged; NaN where undefined, and in a check that combines several arms. `lacking` is what may
    settle a check that cannot say.
    """

    instead = "write check.passed, or compare check.outcome"

    condition: str
    outcome: Outcome
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    lacking: Lacking = ""
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


def worst(checks: Sequence[Check]) -> Outcome:
    """The outcome of several checks together: "within" if all are."""
    outcomes = {check.outcome for check in checks}
    return next((one for one in (OUTSIDE, CANNOT_SAY) if one in outcomes), WITHIN)


def all_of(condition: str, checks: Sequence[Check]) -> Check:
    """Combine checks: "outside" if any check is, else "cannot say" if any is, else "within"."""
    if len(checks) == 1:
        return checks[0]
    outcome = worst(checks)
    reason = "; ".join(check.reason for check in checks if check.outcome == outcome)
    return Check(condition, outcome, reason)


def error_of(checks: int) -> str:
    """State the error rate of several checks together; empty for one check."""
    if checks < 2:
        return ""
    share = LARGEST_ERROR * checks
    often = (
        f"one or more checks are outside in at most {percent(share, 0)} of such runs"
    )
    if share >= 1:
        often = f"at most {number(share, 1)} checks are outside on average"
    return f"{checks} checks, each at 95 %: if all limits are truly kept, {often}"


def limits_of(stats: Statistics, conditions: Sequence[str] = ()) -> list[GateCondition]:
    """The conditions; without any, that the leading gap is above the margin."""
    texts = conditions or [f"{stats.lead} > {stats.margin:g}"]
    return [parse_condition(text) for text in texts]


def checked(stats: Statistics, conditions: Sequence[str] = ()) -> list[Check]:
    """The checks of `limits_of`, each once."""
    found = (decide(condition, stats) for condition in limits_of(stats, conditions))
    unique = {check.condition: check for checks in found for check in checks}
    return [*unique.values()]


def as_gates(run: str, checks: Sequence[Check]) -> list[Json]:
    """The checks of a run for JSON, with its name (docs/format.md)."""
    return [{"run": run, **asdict(check)} for check in checks]


def by_arm(checks: Sequence[Check]) -> dict[str, Outcome]:
    """The outcome of each arm's checks together."""
    return {
        arm: worst([check for check in checks if check.arm == arm])
        for arm in dict.fromkeys(check.arm for check in checks)
    }


def in_short(checks: Sequence[Check]) -> str:
    """Within the limits, outside or cannot say; of several arms, which."""
    of_arms = by_arm(checks)
    if len(of_arms) == 1:
        return IN_WORDS[worst(checks)]
    return by_outcome({in_words(arm): outcome for arm, outcome in of_arms.items()})


def by_outcome(outcomes: Mapping[str, Outcome]) -> str:
    """Which of several are within the limits, outside, and undecided."""
    groups = {
        outcome: [name for name in outcomes if outcomes[name] == outcome]
        for outcome in IN_WORDS
    }
    return ". ".join(
        f"{IN_WORDS[outcome]}: {listed(names, _MOST_NAMES)}"
        for outcome, names in groups.items()
        if names
    )


def counted(checks: Sequence[Check]) -> str:
    """How many checks are outside, and how many cannot say."""
    outcomes = [check.outcome for check in checks]
    kinds = {"outside the limits": OUTSIDE, "cannot say": CANNOT_SAY}
    numbers = {words: outcomes.count(outcome) for words, outcome in kinds.items()}
    total = len(outcomes)
    return "; ".join(f"{words}: {n} of {total}" for words, n in numbers.items() if n)


def _decide(condition: GateCondition, stats: Statistics, arm: str) -> Check:
    record, read, readings = (
        _record(condition, stats, arm, scope) for scope in (None, READ, READINGS)
    )
    metric = BY_KEY[condition.metric]
    of = [one for one in stats.arms if one.arm in (arm, condition.minus)]
    unread = sum(one.unread for one in of)
    who = f"{in_words(arm)}: " * (len(stats.arms) > 1 and condition.minus is None)

    def check(told: str, outcome: Outcome = CANNOT_SAY, lacking: Lacking = "") -> Check:
        numbers = record.value, *record.ends
        return Check(condition.about(arm), outcome, told, *numbers, lacking, arm)

    if not record.known:
        no_record = "there is no P(yes)" if stats.labelled else "there are no labels"
        if metric.key in OF_REFERRALS:
            no_record = "there is no third answer"
        name = f"{who}{metric.words}"
        if condition.minus is not None:
            name = difference_words(arm, condition)
        lacks: Lacking = "replies" if unread else ""
        return check(f"{name} unknown, {record.reason or no_record}", lacking=lacks)
    told = who + who_gets_how_much(stats, arm, condition, record)
    if math.isnan(record.low):
        return check(f"{told}: it {record.reason}", lacking="draws")
    if metric.kind != "share" and stats.not_judged:
        told += f"; not judged: {group_words(stats.not_judged)}"
    alike = [one.alike for one in of if one.alike]
    if record.verdict == ALIKE and not alike:
        alike = ["(nearly) nobody, or everybody, gets a yes"]
    if alike and metric.source == "answers" and metric.kind != "share":
        why = f"{' and '.join(alike)}, so the {metric.words} tells nothing"
        return check(f"{told}; {why}")
    outcome = outcome_of(condition, *record.ends)
    if outcome != CANNOT_SAY:
        return check(told, outcome)
    if unread == condition.bound == 0 and stats.same_answers(arm, condition.minus):
        why = f"{SAME} in both arms, so no number of rows would tell"
        return check(f"{told}; {why}")
    ends = read.ends, readings.ends
    why, lacking = why_open(condition, record, *ends, unread * read.known, stats.units)
    return check(f"{told}; {why}", lacking=lacking)


def why_open(
    condition: GateCondition,
    record: Record,
    read: Interval,
    readings: Interval,
    unread: int,
    units: Lacking,
) -> tuple[str, Lacking]:
    """Why a check of a record cannot say, and what it lacks.

    `read` is the interval of the answers that were read, `readings` are the least and the greatest
    value over all answers that the `unread` replies or decisions might have.
    """

    def settles(low: float, high: float) -> bool:
        return outcome_of(condition, low, high) != CANNOT_SAY

    metric = BY_KEY[condition.metric]
    why = "too few rows to tell"
    if units == "decisions":
        why = "wait for more decisions"
    lacking = units
    of_answers = unread and metric.source == "answers"
    if of_answers and lacks_answers(readings, read, settles):
        more = MORE[units]
        remedy = f"fewer missing answers, or {more},"
        if not settles(*readings):
            lacking = "replies"
            remedy = f"fewer missing answers, with {more},"
            remedy = "only fewer missing answers" if settles(*read) else remedy
        why = f"{unread:,} answers are missing, and each may be a yes or a no"
        why = f"{why}: {remedy} would settle it"
    return still_open(metric, record, condition, why), lacking


def _record(
    condition: GateCondition, stats: Statistics, arm: str, scope: str | None
) -> Record:
    """The record of a condition's number: a metric of one arm, or a difference of two arms."""
    if condition.minus is None:
        return stats.of(condition.metric, arm, scope=scope)
    found = stats.difference(condition.metric, arm, condition.minus, scope)
    if not condition.size:
        return found
    low, high = _folded(*found.ends)
    return replace(found, value=abs(found.value), low=low, high=high)


def outcome_of(condition: GateCondition, low: float, high: float) -> Outcome:
    """Return "outside" if all of the interval meets the condition, "within" if none does, else
    "cannot say".
    """
    meets = _OPERATORS[condition.operator]
    met = [meets(end, condition.bound) for end in (low, high)]
    if all(met):
        return OUTSIDE
    return CANNOT_SAY if any(met) or math.isnan(low) else WITHIN


def _folded(low: float, high: float) -> Interval:
    """Return the interval of |x|, given an interval of x."""
    ends = abs(low), abs(high)
    return 0.0 if low <= 0.0 <= high else min(ends), max(ends)


def junit_xml(
    suites: Mapping[str, Sequence[Check]], undecided: Outcome = CANNOT_SAY
) -> str:
    """Return checks as JUnit XML, with one suite per run; `undecided` is how such a check
    counts.
    """
    of_undecided = {OUTSIDE: "failure", WITHIN: "skipped"}.get(undecided, "error")
    kinds = {OUTSIDE: "failure", CANNOT_SAY: of_undecided}

    def counts(checks: Sequence[Check]) -> dict[str, str]:
        outcomes = [kinds.get(check.outcome) for check in checks]
        names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        of_kinds = {name: f"{outcomes.count(kind)}" for name, kind in names.items()}
        return {"tests": f"{len(outcomes)}", **of_kinds, "time": "0"}

    all_checks = [check for checks in suites.values() for check in checks]
    about = {"name": "fwc-llm gate", **counts(all_checks)}
    root = ElementTree.Element("testsuites", about)
    for name, checks in suites.items():
        suite = {"name": _legal(name), **counts(checks)}
        of = ElementTree.SubElement(root, "testsuite", suite)
        for check in checks:
            named = {"classname": suite["name"], "name": _legal(check.condition)}
            case = ElementTree.SubElement(of, "testcase", named | {"time": "0"})
            reason = _legal(check.reason)
            kind = kinds.get(check.outcome, "system-out")
            why = {"message": reason, "type": check.outcome}
            why = why if kind in kinds.values() else {}
            ElementTree.SubElement(case, kind, why).text = reason
    ElementTree.indent(root)
    text = ElementTree.tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def write_stopped(path: Path, reason: str = _UNFINISHED) -> None:
    """Write a JUnit file that says why a call has no checks, but keep checks in it."""
    waiting = reason == _UNFINISHED
    if not waiting and is_file(path):
        waiting = _UNFINISHED in path.read_text(errors="replace")
    if not waiting:
        return
    stopped = Check("the run is complete", CANNOT_SAY, redact(reason))
    write_whole(junit_xml({"run": [stopped]}), path, "the JUnit file ")


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
