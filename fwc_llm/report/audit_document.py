"""The audit of predictions as a document that the page of a run can show: a part for each grouping."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fwc_llm.report.audit import Audit
from fwc_llm.report.browser.collect import rows_of_predictions
from fwc_llm.report.words import findings
from fwc_llm.runs.folder import versions

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "fwc-llm-audit/1"


def audit_document(
    name: str, audits: Mapping[str, Audit], predictions: "pd.DataFrame", command: str, with_rows: bool = True
) -> dict[str, Any]:
    """Return what a page says about predictions: the same keys as `make_document`.

    `name` is the file's, `audits` has one audit for each grouping (a protected column, or all crossed), and
    `predictions` are the rows, which the last part holds if `with_rows`.
    """
    parts = [_part(name, grouping, one.to_dict(), len(predictions)) for grouping, one in audits.items()]
    about = {"command": command, "model": "not known: the predictions were made elsewhere", "settings": {}}
    for part in parts:
        part["about"] = about | {"versions": versions()}
    if with_rows:
        parts[-1]["browser"] = rows_of_predictions(predictions)
    return {
        "format": FORMAT,
        "audit": True,
        "task": name,
        "title": name,
        "simulated": False,
        "reference": False,
        "runs": parts,
    }


def _part(name: str, grouping: str, found: dict[str, Any], predictions: int) -> dict[str, Any]:
    groups = ", ".join(
        f"{group['group']} {group['n']:,} rows ({group['base_rate']:.0%} true yes)"
        for group in found["groups"][:8]
    )
    more = len(found["groups"]) - 8
    return {
        "label": f"by {grouping}",
        "folder": "",
        "simulated": False,
        "simulated_answers": False,
        "reference": False,
        "rows": None,
        "paragraph": f"{predictions:,} predictions of {name}, grouped by {grouping}: {groups}"
        + (f", and {more} more groups." if more > 0 else "."),
        "findings": findings(found),
        "statistics": found,
        "map": None,
        "missing": "",
        "examples": {},
        "prompts": {},
        "cost": None,
        "tuning": None,
    }
