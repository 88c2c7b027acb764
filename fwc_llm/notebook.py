"""Values in notebooks: text, tables and bars, as HTML without scripts. What is not `Markup` is escaped."""

import sys
import unicodedata
from collections.abc import Iterable, Sequence

import markupsafe
from markupsafe import Markup

MOST_ROWS = 20
_LONGEST_CELL = 90
_FRAME = (
    "font:13px/1.45 system-ui,sans-serif;max-width:60em;overflow-x:auto;font-variant-numeric:tabular-nums"
)


def in_notebook() -> bool:
    """Return whether this code runs in a notebook's kernel."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(find() if find is not None else None, "kernel", None) is not None


def visible(text: str) -> str:
    """Return the text with characters that could reorder or hide it shown by their number."""
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩"
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn")
        else character
        for character in text
    )


def escape(value: object) -> Markup:
    """Return a value as HTML: markup as it is, anything else as text."""
    return value if isinstance(value, Markup) else markupsafe.escape(visible(str(value)))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts one after the other."""
    return Markup("".join(map(escape, parts)))


def element(name: str, *parts: object, **attributes: object) -> Markup:
    """Return an element with its content and attributes."""
    written = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{join(parts)}</{name}>")


def figure(title: str, *parts: Markup, simulated: bool = False, reference: bool = False) -> str:
    """Return the HTML of a value: its title, its parts, and a mark if it is simulated or a reference."""
    marks = ["SIMULATED"] * simulated + ["REFERENCE, NO LANGUAGE MODEL"] * reference
    style = "background:#f2c94c;color:#000;padding:0 .4em;border-radius:3px"
    badges = join(join([" ", element("b", mark, style=style)]) for mark in marks)
    head = element("div", element("b", title), badges or " ")
    return element("div", head, *parts, style=_FRAME)


def note(text: str) -> Markup:
    """Return a line of small print."""
    return element("div", text, style="opacity:.75")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> Markup:
    """Return a table of its first `MOST_ROWS` rows; `total` is how many there are, when only these are given.

    Long text is cut; columns of numbers are aligned to the right.
    """
    listed = list(rows)
    total = len(listed) if total is None else total
    columns = list(zip(*listed, strict=True)) if listed else [()] * len(headings)
    sides = ["right" if cells and all(map(_is_number, cells)) else "left" for cells in columns]

    def line(kind: str, cells: Sequence[object]) -> Markup:
        return element("tr", *(_cell(kind, cell, side) for cell, side in zip(cells, sides, strict=True)))

    head, body = line("th", headings), [line("td", row) for row in listed[:MOST_ROWS]]
    more = note(f"… and {total - MOST_ROWS:,} more") if total > MOST_ROWS else ""
    return join([element("table", element("thead", head), element("tbody", *body)), more])


def _is_number(cell: object) -> bool:
    return not isinstance(cell, Markup) and str(cell)[:1] in "0123456789+-−–<>"


def _cell(kind: str, cell: object, side: str) -> Markup:
    if not isinstance(cell, Markup) and len(str(cell)) > _LONGEST_CELL:
        cell = str(cell)[: _LONGEST_CELL - 1] + "…"
    style = f"text-align:{side};vertical-align:top;padding:.15em 1em .15em 0;white-space:nowrap"
    return element(kind, cell, style=style)


def bar(share: float, text: str = "") -> Markup:
    """Return a bar as long as a share between 0 and 1, with its text behind it."""
    width = f"{6 * min(max(share, 0.0), 1.0):.2f}em"
    style = f"display:inline-block;height:.7em;width:{width};background:#2f7fd1;margin-right:.4em"
    return element("span", element("span", style=style), text)
