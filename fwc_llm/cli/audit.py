"""`fwc-llm audit`: accuracy and fairness of predictions made elsewhere."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

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
    words,
)
from fwc_llm.cli.gate import FAIL_IF, JUNIT, UNDECIDED, Gates, Undecided
from fwc_llm.errors import FwcError
from fwc_llm.files import check_new, in_shell
from fwc_llm.options import VERDICT
from fwc_llm.runs.folder import command as command_line
from fwc_llm.runs.settings import JUDGED, Settings

_OUTPUT = "Output"
_FURTHER = "Further columns"


def _column(help: str, panel: str | None = _FURTHER) -> Any:
    return option(help, panel=panel, metavar="COLUMN")


@command("audit", Settings, names=JUDGED)
def audit(
    predictions: Path = argument(
        "CSV, Parquet, Excel or JSON lines file with one prediction per row.",
        metavar="FILE",
    ),
    protected: str = option(
        'Protected columns, comma-separated ("a, b" in quotes), audited singly and crossed.',
        default=...,
    ),
    answer: str | None = option(
        "Column of predictions; empty cells are unparsed. [default: yes where --p-yes reaches the "
        "threshold]",
        metavar="COLUMN",
    ),
    reply: str | None = option(
        "Column of a model's replies, to parse instead of --answer.", metavar="COLUMN"
    ),
    label: str | None = option(
        "Column of true outcomes. [default: none; only rates of yes are audited]",
        metavar="COLUMN",
    ),
    positive: str | None = flags.POSITIVE,
    positive_answer: str | None = flags.POSITIVE_ANSWER,
    positive_label: str | None = flags.POSITIVE_LABEL,
    negative: str | None = flags.NEGATIVE,
    others: Literal["no", "drop"] | None = flags.OTHERS,
    unknown: str = flags.UNKNOWN,
    arm: str | None = _column("Column of arms, such as models or prompts."),
    repeat: str | None = _column("Column of repeat numbers."),
    row: str | None = _column("Column of row ids. [default: every line is a row]"),
    p_yes: str | None = option(
        "Column of P(yes), for calibration and thresholds.", metavar="COLUMN"
    ),
    threshold: float | None = option(
        "Smallest P(yes) that means yes, without --answer. [default: 0.5]"
    ),
    examples: str | None = _column(
        "Column that identifies the prompt's set of examples."
    ),
    population: Path | None = option(
        "Table of people with further columns, joined to FILE by --key.", panel=_FURTHER
    ),
    key: str | None = option(
        "Column of row ids in FILE and --population. [default: --row]",
        panel=_FURTHER,
        metavar="COLUMN",
    ),
    missing: Literal["refuse", "drop"] = option(
        "Rows without label, weight or person: refuse, or drop.",
        default="refuse",
        panel=VERDICT,
    ),
    score: str | None = _column(
        "Column of an unbounded score; scoring rates count values above its median."
    ),
    sheet: str = flags.SHEET,
    skip: int = flags.SKIP,
    comment: str = flags.COMMENT,
    ll144: Path | None = option(
        "File for the Local Law 144 summary: .csv, .md or .html.", panel=_OUTPUT
    ),
    small: str | None = option(
        "In --ll144, `keep` or `exclude` categories under 2 %. [default: keep]",
        panel=_OUTPUT,
    ),
    because: str | None = option(
        "Reason for --small exclude.", panel=_OUTPUT, metavar="TEXT"
    ),
    about: list[str] | None = option(
        "Statement about data and tool: KEY=TEXT or a task file; repeatable.",
        panel=_OUTPUT,
    ),
    out: Path | None = option("File to write the audit to, as JSON.", "--out", "-o"),
    report: Path | None = option(
        "File to write the report to: .html, .md, .csv or .json."
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

    Intervals take rows (with --cluster, people) as independent random draws.
    """
    given = locals()
    from fwc_llm.files import json_text, sha256, write_whole
    from fwc_llm.report.audit_file import AuditOptions, audit_of_file
    from fwc_llm.report.formats import choose_format, write_document, write_summaries
    from fwc_llm.report.terminal import audit_summary, everything
    from fwc_llm.validation import check

    check_new(force, out, report, ll144)
    gates = Gates.read(fail_if, undecided, junit)
    settings = read(Settings, options)
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
    asked = {name: given[name] for name in given.keys() & AuditOptions.model_fields}
    asked |= {
        "protected": words(protected),
        "unknown": words(unknown),
        "row": row or key,
        "about": _about(about or ()),
        "fail_if": [condition.text for condition in gates.conditions],
        "settings": {name: getattr(settings, name) for name in JUDGED},
    }
    made = audit_of_file(
        predictions, check(AuditOptions, asked, "the options of the audit"), population
    )
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
    found = {f"by {one.name}": one.stats for one in made.subjects}
    document = made.document if as_json else None
    gates.settle(found, (), document, remedy="more decisions are needed")
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
