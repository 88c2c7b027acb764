"""An SVG of our own as PNG, drawn by matplotlib (extra `[plot]`): the few elements that our charts use."""

import re
from io import BytesIO
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DOTS, _SCALE = 200, 1.5  # dots an inch, and how much larger than a pixel of 1/96 inch
_POINT = 0.75 * _SCALE  # points of a unit
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def as_png(picture: Element) -> bytes:
    """Return the picture as PNG; the same bytes for the same picture and version of matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    _, _, width, height = (float(number) for number in picture.get("viewBox", "").split())
    with rc_context({"font.family": ["DejaVu Sans"], "text.usetex": False, "text.parse_math": False}):
        figure = Figure(figsize=(width / 96 * _SCALE, height / 96 * _SCALE), dpi=_DOTS)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        _draw(axes, picture, 0.0, 0.0)
        out = BytesIO()
        figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _draw(axes: "Axes", element: Element, x: float, y: float) -> None:
    """Draw an element and all in it, moved by x and y."""
    if element.tag == "g" and (moved := element.get("transform")):
        right, down = map(float, _NUMBER.findall(moved)[:2])
        x, y = x + right, y + down
    draw = _ELEMENTS.get(element.tag)
    if draw is not None:
        draw(axes, element, x, y)
    if element.tag in ("svg", "g"):
        for child in element:
            _draw(axes, child, x, y)


def _number(element: Element, name: str, otherwise: float = 0.0) -> float:
    return float(element.get(name, otherwise))


def _look(element: Element) -> dict[str, Any]:
    """Fill, edge and opacity as matplotlib's patches take them."""
    stroke = element.get("stroke", "none")
    return {
        "facecolor": element.get("fill", "none"),
        "edgecolor": stroke,
        "linewidth": 0 if stroke == "none" else _POINT * _number(element, "stroke-width", 1.0),
        "alpha": _number(element, "opacity", 1.0),
    }


def _line(axes: "Axes", element: Element, x: float, y: float) -> None:
    ends = [[_number(element, f"{name}{end}") for end in "12"] for name in "xy"]
    _stroke(axes, element, [one + x for one in ends[0]], [one + y for one in ends[1]])


def _polyline(axes: "Axes", element: Element, x: float, y: float) -> None:
    numbers = [float(one) for one in _NUMBER.findall(element.get("points", ""))]
    _stroke(axes, element, [one + x for one in numbers[::2]], [one + y for one in numbers[1::2]])


def _stroke(axes: "Axes", element: Element, x: list[float], y: list[float]) -> None:
    dashes = [float(one) for one in _NUMBER.findall(element.get("stroke-dasharray", ""))]
    axes.plot(
        x,
        y,
        color=element.get("stroke", "none"),
        linewidth=_POINT * _number(element, "stroke-width", 1.0),
        alpha=_number(element, "opacity", 1.0),
        linestyle=(0, dashes) if dashes else "-",
        solid_capstyle="butt",
        zorder=1 + len(axes.get_children()),
    )


def _rectangle(axes: "Axes", element: Element, x: float, y: float) -> None:
    from matplotlib.patches import Rectangle

    corner = _number(element, "x") + x, _number(element, "y") + y
    size = _number(element, "width"), _number(element, "height")
    _add(axes, Rectangle(corner, *size, **_look(element)))


def _circle(axes: "Axes", element: Element, x: float, y: float) -> None:
    from matplotlib.patches import Circle

    centre = _number(element, "cx") + x, _number(element, "cy") + y
    _add(axes, Circle(centre, _number(element, "r"), **_look(element)))


def _path(axes: "Axes", element: Element, x: float, y: float) -> None:
    """A mark of `shape_path`: a circle of two arcs, or steps from corner to corner."""
    from matplotlib.patches import Circle, Polygon

    steps = re.findall(r"([Mlhva])([^a-zA-Z]*)", element.get("d", ""))
    numbers = [[float(one) for one in _NUMBER.findall(text)] for _, text in steps]
    place = numbers[0][0] + x, numbers[0][1] + y
    corners = [place]
    for (kind, _), step in zip(steps[1:], numbers[1:], strict=True):
        if kind == "a":
            _add(axes, Circle((place[0] + step[0], place[1]), step[0], **_look(element)))
            return
        across, down = (step[0], 0.0) if kind == "h" else (0.0, step[0]) if kind == "v" else step[:2]
        corners.append((corners[-1][0] + across, corners[-1][1] + down))
    _add(axes, Polygon(corners, closed=True, **_look(element)))


def _add(axes: "Axes", patch: Any) -> None:
    patch.set_zorder(1 + len(axes.get_children()))
    axes.add_patch(patch)


def _text(axes: "Axes", element: Element, x: float, y: float) -> None:
    """A text, or its lines; one that is turned stands upright at the place it was moved to."""
    from matplotlib.patheffects import Stroke

    turned = element.get("transform", "")
    if turned:
        right, down = map(float, _NUMBER.findall(turned)[:2])
        lines = [(right, down, element.text)]
    else:
        lines = [(_number(one, "x"), _number(one, "y"), one.text) for one in (element, *element) if one.text]
    outline = _POINT * _number(element, "stroke-width") if element.get("stroke") else 0.0
    effects = [Stroke(linewidth=outline, foreground=element.get("stroke"))] if outline else []
    for across, down, said in lines:
        axes.text(
            across + x,
            down + y,
            (said or "").strip(),
            fontsize=_POINT * _number(element, "font-size", 12.0),
            fontweight="bold" if element.get("font-weight") in ("600", "bold") else "normal",
            color=element.get("fill", "#000000"),
            ha=_ANCHORS[element.get("text-anchor", "start")],
            va="baseline",
            rotation=90 if turned else 0,
            zorder=1 + len(axes.get_children()),
            path_effects=effects,
        )


_ELEMENTS = {
    "line": _line,
    "polyline": _polyline,
    "rect": _rectangle,
    "circle": _circle,
    "path": _path,
    "text": _text,
}
