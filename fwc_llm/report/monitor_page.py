"""What `fwc-llm monitor` says: checks, alarms, tables by period and version, a page with charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates import Check
from fwc_llm.gates.change_detection import Detector
from fwc_llm.gates.decide import Outcome
from fwc_llm.metrics.confidence_sequences import MIN_ROWS_FIRST_LOOK
from fwc_llm.metrics.counts import RATES, Codes, Floats
from fwc_llm.metrics.statistics import plain
from fwc_llm.report.charts import Axis
from fwc_llm.report.html import environment
from fwc_llm.report.monitor import Monitored, sequence
from fwc_llm.report.monitor_state import BEFORE
from fwc_llm.report.number_format import number
from fwc_llm.report.table_model import Section, TableCell, valued

_GROUPS, _PERIODS = 8, 60  # most of them that a table and a chart show
_SEQUENCE = "value", "low", "high"


def decide(seen: Monitored, window: str | None = None) -> list[Check]:
    """Return two checks of each condition: its metric in a window, and whether this call logged an alarm.

    `window` is "all", a number of latest periods, or the period of the first decision; None: since the last
    alarm. An alarm that goes on fails no further call: then the metric since is not checked by itself.
    """
    checks = list[Check]()
    for detector in seen.detectors:
        text, (counts, where) = detector.condition.text, _window(seen, detector, window)
        logged, new = (_of(detector, alarms) for alarms in (seen.summary["alarms"], seen.new))
        limit = seen.summary["asked"]["run_length"] * len(seen.detectors)
        why = f"no alarm: change of {text} (evidence {detector.evidence:,.0f} of {limit:,})"
        lasting = [alarm for alarm in logged if not alarm["over"]]
        if logged:
            why = "; ".join(alarm_sentence(detector, alarm) for alarm in new or lasting or logged[-1:])
            why += "" if new else "; not over yet" if lasting else "; it is over"
        if window is not None or not lasting:
            checks.append(_check(detector, counts, where, len(seen.detectors)))
        evidence = max([alarm["evidence"] for alarm in new], default=detector.evidence)
        checks.append(Check(f"change: {text}", "failed" if new else "passed", why, evidence))
    return checks


def _of(detector: Detector, alarms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [alarm for alarm in alarms if alarm["condition"] == detector.condition.text]


def _window(seen: Monitored, detector: Detector, window: str | None) -> tuple[Codes, str]:
    """The counts (G, 2, 3) of a window, and words for it."""
    if window is None:
        return detector.counts, "since the last alarm" if _of(detector, seen.summary["alarms"]) else "so far"
    names = [period["period"] for period in seen.periods]
    start = 0 if window == "all" else names.index(window) if window in names else None
    if start is None and window.isdecimal() and int(window):
        start = max(0, len(names) - int(window))
    if start is None:
        raise FwcError(f"--window {window!r:.40} is no period, no number of periods and not all")
    return seen.by_period[start:].sum(0), f"since {names[start] or 'the first'}"


def _check(detector: Detector, counts: Codes, where: str, checks: int) -> Check:
    """Whether the metric of counts (G, 2, 3) is beyond the bound."""
    condition, gap = detector.condition, detector.metric.kind == "gap"
    value, low, high = sequence(counts[None], detector.metric, checks)[:, 0].tolist()
    outcome: Outcome = "undecided"
    why = f"{condition.bound:g} lies within: wait for more decisions"
    if np.isnan(low):
        why = f"two groups need {MIN_ROWS_FIRST_LOOK} of them: wait for more decisions"
    elif low > condition.bound if gap else high < condition.bound:
        outcome, why = "failed", "all of it is beyond the bound"
    elif high <= condition.bound if gap else low >= condition.bound:
        outcome, why = "passed", "none of it is beyond the bound"
    about = f"{number(value)} ({number(low)} to {number(high)}) of {counts.sum():,} decisions {where}"
    return Check(condition.text, outcome, f"{condition.text}: {about}; {why}", value, low, high)


def alarm_sentence(detector: Detector, alarm: Mapping[str, Any]) -> str:
    """Return since when an alarm is, the rates of its groups in it, and the metric before."""
    values = []
    for stretch in ("inside", "before"):
        n, hits = np.reshape(alarm[stretch], (2, 2)).T
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = hits / n
            gap, ratio = abs(rates[0] - rates[1]), rates.min() / rates.max()
        metric = {"gap": gap, "ratio": ratio, "share": rates[0]}
        values.append(number(metric[detector.metric.kind], 2))
        if stretch == "inside" and alarm["groups"]:
            rate = alarm["rate"].replace("_", " ")
            pairs = zip(alarm["groups"], rates, strict=True)
            values[0] += f" ({rate}: {', '.join(f'{group} {number(share, 2)}' for group, share in pairs)})"
    since = alarm["from"] or "before this state"
    noted = f"; acknowledged: {alarm['acknowledged']}" if alarm["acknowledged"] else ""
    name = detector.condition.metric
    return f"ALARM since {since}: {name} of new decisions {values[0]}, before {values[1]}{noted}"


def document(seen: Monitored) -> dict[str, Any]:
    """Return everything for JSON: periods, counts by version, and alarms."""
    metric, rows = seen.detectors[0].metric, seen.by_period.sum((1, 2, 3))
    columns = {"new": rows, "rows": rows.cumsum(), "value_of_new": sequence(seen.by_period, metric)[0]}
    columns |= zip(_SEQUENCE, _so_far(seen, seen.detectors[0]), strict=True)

    def of_groups(counts: Codes) -> dict[str, Any]:
        return {g: of.tolist() for g, of in zip(seen.summary["groups"], counts, strict=True) if of.any()}

    history = [
        plain({**period, **{name: of[p] for name, of in columns.items()}, "counts": of_groups(counts)})
        for p, (period, counts) in enumerate(zip(seen.periods, seen.by_period, strict=True))
        if period["period"] != BEFORE
    ]
    counts = dict(zip(seen.summary["versions"], map(of_groups, seen.by_version), strict=True))
    return {
        "format": "fwc-llm-monitor/1", "history": [*seen.summary["earlier"], *history], "counts": counts,
        "alarms": seen.summary["alarms"],
    }  # fmt: skip


def _so_far(seen: Monitored, detector: Detector) -> Floats:
    """The metric (3, P) of all decisions up to the end of each period, with its sequence."""
    return sequence(seen.by_period.cumsum(0), detector.metric, len(seen.detectors))


def _rates(seen: Monitored, counts: Codes, rate: str) -> dict[str, Floats]:
    """A rate (P,) of the largest groups, by name, of counts (P, G, 2, 3)."""
    largest = sorted(np.argsort(-seen.by_period.sum((0, 2, 3)), kind="stable")[:_GROUPS].tolist())
    n, hits = (counts[:, largest][..., of].sum(-1).T for of in (RATES[rate].counted, RATES[rate].hits))
    with np.errstate(invalid="ignore"):
        return dict(zip([seen.summary["groups"][group] for group in largest], hits / n, strict=True))


def _columns(seen: Monitored, detector: Detector, counts: Codes) -> dict[str, list[str]]:
    """The decisions and rates of counts (P, G, 2, 3) as columns of a table."""
    return {"Decisions": [f"{n:,}" for n in counts.sum((1, 2, 3))]} | {
        f"{group}, {rate.replace('_', ' ')}": [number(value, 2) for value in values]
        for rate in detector.metric.rates
        for group, values in _rates(seen, counts, rate).items()
    }


def _title(detector: Detector) -> str:
    return detector.metric.title.replace(" %", "")


def _valued(values: Floats) -> list[TableCell]:
    return [valued(dict(zip(_SEQUENCE, of, strict=True)), 3) for of in values.T.tolist()]


def sections(seen: Monitored) -> list[Section]:
    """Return a table of periods for each condition, the latest first, and one of versions."""
    tables, names = list[Section](), [period["period"] or "earlier" for period in seen.periods]
    for detector in seen.detectors:
        title, of_new = _title(detector), sequence(seen.by_period, detector.metric)[0]
        columns = {
            "Period": names, **_columns(seen, detector, seen.by_period),
            f"{title}, new decisions": [number(value) for value in of_new],
            f"{title}, all so far": _valued(_so_far(seen, detector)),
        }  # fmt: skip
        notes = [alarm_sentence(detector, alarm) for alarm in _of(detector, seen.summary["alarms"])[::-1]]
        if (n := len(seen.summary["groups"])) > _GROUPS:
            notes.append(f"Rates: the {_GROUPS} largest of {n} groups; the metric is that of all.")
        rows = list(zip(*columns.values(), strict=True))[::-1]
        tables.append(Section(detector.condition.text, list(columns), rows, notes, name="sequence"))
    if len(versions := seen.summary["versions"]) > 1:
        detector = seen.detectors[0]
        of_all = _valued(sequence(seen.by_version, detector.metric, len(versions)))
        columns = {"Version": versions, **_columns(seen, detector, seen.by_version), _title(detector): of_all}
        tables.append(Section("By version", list(columns), list(zip(*columns.values(), strict=True))))
    return tables


def page(seen: Monitored, checks: Sequence[Check], title: str) -> str:
    """Return one HTML page with charts of the groups' rates and of the metric over time; it loads nothing."""
    values = {"title": title, "checks": checks, "sections": sections(seen), "asked": seen.summary["asked"]}
    charts = [_charts(seen, detector) for detector in seen.detectors]
    return environment().get_template("monitor.html.j2").render(values, charts=charts)


