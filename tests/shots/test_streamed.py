"""Examples from files that are read in blocks: those that the whole table in memory gives."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fwc_llm.cli import app
from fwc_llm.errors import FwcError
from fwc_llm.shots import select_shots
from fwc_llm.shots.streamed import streamed_shots
from fwc_llm.tasks import load_task

TOML = """
question = "Is the loan paid back?"
weight = "w"
missing = "drop"
columns = [
  { name = "age", kind = "numeric" },
  { name = "debt", kind = "numeric" },
  { name = "wage", kind = "categorical", bands = [1000, 2000], missing = "category" },
  { name = "school", kind = "ordinal", order = ["low", "middle", "high"] },
  { name = "job" },
  { name = "nation", strip_zeros = true },
  { name = "w", kind = "numeric", role = "extra" },
  { name = "paid" },
  { name = "notes", role = "drop" },
]
[data]
file = "rows.parquet"
[outcome]
column = "paid"
positive = ["on time"]
negative = ["late", "never"]
[[protected]]
column = "nation"
name = "origin"
map = { "7" = "home", "12" = "abroad", "13" = "abroad" }
[[keep]]
column = "age"
above = 17
"""


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1200
    frame = pd.DataFrame(
        {
            "notes": [f"row {k}" for k in range(n)],
            "age": rng.integers(15, 80, n),
            "debt": rng.normal(100, 30, n).round(2),
            "wage": rng.integers(300, 4000, n).astype(float),
            "school": rng.choice(["low", "middle", "high"], n),
            "job": pd.Categorical(rng.choice(["cook", "clerk", "nurse"], n)),
            "nation": rng.choice(["07", "012", "13"], n),
            "w": rng.integers(1, 9, n),
            "paid": rng.choice(["on time", "late", "never"], n),
        }
    )
    frame.loc[[5, 6, 1100, 1101], "wage"] = np.nan
    frame.loc[[6, 900], "debt"] = np.nan
    frame.loc[700:, "job"] = "nurse"  # blocks that lack values which others have
    return frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = table()
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    for k, low in enumerate(range(0, 1200, 450)):
        frame.iloc[low : low + 450].to_parquet(tmp_path / f"part-{k}.parquet")
    (tmp_path / "task.toml").write_text(TOML, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("weight", ["w", ""])
def test_blocks_give_the_examples_of_the_whole_table(folder: Path, weight: str) -> None:
    task = load_task(folder / "task.toml", weight=weight)
    inner = select_shots(task, "fwc", 12, 0.05, seed=1, progress=False)
    outer, notes = streamed_shots(task, folder / "rows.parquet", 12, 0.05, seed=1)
    assert outer.fingerprint == inner.fingerprint
    assert outer.options == inner.options
    assert [example.row for example in outer.examples] == [example.row for example in inner.examples]
    for one, two in zip(inner.examples, outer.examples, strict=True):
        assert (one.values, one.label) == (two.values, two.label)
        assert list(map(type, one.values.values())) == list(map(type, two.values.values()))
        assert two.weight == one.weight
    assert inner.certificate is not None
    assert outer.certificate is not None
    assert outer.certificate == inner.certificate
    assert task.rows is not None
    assert notes[0].endswith(f": {task.rows.kept:,} of 1,200 rows kept")
    assert "2 rows lost: no value in debt" in notes
    filled = next(note for note in task.notes if "made the category" in note).partition(";")[0]
    assert "(wage 3)" in filled
    assert filled in notes


def test_the_command_takes_a_pattern(folder: Path) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["shots", "--task", str(folder / "task.toml"), "--m", "8", *words])

    files = ("--data", str(folder / "part-*.parquet"))
    found = run(*files, "-o", str(folder / "shots.json"))
    assert found.exit_code == 0, found.output
    command = shlex.split(found.output.partition("use them with: fwc-llm ")[2])
    command = command[: command.index("baseline") + 1]
    asked = CliRunner().invoke(app, [*command, "--n-test", "8", "-o", str(folder / "run")])
    assert asked.exit_code == 0, asked.output
    saved = json.loads((folder / "shots.json").read_text())
    rows = [example["row"] for example in saved["examples"]]
    assert all(re.fullmatch(r"part-[012]\.parquet:\d+", row) for row in rows)
    frame = table()
    for example in saved["examples"]:
        file, _, line = example["row"].removeprefix("part-").partition(".parquet:")
        row = frame.iloc[450 * int(file) + int(line) - 1]
        assert example["values"]["debt"] == pytest.approx(row["debt"])
        assert example["label"] == ("yes" if row["paid"] == "on time" else "no")
    for words, said in (
        ((*files, "--compare"), "--compare needs the table in memory"),
        ((*files, "--strategy", "kmeans"), "--data reads a table in blocks, which kmeans cannot"),
        ((*files, "--max-prompt-tokens", "500"), "--max-prompt-tokens needs the table in memory"),
        ((*files, "--option", "slots=home:no=4,home:yes=4"), "name one of balanced-positive"),
        (("--data", str(folder / "no-*.parquet")), "there is no such file"),
    ):
        refused = run(*words).exception
        assert isinstance(refused, FwcError)
        assert said in str(refused)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '"notes", role = "drop"',
            '"notes", role = "id"',
            'role = "id", whose values are compared over all rows',
        ),
        (', "never"]', "]", "the value 'never' is named neither positive nor negative"),
        ('["on time"]', '["by cheque"]', "the positive value 'by cheque' does not occur"),
        ("above = 17", "above = 99", "no row is left of 1,200: not age"),
        (', "13" = "abroad"', "", "has no entry for '13'"),
        (
            '"home", "12" = "abroad", "13" = "abroad"',
            '"all", "12" = "all", "13" = "all"',
            "the one level 'all'",
        ),
        ('{ name = "job" }', '{ name = "hobby" }', "there is no column 'hobby'"),
    ],
)
def test_what_the_task_file_does_not_allow_is_refused(folder: Path, old: str, new: str, words: str) -> None:
    assert old in TOML
    (folder / "task.toml").write_text(TOML.replace(old, new), encoding="utf-8")
    with pytest.raises(FwcError, match=re.escape(words)):
        streamed_shots(load_task(folder / "task.toml"), str(folder / "part-*.parquet"), 8)


def test_files_that_were_written_in_several_ways_are_one_table(folder: Path) -> None:
    frame = table().assign(notes="x")
    widths = pd.Categorical(frame["job"].astype(str), [*map(str, range(300)), "cook", "clerk", "nurse"])
    parts = [
        frame[:0].assign(age=None, more=None),
        frame[:300],
        frame[300:500].assign(job=widths[300:500], wage=None, w=frame["w"].astype(np.uint8)),
        frame[500:700].assign(job=frame["job"].astype(str), age=frame["age"].astype(float)),
        frame[700:900].assign(more=[[1]] * 200, notes=3)[::-1],
        frame[900:].assign(notes=[{"a": 1}] * 300).set_index("debt", drop=False).rename_axis("place"),
    ]
    for k, part in enumerate(parts):
        part.to_parquet(folder / f"part-{k}.parquet")
    (folder / "task.toml").write_text(TOML.replace("rows.parquet", "part-*.parquet"), encoding="utf-8")
    task = load_task(folder / "task.toml")
    inner = select_shots(task, "fwc", 8, 0.05, seed=1, progress=False)
    outer, _ = streamed_shots(task, folder / "part-*.parquet", 8, 0.05, seed=1)
    assert [example.row for example in outer.examples] == [example.row for example in inner.examples]
    assert outer.fingerprint == inner.fingerprint
    for wrong, said in (
        (
            frame.drop(columns="debt"),
            "part-3.parquet: there is no column 'debt'; the file has 'notes', 'age'",
        ),
        (frame.set_index("debt"), "part-3.parquet: there is no column 'debt'"),
        (
            frame.astype({"age": str}),
            "the column 'age' is int64 in {0}1.parquet and large_string in {0}3.parquet",
        ),
    ):
        wrong.to_parquet(folder / "part-3.parquet")
        with pytest.raises(FwcError, match=re.escape(said.format(folder / "part-"))):
            streamed_shots(task, folder / "part-*.parquet", 8)


def test_other_files_are_refused(folder: Path) -> None:
    table().to_csv(folder / "rows.csv")
    with pytest.raises(FwcError, match="from Parquet files alone"):
        streamed_shots(load_task(folder / "task.toml"), folder / "rows.csv", 8)


def test_a_pattern_in_a_task_file_is_one_table(folder: Path) -> None:
    whole = load_task(folder / "task.toml")
    (folder / "task.toml").write_text(TOML.replace("rows.parquet", "part-*.parquet"), encoding="utf-8")
    parts = load_task(folder / "task.toml")
    located = parts.locate()
    assert located is not None
    assert [path.name for path in located] == [f"part-{k}.parquet" for k in range(3)]
    pd.testing.assert_frame_equal(parts.pool().reset_index(drop=True), whole.pool().reset_index(drop=True))
    assert parts.pool().index[-1] == "part-2.parquet:300"
