"""Renders reports of run folders in any format."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import json_text
from fwc_llm.metrics.counts import plain
from fwc_llm.report import local_law_144 as law
from fwc_llm.report.document import (
    first_sections,
    make_document,
    models_of,
    sections_of,
)
from fwc_llm.report.html import environment, page
from fwc_llm.report.narrative import caveats
from fwc_llm.report.provenance import SIGNED
from fwc_llm.report.records_csv import as_csv, records_csv
from fwc_llm.report.sections import grid, overview
from fwc_llm.report.table_model import Section, escaped, markdown, texts
from fwc_llm.sanitize import Fields

FORMATS = ("html", "md", "json", "csv", "tex", "ll144", "comment")
# What pandas leaves as it is, and LaTeX's default font prints as other characters.
_CAPTION = str.maketrans({sign: rf"\{sign}" for sign in "&%$#_{}"} | {"\\": "/"})
_TEX = str.maketrans(
    {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "−": "$-$"}
)
_LONGEST_COMMENT = 40  # lines, which leaves about 20 lines for gates
_SUMMARY = {"ll144": "csv", "ll144.md": "md", "ll144.html": "html"}


def choose_format(name: str | None, out: Path | None) -> str:
    """The format `name`, else by the file's ending, else html."""
    if name is None and out is not None and out.name.endswith(".comment.md"):
        return "comment"
    chosen = name or (out.suffix.lstrip(".").lower() if out and out.suffix else "html")
    chosen = {"htm": "html", "markdown": "md"}.get(chosen, chosen)
    if chosen not in FORMATS:
        problem = f"format {name!r}" if name else f"the ending of {out}"
        raise FwcError(
            f"{problem} is none of {', '.join(FORMATS)}: name one with --format"
        )
    if out is not None and chosen == "ll144":
        ending = out.suffix.lower()
    else:
        ending = ""
    if chosen + ending in _SUMMARY:
        return chosen + ending
    return chosen


def render(
    runs: Sequence[str | Path],
    format: str = "html",
    with_rows: bool = True,
    appendix: bool = False,
) -> str:
    """The report of run folders as text; arguments and errors as in `make_document`."""
    document = make_document(
        runs, with_rows and format == "html", of_law=format in _SUMMARY
    )
    return write_document(document, format, appendix)


def write_document(document: Fields, format: str, appendix: bool = False) -> str:
    """A document as text in one of `FORMATS`; `appendix` as in `render`."""
    if format == "json":
        return json_text(plain(document))
    if format == "csv":
        return records_csv(document)
    kind = _SUMMARY.get(format)
    if kind:
        made = law.summaries(document)
        refusals = [summary["refused"] for summary in made if summary["refused"]]
        if kind == "csv" and refusals:
            raise FwcError(f"{refusals[0]} (--base-parity none draws such rows)")
        return write_summaries(made, kind)
    if format == "md":
        return "\n".join(_markdown(document)).rstrip() + "\n"
    if format == "tex":
        return "\n".join(_tex(document))
    if format == "comment":
        lines = list(_comment(document))
        rest = ["", f"{len(lines) - _LONGEST_COMMENT + 2} more lines: see the report."]
        if len(lines) > _LONGEST_COMMENT:
            lines = lines[: _LONGEST_COMMENT - 2] + rest
        return (
            "\n".join(lines).rstrip().replace("@", "@\u200b") + "\n"
        )  # names must not mention GitHub users
    return page(document, appendix)


def write_summaries(made: Sequence[Fields], kind: str) -> str:
    """Summaries of Local Law 144 as "csv" (only the tables), "md" or "html"."""
    if kind == "csv":
        return as_csv(
            [line for summary in made for line in summary["lines"]], law.COLUMNS
        )
    tables = [law.sections(summary) for summary in made]
    if kind == "html":
        title = tables[0].title
        rule = f"{law.RULE}."
        tables = [
            replace(s, title=law.RULE, intro=s.intro.removeprefix(rule).strip())
            for s in tables
        ]
        return (
            environment()
            .get_template("sections.html.j2")
            .render(title=title, answers=[], sections=tables)
        )
    return (
        "\n".join(line for section in tables for line in markdown(section, 1)).rstrip()
        + "\n"
    )


def _opening(document: Fields, level: int) -> Iterator[str]:
    """Yield title, answer and grid of several runs; of one run, the title alone."""
    yield from (f"{'#' * level} {escaped(document['title'])}", "")
    yield from _findings(document["findings"])
    models = models_of(document)
    if models:
        yield from markdown(grid(models), level + 1)


def _findings(findings: Sequence[str]) -> Iterator[str]:
    yield from (f"- {escaped(finding)}" for finding in findings)
    yield ""


def _markdown(document: Fields) -> Iterator[str]:
    yield from _opening(document, 1)
    for run in document["runs"]:
        yield from _head(run, 2)
        for section in sections_of(run):
            yield from markdown(section)
        yield from markdown(
            Section(
                "To be signed", ["", "To be signed"], [[name, ""] for name in SIGNED]
            ),
            4,
        )


def _tex(document: Fields) -> Iterator[str]:
    """Yield the first table of a run, or that of several models, for LaTeX with booktabs."""
    models = models_of(document)
    tables = [(run["label"], sections_of(run)[0]) for run in document["runs"]]
    if models:
        tables = [(document["title"], overview(models))]
    for title, table in tables:
        caption = str(title).translate(_CAPTION)
        marks = caveats(document["simulated"], document["reference"])
        yield _booktabs(table, ". ".join([caption, *marks]))


def _booktabs(table: Section, caption: str) -> str:
    import pandas as pd

    frame = pd.DataFrame(texts(table.rows), columns=list(table.headings))
    style = frame.style.hide(axis="index").format(escape="latex")
    style = style.format_index(escape="latex", axis="columns")
    right = "r" * (len(table.headings) - table.keys)
    columns = "l" * table.keys + right
    made = style.to_latex(hrules=True, caption=caption, column_format=columns)
    return str(made).translate(_TEX)


def _head(run: Fields, level: int) -> Iterator[str]:
    """Yield a run's name, marks, description and findings."""
    yield from (f"{'#' * level} {escaped(run['label'])}", "")
    marks = caveats(run["simulated"], run["reference"])
    warning = (run["rows"] or {}).get("warning")
    marks += [f"Warning: {warning}."] * bool(warning)
    for mark in marks:
        yield from (f"> **{escaped(mark)}**", "")
    yield from (escaped(run["paragraph"]), "")
    yield from _findings(run["findings"])


def _comment(document: Fields) -> Iterator[str]:
    """Yield the lines of a pull request comment: findings and first tables."""
    yield from _opening(document, 3)
    for run in document["runs"]:
        yield from _head(run, 4)
        for section in first_sections(run):
            yield from markdown(section, 5)
