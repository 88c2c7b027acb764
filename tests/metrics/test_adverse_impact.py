"""Selection rates, impact ratios, the four-fifths rule: ties, zeros, small and unknown groups,
tests.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evals.coverage.impact import measure, worlds
from evals.coverage.verdicts import faults
from evals.frames import from_frame
from fwc_llm.metrics.adverse_impact import LEAST_SHARE, four_fifths, impact_tables, views
from fwc_llm.metrics.run_answers import is_known

Counts = dict[str, tuple[int, int]]


def tables(
    counts: Counts, attributes: tuple[str, ...] = ("sex",), repeats: int = 1, **law: bool
) -> dict[str, Any]:
    """The tables of groups with (selected, rows); labels alternate, and each repeat asks the
    same rows.
    """
    rows = [
        (group, "yes" if number < selected else "no")
        for group, (selected, n) in counts.items()
        for number in range(n)
    ]
    frame = pd.DataFrame(rows, columns=["group", "answer"])
    frame["label"] = np.where(np.arange(len(frame)) % 2, "yes", "no")
    frame["row"] = np.arange(len(frame)).astype(str)
    whole = pd.concat([frame.assign(repeat=repeat) for repeat in range(repeats)])
    return impact_tables(from_frame(whole, attributes=attributes), **law)


def of(counts: Counts, **options: Any) -> dict[str, Any]:
    """The only arm under the last view: the crossed one of several attributes."""
    return tables(counts, **options)["attributes"][-1]["arms"][0]


def test_an_impact_ratio_is_to_the_highest_rate_and_a_shortfall_reaches_it() -> None:
    arm = of({"Female": (30, 100), "Male": (60, 120)})
    female = arm["groups"]["Female"]
    male = arm["groups"]["Male"]
    assert arm["reference"] == "Male"
    assert (male["impact_ratio"], male["shortfall"], male["p_value"]) == (1, 0, None)
    assert female["impact_ratio"] == pytest.approx(0.6)
    assert female["impact_ratio_low"] < 0.6 < female["impact_ratio_high"] < 1
    assert female["shortfall"] == 20  # 50 of 100 would be selected at Male's rate
    assert female["p_value"] == female["p_adjusted"] < 0.05
    assert female["four_fifths"] == {"below": True, "settled": female["impact_ratio_high"] < 0.8}


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_shortfall_is_of_those_answered(repeats: int) -> None:
    said = ["yes"] * 30 + ["no"] * 30 + [None] * 40 + ["yes"] * 80 + ["no"] * 20
    one = pd.DataFrame(
        {"answer": said, "group": ["f"] * 100 + ["m"] * 100, "label": "no", "row": range(200)}
    )
    frame = pd.concat([one.assign(repeat=repeat) for repeat in range(repeats)])
    female = impact_tables(from_frame(frame))["attributes"][0]["arms"][0]["groups"]["f"]
    assert female["shortfall"] == 18  # 48 of the 60 who were answered, not 80 of 100


def test_exactly_four_fifths_is_not_below_them() -> None:
    exact = of({"a": (60, 100), "b": (75, 100)})  # 0.6 / 0.75 is 0.7999999999999999 in binary
    below = of({"a": (239, 300), "b": (300, 300)})
    assert [arm["groups"]["a"]["four_fifths"]["below"] for arm in (exact, below)] == [False, True]


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
        assert group["reason"] == "0/0: no answer to any group is yes"
        assert group["reasons"]["precision"] == "0/0: no row was answered yes"
    assert {pair["ratio"] for pair in arm["pairs"]} == {None}
    assert {pair["p_value"] for pair in arm["pairs"]} == {1.0}


def test_a_group_under_two_percent_is_marked_and_no_measure_for_others() -> None:
    counts = {"a": (30, 100), "b": (50, 100), "tiny": (3, 3)}
    by_law = of(counts, of_law=True)
    assert (by_law["reference"], by_law["groups"]["b"]["impact_ratio"]) == ("tiny", 0.5)
    arm = of(counts, of_law=True, leave_out_small=True)
    tiny = arm["groups"]["tiny"]
    assert arm["reference"] == "b"
    assert (tiny["small"], tiny["impact_ratio"]) == (True, None)
    assert tiny["reason"] == "left out: under 2 % of the rows"
    assert tiny["share"] < LEAST_SHARE
    small = [pair for pair in arm["pairs"] if pair["small"]]
    assert all("tiny" in (pair["first"], pair["second"]) for pair in small)
    assert (len(small), len(arm["pairs"])) == (2, 3)
    assert not of({"a": (30, 96), "b": (50, 100), "two": (2, 4)})["groups"]["two"]["small"], (
        "exactly 2 %"
    )
    both = of({"a": (30, 1000), "tiny": (3, 3)})["groups"]["tiny"]
    assert both["impact_ratio"] == 1, "of fewer than two groups there would be no ratio at all"
    assert both["small"]


def test_people_of_unknown_category_are_counted_and_in_no_ratio() -> None:
    found = tables({"a": (5, 20), "b": (10, 20), "Unknown": (9, 10)})
    (view,) = found["attributes"]
    arm = view["arms"][0]
    assert view["unknown"] == 10
    assert arm["reference"] == "b"
    assert arm["groups"]["Unknown"]["reason"] == "the category of these people is unknown"
    assert [(pair["first"], pair["second"]) for pair in arm["pairs"]] in (
        [("b", "a")],
        [("a", "b")],
    )


def test_the_correction_is_for_all_pairs() -> None:
    arm = of({"a": (20, 100), "b": (35, 100), "c": (36, 100), "d": (50, 100)})
    assert len(arm["pairs"]) == 6
    smallest = min(arm["pairs"], key=lambda pair: pair["p_value"])
    assert smallest["p_adjusted"] == pytest.approx(6 * smallest["p_value"], rel=0.05)
    assert arm["groups"]["a"]["p_adjusted"] == smallest["p_adjusted"]
    assert arm["groups"]["d"]["impact_ratio_low"] < 1, "another group's rate may be the highest"


def test_of_very_many_groups_pairs_with_the_highest_rate_are_listed_and_all_are_corrected_for() -> (
    None
):
    counts = {f"g{number}": (5 + (number == 7) * 20, 30) for number in range(40)}
    arm = of(counts)
    assert (arm["reference"], arm["all_pairs"], len(arm["pairs"])) == ("g7", False, 39)
    assert all("g7" in (pair["first"], pair["second"]) for pair in arm["pairs"])
    one = arm["groups"]["g0"]
    assert one["p_adjusted"] == pytest.approx(one["p_value"] * 40 * 39 / 2, rel=0.05)


def test_rows_asked_again_are_one_person() -> None:
    counts = {"Female": (30, 100), "Male": (60, 120)}
    once = of(counts)
    again = of(counts, repeats=3)
    female = again["groups"]["Female"]
    assert (female["rows"], female["questions"], female["selected"]) == (100, 300, 90)
    assert female["shortfall"] == once["groups"]["Female"]["shortfall"]
    assert female["low"] == pytest.approx(once["groups"]["Female"]["low"]), (
        "the same answers tell no more"
    )


def test_each_attribute_stands_by_itself_and_crossed() -> None:
    counts = {"F & x": (1, 30), "F & y": (9, 30), "M & x": (10, 30), "M & y": (20, 40)}
    found = tables(counts, attributes=("sex", "race"))
    crossed = {view["attribute"]: view["crossed"] for view in found["attributes"]}
    assert crossed == {"sex": False, "race": False, "sex & race": True}
    sex = found["attributes"][0]["arms"][0]["groups"]
    counted = {name: (one["selected"], one["rows"]) for name, one in sex.items()}
    assert counted == {"F": (10, 60), "M": (30, 70)}


def test_groups_that_do_not_split_are_taken_as_they_are() -> None:
    assert [view.name for view in views(["a & b", "c"], ["sex", "race"])] == ["sex & race"]
    assert [view.levels for view in views(["a & b", "c & d"], ["race"])] == [("a & b", "c & d")]
    assert [view.name for view in views(["a", "b"], [])] == ["group"]
    assert [is_known(group) for group in ("F & unknown", "M & b")] == [False, True]


# --- Designed samples


# Rows asked and yes answers per group and label (no, yes), and the rows of the table.
ASKED = {"F": ((75, 15), (25, 20)), "M": ((25, 10), (75, 70))}


def counted(groups: Any, rows: Any) -> list[dict[str, Any]]:
    """A table's rows as run.json has them."""
    return [
        {"group": name, "no": no, "yes": yes} for name, (no, yes) in zip(groups, rows, strict=True)
    ]


