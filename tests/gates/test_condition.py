"""Conditions: what is read, and where it is said that something cannot be."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm import FwcError
from fwc_llm.gates import Condition, parse_condition


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("dp > 0.1", ("dp", ">", 0.1, None, None)),
        ("  accuracy<.8 ", ("accuracy", "<", 0.8, None, None)),
        ("dp_ratio <= 8e-1", ("dp_ratio", "<=", 0.8, None, None)),
        ("eo[fwc+removal@random] >= 0", ("eo", ">=", 0.0, "fwc+removal@random", None)),
        ("coverage[ my arm ] < 1", ("coverage", "<", 1.0, "my arm", None)),
        ('dp["a]b"] > 1', ("dp", ">", 1.0, "a]b", None)),
        ("dp[' a'] > 1", ("dp", ">", 1.0, " a", None)),
        ("dp[fwc] - dp[zero] > -0.05", ("dp", ">", -0.05, "fwc", "zero")),
        ("accuracy[a]−accuracy[b]<0", ("accuracy", "<", 0.0, "a", "b")),
    ],
)
def test_what_is_read(text: str, parts: tuple[object, ...]) -> None:
    read = parse_condition(text)
    assert (read.metric, read.operator, read.bound, read.arm, read.minus) == parts
    assert read.text == text.strip()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at its end a metric must stand here: accuracy, dp, dp_ratio, eo, coverage"),
        ("DP > 0.1", r"at 'DP > 0.1' \(character 1\) a metric"),
        ("dpx > 0.1", r"\(character 1\) a metric"),
        ("dp 0.1", r"at '0.1' \(character 4\) one of <, <=, >, >= must stand here"),
        ("dp == 0.1", r"\(character 4\) one of"),
        ("dp >> 0.1", r"at '> 0.1' \(character 5\) a number"),
        ("dp > nan", r"at 'nan' \(character 6\) a number"),
        ("dp > 0.1 or eo > 1", r"at 'or eo > 1' \(character 10\) nothing may follow"),
        ("dp > 10%", "write a share, 0.1 for 10 %"),
        ("accuracy < 80", r"at '80' \(character 12\) accuracy lies from 0 to 1 \(0.8 is 80 %\), 80 does not"),
        ("dp[zero > 0.1", r"at '\[zero > 0.1' \(character 3\) this bracket is not closed by \]"),
        ("dp['a] > 0.1", "not closed by '"),
        ("dp['a'x] > 0.1", r"at 'x\] > 0.1' \(character 7\) \] must stand here"),
        ("dp[] > 0.1", "must hold an arm's name"),
        ("dp[a] - eo[b] > 0", r"at 'eo\[b\] > 0' \(character 9\) differences are of one metric"),
        ("eo[a] - eo[b] > 0", "differences are of one metric, accuracy or dp"),
        ("dp[a] - dp > 0", r"a difference names two arms: dp\[fwc\] - dp\[zero\]"),
        ("dp - dp[a] > 0", "a difference names two arms"),
        ("dp[a] - dp[a] > 0", "a difference names two arms"),
        ("dp[a] - dp[b] > 2", "a difference of dp lies from -1 to 1"),
        ("dp -", "at its end a metric"),
        ("\x00\x1b[31m" + "x" * 9999, "character 1"),
    ],
)
def test_what_is_not_is_pointed_at(text: str, said: str) -> None:
    with pytest.raises(FwcError, match=said) as raised:
        parse_condition(text)
    assert len(str(raised.value)) < 500


@settings(max_examples=200, deadline=None)
@given(st.text("adp[]-'\"> <=0.1e\n\x00−accuracy", max_size=30))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(FwcError):
        assert isinstance(parse_condition(text), Condition)


def test_arms_that_are_not_there_are_refused() -> None:
    parse_condition("dp > 0.1").check_arms([])
    parse_condition("dp[a] - dp[b] > 0.1").check_arms(["a", "b"])
    with pytest.raises(FwcError, match="names the arm 'b'; the arms are a, fwc"):
        parse_condition("dp[a] - dp[b] > 0.1").check_arms(["a", "fwc"])
