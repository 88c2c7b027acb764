"""Selection rates, impact ratios, the four-fifths rule: ties, zeros, small and unknown groups, tests."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from fwc_llm.metrics.adverse_impact import FISHER, LEAST_SHARE, four_fifths, views
from fwc_llm.metrics.audit_table import from_frame
from fwc_llm.report.impact import impact_tables

Counts = dict[str, tuple[int, int]]


def tables(counts: Counts, attributes: tuple[str, ...] = ("sex",), repeats: int = 1) -> dict[str, Any]:
    """The tables of groups with (selected, rows); labels alternate, and each repeat asks the same rows."""
    rows = [
        (group, "yes" if number < selected else "no")
        for group, (selected, n) in counts.items()
        for number in range(n)
    ]
    frame = pd.DataFrame(rows, columns=["group", "answer"])
    frame["label"] = np.where(np.arange(len(frame)) % 2, "yes", "no")
    frame["row"] = np.arange(len(frame)).astype(str)
    whole = pd.concat([frame.assign(repeat=repeat) for repeat in range(repeats)])
    return impact_tables(from_frame(whole, attributes=attributes))


def of(counts: Counts, **options: Any) -> dict[str, Any]:
    """The only arm under the last view: the crossed one of several attributes."""
    arm: dict[str, Any] = tables(counts, **options)["attributes"][-1]["arms"][0]
    return arm


def test_an_impact_ratio_is_to_the_highest_rate_and_a_shortfall_reaches_it() -> None:
    arm = of({"Female": (30, 100), "Male": (60, 120)})
    female, male = arm["groups"]["Female"], arm["groups"]["Male"]
    assert (arm["reference"], male["impact_ratio"], male["shortfall"], male["p_value"]) == (
        "Male",
        1,
        0,
        None,
    )
    assert female["impact_ratio"] == pytest.approx(0.6)
    assert female["impact_ratio_low"] < 0.6 < female["impact_ratio_high"] < 1
    assert female["shortfall"] == 20  # 50 of 100 would be selected at Male's rate
    assert female["test"] == FISHER
    assert female["p_value"] == female["p_adjusted"] == fisher_exact([[70, 30], [60, 60]]).pvalue
    assert female["four_fifths"] == {"below": True, "settled": female["impact_ratio_high"] < 0.8}


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_shortfall_is_of_those_answered(repeats: int) -> None:
    said = ["yes"] * 30 + ["no"] * 30 + [None] * 40 + ["yes"] * 80 + ["no"] * 20
    one = pd.DataFrame({"answer": said, "group": ["f"] * 100 + ["m"] * 100, "label": "no", "row": range(200)})
    frame = pd.concat([one.assign(repeat=repeat) for repeat in range(repeats)])
    female = impact_tables(from_frame(frame))["attributes"][0]["arms"][0]["groups"]["f"]
    assert female["shortfall"] == 18  # 48 of the 60 who were answered, not 80 of 100


@pytest.mark.parametrize(
    ("counts", "below"),
    [
        ({"a": (8, 10), "b": (10, 10)}, False),
        ({"a": (24, 100), "b": (30, 100)}, False),  # 0.24 / 0.3 is 0.7999999999999999 in binary
        ({"a": (239, 300), "b": (300, 300)}, True),
    ],
)
def test_exactly_four_fifths_is_not_below_them(counts: Counts, below: bool) -> None:
    assert of(counts)["groups"]["a"]["four_fifths"]["below"] is below


def test_an_interval_that_holds_four_fifths_leaves_them_open() -> None:
    assert four_fifths(0.7, 0.5, 0.9) == {"below": True, "settled": False}
    assert four_fifths(0.9, 0.7, 1.0) == {"below": False, "settled": False}
    assert four_fifths(0.9, 0.85, 1.0) == {"below": False, "settled": True}


def test_nobody_selected_is_a_ratio_of_0_with_an_upper_limit_above() -> None:
    few, many = (of({"a": (0, n), "b": (n // 2, n)})["groups"]["a"] for n in (10, 1000))
    for group in (few, many):
        assert group["impact_ratio"] == group["impact_ratio_low"] == 0
        assert 0 < group["impact_ratio_high"] <= 1
    assert many["impact_ratio_high"] < 0.02 < few["impact_ratio_high"]


def test_nobody_selected_at_all_is_undefined_and_says_why() -> None:
    arm = of({"a": (0, 10), "b": (0, 20), "c": (0, 20)})
    assert arm["reference"] is None
    for group in arm["groups"].values():
        assert group["impact_ratio"] is group["four_fifths"] is group["shortfall"] is None
        assert group["reason"] == "0/0: no group was answered yes even once"
        assert group["reasons"]["precision"] == "0/0: no row was answered yes"
    assert {pair["ratio"] for pair in arm["pairs"]} == {None}
    assert {pair["p_value"] for pair in arm["pairs"]} == {1.0}


def test_one_group_has_a_rate_and_no_ratio() -> None:
    arm = of({"only": (3, 10)})
    (group,) = arm["groups"].values()
    assert (group["selection_rate"], group["impact_ratio"], arm["pairs"]) == (0.3, None, [])
    assert group["reason"] == "it takes two groups with a rate"


def test_a_group_under_two_percent_is_marked_and_no_measure_for_others() -> None:
    arm = of({"a": (30, 100), "b": (50, 100), "tiny": (3, 3)})
    tiny = arm["groups"]["tiny"]
    assert arm["reference"] == "b"
    assert (tiny["small"], tiny["impact_ratio"]) == (True, None)
    assert tiny["reason"] == "left out: under 2 % of the rows"
    assert tiny["share"] < LEAST_SHARE
    small = [pair for pair in arm["pairs"] if pair["small"]]
    assert all("tiny" in (pair["first"], pair["second"]) for pair in small)
    assert (len(small), len(arm["pairs"])) == (2, 3)
    assert not of({"a": (30, 96), "b": (50, 100), "two": (2, 4)})["groups"]["two"]["small"], "exactly 2 %"
    both = of({"a": (30, 1000), "tiny": (3, 3)})["groups"]["tiny"]
    assert both["impact_ratio"] == 1, "of fewer than two groups there would be no ratio at all"
    assert both["small"]


def test_people_of_unknown_category_are_counted_and_in_no_ratio() -> None:
    found = tables({"a": (5, 20), "b": (10, 20), "Unknown": (9, 10)})
    (view,) = found["attributes"]
    arm = view["arms"][0]
    assert view["unknown"] == 10
    assert arm["reference"] == "b"
    assert arm["groups"]["Unknown"]["reason"] == "its people's category is unknown"
    assert [(pair["first"], pair["second"]) for pair in arm["pairs"]] in ([("b", "a")], [("a", "b")])


def test_holms_correction_runs_over_all_pairs() -> None:
    arm = of({"a": (20, 100), "b": (35, 100), "c": (36, 100), "d": (50, 100)})
    assert len(arm["pairs"]) == 6
    smallest = min(arm["pairs"], key=lambda pair: pair["p_value"])
    assert smallest["p_adjusted"] == pytest.approx(6 * smallest["p_value"])
    assert arm["groups"]["a"]["p_adjusted"] == smallest["p_adjusted"]
    assert arm["groups"]["d"]["impact_ratio_low"] < 1, "another group's rate may be the highest"


def test_of_very_many_groups_pairs_with_the_highest_rate_are_listed_and_all_are_corrected_for() -> None:
    counts = {f"g{number}": (5 + (number == 7) * 20, 30) for number in range(40)}
    arm = of(counts)
    assert (arm["reference"], arm["all_pairs"], len(arm["pairs"])) == ("g7", False, 39)
    assert all("g7" in (pair["first"], pair["second"]) for pair in arm["pairs"])
    one = arm["groups"]["g0"]
    assert one["p_adjusted"] == pytest.approx(min(1.0, one["p_value"] * 40 * 39 / 2))


def test_rows_asked_again_are_one_person_and_no_case_for_fisher() -> None:
    counts = {"Female": (30, 100), "Male": (60, 120)}
    once, again = of(counts), of(counts, repeats=3)
    female = again["groups"]["Female"]
    assert (female["rows"], female["questions"], female["selected"]) == (100, 300, 90)
    assert female["shortfall"] == once["groups"]["Female"]["shortfall"]
    assert female["test"] == "by design"
    assert female["low"] == pytest.approx(once["groups"]["Female"]["low"]), "the same answers tell no more"


def test_each_attribute_stands_by_itself_and_crossed() -> None:
    counts = {"F & x": (1, 30), "F & y": (9, 30), "M & x": (10, 30), "M & y": (20, 40)}
    found = tables(counts, attributes=("sex", "race"))
    assert [(view["attribute"], view["crossed"]) for view in found["attributes"]] == [
        ("sex", False),
        ("race", False),
        ("sex & race", True),
    ]
    sex = found["attributes"][0]["arms"][0]["groups"]
    assert {name: (one["selected"], one["rows"]) for name, one in sex.items()} == {
        "F": (10, 60),
        "M": (30, 70),
    }


def test_groups_that_do_not_split_are_taken_as_they_are() -> None:
    assert [view.name for view in views(["a & b", "c"], ["sex", "race"])] == ["sex & race"]
    assert [view.levels for view in views(["a & b", "c & d"], ["race"])] == [("a & b", "c & d")]
    assert [view.name for view in views(["a", "b"], [])] == ["group"]
    assert views(["F & unknown", "M & b"], ["sex", "race"])[2].known == (False, True)
