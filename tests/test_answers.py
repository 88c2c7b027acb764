"""The parser of replies: every distinct recorded answer, and replies that fool looser rules."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwc_llm.answers import Answer, p_yes, parse_answer
from fwc_llm.models.base import Reply
from tests.recorded import conversations


def answer(text: str | None, finish_reason: str = "stop") -> Answer:
    return parse_answer(Reply(text=text, finish_reason=finish_reason))


def test_every_recorded_answer_is_parsed(data_dir: Path) -> None:
    files = sorted((data_dir / "gpt4-answers").glob("*.jsonl"))
    seen = {reply.text: parse_answer(reply).value for file in files for _, reply in conversations(file)}
    assert seen == {"yes": "yes", "no": "no", "Yes": "yes", "No": "no", "Yes.": "yes", "No.": "no"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("NO", "no"), (" Yes", "yes"), ("Yes.\n", "yes"), ("**No**", "no"), ("'yes'", "yes"),
        ("\u201cNo.\u201d", "no"), ("1. yes", "yes"), ("No, the person is a student.", "no"),
        ("Yes - this record knows nothing otherwise", "yes"),  # "knows", "nothing": words, not answers
        ("no\u00a0", "no"),
    ],
)  # fmt: skip
def test_the_first_word_decides(text: str, value: str) -> None:
    assert answer(text) == Answer(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Yes/No", "ambiguous"), ("yes or no", "ambiguous"), ("I cannot answer that.", "refused"),
        ("I can\u2019t help with this", "refused"), ("I'm sorry, but I don't know", "refused"),
        ("As an AI language model, my view does not count", "refused"), ("It can’t be told", "refused"),
        ("Not enough information", "other"), ("None", "other"), ("yesterday", "other"),
        ("The person is not likely to earn that much", "other"), ("The answer is no", "other"),
        ("n\u006f\u0301", "other"),  # "nó" spelled with a combining accent
        ("n\u200bo", "other"), ("<think>hm</think> yes", "other"), ("?!", "other"),
        ("Answer: yes", "other"),  # strict: the answer was to be one word
        ("", "empty"), (" \n\t", "empty"),
    ],
)  # fmt: skip
def test_everything_else_is_unparsed_with_a_reason(text: str, reason: str) -> None:
    assert answer(text) == Answer(None, reason)  # type: ignore[arg-type]


def test_how_the_reply_ended_counts() -> None:
    assert answer("", "length") == Answer(None, "truncated")
    assert answer("The person in question", "length") == Answer(None, "truncated")
    assert answer("I'm sorry, but as an AI", "length") == Answer(None, "refused")
    assert answer("Yes, because", "length") == Answer("yes")
    assert answer("Yes", "content_filter") == Answer(None, "filtered")
    assert answer(None) == Answer(None, "error")
    assert parse_answer(Reply(text="Yes", refusal=True)) == Answer(None, "refused")


@settings(deadline=None)
@given(st.text())
def test_any_text_has_exactly_one_of_value_and_reason(text: str) -> None:
    parsed = answer(text)
    assert (parsed.value is None) == (parsed.reason != "")


@settings(deadline=None)
@given(st.text(alphabet="ynoesYNOES /.,-", max_size=12))
def test_a_value_is_never_taken_from_inside_a_word(text: str) -> None:
    letters = "".join(c if c.isalpha() else " " for c in text).lower().split()
    expected = letters[0] if letters and {"yes", "no"} & set(letters) == {letters[0]} else None
    assert answer(text).value == expected


def test_p_yes_weighs_all_spellings() -> None:
    top = [("Yes", math.log(0.5)), (" yes", math.log(0.1)), ("No", math.log(0.2)), ("Maybe", math.log(0.1))]
    assert p_yes(top) == pytest.approx(0.6 / 0.8)
    assert p_yes([("▁no", -0.1), ("Ġyes", -math.inf)]) == 0.0
    assert p_yes([("yes.", -1e-9)]) == 1.0


@pytest.mark.parametrize(("mass", "known"), [(1e-9, False), (0.049, False), (0.051, True)])
def test_p_yes_is_unknown_where_both_words_are_hardly_ever_said(mass: float, known: bool) -> None:
    """A local server gave 1.0 and 0.0 from masses of 1e-9."""
    top = [("Sorry", math.log(1 - mass)), ("Yes", math.log(mass))]
    assert p_yes(top) == (1.0 if known else None)
    both = [("yes", math.log(mass / 2)), ("no", math.log(mass / 2))]
    assert p_yes(both) == (pytest.approx(0.5) if known else None)


def test_p_yes_is_none_where_neither_word_has_mass() -> None:
    for top in (None, [("Not", -0.1), ("yesterday", -2.0)], [("yes", -math.inf)], [("no", math.nan)]):
        assert p_yes(top) is None
