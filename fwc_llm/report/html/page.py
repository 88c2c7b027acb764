"""The report as one HTML page: self-contained, without scripts, everything from the data escaped."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from fwc_llm.notebook import visible
from fwc_llm.report import lost, numbers
from fwc_llm.report.html import charts
from fwc_llm.report.tables import lines, rows, spread


def page(document: Mapping[str, Any]) -> str:
    """Return the page of a document (`make_document`). It loads nothing, and its policy forbids it to."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters |= {
        "number": numbers.number,
        "percent": numbers.percent,
        "count": lambda value: numbers.DASH if value is None else f"{value:,}",
        "tint": lambda place: (place - 1) % 8 + 1 if place else 0,
    }
    environment.globals |= {
        "lost": lost,
        "rows": rows,
        "lines": lines,
        "spread": spread,
        "charts": charts,
        "shape": charts.shape_path,
        "dash": numbers.DASH,
    }
    return environment.get_template("page.html.j2").render(
        document=document, several=len(document["runs"]) > 1
    )


def _template(name: str) -> str:
    return (files("fwc_llm.report.html") / "templates" / name).read_text(encoding="utf-8")


def _visible(value: Any) -> Any:
    """Text with control and formatting characters made visible; markup and other values as they are."""
    return visible(value) if type(value) is str else value
