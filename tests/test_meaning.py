"""Which values mean yes: one answer, whoever asks."""

import re
import shlex
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm import FwcError
from fwc_llm.meaning import MeaningRule, read_meaning, usual_meaning, values_of
from fwc_llm.notices import to_command_line
from tests.command import corpus
from tests.refusals import refused


def test_given_values_are_compared_without_case_and_forms_of_numbers() -> None:
    assert read_meaning(
        {"Approved": 1, "open": 2}, "said", MeaningRule(("approved",))
    ).no == ("open",)
    assert read_meaning({"2.0": 1, "1": 1}, "said", MeaningRule(("2",))).yes == ("2.0",)
    assert read_meaning({"true": 1, "false": 1}, "said", MeaningRule(("1",))).yes == (
        "true",
    )
    both = read_meaning(
        {">50K": 1, ">50K.": 1, "<=50K": 2}, "said", MeaningRule((">50K",))
    )
    assert both.yes == (">50K", ">50K.")
    typed = MeaningRule(("approved,referred",), ("refused",))
    assert read_meaning(
        {"approved": 1, "referred": 1, "refused": 1}, "said", typed
    ).no == ("refused",)
    counts = {"yes": 5, "no": 4, "open": 1}
    assert read_meaning(counts, "said", MeaningRule(others="no")).no == ("no", "open")
    assert read_meaning(counts, "said", MeaningRule(others="drop")).dropped == ("open",)
    with refused("cannot mean both"):
        read_meaning({"a": 1, "b": 1}, "said", MeaningRule(("a",), ("A",)))


def test_a_value_beside_a_named_one_has_the_other_meaning() -> None:
    named = MeaningRule(negative=("low",))
    assert read_meaning({"low": 1, "high": 2}, "said", named).yes == ("high",)
    for value in ("denied", "foo"):  # with nothing named, only words that are known
        assert not usual_meaning({"denied": 1, value: 2}).yes
    empty = read_meaning({"denied": 1, "": 2}, "said", MeaningRule(("",)))
    assert (empty.yes, empty.no) == (("",), ("denied",))


@pytest.mark.parametrize("word", ["rejected", "denied", "abgelehnt", "refused"])
@pytest.mark.parametrize("negation", ["not", "nicht"])
def test_the_negation_of_a_word_for_no_means_yes(word: str, negation: str) -> None:
    values = {word: 3, f"{negation} {word}": 4}
    assert usual_meaning(values).yes == (f"{negation} {word}",)
    assert usual_meaning({"hired": 3, "not hired": 4}).yes == ("hired",)


@pytest.mark.parametrize("mark", ["NA", "na", "NULL", "null", "-", ".", "TBD"])
def test_a_mark_beside_two_values_is_a_missing_one(mark: str) -> None:
    rule = MeaningRule(("0",))
    meaning = read_meaning({"0": 5, "1": 4, mark: 2}, "default", rule)
    assert (meaning.yes, meaning.no, meaning.unknown) == (("0",), ("1",), (mark,))
    assert read_meaning({"yes": 5, "no": 4, mark: 2}, "said", MeaningRule()).unknown
    # Beside one value it may be the opposite: "A" is approved, "NA" not approved.
    pair = {"A": 5, mark: 2}
    assert read_meaning(pair, "said", MeaningRule(("A",))).no == (mark,)


@given(st.dictionaries(st.text(max_size=8), st.integers(1, 9), min_size=1, max_size=4))
def test_no_value_means_both_and_none_is_lost(counts: dict[str, int]) -> None:
    try:
        meaning = read_meaning(counts, "said", MeaningRule())
    except FwcError:
        return
    assert not set(meaning.yes) & set(meaning.no)
    assert {*meaning.yes, *meaning.no} <= set(counts)
    assert not meaning.dropped


def _typed(text: str) -> dict[str, Any]:
    words = [word.removeprefix("--") for word in shlex.split(text)]
    return {name: [value] for name, value in zip(words[::2], words[1::2], strict=True)}


