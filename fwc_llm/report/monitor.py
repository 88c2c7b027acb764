"""Decisions that keep coming: a state of counts and hashes, sequences of all so far, evidence of change."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Base64Bytes, Field

from fwc_llm.errors import FwcError
from fwc_llm.files import is_file, read_text
from fwc_llm.gates import Check, decide, parse_condition
from fwc_llm.gates.change import check_watched, collected, total
from fwc_llm.gates.condition import KEY_OF, GateCondition
from fwc_llm.metrics.arm_comparison import from_intervals
from fwc_llm.metrics.arm_estimates import estimate
from fwc_llm.metrics.audit_table import DecisionValues, from_frame
from fwc_llm.metrics.confidence_sequences import MIN_ROWS_FIRST_LOOK, ConfidenceSequence
from fwc_llm.metrics.counts import UNPARSED, count_cells, measure
from fwc_llm.metrics.run_answers import ArmAnswers, RunAnswers
from fwc_llm.metrics.statistics import plain
from fwc_llm.report.charts import Axis
from fwc_llm.report.html import environment
from fwc_llm.report.number_format import DASH, number
from fwc_llm.report.predictions_reader import read_predictions
from fwc_llm.report.table_model import Section, difference, valued
from fwc_llm.sanitize import parse_json
from fwc_llm.validation import Checked, check

if TYPE_CHECKING:
    import pandas as pd

_MOST = 3_333  # rows, of which 0.3 are where the sequence is tightest
_KINDS = ["no", "yes", ""]

_ByAnswer = Annotated[list[int], Field(min_length=3, max_length=3)]  # no, yes and unparsed
Counts = dict[str, Annotated[list[_ByAnswer], Field(min_length=2, max_length=2)]]  # by group; labels no, yes


class State(Checked):
    """The summary of all decisions so far: no cell and no name of a row."""

    format: Literal["fwc-llm-monitor/1"] = "fwc-llm-monitor/1"
    asked: dict[str, Any]
    salt: str = Field(default_factory=lambda: secrets.token_hex(8))
    seen: Base64Bytes = b""  # a hash of each row's name, then one of each content, eight bytes each
    counts: dict[str, Counts] = Field(default_factory=dict)  # by version
    evidence: dict[str, dict[str, list[float]]] = Field(default_factory=dict)  # by condition
    history: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """The hashes (2, n): of names, and of contents."""
        return np.frombuffer(self.seen, np.uint64).reshape(2, -1)

    @property
    def groups(self) -> Counts:
        """The counts of all versions together."""
        together: Counts = {}
        for counts in self.counts.values():
            _sum(together, counts)
        return together


def _sum(counts: Counts, more: Mapping[str, Any]) -> None:
    """Add the counts of each group."""
    for group, own in more.items():
        counts[group] = (np.array(counts.get(group, 0)) + own).tolist()


def monitor(
    path: Path,
    state_file: Path,
    conditions: Sequence[GateCondition],
    columns: Mapping[str, Any],
    run_length: int,
    layout: Mapping[str, Any] = {},
) -> tuple[State, list[Check]]:
    """Return the state after the decisions of a file that are new, and what is decided now.

    `columns` has `answer`, `label`, `positive`, `protected`, `key`, and `time` and `by` or None; `layout` is
    that of `read_columns`. Alarms of a change are false at most once in `run_length` decisions on average.
    Raises `FwcError` for conditions that are not watched, a state of other columns or conditions, and rows
    that are there twice or were changed.
    """
    for condition in conditions:
        check_watched(condition, columns["label"] is not None)
    asked = {**columns, "protected": list(columns["protected"]), "conditions": [c.text for c in conditions]}
    asked["run_length"] = run_length
    state = State(asked=asked)
    if is_file(state_file):
        try:
            state = check(State, parse_json(read_text(state_file)), str(state_file))
        except (OSError, ValueError) as error:
            raise FwcError(f"{state_file} is no state of `fwc-llm monitor`: {error}") from None
        for name in (name for name in asked if state.asked.get(name) != asked[name]):
            raise FwcError(
                f"{state_file} monitors {name} {state.asked.get(name)!r}, not {asked[name]!r}: name another "
                "file with --state"
            )
    frame, whole = _read(path, columns, layout)
    if whole is None and not state.history:
        raise FwcError(f"{path} has no decisions")
    key, entry = KEY_OF[conditions[0].metric], dict[str, Any](new=0, value_of_new=None)
    if whole is not None:
        fresh, state = _unseen(state, frame, path)
        new = whole.where(fresh)
        _add(state, new, frame["by"].astype(str).to_numpy()[fresh] if columns["by"] else "", conditions)
        entry["new"] = len(new)
        if len(new):
            counts, _ = count_cells(new.answer, new.label, new.group)
            entry["value_of_new"] = float(measure(counts).values[key][0])
    answered = _answered(state.groups, asked, len(conditions))
    if entry["new"] or not state.history:
        metric = estimate(answered.samples["answers"])[key]
        entry |= {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "rows": len(answered.answers["answers"]),
            "value": metric.value, "low": metric.low, "high": metric.high,
            "evidence": {c.text: total(state.evidence[c.text]) for c in conditions},
        }  # fmt: skip
        state.history.append(plain(entry))
    return state, _decided(state, answered, conditions, run_length)


def _add(
    state: State, new: ArmAnswers, version: npt.NDArray[Any] | str, conditions: Sequence[GateCondition]
) -> None:
    """Add new decisions to the state's counts, by their `version`, and to its evidence."""
    names, group = list(new.group.categories), np.asarray(new.group.codes, np.int64)
    answer = np.where(np.isnan(new.answer), UNPARSED, new.answer).astype(np.int64)
    cell, versions = group * 6 + 3 * new.label + answer, np.broadcast_to(version, len(new))
    for name in dict.fromkeys(versions.tolist()):
        counts = np.bincount(cell[versions == name], minlength=6 * len(names)).reshape(-1, 2, 3)
        there = np.flatnonzero(counts.any((1, 2)))
        _sum(state.counts.setdefault(name, {}), {names[place]: counts[place] for place in there})
    for condition in conditions:
        before = state.evidence.get(condition.text, {})
        state.evidence[condition.text] = collected(before, condition, new.answer, new.label, group, names)


