"""Monitoring: add the decisions of a file to those of earlier calls, and judge all of them by
period.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.gates import Check
from fwc_llm.gates.condition import GateCondition
from fwc_llm.gates.decide import CANNOT_SAY, OUTSIDE, Outcome, outcome_of
from fwc_llm.gates.sentences import measured, who_gets
from fwc_llm.meaning import rules_of
from fwc_llm.metrics.audit_table import answers_of
from fwc_llm.metrics.counts import BY_KEY, RATES, UNPARSED, Codes, Floats, Metric
from fwc_llm.metrics.period_gaps import (
    MIN_DECISIONS,
    compared_groups,
    intervals,
    rates_of_groups,
    split_error,
)
from fwc_llm.metrics.records import Record
from fwc_llm.metrics.run_answers import as_names, unknown_of
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.report.monitor_state import DECISION, State
from fwc_llm.report.predictions_reader import HowRead, open_file, read_answers
from fwc_llm.sanitize import listed
from fwc_llm.words import CROSSING

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.run_answers import Names

_MOST_GROUPS = 100  # limit because all pairs of groups are compared
_MOST_PERIODS = 3  # periods that a sentence names, at most


@dataclass(frozen=True)
class Judged:
    """A condition judged on all decisions since the start."""

    condition: GateCondition
    metric: Metric
    pooled: Floats  # value, low, high (3,): within periods, pooled over them
    of_periods: Floats  # value, low, high (3, P) of each period since the start
    periods: Sequence[str]  # their P names
    decisions: int
    rates: Mapping[str, float] = field(
        default_factory=dict
    )  # of yes by group, for gaps in them

    @property
    def outcomes(self) -> list[Outcome]:
        """Within, outside or cannot say, by the interval of each period."""
        limits = self.of_periods[1:].T.tolist()
        return [outcome_of(self.condition, *ends) for ends in limits]

    def check(self) -> Check:
        """Outside if the pooled interval or that of a period is, within if the pooled one is."""
        value, low, high = self.pooled.tolist()
        outcome: Outcome = outcome_of(self.condition, low, high)
        reason = self._estimate(self.pooled, self.rates)
        reason += f" in {self.decisions:,} decisions since {self.periods[0]}"
        outside = [
            f"{self.periods[i]} with {self._estimate(self.of_periods[:, i])}"
            for i, of_period in enumerate(self.outcomes)
            if of_period == OUTSIDE
        ]
        if outside:
            outcome = OUTSIDE
            reason += f"; outside in {listed(outside, _MOST_PERIODS)}"
        elif outcome == CANNOT_SAY:
            reason += "; wait for more decisions"
        return Check(self.condition.text, outcome, reason, value, low, high)

    def _estimate(self, estimate: Floats, rates: Mapping[str, float] = {}) -> str:
        value, low, high = estimate.tolist()
        if np.isnan(low):
            few = f"(under {MIN_DECISIONS} decisions of two groups in the same periods)"
            return f"{self.metric.words} unknown {few}"
        record = Record(value=value, low=low, high=high)
        text = measured(self.metric, record, self.condition)
        return f"{who_gets(rates)}; within the same periods {text}" if rates else text


@dataclass(frozen=True)
class Monitored:
    """All decisions after a call."""

    summary: Mapping[str, Any]  # of `State`
    periods: Sequence[str]  # P names in order of time
    counts: Codes  # (P, G, 2, 3) by period, group, label and answer (no, yes, unread)
    start: int  # index of the first period that is judged
    judged: Sequence[Judged]
    notes: Sequence[str]


def watch(
    state: State,
    path: Path,
    conditions: Sequence[GateCondition],
    options: Mapping[str, Any],
    since: str | None = None,
    layout: Mapping[str, Any] = {},
) -> Monitored:
    """Add the new decisions of a file to an open state, and judge all decisions.

    `options` must be the same at every call with a state: `answer`, `label`, `protected`, `key`,
    `missing`, `time`, `unknown`, `period`, `positive`, `positive_answer`, `positive_label`,
    `negative`, `others`. `since` names the period from which decisions are judged, in this call and
    later ones.
    """
    for condition in conditions:
        check_monitored(condition, options["label"] is not None)
    summary = state.summary
    settings = {**options, "fail_if": [condition.text for condition in conditions]}
    recorded = summary["asked"] or settings
    settings["period"] = settings["period"] or recorded["period"]
    changed = [
        f"--{name.replace('_', '-')} {recorded[name]}"
        for name in recorded
        if recorded[name] != settings[name]
    ]
    if changed:
        raise FwcError(
            f"{state.path} was begun with {', '.join(changed)}: repeat it, or name another --state"
        )
    rows, notes = _read(path, settings, summary, layout)
    if not summary["calls"] and not len(rows):
        raise FwcError(f"{path} has no decisions")
    summary["asked"] = settings
    summary["calls"] += 1
    if len(rows):
        notes = [*notes, *_add(state, rows, path)]
    names = summary["periods"]
    order = sorted(
        range(len(names)), key=lambda index: (len(names[index]), names[index])
    )  # call 9, then 10
    periods = [names[index] for index in order]
    counts = state.counts()[order]
    starts = summary["since"]
    if since is not None and since not in periods:
        raise FwcError(
            f"--since {since!r:.40}: no decision is of this period; the last is {periods[-1]}"
        )
    if since is not None and since not in [start["period"] for start in starts[-1:]]:
        starts.append({"period": since, "call": summary["calls"]})
    if starts:
        start = periods.index(starts[-1]["period"])
    else:
        start = 0
    arrival = np.argsort(
        np.argsort(order[start:])
    )  # in which order the judged periods came
    groups = summary["groups"]
    judged = [
        judge(
            condition, counts[start:], periods[start:], arrival, len(conditions), groups
        )
        for condition in conditions
    ]
    return Monitored(summary, periods, counts, start, judged, notes)


def check_monitored(condition: GateCondition, labelled: bool = True) -> None:
    """Raise `FwcError` for a condition that cannot be monitored."""
    metric = BY_KEY[condition.metric]
    if metric.kind == "gap":
        worse = ">"
    else:
        worse = "<"
    rates = set(RATES) - {"label_rate"}
    may = [key for key, of in BY_KEY.items() if not set(of.rates) - rates]
    if condition.arm is not None or condition.metric not in may:
        raise FwcError(
            f'"{condition.text}" cannot be monitored: name one of {listed(may, 8)}, without [...]'
        )
    if not labelled and set(metric.rates) - {"selection_rate", "coverage"}:
        raise FwcError(
            f'"{condition.text}" needs true outcomes: name their column with --label'
        )
    if condition.operator[0] != worse:
        raise FwcError(
            f'"{condition.text}" cannot be monitored: write {condition.metric} {worse} NUMBER'
        )


def judge(
    condition: GateCondition,
    counts: Codes,
    periods: Sequence[str],
    arrival: Codes,
    conditions: int = 1,
    groups: Sequence[str] = (),
) -> Judged:
    """Judge a condition on counts (P, G, 2, 3) by period; unknown `groups` are in no gap or ratio.

    `arrival` (P,) is the order in which the periods came; see `split_error`.
    """
    metric = BY_KEY[condition.metric]
    half, shares = split_error(arrival, conditions)
    compared = counts
    rates: dict[str, float] = {}
    if metric.kind != "share":
        compared = np.delete(counts, unknown_of(groups), axis=1)
        if metric.rates == ("selection_rate",):
            rates = rates_compared(counts, metric, groups)
    pooled = intervals(compared, metric, half)
    of_periods = intervals(compared[:, None], metric, shares)
    decisions = int(counts.sum())
    return Judged(condition, metric, pooled, of_periods, periods, decisions, rates)


def rates_compared(
    counts: Codes, metric: Metric, groups: Sequence[str]
) -> dict[str, float]:
    """The first rate of a metric for the groups that it compares in counts (P, G, 2, 3)."""
    rate = metric.rates[0]
    shares = rates_of_groups(counts.sum(0), rate)
    if metric.kind != "share":
        known = counts.copy()
        known[:, unknown_of(groups)] = 0
        shares[~compared_groups(known, rate)] = np.nan
    of_groups = zip(groups, shares.tolist(), strict=True)
    return {group: share for group, share in of_groups if share == share}


def _read(
    path: Path,
    options: dict[str, Any],
    summary: dict[str, Any],
    layout: Mapping[str, Any],
) -> "tuple[pd.DataFrame, Sequence[str]]":
    """The decisions of a file (columns: key, group, cell, period), and notes on dropped rows.

    A cell is 3 · label + answer (0, 1, or 2 for unread). New values of answers and labels go to
    `summary`.
    """
    import pandas as pd

    roles = {"row": "key", "answer": "answer", "label": "label", "time": "time"}
    columns = {role: options[name] for role, name in roles.items() if options[name]}
    rules = rules_of(
        options["positive"],
        options["negative"],
        options["others"],
        "command line",
        answer=options["positive_answer"],
        label=options["positive_label"],
    )
    values: dict[str, list[str]] = {}
    for name, rule in rules.items():
        values[name] = [*summary["values"].get(name, ())]
        if rule.positive and rule.negative:  # no call has to have both
            given = ",".join(rule.positive + rule.negative)
            values[name] += map(str.strip, given.split(","))
    protected = options["protected"]
    levels = zip(*(group.split(CROSSING) for group in summary["groups"]), strict=True)
    known_groups = dict(zip(protected, levels, strict=False))
    how = HowRead(
        columns,
        protected,
        rules,
        unknown=options["unknown"],
        missing=options["missing"],
        values=values,
        groups={name: known_groups.get(name, ()) for name in protected},
        alone=True,
    )
    read = read_answers(open_file(path, layout), how)
    frame = read.frame
    notes = read.notes
    if not len(frame):
        return frame, notes
    # An empty cell makes integers floats: 17.0 is the key 17.
    frame["row"] = (
        frame["row"].astype(str).str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)
    )
    twice = frame["row"].duplicated()
    if twice.any():
        key = f"{options['key']} {frame['row'][twice].iloc[0]!r:.80}"
        raise FwcError(
            f"{path} has two rows with {key}: each decision needs a key of its own"
        )
    every = options["period"] = options["period"] or (
        "month" if options["time"] else "call"
    )
    if every != "call" and not options["time"]:
        raise FwcError(f"--period {every} needs dates: name their column with --time")
    design = SamplingDesign(labelled=bool(options["label"]))
    run = answers_of(frame, protected, design, least_groups=1)
    answers = run.answers["answers"]
    summary["values"] = {name: sorted(texts) for name, texts in read.values.items()}
    answer = np.where(np.isnan(answers.answer), UNPARSED, answers.answer)
    cell = (3 * answers.label + answer).astype(np.int64)
    table = pd.DataFrame({"key": frame["row"], "group": answers.group, "cell": cell})
    table["period"] = "call"
    if every != "call":
        table["period"] = _periods(
            as_names(frame["time"].array), every, f"{path}: {options['time']!r}"
        )
    return table, notes


def _periods(times: "Names", every: str, where: str) -> Any:
    """Names of the periods (n,) of times in ISO 8601, each in the zone that it is written in."""
    import pandas as pd

    times = times.remove_unused_categories()
    days = [_day(text, where) for text in times.categories]
    frequency = every[0].upper()  # D, W, M, Q or Y
    return pd.PeriodIndex(days, freq=frequency).astype(str).to_numpy()[times.codes]


def _day(text: str, where: str) -> date:
    """The day of a time in ISO 8601, or the first of a month."""
    try:
        if len(text) == len("2026-11"):
            return date.fromisoformat(f"{text}-01")
        return datetime.fromisoformat(text).date()
    except ValueError:
        column = where.rpartition(": ")[2]
        raise FwcError(
            f"{where}: {text!r:.80} is no date in ISO 8601, such as 2025-03-19: write such dates, "
            f"in pandas table[{column}] = pandas.to_datetime(table[{column}], format='%d.%m.%Y') "
            "with the format of your dates"
        ) from None


def _add(state: State, rows: "pd.DataFrame", path: Path) -> list[str]:
    """Add the decisions of a call to the state; return a note on new groups."""
    summary = state.summary
    n_groups = len(summary["groups"])
    decisions = np.empty(len(rows), DECISION)
    decisions["key"] = state.hashes(rows["key"])
    decisions["cell"] = 6 * _numbers(rows["group"], summary["groups"]) + rows["cell"]
    groups = summary["groups"]
    if len(groups) > _MOST_GROUPS:
        raise FwcError(
            f"{path}: {len(groups)} groups in all calls are more than {_MOST_GROUPS}: merge levels"
        )
    before = list(summary["periods"])
    periods = rows["period"].replace("call", f"call {summary['calls']}")
    decisions["period"] = _numbers(periods, summary["periods"])
    if not state.add(decisions, rows["key"].tolist(), path):
        summary["periods"] = before
    if n_groups and len(groups) > n_groups:
        return [f"groups not seen before (or renamed): {', '.join(groups[n_groups:])}"]
    return []


def _numbers(names: "pd.Series[Any]", categories: list[str]) -> Codes:
    """The index of each name (n,) in `known`; new names are appended to `known`, sorted."""
    categories[:] = dict.fromkeys([*categories, *sorted(names.unique().tolist())])
    index = {name: position for position, name in enumerate(categories)}
    return np.array([index[name] for name in names.tolist()], np.int64)
