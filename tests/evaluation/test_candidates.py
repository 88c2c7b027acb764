"""The candidates of a tuning: many kinds, each with a seed of its own, all real rows with true labels."""

from fwc_llm.evaluation.candidates import choose_candidates, counter_slots, recipes
from fwc_llm.runs.splits import draw_split
from fwc_llm.tasks import Task


def test_counter_stereotypical_slots_run_against_the_base_rates(two: Task, three: Task) -> None:
    low, high = two.groups
    assert counter_slots(two, 16, 1.0) == f"{low}:no=0,{low}:yes=8,{high}:no=8,{high}:yes=0"
    assert counter_slots(two, 16, 0.875) == f"{low}:no=1,{low}:yes=7,{high}:no=7,{high}:yes=1"
    assert counter_slots(two, 16, 0.875, 0.25) == f"{low}:no=1,{low}:yes=9,{high}:no=5,{high}:yes=1"
    low, middle, high = three.groups
    assert counter_slots(three, 12, 1.0) == (
        f"{low}:no=0,{low}:yes=4,{middle}:no=2,{middle}:yes=2,{high}:no=4,{high}:yes=0"
    )


def test_kinds_take_turns_and_what_a_table_refuses_is_named(three: Task) -> None:
    split = draw_split(three, 30, 0.0)
    names = ["strata", "balanced", "random", "fairlets"]
    found, refused = choose_candidates(three, split, 24, (6, 9), ("default", "x"), None, 0, names)
    assert len(found) == 24
    assert len({one.seed for one in found}) == 24
    assert {one.shots.m for one in found} == {6, 9}
    assert {one.template for one in found} == {"default", "x"}
    assert any("two protected levels" in line for line in refused)
    held = split.pool.index[~split.candidates]
    pool = three.pool()
    for one in found:
        for example in one.shots.examples:
            assert example.row not in held
            assert (example.label, example.altered) == (pool.loc[example.row, "y"], "")


def test_every_strategy_that_chooses_once_and_tells_the_truth_is_tried(two: Task) -> None:
    tried = {recipe.strategy for recipe in recipes(two, 8)}
    assert {"fwc", "balanced", "random", "minority", "uncertain", "kmedoids", "strata"} <= tried
    assert not tried & {"zero", "ids", "flipped", "counterfactual", "nearest"}
