"""Where the charts' marks stand: on the axes, in proportion, and equal arms as one."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.charts import axis, forest, group_rates, projection, tradeoff
from fwc_llm.report.read import read_run

MakeRun = Callable[..., Path]


@given(st.floats(0, 0.9), st.floats(0.01, 1.0))
def test_ticks_are_round_and_on_the_axis(low: float, span: float) -> None:
    made = axis(low, low + span, 40.0, 400.0)
    assert 2 <= len(made.ticks) <= 12
    for place, text in made.ticks:
        assert 40.0 <= place <= 400.0
        assert place == pytest.approx(
            made.at(float(text)), abs=400 * 0.5 * 10 ** -len(text.partition(".")[2]) / span
        )


def test_equal_arms_are_one_mark_with_both_numbers(make_run: MakeRun) -> None:
    one = {"Female": (0.2, 0.6), "Male": (0.4, 0.8)}
    stats = statistics(read_run(make_run(rates={"zero": one, "fwc": one}, unparsed=0.0)).answered)
    twin = stats | {"arms": [stats["arms"][0], stats["arms"][0] | {"arm": "twin"}]}
    chart = tradeoff(twin)
    assert chart is not None
    (mark,) = chart["marks"]
    assert (mark["number"], mark["names"]) == ("1 2", ["zero", "twin"])
    assert len(forest(twin, "accuracy")["rows"]) == 2  # type: ignore[index]


def test_marks_stand_at_their_values(make_run: MakeRun) -> None:
    found = statistics(read_run(make_run()).answered)
    chart = tradeoff(found)
    assert chart is not None
    for mark, arm in zip(chart["marks"], found["arms"], strict=True):
        assert mark["x"] == chart["x"].at(arm["demographic_parity_difference"]["value"])
        assert mark["y"] == chart["y"].at(arm["accuracy"]["value"])
        assert mark["up"] == (chart["y"].at(arm["accuracy"]["low"]), chart["y"].at(arm["accuracy"]["high"]))
    names = [name for mark in chart["context"] for name in mark["names"]]
    assert {"oracle", "always yes", "always no", "majority"} <= set(names)
    assert len(names) == len(found["context"])
    rates = group_rates(found)
    assert [row["name"] for row in rates["rows"]] == ["true share of yes", "zero", "balanced", "fwc"]
    assert rates["rows"][0]["span"] == (rates["x"].at(0.25), rates["x"].at(0.75))


def test_the_area_of_an_example_follows_its_weight() -> None:
    rows = {
        "x": [0.0, 1.0, 2.0],
        "y": [0.0, 1.0, 2.0],
        "label": ["no", "yes", "no"],
        "group": ["a", "b", "a"],
    }
    examples = [
        {"x": 0.0, "y": 0.0, "label": "no", "group": "a", "weight": 1.0},
        {"x": 5.0, "y": 5.0, "label": "yes", "group": "b", "weight": 4.0},
    ]
    chart = projection({"rows": rows, "examples": {"fwc": examples}}, "fwc", ["a", "b"])
    heavy, light = chart["marks"]
    assert heavy["size"] / light["size"] == pytest.approx(math.sqrt(4.0))
    assert (heavy["shape"], light["shape"]) == (1, 0)
    assert all(6 <= mark["x"] <= 294 and 6 <= mark["y"] <= 294 for mark in chart["marks"])
    assert len(chart["rows"]) == 3
