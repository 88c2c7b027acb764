"""Reading and cleaning a table: what comes out, and every complaint."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.tasks import load_task
from tests.command import corpus
from tests.data.tables import CSV, cycled, small_task, write_task
from tests.refusals import refused


def test_a_table_comes_out_typed_and_named_by_line(tmp_path: Path) -> None:
    task = small_task(tmp_path)
    table = task.pool()
    assert list(table.columns) == ["x", "colour", "sex", "y"]
    assert table.index.tolist() == [
        "data.csv:2",
        "data.csv:3",
        "data.csv:4",
        "data.csv:5",
    ]
    assert table["x"].tolist() == [1.0, 2.0, 3.5, 4.0]
    assert table["y"].tolist() == ["yes", "no", "no", "yes"]
    assert task.test() is table  # one file: pool and test are the same whole table
    assert task.labels(table).tolist() == [1, 0, 0, 1]
    assert task.labels(table).dtype == np.int8
    assert task.sensitive(table).tolist() == ["f", "m", "f", "m"]
    assert [column.name for column in task.features] == ["x", "colour"]
    assert [column.name for column in task.shown] == ["x", "colour", "sex"]
    assert not task.simulated


HEAD = "x,colour,sex,y\n"
READ: dict[str, tuple[Any, ...]] = {
    "lines of the file": (
        f'# made up\n{HEAD}\n1,"two\nlines",f,yes\n# and a comment\n2, spaced ,m,no\n',
        {"data": 'comment = "#"'},
        {"index": ["data.csv:4", "data.csv:7"], "colour": ["two\nlines", "spaced"]},
    ),
    "None and NA are categories": (
        f"{HEAD}1.0,NA,f,yes\n-2e3,None,m,no\n3,null,f,no\n",
        {},
        {"colour": ["NA", "None", "null"], "x": [1, -2000, 3]},
    ),
    "latin-1 with semicolons": (
        "x;colour;sex;y\n1;grün;f;yes\n2;blau;m;no\n".encode("latin-1"),
        {"data": 'separator = ";"\nencoding = "latin-1"'},
        {"colour": ["grün", "blau"]},
    ),
    "missing values as a category": (
        f"{HEAD}1,?,f,yes\n2,blue,m,no\n3,red,NaN,no\n",
        {"top": 'missing = "category"'},
        {"colour": ["unknown", "blue", "red"], "sex": ["f", "m", "unknown"]},
    ),
    "a threshold is strict": (
        f"{HEAD}1,a,0.06,2\n2,a,0.07,3\n3,b,0.05,2.5\n",
        {
            "outcome": "threshold = { above = 2.5 }",
            "protected": 'threshold = { above = 0.06 }\nlevels = ["few", "many"]',
        },
        {"sex": ["few", "many", "few"], "y": ["no", "yes", "no"]},
    ),
}


@pytest.mark.parametrize(("csv", "parts", "columns"), READ.values(), ids=READ)
def test_cells_come_out_as_written(
    tmp_path: Path, csv: str | bytes, parts: Any, columns: Any
) -> None:
    table = small_task(tmp_path, csv, **parts).pool().reset_index(names="index")
    assert {column: table[column].tolist() for column in columns} == columns


def test_of_a_parquet_file_only_the_columns_of_the_task_are_read(
    tmp_path: Path,
) -> None:
    path = write_task(tmp_path)
    # A column that nobody asks for comes first, and cannot be read.
    frame = pd.DataFrame(
        {
            "wide": [bytes([65 + k]) * 5000 for k in range(4)],
            "x": [1, 2, 3, 4],
            "colour": list("rgbr"),
        }
    ).assign(sex=list("fmfm"), y=[True, False, True, False])
    frame.to_parquet(
        tmp_path / "data.parquet", compression="none", use_dictionary=False
    )
    content = bytearray((tmp_path / "data.parquet").read_bytes())
    content[4:15_000] = b"\xff" * 14_996
    (tmp_path / "data.parquet").write_bytes(content)
    with pytest.raises(OSError, match="thrift"):
        pd.read_parquet(tmp_path / "data.parquet")
    path.write_text(path.read_text().replace("data.csv", "data.parquet"))
    assert load_task(path).pool()["colour"].tolist() == list("rgbr")


def test_missing_rows_are_dropped_and_said(tmp_path: Path) -> None:
    csv = "x,colour,sex,y\n1,?,f,yes\n2,blue,m,no\n,red,f,no\n4,red,f,yes\n"
    task = small_task(tmp_path, csv, top='missing = "drop"')
    assert task.pool().index.tolist() == ["data.csv:3", "data.csv:5"]
    assert task.notes == (
        "data.csv: 2 of 4 rows kept",
        "1 row left out, no value in x",
        "1 row left out, no value in colour",
    )


def test_pool_and_test_are_two_files_which_may_have_one_name(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    for folder, csv in (("a", CSV), ("b", "y,sex,x,colour\nyes,f,7,red\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "d.csv").write_text(csv)
    path.write_text(
        path.read_text().replace(
            'file = "data.csv"', 'pool = "a/d.csv"\ntest = "b/d.csv"'
        )
    )
    task = load_task(path)
    assert task.pool().index[0] == "a/d.csv:2"
    assert task.test().to_dict("index") == {
        "b/d.csv:2": {"x": 7.0, "colour": "red", "sex": "f", "y": "yes"}
    }
    assert len(task.table) == 5


def test_a_derived_attribute_takes_its_columns_place(tmp_path: Path) -> None:
    task = small_task(
        tmp_path, protected='name = "group"\nmap = { f = "first", m = "second" }'
    )
    assert [column.name for column in task.columns] == ["x", "colour", "group", "y"]
    assert task.groups == ("first", "second")


def test_several_protected_attributes_are_crossed(tmp_path: Path) -> None:
    task = small_task(tmp_path, protected='[[protected]]\ncolumn = "colour"')
    assert task.protected == ("sex", "colour")
    assert task.sensitive(task.pool()).tolist() == [
        "f & red",
        "m & blue",
        "f & red",
        "m & green",
    ]
    assert task.groups == ("m & blue", "f & red", "m & green")  # base rates 0, 1/2, 1


def test_the_fingerprint_follows_the_values(tmp_path: Path) -> None:
    first = small_task(tmp_path).fingerprint
    assert small_task(tmp_path).fingerprint == first
    assert (
        small_task(tmp_path, CSV.replace("green,m,yes", "green,m,no")).fingerprint
        != first
    )


CATEGORY = {"top": 'missing = "category"'}


@pytest.mark.parametrize(("rows", "parts", "message"), corpus("mistakes/tables"))
def test_bad_data_is_named(
    tmp_path: Path, rows: str, parts: dict[str, str], message: str
) -> None:
    task = small_task(tmp_path, f"x,colour,sex,y\n{rows}\n", **parts)
    with refused(re.escape(message)):
        task.pool()


BAD_FILES = {
    "no such column": (
        b"x,colour,sex\n1,a,f\n",
        "there is no column 'y'; there are x, colour, sex",
    ),
    "another separator": (b"x;colour;sex;y\n1;a;f;yes\n", "is the separator right?"),
    "empty": (b"", "it is empty"),
    "header alone": (b"x,colour,sex,y\n", "the table has no rows"),
    "zero bytes": (b"PAR1\x00\x00", "is it a binary file?"),
    "no text": (
        b"x,colour,sex,y\n1,\xff\xfe,f,yes\n",
        "is not a table of utf-8-sig text",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_such_table_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with refused(r"data\.csv.*" + re.escape(message)):
        small_task(tmp_path, content).pool()


def test_ids_must_be_unique(tmp_path: Path) -> None:
    path = write_task(
        tmp_path, "n,x,colour,sex,y\na,1,r,f,yes\nb,2,r,m,no\na,3,r,f,no\n"
    )
    path.write_text(
        path.read_text().replace(
            "columns = [", 'columns = [\n  { name = "n", role = "id" },'
        )
    )
    with refused(r"data\.csv:4: id 'a' in column 'n' is already used at data\.csv:2"):
        load_task(path).pool()


def test_an_ordinal_value_outside_the_order_is_named(tmp_path: Path) -> None:
    path = write_task(tmp_path)
    order = '{ name = "colour", kind = "ordinal", order = ["red", "blue"] }'
    path.write_text(path.read_text().replace('{ name = "colour" }', order))
    with refused("'green' is not in the order of the ordinal column 'colour'"):
        load_task(path).pool()


cell = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")),
    min_size=1,
    max_size=8,
).filter(lambda text: text.strip() == text and text not in ("?", "NaN", "nan"))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-9, 9),
            cell,
            st.sampled_from("fm"),
            st.sampled_from(["yes", "no"]),
        )
    )
)
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    rows = [*rows, (1, "a", "f", "yes"), (2, "a", "m", "no")]
    frame = pd.DataFrame(rows, columns=["x", "colour", "sex", "y"])
    table = small_task(tmp_path_factory.mktemp("csv"), frame.to_csv(index=False)).pool()
    assert table.to_dict("list") == frame.to_dict("list")


JUDGED = "x,colour,sex,y\n1,a,f,Ja\n2,b,m,Nein\n3,a,f,offen\n4,a,m,Ja\n"


@pytest.mark.parametrize(
    ("others", "answers", "meaning"),
    [
        (
            'others = "no"',
            ["yes", "no", "no", "yes"],
            'y: yes = "Ja" (2), no = "Nein" (1), "offen" (1)',
        ),
        (
            'negative = ["Nein"]\nothers = "drop"',
            ["yes", "no", "yes"],
            'y: yes = "Ja" (2), no = "Nein" (1)',
        ),
    ],
)
def test_a_third_outcome_is_judged(
    tmp_path: Path, others: str, answers: list[str], meaning: str
) -> None:
    task = small_task(tmp_path, JUDGED, outcome=f'positive = ["Ja"]\n{others}')
    assert task.pool()["y"].tolist() == answers
    assert task.rows.as_json()["outcome"] == meaning
    assert task.rows.reasons == (
        {"y neither yes nor no": 1} if len(answers) == 3 else {}
    )


def test_a_map_is_compared_as_groups_are(tmp_path: Path) -> None:
    csv = "x,colour,sex,y\n1,red,M,yes\n2,blue,Que\u0301bec ,no\n3,red,m,no\n4,red,QUÉBEC,yes\n"
    task = small_task(tmp_path, csv, protected='map = { "m" = "a", "Québec" = "b" }')
    assert task.pool()["sex"].tolist() == ["a", "b", "a", "b"]
    assert task.record({"x": 1, "colour": "red", "sex": "québec"}).values["sex"] == "b"
    with refused("'M' and another spelling of it have two levels"):
        small_task(tmp_path, csv, protected='map = { "m" = "a", "M" = "b" }')


def test_the_remedy_for_missing_numbers_works_as_it_is_written(tmp_path: Path) -> None:
    x = [*range(5), "?", *range(6, 40)]
    frame = cycled(40, x=x, colour=["red"], sex="fm", y="yynn")
    task = small_task(tmp_path, frame.to_csv(index=False))
    with refused() as caught:
        task.pool()
    remedy = re.findall(
        r'or (kind = "categorical") with (bands = .*?\]) and (missing = "\w+")',
        str(caught.value),
    )
    assert task.rules.path.write_text(
        task.text.replace('kind = "numeric"', ", ".join(remedy[0]))
    )
    pool = load_task(task.rules.path).pool()
    assert pool["x"].nunique() == 5
