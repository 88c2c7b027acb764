"""What values show in a notebook: escaped, of one screen, readable as XML, without scripts."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.notebook import (
    MOST_ROWS,
    Markup,
    bar,
    element,
    escape,
    figure,
    in_notebook,
    note,
    table,
    visible,
)


def parsed(html: str) -> ElementTree.Element:
    """The tree of a picture; a tag that is not closed or a cell that is not escaped fails here."""
    return ElementTree.fromstring(html)


@given(st.text(), st.text(), st.text())
def test_data_never_becomes_markup(title: str, cell: str, words: str) -> None:
    drawn = figure(title, table(("a",), [[cell]]), note(words), bar(0.5, words))
    names = {part.tag for part in parsed(drawn).iter()}
    assert names <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "span"}


def test_attributes_are_escaped_too() -> None:
    (name,) = parsed(element("a", title='"><script>')).attrib.values()
    assert name == '"><script>'


def test_markup_is_not_escaped_twice() -> None:
    assert escape(Markup("<b>1 &lt; 2</b>")) == "<b>1 &lt; 2</b>"
    assert escape("1 < 2") == "1 &lt; 2"


def test_characters_that_hide_text_are_shown() -> None:
    assert visible("a\u202eb\x00") == "a⟨U+202E⟩b⟨U+0000⟩"
    assert visible("naïve 10 €") == "naïve 10 €"


def test_a_long_table_ends_with_how_much_is_left_out() -> None:
    drawn = parsed(f"<x>{table(('n',), [[n] for n in range(1000)])}</x>")
    assert len(drawn.findall(".//tbody/tr")) == MOST_ROWS
    assert "and 980 more" in "".join(drawn.itertext())
    assert "…" in table(("n",), [["x" * 1000]])
    assert len(table(("n",), [["x" * 1000]])) < 600


def test_an_empty_table_is_drawn() -> None:
    assert "a" in table(("a", "b"), [])


@pytest.mark.parametrize(("share", "width"), [(0.5, "3.00em"), (-1.0, "0.00em"), (7.0, "6.00em")])
def test_bars_keep_to_their_share(share: float, width: str) -> None:
    assert f"width:{width}" in bar(share)


def test_a_test_runs_in_no_notebook() -> None:
    assert not in_notebook()
