"""`--json`: what a command prints as a table, as one JSON document on standard output (docs/shell.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fwc_llm.models.openai.prices import Price

Json = Annotated[
    bool, typer.Option("--json", help="Print everything as one JSON document; notes go to standard error.")
]


def print_json(document: Mapping[str, Any]) -> None:
    """Print the document; what is no number (NaN, infinity) is null."""
    import json

    from fwc_llm.cli.console import write
    from fwc_llm.metrics.statistics import plain

    write(json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n", is_json=True)


def run_json(folder: Path, results: Mapping[str, Any], price: "Price | None" = None) -> dict[str, Any]:
    """A run as all commands show it: results.json, the statistics, the threshold, what it cost.

    Statistics and threshold are None where no request has a reply.
    """
    from fwc_llm.metrics.statistics import statistics
    from fwc_llm.report.cost import cost
    from fwc_llm.report.lines import references_of
    from fwc_llm.report.read import read_run
    from fwc_llm.report.thresholds import threshold_section

    found: dict[str, Any] = {
        "folder": str(folder),
        "results": dict(results),
        "statistics": None,
        "threshold": None,
        "cost": cost(results, price),
    }
    if results["unanswered"] < results["requests"]:
        run = read_run(folder)
        found["statistics"] = statistics(run.answered, references_of(run))
        found["threshold"] = threshold_section(run)
    return found
