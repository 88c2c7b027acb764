"""The terminal's tables say what results.json says."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.format import interval, mean_and_sd, number, p_value, percent, signed
from fwc_llm.report.read import read_run
from fwc_llm.report.terminal import as_text, results_table, statistics_lines, statistics_table

MakeRun = Callable[..., Path]


def arm(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "arm": name,
        "n": 200,
        "coverage": 1.0,
        "accuracy": 0.7654,
        "accuracy_sd": 0.0163,
        "demographic_parity_difference": 0.42,
        "demographic_parity_difference_sd": 0.016,
        "demographic_parity_ratio": 0.4,
        "demographic_parity_ratio_sd": 0.02,
        "equalized_odds_difference": 0.3,
        "equalized_odds_difference_sd": 0.01,
        "rates": {"Female": 0.28, "Male": 0.7},
        "per_repeat": [],
    } | changes


def results(*arms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "task": "adult",
        "model": "gpt-4",
        "simulated": False,
        "n_test": 200,
        "base_parity": 0.5,
        "seed": 0,
        "repeats": 5,
        "arms": list(arms),
    } | changes


def test_the_papers_layout() -> None:
    text = as_text(results_table(results(arm("zero"), arm("fwc", accuracy=0.652, coverage=0.995))))
    assert "76.54 ± 1.63" in text
    assert "0.420 ± 0.016" in text
    assert "65.20 ± 1.63" in text
    assert "99.5%" in text
    assert "mean ± sd over 5 repeats" in text
    assert "SIMULATED" not in text


def test_simulated_results_say_so() -> None:
    text = as_text(results_table(results(arm("zero"), model="surrogate", simulated=True)))
    assert "SIMULATED ANSWERS" in text
    assert "offline surrogate" in text
    real = as_text(results_table(results(arm("zero"), simulated=True, simulated_answers=False)))
    assert "SIMULATED TABLE" in real
    assert "surrogate" not in real
    assert "not from a language model" in text


def test_an_undefined_value_is_a_dash_with_its_reason() -> None:
    broken = arm(
        "fwc",
        demographic_parity_difference=None,
        demographic_parity_difference_sd=None,
        undefined={"demographic_parity_difference": "no parsed answer in group Male"},
        rates={"Female": 0.28, "Male": None},
    )
    text = as_text(results_table(results(broken, repeats=1)))
    assert "– DP gap of fwc: no parsed answer in group Male" in text
    assert "None" not in text
    assert "nan" not in text


def test_a_mark_is_the_verdict_on_a_gap(make_run: MakeRun) -> None:
    """The second arm's gap is far above 0; the rows are too few to exclude one of the first arm's."""
    rates = {"even": {"A": (0.5, 0.5), "B": (0.5, 0.5)}, "biased": {"A": (0.1, 0.2), "B": (0.8, 0.9)}}
    text = as_text(statistics_lines(make_run(rates=rates, repeats=1, unparsed=0.0)), width=200)
    lines = text.partition("Results")[2].splitlines()
    even, biased = (next(line for line in lines if line.startswith(f" {arm} ")) for arm in rates)
    assert " ? " in even
    assert "≠" not in even
    assert biased.count(" ≠ ") == 3


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_what_belongs_to_an_arm_stays_together(make_run: MakeRun, width: int) -> None:
    """On a narrow terminal no line is cut, and all values of an arm are in one table."""
    rates = {arm: {"A": (0.5, 0.5), "B": (0.5, 0.9)} for arm in ("zero", "balanced", "fwc")}
    folder = make_run(rates=rates, repeats=1, unparsed=0.0)
    text = as_text(statistics_lines(folder), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    _, *tables = re.split(r"\n ─+", text.partition("Results")[2].partition("In brackets")[0])
    for table in tables:
        turned = "Accuracy %" in table  # an arm a column: its table has every heading
        assert all(line in table for line in ("DP gap", "EO gap", "Coverage")) if turned else len(tables) == 1


def test_groups_are_rows_and_long_names_are_cut(make_run: MakeRun) -> None:
    rates = {arm: {"A" * 5000: (0.2, 0.5), "B": (0.5, 0.9)} for arm in ("zero", "fwc")}
    stats = statistics(read_run(make_run(rates=rates, repeats=1)).answered)
    text = as_text(statistics_table(stats, rates=True), 120).partition("Rate of yes per group")[2]
    assert "A" * 41 not in text
    assert [line.split()[0][:3] for line in text.splitlines()[4:6]] == ["AAA", "B"]


def test_the_terminal_answers_what_was_asked(make_run: MakeRun) -> None:
    folder = make_run(repeats=2, probabilities=True, counterfactual=True)
    text, stats = as_text(statistics_lines(folder), 160), statistics(read_run(folder).answered)
    for arm in stats["arms"]:
        assert f"{arm['probabilities']['auc']:.3f}" in text
        for flip in arm["flips"]:
            assert f"{100 * flip['rate']:.1f} (" in text
    bare = as_text(statistics_lines(make_run("bare", repeats=1)), 160)
    assert not [part for part in ("If only the protected", "Probabilities", "--logprobs") if part in bare]
    assert "--logprobs" in as_text(statistics_lines(make_run("b", repeats=1, parameters={"logprobs": True})))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (number(0.12345, 3), "0.123"),
        (number(-0.0001, 3), "0.000"),
        (number(-0.25, 2), "−0.25"),
        (number(None), "–"),
        (number(float("nan")), "–"),
        (signed(0.25, 2), "+0.25"),
        (signed(-0.25, 2), "−0.25"),
        (signed(0.0, 2), "0.00"),
        (percent(1.0), "100%"),
        (percent(0.99999), ">99.9%"),
        (percent(0.995), "99.5%"),
        (percent(0.0), "0%"),
        (mean_and_sd(0.7654, 0.0163, 100, 2), "76.54 ± 1.63"),
        (mean_and_sd(0.7654, None, 100, 2), "76.54"),
        (mean_and_sd(None, None), "–"),
        (interval((0.1, 0.2), 2), "0.10 to 0.20"),
        (interval((0.1, float("nan"))), "–"),
        (p_value(0.0004), "<0.001"),
        (p_value(0.0416), "0.042"),
    ],
)
def test_numbers_are_written_alike_everywhere(text: str, wanted: str) -> None:
    assert text == wanted
