"""One threshold for all, against answering row by row."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from fwc_llm import audit
from fwc_llm.metrics.decision_thresholds import (
    at_base_rate,
    most_accurate,
    threshold_curve,
)
from fwc_llm.metrics.predicted_probabilities import (
    Probabilities,
    calibrate,
    decision_notes,
)
from fwc_llm.metrics.records import Records
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers, samples_of
from fwc_llm.metrics.sampling_design import SamplingDesign
from tests.metrics.worlds import answers_of, metrics_of

GROUPS = np.array(["F", "M", "X"])


def rows(
    seed: int, n: int = 90, decimals: int = 2, groups: int = 2
) -> tuple[np.ndarray, ...]:
    """P(yes), labels and groups; few decimals make many ties."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) % groups
    labels = (rng.random(n) < 0.3 + 0.2 * member).astype(int)
    p = np.clip(0.45 + 0.2 * labels + 0.05 * member + rng.normal(0, 0.15, n), 0, 1)
    return np.round(p, decimals), labels, GROUPS[member]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(1, 3))
def test_every_point_is_what_its_threshold_answers(
    seed: int, decimals: int, groups: int
) -> None:
    p, labels, level = rows(seed, decimals=decimals, groups=groups)
    curve = threshold_curve(p, labels, level)
    assert curve.thresholds.tolist() == [*sorted(set(p.tolist())), np.inf]
    for place, threshold in enumerate(curve.thresholds):
        found = metrics_of((p >= threshold).astype(float), labels, level)
        assert curve.accuracy[place] == pytest.approx(found.accuracy)
        assert curve.gap[place] == pytest.approx(found.dp_gap, nan_ok=True)
        assert curve.ties[place] == (p == threshold).sum()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 2))
def test_choices_against_trying_all(seed: int, decimals: int) -> None:
    p, labels, level = rows(seed, decimals=decimals)
    curve = threshold_curve(p, labels, level)
    tried = [(p >= threshold).astype(float) for threshold in curve.thresholds]
    found = [metrics_of(answers, labels, level) for answers in tried]
    accuracy = [one.accuracy for one in found]
    assert curve.accuracy[most_accurate(curve)] == pytest.approx(max(accuracy))
    off = [abs(answers.mean() - labels.mean()) for answers in tried]
    assert abs(curve.share[at_base_rate(curve)] - labels.mean()) == pytest.approx(
        min(off)
    )


# --- All that is said of P(yes)


def test_weights_stand_for_so_many_equal_rows(rng: Generator) -> None:
    """All that P(yes) says of weighted rows is what it says of each row, repeated as often as it
    weighs.
    """
    frame = pd.DataFrame({"group": ["a", "b"] * 60, "label": rng.random(120) < 0.4})
    frame["p_yes"] = np.clip(0.3 + 0.3 * frame["label"] + rng.normal(0, 0.2, 120), 0, 1)
    frame = frame.assign(answer=frame["p_yes"] >= 0.5, weight=rng.integers(1, 4, 120))
    often = frame.loc[frame.index.repeat(frame["weight"])]
    weighted, repeated = (
        audit(frame, weight="weight"),
        audit(often.drop(columns="weight")),
    )
    told = 0
    for record in weighted.records:
        if re.search(
            "auc|brier|p_yes|calibration|_at_|threshold|base_rate", record.metric
        ):
            scope = {"scope": record.scope, "attribute": record.attribute}
            other = repeated.records.of(
                record.metric, record.arm, record.group, **scope
            )
            if not re.search("ties|coverage|clipped", record.metric):
                assert record.value == pytest.approx(other.value), record
            told += 1
    assert told > 20
    area = weighted.records.of("auc", "answers", "a")
    assert area.low < area.value < area.high


def said_of(answers: ArmAnswers, groups: str) -> Records:
    """The records on P(yes) of answers about these groups."""
    sample = samples_of({"": answers}, [*groups], SamplingDesign())[""]
    found = Probabilities.of(sample)
    assert found is not None
    return Records(found.records([*groups], "group"), "group")


def test_gap_of_the_mean_probability() -> None:
    p = [0.2, 0.9, 0.4, 0.7] * 5
    for groups, gap in {"ab": 0.5, "a": np.nan}.items():
        found = said_of(answers_of(np.ones(20), p, groups), "ab").of("mean_p_yes_gap")
        assert found.value == pytest.approx(gap, nan_ok=True)


def notes(*p: Any, repeat: Any = 0) -> str:
    values = np.array(p, float)
    said = np.where(np.isnan(values), np.nan, values >= 0.5)
    answers = answers_of(said, values, "fm", repeat=repeat)
    return " ".join(decision_notes(RunAnswers({"zero": answers}, ("f", "m"))))


