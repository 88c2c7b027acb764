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
    for record in (*run["records"], *map(_of_gate, run["gates"])):
        yield head(document, run) | vars(record)


def _of_gate(gate: Fields) -> records.Record:
    """A gate's check as a record: its metric is the condition, its verdict the outcome."""
    same = {name: gate[name] for name in ("arm", "value", "low", "high", "reason")}
    condition, outcome = gate["condition"], gate["outcome"]
    return records.Record(metric=condition, verdict=outcome, **same)


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
