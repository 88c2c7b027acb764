"""Output of `fwc-llm monitor`: checks, alarms, tables, HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates import Check
from fwc_llm.gates.change_detection import Detector
from fwc_llm.gates.decide import outcome_of
from fwc_llm.metrics.counts import RATES, Codes, Floats, plain, value_of
from fwc_llm.metrics.sequential import MIN_ROWS_FIRST_LOOK
from fwc_llm.report.monitor import Monitored, sequence, sums
from fwc_llm.report.number_format import number
from fwc_llm.report.table_model import Scale, Section, TableCell, valued

_GROUPS = 8  # most groups in a table
_SEQUENCE = "value", "low", "high"
_WORDS = {
    "failed": "the whole interval is beyond the bound",
    "passed": "no value in the interval is beyond the bound",
    "undecided": "{0:g} lies in the interval: wait for more decisions",
}


def decide(seen: Monitored, window: str | None = None) -> list[Check]:
    """Two checks of each condition: metric in a window, new alarms of this call.

    `window` is "all", a number of latest periods, or the first period; None means since the last alarm.
    """
    checks = list[Check]()
    for detector in seen.detectors:
        condition, logged = detector.condition, _of(detector, seen.summary["alarms"])
        text = condition.text
        new, lasting = _of(detector, seen.new), [one for one in logged if not one["over"]]
        limit = seen.summary["asked"]["run_length"] * len(seen.detectors)
        why = f"no alarm: change of {text} (evidence {detector.evidence:,.0f} of {limit:,})"
        if logged:
            why = "; ".join(alarm_sentence(detector, alarm) for alarm in new or lasting or logged[-1:])
            why += "" if new else "; this alarm continues" if lasting else "; this alarm is over"
        if window is not None or not lasting:
            counts, where = _window(seen, detector, window)
            value, low, high = _sequence(counts[None], detector, len(seen.detectors))[:, 0].tolist()
            outcome = outcome_of(condition, low, high)
            rows, said = f"of {counts.sum():,} decisions {where}", _WORDS[outcome].format(condition.bound)
            about = f"{number(value)} ({number(low)} to {number(high)}) {rows}; {said}"
            if np.isnan(low):
                about = f"unknown {rows}: wait until two groups have {MIN_ROWS_FIRST_LOOK} rows each"
            checks.append(Check(text, outcome, f"{text}: {about}", value, low, high))
        evidence = max([alarm["evidence"] for alarm in new], default=detector.evidence)
        checks.append(Check(f"change: {text}", "failed" if new else "passed", why, evidence))
    return checks


def _of(detector: Detector, alarms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [alarm for alarm in alarms if alarm["condition"] == detector.condition.text]


def _window(seen: Monitored, detector: Detector, window: str | None) -> tuple[Codes, str]:
    """The counts (G, 2, 3) of a window, and its description."""
    if window is None:
        return detector.counts, "since the last alarm" if _of(detector, seen.summary["alarms"]) else "so far"
    start = 0 if window == "all" else seen.periods.index(window) if window in seen.periods else None
    if start is None and window.isdecimal() and int(window):
        start = max(0, len(seen.periods) - int(window))
    if start is None:
        raise FwcError(
            f"--window {window!r:.40} is unknown: give all, a number of periods, or a period's name"
        )
    return seen.by_period[start:].sum(0), f"since {seen.periods[start]}"


def alarm_sentence(detector: Detector, alarm: Mapping[str, Any]) -> str:
    """A sentence on an alarm: first period, rates, the metric before the alarm."""
    rate = alarm["rate"]
    metric, values = replace(detector.metric, rates=(rate,)), list[str]()
    inside, before = (np.reshape(alarm[stretch], (2, 2)).T for stretch in ("inside", "before"))
    with np.errstate(invalid="ignore", divide="ignore"):
        for shares in (inside[1] / inside[0], before[1] / before[0]):
            value = shares[0] if metric.kind == "share" else value_of(metric, {rate: shares})
            values.append(number(float(value), 2))
        pairs = zip(alarm["groups"], inside[1] / inside[0], strict=False)  # [] for a share of all groups
    groups = ", ".join(f"{group} {number(share, 2)}" for group, share in pairs)
    of_groups = f" ({rate.replace('_', ' ')}: {groups})" if groups else ""
    noted = f"; acknowledged: {alarm['acknowledged']}" if alarm["acknowledged"] else ""
    of_new = f"{detector.condition.metric} of new decisions {values[0]}{of_groups}"
    return f"ALARM since {alarm['from']}: {of_new}, previously {values[1]}{noted}"


def document(seen: Monitored) -> dict[str, Any]:
    """The document for JSON: periods, counts by version, alarms."""

    def of_groups(counts: Codes) -> list[dict[str, Any]]:
        names = seen.summary["groups"]
        return [{g: of.tolist() for g, of in zip(names, one, strict=True) if of.any()} for one in counts]

    detector, rows = seen.detectors[0], seen.by_period.sum((1, 2, 3))
    columns = {
        "period": seen.periods, "new": rows, "rows": rows.cumsum(), "counts": of_groups(seen.by_period),
        "value_of_new": _sequence(seen.by_period, detector)[0],
        **dict(zip(_SEQUENCE, _so_far(seen, detector), strict=True)),
    }  # fmt: skip
    history = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    counts = dict(zip(seen.summary["versions"], of_groups(seen.by_version), strict=True))
    alarms = seen.summary["alarms"]
    return {"format": "fwc-llm-monitor/1", "history": plain(history), "counts": counts, "alarms": alarms}


def _sequence(counts: Codes, detector: Detector, checks: int = 1) -> Floats:
    return sequence(sums(counts, detector.metric), detector.metric, checks)


def _so_far(seen: Monitored, detector: Detector) -> Floats:
    """(value, low, high) (3, P) over all decisions up to each period's end."""
    return _sequence(seen.by_period.cumsum(0), detector, len(seen.detectors))


