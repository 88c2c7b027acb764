"""Output files: regular ones whole, pipes and devices through, links to regular files alone."""

import io
import os
import stat
import threading
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fwc_llm import FwcError, load_task, select_shots
from fwc_llm.apportion import largest_remainder
from fwc_llm.files import write_whole
from fwc_llm.notebook import MOST_ROWS, element, figure, note, table, visible
from fwc_llm.progress import Progress, Silent, Terminal, choose
from fwc_llm.prompt_rows import ColumnFormatter, decimal
from fwc_llm.tasks import Column
from tests.refusals import refused


def test_a_file_is_replaced_as_a_whole_and_a_link_to_one_stays(tmp_path: Path) -> None:
    file = tmp_path / "file"
    link = tmp_path / "link"
    write_whole("old", file)
    link.symlink_to(file)
    write_whole("new \ud800", link)
    assert link.is_symlink()
    assert file.read_text() == "new \\ud800"
    write_whole(b"\xff\0", link)
    assert file.read_bytes() == b"\xff\0"
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_a_pipe_is_written_through_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    parts = []
    os.mkfifo(pipe)
    reader = threading.Thread(
        target=lambda: parts.append(pipe.read_text()), daemon=True
    )
    reader.start()
    write_whole("text", pipe)
    reader.join(30)
    assert parts == ["text"]
    assert pipe.is_fifo()


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    device = tmp_path / "null"
    with suppress(PermissionError):  # only the administrator makes devices
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    if device.exists():
        with suppress(
            FwcError
        ):  # a folder may be mounted so that its devices cannot be opened
            write_whole("text", device)
        assert device.is_char_device()
    assert [name for name in os.listdir(tmp_path) if name != "null"] == []


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe-link").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    for name in ("pipe-link", "nowhere", "loop", "folder", "no/such", "n" * 300):
        with refused("cannot write"):
            write_whole("text", tmp_path / name)
    assert not (tmp_path / "gone").exists()


# --- Shares as whole numbers


@pytest.mark.parametrize(
    ("quota", "least", "most", "expected"),
    [
        ([4 / 3, 4 / 3, 4 / 3], 0, 99, [2, 1, 1]),  # a tie goes to the earlier
        ([0.5, 2.0, 1.5], 0, 99, [1, 2, 1]),
        (
            [3.92, 0.04, 0.04],
            1,
            99,
            [2, 1, 1],
        ),  # what the least takes, the largest surplus gives
        ([3.9, 0.1, 0.0], 0, np.array([2, 9, 1]), [2, 1, 1]),
        ([2.9999999999999996, 1.0, 0.0], 0, 99, [3, 1, 0]),  # rounding is no remainder
    ],
)
def test_largest_remainders(
    quota: list[float], least: int, most: int, expected: list[int]
) -> None:
    assert largest_remainder(np.array(quota), 4, least, most).tolist() == expected


# --- Progress on a terminal and nowhere


STATE = Progress(3, 1, 6, None, 2.0, None)


