"""The report as one self-contained HTML page, with all text escaped."""

import hashlib
from base64 import b64encode
from importlib.resources import files

import jinja2
from markupsafe import Markup

from fwc_llm.notebook import visible
from fwc_llm.number_format import DASH, number
from fwc_llm.report.document import first_sections, models_of, sections_of
from fwc_llm.report.narrative import IS_THAT_GOOD
from fwc_llm.report.provenance import DECISIONS, SIGNED
from fwc_llm.report.sections import DEFINITIONS, grid, overview
from fwc_llm.report.table_model import TableCell
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots.base import Certificate

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def page(document: Fields, appendix: bool = False) -> str:
    """A document's page; with `appendix`, printing includes the folded parts."""
    browsers = [run["browser"] for run in document["runs"] if run.get("browser")]
    models = models_of(document)
    script = _script() if browsers else {"script": None}
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            document=document,
            several=len(document["runs"]) > 1,
            audit=any(DECISIONS in run["about"] for run in document["runs"]),
            models=[grid(models), overview(models)] if models else [],
            appendix=appendix,
            browsers=browsers,
            **script,
        )
    )


def environment() -> jinja2.Environment:
    """The Jinja environment of pages: text is escaped, hidden characters visible."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("fwc_llm.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            visible(value) if type(value) is str else value
        ),  # leaves Markup unchanged
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {
        "cell": lambda value: (
            value if isinstance(value, TableCell) else TableCell(str(value))
        ),
        "number": number,
        "at": lambda share: f"{100 * share:.2f}",
        "count": lambda value: DASH if value is None else f"{value:,}",
    }
    made.globals |= {
        "is_that_good": IS_THAT_GOOD,
        "sections_of": sections_of,
        "first_sections": first_sections,
        "definitions": DEFINITIONS,
        "certificate": Certificate,
        "signed": SIGNED,
        "policy": Markup(f"{_POLICY}; script-src 'none'"),
    }
    return made


def _script() -> Json:
    """The `script` of a page with rows, and the `policy` that allows no other script."""
    source = (files("fwc_llm.report") / "templates" / "rows.js").read_text(
        encoding="utf-8"
    )
    script = f'"use strict";\n(() => {{\n{source}}})();\n'
    checksum = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = (
        f"script-src 'sha256-{checksum}'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    return {"policy": Markup(f"{_POLICY}; {allowed}"), "script": Markup(script)}
