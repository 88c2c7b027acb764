"""Decisions that keep coming: counts by period, metrics with confidence sequences, alarms of a change."""

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates.change_detection import Alarm, Detector, check_watched
from fwc_llm.gates.condition import GateCondition
from fwc_llm.metrics.audit_table import DecisionValues, from_frame, plain_text
from fwc_llm.metrics.confidence_sequences import MIN_ROWS_FIRST_LOOK, ConfidenceSequence
from fwc_llm.metrics.counts import RATES, UNPARSED, Codes, Floats, Metric
from fwc_llm.metrics.intervals import Z, ratio_limits, wilson
from fwc_llm.metrics.run_answers import as_names, mapped, one_name
from fwc_llm.report.monitor_state import BEFORE, FirstState, State, plain_keys
from fwc_llm.report.predictions_reader import read_predictions
from fwc_llm.values import as_number
from fwc_llm.words import UNKNOWN, merged_categories

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.run_answers import Names

_TIGHTEST = 3_333  # rows, of which 0.3 are where the sequence is tightest
_MOST_GROUPS = 100  # every pair of them is compared


@dataclass(frozen=True)
class _Meanings(DecisionValues):
    """What values mean; also those that earlier calls had, whose meaning stays."""

    seen: dict[str, bool | None] = field(default_factory=dict)

    def meaning(self, counts: Mapping[str, int], column: str) -> dict[str, bool | None]:
        """Return what each value means, None: its rows are left out."""
        known = {**dict.fromkeys(self.seen, 0), **counts}
        if self.positive and self.negative:  # a call of few decisions need not hold both
            options = self.values(self.positive, known) + self.values(self.negative, known)
            known = {**dict.fromkeys(options, 0), **known}
        found = super().meaning(known, column)
        for value, means in found.items():
            if self.seen.setdefault(value, means) is not means:
                raise FwcError(f"{self.where}: {value!r:.80} had another meaning in earlier calls")
        return found


class _DecisionRows(NamedTuple):
    """Decisions in the order of their time: `kind` is 3 · label + answer; `days` are None without dates."""

    key: "pd.Series[str]"
    group: "Names"
    kind: Codes
    version: "Names"
    time: list[Any]
    days: list[date] | None


@dataclass(frozen=True)
class Monitored:
    """What is known after a call: counts (P, G, 2, 3) by period, in order, and (V, G, 2, 3) by version.

    `summary` is that of the state. `new` are the alarms that this call logged.
    """

    detectors: Sequence[Detector]
    summary: Mapping[str, Any]
    periods: list[dict[str, Any]]
    by_period: Codes
    by_version: Codes
    new: list[dict[str, Any]]
    notes: Sequence[str]


