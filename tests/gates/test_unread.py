"""Replies without an answer: verdicts and gates hold for every reading of them, unless one is
assumed.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from fwc_llm import audit
from fwc_llm.metrics.arm_comparison import compare
from fwc_llm.metrics.arm_estimates import ArmEstimates
from fwc_llm.metrics.counts import COUNTED
from fwc_llm.metrics.variance import ArmArrays
from tests.command import Run
from tests.metrics.worlds import losing, once
from tests.refusals import refused

GAP = "dp_gap"


def decisions(n: int = 2000, lost: float = 0.4, seed: int = 0) -> pd.DataFrame:
    """A gap of 0.2 that replies without an answer hide: women's no and men's yes are missing."""
    rng = np.random.default_rng(seed)
    sex = np.array(["f", "m"])[np.arange(n) % 2]
    yes = rng.random(n) < np.where(sex == "m", 0.6, 0.4)
    frame = pd.DataFrame(
        {"sex": sex, "said": np.where(yes, "yes", "no").astype(object)}
    )
    frame.loc[((sex == "m") == yes) & (rng.random(n) < lost), "said"] = None
    return frame


def audited(frame: pd.DataFrame, **more: Any) -> Any:
    return audit(frame, answer="said", protected=["sex"], label=None, **more)


def test_a_gap_that_missing_answers_hide_passes_no_gate() -> None:
    frame = decisions()
    worst = audited(frame)
    ignored = audited(frame, unread="ignore")
    assert ignored.check("dp_gap > 0.15").outcome == "within", (
        "what is read hides the gap"
    )
    check = worst.check("dp_gap > 0.15")
    assert (check.outcome, check.lacking) == ("cannot say", "replies")
    assert check.low <= 0.2 <= check.high
    assert "answers are missing" in check.reason
    assert "only fewer missing answers would settle it" in check.reason
    assert worst.check("dp_gap > 0.5").outcome == "within"
    assert worst.check("coverage > 0.5").outcome == "outside", (
        "coverage has no readings"
    )
    gap = worst.records.of(GAP, "answers")
    assert gap.verdict == "not settled: too many unread replies"
    assert not worst.records.find(f"{GAP}_rows_needed", "answers").known, (
        "no number of rows tells"
    )
    assert gap.ends == (check.low, check.high), "what is shown is what is judged"
    assert (
        worst.records.of(GAP, "answers", scope="replies that were read").high
        < check.high
    )
    assert audited(decisions(n=100)).check("dp_gap > 0.4").lacking == "rows"


def test_an_assumption_is_made_of_values_too_and_named() -> None:
    frame = decisions()
    filled = audited(frame.fillna("no")).records
    found = audited(frame, unread="as-no").statistics
    for key in (GAP, "dp_ratio"):
        assert found.of(key, "answers") == filled.of(key, "answers")
    assert found.of("coverage", "answers").value == pytest.approx(
        frame["said"].notna().mean()
    )
    assert found.unread == "as-no"
    assert any("counted as no: an assumption" in note for note in found.notes)
    with refused("as-no"):
        audited(frame, unread="as-yes")


def test_where_all_is_read_every_way_is_the_same() -> None:
    frame = decisions(lost=0.0)
    found = [
        audited(frame, unread=name).to_dict() for name in ("worst", "as-no", "ignore")
    ]
    for one in found:
        one.pop("unread")
    assert found[0] == found[1] == found[2]
    assert not any("without an answer" in note for note in found[0]["notes"])


def test_a_group_of_which_nothing_is_read_decides_nothing() -> None:
    frame = decisions(lost=0.0)
    frame.loc[frame["sex"] == "f", "said"] = None
    found = audited(frame)
    assert (
        found.check("dp_gap > 0.15").outcome
        == found.check("dp_gap > 0.99").outcome
        == "cannot say"
    )
    assert not found.records.of(GAP, "answers").verdict
    coverage = found.records.of("coverage_gap", "answers")
    assert (coverage.value, *coverage.ends) == pytest.approx((1.0, 1.0, 1.0), abs=0.01)
    assert coverage.verdict == "differs"
    assert audited(frame, unread="as-no").check("dp_gap > 0.15").outcome == "outside"


def arms(rng: np.random.Generator, n: int, groups: int) -> list[ArmArrays]:
    """Two arms' complete answers, and the same with some missing."""
    group = np.arange(n) % groups
    label = rng.integers(0, 2, n)
    made = []
    for _ in range(2):
        whole = once(rng.random(n) < rng.uniform(0.2, 0.8, groups)[group], group, label)
        shares = rng.uniform(0, 0.3, 2)[whole.answer.astype(int)]
        made += [whole, losing(rng, whole, shares, "refused")]
    return made


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_what_would_have_been_lies_within_the_worst_case(
    seed: int, groups: int
) -> None:
    """Of differences, whatever the missing answers were; of one arm: tests/metrics/test_counts.py."""
    rng = np.random.default_rng(seed)
    keys = [metric.key for metric in COUNTED]
    estimates = [ArmEstimates(arm) for arm in arms(rng, 60 * groups, groups)]
    truth, read = (
        compare((estimates[k], estimates[k + 2]), metrics=keys) for k in (0, 1)
    )
    for key in keys:
        worst = read[key].worst_case
        if worst is not None:
            (least, most), (low, high) = worst
            told = [low, least, truth[key].value, most, high]
            assert (np.diff(told) >= -1e-9).all(), key


def test_the_limits_of_two_arms_are_the_paired_ones_as_less_is_missing(
    rng: Generator,
) -> None:
    first, _, second, _ = arms(rng, 400, 2)
    answer = second.answer.copy()
    answer[:1] = np.nan
    whole, one_missing = (
        compare((ArmEstimates(first), ArmEstimates(each)))
        for each in (second, replace(second, answer=answer))
    )
    for key in ("accuracy", GAP):
        near = one_missing[key].decisive
        exact = (whole[key].low, whole[key].high)
        assert near == pytest.approx(exact, abs=0.012), key


@pytest.mark.parametrize("groups", [2, 3])
def test_rows_needed_tell_equal_groups_four_times_in_five(groups: int) -> None:
    rng = np.random.default_rng(groups)

    def drawn(n: int) -> ArmEstimates:
        return ArmEstimates(once(rng.random(n) < 0.3, np.arange(n) % groups))

    needed = [drawn(300).rows_needed(GAP) for _ in range(20)]
    rows = int(np.median([rows for rows in needed if rows]))
    told = np.mean(
        [drawn(rows)[GAP].verdict != "not settled: too few rows" for _ in range(250)]
    )
    assert told == pytest.approx(0.8, abs=0.08)


def test_the_command_line_assumes_what_it_is_told(fwc: Run, tmp_path: Path) -> None:
    decisions().to_csv(tmp_path / "said.csv", index=False)
    asked = ("audit", tmp_path / "said.csv", "--protected", "sex", "--answer", "said")
    gated = (*asked, "--fail-if", "dp_gap > 0.15")
    done = fwc(*gated, code=6)
    assert "more rows" not in done.line, "these would not help"
    fwc(*gated, "--unread", "ignore", code=0)
    assumed = fwc(*gated, "--unread", "as-no", "--json", code=0)
    assert assumed.json["statistics"]["sex"]["unread"] == "as-no"
