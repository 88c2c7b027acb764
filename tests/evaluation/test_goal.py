"""What tuning aims at: values, their errors, and the order of choice."""

import numpy as np
import pytest

from fwc_llm.evaluation.race import Goal, measure, measure_many, rank, read_goal
from fwc_llm.metrics import group_metrics

RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 2, 400).astype(np.int8)
GROUPS = RNG.choice(["a", "b", "c"], 400, p=[0.5, 0.3, 0.2])
RATES = {"a": 0.3, "b": 0.5, "c": 0.6}


def answers(rng: np.random.Generator) -> np.ndarray:
    return (rng.random(400) < np.vectorize(RATES.get)(GROUPS)).astype(float)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("dp", "demographic_parity_difference"),
        ("dp_ratio", "demographic_parity_ratio"),
        ("eo", "equalized_odds_difference"),
    ],
)
def test_values_are_those_of_every_table_and_errors_those_of_repetition(metric: str, name: str) -> None:
    goal = Goal(metric, 0.1, 0.03)
    yes = answers(np.random.default_rng(1))
    found, table = measure(goal, yes, LABELS, GROUPS), group_metrics(yes, LABELS, GROUPS)
    assert found.metric == pytest.approx(getattr(table, name))
    assert found.accuracy == pytest.approx(table.accuracy)
    if metric != "eo":  # the largest of two gaps is no smooth function
        many = [measure(goal, answers(np.random.default_rng(seed)), LABELS, GROUPS) for seed in range(300)]
        assert np.mean([one.metric_error for one in many]) == pytest.approx(
            np.std([one.metric for one in many]), rel=0.2
        )


def test_an_answer_that_cannot_be_read_is_wrong_and_no_yes() -> None:
    yes = np.array([1.0, np.nan, 1.0, 0.0])
    found = measure(Goal("dp"), yes, np.array([1, 0, 1, 0], np.int8), np.array(["a", "a", "b", "b"]))
    assert (found.accuracy, found.metric) == (0.75, 0.0)


@pytest.mark.parametrize("metric", ["dp", "dp_ratio", "eo"])
def test_many_are_measured_as_one_is_and_rows_count_as_often_as_said(metric: str) -> None:
    goal, rng = Goal(metric), np.random.default_rng(2)
    yes = np.array([answers(rng) for _ in range(3)])
    yes[0, :7] = np.nan
    counts = rng.integers(1, 4, (2, 400)).astype(float)
    accuracy, value = measure_many(goal, yes, LABELS, GROUPS, counts)
    for again, one in np.ndindex(2, 3):
        drawn = np.repeat(np.arange(400), counts[again].astype(int))
        alone = measure(goal, yes[one][drawn], LABELS[drawn], GROUPS[drawn])
        assert accuracy[again, one] == pytest.approx(alone.accuracy)
        assert value[again, one] == pytest.approx(alone.metric)


def test_the_order_of_choice() -> None:
    goal = read_goal(0.2, None, 2.0)
    metric = np.array([0.30, 0.10, 0.15, 0.05, 0.25])
    accuracy = np.array([0.80, 0.79, 0.795, 0.70, 0.79])
    order, reached = rank(goal, metric, accuracy, metric, np.array([0.78]))
    assert order.tolist() == [2, 1, 4, 0, 3]  # the target, then nearness, then what loses too much
    assert reached.tolist() == [False, True, True, False, False]
    assert "at most 0.2" in goal.words
    ratio = rank(Goal("dp_ratio", 0.8, 0.5), metric, accuracy, metric, np.array([0.0]))
    assert ratio.order.tolist() == [0, 4, 2, 1, 3]
