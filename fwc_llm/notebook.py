"""HTML for notebooks, without scripts; everything except `Markup` is escaped."""

import sys
import unicodedata
from collections.abc import Iterable, Sequence

import markupsafe
from markupsafe import Markup

MOST_ROWS = 20
_LONGEST_CELL = 90
_FRAME = (
    "font:13px/1.45 "
    "system-ui,sans-serif;max-width:60em;overflow-x:auto;font-variant-numeric:tabular-nums"
)


def in_notebook() -> bool:
    """Whether this code runs in a notebook's kernel."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(find() if find is not None else None, "kernel", None) is not None


def visible(text: str) -> str:
    """Replace characters that hide or reorder text by their code point: ⟨U+202E⟩."""
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩"
        if character not in "\n\t"
        and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn")
        else character
        for character in text
    )


def escape(value: object) -> Markup:
    """A value as HTML: `Markup` unchanged, anything else as escaped text."""
    if isinstance(value, Markup):
        return value
    return markupsafe.escape(visible(str(value)))


def join(parts: Iterable[object]) -> Markup:
    """Concatenate the parts as HTML."""
    return Markup("".join(map(escape, parts)))


def element(name: str, *parts: object, **attributes: object) -> Markup:
    """An HTML element with content and attributes."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{join(parts)}</{name}>")


def badges(simulated: bool, reference: bool) -> list[str]:
    """What marks a simulation and a reference, beside every title."""
    return ["SIMULATED"] * simulated + ["REFERENCE, NO LANGUAGE MODEL"] * reference


def figure(
    title: str, *parts: Markup, simulated: bool = False, reference: bool = False
) -> str:
    """The HTML of a value: title, parts, and a mark if it is simulated or a reference."""
    style = "background:#f2c94c;color:#000;padding:0 .4em;border-radius:3px"
    marks = badges(simulated, reference)
    beside = join(join([" ", element("b", mark, style=style)]) for mark in marks)
    head = element("div", element("b", title), beside or " ")
    return element("div", head, *parts, style=_FRAME)


def note(text: str) -> Markup:
    """A line of small print."""
    return element("div", text, style="opacity:.75")


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None
) -> Markup:
    """An HTML table of the first `MOST_ROWS` of `total` rows, with long texts cut."""
    import pandas as pd

    listed = [[visible(str(cell)) for cell in row] for row in rows]
    cut = [
        [f"{x[:_LONGEST_CELL]}{'…' * (len(x) > _LONGEST_CELL)}" for x in row]
        for row in listed
    ]
    frame = pd.DataFrame(
        cut[:MOST_ROWS], columns=[visible(heading) for heading in headings]
    )
    if total is None:
        total = len(listed)
    else:
        total = total
    more = note(f"… and {total - MOST_ROWS:,} more") if total > MOST_ROWS else ""
    return join([Markup(frame.to_html(index=False, border=0, justify="left")), more])
