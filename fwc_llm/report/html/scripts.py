"""The page's one script, the policy that lets it alone run, and the data that it reads."""

import hashlib
from base64 import b64encode
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from fwc_llm.report.browser.pack import json_block

_PARTS = ("rows_model.js", "rows_detail.js", "rows_view.js")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def variables(with_rows: bool) -> dict[str, Any]:
    """Return what the page's template needs: `policy` and `script`, None for a page without rows.

    The policy names the script by its checksum, and forbids markup to be made from text.
    """
    if not with_rows:
        return {"policy": Markup(f"{_POLICY}; script-src 'none'"), "script": None}
    folder = files("fwc_llm.report.html") / "templates"
    parts = "".join((folder / name).read_text(encoding="utf-8") for name in _PARTS)
    script = f'"use strict";\n(() => {{\n{parts}}})();\n'
    checksum = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{checksum}'; require-trusted-types-for 'script'; trusted-types 'none'"
    return {"policy": Markup(f"{_POLICY}; {allowed}"), "script": Markup(script)}


def data_block(value: Any) -> Markup:
    """Return data as JSON that can stand inside of a script element."""
    return Markup(json_block(value))
