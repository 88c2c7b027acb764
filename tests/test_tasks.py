"""The built-in tasks on the real data: exactly the rows, groups and labels that their sources
count.
"""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from fwc_llm.runs.splits import row_values
from fwc_llm.taskfile import About
from fwc_llm.tasks import load_task, table_files, task_names
from tests.data.tables import write_task
from tests.refusals import refused

# rows, features, (no, yes) by group with the lowest base rate first; counted in the raw files.
EXPECTED = [
    ("german", 1000, 19, {"female": (109, 201), "male": (191, 499)}),
    (
        "communities",
        1993,
        99,
        {"at most the median": (866, 158), "above the median": (419, 550)},
    ),
    ("drug", 1885, 11, {"female": (296, 646), "male": (117, 826)}),
]


@pytest.mark.parametrize(("name", "rows", "features", "cells"), EXPECTED)
def test_a_table_in_one_file(
    name: str, rows: int, features: int, cells: Any, built_in: Any
) -> None:
    task = built_in(name)
    table = task.pool()
    assert (len(table), len(task.features)) == (rows, features)
    assert task.groups == tuple(cells)
    levels = task.sensitive(table)
    labels = task.labels(table)
    for level, counts in cells.items():
        assert (
            tuple(
                int(((levels == level) & (labels == label)).sum()) for label in (0, 1)
            )
            == counts
        )
    assert table_files(task) is not None
    assert not any("differs" in note for note in task.notes)


def test_adult(built_in: Any) -> None:
    task = built_in("adult")
    pool = task.pool()
    test = task.test()
    assert (len(pool), len(test)) == (30_162, 15_060)
    assert task.notes[0] == "adult.data: 30,162 of 32,561 rows kept"
    assert task.notes[1] == "adult.test: 15,060 of 16,281 rows kept"
    assert [
        note.partition(" rows left out, no value in ")[::2] for note in task.notes[2:5]
    ] == [("2,809", "occupation"), ("2,799", "workclass"), ("857", "native-country")]
    assert [column.name for column in task.columns if column.role == "extra"] == [
        "fnlwgt"
    ]
    assert len(task.features) == 12
    assert task.groups == ("Female", "Male")
    assert pool.loc["adult.data:1"].to_dict() == {
        "age": 39,
        "workclass": "State-gov",
        "fnlwgt": 77516,
        "education": "Bachelors",
        "education-num": 13,
        "marital-status": "Never-married",
        "occupation": "Adm-clerical",
        "relationship": "Not-in-family",
        "race": "White",
        "sex": "Male",
        "capital-gain": 2174,
        "capital-loss": 0,
        "hours-per-week": 40,
        "native-country": "United-States",
        "income": "no",
    }
    assert test.index[0] == "adult.test:2"  # the first line is a comment
    assert set(test["income"]) == {"yes", "no"}
    assert int(task.labels(pool).sum()) == 7_508
    assert (test["native-country"] != "Holand-Netherlands").all()


@pytest.mark.slow
def test_adults_overlap_by_value(built_in: Any) -> None:
    task = built_in("adult")
    trained = set(row_values(task, task.pool()))
    assert sum(key in trained for key in row_values(task, task.test())) == 2_817


def test_communities_without_identifiers_and_police_survey(built_in: Any) -> None:
    task = built_in("communities")
    names = {column.name for column in task.columns}
    assert len(names) == 128 - 5 - 22
    identifiers = {"state", "county", "community", "communityname", "fold"}
    assert not names & identifiers | {"LemasSwornFT", "PolicBudgPerPop"} & names
    assert "1 row left out, no value in OtherPerCap" in task.notes
    assert all(column.text != column.name for column in task.columns)


def test_german_codes_have_words_and_the_sex_stands_once(built_in: Any) -> None:
    task = built_in("german")
    assert task.column("sex").values == {}
    assert "personal_status" not in [column.name for column in task.columns]
    for column in task.features:
        if column.kind == "categorical":
            assert set(task.pool()[column.name]) <= set(column.values), column.name


def test_drug_numbers_have_words(built_in: Any) -> None:
    task = built_in("drug")
    for name in ("Age", "Education", "Country", "Ethnicity"):
        assert set(task.pool()[name]) == set(task.column(name).values)
    order = task.column("Education").order
    assert (order[0], order[-1]) == ("-2.43591", "1.98437")
    assert [float(value) for value in order] == sorted(map(float, order))


def test_every_built_in_task_says_where_it_comes_from() -> None:
    for name in task_names():
        task = load_task(name)
        assert task.question.endswith("?")
        if name == "compas":
            assert "none stated" in task.rules.licence
            assert "ProPublica" in task.rules.citation
        else:
            assert task.rules.licence
            assert task.rules.citation
        assert set(task.rules.usual) <= set(task.offered)
        assert (
            {"intended_use", "population", "source", "limits"}
            <= set(task.rules.about)
            <= {*About.model_fields}
        )


def test_a_task_is_one_line_and_a_table_of_its_groups(built_in: Any) -> None:
    task = built_in("german")
    columns = f"{len(task.columns)} columns, protected sex, outcome credit_risk"
    assert repr(task) == f"<Task german: {task.title}; {columns}>"
    drawn = ElementTree.fromstring(task._repr_html_())
    rows = [[cell.text for cell in row[:4]] for row in drawn.findall(".//tbody/tr")]
    assert rows == [["female", "310", "109", "201"], ["male", "690", "191", "499"]]
    assert len(repr(built_in("communities"))) < 200


def test_a_picture_downloads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FWC_LLM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = load_task("german")
    assert table_files(task) is None
    assert "not on this machine" in task._repr_html_()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_table_is_said_in_the_picture(tmp_path: Path) -> None:
    path = write_task(tmp_path, "x,colour,sex,y\n1,a,<b>f,yes\n2,b,<b>f,no\n")
    path.write_text(path.read_text().replace("Is it yes?", "<i>?"))
    drawn = ElementTree.fromstring(load_task(path)._repr_html_())
    words = "".join(drawn.itertext())
    assert "<i>?" in words
    assert "'<b>f'" in words.split("columns to show")[1]
    assert drawn.find(".//table") is None


def test_a_row_of_the_table_is_a_record_however_its_group_is_spelled() -> None:
    rows = 240
    spellings = ["Ontario", "ontario", "Qu\u00e9bec", "Que\u0301bec"] * (rows // 4)
    frame = pd.DataFrame(
        {"province": spellings, "x": range(rows), "said": ["yes", "no", "no"] * 80}
    )
    task = load_task(frame, protected="province", outcome="said")
    assert len(task.groups) == 2
    for row in range(4):
        record = task.record(frame.iloc[row].to_dict())
        assert record.values["province"] == task.pool().iloc[row]["province"]
    with refused("'Quebec'"):
        task.record({**frame.iloc[0].to_dict(), "province": "Quebec"})
