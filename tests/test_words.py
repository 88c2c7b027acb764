"""Sentences that take two readings: the worst patterns are not in pages, help and docstrings.

A net, not the work: a sentence without these patterns may still be a riddle.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from fwc_llm.cli.program import every_command
from tests.conftest import CHECKOUT
from tests.test_docs import FENCE, PAGES, docstrings, name, options
from tests.test_house import SOURCES

PATTERNS = {
    "a variable as so many": r"\bso (?:many|few)\b(?! that)",
    "none as a predicate": r"\b(?:is|are|was|were) none\b",
    "inversion": r"(?:^|[.;:] )Of [a-z` ]{3,60} (?:only|alone|are|is)\b",
    "no subject": r"\b(?:is|are|was|were) (?:told|said)\b",
    "for whom": r"\bfor (?:how many|who|whom|what)\b",
    "as it lies": r"\bas (?:it|they) (?:lie|stand|fall)s?\b",
    "anew": r"(?<!`)\banew\b",
    "where there is": r"\bwhere (?:there|that) (?:is|are)\b",
    "of yours": r"\bof (?:yours|ours)\b",
    "take turns": r"\btak(?:e|es|ing) turns\b|\bin turn with\b",
    "beside each other": r"\bbeside each other\b|\bset apart\b",
}
MOST_WORDS = 12
# Options whose values need more words than twelve.
LONG = {
    "--model",
    "--strategy",
    "--format",
    "--fail-if",
    "--option",
    "--install-completion",
    "--show-completion",
}


def found(text: str) -> Iterator[str]:
    """Each pattern in a text, with the words around it."""
    for kind, pattern in PATTERNS.items():
        for match in re.finditer(pattern, text, re.M):
            yield f"{kind}: …{text[max(0, match.start() - 40) : match.end() + 40]}…"


MANUAL = [
    page
    for page in PAGES
    if name(page) == "README.md" or page.parent == CHECKOUT / "docs"
]


@pytest.mark.parametrize("page", MANUAL, ids=name)
def test_no_page_has_a_sentence_of_two_readings(page: Any) -> None:
    text = " ".join(FENCE.sub("", page.read_text()).split())
    assert list(found(text)) == []


def test_help_is_short_and_has_one_reading() -> None:
    for option in options(every_command()):
        assert list(found(option.help)) == [], option.opts
        words = re.sub(r"\[default: .*\]", "", option.help).split()
        assert len(words) <= MOST_WORDS or option.opts[0] in LONG, (
            option.opts,
            option.help,
        )


def test_docstrings_have_one_reading() -> None:
    hits = [
        f"{name(path)}: {hit}"
        for path in SOURCES
        for text in docstrings(path)
        for hit in found(text)
    ]
    assert hits == []
