"""Whether a condition holds, by the interval and not by the point: passed, failed, or undecided."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fwc_llm.gates.condition import METRICS, Condition
from fwc_llm.metrics.answers import Answered
from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import Estimate, estimate
from fwc_llm.metrics.counts import BY_KEY, overall, undefined_reasons
from fwc_llm.metrics.statistics import listed, not_judged
from fwc_llm.metrics.variance import of_words

Outcome = Literal["passed", "failed", "undecided"]
LARGEST_ERROR = 0.05  # how often a check fails, at most, that should not: what lies outside the interval


@dataclass(frozen=True)
class Check:
    """What became of a condition.

    `outcome` is "failed" where the whole 95 % interval meets the condition, "passed" where none of it does,
    else "undecided"; `reason` is one line. `value`, `low` and `high` are NaN where a metric is undefined, and
    where the check is of several arms.
    """

    condition: str
    outcome: Outcome
    reason: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


def decide(condition: Condition, answered: Answered) -> list[Check]:
    """Return a check for the condition's arm, or for every arm. `FwcError` for an arm that is not there."""
    condition.check_arms(answered.arms)
    arms = answered.arms if condition.arm is None else (condition.arm,)
    return [_decide(condition, answered, arm) for arm in arms]


def all_of(condition: str, checks: Sequence[Check]) -> Check:
    """Return one check for several: failed if any is, else undecided if any is."""
    if len(checks) == 1:
        return checks[0]
    outcomes = {check.outcome for check in checks}
    order: tuple[Outcome, ...] = ("failed", "undecided", "passed")
    outcome = next(one for one in order if one in outcomes)
    reason = "; ".join(check.reason for check in checks if check.outcome == outcome)
    return Check(condition, outcome, reason)


def _decide(condition: Condition, answered: Answered, arm: str) -> Check:
    name = condition.about(arm)
    if condition.minus is None:
        found, of, why = _of_one(condition.metric, answered, arm)
    else:
        found, of, why = _of_two(condition, answered, arm, condition.minus)
    if math.isnan(found.value):
        return Check(name, "undecided", f"{name}: {condition.metric} is undefined, {why}")
    if math.isnan(found.low) or math.isnan(found.high):
        return Check(name, "undecided", f"{name}: {found.value:.3f} has no interval: it {why}", found.value)
    holds, fails = _sides(condition.operator, condition.bound, found.low, found.high)
    outcome: Outcome = "failed" if holds else "passed" if fails else "undecided"
    shown = f"{found.value:.3f}, 95 % interval {found.low:.3f} to {found.high:.3f} ({of})"
    metric = BY_KEY.get(METRICS[condition.metric])
    if metric is not None and metric.kind != "share" and (apart := not_judged(answered)):
        shown += f", not judged: {listed(apart)}"
    words = {
        "failed": "all of it meets the condition",
        "passed": "none of it meets the condition",
        "undecided": f"{condition.bound:g} lies within it: too few rows to tell",
    }
    return Check(name, outcome, f"{name}: {shown}; {words[outcome]}", found.value, found.low, found.high)


def _sides(operator: str, bound: float, low: float, high: float) -> tuple[bool, bool]:
    """Whether all of an interval meets the condition, and whether none of it does."""
    if operator == ">":
        return low > bound, high <= bound
    if operator == ">=":
        return low >= bound, high < bound
    if operator == "<":
        return high < bound, low >= bound
    return high <= bound, low > bound


def _of_one(metric: str, answered: Answered, arm: str) -> tuple[Estimate, str, str]:
    """A metric of one arm, what its interval speaks of, and why it is undefined."""
    found = estimate(answered.samples[arm])
    value = found.coverage if metric == "coverage" else found[METRICS[metric]]
    cells = answered.cells(arm)
    reasons = dict(undefined_reasons(overall(cells.counts), cells.groups))
    why = reasons.get(METRICS[metric], "nothing was answered")
    return value, f"of {of_words(found.of, answered.with_examples)}", why


def _of_two(condition: Condition, answered: Answered, arm: str, minus: str) -> tuple[Estimate, str, str]:
    """The paired difference of two arms' metrics, the first less the second."""
    estimates = {name: estimate(answered.samples[name]) for name in (minus, arm)}
    key = METRICS[condition.metric]
    test = compare(estimates[minus], estimates[arm], metrics=(key,))
    one = test[key]
    found = Estimate(one.difference, one.low, one.high, estimates[arm][key].per_repeat)
    whys = (_of_one(condition.metric, answered, name)[2] for name in (arm, minus))
    why = test.reason or next(whys)
    return found, f"paired, of {of_words(test.of, answered.with_examples)}", why
