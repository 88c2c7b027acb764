"""Monitoring: add the decisions of a file to those of earlier calls, and judge all of them by
period.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.files import in_shell
from fwc_llm.gates import Check
from fwc_llm.gates.condition import GateCondition
from fwc_llm.gates.decide import (
    CANNOT_SAY,
    IN_WORDS,
    OUTSIDE,
    WITHIN,
    Lacking,
    Outcome,
    outcome_of,
    why_open,
    worst,
)
from fwc_llm.gates.sentences import measured, of_either_kind, who_gets
from fwc_llm.meaning import rules_of
from fwc_llm.metrics.audit_table import AnswerTable, answers_of
from fwc_llm.metrics.counts import (
    BY_KEY,
    OF_REFERRALS,
    RATES,
    SHAPE,
    UNPARSED,
    Codes,
    Metric,
)
from fwc_llm.metrics.intervals import Estimate
from fwc_llm.metrics.period_gaps import (
    MIN_DECISIONS,
    estimates,
    furthest_apart,
    rates_of_groups,
    split_error,
)
from fwc_llm.metrics.records import Record, record_of
from fwc_llm.metrics.run_answers import as_names, unknown_of
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.metrics.variance import UNLABELLED
from fwc_llm.report.monitor_state import State
from fwc_llm.report.predictions_reader import HowRead, open_file, read_answers
from fwc_llm.sanitize import Fields, Json, listed
from fwc_llm.words import CROSSING, is_known, named

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import Names

_MOST_GROUPS = 100  # limit because all pairs of groups are compared
_MOST_PERIODS = 3  # periods that a sentence lists, at most
_RATES = {*RATES} - {"label_rate"}
_NOT_JUDGED = (
    "Not judged, because the category is not known or has fewer than "
    f"{MIN_DECISIONS} decisions"
)
_FEW = f"under {MIN_DECISIONS} decisions"
_NO_PAIR = f"{_FEW} of two groups in the same periods"
_NOBODY = "nobody got a yes"
_REMEDIES: Mapping[str, tuple[str, Lacking]] = {  # by the reason for an unknown metric
    _NO_PAIR: (
        "wait for more decisions, or judge longer periods in another state",
        "decisions",
    ),
    _NOBODY: ("find out why: there is no ratio until somebody gets a yes", ""),
}
_DAY = r"^(\d{4}-?\d\d(?:-?\d\d)?)(?:[T ]|$)"  # of a time in ISO 8601, or a month


@dataclass(frozen=True)
class Judged:
    """A condition judged on all decisions since the start."""

    condition: GateCondition
    pooled: Estimate  # within periods, pooled over them
    of_periods: Mapping[str, Record]  # by period since the start
    decisions: int
    compared: Codes  # counts (P, G, 3, 4) without people whose group is unknown
    groups: Sequence[str]  # (G,)

    @property
    def metric(self) -> Metric:
        """The metric of the condition."""
        return BY_KEY[self.condition.metric]

    def outcome(self, period: str) -> Outcome:
        """Within, outside or cannot say, by the interval of a period since the start."""
        return outcome_of(self.condition, *self.of_periods[period].ends)

    def check(self) -> Check:
        """Outside if the pooled interval or that of a period is, within if the pooled one is."""
        since, *later = self.of_periods
        where = (
            f"in {self.decisions:,} decision{'s' * (self.decisions != 1)} since {since}"
        )
        where += ", averaged over periods" * (
            bool(later) and self.metric.kind != "share"
        )
        found = self._check(where, record_of(self.pooled), self.compared)
        periods = [*self.of_periods] if later else []
        outside = [period for period in periods if self.outcome(period) == OUTSIDE]
        told = [found.reason]
        if outside and found.outcome != OUTSIDE:
            latest = outside.pop()
            counts = self.compared[[periods.index(latest)]]
            found = self._check(f"in {latest}", self.of_periods[latest], counts)
            told.insert(0, found.reason)
        if outside:
            told.insert(1, f"also outside in {listed(outside[::-1], _MOST_PERIODS)}")
        lacking: Lacking = ""
        if found.outcome == CANNOT_SAY:
            why, lacking = self._open()
            told.append(why)
        return replace(found, reason="; ".join(told), lacking=lacking)

    def _check(self, where: str, record: Record, counts: Codes) -> Check:
        """The check of the metric of counts (P, G, 3, 4), with who gets how much."""
        told = f"{self.metric.words} unknown ({self._unknown(record, counts)})"
        if record.known:
            told = measured(self.metric, record, self.condition)
        if record.known and self.metric.kind != "share":
            rate, rates = furthest_apart(counts, self.metric)
            by_name = {self.groups[group]: rates[group] for group in rates}
            told = f"{who_gets(by_name, rate)}, {told}"
        outcome = outcome_of(self.condition, *record.ends)
        numbers = record.value, *record.ends
        return Check(self.condition.text, outcome, f"{where}, {told}", *numbers)

    def _unknown(self, record: Record, counts: Codes) -> str:
        """Why the metric of counts (P, G, 3, 4) is unknown; "" if it is known."""
        if record.known:
            return ""
        if math.isnan(record.low):
            return _FEW if self.metric.kind == "share" else _NO_PAIR
        _, apart = furthest_apart(counts, self.metric)
        if apart:  # no ratio of rates of 0
            return _NOBODY
        known = rates_compared(counts.sum(0), self.metric, self.groups)
        names = [group for group in self.groups if group not in known]
        of = f" of {listed(names, _MOST_PERIODS)}" * bool(names)
        return f"under {MIN_DECISIONS} answers{of} were read"

    def _open(self) -> tuple[str, Lacking]:
        """What would settle the pooled metric, and what it lacks."""
        record = record_of(self.pooled)
        unread = int(self.compared[..., UNPARSED].sum())
        ends = self.pooled.read[1], self.pooled.readings[0]
        usual = why_open(self.condition, record, *ends, unread, "decisions")
        return _REMEDIES.get(self._unknown(record, self.compared), usual)


@dataclass(frozen=True)
class Monitored:
    """All decisions after a call: `counts` (P, G, 3, 4) by period, group, label and answer.

    Periods are in order of time. `since` are the starts: period and call.
    """

    periods: Sequence[str]
    groups: Sequence[str]
    counts: Codes
    since: Sequence[Fields]
    judged: Sequence[Judged]
    notes: Sequence[str]


def answers(checks: Sequence[Check]) -> list[str]:
    """The verdicts in words, the worst first."""
    return [
        f"{words}: {check.reason}."
        for outcome, words in IN_WORDS.items()
        for check in checks
        if check.outcome == outcome
    ]


def following(checks: Sequence[Check]) -> str:
    """The next step."""
    outcome = worst(checks)
    lacking = {check.lacking for check in checks}
    if outcome == OUTSIDE:
        step = "find out the cause, with people who know these decisions"
        return f"{step}; after a repair, judge from its period on"
    if "replies" in lacking:
        return "find out first why answers are missing"
    if outcome == WITHIN or "decisions" in lacking:
        return "add the next decisions"
    return f"find out why {_NOBODY}"


def watch(
    state: State,
    path: Path,
    conditions: Sequence[GateCondition],
    options: Fields,
    since: str | None = None,
    layout: Mapping[str, Any] = {},
) -> Monitored:
    """Add the new decisions of a file to an open state, and judge all decisions.

    `options` must be the same at every call with a state: `answer`, `label`, `protected`, `key`,
    `missing`, `time`, `unknown`, `period`, `positive`, `positive_answer`, `positive_label`,
    `negative`, `refer`, `others`. `since` names the period from which decisions are judged, in this
    call and later ones.
    """
    for condition in conditions:
        _check_monitored(condition, bool(options["label"]))
    summary = state.summary
    every = options["period"] or ("month" if options["time"] else "call")
    if every != "call" and not options["time"]:
        raise FwcError(f"--period {every} needs dates: name their column with --time")
    fail_if = [condition.text for condition in conditions]
    now = {**options, "period": every, "fail_if": fail_if}
    begun = summary.setdefault("asked", now)
    changed = [
        _typed(name, begun.get(name)) for name in now if begun.get(name) != now[name]
    ]
    if changed:
        began = listed(changed, 5)
        raise FwcError(
            f"{state.path} was begun with {began}: repeat it, or name another --state"
        )
    earlier = {*state.cells()["people"]}
    notes = _add(state, path, earlier, layout)
    cells = state.cells()
    if cells.empty:
        raise FwcError(f"{path} has no decisions")
    periods = list(cells["period"].unique())  # in order of time
    groups = sorted(cells["people"].unique())
    period_of = cells["period"].map(periods.index)
    group_of = cells["people"].map(groups.index)
    if len(groups) > _MOST_GROUPS:
        raise FwcError(
            f"{path}: {len(groups)} groups in all calls are more than {_MOST_GROUPS}: merge levels"
        )
    counts = np.zeros((len(periods), len(groups), *SHAPE), np.int64)
    counts[period_of, group_of, cells["label"], cells["answer"]] = cells["n"]
    more = sorted({*groups} - earlier)
    if earlier and more:
        notes.append(f"groups not seen before (or renamed): {', '.join(more)}")
    decided = dict(zip(groups, counts.sum((0, 2, 3)).tolist(), strict=True))
    apart = [
        f"{group} ({n:,} decided)"
        for group, n in decided.items()
        if n < MIN_DECISIONS or not is_known(group)
    ]
    if apart:
        notes.append(f"{_NOT_JUDGED}: {', '.join(apart)}.")
    unread = int(counts[..., UNPARSED].sum())
    if unread:
        notes.append(
            f"{unread:,} of {counts.sum():,} decisions have no answer that was read: rates are of "
            "the others, and verdicts hold for every answer that these may have."
        )
    notes += of_either_kind([condition.metric for condition in conditions])
    starts = summary["since"]
    if since is not None:
        spelled = {period.replace("-", ""): period for period in periods}  # 2026-Q3
        start = spelled.get(since.replace("-", ""))
        if start is None:
            raise FwcError(
                f"--since {since!r:.40}: no decision is of this {every}; write it as the last "
                f"one, {periods[-1]}"
            )
        if start not in [one["period"] for one in starts[-1:]]:
            starts.append({"period": start, "call": summary["calls"]})
    first = periods.index(starts[-1]["period"]) if starts else 0
    calls = cells.groupby(period_of)["call"].min().to_numpy()[first:]
    arrival = np.argsort(np.argsort(calls, kind="stable"))
    rest = periods[first:], counts[first:], arrival, groups, len(conditions)
    judged = [judge(condition, *rest) for condition in conditions]
    return Monitored(periods, groups, counts, starts, judged, notes)


def _typed(name: str, value: Any) -> str:
    """A recorded option as it is typed."""
    flag = f"--{name.replace('_', '-')}"
    if value in (None, []):
        return f"no {flag}"
    if name == "fail_if":
        return " ".join(f"{flag} {in_shell(text)}" for text in value)
    if isinstance(value, list | tuple):
        value = ",".join(value)
    return f"{flag} {in_shell(value)}"


def _check_monitored(condition: GateCondition, labelled: bool) -> None:
    """Raise `FwcError` for a condition that cannot be monitored."""
    metric = BY_KEY[condition.metric]
    worse = ">" if metric.kind == "gap" or metric.key in OF_REFERRALS else "<"
    may = [key for key, of in BY_KEY.items() if {*of.rates} <= _RATES]
    of_all = condition.arm is None and condition.metric in may
    if not of_all or condition.operator[0] != worse:
        raise FwcError(
            f'"{condition.text}" cannot be monitored: name one of {", ".join(may)}, without [...], '
            "as a gap or refer_rate > NUMBER, or another < NUMBER"
        )
    if not labelled and {*metric.rates} - {*UNLABELLED}:
        raise FwcError(
            f'"{condition.text}" needs true outcomes: name their column with --label'
        )


def judge(
    condition: GateCondition,
    periods: Sequence[str],
    counts: Codes,
    arrival: Codes,
    groups: Sequence[str],
    conditions: int = 1,
) -> Judged:
    """Judge a condition on counts (P, G, 3, 4) by period and group; unknown groups are in no gap or
    ratio.

    `arrival` (P,) is the order in which the periods came; see `split_error`.
    """
    metric = BY_KEY[condition.metric]
    half, shares = split_error(arrival, conditions)
    compared = counts
    if metric.kind != "share":
        compared = np.delete(counts, unknown_of(groups), axis=1)
        groups = [*filter(is_known, groups)]
    (pooled,) = estimates(compared[None], metric, [half])
    of_periods = map(record_of, estimates(compared[:, None], metric, shares))
    by_period = dict(zip(periods, of_periods, strict=True))
    total = int(counts.sum())
    return Judged(condition, pooled, by_period, total, compared, groups)


def rates_compared(
    counts: Codes, metric: Metric, groups: Sequence[str]
) -> dict[str, float]:
    """The first rate of a metric for the groups in counts (G, 3, 4) that have enough decisions."""
    rates = rates_of_groups(counts, metric.rates[0]).tolist()
    return {
        group: rate
        for group, rate in zip(groups, rates, strict=True)
        if rate == rate and (metric.kind == "share" or is_known(group))
    }


def _add(
    state: State, path: Path, groups: Collection[str], layout: Fields
) -> list[str]:
    """Add the new decisions of a file to the state with these groups; return notes on rows."""
    import pandas as pd

    summary = state.summary
    options = summary["asked"]
    read = _read(path, summary, groups, layout)
    frame = read.frame
    if not len(frame):
        return [*read.notes]
    # An empty cell makes integers floats: 17.0 is the key 17.
    keys = frame["row"].astype(str).str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)
    hashed = pd.util.hash_pandas_object(keys, index=False, hash_key=summary["salt"])
    periods = f"call {summary['calls']}"
    if options["period"] != "call":
        times = as_names(frame["time"].array)
        periods = _periods(times, options["period"], f"{path}: {options['time']!r}")
    design = SamplingDesign(labelled=bool(options["label"]))
    unnamed = replace(read, frame=frame.drop(columns="row"))
    answers = answers_of(unnamed, design, least_groups=1).answers["answers"]
    decisions = {
        "key": hashed.to_numpy().view(np.int64),
        "name": keys.to_numpy(),
        "period": periods,
        "people": answers.group,
        "label": answers.label,
        "answer": np.nan_to_num(answers.answer, nan=UNPARSED).astype(int),
    }
    state.add(pd.DataFrame(decisions).itertuples(index=False, name=None), path)
    return [*read.notes]


def _read(
    path: Path, summary: Json, groups: Collection[str], layout: Fields
) -> AnswerTable:
    """The table of a file's decisions; `summary` gets its values."""
    options = summary["asked"]
    roles = {"row": "key", "answer": "answer", "label": "label", "time": "time"}
    rules = rules_of(options)
    values = {name: [*summary["values"].get(name, ())] for name in rules}
    for name, rule in rules.items():
        if rule.positive and rule.negative:  # no call has to have both
            given = ",".join(rule.positive + rule.negative + rule.refer)
            values[name] += map(str.strip, given.split(","))
    raw = open_file(path, layout)
    protected = named(options["protected"], raw.titles)
    levels = zip(*(group.split(CROSSING) for group in groups), strict=True)
    how = HowRead(
        {role: options[name] for role, name in roles.items() if options[name]},
        protected,
        rules,
        unknown=options["unknown"],
        missing=options["missing"],
        values=values,
        groups=dict(zip(protected, levels, strict=False)),
        alone=True,
    )
    read = read_answers(raw, how)
    summary["values"] = {name: sorted(texts) for name, texts in read.values.items()}
    return read


def _periods(times: "Names", every: str, where: str) -> Any:
    """Names of the periods (n,) of times in ISO 8601, each in the zone that it is written in."""
    import pandas as pd

    times = times.remove_unused_categories()
    written = times.categories.str.extract(_DAY, expand=False)
    days = pd.DatetimeIndex(pd.to_datetime(written, format="ISO8601", errors="coerce"))
    if days.hasnans:
        column = where.rpartition(": ")[2]
        raise FwcError(
            f"{where}: {times.categories[days.isna()][0]!r:.80} is no date in ISO 8601, such as "
            f"2025-03-19: write such dates, in pandas table[{column}] = "
            f"pandas.to_datetime(table[{column}], format='%d.%m.%Y') with the format of your dates"
        )
    frequency = every[0].upper()  # D, W, M, Q or Y
    return days.to_period(frequency).astype(str).to_numpy()[times.codes]
