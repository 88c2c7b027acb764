"""Selection rates, impact ratios, the four-fifths rule: ties, zeros, small and unknown groups,
tests.
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evals.frames import from_frame
from fwc_llm import audit
from fwc_llm.metrics.adverse_impact import (
    BELOW,
    CANNOT_SAY,
    LEAST_SHARE,
    NOT_BELOW,
    Impact,
    four_fifths,
    impact_tables,
    is_small,
    views,
)
from fwc_llm.metrics.records import Record
from fwc_llm.report.impact import ImpactTables
from fwc_llm.words import is_known

Counts = dict[str, tuple[int, int]]


class Found:
    """The impact tables of the only arm, by level of one attribute."""

    def __init__(self, impact: Impact, place: int = -1) -> None:
        self.impact = impact
        self.view = impact.views[place]
        self.records = impact.records
        self.tables = ImpactTables(impact, self.view, self.records)
        (self.arm,) = impact.arms
        self.reference = self.tables.references["impact_ratio"].get(self.arm)

    def of(self, metric: str, level: str, against: str = "") -> Record:
        if metric == "impact_ratio":
            return self.tables.ratio(self.arm, level)
        if metric == "shortfall":
            against = self.reference or ""
        return self.tables.of(metric, self.arm, level, against)

    def values(self, level: str, *metrics: str) -> tuple[float, ...]:
        return tuple(self.of(metric, level).value for metric in metrics)

    def pairs(self, metric: str = "selection_rate_difference") -> list[Record]:
        return [self.of(metric, *levels) for _, *levels in self.tables.named_pairs]


def tables(
    counts: Counts,
    attributes: tuple[str, ...] = ("sex",),
    repeats: int = 1,
    **law: bool,
) -> Impact:
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


def of(counts: Counts, **options: Any) -> Found:
    """The only arm under the last view: the crossed one of several attributes."""
    return Found(tables(counts, **options))


def test_an_impact_ratio_is_to_the_highest_rate_and_a_shortfall_reaches_it() -> None:
    found = of({"Female": (30, 100), "Male": (60, 120)})
    ratio = found.of("impact_ratio", "Female")
    assert found.reference == ratio.against == "Male"
    assert found.values("Male", "impact_ratio", "shortfall") == (1, 0)
    assert ratio.value == pytest.approx(0.6)
    assert ratio.low < 0.6 < ratio.high < 1
    assert found.values("Female", "shortfall") == (
        20,
    )  # 50 of 100 would be selected as Males are
    assert found.pairs()[0].p < 0.05
    assert ratio.verdict == (BELOW if ratio.high < 0.8 else CANNOT_SAY)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_shortfall_is_of_those_answered(repeats: int) -> None:
    said = ["yes"] * 30 + ["no"] * 30 + [None] * 40 + ["yes"] * 80 + ["no"] * 20
    one = pd.DataFrame(
        {
            "answer": said,
            "group": ["f"] * 100 + ["m"] * 100,
            "label": "no",
            "row": range(200),
        }
    )
    frame = pd.concat([one.assign(repeat=repeat) for repeat in range(repeats)])
    found = Found(impact_tables(from_frame(frame)))
    assert found.values("f", "shortfall") == (18,)  # 48 of the 60 who were answered


def test_a_verdict_is_that_of_the_interval() -> None:
    assert (
        four_fifths(0.6 / 0.75, 0.8 - 1e-16, 1.0) == NOT_BELOW
    )  # 0.7999999999999999 in binary
    assert four_fifths(0.7, 0.5, 0.79) == BELOW
    assert four_fifths(0.7, 0.5, 0.9) == CANNOT_SAY
    assert four_fifths(0.9, 0.7, 1.0) == CANNOT_SAY
    assert four_fifths(0.9, 0.85, 1.0) == NOT_BELOW


def test_limits_hold_for_every_answer_that_unread_replies_might_have_had() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"group": ["a"] * 60 + ["b"] * 60})
    frame["answer"] = rng.choice(["yes", "no"], 120)
    unread = [0, 1, 2, 60, 61]
    frame.loc[unread, "answer"] = None
    records = audit(frame, label=None, min_group=1).records
    gap = records.where(metric="selection_rate_difference")[0]
    for told in product(["yes", "no"], repeat=len(unread)):
        frame.loc[unread, "answer"] = told
        rates = frame["answer"].eq("yes").groupby(frame["group"]).mean()
        for group in "ab":
            rate = records.where(metric="selection_rate", group=group)[0]
            ratio = records.where(metric="impact_ratio", group=group)[0]
            assert rate.low < rates[group] < rate.high
            assert ratio.low < rates[group] / rates.max() <= ratio.high
        assert gap.low < rates[gap.group] - rates[gap.against] < gap.high


def test_nobody_selected_is_a_ratio_of_0_with_an_upper_limit_above() -> None:
    few, many = (
        of({"a": (0, n), "b": (n // 2, n)}).of("impact_ratio", "a") for n in (10, 1000)
    )
    for ratio in (few, many):
        assert ratio.value == ratio.low == 0
        assert 0 < ratio.high <= 1
    assert many.high < 0.02 < few.high


def test_nobody_selected_at_all_is_undefined_and_says_why() -> None:
    found = of({"a": (0, 10), "b": (0, 20), "c": (0, 20)})
    assert found.reference is None
    for level in "abc":
        ratio = found.of("impact_ratio", level)
        assert not ratio.known
        assert ratio.reason == "0/0: no answer to any group is yes"
        assert not found.of("shortfall", level).known
        assert found.of("precision", level).reason == "0/0: no row was answered yes"
    assert not any(pair.known for pair in found.pairs("selection_rate_ratio"))
    assert {pair.p for pair in found.pairs()} == {1.0}


def test_a_group_under_two_percent_is_marked_and_no_measure_for_others() -> None:
    counts = {"a": (30, 100), "b": (50, 100), "tiny": (3, 3)}
    by_law = of(counts, of_law=True)
    assert (by_law.reference, by_law.of("impact_ratio", "b").value) == ("tiny", 0.5)
    found = of(counts, of_law=True, leave_out_small=True)
    tiny = found.of("impact_ratio", "tiny")
    assert found.reference == "b"
    assert [is_small(found.of("share_of_rows", name)) for name in counts] == [0, 0, 1]
    assert (tiny.known, tiny.reason) == (False, "left out: under 2 % of the rows")
    assert found.of("share_of_rows", "tiny").value < LEAST_SHARE
    assert len(found.pairs()) == 1
    two_percent = of({"a": (30, 96), "b": (50, 100), "two": (2, 4)})
    assert not is_small(two_percent.of("share_of_rows", "two"))
    both = of({"a": (30, 1000), "tiny": (3, 3)})
    assert both.of("impact_ratio", "tiny").value == 1, (
        "of fewer than two groups there is no ratio"
    )


def test_the_correction_is_for_all_pairs() -> None:
    found = of({"a": (20, 100), "b": (35, 100), "c": (36, 100), "d": (50, 100)})
    alone = of({"a": (20, 100), "d": (50, 100)})
    assert len(found.pairs()) == 6
    smallest = min(found.pairs(), key=lambda pair: pair.p)
    assert smallest.p == pytest.approx(6 * alone.pairs()[0].p, rel=0.05)
    assert found.of("impact_ratio", "d").low < 1, (
        "another group's rate may be the highest"
    )


def test_of_very_many_groups_pairs_with_the_highest_rate_are_listed() -> None:
    found = of({f"g{number}": (5 + (number == 7) * 20, 30) for number in range(40)})
    assert (found.reference, len(found.pairs())) == ("g7", 39)
    assert all("g7" in (pair.group, pair.against) for pair in found.pairs())
    alone = of({"g0": (5, 30), "g7": (25, 30)}).pairs()[0].p
    assert found.pairs()[0].p == pytest.approx(alone * 40 * 39 / 2, rel=0.05), (
        "all are corrected"
    )


def test_rows_asked_again_are_one_person() -> None:
    counts = {"Female": (30, 100), "Male": (60, 120)}
    once = of(counts)
    again = of(counts, repeats=3)
    assert again.values("Female", "rows", "questions", "selected") == (100, 300, 90)
    assert again.values("Female", "shortfall") == once.values("Female", "shortfall")
    lows = [one.of("selection_rate", "Female").low for one in (again, once)]
    assert lows[0] == pytest.approx(lows[1]), "the same answers tell no more"


def test_groups_that_do_not_split_are_taken_as_they_are() -> None:
    assert [view.name for view in views(["a & b", "c"], ["sex", "race"])] == [
        "sex & race"
    ]
    assert [view.levels for view in views(["a & b", "c & d"], ["race"])] == [
        ("a & b", "c & d")
    ]
    assert [view.name for view in views(["a", "b"], [])] == ["group"]
    assert [is_known(group) for group in ("F & unknown", "M & b")] == [False, True]


# --- Designed samples


# Rows asked and yes answers per group and label (no, yes).
ASKED = {"F": ((75, 15), (25, 20)), "M": ((25, 10), (75, 70))}


def sample(asked: dict[str, tuple[tuple[int, int], ...]] = ASKED) -> pd.DataFrame:
    rows = [
        (group, label, "yes" if number < yes else "no")
        for group, cells in asked.items()
        for label, (n, yes) in zip(("no", "yes"), cells, strict=True)
        for number in range(n)
    ]
    return pd.DataFrame(rows, columns=["group", "label", "answer"])


def test_crossed_cells_are_mixed_as_they_were_chosen_and_withheld() -> None:
    asked = {
        f"{sex} & {race}": ((20, 4 * k), (20, 4 * k))
        for k, (sex, race) in enumerate(["Fa", "Fb", "Ma", "Mb"])
    }
    frame = sample(asked)
    frame[["sex", "race"]] = frame["group"].str.split(" & ", expand=True)
    both = audit(frame, protected=["sex", "race"], design="group and label").records
    told = both.of("true_positive_rate", "answers", "F", attribute="sex")
    assert not told.known
    assert told.reason.startswith("withheld: it depends on the mix")
