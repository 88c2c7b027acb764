"""What tuning aims at: values, their errors, and scores."""

import numpy as np
import pytest

from fwc_llm.evaluation.tuning.goal import Goal, measure, read_goal, score
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


def test_a_paired_difference_knows_that_rows_are_shared() -> None:
    goal, rng = Goal("dp", 0.0, 1.0), np.random.default_rng(5)
    one = answers(rng)
    other = np.where((rng.random(400) < 0.05) & (GROUPS == "c"), 1.0, one)
    first, second = (score(goal, measure(goal, yes, LABELS, GROUPS), measure(goal, one, LABELS, GROUPS))
                     for yes in (one, other))  # fmt: skip
    alone = float(np.sqrt(np.sum(first.influence**2) + np.sum(second.influence**2)))
    assert second.worse_by(first) > (second.value - first.value) / alone
    assert first.worse_by(first) == 0.0


def test_a_score_punishes_what_is_lost_beyond_the_limit() -> None:
    goal = read_goal(0.2, None, 2.0)
    balanced = measure(goal, answers(np.random.default_rng(1)), LABELS, GROUPS)
    fair = measure(goal, np.zeros(400), LABELS, GROUPS)
    assert fair.metric == 0.0
    lost = balanced.accuracy - fair.accuracy - 0.02
    assert score(goal, fair, balanced).value == pytest.approx(2 * max(lost, 0) - 0.1 * fair.accuracy)
    assert "at most 0.2" in goal.words
