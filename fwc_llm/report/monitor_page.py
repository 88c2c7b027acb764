"""Output of `fwc-llm monitor`: tables of periods, JSON document, HTML page."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from fwc_llm.files import sha256
from fwc_llm.gates import Check
from fwc_llm.gates.sentences import in_limits
from fwc_llm.metrics.audit_table import ALONE
from fwc_llm.metrics.counts import plain
from fwc_llm.metrics.records import NOTHING, Record, record_of
from fwc_llm.number_format import DASH
from fwc_llm.report.monitor import Judged, Monitored, answers, following, rates_compared
from fwc_llm.report.table_model import (
    Cells,
    Row,
    Section,
    metric_cell,
    rates_cell,
    terminal,
)
from fwc_llm.report.terminal import next_lines
from fwc_llm.runs.folder import command, versions
from fwc_llm.sanitize import Json

_UNITS = {"gap": " points", "share": " %", "ratio": ""}


def document(seen: Monitored) -> Json:
    """The document for JSON: counts and metrics by period, pooled metrics, starts."""
    history: list[Json] = []
    for period, counts in zip(seen.periods, seen.counts, strict=True):
        of_groups = dict(zip(seen.groups, counts.tolist(), strict=True))
        entry = {"period": period, "counts": of_groups}
        for judged in seen.judged:
            if period in judged.of_periods:
                entry[judged.condition.text] = _ends(judged.of_periods[period])
        history.append(entry)
    pooled = {one.condition.text: _ends(record_of(one.pooled)) for one in seen.judged}
    found = {"format": "fwc-llm-monitor/3", "history": history, "pooled": pooled}
    return dict(plain(found | {"since": seen.since}))


def _ends(record: Record) -> dict[str, float]:
    return {"value": record.value, "low": record.low, "high": record.high}


def summary(seen: Monitored, checks: Sequence[Check], page: str) -> RenderableType:
    """The verdicts, the `sections` and the next step with the command of a `page`, for rich."""
    first, *others = answers(checks)
    return Group(
        Text(first, style="bold"),
        *map(Text, others),
        *map(terminal, sections(seen)),
        *next_lines(following(checks), "", page),
    )


def sections(seen: Monitored) -> list[Section]:
    """A table of periods for each condition, the latest first."""
    return [_periods(seen, judged) for judged in seen.judged]


def _periods(seen: Monitored, judged: Judged) -> Section:
    metric = judged.metric
    one_rate = len(metric.rates) == 1  # a gap of two rates is that of neither
    rows = list[Row]()
    for period, counts in zip(seen.periods[::-1], seen.counts[::-1], strict=True):
        cells: Cells = [period, DASH]
        if period in judged.of_periods:
            cells = [period, judged.outcome(period)]
        if one_rate:
            cells.append(rates_cell(rates_compared(counts, metric, seen.groups)))
        record = judged.of_periods.get(period, NOTHING)
        value = metric_cell(record, metric, [judged.condition.bound])
        rows.append([*cells, value, f"{counts.sum():,}"])
    starts = [f"Call {s['call']} started anew with {s['period']}." for s in seen.since]
    rate = metric.rates[0].replace("_", " ").replace("selection rate", "yes")
    headings = ["Period", "Limits", *[f"{rate.capitalize()}, %"] * one_rate]
    headings += [metric.kind.capitalize(), "Decisions"]
    title = f"{metric.words}: {in_limits(judged.condition)}{_UNITS[metric.kind]}"
    title = title[0].upper() + title[1:]
    name = "arms periods" if one_rate else ""
    return Section(title, headings, rows, starts, name=name)


def page(
    seen: Monitored, checks: Sequence[Check], decisions: Path, title: str | None
) -> str:
    """An HTML page with the checks, the `sections`, and the record of this call."""
    from fwc_llm.report.html import environment  # half a second to import
    from fwc_llm.report.provenance import how_made

    notes = [
        "All intervals hold together at 95 %, at every call since the start. Gaps are in points. "
        "Groups are compared within each period, so that a changing mix of groups is no gap. "
        f"Decisions count as independent: {ALONE['cluster']}.",
        *seen.notes,
    ]
    about: Json = {"created": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    about |= {"command": command(), "versions": versions()}
    made = [*how_made(about, {decisions.name: sha256(decisions)})]
    record = Section("Record of this call", ["Entry", "Record"], made, name="stated")
    template = environment().get_template("sections.html.j2")
    return template.render(
        title=title or f"Decisions in {decisions.name}",
        answers=[*answers(checks), f"Next: {following(checks)}."],
        sections=[*sections(seen), Section("", notes=notes), record],
    )
