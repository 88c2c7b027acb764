"""What an audit prints: every interval and every test, each beside the truth it speaks of."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.coverage.worlds import ARMS, EXAMPLES, Sample, truth

LEVEL = 0.05
METRICS = (
    "accuracy",
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
)
TESTED = ("accuracy", "demographic_parity_difference")
_RATES = ("rate", "true_positive_rate", "false_positive_rate", "coverage")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Reading:
    """One printed number: which, `where`, what it speaks `of`; value, interval (None: absent) and truth."""

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
    """One test: its p-value (None: not given), the difference beside it and the true one, contradictions."""

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
    def true(key: str, of: str) -> float:
        return sample.truths[of][place][key]

    of, where = EXAMPLES, ARMS[place]
    for metric in METRICS:
        found = arm[metric]
        of = _of(found, of)
        yield _reading(metric, where, found, of, true(metric, of))
        if metric == "demographic_parity_difference":
            yield Verdict(
                f"{metric} = 0", where, of, found.get("p_value"), found["value"], true(metric, of), False
            )
            yield from _noise_floor(found, where, of, true(metric, of))
    if arm["signed_gap"] is not None:
        upper, _, lower = str(arm["signed_gap"]["of"]).partition(" − ")
        of = _of(arm["signed_gap"], of)
        gap = true(f"rate of {upper}", of) - true(f"rate of {lower}", of)
        yield _reading("signed_gap", where, arm["signed_gap"], of, gap)
    for group, found in arm["groups"].items():
        for rate in _RATES:
            prefix = "" if rate == "rate" else f"{rate}_"
            ends = {
                "value": found[rate],
                "low": found.get(f"{prefix}low"),
                "high": found.get(f"{prefix}high"),
            }
            their = _of(found, of)
            yield _reading(rate, f"{where}, {group}", ends, their, true(f"{rate} of {group}", their))
    yield from _read_attributes(arm, sample, place, of)


def _noise_floor(found: Mapping[str, Any], where: str, of: str, true: float) -> Iterator[Verdict]:
    """As a test: a gap above the floor is said to be more than chance."""
    floor, value = found.get("noise_95"), found["value"]
    if floor is not None and value is not None:
        p = 0.0 if value > floor + _ROUNDING else 1.0
        yield Verdict("above the noise floor", where, of, p, value, true, False)


def _read_attributes(arm: Mapping[str, Any], sample: Sample, place: int, of: str) -> Iterator[Reading]:
    """Each protected attribute by itself, where groups are crossed and intervals are given."""
    for position, one in enumerate(arm.get("by_attribute") or []):
        levels = [group.split(" & ")[position] for group in sample.world.groups]
        for metric in METRICS:
            found = one[metric]
            if isinstance(found, Mapping):
                of = _of(found, of)
                true = _of_levels(sample, place, of, levels)[metric]
                yield _reading(
                    f"{metric} by attribute", f"{ARMS[place]}, {one['attribute']}", found, of, true
                )


def _of_levels(sample: Sample, place: int, of: str, levels: list[str]) -> dict[str, float]:
    world, cells = sample.world, sample.truths[of][place]
    yes = [
        [cells[f"{kind}_positive_rate of {group}"] for kind in ("false", "true")] for group in world.groups
    ]
    return truth(np.array(yes), world.weights, world.read, levels)


def _read_comparison(
    test: Mapping[str, Any], sample: Sample, arms: Mapping[str, Any]
) -> Iterator[Reading | Verdict]:
    for metric in TESTED:
        found = test[metric]
        of = _of(found, _of(test, EXAMPLES))
        values = [_both_read(sample, ARMS.index(test[place]), of)[metric] for place in ("first", "second")]
        difference = found["difference"]
        if sample.world.parsed is None and difference is not None:
            printed = arms[test["second"]][metric]["value"] - arms[test["first"]][metric]["value"]
            unlike = abs(difference - printed) > _ROUNDING
        else:
            unlike = False
        contradicts = unlike or _contradicts(found)
        true = values[1] - values[0]
        yield Verdict(f"{metric}, two arms", "", of, found["p_value"], difference, true, contradicts)
        if "low" in found:
            ends = {"value": difference, "low": found["low"], "high": found["high"]}
            yield _reading(f"{metric}, two arms", "", ends, of, true)


def _both_read(sample: Sample, place: int, of: str) -> dict[str, float]:
    """The arm's truth over rows whose answers by both arms are read."""
    if sample.world.parsed is None:
        return sample.truths[of][place]
    world, cells = sample.world, sample.truths[of][place]
    yes = [
        [cells[f"{kind}_positive_rate of {group}"] for kind in ("false", "true")] for group in world.groups
    ]
    return truth(np.array(yes), world.weights, world.read**2, world.groups)


def _contradicts(found: Mapping[str, Any]) -> bool:
    """Whether the test says otherwise than the difference or the interval beside it."""
    p, difference = found["p_value"], found["difference"]
    if p is None or difference is None:
        return False
    if p < LEVEL and (difference == 0 or _against(found.get("better"), found.get("worse"), difference)):
        return True
    low, high = found.get("low"), found.get("high")
    if low is None or high is None:
        return False
    excluded = low > _ROUNDING or high < -_ROUNDING
    touching = min(abs(low), abs(high)) <= _ROUNDING or abs(p - LEVEL) <= _ROUNDING
    return (excluded != (p < LEVEL) and not touching) or (excluded and difference * (low + high) < 0)


def _against(better: int | None, worse: int | None, difference: float) -> bool:
    return better is not None and worse is not None and (better - worse) * difference < 0


def _of(found: Mapping[str, Any], default: str) -> str:
    of = found.get("of")
    return of if of in (EXAMPLES, "this strategy") else default


def _reading(quantity: str, where: str, found: Mapping[str, Any], of: str, true: float) -> Reading:
    return Reading(quantity, where, of, found["value"], found.get("low"), found.get("high"), true)
