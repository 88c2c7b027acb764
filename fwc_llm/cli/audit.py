"""`fwc-llm audit`: accuracy and fairness of predictions that came from elsewhere."""

from pathlib import Path
from typing import Any

from fwc_llm.cli.gate import FAIL_IF, JUNIT, UNDECIDED, Gates
from fwc_llm.cli.options import APPENDIX, FIGURES, JSON, NO_ROWS, argument, option, read, takes, words
from fwc_llm.options import VERDICT
from fwc_llm.runs.settings import JUDGED, Settings

_OUTPUT, _FURTHER = "Output", "Further columns"


def _column(help: str, panel: str | None = _FURTHER) -> Any:
    return option(help, panel=panel, metavar="COLUMN")


@takes(Settings, names=JUDGED)
def audit(
    predictions: Path = argument(
        "A CSV (any separator and encoding), Parquet, Excel or JSON lines file, a row a prediction.",
        metavar="FILE",
    ),
    protected: str = option(
        "Protected columns, separated by commas: audited one by one, and crossed.", default=...
    ),
    answer: str | None = option(
        "The column of predictions; an empty one could not be parsed. [default: yes where --p-yes "
        "reaches the threshold]",
        metavar="COLUMN",
    ),
    label: str | None = option(
        "The column of true outcomes. [default: none; rates of yes are audited]", metavar="COLUMN"
    ),
    positive: str | None = option("The value that means yes. [default: yes, 1 or true]"),
    arm: str | None = _column("The column that says who answered."),
    repeat: str | None = _column("The column that numbers repeats."),
    row: str | None = _column("The column that names the row. [default: every line is a row]"),
    p_yes: str | None = option(
        "The column with the probability of yes: calibration, and rates by threshold.", metavar="COLUMN"
    ),
    threshold: float | None = option("With --p-yes and no --answer: yes where it is reached. [default: 0.5]"),
    examples: str | None = _column("The column that names the set of examples in the prompt."),
    population: Path | None = option(
        "A table of all rows that FILE's were drawn from, named as --row names them: its other "
        "columns predict what is not there, and every value is assisted by them.",
        panel=VERDICT,
    ),
    missing: str = option(
        "Rows without a protected value or a label: refuse, drop, or group (a group of its own).",
        default="refuse",
        panel=VERDICT,
    ),
    ll144: Path | None = option(
        "Write the table of New York City's Local Law 144 as CSV to this file.", panel=_OUTPUT
    ),
    out: Path | None = option("Write the audit as JSON to this file.", "--out", "-o"),
    report: Path | None = option("Write the report that a run has to this file: .html, .md, .csv or .json."),
    figures: Path | None = FIGURES,
    no_rows: bool = NO_ROWS,
    appendix: bool = APPENDIX,
    fail_if: list[str] | None = FAIL_IF,
    undecided: str | None = UNDECIDED,
    junit: Path | None = JUNIT,
    as_json: bool = JSON,
    **options: Any,
) -> None:
    """Measure accuracy and fairness of predictions in a file, with intervals and comparisons of arms.

    Nothing is assumed about how rows were drawn: labels count as random, as in any sample.
    """
    import json
    from dataclasses import replace

    from fwc_llm.cli.console import err, notes
    from fwc_llm.cli.console import out as console
    from fwc_llm.errors import FwcError
    from fwc_llm.files import write_whole
    from fwc_llm.metrics.adverse_impact import impact_tables
    from fwc_llm.metrics.audit_table import by_attribute, from_frame, of_population
    from fwc_llm.report.audit import Audit
    from fwc_llm.report.predictions_reader import (
        MISSING,
        choose_threshold,
        read_population,
        read_predictions,
        ties_line,
    )
    from fwc_llm.report.terminal import probability_tables, selection_table, statistics_table
    from fwc_llm.report.write import choose_format, write_document

    gates, settings = Gates.read(fail_if, undecided, junit), read(Settings, options)
    if report is not None:
        choose_format(None, report)
    if missing not in MISSING:
        raise FwcError(f"--missing is {missing!r}: choose {', '.join(MISSING)}")
    if population is not None and row is None:
        raise FwcError("--population needs --row: name the column that both tables name their rows by")
    if row is None and (arm or repeat):
        raise FwcError("--arm and --repeat need --row: name the column that says which row was asked about")
    roles = {
        "arm": arm, "repeat": repeat, "row": row, "p_yes": p_yes, "examples": examples,
        "weight": settings.weight, "cluster": settings.cluster, "given": settings.given,
    }  # fmt: skip
    columns = {name: column for name, column in roles.items() if column is not None}
    names = list(words(protected))
    for name in names:
        if names.count(name) > 1:
            raise FwcError(f"--protected names {name!r} twice: name each column once")
        if name in (label, answer):
            raise FwcError(f"--protected {name!r} is the label or the answer: name another column")
    at = choose_threshold(answer, p_yes, threshold)
    frame, said = read_predictions(predictions, answer, label, names, positive, columns, at, missing)
    ties = ties_line(frame["p_yes"], at) if answer is None else ""
    numbered, rows = "row" not in frame, len(frame)
    crossed = from_frame(
        frame,
        protected=names,
        label=label and "label",
        min_group=settings.min_group,
        margin=settings.margin,
        against=settings.against,
        **{name: name for name in ("weight", "cluster", "given") if name in columns},
    )
    del frame
    crossed = replace(crossed, unused=(*said, *crossed.unused))
    views = by_attribute(crossed)
    if population is not None and row is not None:
        everybody = read_population(population, [row, *names, *([label] if label else [])])
        views = {name: of_population(view, everybody, row, label, positive) for name, view in views.items()}
    audits = {name: Audit(answered) for name, answered in views.items()}
    gates.begin(crossed.arms)
    selected = impact_tables(crossed)
    for (name, one), view in zip(() if as_json else audits.items(), selected["attributes"], strict=False):
        console.print(f"{predictions.name} by {name}: {rows:,} predictions", style="bold")
        console.print(statistics_table(one.to_dict(), rates=True, view=view))
        console.print(probability_tables(one.to_dict()))
    notes([ties, *(said if as_json else ())])
    for view in () if as_json else selected["attributes"]:
        console.print(selection_table(view))
    if ll144 is not None:
        from fwc_llm.report.tidy import applicants, as_csv

        head = {"run": predictions.name, "task": label or "", "model": answer or p_yes}
        write_whole(as_csv([head | line for line in applicants(selected, predictions.name)]), ll144)
        notes([f"wrote {ll144}"])
    document = {
        "format": "fwc-llm-audit/1",
        "predictions": predictions.name,
        "protected": names,
        "statistics": {name: one.to_dict() for name, one in audits.items()},
        "audit": selected,
    }
    if out is not None:
        write_whole(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", out)
        notes([f"wrote {out}"])
    if report is not None or figures is not None:
        from fwc_llm.cli.report import draw
        from fwc_llm.report.audit_document import document_of_decisions

        about: dict[str, Any] = {"predictions": predictions.name, "answer": answer or p_yes, "label": label}
        about |= {"numbered": numbered} | ({"threshold": at} if answer is None else {})
        kind = choose_format(None, report)
        with_rows = report is not None and kind == "html" and not no_rows
        decisions = document_of_decisions(audits, predictions, about, with_rows)
        if report is not None:
            write_whole(write_document(decisions, kind, appendix), report)
            err.print(f"wrote {report}", highlight=False)
        if figures is not None:
            draw(decisions, figures)
    found = {f"by {name}": one.answered for name, one in audits.items()}
    gates.settle(found, (), document if as_json else None)
