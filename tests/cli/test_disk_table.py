"""`fwc-llm eval` of a table that stays on disk."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from fwc_llm.cli import app
from fwc_llm.data import load
from fwc_llm.errors import FwcError
from fwc_llm.runs.folder import RunFolder
from tests.data.test_disk_table import BLOCK, HELD, frame, write


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.slow
def test_a_run_of_a_table_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = write(tmp_path)
    rows = tmp_path / "rows"
    rows.mkdir()
    for path in sorted(tmp_path.glob("rows-*.parquet")):
        path.rename(rows / path.name)
    asked = ("--task", task, "--data", rows, "--n-test", 48, "--model", "baseline")
    inner = run("eval", *asked, "--shots", "zero,balanced", "-o", tmp_path / "inner")
    assert inner.exit_code == 0, inner.output
    shots = run("shots", "--task", task, "--data", rows, "--m", 8, "-o", tmp_path / "shots.json")
    assert shots.exit_code == 0, shots.output

    monkeypatch.setattr(load, "LARGE", HELD)
    monkeypatch.setattr(load, "BLOCK", BLOCK)
    outer = run("eval", *asked, "--shots", "zero,balanced", "-o", tmp_path / "outer")
    assert outer.exit_code == 0, outer.output
    assert "the table stays on disk: examples are chosen among" in outer.output
    one, two = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("inner", "outer"))
    for name in ("fingerprint", "population", "rows", "settings", "data", "task_folder"):
        assert one[name] == two[name]
    assert "sample" not in one
    assert HELD - 8 <= two["sample"]["rows"] < two["sample"]["of"] == one["rows"]["kept"]
    questions = [
        [row["row"] for row in RunFolder(tmp_path / name).read_questions()] for name in ("inner", "outer")
    ]
    assert questions[0] == questions[1]

    # Its experiment file repeats it, in the same folder and from there.
    again = run("eval", tmp_path / "outer" / "experiment.toml", "-o", tmp_path / "outer")
    assert again.exit_code == 0, again.output
    assert "nothing to ask" in again.output
    # The report finds the rows that were asked about.
    page = run("report", tmp_path / "outer", "-o", tmp_path / "page.html")
    assert page.exit_code == 0, page.output
    assert "not the table that the run was made with" not in page.output
    # Other examples are another run.
    refused = run("eval", tmp_path / "outer" / "experiment.toml", "-o", tmp_path / "inner")
    assert "holds another run" in str(refused.exception)

    # Examples that the streamed solver chose are of this very table.
    given = run("eval", *asked, "--shots", tmp_path / "shots.json", "-o", tmp_path / "given")
    assert given.exit_code == 0, given.output


def test_a_check_says_what_is_of_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = write(tmp_path)
    task.write_text(task.read_text().replace('{ name = "job" }', '{ name = "job", missing = "category" }'))
    rows: pd.DataFrame = frame()
    rows.loc[::9, "job"] = None
    for path in tmp_path.glob("rows-*.parquet"):
        path.unlink()
    rows.to_parquet(tmp_path / "rows-0.parquet")
    inner = run("task", "check", task)
    assert inner.exit_code == 0, inner.output
    monkeypatch.setattr(load, "LARGE", HELD)
    outer = run("task", "check", task)
    assert outer.exit_code == 0, outer.output
    assert "\nColumns\n" in inner.output
    assert "\nColumns, in a sample of " in outer.output
    made = next(part for part in re.split(r"; |\n", inner.output) if "made the category" in part).strip()
    assert made in outer.output


@pytest.mark.parametrize("command", ["eval", "shots"])
def test_empty_data_is_not_the_folder_that_one_is_in(tmp_path: Path, command: str) -> None:
    refused = run(command, "--task", write(tmp_path), "--data", "", "-o", tmp_path / "out")
    assert isinstance(refused.exception, FwcError)
    assert "--data is empty" in str(refused.exception)


def test_data_needs_a_task(tmp_path: Path) -> None:
    refused = run("eval", "--data", tmp_path)
    assert isinstance(refused.exception, FwcError)
    assert "name the task too" in str(refused.exception)


def test_a_cell_without_rows_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = write(tmp_path)
    rows: pd.DataFrame = frame()
    away = (rows["nation"] == "away") & (rows["sex"] == "f")
    rows.assign(paid=rows["paid"].where(~away, "no")).to_parquet(tmp_path / "one.parquet")
    monkeypatch.setattr(load, "LARGE", HELD)
    refused = run(
        "eval", "--task", task, "--data", tmp_path / "one.parquet", "--model", "baseline", "--n-test", 48,
        "--base-parity", 0.5, "--shots", "zero", "-o", tmp_path / "run",
    )  # fmt: skip
    assert isinstance(refused.exception, FwcError)
    assert "the cell sex & nation = f & away, paid = yes has 0 rows to draw from" in str(refused.exception)
    assert not (tmp_path / "run").exists()
