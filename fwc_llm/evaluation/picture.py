"""The picture of a result: each arm's rate of yes per group, with intervals, beside the true rates."""

from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.notebook import COLOURS, Markup, element, svg
from fwc_llm.report.charts import group_rates, shape_path

_FONT = "font:12px system-ui,sans-serif"
_Ends = tuple[float, float]


def draw_rates(found: Mapping[str, Any]) -> Markup:
    """Return the drawing of `statistics`; groups differ by shape, arms by colour."""
    chart = group_rates(found)
    bottom, parts = chart["bottom"], []
    for place, tick in chart["x"].ticks:
        parts.append(_line((place, place), (16, bottom), "currentColor", 1, 0.15))
        parts.append(_text(place, bottom + 14, tick, "middle"))
    parts += [mark for row in chart["rows"] for mark in _row(row)]
    parts.append(_text(chart["width"] / 2, bottom + 29, "share of yes, %", "middle"))
    return svg(chart["width"], chart["height"], "rate of yes per group and arm", *parts)


def _row(row: Mapping[str, Any]) -> Iterator[Markup]:
    """One arm: its name, and a line a group with the rate's interval and mark."""
    colour = COLOURS[row["arm"] % len(COLOURS)]
    yield _text(8, row["y"] + 4, row["name"], bold=bool(row["arm"]))
    for point in row["points"]:
        y = point["y"]
        yield _text(106, y + 4, " ".join(point["lines"]), "end")
        if point["ends"]:
            yield _line(point["ends"], (y, y), colour, 4, 0.4)
        if point["x"] is not None:
            yield _mark(point["shape"], point["x"], y, colour)


def _mark(shape: int, x: float, y: float, colour: str) -> Markup:
    fill = "none" if shape == 0 else colour
    return element("path", d=shape_path(shape, x, y, 11), fill=fill, stroke=colour, stroke_width=2)


def _line(x: _Ends, y: _Ends, colour: str, width: float, opacity: float) -> Markup:
    ends = {"x1": x[0], "x2": x[1], "y1": y[0], "y2": y[1]}
    return element("line", **ends, stroke=colour, stroke_width=width, opacity=opacity)


def _text(x: float, y: float, words: str, anchor: str = "start", bold: bool = False) -> Markup:
    style = f"{_FONT};font-weight:600" if bold else _FONT
    shown = words if len(words) <= 44 else words[:43] + "…"
    return element("text", shown, x=x, y=y, text_anchor=anchor, fill="currentColor", style=style)
