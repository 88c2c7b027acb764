"""Output of `fwc-llm monitor`: tables of periods, JSON document, HTML page."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from fwc_llm.gates import Check
from fwc_llm.gates.decide import OUTSIDE
from fwc_llm.metrics.counts import Floats, plain
from fwc_llm.metrics.period_gaps import rates_of_groups
from fwc_llm.metrics.records import Record
from fwc_llm.number_format import number
from fwc_llm.report.monitor import Judged, Monitored
from fwc_llm.report.table_model import Scale, Section, TableCell, valued

_GROUPS = 8  # most groups in a table


def document(seen: Monitored) -> dict[str, Any]:
    """The document for JSON: counts and metrics by period, pooled metrics, starts."""
    found: dict[str, Any] = plain(_document(seen))
    return found


def _document(seen: Monitored) -> dict[str, Any]:
    history: list[dict[str, Any]] = []
    for period, counts in zip(seen.periods, seen.counts.tolist(), strict=True):
        history.append(
            {"period": period, "counts": dict(zip(seen.summary["groups"], counts, strict=True))}
        )
    for judged in seen.judged:
        for entry, estimate in zip(history[seen.start :], judged.of_periods.T, strict=True):
            entry[judged.condition.text] = _ends(estimate)
    return {
        "format": "fwc-llm-monitor/2",
        "history": history,
        "pooled": {judged.condition.text: _ends(judged.pooled) for judged in seen.judged},
        "since": seen.summary["since"],
    }


def _ends(estimate: Floats) -> dict[str, Any]:
    return dict(zip(("value", "low", "high"), estimate.tolist(), strict=True))


def sections(seen: Monitored) -> list[Section]:
    """A table of periods for each condition, the latest first."""
    return [_periods(seen, judged) for judged in seen.judged]


def _periods(seen: Monitored, judged: Judged) -> Section:
    estimates = [valued(Record(**_ends(estimate)), 3) for estimate in judged.of_periods.T]
    verdicts = [""] * len(seen.periods)
    for index in judged.outside:
        verdicts[seen.start + index] = OUTSIDE
    title = judged.metric.title.replace(" %", "")
    columns: dict[str, Sequence[Any]] = {
        "Period": seen.periods,
        title: ["not judged"] * seen.start + estimates,
        "Verdict": verdicts,
        "Decisions": [f"{n:,}" for n in seen.counts.sum((1, 2, 3))],
    }
    notes = [f"Call {s['call']} started anew with {s['period']}." for s in seen.summary["since"]]
    sizes = seen.counts.sum((0, 2, 3))
    largest = sorted(np.argsort(-sizes, kind="stable")[:_GROUPS].tolist())
    if len(sizes) > _GROUPS:
        notes.append(
            f"Rates are of the {_GROUPS} largest of {len(sizes)} groups; the metric is of all "
            f"groups."
        )
    for rate, group in product(judged.metric.rates, largest):
        heading = f"{seen.summary['groups'][group]}, {rate.replace('_', ' ')}"
        shares = rates_of_groups(seen.counts[:, group], rate).tolist()
        columns[heading] = [
            TableCell(number(share, 2), plotted=(np.nan, share, np.nan)) for share in shares
        ]
    highest = np.nanmax([judged.condition.bound, *judged.of_periods[2]])
    scales = dict.fromkeys(range(4, len(columns)), Scale(0.0, 1.0))
    scales[1] = Scale(0.0, min(1.0, 0.1 * np.ceil(10 * highest)), judged.condition.bound)
    rows = list(zip(*columns.values(), strict=True))[::-1]
    return Section(judged.condition.text, list(columns), rows, notes, scales=scales)


def page(seen: Monitored, checks: Sequence[Check], title: str) -> str:
    """An HTML page with the checks and the `sections`."""
    from fwc_llm.report.html import environment  # half a second to import

    answer = " ".join(f"{check.reason}." for check in checks)
    notes = [
        "All intervals hold together at 95 %, at every call since the start; the horizontal line "
        "is the "
        "bound. Groups are compared within each period, so that a changing mix of groups is no gap."
    ]
    parts = [Section("Checks", notes=notes, intro=answer), *sections(seen)]
    return environment().get_template("sections.html.j2").render(title=title, sections=parts)
