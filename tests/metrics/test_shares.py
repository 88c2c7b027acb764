"""Effective rows, sets of examples, and the crossed variance, from cases that can be worked out by hand."""

import numpy as np
import pytest

from fwc_llm.metrics.sample import Sample
from fwc_llm.metrics.shares import Shares, count_shares, over_rows_and_sets, spread_over_sets


def sample(
    answer: np.ndarray, row: np.ndarray, repeat: np.ndarray, examples: np.ndarray | None = None
) -> Sample:
    nothing = np.zeros(len(answer), dtype=np.int64)
    return Sample(np.asarray(answer, float), nothing, nothing, repeat, row, 1, False, examples)


def share(one: Sample) -> Shares:
    return count_shares(one, one.parsed, one.yes, one.group, 1, False)


def test_rows_asked_five_times_with_one_answer_count_once() -> None:
    row, repeat = np.tile(np.arange(60), 5), np.repeat(np.arange(5), 60)
    found = share(sample(np.tile(np.arange(60) % 3 == 0, 5), row, repeat))
    assert found.rows[0] == pytest.approx(60)
    assert found.questions[0] == pytest.approx(300)


def test_rows_asked_five_times_with_unrelated_answers_count_nearly_five_times() -> None:
    rng = np.random.default_rng(0)
    row, repeat = np.tile(np.arange(2000), 5), np.repeat(np.arange(5), 2000)
    found = share(sample(rng.random(10_000) < 0.3, row, repeat))
    assert 9000 < found.rows[0] <= 10_000


def test_without_a_no_the_correlation_is_taken_to_be_whole() -> None:
    row, repeat = np.tile(np.arange(20), 3), np.repeat(np.arange(3), 20)
    assert share(sample(np.ones(60), row, repeat)).rows[0] == pytest.approx(20)


def test_every_repeat_counts_alike_whatever_it_left_unparsed() -> None:
    answer = np.array([1, 1, 1, 1, 0, np.nan, np.nan, np.nan])
    found = share(sample(answer, np.arange(8), np.repeat([0, 1], 4)))
    assert found.values[0] == pytest.approx((1.0 + 0.0) / 2)
    assert found.per_repeat[:, 0].tolist() == [1.0, 0.0]


def test_a_repeat_without_any_answer_is_left_out() -> None:
    answer = np.array([1, 0, np.nan, np.nan])
    found = share(sample(answer, np.arange(4), np.repeat([0, 1], 2)))
    assert found.values[0] == 0.5
    assert np.isnan(found.per_repeat[1, 0])


@pytest.mark.parametrize(
    ("examples", "of"),
    [
        (None, "these examples"),
        ([0, 0, 0, 0, 0, 0], "these examples"),
        ([0, 1, 2, 3, 0, 1], "these examples"),
        ([0, 1, 2, 3, 4, 0], "this strategy"),
    ],
)
def test_five_sets_of_examples_make_a_strategy(examples: list[int] | None, of: str) -> None:
    repeat = np.repeat(np.arange(6), 2)
    given = None if examples is None else np.array(examples)[repeat]
    assert sample(np.ones(12), np.arange(12), repeat, given).of == of


def test_examples_of_every_row_are_a_strategy_over_rows() -> None:
    one = sample(np.ones(6), np.arange(6), np.repeat([0, 1], 3), np.arange(6))
    assert one.of == "this strategy"
    assert one.redrawn is None


def test_spread_over_sets_is_the_variance_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=(7, 2))
    spread, number = spread_over_sets(values, np.arange(7))
    assert spread == pytest.approx(values.var(axis=0, ddof=1) / 7)
    assert number.tolist() == [7, 7]
    # Repeats of one set are one: their mean counts, by its repeats.
    twice, number = spread_over_sets(np.repeat(values, 2, axis=0), np.repeat(np.arange(7), 2))
    assert twice == pytest.approx(spread)
    assert number.tolist() == [7, 7]


def test_the_crossed_variance_puts_rows_in_the_place_of_questions() -> None:
    each = np.array([[0.1], [0.3], [0.2], [0.4], [0.5]])
    crossed, _ = over_rows_and_sets(np.array([0.004]), np.array([0.003]), each, np.arange(5))
    assert crossed[0] == pytest.approx(each.var(ddof=1) / 5 + 0.001)
    alike, _ = over_rows_and_sets(np.array([0.004]), np.array([0.004]), np.full((5, 1), 0.3), np.arange(5))
    assert alike[0] == 0.004
