"""The records of a document as CSV, one line per record."""

from collections.abc import Iterable, Iterator, Sequence

from fwc_llm.metrics import records
from fwc_llm.sanitize import Fields, Json, escape_formula, replace_invisible

COLUMNS = ("run", "task", "model", "simulated", "reference", *records.COLUMNS)


def records_csv(document: Fields) -> str:
    """The document's records as CSV with `COLUMNS`; undefined values are empty."""
    return as_csv(
        (line for run in document["runs"] for line in _of_run(document, run)), COLUMNS
    )


def _of_run(document: Fields, run: Fields) -> Iterator[Json]:
    for record in run["records"]:
        yield head(document, run) | vars(record)
    for gate in run["gates"]:
        judged = {"metric": gate["condition"], "verdict": gate["outcome"]}
        yield head(document, run) | gate | judged


def as_csv(lines: Iterable[Fields], columns: Sequence[str]) -> str:
    """Lines as CSV with these columns; texts that look like formulas are escaped."""
    import pandas as pd

    texts = (
        {
            k: replace_invisible(escape_formula(v)) if isinstance(v, str) else v
            for k, v in line.items()
        }
        for line in lines
    )
    table = pd.DataFrame(list(texts), columns=list(columns), dtype=object)
    return str(table.to_csv(index=False, lineterminator="\n"))


def head(document: Fields, run: Fields) -> dict[str, str]:
    """The cells that all lines of a run share."""
    return {
        "run": run["label"],
        "task": document["task"],
        "model": run["about"]["model"],
        "simulated": str(run["simulated"]).lower(),
        "reference": str(run["reference"]).lower(),
    }
