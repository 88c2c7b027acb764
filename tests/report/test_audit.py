"""The one door: a table of answers in, an audit out; bad tables are named."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from fwc_llm import audit
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


def test_an_unknown_design_is_refused() -> None:
    with pytest.raises(FwcError, match="the design is 'label'"):
        audit(answers(1), design="label")
