"""`fwc-llm monitor`: decisions that keep coming, watched by sequences that hold at every look."""

from pathlib import Path
from typing import Literal

from fwc_llm.cli.flags import COMMENT, JSON, SHEET, SKIP, argument, command, option, words
from fwc_llm.cli.gate import JUNIT, UNDECIDED, Gates, Undecided


@command("monitor")
def monitor(
    decisions: Path = argument("A CSV, Parquet, Excel or JSON lines file, a row a decision.", metavar="FILE"),
    fail_if: list[str] = option(
        'A condition that must not hold, such as "dp > 0.1"; repeatable.', "--fail-if", default=...
    ),
    state: Path = option("The file that keeps counts and hashes between calls.", default=...),
    answer: str = option("The column of decisions.", default=..., metavar="COLUMN"),
    protected: str = option("Protected columns, separated by commas: crossed.", default=...),
    key: str = option("The column that names the row; each counts once.", default=..., metavar="COLUMN"),
    label: str | None = option("The column of true outcomes, where there is one.", metavar="COLUMN"),
    positive: str | None = option("The value that means yes. [default: yes, 1 or true]"),
    missing: Literal["refuse", "drop", "group"] = option(
        "Rows without a protected value or a label: refuse, drop, or group (a group of its own).",
        default="refuse",
    ),
    time: str | None = option("The column with the time of a decision. [default: as they stand]"),
    by: str | None = option("The column with the version of the model: each has a line.", metavar="COLUMN"),
    run_length: int = option(
        "An alarm of a change is false at most once in so many decisions, on average.", default=100_000, min=1
    ),
    sheet: str = SHEET,
    skip: int = SKIP,
    comment: str = COMMENT,
    report: Path | None = option("Write the sequence as a page to this file (.html)."),
    undecided: Undecided = UNDECIDED,
    junit: Path | None = JUNIT,
    as_json: bool = JSON,
) -> None:
    """Watch decisions that keep coming: each call adds those that are new in FILE.

    Intervals hold at every call, and a detector finds changes that a running mean hides.
    """
    from fwc_llm.cli.console import notes, out
    from fwc_llm.files import write_whole
    from fwc_llm.report.monitor import monitor as watch
    from fwc_llm.report.monitor import page, sections
    from fwc_llm.report.table_model import terminal

    gates = Gates.read(fail_if, undecided, junit)
    columns = {
        "answer": answer, "label": label, "positive": positive, "protected": words(protected), "key": key,
        "missing": missing, "time": time, "by": by,
    }  # fmt: skip
    layout = {"sheet": sheet, "skip": skip, "comment": comment}
    seen, checks = watch(decisions, state, gates.conditions, columns, run_length, layout)
    if report is not None:
        write_whole(page(seen, checks, decisions.name), report)
        notes(f"wrote {report}")
    write_whole(seen.model_dump_json(indent=1) + "\n", state, "the state ")
    for section in () if as_json else sections(seen):
        out.print(terminal(section))
    document = {"format": seen.format, "history": seen.history, "counts": seen.counts} if as_json else None
    gates.conclude({decisions.name: checks}, (), document)
