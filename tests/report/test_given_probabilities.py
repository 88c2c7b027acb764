"""P(yes) out of tables: what is taken, and what is refused with rows and a remedy."""

import numpy as np
import pandas as pd
import pytest

from fwc_llm import FwcError
from fwc_llm.metrics.answers import as_names
from fwc_llm.report.given_probabilities import (
    answered_at,
    choose_threshold,
    looks_like_probability,
    probabilities,
)


def where(place: int) -> str:
    return f"line {place + 2}"


def test_shares_are_taken_and_empty_cells_are_unknown() -> None:
    shares = probabilities(as_names(["0.5", " 1 ", "", "1e-3", "0"]), "p", where)
    np.testing.assert_array_equal(shares, [0.5, 1.0, np.nan, 0.001, 0.0])
    answers = answered_at(shares, 0.5).tolist()
    assert [answers[place] for place in (0, 1, 3, 4)] == ["yes", "yes", "no", "no"]
    assert pd.isna(answers[2])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["0.5", "87 %"], "in 1 of 2 rows (line 3 '87 %'): write percent as shares, 0.87 for 87 %"),
        (["0,5"], "write a decimal point"),
        (["0.5", "87"], "divide them by 100"),
        (["-1.3", "0.2"], "log-odds"),
        (["maybe"], "leave a cell empty where there is no probability"),
        (["1_0"], "leave a cell empty"),
        (["nan"], "leave a cell empty"),
        (["inf"], "leave a cell empty"),
        (["2"] * 9, "line 6 '2' and 4 more"),
        (["x" * 9999], "'xxxx"),
    ],
)
def test_what_is_no_share_is_named(cells: list[str], said: str) -> None:
    with pytest.raises(FwcError) as raised:
        probabilities(as_names(cells), "p", where)
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
