"""`fwc-llm audit`: accuracy and fairness of predictions that came from elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from fwc_llm.cli.gate import Gates, fail_if_option, junit_option, undecided_option
from fwc_llm.cli.options import Json


def audit(
    predictions: Annotated[
        Path,
        typer.Argument(help="A CSV, Parquet, Excel or JSON lines file, a row a prediction.", metavar="FILE"),
    ],
    label: Annotated[str, typer.Option(help="The column of true outcomes.")],
    protected: Annotated[
        str, typer.Option(help="Protected columns, separated by commas: audited one by one, and crossed.")
    ],
    answer: Annotated[
        str | None,
        typer.Option(
            help="The column of predictions; an empty one could not be parsed. [default: yes where --p-yes "
            "reaches the threshold]"
        ),
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The value that means yes. [default: yes, 1 or true]")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The column that says who answered.")] = None,
    repeat: Annotated[str | None, typer.Option(help="The column that numbers repeats.")] = None,
    row: Annotated[
        str | None, typer.Option(help="The column that names the row. [default: every line is a row]")
    ] = None,
    p_yes: Annotated[
        str | None,
        typer.Option(help="The column with the probability of yes: calibration, and rates by threshold."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="With --p-yes and no --answer: yes where it is reached. [default: 0.5]"),
    ] = None,
    examples: Annotated[
        str | None, typer.Option(help="The column that names the set of examples in the prompt.")
    ] = None,
    ll144: Annotated[
        Path | None,
        typer.Option(help="Write the table of New York City's Local Law 144 as CSV to this file."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the audit as JSON to this file.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the report that a run has to this file: .html, .md, .csv or .json."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Write the charts to this folder, as SVG and PNG. Extra: plot."),
    ] = None,
    no_rows: Annotated[
        bool, typer.Option("--no-rows", help="Leave the rows out of the page: they may be people's records.")
    ] = False,
    appendix: Annotated[
        bool, typer.Option("--appendix", help="Print the page whole, not only its first screen.")
    ] = False,
    fail_if: Annotated[list[str] | None, fail_if_option()] = None,
    undecided: Annotated[str | None, undecided_option()] = None,
    junit: Annotated[Path | None, junit_option()] = None,
    as_json: Json = False,
) -> None:
    """Measure accuracy and fairness of predictions in a file, with intervals and comparisons of arms.

    Nothing is assumed about how rows were drawn: labels count as random, as in any sample.
    """
    import json

    from fwc_llm.cli.console import err
    from fwc_llm.cli.console import out as console
    from fwc_llm.errors import FwcError
    from fwc_llm.files import write_whole
    from fwc_llm.metrics.audit_table import by_attribute, from_frame
    from fwc_llm.report.audit import Audit
    from fwc_llm.report.impact import impact_tables
    from fwc_llm.report.predictions_reader import choose_threshold, read_predictions, ties_line
    from fwc_llm.report.terminal import probability_tables, selection_table, statistics_table
    from fwc_llm.report.write import choose_format, write_document

    gates = Gates.read(fail_if, undecided, junit)
    if report is not None:
        choose_format(None, report)
    others = {"arm": arm, "repeat": repeat, "row": row, "p_yes": p_yes, "examples": examples}
    if row is None and (arm or repeat):
        raise FwcError("--arm and --repeat need --row: name the column that says which row was asked about")
    names = [name.strip() for name in protected.split(",") if name.strip()]
    for name in names:
        if names.count(name) > 1:
            raise FwcError(f"--protected names {name!r} twice: name each column once")
        if name in (label, answer):
            raise FwcError(f"--protected {name!r} is the label or the answer: name another column")
    named = {name: column for name, column in others.items() if column is not None}
    at = choose_threshold(answer, p_yes, threshold)
    frame = read_predictions(predictions, answer, label, names, positive, named, at)
    ties = ties_line(frame["p_yes"], at) if answer is None else ""
    numbered, rows = "row" not in frame, len(frame)
    crossed = from_frame(frame, protected=names)
    del frame
    audits = {name: Audit(answered) for name, answered in by_attribute(crossed).items()}
    gates.begin(next(iter(audits.values())).arms)
    selected = impact_tables(crossed)
    for (name, one), view in zip(() if as_json else audits.items(), selected["attributes"], strict=False):
        console.print(f"{predictions.name} by {name}: {rows:,} predictions", style="bold")
        console.print(statistics_table(one.to_dict(), rates=True, view=view))
        console.print(probability_tables(one.to_dict()))
    if ties:
        err.print(ties, soft_wrap=True)
    for view in () if as_json else selected["attributes"]:
        console.print(selection_table(view))
    if ll144 is not None:
        from fwc_llm.report.tidy import applicants, as_csv

        head = {"run": predictions.name, "task": label, "model": answer or p_yes}
        write_whole(as_csv([head | line for line in applicants(selected, predictions.name)]), ll144)
        err.print(f"wrote {ll144}", highlight=False)
    document = {
        "format": "fwc-llm-audit/1",
        "predictions": predictions.name,
        "protected": names,
        "statistics": {name: one.to_dict() for name, one in audits.items()},
        "audit": selected,
    }
    if out is not None:
        write_whole(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", out)
        err.print(f"wrote {out}", highlight=False)
    if report is not None or figures is not None:
        from fwc_llm.cli.report import draw
        from fwc_llm.report.audit_document import document_of_decisions

        about = {
            "predictions": predictions.name,
            "answer": answer or p_yes,
            "label": label,
            "numbered": numbered,
            **({"threshold": at} if answer is None else {}),
        }
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
