"""The race: who drops out, what it saves, and when there is nothing to choose."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest

from fwc_llm.evaluation import successive_halving as halving
from fwc_llm.evaluation.candidates import choose_candidates, recipes
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
    raced = halving.successive_halving(names, pool, GOAL, world.ask)
    exhaustive = halving.successive_halving(
        names, pool, GOAL, everything.ask, ((1.0, 1.0),)
    )
    left = [name for name in names if len(raced[name]) == 400]
    assert halving.FEWEST_KEPT <= len(left) <= 6
    assert world.asked <= everything.asked / 2
    best = min(
        names, key=lambda name: pool.measure(GOAL, exhaustive[name]).metric.value
    )
    assert best in left
    assert len(raced["c39"]) == 120
    assert len(raced[halving.ZERO]) == len(raced[halving.BALANCED]) == 400


def test_who_may_still_win_stays_and_not_who_is_near_on_average(
    pool: halving.Pool,
) -> None:
    """The loss decides: a fair candidate far beyond it goes, and one at its edge stays."""
    rng = np.random.default_rng(1)
    right = pool.labels.astype(float)
    other = 1.0 - pool.labels
    shares = {"zero": 0.0, "balanced": 0.0, "edge": 0.05, "beyond": 0.4}
    shares |= {f"filler{number}": 0.3 for number in range(10)}
    flips = {name: rng.random(len(right)) < share for name, share in shares.items()}

    def ask(names: Iterable[str], k: int) -> dict[str, halving.Floats]:
        return {name: np.where(flips[name], other, right)[:k] for name in names}

    found = halving.successive_halving(
        list(shares)[2:], pool, halving.Goal("dp_gap", 0.0, 0.06), ask
    )
    assert len(found["edge"]) == 400
    assert sum(len(found[name]) == 400 for name in shares) == 2 + halving.FEWEST_KEPT


def test_the_smallest_gains_are_seen_four_times_in_five(pool: halving.Pool) -> None:
    """Ten candidates err at random in a fifth of the rows, as zero-shot does."""
    rng = np.random.default_rng(2)
    right = pool.labels.astype(float)
    known = {
        name: np.where(rng.random(400) < 0.2, 1 - right, right)
        for name in ("zero", *"abcdefghij")
    }
    gains = halving.smallest_gains(known, "abcdefghij", GOAL, pool)
    assert gains is not None
    assert (
        0.04 < gains[1] < 0.2
    )  # √(2 · 0.2 · 0.8 / 400) a difference, times 2.8 + 0.84


# --- What tuning aims at

NAMES = ("dp_gap", "label_gap", "dp_ratio", "eo_gap")
RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 2, 400).astype(np.int8)
GROUPS = RNG.choice(["a", "b", "c"], 400, p=[0.5, 0.3, 0.2])
RATES = {"a": 0.3, "b": 0.5, "c": 0.6}


def answers(rng: np.random.Generator) -> np.ndarray:
    return (rng.random(400) < np.vectorize(RATES.get)(GROUPS)).astype(float)


@pytest.mark.parametrize("metric", NAMES)
def test_values_are_those_of_every_table_and_rows_count_as_often_as_said(
    metric: str,
) -> None:
    rng = np.random.default_rng(2)
    yes = np.array([answers(rng) for _ in range(3)])
    counts = rng.integers(1, 4, (2, 400)).astype(float)
    accuracy, value = halving.measure_many(
        halving.Goal(metric), yes, LABELS, GROUPS, counts
    )
    for again, one in np.ndindex(2, 3):
        drawn = np.repeat(np.arange(400), counts[again].astype(int))
        table = metrics_of(yes[one][drawn], LABELS[drawn], GROUPS[drawn])
        assert accuracy[again, one] == pytest.approx(table.accuracy)
        assert value[again, one] == pytest.approx(getattr(table, metric))


@pytest.mark.parametrize(
    "metric", ["dp_gap", "dp_ratio"]
)  # the largest of two gaps is not a smooth function
def test_errors_are_those_of_repetition(metric: str) -> None:
    pool = halving.Pool(pd.DataFrame(), LABELS, GROUPS)
    many = [
        pool.measure(halving.Goal(metric), answers(np.random.default_rng(seed)))
        for seed in range(300)
    ]
    spread = np.std([each.metric.value for each in many])
    assert np.mean([each.metric.error for each in many]) == pytest.approx(
        spread, rel=0.2
    )


def test_an_answer_that_cannot_be_read_is_wrong_and_no_yes() -> None:
    yes = np.array([1.0, np.nan, 1.0, 0.0])
    pool = halving.Pool(
        pd.DataFrame(), np.array([1, 0, 1, 0], np.int8), np.array(["a", "a", "b", "b"])
    )
    values = pool.measure(halving.Goal("dp_gap"), yes)
    assert (values.accuracy.value, values.metric.value) == (0.75, 0.0)


def test_the_order_of_choice() -> None:
    goal = halving.read_goal(0.2, None, 2.0)
    metric = np.array([0.30, 0.10, 0.15, 0.05, 0.25])
    accuracy = np.array([0.80, 0.79, 0.795, 0.70, 0.79])
    order, reached = halving.rank(goal, metric, accuracy, np.array([0.78]))
    assert order.tolist() == [
        2,
        1,
        4,
        0,
        3,
    ]  # the target, then nearness, then what loses too much
    assert reached.tolist() == [False, True, True, False, False]
    assert "at most 0.2" in goal.words
    ratio = halving.rank(
        halving.Goal("dp_ratio", 0.8, 0.5), metric, accuracy, np.array([0.0])
    )
    assert ratio[0].tolist() == [0, 4, 2, 1, 3]


def test_the_last_digit_of_a_float_decides_nothing() -> None:
    goal = halving.read_goal(0.1, None, 3.0)
    metric = np.array([0.4 - 0.3, 0.05])
    accuracy = np.array([0.8, 0.83 - 0.06])
    assert halving.rank(goal, metric, accuracy, np.array([0.83 - 0.03]))[
        1
    ].tolist() == [True, False]
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
    found = recipes(two, 8)
    tried = {recipe.strategy for recipe in found}
    assert {"fwc", "fwc-counter", "balanced", "random", "kmedoids", "strata"} <= tried
    assert found[0].strategy == "strata", "no other lead has been shown"
    assert not tried & {"zero", "ids", "nearest"}
