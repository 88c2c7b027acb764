"""The one door: a table of answers in, an audit out; bad tables are named."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from fwc_llm import audit
from fwc_llm.metrics.run_answers import as_names
from fwc_llm.metrics.statistics import Statistics
from fwc_llm.report import probability_sections as tables
from fwc_llm.report.audit_answers import Audit
from fwc_llm.report.audit_file import audit_of_file
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.report.document import make_document
from fwc_llm.report.formats import render
from fwc_llm.report.predictions_reader import as_numbers
from tests.refusals import refused
from tests.report.conftest import MakeRun, lines


def answers(
    repeats: int = 2, groups: str = "FM", arms: str = "xy", seed: int = 0
) -> pd.DataFrame:
    """Sixty rows a repeat out of 200, put to every arm; the first group is answered yes less
    often.
    """
    rng = np.random.default_rng(seed)
    row = np.concatenate([rng.choice(200, 60, replace=False) for _ in range(repeats)])
    asked = pd.DataFrame({"repeat": np.repeat(np.arange(repeats), 60), "row": row})
    asked["group"] = [groups[place % len(groups)] for place in row]
    asked["label"] = np.where(row // 7 % 2 == 0, "yes", "no")
    rate = np.where(asked["group"] == groups[0], 0.3, 0.6)
    return pd.concat(
        [
            asked.assign(
                arm=arm, answer=np.where(rng.random(len(row)) < rate, "yes", "no")
            )
            for arm in arms
        ],
        ignore_index=True,
    )


@pytest.mark.parametrize("without", ["", "label", "row"])
def test_columns_that_nobody_names_are_read_by_the_parts_name_from_files_too(
    tmp_path: Path, without: str
) -> None:
    frame = answers().rename(columns={"group": "sex"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = AuditOptions(protected=("sex",), **({without: ""} if without else {}))

    def of_file() -> Audit:
        return audit_of_file(tmp_path / "t.csv", options).crossed

    def of_frame() -> Audit:
        key = None if without == "row" else "row"
        label = None if without == "label" else "label"
        return audit(frame, protected="sex", label=label, key=key)

    if without == "row":
        for door in (of_file, of_frame):
            with refused("needs 'row'"):
                door()
    else:
        assert of_file().arms == ("x", "y")
        assert of_file().to_dict() == of_frame().to_dict()


@pytest.mark.slow
def test_an_audit_is_what_a_report_says(make_run: MakeRun) -> None:
    """The answers of a run's folder, given as a table, give the report's own statistics."""
    folder = make_run(repeats=6, probabilities=True)
    frame = pd.read_csv(folder / "answers.csv", keep_default_na=False)
    frame["p_yes"] = frame["p_yes"].replace("", None)
    frame["examples"] = np.where(
        frame["arm"] == "zero", "none", frame["arm"] + frame["repeat"].astype(str)
    )
    found = audit(frame, design="group and label").statistics
    expected = make_document([folder])["runs"][0]["statistics"]
    for record in expected.records:
        of = {
            name: getattr(record, name)
            for name in ("arm", "group", "against", "attribute")
        }
        if (
            record.attribute in ("", "group")
            and record.repeat is None
            and record.verdict
        ):
            assert found.of(record.metric, **of, scope=record.scope) == record
    assert found.notes == expected.notes
    assert [arm.scope for arm in found.arms] == [
        "these examples",
        "this strategy",
        "this strategy",
    ]


def test_it_prints_as_the_terminals_table_and_shows_itself_in_a_notebook() -> None:
    found = audit(
        answers().assign(group=lambda frame: frame["group"].replace("F", "<F>"))
    )
    text = str(found)
    for words in ("Accuracy %", "DP gap", "yes for 28.2 % of <F>"):
        assert words in text
    words = "".join(ElementTree.fromstring(found._repr_html_()).itertext())
    for part in ("<F>", "Yes, %", "95 % interval"):
        assert part in words


def test_the_dictionary_is_json_and_nobodys_to_change() -> None:
    found = audit(answers())
    json.dumps(found.to_dict(), allow_nan=False)
    found.to_dict()["records"].clear()
    assert len(found.to_dict()["records"]) == len(found.records)


def test_a_stray_value_of_examples_is_one_draw() -> None:
    frame = answers(1, arms="x").assign(examples="a")
    frame.loc[0, "examples"] = "b"
    (note,) = (note for note in audit(frame).statistics.notes if "examples" in note)
    assert "hold for the 1 draw of examples" in note


# --- Files of predictions


def test_shares_are_taken_and_empty_cells_are_unknown() -> None:
    shares = as_numbers(pd.Categorical(["0.5", "1", None, "1e-3", "0"]), "p", "p_yes")
    np.testing.assert_array_equal(shares, [0.5, 1.0, np.nan, 0.001, 0.0])
    assert as_numbers(as_names(["0,125", "1"]), "p", "p_yes").tolist() == [0.125, 1.0]
    weights = as_names(["1,500", "2"])
    assert as_numbers(weights, "w", "weight", None, "1.234,5")[0] == 1.5
    assert as_numbers(weights, "w", "weight", None, "1,234.5")[0] == 1500


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["0.5", "87 %"], "in 1 of 2 rows (row 2 '87 %')"),
        (["0,5", "0,87 %"], "row 2 '0,87 %'"),
        *(
            (["0.5", text], f"row 2 {text!r}")
            for text in ("87", "-1.3", "maybe", "1_0", "inf")
        ),
        (["2"] * 9, "row 5 '2' and 4 more)"),
        (["x" * 9999], "'xxxx"),
    ],
)
def test_what_is_no_share_is_named(cells: list[str], said: str) -> None:
    with refused() as raised:
        as_numbers(as_names(cells), "p", "p_yes")
    assert said in str(raised.value)
    assert len(str(raised.value)) < 400


# --- What a report says of P(yes)


def decided(n: int = 400, groups: str = "ab", **changes: Any) -> pd.DataFrame:
    """Answers at one half of a P(yes) with two decimals."""
    rng = np.random.default_rng(0)
    group = np.array(list(groups))[np.arange(n) % len(groups)]
    label = rng.random(n) < np.where(group == "a", 0.6, 0.3)
    p = np.round(
        np.clip(
            0.35 + 0.2 * label + 0.1 * (group == "a") + rng.normal(0, 0.1, n), 0, 1
        ),
        2,
    )
    table = {"group": group, "label": np.where(label, "yes", "no"), "p_yes": p}
    frame = pd.DataFrame(table).assign(**changes)
    return frame.assign(answer=np.where(frame["p_yes"] >= 0.5, "yes", "no"))


def found_in(frame: pd.DataFrame) -> Statistics:
    return audit(frame).statistics


def test_a_constant_probability_is_said() -> None:
    found = found_in(decided(p_yes=0.5))
    assert any("is 0.5 whatever the row" in note for note in found.notes)


def test_probabilities_next_to_0_and_1_show_no_calibration() -> None:
    found = found_in(decided(p_yes=0.995))
    assert not tables.calibration(found)
    assert "100 % of the answers: too extreme" in " ".join(tables.notes(found))
    assert tables.calibration(found_in(decided(p_yes=0.985)))


def test_rows_without_a_probability_are_said() -> None:
    frame = decided()
    frame.loc[frame["group"].eq("b") & (frame.index < 200), "p_yes"] = np.nan
    found = found_in(frame)
    assert found.of("calibration", "answers", "b").n == 100
    assert "answers: not every row has P(yes) (b 50.0 %, a 100 %)" in " ".join(
        tables.notes(found)
    )
    lost = frame.assign(p_yes=frame["p_yes"].where(frame["group"] == "a"))
    found = found_in(lost)
    assert [found.of("calibration", "answers", group).known for group in "ab"] == [
        True,
        False,
    ]
    assert not tables.probabilities(found_in(frame.drop(columns="p_yes")))


def test_every_format_has_it(make_run: MakeRun) -> None:
    rates = {"zero": {"a</td><script>alert(1)</script>|": (0.2, 0.6), "b": (0.3, 0.8)}}
    folder = make_run(probabilities=True, repeats=2, rates=rates)
    page = render([folder], "html")
    assert "Calibration of P(yes) per group" in page
    assert "The design fixed the share of yes" in page
    assert "<script>alert" not in page
    text = render([folder], "md")
    assert "#### Calibration of P(yes) per group" in text
    found = lines(render([folder], "csv"))
    differences = [line for line in found if line["metric"] == "calibration"]
    assert len(differences) == 3
    assert all(
        float(line["low"]) <= float(line["value"]) <= float(line["high"])
        for line in differences
    )
