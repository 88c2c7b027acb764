"""The tables of an audit and the page to sign, in every format, from runs of every kind."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.metrics.records import Records
from fwc_llm.report.formats import render
from fwc_llm.report.local_law_144 import COLUMNS
from tests.data.tables import TOML
from tests.refusals import refused
from tests.report.conftest import MakeRun, answer_row, lines

pytestmark = pytest.mark.usefixtures("no_data")

AS_DRAWN = {"n_test": 200, "base_parity": None, "repeats": 1, "seed": 0}
ABOUT = '[about]\nintended_use = "To hire <b>nobody</b>."\nlimits = "Few rows."'
TASK_FILE = TOML.format(top="", data="", outcome='positive = "yes"', protected=ABOUT)


def audit(folder: Path) -> dict[str, Any]:
    """The audit of the only run, from the JSON report: strict, so that NaN would be an error."""
    text = render([folder], "json")
    assert "NaN" not in text
    return json.loads(text)["runs"][0]["audit"]


def records(folder: Path) -> Records:
    return Records.read(
        json.loads(render([folder], "json"))["runs"][0]["records"], "sex"
    )


@pytest.fixture
def make(make_folder: MakeRun) -> MakeRun:
    described = {
        "task": "t",
        "model": "m",
        "arms": ["zero"],
        "protected": ["sex"],
        "settings": AS_DRAWN,
    }
    return lambda answers, **changes: make_folder("run", answers, **described | changes)


def test_selection_of_a_designed_sample_is_withheld(make_run: MakeRun) -> None:
    folder = make_run("run", protected=["sex"], repeats=1)
    assert audit(folder)["kind"] == "withheld"
    bare = render([folder], "md")
    assert "| Selection rate" not in bare
    assert "Selection rates, impact ratios and precision are withheld" in bare
    assert "Confusion matrix" in bare
    with refused(r"are not applicants.*base_parity=None"):
        render([folder], "ll144")


def test_local_law_144(make: MakeRun) -> None:
    asked = [
        answer_row(k, "F & =x", "no", "yes" if k < 10 else "no") for k in range(60)
    ]
    asked += [
        answer_row(100 + k, "M & y", "yes", "yes" if k < 30 else "no")
        for k in range(60)
    ]
    asked += [
        answer_row(200, "M & =x", "no", ""),
        answer_row(201, "M & unknown", "no", "yes"),
    ]
    read = lines(
        render([make(asked, protected=["sex", "race"], reference=True)], "ll144")
    )
    found = {(one["table"], one["category"]): one for one in read}
    assert tuple(read[0]) == COLUMNS
    assert {one["reference"] for one in found.values()} == {"true"}
    assert float(found["sex", "F"]["impact_ratio"]) == pytest.approx(
        (10 / 60) / (31 / 61), abs=1e-4
    )
    assert found["sex", "unknown"]["applicants"] == "0"
    race = found["race", "unknown"]
    assert (race["applicants"], race["selected"], race["impact_ratio"]) == (
        "1",
        "1",
        "",
    )
    assert ("race", "'=x") in found, "no formula reaches a spreadsheet"
    small = found["sex & race", "M & =x"]
    assert (small["applicants"], small["no_answer"], small["impact_ratio"]) == (
        "1",
        "1",
        "",
    )
    assert small["note"].startswith("undefined: 0/0")
    assert found["sex & race", "unknown"]["applicants"] == "1"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([("a", "yes"), ("a", "no")], "a ratio needs two groups with a rate"),
        ([("a", "no"), ("b", "no")], "0/0: no answer to any group is yes"),
        (
            [("a", "yes"), ("a", "no"), ("b", "")],
            "0/0: no parsed answer to rows of this group",
        ),
    ],
)
def test_what_is_undefined_says_why_in_every_format(
    make: MakeRun, said: list[tuple[str, str]], why: str
) -> None:
    folder = make(
        [answer_row(k, group, "no", yes) for k, (group, yes) in enumerate(said)]
    )
    assert any(record.reason.startswith(why) for record in records(folder))
    for format in ("html", "md", "csv", "ll144"):
        text = render([folder], format)
        assert not re.search(r"\bnan\b", text.lower())
        assert why in text


def test_the_record_says_what_was_signed_and_what_nobody_stated(
    make_run: MakeRun,
) -> None:
    folder = make_run(
        repeats=1,
        task="mine",
        task_file=TASK_FILE,
        command="fwc-llm eval --task mine.toml",
    )
    found = json.loads(render([folder], "json"))["runs"][0]["provenance"]
    assert found["about"]["intended_use"] == "To hire <b>nobody</b>."
    assert found["about"]["source"] is None
    assert (
        found["hashes"]["answers.csv"]
        == hashlib.sha256((folder / "answers.csv").read_bytes()).hexdigest()
    )
    assert (
        found["hashes"]["task file"] == hashlib.sha256(TASK_FILE.encode()).hexdigest()
    )
    page = render([folder], "html")
    assert "To hire &lt;b&gt;nobody&lt;/b&gt;." in page
    assert "not stated in the task file" in page
    assert "break-before: page" in page
    broken = make_run("broken", repeats=1, task="mine", task_file="what = [")
    assert json.loads(render([broken], "json"))["runs"][0]["provenance"]["task"] is None


@pytest.mark.parametrize(
    "population",
    [
        [{"group": "Female", "no": -1, "yes": 5}],
        [{"group": 7, "no": 1, "yes": 5}],
        {"Female": 3},
        [["a", 1, 2]],
    ],
)
def test_a_damaged_population_is_refused(make_run: MakeRun, population: Any) -> None:
    with refused(r"run.json is damaged: population"):
        render([make_run(population=population)], "json")
