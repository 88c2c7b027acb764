"""The parser of replies: recorded answers, a labelled corpus, and replies that fool looser
rules.
"""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.answers import Answer, p_yes, parse_answer, read_answer
from fwc_llm.models.base import Reply
from fwc_llm.models.bodies import read_reply
from fwc_llm.words import YES_NO, spellings
from tests.command import corpus, read_json

GERMAN = {"yes": "bewilligt", "no": "abgelehnt"}


def answer(text: str | None, finish_reason: str = "stop") -> Answer:
    return parse_answer(Reply(text=text, finish_reason=finish_reason))


def test_every_recorded_answer_is_parsed(data_dir: Path) -> None:
    """Those of GPT-4 and GPT-3.5 that DecodingTrust recorded."""
    seen = {}
    for file in (data_dir / "gpt4-answers").glob("*.jsonl"):
        for _, response in read_json(file):
            choice = response["choices"][0]
            text = choice["message"]["content"]
            seen[text] = answer(text, choice["finish_reason"]).value
    assert seen == {
        "yes": "yes",
        "no": "no",
        "Yes": "yes",
        "No": "no",
        "Yes.": "yes",
        "No.": "no",
    }


@pytest.mark.parametrize(("file", "least_read"), [("replies", 0.75), ("second", 0.7)])
def test_the_corpus_of_replies(file: str, least_read: float) -> None:
    """None is read as another answer than a reader gives, and most of the answers are read."""
    read: Counter[bool] = Counter()
    for case in corpus(file):
        keys = ("content", "reasoning_content", "refusal", "tool_calls")
        choice = {"message": {key: case[key] for key in keys if key in case}}
        choice["finish_reason"] = case.get("finish_reason", "stop")
        reply = read_reply({"choices": [choice]})
        value = parse_answer(reply, case.get("words", YES_NO)).value
        assert value in (None, case["answer"]), case
        if case["answer"] is not None:
            read[value is not None] += 1
    assert read[True] >= least_read * read.total()


QUESTIONS = {
    "en": "Does this person earn more than 50K?",
    "de": "Verdient diese Person mehr als 50.000 Dollar und ist das sicher?",
    "fr": "Est-ce que cette personne gagne plus que 50 000 dollars ?",
    "es": "¿Gana esta persona más que 50.000 dólares del año?",
    "it": "Questa persona guadagna più che 50.000 dollari e ha una casa?",
    "pt": "Esta pessoa ganha mais que 50.000 dólares do ano?",
}


@pytest.mark.parametrize(
    "file", ["misleading", "third", "fourth", "fifth", "plain", "held_out"]
)
def test_what_misleads_is_not_read_and_what_is_plain_is(file: str) -> None:
    """1,179 replies in six languages: most of them seem to answer and take it back, or refuse."""
    read: Counter[bool] = Counter()
    for case in corpus(file):
        question = case.get("question", QUESTIONS[case["language"]])
        value = parse_answer(
            case["text"], spellings(question, YES_NO, case.get("words"))
        ).value
        assert value in (None, case["answer"]), case
        if case["answer"] is not None:
            read[value is not None] += 1
    assert read[True] >= 0.9 * read.total()


# Too long for a label that answers to come up by chance.
UNKNOWN = st.text(alphabet=st.characters(categories=("L",)), min_size=5, max_size=12)
DENIED = {"yes": ["yes", "approved"], "no": ["no", "denied"]}


@given(
    UNKNOWN
    | st.sampled_from(
        ["Denied", "approved", "Not approved", "Wrong answer", "not_the_answer"]
    )
    | st.sampled_from(
        ["error", "abgelehnt", "Rechazado", "Nicht die Antwort", "La question"]
    ),
    st.sampled_from([": ", " = ", " - ", ":\n", "? ", ":** "]),
    st.sampled_from(["yes", "no", "Yes.", "**No**"]),
)
def test_an_answer_under_another_label_is_not_read(
    label: str, sign: str, word: str
) -> None:
    """ "Denied: no" says yes, if anything."""
    assert parse_answer(f"{label}{sign}{word}", DENIED).value is None
    assert parse_answer(json.dumps({label: word}), DENIED).value is None


@given(
    st.dictionaries(
        UNKNOWN,
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["yes", "no", ""])
        | st.text(),
        max_size=4,
    ),
    st.sampled_from(["yes", "no"]),
)
def test_json_is_read_where_one_field_answers_and_no_other_says_anything(
    further: dict[str, object], word: str
) -> None:
    assert parse_answer(json.dumps(further)).value is None
    says_nothing = all(value is None or value == "" for value in further.values())
    value = parse_answer(json.dumps(further | {"answer": word})).value
    assert value == word if says_nothing else value in (None, word)
    for more in ({"uncertain": True}, {"final": "yes" if word == "no" else "no"}):
        assert parse_answer(json.dumps({"answer": word} | further | more)).value is None


def test_every_reply_is_read_or_has_its_reason() -> None:
    """What answers and what does not, in one line each, in the words of a task where it has some."""
    for case in corpus("reasons"):
        found = parse_answer(case["text"], case.get("words", YES_NO))
        assert found == Answer(case.get("answer"), case.get("reason", "")), case


