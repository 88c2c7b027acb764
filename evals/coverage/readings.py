"""What an audit prints: every interval and every test, each beside the truth it speaks of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.coverage.worlds import ARMS, EXAMPLES, STRATEGY, Sample, truth

LEVEL = 0.05
METRICS = ("accuracy", "dp_gap", "dp_ratio", "eo_gap")
TESTED = ("accuracy", "dp_gap")
_RATES = ("rate", "true_positive_rate", "false_positive_rate", "coverage")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Reading:
    """One printed number: which, `where`, what it speaks `of`; value, interval (None: absent)
    and truth.
    """

    quantity: str
    where: str
    of: str
    value: float | None
    low: float | None
    high: float | None
    truth: float

    def holds(self, number: float) -> bool:
        """Whether the number lies in the interval, rounding aside."""
        if self.low is None or self.high is None:
            return False
        return self.low - _ROUNDING <= number <= self.high + _ROUNDING


@dataclass(frozen=True)
class Verdict:
    """One test: its p-value (None: not given), the difference beside it and the true one,
    contradictions.
    """

    quantity: str
    where: str
    of: str
    p_value: float | None
    difference: float | None
    truth: float
    contradicts: bool

    @property
    def rejects(self) -> bool:
        """Whether it says that there is a difference."""
        return self.p_value is not None and self.p_value < LEVEL


def read(document: Mapping[str, Any], sample: Sample) -> Iterator[Reading | Verdict]:
    """Yield every interval and test of an audit's document for the sample's two arms."""
    arms = {arm["arm"]: arm for arm in document["arms"]}
    for place, name in enumerate(ARMS):
        yield from _read_arm(arms[name], sample, place)
    for test in document["comparisons"]:
        yield from _read_comparison(test, sample, arms)


def _read_arm(arm: Mapping[str, Any], sample: Sample, place: int) -> Iterator[Reading | Verdict]:
    of = _of(arm, EXAMPLES)
    where = ARMS[place]
    true = sample.truths[of][place]
    for metric in (*METRICS, *sample.world.further):
        yield _reading(metric, where, arm[metric], of, true[metric])
    yield from _read_verdicts(arm, (*METRICS[1:], *sample.world.further), where, of, true)
    for group, found in arm["groups"].items():
        for rate in _RATES:
            name = f"{where}, {group}"
            yield _reading(
                rate,
                name,
                _ends(found, rate, "" if rate == "rate" else rate),
                of,
                true[f"{rate} of {group}"],
            )
    if "coverage_low" in arm:
        yield _reading(
            "coverage of all", where, _ends(arm, "coverage", "coverage"), of, true["coverage"]
        )
    for position, one in enumerate(arm.get("by_attribute") or []):
        levels = [group.split(" & ")[position] for group in sample.world.groups]
        of_levels = _of_levels(sample, place, of, levels)
        for metric, (low, high) in one.get("intervals", {}).items():
            found = {"value": one[metric], "low": low, "high": high}
            name = f"{where}, {one['attribute']}"
            yield _reading(f"{metric} by attribute", name, found, of, of_levels[metric])


def _ends(found: Mapping[str, Any], name: str, prefix: str) -> dict[str, Any]:
    prefix = f"{prefix}_" if prefix else ""
    return {
        "value": found[name],
        "low": found.get(f"{prefix}low"),
        "high": found.get(f"{prefix}high"),
    }


def _read_verdicts(
    arm: Mapping[str, Any], metrics: Sequence[str], where: str, of: str, true: Mapping[str, float]
) -> Iterator[Verdict]:
    """Each metric's verdict as a test of equality, and the p-values that must agree."""
    for metric in metrics:
        found = arm[metric]
        if metric.endswith("ratio"):
            equal = 1.0
        else:
            equal = 0.0
        if found["value"] is None or found["verdict"] is None:
            continue
        differs = found["verdict"] in ("differs", "differs within margin")
        excluded = found["low"] > equal + _ROUNDING or found["high"] < equal - _ROUNDING
        tested = metric == METRICS[1] or metric not in METRICS
        unlike = differs != excluded or (tested and differs != (found["p_value"] < LEVEL))
        difference = found["value"] - equal
        yield Verdict(
            f"{metric} differs",
            where,
            of,
            0.0 if differs else 1.0,
            difference,
            true[metric] - equal,
            unlike,
        )


def _of_levels(sample: Sample, place: int, of: str, levels: list[str]) -> dict[str, float]:
    """The truth for one of several protected attributes."""
    world = sample.world
    cells = sample.truths[of][place]
    yes = [
        [cells[f"{kind}_positive_rate of {group}"] for kind in ("false", "true")]
        for group in world.groups
    ]
    return truth(np.array(yes), world.weights, world.read, levels)


def _read_comparison(
    test: Mapping[str, Any], sample: Sample, arms: Mapping[str, Any]
) -> Iterator[Reading | Verdict]:
    """The two arms' tests, and those of these examples where the others are of the strategy."""
    kinds = [("two arms", test)]
    if _of(test, EXAMPLES) != EXAMPLES and "these_examples" in test:
        kinds.append(("two arms, these prompts", test["these_examples"]))
    names = test["first"], test["second"]
    for kind, described in kinds:
        of = _of(described, EXAMPLES)
        truths = [sample.truths[of][ARMS.index(name)] for name in names]
        for metric in TESTED:
            found = described[metric]
            first, second = (arms[name][metric]["value"] for name in names)
            wrong = _contradicts(found, None if first is None or second is None else second - first)
            true = truths[1][metric] - truths[0][metric]
            quantity = f"{metric}, {kind}"
            yield Verdict(quantity, "", of, found["p_value"], found["difference"], true, wrong)
            if "low" in found:
                yield _reading(quantity, "", {**found, "value": found["difference"]}, of, true)


def _contradicts(found: Mapping[str, Any], printed: float | None) -> bool:
    """Whether the test says otherwise than the interval or the difference, or that than the
    arms' values.
    """
    p = found["p_value"]
    difference = found["difference"]
    if difference is not None and printed is not None and abs(difference - printed) > _ROUNDING:
        return True
    if p is None or difference is None:
        return False
    if p < LEVEL and difference == 0:
        return True
    low = found.get("low")
    high = found.get("high")
    if low is None or high is None:  # a sign test, whose sign is that of the rows
        return bool(p < LEVEL and (found.get("better", 0) - found.get("worse", 0)) * difference < 0)
    excluded = low > _ROUNDING or high < -_ROUNDING
    touching = min(abs(low), abs(high)) <= _ROUNDING or abs(p - LEVEL) <= _ROUNDING
    return (excluded != (p < LEVEL) and not touching) or (
        excluded and difference * (low + high) < 0
    )


def _of(found: Mapping[str, Any], default: str) -> str:
    of = found.get("of")
    return of if of in (EXAMPLES, STRATEGY) else default


def _reading(quantity: str, where: str, found: Mapping[str, Any], of: str, true: float) -> Reading:
    return Reading(quantity, where, of, found["value"], found.get("low"), found.get("high"), true)
