"""Newcomers with tables of their own: odd files go the whole way, or are refused with what to
do.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evals.walks.loans import loans
from fwc_llm.tasks import load_task
from tests.command import Run


def grants(folder: Path) -> Path:
    """Tabs, quotes, empty lines, a repeated title, columns called "row" and "yes", seven rows in
    a level.
    """
    rng = np.random.default_rng(3)
    lines = ['"row"\t"yes"\tregion\tjob title\tjob title\tnote "x"\tthreshold\tgranted']
    for k in range(900):
        if k % 129 == 0:
            level = "Islander"
        else:
            level = rng.choice(["North", "South", "East"])
        often = rng.choice(["often", "never", "some times"])
        job = rng.choice(["cook", "clerk"])
        note = '"said ""hi"""' if k % 2 else '""'
        if rng.random() < 0.4 + 0.2 * (level == "North"):
            granted = "Y"
        else:
            granted = "N"
        lines.append(
            f'"r{k}"\t{often}\t"{level}"\t{job}\t{job}\t{note}\t{rng.integers(1, 90)}\t{granted}'
        )
        lines += [""] * (k % 50 == 0)
    path = folder / "grant list.tsv"
    path.write_text("\n".join(lines) + "\n\n\n")
    return path


@pytest.mark.slow
def test_an_odd_table_goes_the_whole_way_at_the_defaults(
    fwc: Run, tmp_path: Path
) -> None:
    path = grants(tmp_path)
    columns = ("--protected", "region", "--outcome", "granted")
    drafted = fwc("task init", path, *columns, code=0)
    task = path.with_suffix(".toml")
    names = [column.name for column in load_task(task).features]
    assert names == ["yes", "job title", 'note "x"', "threshold"]
    (check,) = re.findall("^Next: fwc-llm (.+)", drafted.out, re.MULTILINE)
    assert "refused: --model surrogate" in fwc(check, code=0).out
    run = tmp_path / "run"
    ran = fwc("eval --model baseline --task", task, "--out", run, code=0)
    assert "REFERENCE, NO LANGUAGE MODEL" in ran.out
    fwc("report", run, "-o", tmp_path / "report.html", code=0)
    assert "true answers" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", b"g,g,y\n1,2,3\n", "names column 'g' more than once"),
        (
            "prose.csv",
            b"Call me Ishmael.\nSome years ago, never mind how long exactly.\n",
            "is not a table",
        ),
        ("t.parquet", b"PAR1", "is not a Parquet table"),
        ("t.jsonl", b'{"g": 1, "y": 2}\n[1]\n', "t.jsonl:2: a row is an object"),
        (
            "t.jsonl",
            b'{"g": 1, "y": 2}\n{"g"\n',
            "t.jsonl:2: this line is not a JSON object",
        ),
        ("t.json", b"[]", "it is empty"),
        ("t.xls", b"\xd0\xcf", "save the sheet as .xlsx or CSV"),
    ],
)
def test_what_is_no_table_is_named(
    fwc: Run, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert (
        words
        in fwc(f"task init {tmp_path / name} --protected g --outcome y", code=2).line
    )


@pytest.mark.parametrize(("kind", "extra"), [("xlsx", "excel"), ("parquet", "parquet")])
def test_a_binary_table_is_read_with_its_extra_and_the_extra_named_without(
    fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, extra: str
) -> None:
    table = tmp_path / f"t.{kind}"
    ok = [True, False, False, True] * 10
    frame = pd.DataFrame({"sex": list("fm") * 20, "pay": range(40), "ok": ok})
    frame.to_excel(table, index=False) if kind == "xlsx" else frame.to_parquet(table)
    words = f"task init {table} --protected sex --outcome ok"
    fwc(words, code=0)
    pool = load_task(tmp_path / "t.toml").pool()
    assert (len(pool), pool.index[0]) == (40, f"t.{kind}:{2 if kind == 'xlsx' else 1}")
    for module in ("openpyxl", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert f"pip install 'fwc-llm[{extra}]'" in fwc(words, "--force", code=2).line


@pytest.fixture
def loan_task(fwc: Run, tmp_path: Path) -> Path:
    (tmp_path / "loans.csv").write_bytes(loans())
    columns = "--protected ethnicity --outcome approved"
    fwc(f"task init {tmp_path / 'loans.csv'} {columns}", code=0)
    return tmp_path / "loans.toml"


@pytest.mark.slow
def test_rows_over_three_groups_are_rounded_to_whole_cells(
    fwc: Run, loan_task: Path
) -> None:
    moved = "200 rows do not divide evenly into the cells of 3 groups: 204"
    dry = ("eval", "--model", "gpt-6-luna", "--shots", "zero", "--dry-run")
    for command in (dry, ("prompt",), ("power",)):
        designed = ("--task", loan_task, "--base-parity", "0.5")
        assert moved in fwc(*command, *designed, code=0).err
        assert moved in fwc(*command, *designed, "--n-test", 200, code=0).err
        assert moved not in fwc(*command, "--task", loan_task, code=0).err
        assert "base_parity" in fwc(*command, *designed[:-1], "half", code=2).line


def test_the_baseline_costs_nothing_and_a_table_is_no_task(
    fwc: Run, loan_task: Path
) -> None:
    outcome = fwc(
        f"eval --task {loan_task} --model baseline --shots zero --dry-run", code=0
    )
    assert "no network): they cost nothing" in outcome.words
    assert "cost unknown" not in outcome.out
    unnamed = fwc(f"eval --task {loan_task} --shots zero --dry-run", code=0)
    assert "the model is baseline" in unnamed.err
    assert unnamed.out == outcome.out
    table = next(loan_task.parent.glob("*.csv"))
    assert f"fwc-llm task init {table}" in fwc("task check", table).line
