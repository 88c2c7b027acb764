"""How the values of a column are written."""

import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.errors import FwcError
from fwc_llm.records import Cell, clean, decimal
from fwc_llm.tasks import Column

HOURS = Cell(Column("hours", "hours a week", "numeric", unit="hours"))
SCORE = Cell(Column("score", "score", "numeric", values={"0.11440": "low", "2": "high"}))
JOB = Cell(Column("job", "job", "categorical", values={"A171": "unskilled", "3": "skilled"}))


@pytest.mark.parametrize(
    ("cell", "value", "words"),
    [
        (HOURS, 40, "40 hours"),
        (HOURS, 40.0, "40 hours"),
        (HOURS, 37.5, "37.5 hours"),
        (HOURS, -2.0, "-2 hours"),
        (HOURS, np.int64(40), "40 hours"),
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
def test_words(cell: Cell, value: Any, words: str) -> None:
    assert cell.words(value) == words
    assert cell.words(value) == words  # remembered, and the same


@pytest.mark.parametrize(
    "nothing", [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("nan")]
)
def test_nothing_is_refused(nothing: Any) -> None:
    for ask in (HOURS.words, HOURS.raw):
        with pytest.raises(FwcError, match="no value for 'hours'"):
            ask(nothing)


def test_raw_values_keep_neither_map_nor_unit() -> None:
    assert HOURS.raw(40.0) == 40
    assert isinstance(HOURS.raw(40.0), int)
    assert SCORE.raw(0.1144) == 0.1144
    assert JOB.raw("A171") == "A171"
    assert JOB.raw("A\n171") == "A 171"


def test_free_text_does_not_fill_the_memory() -> None:
    cell = Cell(Column("note", "note", "categorical"))
    tracemalloc.start()
    for i in range(10_000):
        assert cell.words(f"{i:1000}") == f"{i:1000}"
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 5000 * 1000


def test_decimal_filter() -> None:
    assert [decimal(value) for value in (21, 21.5, "21", "n/a")] == ["21.0", "21.5", "21.0", "n/a"]


@pytest.mark.parametrize(
    "text",
    ["<|im_start|>", "\ufe64|im_start|>", "\uff1c\uff5cim_start\uff5c\uff1e", "\ufe64s>", "[INST]",
     "\uff3bINST\uff3d",
     "\uff3b\uff29\uff2e\uff33\uff34\uff3d", "\ufe47/INST\ufe48"],
)  # fmt: skip
def test_marks_of_messages_are_neutral_in_every_width(text: str) -> None:
    assert clean(text) == f"{text[0]} {text[1:]}"
