"""Power: formulas against numbers known from elsewhere, limits, and what recorded answers show."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, studentized_range

from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.planning import (
    FEW,
    Assumptions,
    Design,
    accuracy_variance,
    effective_rows,
    first_that,
    gap_variance,
    limit_of,
    observed,
    power,
    smallest,
    smallest_difference,
    smallest_of,
    steps_needed,
)
from fwc_llm.models.base import Reply

ADULT = Design(
    ("Female", "Male"),
    np.array([[75.0, 25.0], [25.0, 75.0]]),
    np.array([[4356.0, 557.0], [7004.0, 3143.0]]),
    1,
)
GERMAN = Design(
    ("female", "male"), np.array([[30.0, 10.0], [10.0, 30.0]]), np.array([[109.0, 201.0], [191.0, 499.0]]), 1
)


def test_one_repeat_is_the_formula_of_two_independent_shares() -> None:
    assert accuracy_variance(ADULT, 0.25) == pytest.approx(0.25 / 200)
    assert gap_variance(ADULT, 0.25) == pytest.approx(0.25 * (1 / 100 + 1 / 100))
    (only,) = smallest(ADULT, Assumptions(discordant=0.25))
    assert only.of == "these examples"
    assert only.accuracy == pytest.approx(2.8016 * math.sqrt(0.25 / 200), rel=1e-4)
    assert only.gap == pytest.approx(2 * only.accuracy)


def test_the_smallest_difference_is_found_four_times_in_five() -> None:
    assert power(smallest_difference(0.003), 0.003) == pytest.approx(0.8)
    assert power(smallest_difference(0.003, freedom=7), 0.003, freedom=7) == pytest.approx(0.8)
    assert power(0.0, 0.003) == pytest.approx(0.025)
    assert power(0.1, 0.0) == 1.0


def test_a_simulated_sign_of_power() -> None:
    """Two arms on 400 rows that differ on a fifth of them, one arm right in two thirds of those."""
    rng = np.random.default_rng(0)
    difference = np.where(rng.random((4000, 400)) < 0.2, np.where(rng.random((4000, 400)) < 2 / 3, 1, -1), 0)
    z = difference.mean(1) / np.sqrt(0.2 / 400)
    assert (z > norm.ppf(0.975)).mean() == pytest.approx(power(0.2 / 3, 0.2 / 400), abs=0.03)


def test_unequal_groups_tell_as_little_as_the_smallest() -> None:
    design = Design(("a", "b"), np.array([[90.0, 90.0], [5.0, 5.0]]), np.full((2, 2), 1000.0), 1)
    assert gap_variance(design, 0.25) == pytest.approx(0.25 * (1 / 180 + 1 / 10))
    three = Design(("a", "b", "c"), np.array([[90.0], [10.0], [20.0]]), np.full((3, 1), 1000.0), 1)
    assert gap_variance(three, 0.25) == pytest.approx(0.25 * (1 / 10 + 1 / 20))


def test_more_groups_take_a_larger_difference() -> None:
    two, three = (smallest_difference(0.003, groups) for groups in (2, 3))
    tukey = studentized_range.ppf(0.95, 3, np.inf) / math.sqrt(2)
    assert three / two == pytest.approx((tukey + 0.8416) / 2.8016, rel=1e-3)


def test_repeats_on_a_small_table_give_no_more_than_its_rows() -> None:
    once = effective_rows(GERMAN, 1.0)
    assert once == pytest.approx(GERMAN.rows)
    many = effective_rows(replace(GERMAN, repeats=100_000), 1.0)
    assert many == pytest.approx(GERMAN.table, rel=2e-3)
    assert effective_rows(replace(GERMAN, repeats=20), 0.0) == pytest.approx(20 * GERMAN.rows)
    half = effective_rows(replace(GERMAN, repeats=100_000), 0.5)
    assert half == pytest.approx(2 * GERMAN.table, rel=2e-3)


def test_effective_rows_are_those_of_rows_drawn_again_and_again() -> None:
    """The formula takes the expected number of times that a row is asked about; here they are drawn."""
    rng, n, table, repeats = np.random.default_rng(1), 30, 109, 20
    times = np.zeros(table)
    for _ in range(repeats):
        times[rng.choice(table, n, replace=False)] += 1
    asked = times.sum()
    counted = asked**2 / (asked + 0.5 * ((times**2).sum() - asked))
    design = Design(("a",), np.array([[float(n)]]), np.array([[float(table)]]), repeats)
    assert float(effective_rows(design, 0.5)[0, 0]) == pytest.approx(counted, rel=0.05)


def test_no_number_of_repeats_gets_below_the_limit() -> None:
    limit = limit_of("gap", GERMAN, Assumptions())
    for repeats in (1, 20, 1000):
        assert smallest_of("gap", replace(GERMAN, repeats=repeats), Assumptions(), strategy=False) > limit
    assert limit == pytest.approx(
        2.8016 * math.sqrt(0.25 * ((9 / 109 + 1 / 201 + 1 / 191 + 9 / 499) / 16)), 1e-4
    )


def test_a_strategy_needs_five_repeats_and_more_than_a_prompt() -> None:
    assert [one.of for one in smallest(replace(ADULT, repeats=4))] == ["these examples"]
    prompt, strategy = smallest(replace(ADULT, repeats=5))
    assert strategy.of == "this strategy"
    assert strategy.gap > prompt.gap
    assert strategy.accuracy > prompt.accuracy
    still = smallest(replace(ADULT, repeats=5), Assumptions(examples_sd=0.0))[1]
    assert still.gap / prompt.gap == pytest.approx((2.7764 + 0.9410) / 2.8016, rel=1e-3)


def test_rows_needed_are_the_fewest_that_find_it() -> None:
    step = replace(ADULT, rows=ADULT.rows / 25)
    assumptions = Assumptions()
    for question, strategy, repeats in (("gap", False, 1), ("accuracy", False, 1), ("gap_of_one", True, 10)):
        design = replace(step, repeats=repeats)
        steps = steps_needed(0.1, question, design, assumptions, strategy)
        assert steps is not None

        def least(
            count: int, design: Design = design, question: str = question, strategy: bool = strategy
        ) -> float:
            return smallest_of(question, replace(design, rows=design.rows * count), assumptions, strategy)

        assert least(steps) <= 0.1 < least(steps - 1)


def test_rows_needed_stop_at_the_table_and_at_ten_a_group() -> None:
    step = replace(GERMAN, rows=GERMAN.rows / 10)
    assert steps_needed(0.1, "gap", step, Assumptions(), strategy=False) is None
    assert steps_needed(0.99, "gap", step, Assumptions(), strategy=False) == math.ceil(FEW / 4)
    tiny = replace(step, table=np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert steps_needed(0.99, "gap", tiny, Assumptions(), strategy=False) is None


@pytest.mark.parametrize("last", [1, 2, 3, 10])
def test_first_that(last: int) -> None:
    for first in range(1, last + 1):
        assert first_that(lambda k, first=first: k >= first, last) == first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discordant", -0.1),
        ("discordant", math.nan),
        ("discordant", 1.1),
        ("variance", 0.3),
        ("correlation", 2),
    ],
)
def test_assumptions_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(FwcError, match=f"{name} is .* between 0 and"):
        Assumptions(**{name: value})


def answers(said: list[float], label: list[int] | None = None) -> Answers:
    n = len(said)
    empty = np.full(n, "", dtype=np.str_)
    return Answers(
        repeat=np.zeros(n, dtype=np.int64),
        row=np.arange(n).astype(np.str_),
        variant=empty,
        group=np.array(["a", "b"] * n, dtype=np.str_)[:n],
        label=np.array(label or [0] * n, dtype=np.int8),
        answer=np.array(said, dtype=np.float64),
        reason=empty,
        p_yes=np.full(n, np.nan),
        examples=empty,
    )


def test_what_a_run_shows() -> None:
    nan = math.nan
    first = answers([0, 0, 1, 1, 0, 1, nan, 0])
    second = answers([0, 1, 1, 1, 1, 1, 1, nan])  # 6 rows that both answered, 2 of them otherwise
    third = answers([0, 0, 1, 1, 0, 1, 1, 0])
    shown = observed({"first": first, "second": second, "third": third})
    assert shown.discordant == pytest.approx(2 / 6)
    assert shown.variance == pytest.approx(0.25)  # the third arm's: half of each group


def test_a_run_of_one_arm_shows_no_discordance() -> None:
    with pytest.raises(FwcError, match="--discordant"):
        observed({"only": answers([0, 1, 1])})


def test_the_defaults_are_what_was_recorded(data_dir: Path) -> None:
    """gpt-4-0314: rows asked with and without examples, and rows asked without examples twice."""
    person = re.compile(r"age (\d+), .*final weight (\d+), .*occupation ([\w-]+), .*hours per week (\d+)")

    def said(name: str) -> dict[tuple[str, ...], str | None]:
        found = {}
        for messages, response in json.loads((data_dir / "gpt4-answers" / f"{name}.jsonl").read_text()):
            choice = response["choices"][0]
            reply = Reply(choice["message"]["content"], finish_reason=choice["finish_reason"])
            found[person.findall(messages[-1]["content"])[-1]] = parse_answer(reply).value
        return found

    def unlike(one: str, other: str) -> tuple[int, int]:
        first, second = said(f"gpt-4-0314_adult_{one}"), said(f"gpt-4-0314_adult_{other}")
        both = [row for row in first if row in second and first[row] and second[row]]
        return sum(first[row] != second[row] for row in both), len(both)

    pairs = [unlike(zero, shots) for zero in ("0_200", "0_200_8") for shots in ("4_200", "16_200", "30")]
    assert tuple(map(sum, zip(*pairs, strict=True))) == (14, 56)
    assert Assumptions().discordant == 14 / 56
    assert unlike("0_200", "0_200_8") == (2, 116)