def _cells(digits: int, value: Floats, low: Any = np.nan, high: Any = np.nan) -> list[TableCell]:
    """Cells with values (P,) and their limits, in text and chart."""
    rows = np.stack(np.broadcast_arrays(value, low, high), 1).tolist()
    return [valued(plain(dict(zip(_SEQUENCE, of, strict=True))), digits) for of in rows]


def _columns(seen: Monitored, detector: Detector, counts: Codes) -> dict[str, list[Any]]:
    """Columns of a table from counts (P, G, 2, 3): decisions, rates of groups."""
    columns: dict[str, list[Any]] = {"Decisions": [f"{n:,}" for n in counts.sum((1, 2, 3))]}
    largest = sorted(np.argsort(-seen.by_period.sum((0, 2, 3)), kind="stable")[:_GROUPS].tolist())
    for rate, group in product(detector.metric.rates, largest):
        n, hits = (counts[:, group][:, kinds].sum(-1) for kinds in (RATES[rate].counted, RATES[rate].hits))
        with np.errstate(invalid="ignore"):
            columns[f"{seen.summary['groups'][group]}, {rate.replace('_', ' ')}"] = _cells(2, hits / n)
    return columns


def sections(seen: Monitored, checks: Sequence[Check]) -> list[Section]:
    """A table of periods for each condition, with alarms not in `checks`, and of versions."""
    tables, versions, place = list[Section](), seen.summary["versions"], seen.periods.index
    for detector in seen.detectors:
        title, alarms = detector.metric.title.replace(" %", ""), _of(detector, seen.summary["alarms"])
        of_new = _cells(3, _sequence(seen.by_period, detector)[0])
        for alarm in alarms:
            first, last = sorted((place(alarm["from"]), place(alarm["to"])))  # periods may come backwards
            of_new[first : last + 1] = [replace(cell, mark="ALARM") for cell in of_new[first : last + 1]]
        columns = {"Period": seen.periods, **_columns(seen, detector, seen.by_period)}
        columns |= {
            f"{title}, new decisions": of_new,
            f"{title}, all so far": _cells(3, *_so_far(seen, detector)),
        }
        notes = [alarm_sentence(detector, alarm) for alarm in alarms[::-1]]
        notes = [note for note in notes if not any(note in check.reason for check in checks)]
        if (n := len(seen.summary["groups"])) > _GROUPS:
            notes.append(f"Rates are of the {_GROUPS} largest of {n} groups; the metric is of all groups.")
        rows, metrics = list(zip(*columns.values(), strict=True))[::-1], len(columns) - 2
        known = [end for row in rows for cell in row[metrics:] for end in cell.plotted if end is not None]
        scales = dict.fromkeys(range(2, metrics), Scale(0.0, 1.0))
        most = min(1.0, 0.1 * np.ceil(10 * max([detector.condition.bound, *known])))
        scales |= dict.fromkeys((metrics, metrics + 1), Scale(0.0, most, detector.condition.bound))
        tables.append(Section(detector.condition.text, list(columns), rows, notes, scales=scales))
    if len(versions) > 1:
        detector = seen.detectors[0]
        columns = {"Version": versions, **_columns(seen, detector, seen.by_version)}
        columns[detector.metric.title] = _cells(3, *_sequence(seen.by_version, detector, len(versions)))
        tables.append(Section("By version", list(columns), list(zip(*columns.values(), strict=True))))
    return tables


def page(seen: Monitored, checks: Sequence[Check], title: str) -> str:
    """An HTML page with the checks and the `sections`."""
    from fwc_llm.report.html import environment  # half a second to import

    length = f"{seen.summary['asked']['run_length']:,}"
    answer = " ".join(f"{check.reason}." for check in checks)
    notes = [
        "Confidence sequences (95 %) hold jointly at all calls; the horizontal line is the bound. False "
        f"alarms: on average at most one in {length} decisions."
    ]
    shown = [Section("Checks", notes=notes, intro=answer), *sections(seen, checks)]
    return environment().get_template("sections.html.j2").render(title=title, sections=shown)
