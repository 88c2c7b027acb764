"""`fwc-llm monitor`: monitor decisions with confidence sequences and alarms."""

from pathlib import Path
from typing import Literal

from fwc_llm.cli.flags import COMMENT, JSON, SHEET, SKIP, argument, command, option, words
from fwc_llm.cli.gate import JUNIT, UNDECIDED, Gates, Undecided
from fwc_llm.errors import FwcError


@command("monitor")
def monitor(
    decisions: Path = argument(
        "CSV, Parquet, Excel or JSON lines file with one decision per row.", metavar="FILE"
    ),
    fail_if: list[str] = option(
        'Condition that fails the call, such as "dp > 0.1"; repeatable.', "--fail-if", default=...
    ),
    state: Path = option("SQLite file that keeps counts and hashes between calls.", default=...),
    answer: str = option("Column of decisions.", default=..., metavar="COLUMN"),
    protected: str = option("Protected columns, comma-separated and crossed.", default=...),
    key: str = option(
        "Column of row ids, unique in FILE; known ids are skipped.", default=..., metavar="COLUMN"
    ),
    label: str | None = option("Column of true outcomes.", metavar="COLUMN"),
    positive: str | None = option(
        "Values that mean yes, comma-separated. [default: yes, 1 or true]", metavar="VALUES"
    ),
    negative: str | None = option("Values that mean no, comma-separated.", metavar="VALUES"),
    others: Literal["no", "drop"] | None = option("Treat other values as no, or drop their rows."),
    unknown: str = option(
        "Further words for an unknown category, comma-separated.", default="", metavar="WORDS"
    ),
    missing: Literal["refuse", "drop", "group"] = option(
        "Rows without label or protected value: refuse, drop, or group the latter.", default="refuse"
    ),
    time: str | None = option("Column of decision times. [default: the order of rows]"),
    period: Literal["day", "week", "month", "quarter", "year", "call"] | None = option(
        "Length of a period. [default: month if --time has dates, else call]"
    ),
    by: str | None = option("Column of the model's version; reports compare versions.", metavar="COLUMN"),
    window: str | None = option(
        "Periods to test: `all`, latest N (3), or since one (2026-11). [default: since the last alarm]",
        metavar="PERIOD",
    ),
    run_length: int = option("Average run length to a false alarm, in decisions.", default=100_000, min=1),
    acknowledge: str | None = option("Reason to add to the alarms of earlier calls.", metavar="TEXT"),
    forget: list[str] | None = option("Key of a decision to delete; repeatable.", metavar="KEY"),
    sheet: str = SHEET,
    skip: int = SKIP,
    comment: str = COMMENT,
    report: Path | None = option("File for a page with charts over time (.html)."),
    title: str | None = option("Title of the page. [default: the file's name]", metavar="TEXT"),
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    as_json: bool = JSON,
) -> None:
    """Monitor decisions over time: each call adds the new rows of FILE.

    Exit code 5 if this call raises an alarm or the metric of --window is beyond the bound.
    """
    from fwc_llm.cli.console import notes, out
    from fwc_llm.files import write_whole
    from fwc_llm.report.monitor import watch
    from fwc_llm.report.monitor_page import decide, document, page, sections
    from fwc_llm.report.monitor_state import open_state
    from fwc_llm.report.table_model import terminal

    files = [path.resolve() for path in (decisions, state, report, junit) if path is not None]
    if len({*files}) < len(files):
        raise FwcError("FILE, --state, --report and --junit must be different files")
    gates = Gates.read(fail_if, undecided, junit)
    options = {
        "answer": answer, "label": label, "protected": list(words(protected)), "key": key, "missing": missing,
        "time": time, "by": by, "unknown": list(words(unknown)), "period": period, "run_length": run_length,
    }  # fmt: skip
    values = {"positive": positive, "negative": negative, "others": others}
    layout = {"sheet": sheet, "skip": skip, "comment": comment}
    with open_state(state) as opened:
        seen = watch(opened, decisions, gates.conditions, options, values, forget or (), acknowledge, layout)
        checks = decide(seen, window)
        if report is not None:
            write_whole(page(seen, checks, title or decisions.name), report)
    notes(*seen.notes, f"wrote {report}" if report is not None else "")
    for section in () if as_json else sections(seen, checks):
        out.print(terminal(section))
    gates.conclude({decisions.name: checks}, (), document(seen) if as_json else None)
