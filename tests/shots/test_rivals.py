"""The strategies of the fairness literature: whom they choose, and that what is not true is marked."""

from pathlib import Path

import numpy as np
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.shots import load_shots, order_shots, save_shots, select_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, load_task
from tests.people import make_people, write_people


def cells(shots: Shots) -> list[tuple[str, str]]:
    return sorted((example.values["group"], example.label) for example in shots.examples)


def test_minority_takes_the_smallest_group_with_both_labels_or_yes_alone(two: Task, three: Task) -> None:
    smallest = min(two.groups, key=lambda level: (two.sensitive(two.pool()) == level).sum())
    assert cells(select_shots(two, "minority", 8)) == [(smallest, "no")] * 4 + [(smallest, "yes")] * 4
    unbalanced = select_shots(two, "minority", 6, labels="unbalanced")
    assert (unbalanced.strategy, cells(unbalanced)) == ("minority", [(smallest, "yes")] * 6)
    assert {level for level, _ in cells(select_shots(three, "minority", 6, group="c"))} == {"c"}
    with pytest.raises(FwcError, match="labels is 'many'"):
        select_shots(two, "minority", 4, labels="many")


def test_uncertain_leaves_out_rows_whose_group_can_be_predicted(tmp_path: Path) -> None:
    """Of people whose job gives their group away in two rows of three."""
    people = make_people(600, 2)
    open_rows = np.random.default_rng(1).random(600) < 1 / 3
    people["job"] = np.where(open_rows, "cook", np.where(people["group"] == "a", "clerk", "pilot"))
    telling = load_task(write_people(tmp_path, people))
    for seed in range(3):
        shots = select_shots(telling, "uncertain", 16, seed=seed)
        assert {example.values["job"] for example in shots.examples} == {"cook"}
        assert "note" not in shots.options
    few = select_shots(telling, "uncertain", 300)  # fewer are uncertain
    assert "the least certain rows were chosen" in few.options["note"]
    assert few.m == 300
    assert select_shots(telling, "uncertain", 8, seed=1) != select_shots(telling, "uncertain", 8, seed=2)
    with pytest.raises(FwcError, match="coverage is 1"):
        select_shots(telling, "uncertain", 4, coverage=1)


def test_counterfactual_copies_differ_in_the_level_and_say_so(two: Task, three: Task, tmp_path: Path) -> None:
    shots = select_shots(two, "counterfactual", 9)
    assert shots.m == 9
    for original, copy in zip(shots.examples[:-1:2], shots.examples[1::2], strict=True):
        assert not original.altered
        assert dict(original.values) == dict(two.pool().loc[original.row, list(original.values)])
        assert copy.altered == f"group changed to {copy.values['group']}"
        assert {**copy.values, "group": original.values["group"]} == dict(original.values)
        assert copy.values["group"] != original.values["group"]
        assert copy.label == original.label
    assert {e.values["group"] for e in select_shots(three, "counterfactual", 12).examples} == {"a", "b", "c"}
    save_shots(shots, tmp_path / "shots.json")
    assert load_shots(tmp_path / "shots.json", two) == shots


@pytest.mark.parametrize("seed", range(4))
def test_flipped_labels_give_every_group_the_same_share_of_yes_and_are_marked(two: Task, seed: int) -> None:
    shots = select_shots(two, "flipped", 20, seed=seed)
    truth = two.pool()["y"]
    for example in shots.examples:
        assert (example.label != truth[example.row]) == bool(example.altered)
    true_share = np.mean([truth[example.row] == "yes" for example in shots.examples])
    for level in two.groups:
        own = [example.label == "yes" for example in shots.examples if example.values["group"] == level]
        assert abs(sum(own) - true_share * len(own)) <= 0.5
    everything = select_shots(two, "flipped", 6, seed=seed, flip="all")
    assert all(example.altered for example in everything.examples)
    assert everything.untrue == "6 of 6 examples are not true (6 with label flipped)"
    assert everything.untrue in repr(everything)
    assert order_shots(everything, "random", 3).untrue == everything.untrue


def test_what_is_not_true_is_in_the_file_and_never_taken_unasked(two: Task, tmp_path: Path) -> None:
    shots = select_shots(two, "flipped", 6, flip="all")
    save_shots(shots, tmp_path / "flipped.json")
    assert (tmp_path / "flipped.json").read_text(encoding="utf-8").count('"label flipped: not true"') == 6
    assert load_shots(tmp_path / "flipped.json", two) == shots
    save_shots(select_shots(two, "random", 6), tmp_path / "true.json")
    assert "altered" not in (tmp_path / "true.json").read_text(encoding="utf-8")


SLOTS = "A:no=1,a:yes=5, b:no=4,B:YES=2"


def test_slots_can_be_written_as_words(two: Task) -> None:
    wanted = [("a", "no")] + [("a", "yes")] * 5 + [("b", "no")] * 4 + [("b", "yes")] * 2
    for strategy in ("fwc", "strata"):
        assert cells(select_shots(two, strategy, 12, slots=SLOTS)) == wanted
    table = {("a", "no"): 1, ("a", "yes"): 5, ("b", "no"): 4, ("b", "yes"): 2}
    by_table, by_words = (select_shots(two, "strata", 12, slots=slots) for slots in (table, SLOTS))
    assert by_table.examples == by_words.examples
    assert select_shots(two, "fwc", 12, slots=SLOTS).options["slots"] == SLOTS
    low, high = two.groups
    for strategy in ("strata", "fwc"):
        against = cells(select_shots(two, strategy, 8, slots="counter"))
        wanted = [(low, "no")] + [(low, "yes")] * 3 + [(high, "no")] * 3 + [(high, "yes")]
        assert against == sorted(wanted)
    some = cells(select_shots(two, "strata", 6, slots="a:yes=3,b:no=3"))
    assert some == [("a", "yes")] * 3 + [("b", "no")] * 3


def test_surprising_examples_are_those_whose_label_the_features_predict_least(two: Task) -> None:
    pool = two.pool()
    slots = "a:yes=3,b:no=3"
    ages: dict[str, list[float]] = {}
    for pick in ("uniform", "surprising"):
        drawn = [select_shots(two, "strata", 6, seed=s, slots=slots, pick=pick) for s in range(4)]
        assert all(example.label == pool.loc[example.row, "y"] for one in drawn for example in one.examples)
        # The old answer yes: a surprising yes is young, a surprising no is old.
        found = [example for one in drawn for example in one.examples]
        ages[pick] = [(1 if one.label == "no" else -1) * one.values["age"] for one in found]
        assert len({tuple(example.row for example in one.examples) for one in drawn}) == 4
    assert np.mean(ages["surprising"]) > np.mean(ages["uniform"])
    with pytest.raises(FwcError, match="pick is 'odd'"):
        select_shots(two, "strata", 6, slots=slots, pick="odd")


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ("a:no=1,a:yes=5", "slots sum to 6, but m=8"), ("a:no=4,a:no=4", "a:no is named twice"),
        ("c:no=8", "no protected level 'c'; there are"), ("a:perhaps=8", "neither no nor yes"),
        ("a:no=-8", "must be whole"), ("a:no=x", "is not LEVEL:ANSWER=COUNT"),
    ],
)  # fmt: skip
def test_slots_that_do_not_read_are_refused_in_words(two: Task, slots: str, message: str) -> None:
    for strategy in ("fwc", "strata"):
        with pytest.raises(FwcError, match=message):
            select_shots(two, strategy, 8, slots=slots)