_ONE = r"(?:positive|negative|others) ?= ?(?:\[.*?\]|'.*?'|\".*?\")"
FORMS = {
    "python": rf"{_ONE}(?:, {_ONE})*",
    "command line": r"--.*?(?= \(| or |\)|$)",
    "task file": rf"{_ONE}(?: and {_ONE})*",
}
READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "python": lambda text: eval(f"dict({text})"),
    "command line": _typed,
    "task file": lambda text: tomllib.loads(text.replace(" and ", "\n")),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("values", "positive", "others"), corpus("outcomes"))
def test_each_remedy_works_as_printed(
    kind: Any, values: str, positive: str, others: Any
) -> None:
    counts = dict.fromkeys(values.split(","), 5)
    given = tuple(filter(None, positive.split(",")))
    rule = MeaningRule(given, (), others, in_file=kind == "task file")
    spoken = to_command_line(print) if kind == "command line" else nullcontext()
    with spoken:
        with refused() as caught:
            read_meaning(counts, "said", rule)
        message = re.sub(
            r" in place of [^;)]*", "", str(caught.value).partition("say ")[2]
        )
    options = re.findall(FORMS[kind], message)
    assert options
    for option in options:
        read = {name: values_of(value) for name, value in READERS[kind](option).items()}
        last = read.pop("others", (others,))[0]
        new = replace(rule, others=last, **read)
        assert read_meaning(counts, "said", new).yes, option


@pytest.mark.parametrize("codes", ["12", "129", "12345678"])
def test_one_is_a_code_where_no_value_is_zero(codes: str) -> None:
    with refused(r"yes.*positive='1'"):
        read_meaning(dict.fromkeys(codes, 5), "said", MeaningRule())
    assert read_meaning(dict.fromkeys("01", 5), "said", MeaningRule()).yes == ("1",)


def test_a_threshold_is_offered_for_numbers_alone() -> None:
    for values, offered in (
        ("2020-01-01 2021-01-01 2022-01-01", False),
        ("3 4 5", True),
    ):
        counts = dict.fromkeys(values.split(), 9)
        with refused() as caught:
            read_meaning(counts, "said", MeaningRule(above="above=NUMBER"))
        assert ("above=NUMBER" in str(caught.value)) == offered


@pytest.mark.parametrize(
    ("values", "positive", "negative", "others", "doubted"), corpus("usual_words")
)
def test_a_usual_word_is_given_no_other_meaning_without_its_name(
    values: str, positive: Any, negative: Any, others: Any, doubted: str
) -> None:
    rule = MeaningRule(tuple(positive), tuple(negative), others)
    counts = dict.fromkeys(values.split(), 5)
    if not doubted:
        assert read_meaning(counts, "said", rule).yes
        return
    with refused(f"say what {doubted} means, a usual word") as caught:
        read_meaning(counts, "said", rule)
    for option in re.findall(FORMS["python"], str(caught.value).partition("word")[2]):
        ((side, typed),) = READERS["python"](option).items()
        meaning = read_meaning(
            counts, "said", replace(rule, **{side: values_of(typed)})
        )
        meant = {"positive": meaning.yes, "negative": meaning.no}
        assert {*meant[side]} >= {*typed.split(",")}


@pytest.mark.parametrize("typed", ["Ja,Ja, mit Auflagen", "ja, mit auflagen,Ja"])
def test_a_value_with_a_comma_can_be_typed_among_others(typed: str) -> None:
    counts = {"Ja": 5, "Nein": 5, "Ja, mit Auflagen": 5}
    meaning = read_meaning(counts, "said", MeaningRule((typed,)))
    assert {*meaning.yes} == {"Ja", "Ja, mit Auflagen"}
    assert meaning.no == ("Nein",)
    with refused(r"'mit Auflage' is none of them"):
        read_meaning(counts, "said", MeaningRule(("Ja,mit Auflage",)))


@pytest.mark.parametrize(
    "typed", ["Nein,", "Nein,Absage,", ["Nein", ""], ["Nein,Absage", ""]]
)
def test_a_comma_at_the_end_names_the_empty_value(typed: Any) -> None:
    rule = MeaningRule((), values_of(typed))
    counts = {"Ja": 5, "Nein": 5, "": 5}
    assert {*read_meaning(counts, "said", rule).no} == {"Nein", ""}
    assert f"--negative '{','.join(rule.negative)}'" == rule.written(
        negative=rule.negative
    )
