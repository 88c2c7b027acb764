"""The page's style sheet on a chart that leaves the page: every colour and size as an attribute.

Word processors and vector editors read attributes; few read a style sheet inside of a picture.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from xml.etree.ElementTree import Element

_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_ATTRIBUTES = (
    *("fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity"),
    *("font-size", "font-family", "font-weight"),
)
_TEXT_ONLY = ("font-size", "font-family", "font-weight")
_Selector = tuple[tuple[str, frozenset[str]], ...]  # name and classes, from the outermost in


def resolve(element: Element, around: Sequence[Element] = (), color: str = "", weight: str = "") -> None:
    """Give an SVG element and all in it the attributes that the page's style sheet means; classes go.

    `around` are its ancestors, `color` and `weight` what it inherits.
    """
    declared = _declared(element, around)
    color = declared.get("color", color)
    weight = element.get("font-weight") or weight
    for name in _ATTRIBUTES:
        value = declared.get(name, element.get(name))
        if value is None or (name in _TEXT_ONLY and element.tag != "text"):
            element.attrib.pop(name, None)
            continue
        element.set(name, color if value == "currentColor" else value.removesuffix("px"))
    if weight and element.tag == "text":
        element.set("font-weight", weight)
    for child in element:
        resolve(child, (*around, element), color, weight)
    if not around:
        for one in element.iter():
            one.attrib.pop("class", None)


def variables() -> Mapping[str, str]:
    """Return the light page's colours by name."""
    root = _style_sheet().partition("}")[0]
    return dict(re.findall(r"--([\w-]+):\s*(#\w+)", root))


def _declared(element: Element, around: Sequence[Element]) -> dict[str, str]:
    """What the rules that match say; the more classes and names a rule has, the later it speaks."""
    found: dict[str, str] = {}
    for selector, said in _rules():
        if _matches(selector, element, around):
            found |= said
    return found


def _matches(selector: _Selector, element: Element, around: Sequence[Element]) -> bool:
    *outer, last = selector
    if not _is(element, last):
        return False
    left = list(around)
    for part in reversed(outer):
        while left and not _is(left[-1], part):
            left.pop()
        if not left:
            return False
        left.pop()
    return True


def _is(element: Element, part: tuple[str, frozenset[str]]) -> bool:
    name, classes = part
    return name in ("", element.tag) and classes <= set(element.get("class", "").split())


@cache
def _rules() -> list[tuple[_Selector, dict[str, str]]]:
    """The rules for charts and for the arms' colours, the least specific first."""
    text, colours = _style_sheet().partition("@media")[0], variables()
    after = _style_sheet().partition("* { box-sizing")[2].partition("@media")[0] or text
    found = []
    for selectors, body in _RULE.findall(after):
        for selector in selectors.split(","):
            words = selector.split()
            if words and (words[0] == "svg" or re.fullmatch(r"\.tint-\d", selector.strip())):
                parts = tuple(_part(word) for word in words)
                found.append((parts, _properties(body, colours)))
    return sorted(found, key=lambda rule: (sum(len(c) for _, c in rule[0]), sum(bool(n) for n, _ in rule[0])))


def _part(word: str) -> tuple[str, frozenset[str]]:
    name, *classes = word.split(".")
    return name, frozenset(classes)


def _properties(body: str, colours: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in body.split(";"):
        name, _, value = (part.strip() for part in one.partition(":"))
        value = re.sub(r"var\(--([\w-]+)\)", lambda match: colours.get(match[1], match[1]), value)
        if name == "font":
            found |= {"font-size": value.split()[0], "font-family": "DejaVu Sans, Verdana, sans-serif"}
        elif name:
            found[name] = value
    return found


@cache
def _style_sheet() -> str:
    return (files("fwc_llm.report.html") / "templates" / "style.css").read_text(encoding="utf-8")
