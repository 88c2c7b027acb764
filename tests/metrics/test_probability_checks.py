"""Answers by a threshold: ties, contradictions, and probabilities that do not depend on the row."""

from typing import Any

import numpy as np
import pytest

from fwc_llm.metrics.answers import Answered, Answers
from fwc_llm.metrics.probability_checks import contradictions, decision_notes, ties


def notes(*p: Any, repeat: Any = 0) -> str:
    values = np.array(p, float)
    n = len(values)
    texts = np.array([""] * n)
    answers = Answers(
        repeat=np.broadcast_to(np.array(repeat), n),
        row=np.array([f"row:{k}" for k in range(n)]),
        variant=texts,
        group=np.array(["f", "m"] * n)[:n],
        label=np.zeros(n, dtype=np.int8),
        answer=np.where(np.isnan(values), np.nan, values >= 0.5),
        reason=texts,
        p_yes=values,
        examples=texts,
    )
    return " ".join(decision_notes(Answered({"zero": answers}, ("f", "m"))))


def test_ties_are_those_on_the_threshold_alone() -> None:
    assert ties([0.5, 0.49, 0.5, np.nan, 0.51, 0.5000001]) == 2
    assert "zero: 2 of 5 P(yes) lie exactly on the threshold 0.5 and count as yes." in notes(
        0.5, 0.5, 0, 1, 0.7
    )
    assert "1 of 2 P(yes) lies exactly" in notes(0.5, np.nan, 0.1)
    assert notes(0.1, 0.9) == ""


def test_contradictions_are_counted_by_kind() -> None:
    p, other = [0.9, 0.9, 0.1, 0.1, np.nan, 0.5], [0.8, 0.2, 0.3, 0.6, 0.5, 0.5]
    opposite, same = contradictions(p, other, True), contradictions(p, other, False)
    assert opposite == {
        "n": 5, "contradictions": 3, "yes_to_both": 2, "no_to_both": 1,
        "mean_distance": pytest.approx((0.7 + 0.1 + 0.6 + 0.3 + 0) / 5),
    }  # fmt: skip
    assert (same["contradictions"], same["yes_to_both"], same["no_to_both"]) == (2, 2, 1)
    assert same["mean_distance"] == pytest.approx((0.1 + 0.7 + 0.2 + 0.5) / 5)
    assert contradictions([np.nan], [0.5], True)["mean_distance"] is None


def test_probabilities_that_do_not_move_are_said() -> None:
    assert "zero: P(yes) is 0.487 whatever the row (40 answers)" in notes(*[0.487] * 40)
    assert "P(yes) lies from 0.48 to 0.49 whatever the row" in notes(*[0.48, 0.49] * 20)
    assert notes(*[0.48, 0.4901] * 20) == "", "more than one step of a rounding to two decimals"
    assert notes(*[0.001, 0.009] * 20) == "", (
        "always unlikely, nine times as likely for one row as for another"
    )
    assert "P(yes) is 0 whatever the row" in notes(*[0.0] * 40)
    assert notes(*[0.487] * 9) == "", "too few rows to say so"
    assert notes(*[0.487] * 39, 0.9) == ""
    assert notes(*[np.nan] * 40) == ""


def test_examples_of_another_repeat_may_move_all_of_them() -> None:
    p = [0.3] * 20 + [0.8] * 20
    assert "lies from 0.3 to 0.8 whatever the row" in notes(*p, repeat=[0] * 20 + [1] * 20)
    assert notes(*p) == ""
