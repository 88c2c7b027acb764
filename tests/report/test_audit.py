"""The one door: a table of answers in, an audit out; bad tables are named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from fwc_llm import Audit, audit
from fwc_llm.errors import FwcError
from fwc_llm.report.document import make_document

MakeRun = Callable[..., Path]


def answers(repeats: int = 2, groups: str = "FM", arms: str = "xy", seed: int = 0) -> pd.DataFrame:
    """Sixty rows a repeat out of 200, put to every arm; the first group is answered yes less often."""
    rng = np.random.default_rng(seed)
    row = np.concatenate([rng.choice(200, 60, replace=False) for _ in range(repeats)])
    asked = pd.DataFrame({"repeat": np.repeat(np.arange(repeats), 60), "row": row})
    asked["group"] = [groups[place % len(groups)] for place in row]
    asked["label"] = np.where(row // 7 % 2 == 0, "yes", "no")
    rate = np.where(asked["group"] == groups[0], 0.3, 0.6)
    return pd.concat(
        [asked.assign(arm=arm, answer=np.where(rng.random(len(row)) < rate, "yes", "no")) for arm in arms],
        ignore_index=True,
    )


@pytest.mark.slow
def test_an_audit_is_what_a_report_says(make_run: MakeRun) -> None:
    """The answers of a run's folder, given as a table, give the report's own statistics."""
    folder = make_run(repeats=6, probabilities=True)
    frame = pd.read_csv(folder / "answers.csv", keep_default_na=False)
    frame["p_yes"] = frame["p_yes"].replace("", None)
    frame["examples"] = np.where(frame["arm"] == "zero", "none", frame["arm"] + frame["repeat"].astype(str))
    found = audit(frame, design="group and label").to_dict()
    expected = make_document([folder])["runs"][0]["statistics"]
    for name in ("groups", "comparisons", "frontier", "notes"):
        assert found[name] == expected[name], name
    assert found["arms"] == expected["arms"]
    assert [arm["of"] for arm in found["arms"]] == ["these examples", "this strategy", "this strategy"]


def test_a_table_with_three_columns_is_enough() -> None:
    found = audit(answers(1, arms="x")[["group", "label", "answer"]])
    assert isinstance(found, Audit)
    assert found.arms == ("answers",)
    (arm,) = found.to_dict()["arms"]
    assert arm["n"] == 60
    assert arm["accuracy"]["low"] < arm["accuracy"]["value"] < arm["accuracy"]["high"]


def test_it_prints_as_the_terminals_table_and_shows_itself_in_a_notebook() -> None:
    found = audit(answers().assign(group=lambda frame: frame["group"].replace("F", "<F>")))
    text = str(found)
    for words in ("Accuracy %", "DP gap", "The verdict on each gap", " <F> "):
        assert words in text
    words = "".join(ElementTree.fromstring(found._repr_html_()).itertext())
    for part in ("<F>", "Yes, x", "The verdict"):
        assert part in words


def test_the_dictionary_is_json_and_nobodys_to_change() -> None:
    found = audit(answers())
    json.dumps(found.to_dict(), allow_nan=False)
    found.to_dict()["arms"].clear()
    assert len(found.to_dict()["arms"]) == 2


def test_every_metric_says_what_it_speaks_of_and_has_the_papers_summary() -> None:
    frame = answers(6)
    frame["examples"] = np.where(frame["arm"] == "x", "always these", frame["repeat"].astype(str))
    fixed, drawn = audit(frame).to_dict()["arms"]
    for metric in ("accuracy", "demographic_parity_difference", "demographic_parity_ratio"):
        assert fixed[metric]["of"] == "these examples"
        assert drawn[metric]["of"] == "this strategy"
        summary = fixed[metric]["paper_summary"]
        assert summary["mean"] == pytest.approx(np.mean(fixed[metric]["per_repeat"]))
        assert summary["sd"] == pytest.approx(np.std(fixed[metric]["per_repeat"], ddof=1))
    (test,) = audit(frame).to_dict()["comparisons"]
    assert test["of"] == "this strategy"


def test_repeats_stand_in_the_order_of_their_numbers() -> None:
    frame = answers(12, arms="x")
    (arm,) = audit(frame).to_dict()["arms"]
    right = frame["answer"] == frame["label"]
    expected = right.groupby(frame["repeat"]).mean().tolist()
    assert arm["accuracy"]["per_repeat"] == pytest.approx(expected)


def test_few_draws_of_examples_say_that_it_cannot_be_told() -> None:
    frame = answers(3)
    frame["examples"] = frame["arm"] + frame["repeat"].astype(str)
    found = audit(frame)
    (test,) = found.to_dict()["comparisons"]
    assert test["accuracy"]["p_value"] is None
    assert test["accuracy"]["distinguishable"] is None
    assert "cannot be told with 3" in test["reason"]
    assert test["these_examples"]["accuracy"]["p_value"] is not None
    assert "cannot be told with 3" in str(found)


def test_several_attributes_are_also_audited_one_by_one() -> None:
    frame = answers(1)
    frame["group"] = frame["group"] + " & " + np.where(frame["row"] % 3 == 0, "old", "young")
    arm = audit(frame, attributes=("sex", "age")).to_dict()["arms"][0]
    sex, age = arm["by_attribute"]
    assert (sex["attribute"], age["attribute"]) == ("sex", "age")
    alone = audit(frame.assign(group=frame["group"].str[0])).to_dict()["arms"][0]
    parity = alone["demographic_parity_difference"]
    assert sex["demographic_parity_difference"] == pytest.approx(parity["value"])
    assert sex["intervals"]["demographic_parity_difference"] == pytest.approx([parity["low"], parity["high"]])
    assert sex["p_value"] == pytest.approx(parity["p_value"])


def test_one_group_has_no_gap_and_says_why() -> None:
    found = audit(answers(1).assign(group="all"))
    arm = found.to_dict()["arms"][0]
    assert arm["demographic_parity_difference"]["value"] is None
    assert arm["reasons"]["demographic_parity_difference"] == "it takes two groups to differ"
    assert arm["accuracy"]["value"] is not None
    assert "it takes two groups to differ" in str(found)


def test_missing_answers_count_for_coverage_alone() -> None:
    frame = answers(1, arms="x")
    frame.loc[:5, "answer"] = [None, np.nan, "", None, None, None]
    (arm,) = audit(frame).to_dict()["arms"]
    assert arm["coverage"] == pytest.approx(54 / 60)
    assert arm["coverage_low"] < 54 / 60 < arm["coverage_high"]


def with_one(column: str, value: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.copy()
        changed[column] = changed[column].astype(object)
        changed.loc[3, column] = value
        return changed

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="group"), "no column 'group'"),
        (lambda frame: frame[:0], "no answers"),
        (lambda frame: frame[1:], "arm 'x' lacks the row"),
        (lambda frame: frame[:-1], "arm 'y' lacks the row"),
        (lambda frame: pd.concat([frame, frame[:1]]), "two answers to the row"),
        (with_one("label", "no, or yes"), "line 4 of the answers has the label 'no, or yes'"),
        (with_one("label", None), "line 4 of the answers has no label"),
        (with_one("answer", 7), "line 4 of the answers has the answer 7: it must be 'yes' or 'no'"),
        (with_one("group", None), "line 4 of the answers has no group"),
        (with_one("group", "Z"), "has two groups"),
        (lambda frame: frame.assign(p_yes=1.5), "p_yes outside"),
        (lambda frame: frame.assign(p_yes="high"), "p_yes must hold numbers"),
        (lambda frame: pd.concat([frame, frame["group"]], axis=1), "two columns 'group'"),
    ],
)
def test_bad_tables_are_named(change: Callable[[pd.DataFrame], pd.DataFrame], words: str) -> None:
    with pytest.raises(FwcError, match=words):
        audit(change(answers(1)))


def test_a_row_has_one_label_in_all_repeats() -> None:
    frame = answers(2, arms="x")
    twice = frame["row"].value_counts().index[0]
    place = frame.index[frame["row"] == twice][-1]
    frame.loc[place, "label"] = "yes" if frame.loc[place, "label"] == "no" else "no"
    with pytest.raises(FwcError, match=f"the row '{twice}' has two labels"):
        audit(frame)


def test_an_unknown_design_is_refused() -> None:
    with pytest.raises(FwcError, match="the design is 'label'"):
        audit(answers(1), design="label")
