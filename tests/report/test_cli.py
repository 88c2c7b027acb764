"""`fwc-llm report` and `fwc-llm compare` from the command line: files, output, one line and exit code 2."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fwc_llm.cli import main

MakeRun = Callable[..., Path]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Runs `fwc-llm` with these words in an empty folder, without data; returns the exit code."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("FWC_LLM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def run(*words: object) -> int:
        monkeypatch.setattr("sys.argv", ["fwc-llm", *map(str, words)])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        return 0

    return run


def test_a_report_is_one_page_in_the_folder_named(make_run: MakeRun, command: Callable[..., int]) -> None:
    folder = make_run(repeats=1)
    assert command("report", folder) == 0
    assert not Path("report.html").exists()
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert command("report", folder, "-o", "other.md") == 0
    assert Path("other.md").read_text().startswith("# UCI Adult")


def test_the_page_of_several_runs_overwrites_nothing_unless_named(
    make_run: MakeRun, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make_run("a", repeats=1), make_run("b", repeats=1)
    assert command("report", *runs) == 0
    before = Path("report.html").read_text()
    assert command("report", *runs) == 2
    assert "report.html exists already" in capsys.readouterr().err
    assert command("report", runs[0], "-o", "report.html") == 0
    assert Path("report.html").read_text() != before


def test_text_formats_go_to_the_terminal(
    make_run: MakeRun, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(repeats=1)
    assert command("report", folder, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["task"] == "adult"
    assert command("report", folder, "--format", "csv") == 0
    assert capsys.readouterr().out.startswith("run,task,model")
    assert not list(Path().iterdir())


def test_compare_prints_a_table_or_json(
    make_run: MakeRun, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = make_run("a", repeats=1), make_run("b", repeats=1, model="gpt-4o")
    assert command("compare", first, second) == 0
    assert "gpt-4o" in capsys.readouterr().out
    assert command("compare", first, second, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["arms"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("report", "nowhere"), "nowhere is not a folder"),
        (("report", "{a}", "{german}"), "different tasks"),
        (("report", "{a}", "{a}"), "named twice"),
        (("report", "{a}", "--format", "pdf"), "none of html"),
        (("report", "{a}", "-o", "missing/x.html"), "cannot write"),
        (("compare", "{a}", "{german}"), "different tasks"),
        (("compare", "{a}", "nowhere"), "nowhere is not a folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    make_run: MakeRun,
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    places = {"a": make_run("a", repeats=1), "german": make_run("g", repeats=1, task="german")}
    assert command(*(word.format(**places) for word in words)) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
