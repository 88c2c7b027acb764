"""The command line among hostile replies, folders and arguments: exit codes, and what a terminal gets."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Outcome
from tests.conftest import CHECKOUT
from tests.faults.loopback import HttpReply, completion, refusal, serve_in_thread

Run = Callable[..., Outcome]
ESCAPES = "\x1b]52;c;ZXZpbA==\x07 \x9b31m \u202e"
EVAL = ("eval", "--task", "census", "--shots", "zero", "--n-test", 8, "--model", "test-model")


def steering(text: str) -> set[str]:
    return {mark for mark in "\x1b\x07\x9b\u202e" if mark in text}


@pytest.mark.slow
def test_nothing_that_a_service_sends_steers_the_terminal(fwc: Run, tmp_path: Path) -> None:
    body = completion(f"Yes {ESCAPES}", f"model {ESCAPES}")
    with serve_in_thread(lambda request: HttpReply(body)) as url:
        outcome = fwc(*EVAL, "--base-url", f"{url}/v1", "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "answers as" in outcome.err
    told = [outcome, *(fwc("report", tmp_path / "run", "--format", name) for name in ("md", "csv", "json"))]
    for each in told:
        assert each.code == 0
        assert not steering(each.out + each.err)
    assert f"model {ESCAPES}" in json.loads(told[-1].out)["runs"][0]["about"]["returned_models"]


@pytest.mark.slow
def test_every_row_refused_ends_with_4_and_the_reason(fwc: Run, tmp_path: Path) -> None:
    too_long = refusal(400, "maximum context length is 10 tokens", "context_length_exceeded")
    with serve_in_thread(lambda request: too_long) as url:
        outcome = fwc(*EVAL, "--base-url", f"{url}/v1", "--out", tmp_path / "run")
    assert outcome.code == 4
    assert "8 of 8 requests have no reply" in outcome.line
    assert "8 of them: the service refuses this row (400: maximum context length" in outcome.line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("eval", "--param", "x=" + "[" * 1000), "nested"),
        (("eval", "--model", "m", "--base-url", "http://[::1"), "is not an http"),
        (("report", "x" * 300), "is not a folder"),
        (("rescore", "x" * 300), "is not a folder"),
        (("eval", "--task", "~nobody-at-all/x.toml"), "cannot read the task file"),
        (("eval", "--task", "adult", "--data-dir", "~nobody-at-all/x"), "does not exist"),
        (("eval", "--m", ESCAPES), "Invalid value"),
        (("eval", "--\x1b[2J"), "No such option"),
        (("report", "\udcff"), "is not UTF-8 text"),
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "backslashreplace").decode() if value else "",
)
def test_what_cannot_be_is_refused_in_a_line(fwc: Run, arguments: tuple[Any, ...], words: str) -> None:
    outcome = fwc(*arguments)
    assert outcome.code == 2
    assert words in outcome.line
    assert not steering(outcome.err)


@pytest.mark.slow
def test_a_circle_of_links_is_refused(fwc: Run, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for arguments in (("report", tmp_path / "a"), (*EVAL, "--out", tmp_path / "a"),
                      ("eval", "--task", tmp_path / "a" / "x.toml")):  # fmt: skip
        assert fwc(*arguments).code == 2


@pytest.mark.slow
def test_a_run_without_its_journal_keeps_its_answers(fwc: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert fwc(*EVAL[:-1], "surrogate", "--out", run).code == 0
    answers, journal = (run / "answers.csv").read_bytes(), run / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    outcome = fwc("rescore", run)
    assert outcome.code == 0
    assert "3 of 8 requests have no reply" in outcome.err
    (run / "answers.csv").write_bytes(answers)
    journal.unlink()
    outcome = fwc("rescore", run)
    assert outcome.code == 2
    assert "journal.jsonl is missing" in outcome.line
    assert (run / "answers.csv").read_bytes() == answers


def test_an_empty_column_is_none(fwc: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",y\n1,2\n")
    outcome = fwc("task", "init", tmp_path / "t.csv", "--protected", "", "--outcome", "y")
    assert outcome.code == 2
    assert "is empty" in outcome.line


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("eval", "--n-test", "8", "--shots", "zero"), ("tasks",)])
def test_a_reader_that_leaves_early_is_no_trouble(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "fwc_llm", *arguments]
    running = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.close()
    _, err = running.communicate(timeout=120)
    assert running.returncode == 0
    assert "Broken" not in err
    assert "Traceback" not in err