def _charts(seen: Monitored, detector: Detector) -> dict[str, Any]:
    """The place of every mark of a condition's two charts, of the latest periods."""
    names = [period["period"] or "earlier" for period in seen.periods][-_PERIODS:]
    x, bound = Axis(-0.5, len(names) - 0.5, 46.0, 326.0), detector.condition.bound
    step = -(-len(names) // 5)
    ticks = [(x.at(p), names[p].removeprefix("call ")) for p in range(0, len(names), step)]

    def axis(values: Sequence[Floats], percent: bool = False) -> Axis:
        known = np.concatenate([np.ravel(of) for of in values])
        ends = np.nanmin(known, initial=1.0), np.nanmax(known, initial=0.0)
        return Axis(max(0.0, ends[0] - 0.05), min(1.0, ends[1] + 0.05), 250.0, 12.0, percent)

    def marks(values: Floats, y: Axis) -> list[tuple[float | None, float | None]]:
        return [(x.at(p), y.at(value)) for p, value in enumerate(values.tolist()) if not np.isnan(value)]

    rates = _rates(seen, seen.by_period[-_PERIODS:], rate := detector.metric.rates[0])
    of_new = sequence(seen.by_period, detector.metric)[0, -_PERIODS:]
    value, low, high = _so_far(seen, detector)[:, -_PERIODS:]
    left = axis([*rates.values()], True)
    right = axis([of_new, low, high, np.array([bound])])
    lines = [(group, marks(values, left)) for group, values in rates.items()]
    bars = [(*one, other[1]) for one, other in zip(marks(low, right), marks(high, right), strict=True)]
    place = {name: p for p, name in enumerate(names)}
    alarms = [
        (x.at(min(ends) - 0.5), x.at(max(ends) + 0.5))  # periods need not come in their order
        for alarm in _of(detector, seen.summary["alarms"])
        if alarm["to"] in place and (ends := (place.get(alarm["from"], 0), place[alarm["to"]]))
    ]
    return {
        "title": detector.condition.text, "rate": rate.replace("_", " "), "metric": _title(detector),
        "ticks": ticks, "left": left, "lines": lines, "right": right, "bars": bars, "bound": right.at(bound),
        "dots": marks(value, right), "rings": marks(of_new, right), "alarms": alarms,
    }  # fmt: skip
