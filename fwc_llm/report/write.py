"""From run folders to the text of a report, in any format."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FORMATS = ("html", "md", "json", "csv", "ll144")


def choose_format(name: str | None, out: Path | None) -> str:
    """Return the format named, else that of the file's ending, else html; `FwcError` for an unknown one."""
    chosen = name or (out.suffix.lstrip(".").lower() if out and out.suffix else "html")
    chosen = {"htm": "html", "markdown": "md"}.get(chosen, chosen)
    if chosen not in FORMATS:
        what = f"format {name!r}" if name else f"the ending of {out}"
        raise FwcError(f"{what} is none of {', '.join(FORMATS)}: name one with --format")
    return chosen


def render(
    runs: Sequence[str | Path],
    format: str = "html",
    task: "str | Path | Task | None" = None,
    data_dir: str | Path | None = None,
    with_rows: bool = True,
    template: str | Path | None = None,
    reference: bool = False,
) -> str:
    """Return the report of run folders as text; see `make_document` for the arguments and errors.

    Only a page has the rows.
    """
    from fwc_llm.report.document import make_document

    rows = with_rows and format == "html"
    return write_document(make_document(runs, task, data_dir, rows, template, reference), format)


def write_document(document: Mapping[str, Any], format: str) -> str:
    """Return a document (`make_document`) as text in one of `FORMATS`."""
    if format == "json":
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if format == "csv":
        from fwc_llm.report.tables.tidy import tidy_csv

        return tidy_csv(document)
    if format == "ll144":
        from fwc_llm.report.tables.ll144 import ll144_csv

        return ll144_csv(document)
    if format == "md":
        from fwc_llm.report.tables.markdown import markdown

        return markdown(document)
    from fwc_llm.report.html.page import page

    return page(document)
