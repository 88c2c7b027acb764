"""Building blocks for values in notebooks: text, tables, bars and lines, as HTML without scripts.

Everything that is not `Markup` is data and is escaped. Colours suit light and dark pages.
"""

import html
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

COLOURS = ("#8a8780", "#2f7fd1", "#c2700a", "#0c9482", "#8b66d4", "#d1495b", "#7a8b00", "#c03f86")
MOST_ROWS = 20
_LONGEST_CELL = 90
# Characters that could reorder or hide the text around them are shown by their number instead.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn"}
_KEPT = {"\n", "\t"}
_FRAME = (
    "font:13px/1.45 system-ui,sans-serif;max-width:60em;overflow-x:auto;font-variant-numeric:tabular-nums"
)


class Markup(str):
    """HTML that is not escaped again."""

    __slots__ = ()


class Shell(Protocol):
    """What a notebook's kernel offers to the code that runs in it."""

    kernel: Any


def shell() -> Shell | None:
    """Return the shell of the notebook that this code runs in, or None."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    found = find() if find is not None else None
    return found if getattr(found, "kernel", None) is not None else None


def visible(text: str) -> str:
    """Return the text with control and formatting characters made visible."""
    if text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(character):04X}⟩"
        if character not in _KEPT and unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )


def escape(value: object) -> Markup:
    """Return a value as HTML: markup as it is, anything else as text."""
    return value if isinstance(value, Markup) else Markup(html.escape(visible(str(value))))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts one after the other."""
    return Markup("".join(map(escape, parts)))


def element(name: str, *parts: object, **attributes: object) -> Markup:
    """Return an element; `_` in an attribute's name stands for `-`, and a closing `_` is dropped."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{said}>{join(parts)}</{name}>")


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
    style = f"display:inline-block;height:.7em;width:{width};background:{COLOURS[1]};margin-right:.4em"
    drawn = join([element("span", style=style), text])
    return element("span", drawn)


def sparkline(values: Sequence[float], label: str, width: float = 240.0, height: float = 44.0) -> Markup:
    """Return a small line plot of the values, the lowest at the bottom."""
    if len(values) < 2:
        return Markup("")
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step, scale = (width - 4) / (len(values) - 1), (height - 6) / span
    points = " ".join(
        f"{2 + step * place:.1f},{height - 3 - scale * (value - low):.1f}"
        for place, value in enumerate(values)
    )
    line = element("polyline", points=points, fill="none", stroke=COLOURS[1], stroke_width="1.5")
    return svg(width, height, label, line)


def svg(width: float, height: float, label: str, *parts: object) -> Markup:
    """Return a drawing of this size; `label` says in words what it shows."""
    box, shape = f"0 0 {width:g} {height:g}", f"display:block;width:{width:g}px;max-width:100%"
    return element("svg", *parts, viewBox=box, style=shape, role="img", aria_label=label)
