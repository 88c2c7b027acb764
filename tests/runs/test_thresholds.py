"""From replies about held rows to a threshold, and the rows themselves: what the rules say, row by row."""

from typing import Any

import pytest

from fwc_llm import FwcError, Settings
from fwc_llm.runs.folder import THRESHOLD
from fwc_llm.runs.plan import make_plan
from fwc_llm.runs.row_matching import row_values
from fwc_llm.runs.splits import draw_split
from fwc_llm.runs.threshold_selection import NEVER, at_threshold, choose_thresholds, hold
from fwc_llm.shots import select_shots
from fwc_llm.tasks import Task

KEY = ("zero", 0)


def held(*rows: tuple[float | None, str, str]) -> list[dict[str, Any]]:
    return [
        {"arm": "zero", "repeat": 0, "p_yes": "" if p is None else f"{p:.6f}", "label": label, "group": group}
        for p, label, group in rows
    ]


def chosen(rule: str, *rows: tuple[float | None, str, str]) -> dict[str, Any]:
    return choose_thresholds(rule, held(*rows), [KEY])[KEY]


def test_fit_takes_the_most_accurate_threshold() -> None:
    found = chosen(
        "fit", (0.1, "no", "a"), (0.2, "no", "b"), (0.3, "yes", "a"), (0.3, "no", "b"), (0.4, "yes", "b")
    )
    assert (found["threshold"], found["accuracy"], found["accuracy_at_half"]) == (0.3, 0.8, 0.6)
    assert (found["rows"], found["known"], found["ties"]) == (5, 5, 2)


def test_of_equally_accurate_thresholds_that_of_the_least_gap_is_taken_then_the_nearest_to_one_half() -> None:
    # From 0.2 up and from 0.6 up are equally accurate; from 0.6 up the groups are answered alike.
    rows = [(0.2, "no", "a"), (0.3, "yes", "a"), (0.6, "yes", "a"), (0.6, "yes", "b")]
    found = chosen("fit", *rows, (0.1, "no", "b"), (0.15, "no", "b"))
    assert found["accuracy"] == pytest.approx(1.0)
    assert found["threshold"] == 0.3
    same = chosen("fit", (0.1, "yes", "a"), (0.1, "no", "b"), (0.45, "yes", "a"), (0.45, "no", "b"))
    assert (same["threshold"], same["demographic_parity_difference"]) == (0.45, 0.0)


def test_a_threshold_may_never_say_yes() -> None:
    found = chosen("fit", (0.9, "no", "a"), (1.0, "no", "b"))
    assert found["threshold"] == NEVER
    assert at_threshold({"p_yes": "1.000000"}, NEVER) == "no"


def test_base_rate_says_yes_as_often_as_there_are_yes() -> None:
    rows = [(place / 10, "yes" if place in {1, 2, 3} else "no", "ab"[place % 2]) for place in range(10)]
    found = chosen("base-rate", *rows)
    assert (found["threshold"], found["share_of_yes"], found["base_rate"]) == (0.7, 0.3, 0.3)
    tied = chosen("base-rate", (0.5, "yes", "a"), (0.5, "no", "b"), (0.5, "no", "a"), (0.1, "no", "b"))
    assert tied["share_of_yes"] in {0.0, 0.75}  # ties leave nothing nearer to a quarter


def test_rows_without_a_probability_are_left_out_and_counted() -> None:
    found = chosen("fit", (None, "no", "a"), (0.3, "yes", "b"))
    assert (found["rows"], found["known"], found["threshold"]) == (2, 1, 0.3)
    none = chosen("fit", (None, "no", "a"))
    assert none == {"repeat": 0, "threshold": None, "rows": 1, "known": 0}
    assert at_threshold({"p_yes": "0.9"}, None) == at_threshold({"p_yes": ""}, 0.5) == ""
    assert choose_thresholds("fit", [], [KEY])[KEY]["threshold"] is None
    assert choose_thresholds(0.25, [], [KEY]) == {KEY: {"repeat": 0, "threshold": 0.25}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 1.5}, "threshold: give a number from 0 to 1, 'fit' or 'base-rate', not 1.5"),
        ({"threshold": float("nan")}, "threshold.*nan"),
        ({"threshold": True}, "threshold.*True"),
        ({"threshold": "median"}, "threshold.*median"),
        ({"threshold": "fit", "threshold_rows": 1}, "threshold_rows.*1"),
        ({"threshold": 0.5, "threshold_rows": 40}, "is for a threshold of 'fit' or 'base-rate'"),
        ({"threshold_rows": 40}, "is for a threshold"),
    ],
)
def test_what_is_no_threshold_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(FwcError, match=words):
        Settings(**options)


def test_held_rows_are_no_test_rows_no_examples_and_equal_none(two: Task) -> None:
    saved = select_shots(two, "random", m=8, seed=5)
    arms = ("balanced", "nearest", saved)
    settings = Settings(m=4, n_test=16, base_parity=0.5, repeats=2, threshold="fit", threshold_rows=16)
    plan = make_plan(two, arms, settings)
    assert (plan.n_calls, plan.n_threshold_calls, plan.n_questions) == (2 * 3 * 32, 96, 96)
    assert (
        "--threshold fit first asks about 16 rows of the pool, for each of 3 arms and 2 repeats: 96"
        in str(plan.notes)
    )
    for repeat in plan.repeats:
        assert repeat.held is not None
        of_held = set(row_values(two, repeat.held))
        assert not of_held & set(row_values(two, repeat.split.test))
        free = repeat.split.pool[repeat.split.candidates]
        assert not of_held & set(row_values(two, free))
        for shots in (*repeat.shots.values(), saved):
            assert not of_held & set(row_values(two, [example.values for example in shots.examples]))
        # Drawn like the test rows: as many of each group and answer.
        for rows in (repeat.held, repeat.split.test):
            assert (two.sensitive(rows) == "a").sum() == 8
    calls = list(plan.calls())
    assert len(calls) == plan.n_calls
    first = [call for call in calls if call.variant == THRESHOLD]
    assert calls[:96] == first
    assert {call.arm for call in first} == {arm.name for arm in plan.arms}
    asked = first[0].asked
    assert asked is not None
    learnt = set(asked.training().rows.index.astype(str))
    assert not learnt & {call.row for call in calls if call.repeat == 0}  # neither held nor test rows


def test_a_table_that_is_too_small_says_so_or_gives_fewer(two: Task) -> None:
    split = draw_split(two, 16, 0.5, 0)
    settings = Settings(n_test=16, base_parity=0.5, threshold="fit", threshold_rows=4_000)
    with pytest.raises(FwcError, match=r"for --threshold \(--threshold-rows\): the cell"):
        hold(two, split, settings, 0, [])
    few, left = hold(two, split, Settings(n_test=120, base_parity=0.5, threshold="fit"), 0, [])
    assert few is not None
    assert 20 <= len(few) < 120
    assert left.candidates.sum() > 0
    loose, _ = hold(two, split, Settings(n_test=120, base_parity=None, threshold="base-rate"), 0, [])
    assert loose is not None
    assert len(loose) == min(120, int(split.candidates.sum()) // 2)
    assert hold(two, split, Settings(threshold=0.3), 0, []) == (None, split)