@pytest.mark.slow
def test_a_file_or_pipe_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert isinstance(choose(), Silent)
    assert isinstance(choose(False), Silent)
    assert isinstance(choose(True), Terminal)
    shown = choose()
    with shown.working("working") as step, shown.asking(10) as change:
        step("more")
        change(STATE)
    select_shots(load_task("census"), "random", m=2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_what_was_asked_for_is_shown_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    select_shots(load_task("census"), "random", m=2, progress=True)
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_the_step_and_the_count() -> None:
    file = io.StringIO()
    shown = Terminal(
        Console(file=file, force_terminal=True, width=100, color_system=None)
    )
    with shown.working("reading [the table]") as step:
        step("choosing [examples]")
        time.sleep(0.2)
    assert "choosing [examples]" in file.getvalue()
    with shown.asking(20) as change:
        change(STATE)
        time.sleep(0.2)
    assert "asked 10 of 20" in file.getvalue()  # what was answered before counts
    assert "1 without reply" in file.getvalue()


def test_a_pipe_gets_plain_lines_now_and_then() -> None:
    file = io.StringIO()
    shown = Terminal(Console(file=file, width=60), seconds=0.0)
    with shown.working("solving") as step:
        step("still solving")
    with shown.asking(2376) as change:
        change(Progress(100, 2, 49, None, 20.0, 0.5))
        change(
            Progress(
                151,
                0,
                0,
                None,
                0.005,
                answers={"yes": 41, "no": 0, "unread": 3},
                waiting=8,
            )
        )
    asked = "asked 151 of 2,376 (20/s, 2 without reply, $0.5000, 0:01:51 left)"
    slowly = "asked 151 of 2,376 (0.3/min, 5 days, 3:36:40 left): 41 yes, 3 unread, 8 waiting"
    assert file.getvalue().splitlines() == ["still solving", asked, slowly]


def test_soon_done_or_without_standard_error_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    with Terminal(Console(file=file)).working("solving") as step:
        step("still solving")
    assert file.getvalue() == ""
    monkeypatch.setattr("sys.stderr", None)
    assert isinstance(choose(), Silent)


# --- What values show in a notebook


def parsed(html: str) -> ElementTree.Element:
    """The tree of a picture; a tag that is not closed or a cell that is not escaped fails here."""
    return ElementTree.fromstring(html)


@given(st.text(), st.text(), st.text())
def test_data_never_becomes_markup(title: str, cell: str, words: str) -> None:
    drawn = figure(
        title, table(("a",), [[cell]]), note(words), element("span", title=words)
    )
    names = {part.tag for part in parsed(drawn).iter()}
    assert names <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "span"}
    (name,) = parsed(element("a", title='"><script>')).attrib.values()
    assert name == '"><script>'


def test_characters_that_hide_text_are_shown() -> None:
    assert visible("a\u202eb\x00") == "a⟨U+202E⟩b⟨U+0000⟩"
    assert visible("naïve 10 €") == "naïve 10 €"


def test_a_long_table_ends_with_how_much_is_left_out() -> None:
    drawn = parsed(f"<x>{table(('n',), [[n] for n in range(1000)])}</x>")
    assert len(drawn.findall(".//tbody/tr")) == MOST_ROWS
    assert "and 980 more" in "".join(drawn.itertext())
    assert "…" in table(("n",), [["x" * 1000]])
    assert len(table(("n",), [["x" * 1000]])) < 600


# --- How the values of a column are written


HOURS = ColumnFormatter(Column("hours", "hours a week", "numeric", unit="hours"))
SCORE = ColumnFormatter(
    Column("score", "score", "numeric", values={"0.11440": "low", "2": "high"})
)
JOB = ColumnFormatter(
    Column("job", "job", "categorical", values={"A171": "unskilled", "3": "skilled"})
)


@pytest.mark.parametrize(
    ("cell", "value", "words"),
    [
        (HOURS, 40, "40 hours"),
        (HOURS, -2.0, "-2 hours"),
        (HOURS, np.float32(37.5), "37.5 hours"),
        (HOURS, Decimal("40.0"), "40 hours"),
        (HOURS, "many", "many hours"),
        (SCORE, 0.1144, "low"),
        (SCORE, "0.11440", "low"),
        (SCORE, 2.0, "high"),
        (SCORE, 0.5, "0.5"),
        (JOB, "A171", "unskilled"),
        (JOB, 3, "skilled"),
        (JOB, np.str_("A171"), "unskilled"),
        (JOB, "A999", "A999"),
        (JOB, True, "True"),
        (JOB, 1 + 2j, "(1+2j)"),
        (JOB, pd.Timestamp("2020-01-02"), "2020-01-02 00:00:00"),
    ],
)
def test_words(cell: ColumnFormatter, value: Any, words: str) -> None:
    assert cell.words(value) == words


@pytest.mark.parametrize(
    "nothing", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("nan")]
)
def test_nothing_is_refused(nothing: Any) -> None:
    for ask in (HOURS.words, HOURS.raw):
        with refused("no value for 'hours'"):
            ask(nothing)


def test_raw_values_keep_neither_map_nor_unit() -> None:
    assert HOURS.raw(40.0) == 40
    assert isinstance(HOURS.raw(40.0), int)
    assert SCORE.raw(0.1144) == 0.1144
    assert JOB.raw("A171") == "A171"
    assert JOB.raw("A\n171") == "A 171"


def test_decimal_filter() -> None:
    assert [decimal(value) for value in (21, 21.5, "21", "n/a")] == [
        "21.0",
        "21.5",
        "21.0",
        "n/a",
    ]