def _read(path: Path, columns: Mapping[str, Any], layout: Mapping[str, Any]) -> "tuple[pd.DataFrame, Any]":
    """The file's decisions in the order of their time, as a frame and as answers; None where it has none."""
    import pandas as pd

    roles = {"row": columns["key"], **{name: columns[name] for name in ("answer", "label", "time", "by")}}
    named = {name: column for name, column in roles.items() if column}
    frame, _ = read_predictions(
        path,
        named,
        columns["protected"],
        DecisionValues(columns["positive"]),
        missing=columns["missing"],
        layout=layout,
    )
    if not len(frame):
        return frame, None
    if columns["time"]:
        when = frame["time"].astype(str)
        try:
            numbers = pd.to_numeric(when, errors="coerce")
            moments = numbers if numbers.notna().all() else pd.to_datetime(when, format="ISO8601", utc=True)
        except ValueError as error:
            raise FwcError(
                f"{path}: {columns['time']!r} holds times that ISO 8601 does not write so: {error!s:.60}"
            ) from None
        frame = frame.iloc[np.argsort(moments.to_numpy(), kind="stable")].reset_index(drop=True)
    label = "label" if columns["label"] else None
    answered = from_frame(frame, protected=columns["protected"], unknown=None, label=label, least_groups=1)
    return frame, answered.answers["answers"]


def _unseen(state: State, frame: "pd.DataFrame", path: Path) -> tuple[npt.NDArray[np.bool_], State]:
    """True for new rows (n,), and the state that has seen them."""
    import pandas as pd

    content = frame.drop(columns="row").astype(str)
    key, now = (
        pd.util.hash_pandas_object(part, index=False, hash_key=state.salt).to_numpy()
        for part in (frame["row"].astype(str), content)
    )
    seen, before = state.hashes
    place = pd.Index(seen).get_indexer(key)
    old = place >= 0
    changed = np.flatnonzero(old)[before[place[old]] != now[old]]
    if len(changed):
        row = frame["row"].iloc[int(changed[0])]
        raise FwcError(
            f"{path}: the row {row!r} was seen before and has changed: a sequence is of decisions as they "
            "were made; restore it, or begin a new state with --state"
        )
    both = np.concatenate([[seen, before], np.stack([key, now])[:, ~old]], axis=1)
    return ~old, state.model_copy(update={"seen": both.tobytes()})


