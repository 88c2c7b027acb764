"""Progress on a terminal and nowhere; tests/test_in_a_notebook.py has the notebook."""

import io

import pytest
from rich.console import Console

from fwc_llm import load_task, select_shots
from fwc_llm.progress import Progress, Silent, Terminal, choose


def state(
    done: int = 3, errors: int = 1, skipped: int = 6, rate: float = 2.0, cost: float | None = None
) -> Progress:
    return Progress(done, errors, skipped, None, rate, cost)


def terminal() -> tuple[io.StringIO, Terminal]:
    file = io.StringIO()
    return file, Terminal(Console(file=file, force_terminal=True, width=100, color_system=None))


@pytest.mark.slow
def test_a_file_or_pipe_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert isinstance(choose(), Silent)
    assert isinstance(choose(False), Silent)
    assert isinstance(choose(True), Terminal)
    shown = choose()
    with shown.working("working") as step, shown.asking(10) as change:
        step("more")
        change(state())
        shown.say("a line")
    select_shots(load_task("census"), "random", m=2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_what_was_asked_for_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    select_shots(load_task("census"), "random", m=2, progress=True)
    choose(True).say("[/b] is no markup")
    found = capsys.readouterr()
    assert found.out == ""
    assert "[/b] is no markup" in found.err


def test_a_terminal_shows_words_then_a_bar() -> None:
    file, shown = terminal()
    with shown.working("reading [the table]") as step:
        step("choosing [examples]")
    assert "choosing [examples]" in file.getvalue()
    with shown.asking(20) as change:
        change(state())
    assert "10/20" in file.getvalue()  # what was answered before counts
    assert "1 without reply" in file.getvalue()


def test_a_pipe_gets_plain_lines_now_and_then() -> None:
    file = io.StringIO()
    shown = Terminal(Console(file=file, width=60), seconds=0.0)
    with shown.working("solving") as step:
        step("still solving")
    with shown.asking(2376) as change:
        change(state(100, 2, 49, 20.0, 0.5))
    assert file.getvalue().splitlines() == [
        "still solving",
        "asked 151 of 2,376 (20/s, 2 without reply, $0.5000, 2 min left)",
    ]


def test_a_step_that_is_soon_done_prints_nothing_into_a_pipe() -> None:
    file = io.StringIO()
    with Terminal(Console(file=file)).working("solving") as step:
        step("still solving")
    assert file.getvalue() == ""


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_bar_stays_on_one_line(width: int) -> None:
    file = io.StringIO()
    shown = Terminal(Console(file=file, force_terminal=True, width=width, color_system=None))
    with shown.asking(2376) as change:
        change(state(100, 0, 51, 20.0))
    assert "151/2376" in file.getvalue()
    assert "\x1b[1A" not in file.getvalue().replace("\x1b[1A\x1b[2K", "", 1)  # nothing but its own line


def test_without_standard_error_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert isinstance(choose(), Silent)
