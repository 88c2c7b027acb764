"""Conditions: what is read, and what is refused."""

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
    ("text", "word"),
    [
        ("", "METRIC"),
        ("DP > 0.1", "no metric"),
        ("dp 0.1", "OPERATOR"),
        ("dp == 0.1", "OPERATOR"),
        ("dp > nan", "NUMBER"),
        ("dp > 0.1 or eo > 1", "NUMBER"),
        ("dp > 10%", "0.1 for 10 %"),
        ("accuracy < 80", "from 0 to 1"),
        ("dp[zero > 0.1", "ARM"),
        ("dp['a'x] > 0.1", "ARM"),
        ("dp[] > 0.1", "ARM"),
        ("dp[a] - eo[b] > 0", "one metric"),
        ("eo[a] - eo[b] > 0", "one metric"),
        ("dp[a] - dp > 0", "two arms"),
        ("dp - dp[a] > 0", "two arms"),
        ("dp[a] - dp[a] > 0", "two arms"),
        ("dp[a] - dp[b] > 2", "from -1 to 1"),
        ("\x00\x1b[31m" + "x" * 9999, "METRIC"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, word: str) -> None:
    with pytest.raises(FwcError, match=word) as raised:
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