def _answered(counts: Counts, asked: Mapping[str, Any], checks: int) -> RunAnswers:
    """The decisions that counts stand for, with intervals that hold at every look."""
    import pandas as pd

    cells = np.array(list(counts.values())).reshape(-1, 2, 3)
    group, label, answer = np.unravel_index(np.repeat(np.arange(cells.size), cells.ravel()), cells.shape)
    names = {"group": (group, list(counts)), "label": (label, ["no", "yes"]), "answer": (answer, _KINDS)}
    columns = {n: pd.Categorical.from_codes(codes, pd.Index(texts)) for n, (codes, texts) in names.items()}
    answered = from_frame(
        pd.DataFrame(columns), attributes=asked["protected"], label="label" if asked["label"] else None,
        min_group=MIN_ROWS_FIRST_LOOK, least_groups=1,
    )  # fmt: skip
    return replace(answered, design=replace(answered.design, sequential=ConfidenceSequence(checks, _MOST)))


def _decided(
    state: State, answered: RunAnswers, conditions: Sequence[GateCondition], run_length: int
) -> list[Check]:
    sample, checks = answered.samples["answers"], list[Check]()
    few = sample.rows_of_groups[sample.eligible_groups].min() < MIN_ROWS_FIRST_LOOK
    limit = run_length * len(conditions)
    for condition in conditions:
        now = decide(condition, answered)[0]
        if few:
            why = f"{condition.text}: a group has fewer than {MIN_ROWS_FIRST_LOOK} decisions so far"
            now = Check(condition.text, "undecided", why, now.value)
        evidence, change = total(state.evidence[condition.text]), f"change: {condition.text}"
        changed = evidence >= limit
        words = "it changed" if changed else "no change shown"
        why = (
            f"{change}: {words}, evidence {evidence:,.3g}, alarm at {limit:,} (at most one false alarm in "
            f"{run_length:,} decisions on average)"
        )
        checks += [now, Check(change, "failed" if changed else "passed", why, evidence)]
    return checks


def sections(state: State) -> list[Section]:
    """Return the sequence of all calls, and versions side by side, as tables."""
    conditions = state.asked["conditions"]
    rows = [
        [
            entry["at"][:16], f"{entry['rows']:,}", f"{entry['new']:,}", number(entry["value_of_new"], 3),
            valued(entry, 3),
            *(f"{entry['evidence'][text]:,.3g}" for text in conditions),
        ]
        for entry in state.history
    ]  # fmt: skip
    heads = "Call", "Decisions", "New", "Of the new", "Of all", *(f"Evidence: {text}" for text in conditions)
    sequence = Section(f"{conditions[0]}, call by call", heads, rows, name="sequence")
    return [sequence, *([_by_version(state)] if len(state.counts) > 1 else [])]


def _by_version(state: State) -> Section:
    """Each version's DP gap, and its difference to the version before, as they first came."""
    gaps = {}
    for name, counts in state.counts.items():
        if len(counts) > 1:
            sample = _answered(counts, state.asked, len(state.counts)).samples["answers"]
            gaps[name] = sample.rows, estimate(sample)["demographic_parity_difference"]
    drift = {name: from_intervals(gaps[before][1], gaps[name][1]) for before, name in pairwise(gaps)}
    rows = [
        [
            name, f"{rows:,}", valued(vars(gap), 3),
            difference(vars(drift[name]), 3) if name in drift else DASH,
        ]
        for name, (rows, gap) in gaps.items()
    ]  # fmt: skip
    return Section("By version", ("Version", "Decisions", "DP gap", "Less the one before"), rows)


def page(state: State, checks: Sequence[Check], title: str) -> str:
    """Return the state as one HTML page, with a picture of the sequence; it loads nothing."""
    bound = parse_condition(state.asked["conditions"][0]).bound
    ends = [entry[name] for entry in state.history for name in ("high", "value_of_new")]
    x = Axis(0.0, max(2.0, float(len(state.history))), 46.0, 620.0)
    y = Axis(0.0, min(1.0, max([0.1, bound, *filter(None, ends)]) * 1.1), 250.0, 12.0)
    names = ("value_of_new", "value", "low", "high")
    marks = [
        {"x": x.at(place + 0.5), **{name: y.at(entry[name]) for name in names}}
        for place, entry in enumerate(state.history)
    ]
    shown = {"title": title, "checks": checks, "sections": sections(state)}
    return environment().get_template("monitor.html.j2").render(shown, marks=marks, y=y, bound=y.at(bound))