def test_how_the_reply_ended_counts() -> None:
    assert answer("", "length") == Answer(None, "truncated")
    assert answer("The person in question", "length") == Answer(None, "truncated")
    assert answer("I'm sorry, but as an AI", "length") == Answer(None, "refused")
    assert answer("Yes, because", "length") == Answer("yes")
    assert answer("So the answer is no", "length") == Answer(
        None, "truncated"
    )  # "no longer clear"
    assert answer("Yes", "content_filter") == Answer(None, "filtered")
    assert answer(None) == Answer(None, "error")
    assert parse_answer(Reply(text="Yes", refusal=True)) == Answer(None, "refused")


def test_the_language_of_a_question_adds_its_yes_and_no() -> None:
    assert spellings("Wird dieser Antrag bewilligt, und ist er es wert?", YES_NO)[
        "no"
    ] == ["no", "nein"]
    assert "sí" in spellings("¿Es probable que esta persona gane más?", YES_NO)["yes"]
    assert spellings("Cette personne est-elle solvable ?", YES_NO) == {
        "yes": ["yes", "oui"],
        "no": ["no", "non"],
    }
    for question in (
        "Is this person's income above $50k?",
        "Hired?",
        "Has the Kredit der Bank die Note?",
    ):
        assert spellings(question, YES_NO) == {"yes": ["yes"], "no": ["no"]}
    german = "Wird dieser Antrag bewilligt, und ist er es wert?"
    both = {"yes": ["bewilligt", "yes", "ja"], "no": ["abgelehnt", "no", "nein"]}
    assert spellings(german, GERMAN) == both
    assert spellings(german, YES_NO, GERMAN)["yes"] == ["yes", "ja", "bewilligt"]
    assert spellings("Wird dieser Antrag abgelehnt, und ist das so?", GERMAN)[
        "yes"
    ] == ["bewilligt"]
    assert spellings("Kept?", YES_NO, {"yes": ["no"], "no": ["yes"]}) == {
        "yes": ["yes"],
        "no": ["no"],
    }
    for reply in ("Bewilligt.", "Ja.", "Ja, bewilligt.", "Entscheidung: bewilligt"):
        assert parse_answer(reply, both).value in (None, "yes")
    assert (
        parse_answer("Ja.", both).value
        == parse_answer("Bewilligt.", both).value
        == "yes"
    )
    assert parse_answer("Nein, der Antrag sollte abgelehnt werden.", both).value == "no"
    assert parse_answer("Ja, abgelehnt.", both).value is None


@pytest.mark.parametrize(
    "text",
    [
        "yes " * 1_000_000,
        "<think>" * 600_000,
        "{" * 4_000_000,
        "no\n<" * 800_000,
        "No. " + "\n" * 1_000_000,
    ],
)
def test_megabytes_are_parsed(text: str) -> None:
    assert answer(text) == answer(text[:400_000])


@given(st.text())
def test_any_text_has_exactly_one_of_value_and_reason(text: str) -> None:
    parsed = answer(text)
    assert (parsed.value is None) == (parsed.reason != "")


@given(st.text(alphabet="ynoesYNOES /.,-", max_size=12))
def test_a_value_is_never_taken_from_inside_a_word(text: str) -> None:
    letters = "".join(c if c.isalpha() else " " for c in text).lower().split()
    assert answer(text).value in {
        None,
        *(
            letter if len(letter) > 1 else {"y": "yes", "n": "no"}.get(letter)
            for letter in letters
        ),
    }


def test_p_yes_weighs_all_spellings() -> None:
    top = [
        ("Yes", math.log(0.5)),
        (" yes", math.log(0.1)),
        ("No", math.log(0.2)),
        ("Maybe", math.log(0.1)),
    ]
    assert p_yes(top) == pytest.approx(0.6 / 0.8)
    assert p_yes([("▁no", -0.1), ("Ġyes", -math.inf)]) == 0.0
    assert p_yes([("yes.", -1e-9)]) == 1.0
    tokens = [
        (" Bew", math.log(0.6)),
        ("abge", math.log(0.2)),
        ("b", -math.inf),
        ("Bei", math.log(0.2)),
    ]
    assert p_yes(tokens, GERMAN) == pytest.approx(0.75)
    assert p_yes([(" appro", -0.01)], {"yes": "approve", "no": "approximate"}) is None


@pytest.mark.parametrize(
    ("mass", "known"), [(1e-9, False), (0.049, False), (0.051, True)]
)
def test_p_yes_is_unknown_where_both_words_are_hardly_ever_said(
    mass: float, known: bool
) -> None:
    """A local server gave 1.0 and 0.0 from masses of 1e-9."""
    top = [("Sorry", math.log(1 - mass)), ("Yes", math.log(mass))]
    assert p_yes(top) == (1.0 if known else None)
    both = [("yes", math.log(mass / 2)), ("no", math.log(mass / 2))]
    assert p_yes(both) == (pytest.approx(0.5) if known else None)


def test_p_yes_is_none_where_neither_word_has_mass() -> None:
    for top in (
        None,
        [("Not", -0.1), ("yesterday", -2.0)],
        [("yes", -math.inf)],
        [("no", math.nan)],
    ):
        assert p_yes(top) is None


def test_a_probability_is_read_where_a_reply_states_one() -> None:
    for case in corpus("stated"):
        reply = Reply(case["content"], case.get("finish_reason", "stop"))
        found = read_answer(reply, case.get("words", YES_NO), stated=True)
        assert [found.p_yes, found.answer.reason] == case["read"], case
