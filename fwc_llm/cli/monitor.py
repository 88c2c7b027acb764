"""`fwc-llm monitor`: judge all decisions so far, by period."""

from pathlib import Path
from typing import Any, Literal

from fwc_llm.cli.flags import JSON, argument, command, given, option, read
from fwc_llm.cli.gate import JUNIT, UNDECIDED, Gates, Undecided
from fwc_llm.errors import FwcError
from fwc_llm.files import in_shell
from fwc_llm.report.audit_options import AuditOptions
from fwc_llm.runs.folder import command as command_line
from fwc_llm.taskfile import LAYOUT

# Of an audit's options, those that every call repeats beside columns of decisions and ids.
_RULES = (
    "positive",
    "positive_answer",
    "positive_label",
    "negative",
    "refer",
    "others",
    "unknown",
    "missing",
)


@command("monitor", AuditOptions, names=(*_RULES, *LAYOUT))
def monitor(
    decisions: Path = argument(
        "CSV, Parquet, Excel or JSON lines file with one decision per row.",
        metavar="FILE",
    ),
    fail_if: list[str] = option(
        'Condition that fails the call, such as "dp_gap > 0.1"; repeatable.',
        "--fail-if",
        default=...,
    ),
    state: Path = option(
        "SQLite file that keeps all decisions between calls.", default=...
    ),
    answer: str = option("Column of decisions.", default=..., metavar="COLUMN"),
    protected: str = option(
        "Protected columns, comma-separated and crossed.", default=...
    ),
    key: str = option(
        "Column of row ids, unique in FILE; known ids are skipped.",
        default=...,
        metavar="COLUMN",
    ),
    label: str | None = option(
        "Column of true outcomes. [default: only rates of yes are judged]",
        metavar="COLUMN",
    ),
    time: str | None = option("Column of decision dates or times, in ISO 8601."),
    period: Literal["day", "week", "month", "quarter", "year", "call"] | None = option(
        "Length of a period. [default: month if --time is given, else call]"
    ),
    since: str | None = option(
        "Judge from this period on, also in later calls.", metavar="PERIOD"
    ),
    report: Path | None = option("File for a page with charts over time (.html)."),
    title: str | None = option(
        "Title of the page. [default: Decisions in FILE]", metavar="TEXT"
    ),
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    as_json: bool = JSON,
    **options: Any,
) -> None:
    """Monitor decisions: each call adds the new rows of FILE and judges all rows by period.

    Exit code 5 as long as the decisions since the start show that a condition holds.
    """
    from fwc_llm.cli.console import notes, out
    from fwc_llm.files import write_whole
    from fwc_llm.report.monitor import following, watch
    from fwc_llm.report.monitor_page import document, page, summary
    from fwc_llm.report.monitor_state import open_state

    files = [
        path.resolve() for path in (decisions, state, report, junit) if path is not None
    ]
    if len({*files}) < len(files):
        raise FwcError("FILE, --state, --report and --junit must be different files")
    gates = Gates.read(fail_if, undecided, junit)
    layout = given({name: options.pop(name) for name in LAYOUT})
    columns = {"answer": answer, "protected": protected, "key": key, "label": label}
    asked = read(AuditOptions, options | columns).model_dump(mode="json")
    repeated = {name: asked[name] for name in (*columns, *_RULES)}
    repeated |= {"time": time, "period": period}
    with open_state(state) as opened:
        seen = watch(opened, decisions, gates.conditions, repeated, since, layout)
        checks = [judged.check() for judged in seen.judged]
        if report is not None:
            write_whole(page(seen, checks, decisions, title), report)
    suites = {decisions.name: checks}
    step = following(checks)
    if as_json:
        gates.show(suites, [f"Next: {step}."], document(seen))
    else:
        html = in_shell(f"{decisions.stem}-monitor.html")
        again = f"{command_line()} --report {html}" * (report is None)
        out.print(summary(seen, checks, again))
    notes(*seen.notes, f"wrote {report}" if report is not None else "")
    gates.conclude(suites, step)
