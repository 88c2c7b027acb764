"""`fwc-llm audit`: accuracy and fairness of predictions that came from elsewhere."""

from pathlib import Path
from typing import Annotated

import typer


def audit(
    predictions: Annotated[Path, typer.Argument(help="A CSV file, a line a prediction.", metavar="CSV")],
    answer: Annotated[str, typer.Option(help="The column of predictions; an empty one could not be parsed.")],
    label: Annotated[str, typer.Option(help="The column of true outcomes.")],
    protected: Annotated[
        str, typer.Option(help="Protected columns, separated by commas: audited one by one, and crossed.")
    ],
    positive: Annotated[
        str | None, typer.Option(help="The value that means yes. [default: yes, 1 or true]")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The column that says who answered.")] = None,
    repeat: Annotated[str | None, typer.Option(help="The column that numbers repeats.")] = None,
    row: Annotated[
        str | None, typer.Option(help="The column that names the row. [default: every line is a row]")
    ] = None,
    p_yes: Annotated[str | None, typer.Option(help="The column with the probability of yes.")] = None,
    examples: Annotated[
        str | None, typer.Option(help="The column that names the set of examples in the prompt.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the audit to this file: .html as a page, else as JSON."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Write the charts to this folder: as SVG, and as PNG if matplotlib is there."),
    ] = None,
    no_rows: Annotated[
        bool, typer.Option("--no-rows", help="Leave the rows out of the page: they may be people's records.")
    ] = False,
) -> None:
    """Measure accuracy and fairness of predictions in a CSV file, with intervals and comparisons of arms.

    Nothing is assumed about how rows were drawn: labels count as random, as in any sample.
    """
    import json

    from fwc_llm.cli.console import err
    from fwc_llm.cli.console import out as console
    from fwc_llm.cli.report import draw
    from fwc_llm.errors import FwcError
    from fwc_llm.files import write_whole
    from fwc_llm.report.audit import audit as measure
    from fwc_llm.report.audit_document import audit_document
    from fwc_llm.report.html.page import page
    from fwc_llm.report.predictions import read_predictions
    from fwc_llm.report.terminal import statistics_table
    from fwc_llm.runs.folder import command_line

    others = {"arm": arm, "repeat": repeat, "row": row, "p_yes": p_yes, "examples": examples}
    if row is None and (arm or repeat):
        raise FwcError("--arm and --repeat need --row: name the column that says which row was asked about")
    names = [name.strip() for name in protected.split(",") if name.strip()]
    named = {name: column for name, column in others.items() if column is not None}
    frame = read_predictions(predictions, answer, label, names, positive, named)
    audits = {name: measure(frame.assign(group=frame[name])) for name in names}
    if len(names) > 1:
        audits[" & ".join(names)] = measure(frame, attributes=names)
    for name, one in audits.items():
        console.print(f"{predictions.name} by {name}: {len(frame):,} predictions", style="bold")
        console.print(statistics_table(one.to_dict(), rates=True))
    as_page = out is not None and out.suffix.lower() in (".html", ".htm")
    shown = audit_document(predictions.name, audits, frame, command_line(), as_page and not no_rows)
    if figures is not None:
        draw(shown, figures)
    if out is not None and as_page:
        write_whole(page(shown), out)
        err.print(f"wrote {out}", highlight=False)
    elif out is not None:
        document = {
            "format": "fwc-llm-audit/1",
            "predictions": predictions.name,
            "protected": names,
            "statistics": {name: one.to_dict() for name, one in audits.items()},
        }
        write_whole(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", out)
        err.print(f"wrote {out}", highlight=False)