TABLE = counted(("F", "M"), [[900.0, 100.0], [700.0, 300.0]])


def sample(asked: dict[str, tuple[tuple[int, int], ...]] = ASKED) -> pd.DataFrame:
    rows = [
        (group, label, "yes" if number < yes else "no")
        for group, cells in asked.items()
        for label, (n, yes) in zip(("no", "yes"), cells, strict=True)
        for number in range(n)
    ]
    return pd.DataFrame(rows, columns=["group", "label", "answer"])


def groups(frame: pd.DataFrame, table: Any = TABLE, **options: Any) -> dict[str, Any]:
    answered = from_frame(frame, "group and label", options.get("attributes", ("sex",)))
    found = impact_tables(answered, True, table)
    assert found["basis"]["kind"] == ("withheld" if table is None else "re-weighted")
    return found["attributes"][0]["arms"][0]["groups"]


def test_rates_are_the_strata_weighted_as_the_table_has_them() -> None:
    found = groups(sample())
    female = found["F"]
    male = found["M"]
    assert female["selection_rate"] == pytest.approx(0.9 * 15 / 75 + 0.1 * 20 / 25)
    assert male["selection_rate"] == pytest.approx(0.7 * 10 / 25 + 0.3 * 70 / 75)
    assert female["impact_ratio"] == pytest.approx(
        female["selection_rate"] / male["selection_rate"]
    )
    assert female["shortfall"] == np.ceil(
        1000 * (male["selection_rate"] - female["selection_rate"])
    )
    assert (female["rows"], female["in_table"], female["selected"]) == (100, 1000, 35)
    assert female["precision"] == pytest.approx(0.1 * 0.8 / (0.1 * 0.8 + 0.9 * 0.2))
    assert female["true_positive_rate"] == pytest.approx(0.8)
    for name in ("precision", "true_positive_rate"):
        assert female[f"{name}_low"] < female[name] < female[f"{name}_high"]


