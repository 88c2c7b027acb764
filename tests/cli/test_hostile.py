"""The command line among hostile replies, folders and arguments: exit codes, and what a terminal
gets.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
from numpy.random import Generator

from fwc_llm.cli.console import printing_aside
from tests.command import Run, corpus, peak
from tests.conftest import CHECKOUT
from tests.data.tables import cycled, write_csv
from tests.faults.loopback import HttpReply, completion, serve_in_thread

ESCAPES = "\x1b]52;c;ZXZpbA==\x07 \x9b31m \u202e"
EVAL = "eval --task census --shots zero --n-test 8 --model"


def steering(text: str) -> set[str]:
    return {mark for mark in "\x1b\x07\x9b\u202e" if mark in text}


@pytest.mark.slow
def test_nothing_that_a_service_sends_steers_the_terminal(fwc: Run, out: Path) -> None:
    body = completion(f"Yes {ESCAPES}", f"model {ESCAPES}")
    with serve_in_thread(lambda request: HttpReply(body)) as url:
        served = f"{EVAL} test-model --base-url {url}/v1 --out"
        outcome = fwc(served, out, code=0)
    assert "answers as" in outcome.err
    formats = ("md", "csv", "json")
    told = [
        outcome,
        *(fwc("report", out, "--format", name, code=0) for name in formats),
    ]
    assert not any(steering(each.out + each.err) for each in told)
    assert f"model {ESCAPES}" in told[-1].json["runs"][0]["about"]["returned_models"]


@pytest.mark.slow
def test_a_run_without_its_journal_keeps_its_answers(fwc: Run, out: Path) -> None:
    fwc(f"{EVAL} surrogate --out", out, code=0)
    answers = (out / "answers.csv").read_bytes()
    journal = out / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    assert "3 of 8 requests have no reply" in fwc("rescore", out, code=0).err
    (out / "answers.csv").write_bytes(answers)
    journal.unlink()
    assert "journal.jsonl is missing" in fwc("rescore", out, code=2).line
    assert (out / "answers.csv").read_bytes() == answers


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["eval --n-test 8 --shots zero", "tasks"])
def test_a_reader_that_leaves_early_is_no_trouble(
    tmp_path: Path, arguments: str
) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "fwc_llm", *arguments.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
    )
    assert running.stdout is not None
    running.stdout.close()
    _, err = running.communicate(timeout=120)
    assert running.returncode == 0
    assert "Broken" not in err
    assert "Traceback" not in err


TABLE = pd.DataFrame({"group": ["a", "b"], "label": [1, 0], "answer": [1, 0]})


def far_cell(path: Path) -> None:
    TABLE.to_excel(path, index=False)
    book = openpyxl.load_workbook(path)
    book.active["XFD1048576"] = 1
    book.save(path)


def ever_new_keys(path: Path) -> None:
    rows = (
        {"group": "a", "label": 1, "answer": 0, f"k{row}": 1} for row in range(5000)
    )
    path.write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.parametrize(
    ("name", "write", "words"),
    [
        ("t.xlsx", far_cell, "cell XFD1048576 is outside of the 3 titled"),
        ("t.jsonl", ever_new_keys, "not rows of one table"),
    ],
)
def test_a_table_too_large(
    fwc: Run, tmp_path: Path, name: str, write: Any, words: str
) -> None:
    write(tmp_path / name)
    audit = f"audit {tmp_path / name} --protected group --answer answer"
    assert words in fwc(audit, code=2).line


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is Linux's"
)
def test_audits_grow_linearly_in_groups(rng: Generator, tmp_path: Path) -> None:
    n = 20_000
    columns = {"first": 50, "second": 50, "label": 2, "answer": 2}  # 2,500 groups
    frame = pd.DataFrame(
        {name: rng.integers(0, most, n) for name, most in columns.items()}
    )
    frame[["first", "second"]] = "g" + frame[["first", "second"]].astype(str)
    table = tmp_path / "t.csv"
    page = tmp_path / "page.html"
    frame.to_csv(table, index=False)
    words = f"audit {table} --protected first,second --answer answer --label label"
    out, kilobytes = peak(f"{words} --report {page}")
    assert kilobytes < 500_000
    assert len(out.splitlines()) < 200  # three tables of 20 groups
    assert "The first 100 of" in page.read_text()
    assert page.stat().st_size < 5_000_000


@pytest.mark.slow
def test_a_link_in_a_run_is_not_written_through_and_a_pipe_is_once(
    fwc: Run, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    other = tmp_path / "other"
    pipe = tmp_path / "pipe"
    fwc(f"{EVAL} baseline --out", run, code=0)
    other.write_text("kept")
    (run / "report.html").symlink_to(other)
    assert (fwc("report", run).code, other.read_text()) == (2, "kept")
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    assert fwc("gate", run, "--fail-if", "dp_gap > 1", "--junit", pipe).code == 0
    assert reader.communicate(timeout=30)[0].count("<testsuites") == 1


# --- What is printed is text


def test_a_column_named_like_markup(fwc: Run, tmp_path: Path) -> None:
    frame = cycled(60, markup="x", sex="fm", income=["yes", "no", "no"])
    frame.loc[7, "markup"] = ""
    frame = frame.rename(columns={"markup": "[/b]:one:"})
    write_csv(tmp_path / "t.csv", frame)
    assert (
        fwc(f"task init {tmp_path / 't.csv'} --protected sex --outcome income").code
        == 0
    )
    outcome = fwc(f"shots --task {tmp_path / 't.toml'} --strategy random --m 4", code=0)
    assert "made the category 'unknown' ([/b]:one: 1)" in outcome.err


def test_what_a_function_prints_by_a_child_process_is_no_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with printing_aside():
        os.system("echo child")
        print("function")
    print("document")
    out, err = capfd.readouterr()
    assert (out, sorted(err.split())) == ("document\n", ["child", "function"])


# --- What cannot be done is refused in one line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [*corpus("mistakes/lines"), ("report \udcff", "is not UTF-8 text")],
)
def test_a_line_says_what_cannot_be(
    fwc: Run,
    tmp_path: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = fwc(*words.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.line
    assert "Traceback" not in outcome.err
    assert not steering(outcome.err)
    assert not list(tmp_path.iterdir())
