"""`fwc-llm audit`: accuracy and fairness of predictions made elsewhere."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fwc_llm.cli import console, flags
from fwc_llm.cli.flags import (
    APPENDIX,
    FIGURES,
    JSON,
    NO_ROWS,
    argument,
    command,
    option,
    read,
)
from fwc_llm.cli.gate import FAIL_IF, JUNIT, UNDECIDED, Gates, Undecided
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell
from fwc_llm.options import OUTPUT
from fwc_llm.report.audit_options import FURTHER, AuditOptions
from fwc_llm.runs.folder import command as command_line
from fwc_llm.runs.settings import JUDGED, Settings


@command("audit", Settings, AuditOptions, names=JUDGED)
def audit(
    predictions: Path = argument(
        "CSV, Parquet, Excel or JSON lines file with one prediction per row.",
        metavar="FILE",
    ),
    population: Path | None = option(
        "Table of people with further columns, joined to FILE by --key.", panel=FURTHER
    ),
    ll144: Path | None = option(
        "File for the Local Law 144 summary: .csv, .md or .html.", panel=OUTPUT
    ),
    about: list[str] | None = option(
        "Statement about data and tool: KEY=TEXT or a task file; repeatable.",
        panel=OUTPUT,
    ),
    out: Path | None = option(
        "File to write the audit to, as JSON.", "--out", "-o", panel=OUTPUT
    ),
    report: Path | None = option(
        "File to write the report to: .html, .md, .csv or .json.", panel=OUTPUT
    ),
    figures: Path | None = FIGURES,
    no_rows: bool = NO_ROWS,
    appendix: bool = APPENDIX,
    force: bool = flags.FORCE,
    fail_if: list[str] | None = FAIL_IF,
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    verbose: bool = flags.VERBOSE,
    as_json: bool = JSON,
    **options: Any,
) -> None:
    """Measure accuracy and fairness of predictions in a file, with intervals and comparisons of
    arms.

    Columns called answer, label, p_yes, arm, repeat, row and examples are read without an option;
    --label '' reads none. Intervals take rows (with --cluster, people) as independent random draws.
    """
    from fwc_llm.files import json_text, sha256, write_whole
    from fwc_llm.report.audit_file import audit_of_file
    from fwc_llm.report.formats import choose_format, write_document, write_summaries
    from fwc_llm.report.terminal import audit_summary, everything

    check_new(force, out, report, ll144)
    gates = Gates.read(fail_if, undecided, junit)
    judged = read(Settings, {name: options.pop(name) for name in JUDGED})
    if report is not None:
        choose_format(None, report)
    if ll144 is None:
        law = "csv"
    else:
        law = ll144.suffix.lstrip(".").lower()
    if law not in ("csv", "md", "html"):
        raise FwcError(
            f"--ll144 {ll144} ends in none of .csv, .md and .html: name such a file"
        )
    if options["row"] is None:
        options["row"] = options["key"]
    asked = read(
        AuditOptions,
        options,
        about=_about(about or ()),
        fail_if=[condition.text for condition in gates.conditions],
        settings={name: getattr(judged, name) for name in JUDGED},
    )
    made = audit_of_file(predictions, asked, population)
    gates.begin(made.crossed.arms)
    if not as_json:
        created = made.document["created"]
        subjects = made.subjects  # one after the other: its estimates take memory
        impacts = [audit.impact for audit in made.audits.values()]
        console.out.print(
            audit_summary(
                subjects,
                impacts,
                predictions.name,
                created,
                verbose,
                made.left_out,
                "" if report else _again(predictions, force, bool(out or ll144)),
            )
        )
    for entry in made.report()["runs"] if verbose and not as_json else ():
        console.lines(str(entry["label"]), style="bold")
        console.out.print(everything(entry))
    console.notes(made.ties, *(made.notes if as_json else ()))
    summarized = made.document["ll144"]
    if ll144 is not None and law == "csv":
        refused = summarized["refused"]
    else:
        refused = ""
    if ll144 is not None and not refused:
        from fwc_llm.report.local_law_144 import missing as to_state

        write_whole(write_summaries([summarized], law), ll144)
        differs = filter(None, [summarized["differs"]])
        console.notes(f"wrote {ll144}", *differs, *to_state(summarized))
    if report is not None or figures is not None:
        from fwc_llm.cli.report import draw

        kind = choose_format(None, report)
        with_rows = report is not None and kind == "html" and not no_rows
        decisions = made.report(with_rows, with_law=ll144 is not None)
        if report is not None:
            write_whole(write_document(decisions, kind, appendix), report)
            console.notes(f"wrote {report}")
        if figures is not None:
            draw(decisions, figures)
    if out is not None:
        for what, path in (("report", report), ("ll144", None if refused else ll144)):
            if path is not None and path.is_file():
                made.document["files"][what] = {
                    "name": path.name,
                    "sha256": sha256(path),
                }
        write_whole(json_text(made.document), out)
        console.notes(f"wrote {out}")
    found = made.subjects
    document = made.document if as_json else None
    gates.settle(found, (), document)
    if refused:
        raise FwcError(refused)


def _again(predictions: Path, forced: bool, writes: bool) -> str:
    """The same command, which also writes a page."""
    page = Path(f"{predictions.stem}-audit.html")
    force = " --force" * (not forced and (writes or page.exists()))
    return f"{command_line()} --report {in_shell(page)}{force}"


def _about(texts: Iterable[str]) -> dict[str, str]:
    """Parse --about: KEY=TEXT, or the [about] of a task file."""
    from fwc_llm.taskfile import read_taskfile

    about: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if equals:
            about[key.strip()] = value.strip()
        elif text.endswith(".toml"):
            about |= read_taskfile(Path(text)).about
        else:
            raise FwcError(
                f"--about {text!r} is neither KEY=TEXT nor a task file (.toml)"
            )
    return about
