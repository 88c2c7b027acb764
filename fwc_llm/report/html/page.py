"""The report as one HTML page: self-contained, with no script but our own, all from the data escaped."""

from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fwc_llm.notebook import visible
from fwc_llm.report import lost, numbers, provenance, thresholds
from fwc_llm.report.html import charts, probability_charts, scripts
from fwc_llm.report.html.contents import with_contents
from fwc_llm.report.read import KEY
from fwc_llm.report.tables import audit, lines, probability, rows, spread

if TYPE_CHECKING:
    from jinja2 import Environment


def page(document: Mapping[str, Any]) -> str:
    """Return the page of a document (`make_document`). It loads nothing, and its policy forbids it to.

    Runs with a `browser` (their rows) bring the one script of the page.
    """
    browsers = [run["browser"] for run in document["runs"] if run.get("browser")]
    rendered = (
        make_environment()
        .get_template("page.html.j2")
        .render(
            document=document,
            several=len(document["runs"]) > 1,
            audit=any(KEY in run["about"] for run in document["runs"]),
            browsers=browsers,
            **scripts.variables(bool(browsers)),
        )
    )
    return with_contents(rendered)


def make_environment() -> "Environment":
    """Return jinja2 with the page's templates, filters and what they call."""
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
        "json_block": scripts.data_block,
        "number": numbers.number,
        "percent": numbers.percent,
        "count": lambda value: numbers.DASH if value is None else f"{value:,}",
        "tint": lambda place: (place - 1) % 8 + 1 if place else 0,
    }
    environment.globals |= {
        "audit_tables": audit,
        "lost": lost,
        "provenance": provenance,
        "rows": rows,
        "lines": lines,
        "spread": spread,
        "charts": charts,
        "curves": probability_charts,
        "probability": probability,
        "thresholds": thresholds,
        "shape": charts.shape_path,
        "dash": numbers.DASH,
    }
    return environment


def _template(name: str) -> str:
    return (files("fwc_llm.report.html") / "templates" / name).read_text(encoding="utf-8")


def _visible(value: Any) -> Any:
    """Text with control and formatting characters made visible; markup and other values as they are."""
    return visible(value) if type(value) is str else value
