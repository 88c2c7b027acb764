"""Continuous monitoring: counts, confidence sequences, alarms of changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.cell_rules import as_number
from fwc_llm.errors import FwcError
from fwc_llm.gates.change_detection import Alarm, Detector, check_watched
from fwc_llm.gates.condition import GateCondition
from fwc_llm.gates.decide import outcome_of
from fwc_llm.metrics.audit_table import DecisionValues, from_frame
from fwc_llm.metrics.counts import RATES, UNPARSED, Codes, Floats, Metric
from fwc_llm.metrics.intervals import Z, ratio_limits, wilson
from fwc_llm.metrics.run_answers import as_names, mapped
from fwc_llm.metrics.sequential import MIN_ROWS_FIRST_LOOK, ConfidenceSequence
from fwc_llm.report.monitor_state import State, plain_keys
from fwc_llm.report.predictions_reader import read_predictions
from fwc_llm.words import UNKNOWN, merged_categories

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.run_answers import Names

_TIGHTEST = 3_333  # parameter of `ConfidenceSequence`: it is tightest at 0.3 times as many rows
_MOST_GROUPS = 100  # limit because all pairs of groups are compared


@dataclass(frozen=True)
class _Meanings(DecisionValues):
    """Meanings of values, with those of earlier calls (`seen`), which stay fixed."""

    seen: dict[str, bool | None] = field(default_factory=dict)

    def meaning(self, counts: Mapping[str, int], column: str) -> dict[str, bool | None]:
        """Map each value to yes (True), no (False) or None (its rows are left out)."""
        known = dict.fromkeys(self.seen, 0) | dict(counts)
        if self.positive and self.negative:  # a call with few decisions may lack either
            options = self.values(self.positive, known) + self.values(self.negative, known)
            known = dict.fromkeys(options, 0) | known
        found = super().meaning(known, column)
        for value, means in found.items():
            if self.seen.setdefault(value, means) is not means:
                raise FwcError(f"{self.where}: {value!r:.80} had another meaning in earlier calls")
        return found


@dataclass(frozen=True)
class Monitored:
    """The state after a call."""

    detectors: Sequence[Detector]
    summary: Mapping[str, Any]  # of `State`
    periods: list[str]
    by_period: Codes  # (P, G, 2, 3) counts by period in order, group, label, answer (no, yes, unread)
    by_version: Codes  # (V, G, 2, 3)
    new: list[dict[str, Any]]  # alarms of this call
    notes: Sequence[str]


def watch(
    state: State,
    path: Path,
    conditions: Sequence[GateCondition],
    options: Mapping[str, Any],
    values: Mapping[str, Any] = {},
    forget: Sequence[str] = (),
    acknowledge: str | None = None,
    layout: Mapping[str, Any] = {},
) -> Monitored:
    """Add the new decisions of a file to an open state, and log alarms.

    `options` must be the same at every call with a state: `answer`, `label`, `protected`, `key`, `missing`,
    `time`, `by`, `unknown`, `period`, `run_length`. `values` are arguments of `DecisionValues`.
    """
    summary, checks = state.summary, len(conditions)
    for condition in conditions:
        check_watched(condition, options["label"] is not None)
    known, asked = summary["asked"], {**options, "conditions": [condition.text for condition in conditions]}
    asked["period"] = asked["period"] or known.get("period")
    for name in (name for name in known if known[name] != asked[name]):
        flag = "--fail-if" if name == "conditions" else f"--{name.replace('_', '-')}"
        was, now = (_written(flag, of[name]) for of in (known, asked))
        raise FwcError(f"{state.path} was begun {was}, but this call is {now}: name another --state")
    waiting = [alarm for alarm in summary["alarms"] if not alarm["acknowledged"]]
    for alarm in waiting:
        alarm["acknowledged"] = acknowledge
    state.forget(forget)
    columns = {"answer": asked["answer"], "label": asked["label"] or "label"}
    meanings = _Meanings(**values, where=path.name, columns=columns, typed=True, seen=summary["values"])
    rows, notes = _read(path, asked, meanings, layout)
    new, detectors = list[dict[str, Any]](), [Detector(condition) for condition in conditions]
    if known:
        detectors = [Detector.read(one, summary["detectors"][one.text]) for one in conditions]
    elif not len(rows):
        raise FwcError(f"{path} has no decisions")
    cell, period, late = _add(state, rows, path)
    for detector in detectors:
        for alarm in detector.watch(cell, period, asked["run_length"] * checks):
            new += log_alarm(summary, detector, alarm, checks)
        for one in (one for one in summary["alarms"] if one["condition"] == detector.condition.text):
            places = [summary["groups"].index(group) for group in one["groups"]]
            since = detector.counts[places or slice(None)]
            one["over"] = one["over"] or _keeps(detector, sums(since, detector.metric), checks)
    summary |= {"asked": asked, "detectors": {d.condition.text: d.to_dict() for d in detectors}}
    names = summary["periods"]
    order = sorted(range(len(names)), key=lambda p: (len(names[p]), names[p]))  # call 9 before call 10
    by_period, by_version = state.counts("period")[order], state.counts("version")
    periods = [names[p] for p in order]
    if acknowledge and not waiting:
        late.append("--acknowledge has no effect: every earlier alarm has a reason")
    return Monitored(detectors, summary, periods, by_period, by_version, new, [*notes, *late])


def _written(flag: str, value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return f"with {flag} {text}" if value else f"without {flag}"


def _read(
    path: Path, asked: dict[str, Any], decisions: DecisionValues, layout: Mapping[str, Any]
) -> "tuple[pd.DataFrame, Sequence[str]]":
    """The decisions of a file in order of time, and notes on dropped rows.

    Columns: key, group, kind (3 · label + answer; unread is 2), version, time and period.
    """
    import pandas as pd

    roles = {name: asked[name] for name in ("key", "answer", "label", "time", "by")}
    columns = {"row" if name == "key" else name: column for name, column in roles.items() if column}
    protected, rule = asked["protected"], asked["missing"]
    frame, notes = read_predictions(path, columns, protected, decisions, missing=rule, layout=layout)
    if not len(frame):
        return frame, notes
    frame["row"] = plain_keys(frame["row"])
    if (twice := frame["row"].duplicated()).any():
        key = f"{asked['key']} {frame['row'][twice].iloc[0]!r:.80}"
        raise FwcError(f"{path} has two rows with {key}: each decision needs a key of its own")
    seconds, days = np.full(len(frame), np.nan), list[date]()
    if asked["time"]:
        seconds, days = _times(as_names(frame["time"].array), f"{path}: {asked['time']!r}")
    every = asked["period"] = asked["period"] or ("month" if days else "call")
    if every != "call" and not days:
        raise FwcError(f"--period {every} needs dates: name their column with --time")
    frame = frame.assign(seconds=seconds, period=[_period(day, every) for day in days] or "")
    frame = frame.sort_values("seconds", kind="stable", ignore_index=True)
    for name in protected:  # each level by itself: its meaning must not depend on the call's other levels
        levels = as_names(frame[name].array)
        unknown = {one for one in levels.categories if merged_categories([one], asked["unknown"], True)}
        frame[name] = mapped(levels, lambda level: UNKNOWN if level in unknown else level)  # noqa: B023
    label, meanings = "label" if asked["label"] else None, None if decisions.given else decisions
    answers = from_frame(
        frame, protected=protected, unknown=None, label=label, decisions=meanings, least_groups=1
    ).answers["answers"]
    kind = 3 * answers.label + np.where(np.isnan(answers.answer), UNPARSED, answers.answer)
    version = frame["by"].astype(str) if asked["by"] else ""
    columns = {"group": answers.group, "kind": kind.astype(np.int64), "version": version}
    columns |= {"key": frame["row"], "time": frame["seconds"], "period": frame["period"]}
    return pd.DataFrame(columns), notes


def _times(texts: "Names", where: str) -> tuple[Floats, list[date]]:
    """Times (n,) in seconds and their n dates; or numbers (n,) and no dates.

    A time without a zone is UTC. A date is that of the text, in the text's own zone.
    """
    texts = texts.remove_unused_categories()
    numbers = [as_number(text) for text in texts.categories]
    if None not in numbers:
        return np.array(numbers, np.float64)[texts.codes], []
    whole = (f"{text}-01" if len(text) == len("2026-11") else text for text in texts.categories)
    try:
        times = list(map(datetime.fromisoformat, whole))
    except ValueError as error:
        raise FwcError(f"{where}: {error!s:.80}: write ISO 8601, such as 2026-11-27T09:30") from None
    seconds = [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times]
    return np.array(seconds)[texts.codes], [times[code].date() for code in texts.codes]


def _period(day: date, kind: str) -> str:
    year, week, _ = day.isocalendar()
    quarter, (month, whole) = (day.month + 2) // 3, (day.isoformat()[:7], day.isoformat())
    names = {"call": "", "day": whole, "week": f"{year:04}-W{week:02}", "month": month}
    return (names | {"quarter": f"{month[:4]}-Q{quarter}", "year": month[:4]})[kind]


def _add(state: State, rows: "pd.DataFrame", path: Path) -> tuple[Codes, Codes, list[str]]:
    """Add the new decisions; return their cells (n,), periods (n,), and notes."""
    nothing, summary, notes = np.zeros(0, np.int64), state.summary, list[str]()
    if not len(rows):
        return nothing, nothing, notes
    known = len(summary["groups"])
    rows["cell"] = 6 * _numbers(rows["group"], summary["groups"]) + rows["kind"]
    rows["version"] = _numbers(rows["version"], summary["versions"])
    if (groups := len(summary["groups"])) > _MOST_GROUPS:
        raise FwcError(f"{path}: {groups} groups in all calls are more than {_MOST_GROUPS}: merge levels")
    if known and groups > known:
        notes.append(f"groups not seen before (or renamed): {', '.join(summary['groups'][known:])}")
    rows = rows.iloc[state.add(rows, path)]
    if not len(rows):
        return nothing, nothing, notes
    call = f"call {len(summary['periods']) + 1}"
    period = _numbers(rows["period"].replace("", call), summary["periods"])
    cell, time = rows["cell"].to_numpy(), rows["time"]
    state.count(period, rows["version"].to_numpy(), cell)
    if late := int((time < summary.get("latest", -np.inf)).sum()):
        notes.append(
            f"{late:,} decisions are older than those of earlier calls; alarms use the order of arrival"
        )
    if time.notna().all():
        summary["latest"] = max(summary.get("latest", -np.inf), time.iloc[-1])
    return cell, period, notes


def _numbers(names: "pd.Series[Any]", known: list[str]) -> Codes:
    """The index of each name (n,) in `known`; new names are appended to `known`."""
    known[:] = dict.fromkeys([*known, *names.unique().tolist()])
    places = {name: number for number, name in enumerate(known)}
    return np.array([places[name] for name in names.tolist()], np.int64)


def sums(counts: Codes, metric: Metric) -> Codes:
    """Decisions and hits (R, 2, ..., G) of R rates, from counts (..., G, 2, 3)."""
    counts = counts.sum(-3, keepdims=True) if metric.kind == "share" else counts
    kinds = [(RATES[rate].counted, RATES[rate].hits) for rate in metric.rates]
    return np.array([[counts[..., kind].sum(-1) for kind in of] for of in kinds])


def log_alarm(
    summary: Mapping[str, Any], detector: Detector, alarm: Alarm, checks: int
) -> list[dict[str, Any]]:
    """Log an alarm; return [alarm], or [] if it continues one that is not over."""
    groups, names = [summary["groups"][group] for group in alarm.groups], summary["periods"]
    about = {"condition": detector.condition.text, "rate": alarm.rate, "groups": groups}
    before = np.reshape(alarm.before, (1, 2, 2)).swapaxes(1, 2)
    for one in summary["alarms"]:
        if not one["over"] and one | about == one:
            one["over"] = _keeps(detector, before, checks)
            if not one["over"]:
                one |= {"to": names[alarm.until], "inside": np.add(one["inside"], alarm.inside).tolist()}
                return []
    values = alarm._asdict() | about | {"from": names[alarm.since], "to": names[alarm.until]}
    del values["since"], values["until"]
    summary["alarms"].append(values | {"acknowledged": None, "over": False})
    return [summary["alarms"][-1]]


def _keeps(detector: Detector, of: Codes, checks: int) -> bool:
    """Whether the confidence sequence from decisions and hits (R, 2, G) passes the condition."""
    _, low, high = sequence(of[:, :, None], detector.metric, checks)[:, 0]
    return outcome_of(detector.condition, low, high) == "passed"


@np.errstate(invalid="ignore", divide="ignore")
def sequence(of: Codes, metric: Metric, checks: int = 1) -> Floats:
    """(value, low, high) (3, P) of a metric, with its confidence sequence.

    `of` (R, 2, P, G) has decisions and hits as from `sums`. The limits hold simultaneously over all calls and
    all `checks`. With fewer than two groups of at least 30 decisions, a gap or ratio is NaN.
    """
    looks, rows, parts = ConfidenceSequence(checks, _TIGHTEST), of[:, 0].sum(0), list[Floats]()
    large, (i, j) = rows >= MIN_ROWS_FIRST_LOOK, np.triu_indices(of.shape[3], 1)
    sizes = zip(np.maximum(rows.sum(1), 1).tolist(), np.maximum(large.sum(1), 2).tolist(), strict=True)
    reach = np.array([[looks.critical_value(size, groups, len(of))] for size, groups in sizes]) / Z
    for n, hits in of:
        p = np.where(large, hits / n, np.nan)
        low, high = wilson(p, n)
        below, above = reach * (p - low), reach * (high - p)
        if metric.kind == "share":
            return np.asarray(np.clip([p[:, 0], (p - below)[:, 0], (p + above)[:, 0]], 0, 1))
        one, other, gap = p[:, i], p[:, j], p[:, i] - p[:, j]
        down, up = np.hypot(below[:, i], above[:, j]), np.hypot(above[:, i], below[:, j])
        found = np.abs(gap), np.maximum(gap - down, -gap - up), np.maximum(gap + up, down - gap)
        if metric.kind == "ratio":
            under = ratio_limits(one, below[:, i], other, above[:, j])
            over = ratio_limits(other, below[:, j], one, above[:, i])
            value = np.minimum(one, other) / np.maximum(one, other)
            found = value, np.minimum(under, over), 1 / np.maximum(under, over)
        parts.append(np.array(found))
    pick = np.fmin if metric.kind == "ratio" else np.fmax
    return np.asarray(np.clip(pick.reduce(np.concatenate(parts, -1), axis=-1, initial=np.nan), 0, 1))