def test_ties_are_those_on_the_threshold_alone() -> None:
    words = "zero: 2 of 5 P(yes) lie exactly on the threshold 0.5, which means yes."
    assert words in notes(0.5, 0.49, 0.5, np.nan, 0.51, 0.5000001)
    assert "1 of 2 P(yes) lies exactly" in notes(0.5, np.nan, 0.1)
    assert notes(*[0.1, 0.9] * 5) == ""


def test_too_few_probabilities_make_no_score() -> None:
    assert "1 of 16 answers has P(yes): too few" in notes(0.0, *[np.nan] * 15)
    frame = pd.DataFrame(
        {
            "group": [*"ab"] * 8,
            "label": "no",
            "answer": "no",
            "p_yes": [0.0] + [None] * 15,
        }
    )
    found = audit(frame).statistics
    assert not found.of("brier", "answers").known
    assert not found.of("brier_gap", "answers").metric


def test_probabilities_that_do_not_move_are_said() -> None:
    assert "zero: P(yes) is 0.487 whatever the row (40 answers)" in notes(*[0.487] * 40)
    assert "P(yes) lies from 0.48 to 0.49 whatever the row" in notes(*[0.48, 0.49] * 20)
    assert notes(*[0.48, 0.4901] * 20) == "", (
        "more than one step of a rounding to two decimals"
    )
    assert notes(*[0.001, 0.009] * 20) == "", (
        "nine times as likely for one row as for another"
    )
    assert "P(yes) is 0 whatever the row" in notes(*[0.0] * 40)
    assert "whatever" not in notes(*[0.487] * 9), "too few rows to say so"
    assert notes(*[0.487] * 39, 0.9) == ""
    assert notes(*[np.nan] * 40) == ""
    # Examples of another repeat may move all of them.
    p = [0.3] * 20 + [0.8] * 20
    assert "lies from 0.3 to 0.8 whatever the row" in notes(
        *p, repeat=[0] * 20 + [1] * 20
    )
    assert notes(*p) == ""


# --- Calibration against known truths


def calibrated(
    p: np.ndarray,
    labels: np.ndarray,
    rows: np.ndarray | None = None,
    fixed: bool = False,
) -> SimpleNamespace:
    """The calibration of answers to `rows` (default: every answer is about one of its own)."""
    rows = np.arange(len(p)) if rows is None else rows
    answers = replace(
        answers_of(p, p, "a"),
        label=labels.astype(np.int8),
        row=[f"{row:06}" for row in rows],
    )
    sample = samples_of({"": answers}, ["a"], SamplingDesign(fixed))[""]
    sample = replace(sample, p_yes=p[np.argsort(rows, kind="stable")])  # of few, too
    found = vars(calibrate(sample, np.zeros(len(p), np.int64), 1))
    return SimpleNamespace(**{name: value[0] for name, value in found.items()})


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    p = rng.beta(1, 3, n)
    return p, (rng.random(n) < p).astype(float)


def test_what_is_not_calibrated_is_found() -> None:
    p, labels = drawn(np.random.default_rng(3), 400)
    found = calibrated(np.clip(p + 0.3, 0, 1), labels)
    assert found.low > 0.15
    assert found.error > 0.15


def test_a_row_that_is_asked_again_counts_once() -> None:
    p, labels = drawn(np.random.default_rng(4), 60)
    once = calibrated(p, labels)
    again = calibrated(*(np.tile(values, 3) for values in (p, labels, np.arange(60))))
    assert (again.low, again.high) == pytest.approx((once.low, once.high))


def test_rows_that_are_alike_leave_no_false_certainty() -> None:
    found = calibrated(np.full(10, 0.1), np.zeros(10))
    assert found.difference == pytest.approx(0.1)
    assert found.low < 0.0 < 0.3 < found.high
    single = calibrated(np.array([0.4]), np.array([1.0]))
    assert single.low == -1.0
    assert single.high > 0.0
    pair = calibrated(
        np.array([0.2, 0.1]), np.ones(2)
    )  # the variance of two rows, and of two added ones
    assert pair.high == pytest.approx(
        1.959964 * np.sqrt(2 * 2 * 0.025**2 + 2 / 4) - 0.85
    )


def test_fixed_labels_take_their_part_out_of_the_interval() -> None:
    p, labels = drawn(np.random.default_rng(5), 200)
    free = calibrated(p, labels)
    fixed = calibrated(p, labels, fixed=True)
    assert fixed.difference == free.difference
    assert fixed.high - fixed.low < 0.8 * (free.high - free.low)
