"""Output of `fwc-llm monitor`: tables of periods, JSON document, HTML page."""

from collections.abc import Sequence
from typing import Any

from fwc_llm.gates import Check
from fwc_llm.gates.decide import IN_WORDS
from fwc_llm.gates.sentences import in_limits
from fwc_llm.metrics.audit_table import ALONE
from fwc_llm.metrics.counts import Floats, plain
from fwc_llm.metrics.records import Record
from fwc_llm.number_format import DASH
from fwc_llm.report.monitor import Judged, Monitored, rates_compared
from fwc_llm.report.table_model import Row, Section, TableCell, rates_cell, valued


def document(seen: Monitored) -> dict[str, Any]:
    """The document for JSON: counts and metrics by period, pooled metrics, starts."""
    history: list[dict[str, Any]] = []
    for period, counts in zip(seen.periods, seen.counts.tolist(), strict=True):
        history.append(
            {
                "period": period,
                "counts": dict(zip(seen.summary["groups"], counts, strict=True)),
            }
        )
    for judged in seen.judged:
        for entry, estimate in zip(
            history[seen.start :], judged.of_periods.T, strict=True
        ):
            entry[judged.condition.text] = _ends(estimate)
    pooled = {judged.condition.text: _ends(judged.pooled) for judged in seen.judged}
    found: dict[str, Any] = {"format": "fwc-llm-monitor/2", "history": history}
    found |= {"pooled": pooled, "since": seen.summary["since"]}
    return dict(plain(found))


def _ends(estimate: Floats) -> dict[str, Any]:
    return dict(zip(("value", "low", "high"), estimate.tolist(), strict=True))


def sections(seen: Monitored) -> list[Section]:
    """A table of periods for each condition, the latest first."""
    return [_periods(seen, judged) for judged in seen.judged]


def _periods(seen: Monitored, judged: Judged) -> Section:
    metric = judged.metric
    decisions = seen.counts.sum((1, 2, 3)).tolist()
    how = (2, 1) if metric.kind == "ratio" else (1, 100)
    rows = list[Row]()
    for index, period in enumerate(seen.periods):
        judged_index = index - seen.start
        estimate: TableCell | str = DASH
        verdict = "not judged"
        if judged_index >= 0:
            estimate = valued(Record(**_ends(judged.of_periods[:, judged_index])), *how)
            verdict = judged.outcomes[judged_index]
        of_period = seen.counts[index : index + 1]
        rates = rates_cell(rates_compared(of_period, metric, seen.summary["groups"]))
        rows.append([period, verdict, rates, estimate, f"{decisions[index]:,}"])
    notes = [
        f"Call {s['call']} started anew with {s['period']}."
        for s in seen.summary["since"]
    ]
    words = (
        metric.rates[0].replace("_", " ").replace("selection rate", "yes").capitalize()
    )
    title = metric.words.capitalize()
    unit = {"gap": " points", "share": " %", "ratio": ""}[metric.kind]
    kind = metric.kind.capitalize()
    headings = ["Period", "Limits", f"{words}, %", kind, "Decisions"]
    about = f"{title}: {in_limits(judged.condition)}{unit}"
    return Section(about, headings, rows[::-1], notes, name="arms")


def page(seen: Monitored, checks: Sequence[Check], title: str) -> str:
    """An HTML page with the checks and the `sections`."""
    from fwc_llm.report.html import environment  # half a second to import

    answer = " ".join(f"{IN_WORDS[check.outcome]}: {check.reason}." for check in checks)
    notes = [
        "All intervals hold together at 95 %, at every call since the start. Gaps are in points. "
        "Groups are compared within each period, so that a changing mix of groups is no gap. "
        f"Decisions count as independent: {ALONE['cluster']}.",
        *seen.notes,
    ]
    parts = [Section("Checks", notes=notes, intro=answer), *sections(seen)]
    return (
        environment()
        .get_template("sections.html.j2")
        .render(title=title, sections=parts)
    )
