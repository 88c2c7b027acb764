"""A chart of the page as a picture of its own: title, what it shows, and whether it is simulated."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any
from xml.etree.ElementTree import Element, SubElement, fromstring, indent, tostring

from fwc_llm.notebook import visible
from fwc_llm.report.figures.styles import resolve, variables
from fwc_llm.report.html import charts
from fwc_llm.report.html.page import make_environment

_MARGIN, _LINE, _LETTERS = 10.0, 15.0, 58
_FONT = "DejaVu Sans, Verdana, sans-serif"
_SVG = "http://www.w3.org/2000/svg"
_RATES = "Bars: 95 % intervals. As wide as the shade is the DP gap."
_TRADEOFF = (
    "Bars: 95 % intervals. Dashed: the best accuracy that any answers to these rows can have at each gap. "
    "Shaded: within the noise floor (95 %). Hollow: answers without a language model."
)
_REPEATS = "Small dots: each repeat by itself. Large: over all repeats, with its 95 % interval."


def pictures(run: Mapping[str, Any]) -> Iterator[tuple[str, Element]]:
    """Yield the pictures of a document's run: a name for the file, and the SVG."""
    found = run["statistics"]
    draw: Any = make_environment().get_template("charts.html.j2").module
    yield "rates", _picture(run, "Rate of yes per group", draw.group_rates(charts.group_rates(found)), _RATES)
    tradeoff = charts.tradeoff(found)
    if tradeoff is not None:
        yield "tradeoff", _picture(run, "Accuracy against the DP gap", draw.tradeoff(tradeoff), _TRADEOFF)
    for name, metric, axis in (
        ("repeats-accuracy", "accuracy", "accuracy %"),
        ("repeats-dp-gap", "demographic_parity_difference", "DP gap"),
    ):
        chart = charts.repeats(found, metric)
        if chart is not None:
            title = f"{axis.removesuffix(' %').capitalize() if metric == 'accuracy' else axis} of each repeat"
            yield name, _picture(run, title, draw.repeats(chart, axis, title), _REPEATS)


def as_text(picture: Element) -> str:
    """Return the SVG as a file's text: the same bytes for the same numbers."""
    indent(picture)
    return tostring(picture, encoding="unicode") + "\n"


def _picture(run: Mapping[str, Any], title: str, drawn: str, caption: str) -> Element:
    chart = fromstring(str(drawn).strip())
    resolve(chart)
    _, _, width, height = (float(number) for number in chart.get("viewBox", "").split())
    head = [(title, 14.0, "bold"), *((line, 11.0, "") for line in _wrapped(str(run["label"])))]
    if run["simulated"]:
        head.append(("SIMULATED: no finding about a model", 11.0, "bold"))
    if run["reference"]:
        head.append(("REFERENCE, NO LANGUAGE MODEL", 11.0, "bold"))
    foot = [(line, 10.0, "") for line in _wrapped(caption)]
    top = _MARGIN + _LINE * len(head) + 6
    whole = top + height + _LINE * len(foot) + _MARGIN
    svg = Element("svg", {"xmlns": _SVG, "viewBox": f"0 0 {width + 2 * _MARGIN:g} {whole:g}"})
    svg.set("width", f"{2 * (width + 2 * _MARGIN):g}")
    svg.set("height", f"{2 * whole:g}")
    SubElement(svg, "title").text = visible(f"{title}, {run['label']}")
    ground = {"x": "0", "y": "0", "width": f"{width + 2 * _MARGIN:g}", "height": f"{whole:g}"}
    SubElement(svg, "rect", ground | {"fill": "#ffffff"})
    _lines(svg, head, _MARGIN + 11)
    inner = SubElement(svg, "g", {"transform": f"translate({_MARGIN:g} {top:g})"})
    inner.extend(list(chart))
    _halos(inner)
    _lines(svg, foot, top + height + 12)
    return svg


def _halos(element: Element) -> None:
    """Put a white copy behind each text that has an outline: not every reader draws it behind by itself."""
    for place, child in reversed(list(enumerate(element))):
        _halos(child)
        if child.tag == "text" and child.get("stroke"):
            element.insert(place, deepcopy(child))
            for name in ("stroke", "stroke-width", "stroke-linejoin"):
                child.attrib.pop(name, None)


def _lines(svg: Element, lines: Sequence[tuple[str, float, str]], y: float) -> None:
    ink, soft = variables()["ink"], variables()["soft"]
    for number, (text, size, weight) in enumerate(lines):
        said = {"x": f"{_MARGIN:g}", "y": f"{y + _LINE * number:g}", "font-size": f"{size:g}"}
        said |= {"font-family": _FONT, "fill": ink if size > 10 else soft}
        SubElement(svg, "text", said | ({"font-weight": weight} if weight else {})).text = visible(text)


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, _LETTERS)[:4] or [""]
