"""Where the spread comes from: planted variances are found again, on average and by their intervals."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, studentized_range, t

from fwc_llm.answers import parse_answer
from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import samples_of
from fwc_llm.metrics.planning import (
    FEW,
    Assumptions,
    Design,
    effective_rows,
    limit_of,
    observed,
    smallest,
    smallest_difference,
    smallest_of,
    steps_needed,
)
from fwc_llm.metrics.spread import PARTS, Asked, as_numbers, split_variance
from fwc_llm.report.narrative import power_lines
from tests.metrics.worlds import answers_of
from tests.recorded import conversations, person

REPEATS, ROWS = 6, 60
ORDERS, WORDINGS = np.array([-0.05, 0.0, 0.05]), np.array([-0.04, 0.04])
BOTH = 0.02 * np.array([[1.0, -1.0], [-2.0, 2.0], [1.0, -1.0]])
OF_ROW, OF_DRAW, OF_ROW_AND_ORDER = 0.15, 0.06, 0.05


def world(
    rng: np.random.Generator, orders: Sequence[float], wordings: Sequence[float], both: np.ndarray
) -> np.ndarray:
    """Chances of yes (O, T, R, rows): two strata, a row's own, a draw's, and what order and wording do."""
    stratum = np.where(np.arange(ROWS) < 20, 0.4, 0.6)
    row = rng.choice([-OF_ROW, OF_ROW], (REPEATS, ROWS))
    draw = rng.choice([-OF_DRAW, OF_DRAW], (REPEATS, 1))
    heed = rng.choice([-OF_ROW_AND_ORDER, OF_ROW_AND_ORDER], (len(orders), 1, REPEATS, ROWS))
    heed = heed * (len(orders) > 1)
    shift = np.asarray(orders)[:, None] + np.asarray(wordings)[None] + both
    chances = stratum + row + draw + heed + shift[..., None, None]
    assert 0.0 <= chances.min() <= chances.max() <= 1.0
    return np.asarray(chances)


def asked(rng: np.random.Generator, chances: np.ndarray, times: int) -> Asked:
    """Answers to them, every prompt `times` times, shuffled: places must not matter."""
    shape = chances.shape[:2]
    repeat, row = (places.ravel() for places in np.indices(chances.shape[2:]))
    answer = (rng.random((times, *chances.shape)) < chances).astype(np.float64)
    flat = np.moveaxis(answer, 0, 2).reshape(*shape, -1)
    mixed = rng.permutation(flat.shape[-1])
    stratum = (row >= 20).astype(np.int64)
    codes = (np.tile(part, times)[mixed] for part in (repeat, repeat * ROWS + row, stratum))
    return Asked(flat[..., mixed], *codes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("orders", "wordings", "times"),
    [(3, 2, 3), (3, 1, 2), (1, 2, 2), (1, 1, 4), (1, 1, 1)],
    ids=["all", "orders", "wordings", "again", "once"],
)
def test_every_part_is_unbiased_and_its_interval_holds(orders: int, wordings: int, times: int) -> None:
    rng = np.random.default_rng(0)
    given = ORDERS[:orders] * (orders > 1), WORDINGS[:wordings] * (wordings > 1)
    both = BOTH if orders * wordings == 6 else np.zeros((orders, wordings))
    single, found = [], defaultdict(list)
    for _ in range(400):
        chances = world(rng, *given, both)
        single.append((chances * (1 - chances)).mean() / ROWS)
        parts, interval = split_variance([(1.0, asked(rng, chances, times))])
        for name, value in parts.items():
            found[name].append((value, *interval))
    heed = OF_ROW_AND_ORDER**2 / ROWS
    truth = {
        "rows": OF_ROW**2 / ROWS + (np.mean(single) if times == 1 else 0.0),
        "examples": OF_DRAW**2,
        "order": given[0].var(ddof=1) + heed if orders > 1 else np.nan,
        "wording": given[1].var(ddof=1) if wordings > 1 else np.nan,
        "order_and_wording": (BOTH**2).sum() / 2 if orders * wordings == 6 else np.nan,
        "repetition": np.mean(single) if times > 1 else np.nan,
    }
    assert tuple(found) == PARTS
    for name, expected in truth.items():
        values, low, high = np.array(found[name]).T
        if np.isnan(expected):
            assert np.isnan(values).all(), name
            continue
        error = values.std(ddof=1) / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 3.5 * error + 1e-12, name
        if name != "examples":
            continue
        known = ~np.isnan(low)
        assert known.mean() > 0.9, name
        assert ((low <= expected) & (expected <= high))[known].mean() > 0.92, name


def test_the_gap_adds_the_variances_of_two_groups() -> None:
    rng = np.random.default_rng(1)
    one, other = (asked(rng, world(rng, [0.0], [0.0], np.zeros((1, 1))), 3) for _ in range(2))
    alone = [split_variance([(1.0, group)])[0] for group in (one, other)]
    gap, _ = split_variance([(1.0, one), (-1.0, other)])
    for name in ("rows", "repetition"):
        assert gap[name] == pytest.approx(sum(group[name] for group in alone))


def test_a_model_that_always_says_the_same_has_no_repetition() -> None:
    rng = np.random.default_rng(2)
    sure = np.round(world(rng, [0.0], [0.0], np.zeros((1, 1))))
    found = as_numbers(*split_variance([(1.0, asked(rng, sure, 2))]))
    assert found["repetition"] == 0.0
    assert found["not_measured"] == ["order", "wording", "order_and_wording"]
    assert found["intervals"]["repetition"] is None  # type: ignore[index]
    assert found["intervals"]["examples"] is not None  # type: ignore[index]


@pytest.mark.parametrize("unparsed", [0.3, 1.0])
def test_what_could_not_be_parsed_is_left_out(unparsed: float) -> None:
    rng = np.random.default_rng(3)
    whole = asked(rng, world(rng, ORDERS.tolist(), WORDINGS.tolist(), BOTH), 2)
    whole.answer[rng.random(whole.answer.shape) < unparsed] = np.nan
    found, _ = split_variance([(1.0, whole)])
    assert np.isnan(found["rows"]) == (unparsed == 1.0)
    if unparsed < 1.0:
        assert found["repetition"] == pytest.approx(0.21 / (0.7 * ROWS), rel=0.15)


def test_one_repeat_cannot_tell_what_the_examples_do() -> None:
    rng = np.random.default_rng(4)
    whole = asked(rng, world(rng, [0.0], [0.0], np.zeros((1, 1)))[:, :, :1], 1)
    found, _ = split_variance([(1.0, whole)])
    assert np.isnan(found["examples"])
    p = [whole.answer[0, 0, whole.stratum == place] for place in (0, 1)]
    expected = sum((len(x) / ROWS) ** 2 * x.var(ddof=1) / len(x) for x in p)
    assert found["rows"] == pytest.approx(expected)


# --- Power


DRAWN = np.array([[75.0, 25.0], [25.0, 75.0]])
ADULT = Design(("Female", "Male"), DRAWN, np.array([[4356.0, 557.0], [7004.0, 3143.0]]), 1)
GERMAN = Design(("female", "male"), 0.4 * DRAWN, np.array([[109.0, 201.0], [191.0, 499.0]]), 1)


@pytest.mark.parametrize("freedom", [math.inf, 7])
def test_the_smallest_difference_is_found_four_times_in_five(freedom: float) -> None:
    """Differences that are drawn around it, each tested at 5 %, with the error known or estimated."""
    rng, error = np.random.default_rng(0), math.sqrt(0.003)
    drawn = smallest_difference(0.003, freedom=freedom) + error * rng.standard_normal(40_000)
    scale = 1.0 if freedom == math.inf else np.sqrt(rng.chisquare(freedom, 40_000) / freedom)
    quantile = norm.ppf(0.975) if freedom == math.inf else t.ppf(0.975, freedom)
    assert (drawn / (error * scale) > quantile).mean() == pytest.approx(0.8, abs=0.03)


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


def test_no_number_of_repeats_gets_below_the_limit() -> None:
    limit = limit_of("gap", GERMAN, Assumptions())
    for repeats in (1, 20, 1000):
        assert smallest_of("gap", replace(GERMAN, repeats=repeats), Assumptions(), strategy=False) > limit
    assert limit == pytest.approx(
        2.8016 * math.sqrt(0.25 * ((9 / 109 + 1 / 201 + 1 / 191 + 9 / 499) / 16)), 1e-4
    )


def test_a_strategy_needs_five_repeats_and_more_than_a_prompt() -> None:
    assert [one["of"] for one in smallest(replace(ADULT, repeats=4))] == ["these examples"]
    prompt, strategy = smallest(replace(ADULT, repeats=5))
    assert strategy["of"] == "this strategy"
    assert strategy["gap"] > prompt["gap"]
    assert strategy["accuracy"] > prompt["accuracy"]
    still = smallest(replace(ADULT, repeats=5), Assumptions(examples_sd=0.0))[1]
    assert still["gap"] / prompt["gap"] == pytest.approx((2.7764 + 0.9410) / 2.8016, rel=1e-3)


def test_rows_needed_are_the_fewest_that_find_it() -> None:
    step = replace(ADULT, rows=ADULT.rows / 25)
    assumptions = Assumptions()
    for question, strategy, repeats in (("gap", False, 1), ("accuracy", False, 1), ("gap_of_one", True, 10)):
        design = replace(step, repeats=repeats)
        steps = steps_needed(0.1, question, design, assumptions, strategy)
        enough, fewer = (
            smallest_of(question, replace(design, rows=design.rows * count), assumptions, strategy)
            for count in (steps, steps - 1)
        )
        assert enough <= 0.1 < fewer


def test_rows_needed_stop_at_the_table_and_at_ten_a_group() -> None:
    step = replace(GERMAN, rows=GERMAN.rows / 10)
    assert steps_needed(0.1, "gap", step, Assumptions(), strategy=False) is None
    assert steps_needed(0.99, "gap", step, Assumptions(), strategy=False) == math.ceil(FEW / 4)
    tiny = replace(step, table=np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert steps_needed(0.99, "gap", tiny, Assumptions(), strategy=False) is None


@pytest.mark.parametrize("values", [{"discordant": -0.1}, {"discordant": math.nan}, {"variance": 0.3}])
def test_assumptions_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(FwcError, match=f"{next(iter(values))} is .* between 0 and"):
        Assumptions(**values)


def test_what_a_run_shows() -> None:
    nan = math.nan
    first = answers_of([0, 0, 1, 1, 0, 1, nan, 0])
    second = answers_of([0, 1, 1, 1, 1, 1, 1, nan])  # 6 rows that both answered, 2 of them otherwise
    third = answers_of([0, 0, 1, 1, 0, 1, 1, 0])
    shown = observed(samples_of({"first": first, "second": second, "third": third}, "ab", False))
    assert shown.discordant == pytest.approx(2 / 6)
    assert shown.variance == pytest.approx(0.25)  # the third arm's: half of each group
    with pytest.raises(FwcError, match="--discordant"):
        observed(samples_of({"only": first}, "ab", False))


def test_the_defaults_are_what_was_recorded(data_dir: Path) -> None:
    """gpt-4-0314: rows asked with and without examples, and rows asked without examples twice."""

    def said(name: str) -> dict[tuple[str, ...], str | None]:
        pairs = conversations(data_dir / "gpt4-answers" / f"{name}.jsonl")
        return {person(messages): parse_answer(reply).value for messages, reply in pairs}

    def unlike(one: str, other: str) -> tuple[int, int]:
        first, second = said(f"gpt-4-0314_adult_{one}"), said(f"gpt-4-0314_adult_{other}")
        both = [row for row in first if row in second and first[row] and second[row]]
        return sum(first[row] != second[row] for row in both), len(both)

    pairs = [unlike(zero, shots) for zero in ("0_200", "0_200_8") for shots in ("4_200", "16_200", "30")]
    assert tuple(map(sum, zip(*pairs, strict=True))) == (14, 56)
    assert Assumptions().discordant == 14 / 56
    assert unlike("0_200", "0_200_8") == (2, 116)


def test_a_group_that_is_too_small_to_be_judged_counts_for_nothing() -> None:
    """A third group of three people once made the gap of the other two seem out of reach."""
    rows, table = np.array([[900.0], [600.0], [3.0]]), np.array([[9000.0], [6000.0], [30.0]])
    three, two = Design(("a", "b", "c"), rows, table, 1), Design(("a", "b"), rows[:2], table[:2], 1)
    rest = Assumptions(), False
    for question in ("gap", "gap_of_one"):
        assert smallest_of(question, three, *rest) == pytest.approx(smallest_of(question, two, *rest))
    steps = [
        steps_needed(0.1, "gap_of_one", replace(one, rows=one.rows / 300), *rest) for one in (three, two)
    ]
    assert steps[0] == steps[1] is not None
    assert "not judged, with fewer than 30 rows: c" in power_lines(three)
    assert limit_of("gap", three, Assumptions()) == limit_of("gap", two, Assumptions())
    assert replace(three, repeats=50).judged.sum() == 2