def test_a_test_by_design_is_its_interval_excluding_0() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(40):
        yes = rng.integers(0, 26, (3, 2))
        asked = {
            name: ((25, int(no)), (25, int(true)))
            for name, (no, true) in zip("abc", yes, strict=True)
        }
        table = counted("abc", rng.integers(50, 900, (3, 2)).astype(float))
        found = impact_tables(from_frame(sample(asked), "group and label", ("sex",)), True, table)
        for pair in found["attributes"][0]["arms"][0]["pairs"]:
            excluded = pair["low"] > 1e-9 or pair["high"] < -1e-9
            assert pair["significant"] is excluded
            assert pair["p_adjusted"] >= pair["p_value"]
            seen.add(excluded)
    assert seen == {True, False}


def test_without_the_table_population_statements_are_withheld() -> None:
    found = groups(sample(), None)
    for group in found.values():
        assert group["selection_rate"] is group["impact_ratio"] is group["precision"] is None
        assert group["reason"] == "withheld"
        assert group["reasons"]["precision"].startswith("withheld")
        assert group["true_positive_rate"] is not None, "it speaks of one label of one group"


def test_crossed_cells_are_mixed_as_the_table_mixes_them() -> None:
    asked = {
        f"{sex} & {race}": ((20, 4 * k), (20, 4 * k))
        for k, (sex, race) in enumerate(["Fa", "Fb", "Ma", "Mb"])
    }
    table = counted(asked, [[900.0, 0], [50, 50], [250, 250], [400, 100]])
    found = groups(sample(asked), table, attributes=("sex", "race"))
    assert found["F"]["selection_rate"] == pytest.approx(0.1 * 0.2)
    assert found["M"]["selection_rate"] == pytest.approx(0.5 * 0.4 + 0.5 * 0.6)
    assert found["F"]["true_positive_rate"] == pytest.approx(0.2), (
        "Fa has no row with label yes in the table"
    )
    alone = groups(sample(asked), None, attributes=("sex", "race"))["F"]
    assert alone["true_positive_rate"] is None
    assert alone["reasons"]["true_positive_rate"].startswith("withheld: it depends on the mix")


def test_a_part_of_the_table_that_nobody_asked_about_is_undefined() -> None:
    half = {"F": ((100, 15), (0, 0)), "M": ((0, 0), (100, 70))}  # base parity 1
    found = groups(sample(half))
    assert found["F"]["selection_rate"] is None
    assert (
        found["F"]["reason"] == "0/0: no parsed answer to rows of this group with one of the labels"
    )
    more = counted(("F", "M", "X"), [[900.0, 100.0], [700.0, 300.0], [5.0, 5.0]])
    stranger = groups(sample(), more)["X"]
    assert (stranger["rows"], stranger["in_table"], stranger["selection_rate"]) == (0, 10, None)
    assert stranger["reason"] == "no row of this group was asked about"
    assert groups(sample(), more)["F"]["impact_ratio"] == groups(sample())["F"]["impact_ratio"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "Adult, n = 200, alike under each label, R = 1",
        "groups of 90 and 8, the rarest rates, R = 1",
        "four crossed groups of 30, no gap, R = 1",
    ],
)
def test_the_short_version_of_the_record_is_accepted(name: str) -> None:
    """Intervals of a rate that the design has instead of the table's fail on the first."""
    (world,) = [world for world in worlds() if world.name.startswith(name)]
    tally = measure(world, runs=60)
    assert not faults(tally, strict=False)
    assert sum(one.given for one in tally.intervals.values()) > 300


def test_rows_lost_before_the_run_are_summed_by_level() -> None:
    counts = {f"{sex} & {job}": (10, 20) for sex in "fm" for job in ("field", "office")}
    lost = [{"group": group, "read": 9, "kept": 9 - k, "lost": k} for k, group in enumerate(counts)]
    frame = pd.DataFrame({"group": [*counts] * 20, "label": "no", "answer": ["yes", "no"] * 40})
    found = impact_tables(from_frame(frame, attributes=("sex", "job")), lost=lost)["attributes"]
    assert [{level: n["lost"] for level, n in view["lost"].items()} for view in found] == [
        {"f": 1, "m": 5},
        {"field": 2, "office": 4},
        dict(zip(counts, range(4), strict=True)),
    ]
