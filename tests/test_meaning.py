"""Which values mean yes: one answer, whoever asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm import FwcError
from fwc_llm.meaning import MeaningRule, read_meaning


def test_a_remedy_is_written_as_its_caller_writes_it() -> None:
    counts = {"approved": 5, "denied": 4, "referred": 3}
    for kind, option in (
        ("python", "others='drop'"),
        ("command line", "others drop"),
        ("task file", 'others = "drop"'),
    ):
        with pytest.raises(FwcError, match=option):
            read_meaning(counts, "said", MeaningRule(options=kind))  # type: ignore[arg-type]


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
    with pytest.raises(FwcError, match="cannot mean both"):
        read_meaning({"a": 1, "b": 1}, "said", MeaningRule(("a",), ("A",)))


@given(st.dictionaries(st.text(max_size=8), st.integers(1, 9), min_size=1, max_size=4))
def test_no_value_means_both_and_none_is_lost(counts: dict[str, int]) -> None:
    try:
        meaning = read_meaning(counts, "said", MeaningRule())
    except FwcError:
        return
    assert not set(meaning.yes) & set(meaning.no)
    assert {*meaning.yes, *meaning.no} <= set(counts)
    assert not meaning.dropped


def test_a_remedy_leaves_somebody_to_say_no_and_lists_all_values() -> None:
    with pytest.raises(FwcError) as few:
        read_meaning({"yes": 5, "perhaps": 5}, "said", MeaningRule())
    assert "positive=" not in str(few.value)
    letters = dict.fromkeys("abcdefghijkl", 5)
    with pytest.raises(FwcError, match="others='no'"):
        read_meaning(letters, "said", MeaningRule(("a",)))
    assert len(read_meaning(letters, "said", MeaningRule(("a",), (), "no")).no) == 11


@pytest.mark.parametrize("codes", ["12", "129", "12345678"])
def test_one_is_a_code_where_no_value_is_zero(codes: str) -> None:
    with pytest.raises(FwcError, match=r"yes.* positive='1'"):
        read_meaning(dict.fromkeys(codes, 5), "said", MeaningRule())
    assert read_meaning(dict.fromkeys("01", 5), "said", MeaningRule()).yes == ("1",)


def test_a_threshold_is_offered_for_numbers_alone() -> None:
    for values, offered in (
        ("2020-01-01 2021-01-01 2022-01-01", False),
        ("3 4 5", True),
    ):
        counts = dict.fromkeys(values.split(), 9)
        with pytest.raises(FwcError) as caught:
            read_meaning(counts, "said", MeaningRule(above="above=NUMBER"))
        assert ("above=NUMBER" in str(caught.value)) == offered
