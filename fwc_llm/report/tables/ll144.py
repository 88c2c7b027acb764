"""The table of New York City's Local Law 144 as CSV: selection rates and impact ratios of a bias audit.

The rule (6 RCNY § 5-301) asks for the number of applicants, the selection rate and the impact ratio of each
sex category, each race/ethnicity category and each intersection of both, and for the number of people whose
category is unknown. An auditor may leave out of the ratios a category of less than 2 % of the data, with the
reason, its number of applicants and its rate. The file has these for every protected attribute, and for all
crossed.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.report.impact import AS_DRAWN
from fwc_llm.report.tables.tidy import harmless
from fwc_llm.untrusted import visible

COLUMNS = (
    "run", "task", "model", "arm", "table", "category", "applicants", "no_answer", "selected",
    "selection_rate", "impact_ratio", "note", "simulated", "reference",
)  # fmt: skip
UNKNOWN = "unknown"


def ll144_csv(document: Mapping[str, Any]) -> str:
    """Return the table of every run and arm of a document (`make_document`).

    Raises `FwcError` for a run whose rows are no applicants: they were drawn by a design, or asked again.
    """
    lines: list[dict[str, Any]] = []
    for run in document["runs"]:
        head = {
            "run": run["label"],
            "task": document["task"],
            "model": run["about"]["model"],
            "simulated": str(run["simulated"]).lower(),
            "reference": str(run["reference"]).lower(),
        }
        lines += [head | line for line in applicants(run["audit"], run["label"])]
    return as_csv(lines)


def as_csv(lines: list[dict[str, Any]]) -> str:
    """Return lines as CSV with the columns `COLUMNS`; text that a spreadsheet would run is made harmless."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: harmless(visible(value) if isinstance(value, str) else value) for name, value in line.items()}
        for line in lines
    )
    return out.getvalue()


def applicants(audit: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the lines of one run's audit (`impact_tables`)."""
    if audit["basis"]["kind"] != AS_DRAWN:
        raise FwcError(
            f"the test rows of {where} were drawn so that groups and labels come in set numbers: they are no "
            "applicants, and Local Law 144's table would speak of nobody; run with --base-parity none, or "
            "use fwc-llm audit --ll144 on decisions"
        )
    if not audit["asked_once"]:
        raise FwcError(
            f"{where} asked about rows more than once, and Local Law 144's table counts every applicant "
            "once: run with --repeats 1"
        )
    return [line for view in audit["attributes"] for arm in view["arms"] for line in _table(view, arm)]


def _table(view: Mapping[str, Any], arm: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    head = {"arm": arm["arm"], "table": view["attribute"]}
    unknown = {"applicants": 0, "no_answer": 0, "selected": 0}
    for name, group in arm["groups"].items():
        counts = {
            "applicants": group["rows"],
            "no_answer": group["unparsed"] + group["no_reply"],
            "selected": group["selected"],
        }
        if not group["known"]:
            unknown = {kind: unknown[kind] + number for kind, number in counts.items()}
            continue
        rates = {name: _rounded(group[name]) for name in ("selection_rate", "impact_ratio")}
        of = "rate of those answered" if counts["no_answer"] and rates["selection_rate"] != "" else ""
        note = "; ".join(part for part in (_note(group), of) if part)
        yield head | {"category": name} | counts | rates | {"note": note}
    note = "not in the rates and ratios above: the category is not known"
    yield head | {"category": UNKNOWN} | unknown | {"selection_rate": "", "impact_ratio": "", "note": note}


def _note(group: Mapping[str, Any]) -> str:
    if group["small"] and group["reason"].startswith("left out"):
        return f"{group['reason']} ({group['share']:.2%})"
    if group["reason"]:
        return f"undefined: {group['reason']}"
    return "under 2 % of the rows" if group["small"] else ""


def _rounded(value: float | None) -> float | str:
    return "" if value is None else round(value, 4)
