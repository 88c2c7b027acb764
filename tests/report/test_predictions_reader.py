"""Files of predictions: the texts of a CSV file whatever the format; P(yes), refused with a remedy."""

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fwc_llm import FwcError
from fwc_llm.metrics.answers import as_names
from fwc_llm.report.predictions_reader import (
    answered_at,
    choose_threshold,
    looks_like_probability,
    probabilities,
    read_columns,
)


def test_shares_are_taken_and_empty_cells_are_unknown() -> None:
    shares = probabilities(as_names(["0.5", "1", "", "1e-3", "0"]), "p")
    np.testing.assert_array_equal(shares, [0.5, 1.0, np.nan, 0.001, 0.0])
    answers = answered_at(shares, 0.5).tolist()
    assert [answers[place] for place in (0, 1, 3, 4)] == ["yes", "yes", "no", "no"]
    assert pd.isna(answers[2])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["0.5", "87 %"], "in 1 of 2 rows (row 2 '87 %')"),
        (["0,5"], "a decimal point"),
        *((["0.5", text], f"row 2 {text!r}") for text in ("87", "-1.3", "maybe", "1_0", "nan", "inf")),
        (["2"] * 9, "row 5 '2')"),
        (["x" * 9999], "'xxxx"),
    ],
)
def test_what_is_no_share_is_named(cells: list[str], said: str) -> None:
    with pytest.raises(FwcError) as raised:
        probabilities(as_names(cells), "p")
    assert said in str(raised.value)
    assert len(str(raised.value)) < 400


def test_probabilities_in_place_of_answers_are_recognised() -> None:
    assert looks_like_probability(["0.2", "0.7", "1", ""])
    assert not looks_like_probability(["0", "1", "1", "2"])
    assert not looks_like_probability(["0.2", "0.7", "maybe"])
    assert not looks_like_probability(["0", "1", ""])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((None, None, None), "--answer, or that of probabilities with --p-yes"),
        (("said", "p", 0.4), "leave out one of them"),
        ((None, "p", 1.4), "not from 0 to 1"),
        ((None, "p", float("nan")), "not from 0 to 1"),
    ],
)
def test_columns_and_threshold_must_fit(
    given: tuple[str | None, str | None, float | None], said: str
) -> None:
    with pytest.raises(FwcError, match=said):
        choose_threshold(*given)
    assert choose_threshold(None, "p", None) == 0.5


def test_every_format_has_the_texts_of_a_csv_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([7, 2**60 + 1, None], dtype="Int64"),
            "number": [1.0, 0.25, None],
            "flag": [False, True, True],
            "day": [date(2025, 1, 2), date(2026, 1, 2), None],
            "level": pd.Categorical(["y", "x", None], categories=["never", "y", "x"]),
            "text": ['b, "c"', "", " NA "],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    read = read_columns(tmp_path / "a.parquet", list(frame.columns))
    assert {name: names.tolist() for name, names in read.items()} == {
        "whole": ["7", str(2**60 + 1), ""],
        "number": ["1", "0.25", ""],
        "flag": ["false", "true", "true"],
        "day": ["2025-01-02", "2026-01-02", ""],
        "level": ["y", "x", ""],
        "text": ['b, "c"', "", "NA"],
    }
    frame[["text", "flag"]].to_csv(tmp_path / "a.csv", index=False)
    assert read_columns(tmp_path / "a.csv", ["text"])["text"].tolist() == ['b, "c"', "", "NA"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.parquet", b"PAR1", "is no Parquet table"),
        ("bad.csv", b"a,b\n1,2\n1,2,3\n", "is not a CSV file"),
        ("bad.csv", b"a,b\n\xff,2\n", "is no UTF-8 text"),
        ("none.parquet", None, "cannot read"),
        ("none.csv", None, "cannot read"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FwcError, match=words):
        read_columns(tmp_path / name, ["a"])