def watch(
    state: State,
    first: FirstState | None,
    path: Path,
    conditions: Sequence[GateCondition],
    options: Mapping[str, Any],
    values: Mapping[str, Any] = {},
    forget: Sequence[str] = (),
    acknowledge: str | None = None,
    layout: Mapping[str, Any] = {},
) -> Monitored:
    """Add the decisions of a file that are new to an open state, and log alarms.

    `options`, which a state keeps to, are `answer`, `label`, `protected`, `key`, `missing`, `time`, `by`,
    `unknown`, `period`, `run_length`; `values` are `positive`, `negative` and `others` of `DecisionValues`;
    the rest are options of the command. Raises `FwcError` for conditions without a detector, a state of other
    options, and decisions that are there twice or were changed.
    """
    summary = state.summary
    for condition in conditions:
        check_watched(condition, options["label"] is not None)
    known, asked = summary["asked"], {**options, "conditions": [condition.text for condition in conditions]}
    asked["period"] = asked["period"] or known.get("period")
    for name in (name for name in asked if name in known and known[name] != asked[name]):
        raise FwcError(
            f"{state.path} monitors {name} {known[name]!r}, not {asked[name]!r}: name another state"
        )
    for alarm in summary["alarms"]:
        noted = alarm["acknowledged"] or acknowledge
        alarm |= {"acknowledged": noted, "over": alarm.get("over", False)}
    state.forget(forget)
    meanings = _Meanings(**values, where=path.name, typed=True, seen=summary["values"])
    rows, notes = _read(path, options, meanings, layout)
    if rows is None and not summary["periods"]:
        raise FwcError(f"{path} has no decisions")
    counts, new = state.counts("version").sum(0), list[dict[str, Any]]()
    begun = {"counts": counts, "decisions": int(counts.sum()), "comparisons": {}, "firsts": {}}
    detectors = [Detector.read(one, summary["detectors"].get(one.text, begun)) for one in conditions]
    if rows is not None:
        asked["period"] = asked["period"] or ("month" if rows.days else "call")
        cell, touched, more = _add(state, first, rows, path, asked)
        for detector in detectors:
            for alarm in detector.watch(cell, asked["run_length"] * len(conditions)):
                new += log_alarm(summary, detector, alarm, len(conditions))
        evidence = {detector.condition.text: detector.evidence for detector in detectors}
        for number in touched:
            summary["periods"][number] |= {"at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "evidence": evidence}
        notes = [*notes, *more]
    for detector in detectors:
        since = np.zeros((len(summary["groups"]), 2, 3), np.int64)
        since[: len(detector.counts)] = detector.counts
        for alarm in (one for one in summary["alarms"] if one["condition"] == detector.condition.text):
            groups = [summary["groups"].index(group) for group in alarm["groups"]] or slice(None)
            alarm["over"] |= _kept(detector, since[groups], len(conditions))
    summary |= {"asked": asked, "detectors": {d.condition.text: d.to_dict() for d in detectors}}
    names = [period["period"] for period in summary["periods"]]
    order = sorted(range(len(names)), key=lambda p: (len(names[p]), names[p]))  # call 9 before call 10
    periods, by_period = [summary["periods"][p] for p in order], state.counts("period")[order]
    return Monitored(detectors, summary, periods, by_period, state.counts("version"), new, notes)


def _read(
    path: Path, options: Mapping[str, Any], decisions: DecisionValues, layout: Mapping[str, Any]
) -> tuple[_DecisionRows | None, Sequence[str]]:
    """The decisions of a file, None where it has none, and notes on what was left out."""
    roles = {"row": options["key"], **{name: options[name] for name in ("answer", "label", "time", "by")}}
    columns, protected = {name: column for name, column in roles.items() if column}, options["protected"]
    rule = options["missing"]
    frame, notes = read_predictions(path, columns, protected, decisions, missing=rule, layout=layout)
    if not len(frame):
        return None, notes
    frame["row"] = plain_keys(frame["row"])
    if (twice := frame["row"].duplicated()).any():
        key = f"{options['key']} {frame['row'][twice].iloc[0]!r:.80}"
        raise FwcError(f"{path} has two rows with {key}: each decision needs a key of its own")
    moments: list[Any] = [None] * len(frame)
    days = None
    if options["time"]:
        seconds, written = _times(as_names(frame["time"].array), f"{path}: {options['time']!r}")
        order = np.argsort(seconds, kind="stable")
        frame, moments = frame.iloc[order].reset_index(drop=True), seconds[order].tolist()
        days = [written[place] for place in order] if written else None
    for name in protected:  # one by one: what a level means must not depend on the other levels of a call
        levels = as_names(frame[name].array)
        unknown = {
            level for level in levels.categories if merged_categories([level], options["unknown"], True)
        }
        frame[name] = mapped(levels, lambda level: UNKNOWN if level in unknown else level)  # noqa: B023
    said = (decisions.positive, decisions.negative, decisions.others) != (None,) * 3
    label, meanings = "label" if options["label"] else None, None if said else decisions
    audited = from_frame(
        frame, protected=protected, unknown=None, label=label, decisions=meanings, least_groups=1
    )
    answers = audited.answers["answers"]
    kind = 3 * answers.label.astype(np.int64)
    kind += np.where(np.isnan(answers.answer), UNPARSED, answers.answer).astype(np.int64)
    version = as_names(frame["by"].array) if options["by"] else one_name("", len(frame))
    return _DecisionRows(frame["row"], answers.group, kind, version, moments, days), notes


def _times(texts: "Names", where: str) -> tuple[Floats, list[date] | None]:
    """Times (n,) in seconds, UTC without a zone, and their dates as written; or numbers, without dates."""
    texts = texts.remove_unused_categories()
    numbers = [as_number(text) for text in texts.categories]
    if None not in numbers:
        return np.array(numbers, np.float64)[texts.codes], None
    times = list[datetime]()
    for text in texts.categories:
        try:
            moment = datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-11") else text)
            times.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except ValueError:
            raise FwcError(
                f"{where} has {text!r:.60}, no time of ISO 8601 such as 2026-11-27T09:30"
            ) from None
    seconds = np.array([(moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() for moment in times])
    return seconds[texts.codes], [times[code].date() for code in texts.codes]


def _period(day: date, kind: str) -> str:
    year, week, _ = day.isocalendar()
    names = {"day": day.isoformat(), "week": f"{year:04}-W{week:02}", "month": day.isoformat()[:7]}
    return (names | {"quarter": f"{day.year:04}-Q{(day.month + 2) // 3}", "year": f"{day.year:04}"})[kind]


def _add(
    state: State, first: FirstState | None, rows: _DecisionRows, path: Path, asked: Mapping[str, Any]
) -> tuple[Codes, set[int], list[str]]:
    """Add what is new; return its cells (n,) in their order, the numbers of its periods, and notes."""
    summary, notes = state.summary, list[str]()
    hashed, counted, forgotten = state.known(rows.key)
    if first is not None:
        others = rows.key[~np.isin(hashed, first.keys)]
        if not counted or state.known(others.map(plain_text))[1]:
            raise FwcError(
                f"{path} has no key of {state.path}, of an earlier version, or spells one in another way: "
                "give old decisions too, or begin a new state with --state and all decisions"
            )
        notes.append(f"{state.path} is an SQLite file now; {state.path.name}.old is what it was")
    cell = 6 * _numbers(rows.group, summary["groups"]) + rows.kind
    version = _numbers(rows.version, summary["versions"])
    if (groups := len(summary["groups"])) > _MOST_GROUPS:
        raise FwcError(f"{path}: {groups} groups are too many to compare all pairs: protect fewer columns")
    content = list(zip(cell.tolist(), version.tolist(), rows.time, strict=True))
    places = {key: place for place, key in enumerate(hashed.tolist())}
    for key, before in counted.items():
        if before[0] is not None and before != content[places[key]]:
            raise FwcError(
                f"{path}: the row {rows.key[places[key]]!r:.80} was seen before and has changed: decisions "
                "stay as they were made; restore it, or begin a new state with --state"
            )
    fresh = [place for key, place in places.items() if key not in counted and key not in forgotten]
    if not fresh:
        return cell[:0], set(), notes
    names = [f"call {1 + sum(period['period'] != BEFORE for period in summary['periods'])}"] * len(cell)
    if asked["period"] != "call":
        if rows.days is None:
            raise FwcError(f"--period {asked['period']} needs dates: name their column with --time")
        names = [_period(day, asked["period"]) for day in rows.days]
    numbers = {period["period"]: number for number, period in enumerate(summary["periods"])}
    total = int(state.counts("version").sum())
    for decision, place in enumerate(fresh, 1 + total):
        number = numbers.setdefault(names[place], len(numbers))
        if number == len(summary["periods"]):
            summary["periods"].append({"period": names[place]})
        if not summary["marks"] or summary["marks"][-1][1] != number:  # where a period begins
            summary["marks"].append([decision, number])
    touched = [numbers[names[place]] for place in fresh]
    state.add(sorted((hashed.item(place), *content[place]) for place in fresh))
    which, n = np.unique([touched, version[fresh], cell[fresh]], axis=1, return_counts=True)
    state.count(zip(*which.tolist(), n.tolist(), strict=True))
    if asked["time"]:
        times = [rows.time[place] for place in fresh]
        latest = summary.setdefault("latest", times[0])
        if late := sum(moment < latest for moment in times):
            notes.append(f"{late:,} decisions are older than some before; alarms take them as they came")
        summary["latest"] = max(latest, times[-1])
    return cell[fresh], set(touched), notes


def _numbers(names: "Names", known: list[str]) -> Codes:
    """The place of each name (n,) in a list, to which new ones are added."""
    place = {name: number for number, name in enumerate(known)}
    for name in names.unique():
        if place.setdefault(name, len(known)) == len(known):
            known.append(name)
    places = np.array([place.get(name, -1) for name in names.categories], np.int64)
    return np.asarray(places[names.codes])


def _kept(detector: Detector, counts: Codes, checks: int, *rates: str) -> bool:
    """Whether counts (G, 2, 3) keep to the bound by their sequence, in some or all rates of the metric."""
    metric, bound = detector.metric, detector.condition.bound
    _, low, high = sequence(counts[None], replace(metric, rates=rates or metric.rates), checks)[:, 0]
    return bool(high <= bound if metric.kind == "gap" else low >= bound)


def log_alarm(
    summary: Mapping[str, Any], detector: Detector, alarm: Alarm, checks: int
) -> list[dict[str, Any]]:
    """Log an alarm, and return it if it is new; else it is the last one of its groups, which goes on.

    An alarm goes on until the decisions before the next one keep to the bound by their sequence.
    """
    marks, condition = summary["marks"], detector.condition
    alarms = [one for one in summary["alarms"] if one["condition"] == condition.text]

    def period(decision: int) -> str:
        place = bisect_right(marks, decision, key=lambda mark: int(mark[0])) - 1
        return str(summary["periods"][marks[place][1]]["period"])

    rate, counts = RATES[alarm.rate], np.zeros((2, 2, 3), np.int64)
    for side, (n, hits) in enumerate(np.reshape(alarm.before, (2, 2))):
        counts[side][tuple(np.argwhere(rate.hits)[0])] = hits
        counts[side][tuple(np.argwhere(rate.counted & ~rate.hits)[0])] = n - hits
    kept = _kept(detector, counts, checks, alarm.rate)
    chain = alarm.since if kept or not alarms else alarms[-1]["chain"]
    groups = [summary["groups"][group] for group in alarm.groups]
    ends = {"until": alarm.until, "to": period(alarm.until)}
    for one in alarms:
        if not one["over"] and (one["chain"], one["rate"], one["groups"]) == (chain, alarm.rate, groups):
            one |= {**ends, "inside": np.add(one["inside"], alarm.inside).tolist()}
            return []
    began = period(min(alarm.since + MIN_ROWS_FIRST_LOOK, alarm.until))  # not for a few days of chance
    named = {"from": began, **ends, "groups": groups, "acknowledged": None, "over": False}
    summary["alarms"].append({"condition": condition.text, "chain": chain, **alarm._asdict(), **named})
    return [summary["alarms"][-1]]


@np.errstate(invalid="ignore", divide="ignore")
def sequence(counts: Codes, metric: Metric, checks: int = 1) -> Floats:
    """Return a metric of counts (P, G, 2, 3) with the limits of its confidence sequence (3, P).

    Limits hold at every call together, for so many `checks`. Groups of fewer than 30 decisions are left out;
    all is NaN where fewer than two are left.
    """
    if metric.kind == "share":
        counts = counts.sum(1, keepdims=True)
    rows = counts.sum((2, 3))
    large, looks = rows >= MIN_ROWS_FIRST_LOOK, ConfidenceSequence(checks, _TIGHTEST)
    of = zip(np.maximum(rows.sum(1), 1).tolist(), np.maximum(large.sum(1), 2).tolist(), strict=True)
    reach = np.array([[looks.critical_value(n, groups, len(metric.rates))] for n, groups in of]) / Z
    found = np.full((3, len(counts)), np.nan)
    for rate in metric.rates:
        n, hits = (counts[..., kinds].sum(-1) for kinds in (RATES[rate].counted, RATES[rate].hits))
        p = np.where(large, hits / n, np.nan)
        low, high = wilson(p, n)
        below, above = reach * (p - low), reach * (high - p)
        if metric.kind == "share":
            return np.asarray(np.clip([p[:, 0], (p - below)[:, 0], (p + above)[:, 0]], 0, 1))
        for i, j in combinations(range(counts.shape[1]), 2):
            gap = p[:, i] - p[:, j]
            down, up = np.hypot(below[:, i], above[:, j]), np.hypot(above[:, i], below[:, j])
            pair = np.abs(gap), np.maximum(gap - down, -gap - up), np.maximum(gap + up, down - gap)
            if metric.kind == "ratio":
                under = ratio_limits(p[:, i], below[:, i], p[:, j], above[:, j])
                over = ratio_limits(p[:, j], below[:, j], p[:, i], above[:, i])
                least, most = np.minimum(p[:, i], p[:, j]), np.maximum(p[:, i], p[:, j])
                pair = least / most, np.minimum(under, over), 1 / np.maximum(under, over)
            found = (np.fmin if metric.kind == "ratio" else np.fmax)(found, pair)
    return np.asarray(np.clip(found, 0, 1))
