"""The detector: the same alarms however decisions are cut into calls, and false ones as rarely as is said."""

import json
from itertools import permutations

import numpy as np
import pytest

from fwc_llm import FwcError
from fwc_llm.gates import parse_condition
from fwc_llm.gates.change_detection import Alarm, Detector, check_watched


def detector(text: str) -> Detector:
    return Detector(parse_condition(text))


def alarms_of(text: str, cell: np.ndarray, limit: float, size: int) -> tuple[list[Alarm], float]:
    """The alarms of calls of so many decisions, with the detector kept as JSON between them."""
    found, watched = list[Alarm](), detector(text)
    for start in range(0, len(cell), size):
        watched = Detector.read(watched.condition, json.loads(json.dumps(watched.to_dict())))
        numbers = 1 + np.arange(len(cell))
        found += watched.watch(cell[start : start + size], numbers[start : start + size], limit)
    return found, watched.evidence


def one_by_one(bound: float, ratio: bool, cell: np.ndarray, limit: float) -> list[int]:
    """The decisions at which `dp > bound` (or `dp_ratio < bound`) alarms, by the definition."""
    bets, alarms = np.array([0.05, 0.1, 0.2, 0.4]), list[int]()
    runs: dict[tuple[int, ...], list[int]] = {}
    evidence: dict[tuple[int, ...], np.ndarray] = {}
    for number, (group, kind) in enumerate(zip(cell // 6, cell % 3, strict=True), 1):
        for other in range(4) if kind < 2 else ():
            pair = tuple(sorted((int(group), other)))
            run = runs.setdefault(pair, [int(group), 0, 0])
            if other == group or run[0] == group:
                run[1:] = run[1] + 1, run[2] + int(kind)
                continue
            rates = {run[0]: run[2] / run[1], int(group): int(kind)}
            del runs[pair]
            for high, low in permutations(pair):
                gain = bound * rates[high] - rates[low] if ratio else rates[high] - rates[low] - bound
                evidence[high, low] = (evidence.get((high, low), 0) + np.ones(4)) * (1 + bets * gain)
        if evidence and np.mean(list(evidence.values())) >= limit:
            alarms.append(number)
            runs, evidence = {}, {}
    return alarms


@pytest.mark.parametrize(("text", "bound"), [("dp > 0.1", 0.1), ("dp_ratio < 0.8", 0.8)])
@pytest.mark.parametrize("groups", [2, 4])
def test_alarms_do_not_depend_on_how_decisions_are_cut(text: str, bound: float, groups: int) -> None:
    rng = np.random.default_rng(groups)
    group = rng.choice(groups, 1500, p=rng.dirichlet(np.full(groups, 2.0)))
    answer = np.where(rng.random(1500) < 0.03, 2, rng.random(1500) < np.where(group == 0, 0.8, 0.4))
    cell = 6 * group + answer.astype(np.int64)
    whole, left = alarms_of(text, cell, 50, 1500)
    assert [alarm.until for alarm in whole] == one_by_one(bound, "ratio" in text, cell, 50)
    assert len(whole) > 2
    for size in (1, 20, 700):
        found, evidence = alarms_of(text, cell, 50, size)
        assert evidence == pytest.approx(left)
        for one, other in zip(found, whole, strict=True):
            assert one[:4] == other[:4]
            assert one.inside + one.before == pytest.approx(other.inside + other.before)


def test_an_alarm_has_all_decisions_since_its_beginning_and_before_it() -> None:
    numbers = np.arange(600)
    group = numbers % 2
    cell = 6 * group + np.where(numbers < 300, 1, group == 0)
    alarm = next(detector("dp > 0.1").watch(cell, 1 + numbers, 1000))
    seen = cell[: alarm.until]
    decided = [
        count for of in alarm.groups for count in ((seen // 6 == of).sum(), (seen == 6 * of + 1).sum())
    ]
    assert alarm.groups == [0, 1]
    assert [inside + before for inside, before in zip(alarm.inside, alarm.before, strict=True)] == decided
    assert min(alarm.inside[0], alarm.before[0]) > 0
    wrong = next(detector("accuracy < 0.5").watch(np.full(60, 1), 1 + numbers[:60], 1000))
    assert (wrong.inside, wrong.before) == ([wrong.until, 0, 0, 0], [0, 0, 0, 0])


def test_what_needs_true_outcomes_is_watched_where_there_are_some() -> None:
    for text in ("dp > 0.1", "eo > 0.1"):
        check_watched(parse_condition(text))
    check_watched(parse_condition("dp > 0.1"), labelled=False)
    with pytest.raises(FwcError, match="--label"):
        check_watched(parse_condition("eo > 0.1"), labelled=False)


@pytest.mark.parametrize("text", ["dp > 0.1", "eo > 0.1", "dp_ratio < 0.8", "accuracy < 0.5"])
def test_false_alarms_are_as_rare_as_is_said(text: str) -> None:
    """At the bound itself: 80 streams of 2,000 decisions, of which one in 1,000 may alarm on average."""
    rng, alarms = np.random.default_rng(0), 0
    rates = {"dp": (0.5, 0.6), "eo": (0.5, 0.6), "dp_ratio": (0.4, 0.5), "accuracy": (0.5, 0.5)}
    for _ in range(80):
        group, label = rng.integers(0, 2, (2, 2000))
        answer = rng.random(2000) < np.array(rates[text.split()[0]])[group]
        cell = 6 * group + 3 * label + answer
        alarms += len(list(detector(text).watch(cell, cell, 1000)))
    assert alarms <= 160
