"""Where the charts' marks stand: on the axes, in proportion, and with labels that cover nothing."""

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from fwc_llm.report.html.charts import axis, group_rates, projection, shape_path, thresholds_chart, tradeoff
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.metrics.statistics import statistics
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


def test_values_beyond_the_axis_stay_on_it() -> None:
    made = axis(0.0, 1.0, 100.0, 0.0)
    assert (made.at(-1), made.at(0.25), made.at(7)) == (100.0, 75.0, 0.0)


def boxes(chart: dict[str, Any]) -> list[tuple[float, float, float, float]]:
    found = []
    for mark in [*chart["marks"], *chart["context"]]:
        width = 6.6 * max(map(len, mark["lines"]))
        left = mark["label_x"] - {"start": 0, "middle": width / 2, "end": width}[mark["anchor"]]
        top = mark["label_y"] - 11
        found.append((left, top, left + width, top + 14 * len(mark["lines"])))
    return found


def test_labels_of_near_arms_do_not_cover_each_other(make_run: MakeRun) -> None:
    one = {"Female": (0.2, 0.6), "Male": (0.4, 0.8)}
    rates = dict.fromkeys(("zero", "balanced", "fwc", "fwc@random"), one)
    chart = tradeoff(statistics(read_run(make_run(rates=rates)).answered))
    assert chart is not None
    for a, b in combinations(boxes(chart), 2):
        assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1])
    assert all(left >= 0 and right <= chart["width"] for left, _, right, _ in boxes(chart))


def test_marks_stand_at_their_values(make_run: MakeRun) -> None:
    found = statistics(read_run(make_run()).answered)
    chart = tradeoff(found)
    assert chart is not None
    for mark, arm in zip(chart["marks"], found["arms"], strict=True):
        assert mark["x"] == chart["x"].at(arm["demographic_parity_difference"]["value"])
        assert mark["y"] == chart["y"].at(arm["accuracy"]["value"])
        assert mark["up"] == (chart["y"].at(arm["accuracy"]["low"]), chart["y"].at(arm["accuracy"]["high"]))
    names = {mark["name"] for mark in chart["context"]}
    assert {"oracle", "always yes, always no, majority"} <= names
    assert len(names) == len(chart["context"])
    rates = group_rates(found)
    assert [row["name"] for row in rates["rows"]] == ["true share of yes", "zero", "balanced", "fwc"]
    assert rates["rows"][0]["span"] == (rates["x"].at(0.25), rates["x"].at(0.75))


def test_the_frontier_of_thresholds_only_rises(make_run: MakeRun) -> None:
    chart = thresholds_chart(statistics(read_run(make_run(probabilities=True)).answered))
    assert chart is not None
    for line in chart["lines"]:
        x, y = zip(*line["points"], strict=True)
        assert list(x) == sorted(x)
        assert list(y) == sorted(y, reverse=True)  # up is less in SVG


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


def test_groups_have_shapes_of_their_own() -> None:
    assert len({shape_path(shape, 10, 10, 8) for shape in range(4)}) == 4
