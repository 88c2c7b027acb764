"""The race: who drops out, what it saves, and when there is nothing to choose."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.evaluation import successive_halving as halving
from fwc_llm.evaluation.tune import choose_candidates, recipes
from fwc_llm.runs.splits import draw_split
from fwc_llm.shots.examples import counter_slots
from fwc_llm.tasks import Task, load_task
from tests.metrics.worlds import metrics_of

GOAL = halving.Goal("dp_gap", 0.05, 0.05)


@pytest.fixture(scope="module")
def pool() -> halving.Pool:
    task = load_task("census")
    return halving.Pool.of(task, task.pool().head(400))


class World:
    """Candidate c0 answers alike for both groups; the higher the number, the larger the gap."""

    def __init__(self, pool: halving.Pool) -> None:
        rng, self.pool = np.random.default_rng(0), pool
        self.questions: dict[str, int] = {}
        self.noise = rng.random(len(pool.rows))

    def p_yes(self, name: str) -> halving.Floats:
        if name.startswith("c"):
            gap = 0.02 * int(name[1:])
        else:
            gap = 0.4
        return np.where(self.pool.groups == "Male", 0.5 + gap / 2, 0.5 - gap / 2)

    def ask(self, names: Iterable[str], k: int) -> dict[str, halving.Floats]:
        self.questions |= dict.fromkeys(names, k)  # the earlier ones are in the journal
        return {
            name: (self.noise < self.p_yes(name))[:k].astype(float) for name in names
        }

    @property
    def asked(self) -> int:
        return sum(self.questions.values())


def test_a_race_finds_what_asking_everything_finds_with_half_the_questions(
    pool: halving.Pool,
) -> None:
    names = [f"c{number}" for number in range(40)]
    world = World(pool)
    everything = World(pool)
    rounds = [*halving.schedule(40, 400)]
    raced = halving.successive_halving(names, pool, GOAL, world.ask, rounds)
    exhaustive = halving.successive_halving(
        names, pool, GOAL, everything.ask, [(40, 400)]
    )
    left = [name for name in names if len(raced[name]) == 400]
    assert [count for count, _ in rounds] == [40, 12, 6]
    assert len(left) == 6
    assert world.asked <= everything.asked / 2
    best = min(names, key=lambda name: pool.measure(GOAL, exhaustive[name]).metric)
    assert best in left
    assert len(raced["c39"]) == 120
    assert len(raced[halving.ZERO]) == len(raced[halving.BALANCED]) == 400


def test_a_fair_candidate_far_beyond_the_loss_goes_and_one_within_it_stays(
    pool: halving.Pool,
) -> None:
    rng = np.random.default_rng(1)
    right = pool.labels.astype(float)
    other = 1.0 - pool.labels
    shares = {"zero": 0.0, "balanced": 0.0, "edge": 0.05, "beyond": 0.4}
    shares |= {f"filler{number}": 0.3 for number in range(10)}
    flips = {name: rng.random(len(right)) < share for name, share in shares.items()}

    def ask(names: Iterable[str], k: int) -> dict[str, halving.Floats]:
        return {name: np.where(flips[name], other, right)[:k] for name in names}

    goal = halving.Goal("dp_gap", 0.0, 0.06)
    rounds = halving.schedule(len(shares) - 2, 400)
    found = halving.successive_halving(list(shares)[2:], pool, goal, ask, rounds)
    assert len(found["edge"]) == 400
    assert sum(len(found[name]) == 400 for name in shares) == 2 + halving.FEWEST_KEPT


def test_gains_are_clear_beyond_noise_and_the_smallest_are_seen_four_times_in_five(
    pool: halving.Pool,
) -> None:
    """Ten candidates err at random in a fifth of the rows, as zero-shot does."""
    rng = np.random.default_rng(2)
    right = pool.labels.astype(float)
    answers = {
        name: np.where(rng.random(400) < 0.2, 1 - right, right)
        for name in ("zero", *"abcdefghij")
    }
    tests = halving.compared_with_zero(answers, "abcdefghij", GOAL, pool)
    assert not any(halving.better(test, GOAL) for test in tests.values())
    gains = halving.smallest_gains(tests.values(), GOAL)
    assert gains is not None
    assert (
        0.04 < gains[1] < 0.2
    )  # √(2 · 0.2 · 0.8 / 400) a difference, times 2.8 + 0.84
    answers["a"] = right
    tests = halving.compared_with_zero(answers, "ab", GOAL, pool)
    assert [halving.better(tests[name], GOAL) for name in "ab"] == [True, False]
    same = halving.compared_with_zero(answers | {"a": answers["zero"]}, "a", GOAL, pool)
    assert halving.smallest_gains(same.values(), GOAL) is None


# --- What tuning aims at

RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 2, 400).astype(np.int8)
GROUPS = RNG.choice(["a", "b", "c"], 400, p=[0.5, 0.3, 0.2])


@pytest.mark.parametrize("metric", halving.TARGETS)
def test_values_are_those_of_every_table(metric: str) -> None:
    yes = RNG.integers(0, 2, 400).astype(float)
    pool = halving.Pool(pd.DataFrame(), LABELS, GROUPS)
    measured = pool.measure(halving.Goal(metric), yes)
    table = metrics_of(yes, LABELS, GROUPS)
    assert measured.accuracy == pytest.approx(table.accuracy)
    assert measured.metric == pytest.approx(getattr(table, metric))


def test_nobody_gains_by_replies_without_an_answer_or_by_an_unknown_group() -> None:
    yes = np.array([1.0, np.nan, 1.0, 0.0])
    labels = np.array([1, 0, 1, 0], np.int8)
    pool = halving.Pool(pd.DataFrame(), labels, np.array(["a", "a", "b", "b"]))
    values = pool.measure(halving.Goal("dp_gap"), yes)
    assert (values.accuracy, values.metric) == (0.75, 0.5)
    groups = np.array(["a", "a", "b", "unknown"])
    with_unknown = halving.Pool(pd.DataFrame(), labels, groups)
    yes[1] = 1.0
    assert with_unknown.measure(halving.Goal("dp_gap"), yes).metric == 0.0


def order(
    goal: halving.Goal, metric: list[float], accuracy: list[float], balanced: float
) -> list[tuple[str, bool]]:
    """The numbers of candidates in order, and whether each reaches the goal."""
    every: Any = ()
    values = enumerate(zip(accuracy, metric, strict=True))
    measured = {
        str(number): halving.Measured(every, 400, *both, every, every)
        for number, both in values
    }
    reference = halving.Measured(every, 400, balanced, 1.0, every, every)
    found = halving.ranked(measured | {halving.BALANCED: reference}, goal)
    return [pair for pair in found if pair[0] != halving.BALANCED]


def test_the_order_of_choice() -> None:
    goal = halving.read_goal(0.2, None, 2.0)
    metric = [0.30, 0.10, 0.15, 0.05, 0.25, np.nan]
    accuracy = [0.80, 0.79, 0.795, 0.70, 0.79, 0.9]
    found = order(goal, metric, accuracy, 0.8)
    # The target, then nearness, then what loses too much.
    assert "".join(name for name, _ in found) == "214053"
    assert [reached for _, reached in found] == [True, True, *[False] * 4]
    assert "at most 20 points" in goal.words
    ratio = order(halving.Goal("dp_ratio", 0.8, 0.5), metric[:5], accuracy[:5], 0.5)
    assert "".join(name for name, _ in ratio) == "04213"


def test_the_last_digit_of_a_float_decides_nothing() -> None:
    goal = halving.read_goal(0.1, None, 3.0)
    found = order(goal, [0.4 - 0.3, 0.05], [0.8, 0.83 - 0.06], 0.83)
    assert dict(found) == {"0": True, "1": False}
    assert 0.4 - 0.3 > 0.1


# --- The candidates of a tuning


def test_counter_stereotypical_slots_run_against_the_base_rates(
    two: Task, three: Task
) -> None:
    low, high = two.groups
    assert (
        counter_slots(two, 16, 1.0)
        == f"{low}:no=0,{low}:yes=8,{high}:no=8,{high}:yes=0"
    )
    assert (
        counter_slots(two, 16, 0.875)
        == f"{low}:no=1,{low}:yes=7,{high}:no=7,{high}:yes=1"
    )
    assert (
        counter_slots(two, 16, 0.875, 0.25)
        == f"{low}:no=1,{low}:yes=9,{high}:no=5,{high}:yes=1"
    )
    slots = counter_slots(three, 12, 1.0)
    assert slots == "{0}:no=0,{0}:yes=4,{1}:no=2,{1}:yes=2,{2}:no=4,{2}:yes=0".format(
        *three.groups
    )


def test_kinds_take_turns_and_what_a_table_refuses_is_named(three: Task) -> None:
    split = draw_split(three, 30, 0.0)
    names = ["strata", "balanced", "random"]
    found, refused = choose_candidates(
        three, split, 24, (5, 9), ("default", "x"), None, 0, names
    )
    assert len(found) == len({one.seed for one in found}) == 24
    assert {one.shots.m for one in found} == {5, 9}
    assert {one.template for one in found} == {"default", "x"}
    assert any("each of the 6 cells" in line for line in refused)
    may = three.pool().loc[split.pool.index[split.candidates], "y"]
    for example in (example for one in found for example in one.shots.examples):
        assert example.label == may[example.row]


def test_every_strategy_that_chooses_once_and_tells_the_truth_is_tried(
    two: Task,
) -> None:
    found = recipes(two, [8])
    tried = {recipe.strategy for recipe in found}
    assert {"fwc", "fwc-counter", "balanced", "random", "kmedoids", "strata"} <= tried
    assert found[0].strategy == "strata", "no other lead has been shown"
    assert not tried & {"zero", "ids", "nearest"}
