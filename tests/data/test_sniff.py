"""Drafted task files: whatever the columns are called and hold, the draft is TOML that can be read."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.data.task_draft import draft_task
from fwc_llm.taskfile import read_taskfile
from fwc_llm.tasks import load_task

text = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1, max_size=10)
name = text.map(str.strip).filter(lambda word: word not in ("", "sex", "y"))
value = st.one_of(st.integers(-5, 5).map(str), text.map(str.strip), st.just(""), st.just("NA"))


def draft(folder: Path, frame: pd.DataFrame, separator: str = ",", index: bool = False) -> Path:
    frame.to_csv(folder / "t.csv", sep=separator, index=index)
    (folder / "t.toml").write_text(draft_task(folder / "t.csv", ["sex"], "y", folder).text, encoding="utf-8")
    return folder / "t.toml"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(",;\t|"))
def test_any_table_can_be_drafted(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, separator: str
) -> None:
    names = data.draw(st.lists(name, min_size=1, max_size=3, unique=True))
    rows = 12
    frame = pd.DataFrame(
        {title: data.draw(st.lists(value, min_size=rows, max_size=rows)) for title in names}
        | {"sex": list("fm") * 6, "age": range(30, 30 + 2 * rows, 2), "y": ["yes", "no", "no"] * 4}
    )
    path = draft(tmp_path_factory.mktemp("draft"), frame, separator)
    fields = {item.name: item for item in read_taskfile(path).fields}
    assert list(fields) == [str(title) for title in frame.columns]
    complete = all(cell not in ("", "NA", "?", "NaN", "nan") for title in names for cell in frame[title])
    if complete:
        assert len(load_task(path).pool()) == rows


def test_an_index_that_was_written_along_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, 2, 3, 4], "sex": list("fmfm"), "y": list("1001")})
    task = load_task(draft(tmp_path, frame, index=True))
    assert [column.name for column in task.columns] == ["x", "sex", "y"]
    assert task.pool()["y"].tolist() == ["yes", "no", "no", "yes"]


def test_a_table_that_is_no_utf_8(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("x,stadt,sex,y\n1,Köln,f,yes\n2,Bonn,m,no\n".encode("latin-1"))
    (tmp_path / "t.toml").write_text(draft_task(tmp_path / "t.csv", ["sex"], "y", tmp_path).text)
    assert load_task(tmp_path / "t.toml").pool()["stadt"].tolist() == ["Köln", "Bonn"]


def test_what_becomes_of_missing_values_is_said_as_it_is(tmp_path: Path) -> None:
    rows = [
        f"{k % 61},{['', 'red', 'blue', 'red'][k % 4]},{'fm'[k % 2]},{['yes', 'no'][k % 3 % 2]}"
        for k in range(600)
    ]
    rows += ["3,red,f,"] * 9
    (tmp_path / "t.csv").write_text("\n".join(["x,colour,sex,y", *rows]) + "\n", encoding="utf-8")
    checks = draft_task(tmp_path / "t.csv", ["sex"], "y", tmp_path).checks
    assert [line for line in checks if line.startswith("missing")] == [
        'missing: a missing value becomes the category "unknown" (colour 150)',
        "missing: rows with a missing value are dropped (y 9)",
    ]
