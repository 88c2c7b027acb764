"""Reads a file of predictions as the table for an audit.

Groups, outcomes and numbers are read by the rules of tasks: `words.groups_of`,
`meaning.read_meaning` and `task_inference.notation`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from fwc_llm.answers import Reason, parse_answer
from fwc_llm.cell_rules import kind_of, units_of
from fwc_llm.data.clean_table import counted, crossed
from fwc_llm.data.task_inference import notation
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as
from fwc_llm.meaning import MeaningRule, own_rules, read_meaning
from fwc_llm.metrics.adverse_impact import over_median
from fwc_llm.metrics.audit_table import FILE_ROW, unused_columns, yes_or_no
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.run_answers import as_names, mapped
from fwc_llm.models.base import Reply
from fwc_llm.notices import spoken
from fwc_llm.report.external_results import open_results
from fwc_llm.runs.unread import frequent_texts
from fwc_llm.taskfile import Written
from fwc_llm.words import (
    GROUPS_REMEDY,
    UNKNOWN,
    Words,
    fault_of_groups,
    group_key,
    groups_of,
    is_marker,
)

if TYPE_CHECKING:
    from fwc_llm.data.raw_table import RawTable
    from fwc_llm.metrics.run_answers import Names

_ENDED = ("finish_reason", "refusal", "reason")  # columns on how a reply ended
_NO_REFUSAL = (
    "",
    "no",
    "false",
    "0",
)  # other cells of a column `refusal`: yes, or its text
_SHOWN = 5  # most rows that an error lists
_MAY_BE_EMPTY = {"answer", "p_yes", "score"}
_ENOUGH = 30  # rows whose answers are hardly alike by chance
_MOST = 8  # most groups that a note lists
# Names of the audit's own columns, which a protected column must not have.
_OURS = {"answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason"}
_OURS |= {"weight", "cluster", "given", "score", "above"}
_LARGEST = float(np.finfo(np.float64).max)
_NUMBERS = {  # numeric columns: (smallest value, largest value, name, hint on the notation)
    "p_yes": (
        0.0,
        1.0,
        "P(yes)",
        " from 0 to 1 (0.87 for 87 %), and leave a cell empty where there is none",
    ),
    "score": (-_LARGEST, _LARGEST, "a number", ""),
    "weight": (0.0, _LARGEST, "a weight", " of at least 0"),
}


@dataclass(frozen=True)
class HowRead:
    """What a caller says of a table of answers.

    `columns` maps the audit's columns to those of the table. `rules` say what the values of
    "answer" and "label" mean; columns with the same rule are read together (see `own_rules`).
    `words` are those for yes and no in replies of models, which are parsed; None: the answers are
    values. Words in `unknown` mean an unknown group. Without an answer column, the answer is yes if
    `p_yes` is at least `threshold` (None: 0.5), or if `score` exceeds its median. `key` names
    the rows of a
    population. `values` (of "answer" and "label") and `groups` (by protected column) are those of
    earlier files. `alone`: each decision counts once, without weights or people.
    """

    columns: Mapping[str, str]
    protected: Sequence[str] = ()
    rules: Mapping[str, MeaningRule] = field(default_factory=dict)
    words: Words | None = None
    unknown: Collection[str] = ()
    threshold: float | None = None
    missing: str = "refuse"
    key: str = "row"
    values: Mapping[str, Collection[str]] = field(default_factory=dict)
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    alone: bool = False

    @property
    def grouped(self) -> Sequence[str]:
        """The columns of groups: `protected`, or "group" alone, whose levels are as they are."""
        return self.protected or ["group"]

    def rule(self, name: str) -> MeaningRule:
        """The rule of "answer" or "label"."""
        return self.rules.get(name, MeaningRule())


@dataclass(frozen=True)
class AnswerTable:
    """The table for an audit: `frame` (n rows, indexed by `FILE_ROW`), with notes.

    With scores, its column "above" says whether they exceed the median of their arm. `population`
    has the rows that were sampled, if they are known; `values` the texts of "answer"
    and "label", also of earlier files. `left_out` are the notes on rows that are not in `frame`.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...]
    population: pd.DataFrame | None
    values: Mapping[str, Collection[str]]
    left_out: tuple[str, ...] = ()


def read_answers(
    raw: "RawTable", how: HowRead, population: "RawTable | None" = None
) -> AnswerTable:
    """Read a file or data frame as the table for an audit.

    Protected columns that the table lacks are taken from `population`.
    """
    columns = how.columns
    _check_names(raw, how)
    elsewhere: dict[str, Names] = {}
    if population is not None:
        elsewhere, _ = population.readable([how.key])
    lacking = [
        name for name in how.grouped if name in elsewhere and name not in raw.titles
    ]
    names = dict.fromkeys((*columns.values(), *how.grouped))
    cells = {name: raw.texts(name) for name in names if name not in lacking}
    if lacking:
        cells |= _from_population(cells[columns["row"]], elsewhere, how.key, lacking)
    table: dict[str, Any] = {name: cells[column] for name, column in columns.items()}
    if not table.keys() & {"answer", "p_yes", "score"}:
        raise FwcError("no column has the answers: name answer, or p_yes")
    notes = list[str]()
    if how.words is not None:
        notes += _parsed_replies(table, how.words, raw)
    elif "reason" in raw.titles:
        reasons = filled(raw.texts("reason"))
        if set(reasons.unique()) <= set(get_args(Reason)):
            table["reason"] = reasons
    if "answer" in table and how.words is None and not how.rule("answer").positive:
        _check_probabilities(table["answer"], how, raw)
    for name in _NUMBERS.keys() & table:
        table[name] = as_numbers(
            table[name],
            columns[name],
            name,
            raw.numbers,
            raw.usual_in(columns[name])[0],
        )
    if "answer" in table and how.threshold is not None:
        raise FwcError(
            "--threshold makes answers of --p-yes, and --answer gives the answers: leave out one "
            "of them"
        )
    if "answer" not in table and "p_yes" in table:
        threshold = HALF if how.threshold is None else how.threshold
        table["answer"] = answered_at(table["p_yes"], threshold)
    notes += unused_columns(
        raw.titles, set(cells), columns.get("weight"), columns.get("cluster"), how.alone
    )
    if not {"cluster", "row"}.intersection(
        columns
    ):  # without ids, equal rows may be the same person
        told = [columns.get(name) for name in ("answer", "p_yes", "score")]
        notes += repeated_note(raw, *told)
    told_groups = list[str]()
    for name in how.grouped:
        both = [cells[name], *([elsewhere[name]] if name in elsewhere else [])]
        found, more = _groups(raw.where, name, both, how)
        table[name] = found[0]
        told_groups += more
        if name in elsewhere:
            elsewhere[name] = found[1]
    frame = pd.DataFrame(table, pd.Index(raw.numbers, name=FILE_ROW))
    read = [name for name in ("answer", "label") if name in columns]
    if how.words is not None:
        read = [name for name in read if name != "answer"]
    values = {
        name: {*how.values.get(name, ()), *frame[name].dropna().unique()}
        for name in read
    }
    if len(read) > 1:
        rules = {name: how.rule(name) for name in read}
        how = replace(how, rules=own_rules(rules, values))
    neither, pooled = _decided(frame, read, raw.where, how)
    titles = " or ".join(columns[name] for name in read)
    frame, lost = _kept(frame, neither, titles, raw.where, how)
    if "score" in frame:
        frame["above"] = _above_median(frame)
        frame["answer"] = frame["answer" if "answer" in frame else "above"]
    people = None
    if population is not None:
        people = _population(elsewhere, population, how)
    notes = [*lost, *told_groups, *pooled, *notes]
    return AnswerTable(frame, tuple(notes), people, values, tuple(lost))


def _check_names(raw: "RawTable", how: HowRead) -> None:
    """Raise `FwcError` for columns that cannot go together."""
    columns = how.columns
    taken = [*how.protected, columns.get("answer"), columns.get("label")]
    twice = [name for name in how.protected if taken.count(name) > 1]
    if twice:
        raise FwcError(
            f"the protected column {twice[0]!r} is named twice, or is the answer or the label"
        )
    if "repeat" in columns and "row" not in columns:
        raise FwcError(
            "the column 'repeat' needs 'row': name the row that each answer is about"
        )
    clash = sorted(_OURS.intersection(how.protected))
    if clash:
        raise FwcError(
            f"the protected column {clash[0]!r} has a name that the audit uses itself: rename it "
            f"in {raw.where}"
        )


def _check_probabilities(answers: "Names", how: HowRead, raw: "RawTable") -> None:
    """Raise `FwcError` for answers that are shares."""
    title = how.columns["answer"]
    numbers, wrong = _numbers(answers, raw.usual_in(title)[0])
    shares = np.unique(numbers[~np.isnan(numbers)])
    if len(shares) > 2 and not wrong.any() and shares[0] >= 0 and shares[-1] <= 1:
        remedy = how.rule("answer").written(p_yes=title)
        raise FwcError(f"{title!r} looks like probabilities: name it as such, {remedy}")


def _groups(
    where: Path | str, name: str, tables: "Sequence[Names]", how: HowRead
) -> "tuple[list[Names], list[str]]":
    """The groups of a column in the table and in the population, and notes."""
    counts = Counter[str]()
    for texts in tables:
        counts.update(counted(pd.Series(texts)))
    fault = fault_of_groups({*map(group_key, counts)})
    if fault:
        raise FwcError(
            f"{where}: the protected column {name!r} has {fault}: {GROUPS_REMEDY}"
        )
    groups: Mapping[str, str] = {}
    notes = list[str]()
    blank = int((tables[0].codes < 0).sum())
    if how.protected:
        known = how.groups.get(name)
        groups, told = groups_of(name, counts, how.unknown, known, "--unknown")
        notes = [spoken(f"{note}.") for note in told]
    if blank:
        notes.append(
            f"{blank:,} of {len(tables[0]):,} rows have no {name} and are of the group {UNKNOWN!r}."
        )
    return [
        mapped(filled(texts, UNKNOWN), lambda text: groups.get(text, text))
        for texts in tables
    ], notes


def _decided(
    frame: pd.DataFrame, names: Sequence[str], where: Path | str, how: HowRead
) -> tuple[Any, list[str]]:
    """Replace texts of the columns `names` by yes, no or missing; return a mask (n,) of rows that
    are left out, and notes. The values of earlier files have to have a meaning, too.
    """
    neither = np.zeros(len(frame), dtype=np.bool_)
    notes = list[str]()
    by_rule: dict[MeaningRule, list[str]] = {}
    for name in names:
        by_rule.setdefault(how.rule(name), []).append(name)
    for rule, together in by_rule.items():
        texts = pd.concat([frame[name].astype(object) for name in together]).dropna()
        if texts.empty:
            continue
        earlier = {text for name in together for text in how.values.get(name, ())}
        known = dict.fromkeys(sorted(earlier), 0)
        first = texts.drop_duplicates()
        row_of = dict(zip(first, first.index, strict=True))
        title = " and ".join(how.columns[name] for name in together)
        meaning = read_meaning(
            known | counted(texts), f"{where}: {title}", rule, row_of
        )
        means = dict.fromkeys(meaning.no, 0) | dict.fromkeys(meaning.yes, 1)
        for name in together:
            held = counted(frame[name])
            known_texts = [text for text in held if meaning.of(text) is not None]
            if rule.column or len(known_texts) > 2:
                notes.append(f"{meaning.sentence(how.columns[name], held)}.")
            unknown = meaning.unknown if name == "label" else ()
            neither |= frame[name].isin([*meaning.dropped, *unknown]).to_numpy()
            frame[name] = yes_or_no(frame[name].map(means))
    return neither, notes


def _kept(
    frame: pd.DataFrame, neither: Any, titles: str, where: Path | str, how: HowRead
) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have an answer or none, and all that the audit needs; notes on others."""
    needed = [name for name in how.columns if name not in _MAY_BE_EMPTY]
    empty = frame[needed].isna() & ~neither[:, None]
    lacking = [str(name) for name in needed if empty[name].any()]
    for name in lacking if how.missing == "refuse" else ():
        n = int(empty[name].sum())
        without = ""
        if name == "label":
            without = f"without {spoken('--label')}, rates of yes are of all rows; "
        raise FwcError(
            f"{where}:{empty[name].idxmax()}: no value in column {how.columns[name]} "
            f"({n:,} row{'s' * (n > 1)} in total); {without}"
            f"{how.rule('label').written(missing='drop')} leaves such rows out"
        )
    if "label" in frame and "answer" in frame:
        _check_labelled(frame, where, how)
    masks = {
        f"are left out, whose {titles} is neither yes nor no": neither,
        f"have no {', '.join(how.columns[name] for name in lacking)} and are left out": empty.any(
            axis=1
        ).to_numpy(),
    }
    notes = list[str]()
    for fate, mask in masks.items():
        if not mask.any():
            continue
        lost = Counter(crossed(frame[mask], how.grouped).tolist())
        by_group = ", ".join(f"{group} {n:,}" for group, n in lost.most_common(_MOST))
        notes.append(f"{lost.total():,} of {len(frame):,} rows {fate}: {by_group}.")
    lost_rows = np.logical_or.reduce([*masks.values()])
    if "row" in frame:  # arms and repeats must have the same rows
        lost_rows |= frame["row"].isin(frame["row"][neither]).to_numpy()
    return frame[~lost_rows] if lost_rows.any() else frame, notes


def _check_labelled(frame: pd.DataFrame, where: Path | str, how: HowRead) -> None:
    """Raise `FwcError` where an arm's answers differ, but not those that have a label.

    Fewer rows with a label may agree by chance.
    """
    arms = frame["arm"] if "arm" in frame else np.zeros(len(frame))
    labelled = frame["answer"].where(frame["label"].notna())
    every, kept = (
        answers.groupby(arms, observed=True).nunique()
        for answers in (frame["answer"], labelled)
    )
    many = labelled.groupby(arms, observed=True).count() >= _ENOUGH
    if ((kept == 1) & (every > 1) & many).any():
        raise FwcError(
            f"{where}: all rows with a value in column {how.columns['label']} have the same "
            f"answer, and others do not, so that rates of yes cannot be known from these rows: "
            f"leave {spoken('--label')} out"
        )


def _from_population(
    keys: "Names", population: "Mapping[str, Names]", key: str, names: Sequence[str]
) -> "dict[str, Names]":
    """The cells of the columns `names` in the population's rows with these keys (n,)."""
    rows = pd.Index(population[key])
    if rows.has_duplicates:
        twice = rows[rows.duplicated()][0]
        raise FwcError(f"the population has two rows {twice!r} in {key}: keep one")
    places = rows.get_indexer(pd.Index(keys))
    lost = np.flatnonzero(places < 0)
    if len(lost):
        raise FwcError(
            f"the population lacks the row {keys[int(lost[0])]!r}, which has an answer"
        )
    return {name: population[name].take(places) for name in names}


def _population(
    cells: "Mapping[str, Names]", raw: "RawTable", how: HowRead
) -> pd.DataFrame:
    """The population: groups and labels as the answers have them, others numeric if possible."""
    label = how.columns.get("label")
    texts = [how.key, *how.grouped, label]
    missing = [name for name in filter(None, texts) if name not in cells]
    if missing:
        needs = ", ".join(filter(None, texts))
        raise FwcError(f"the population has no column {missing[0]!r}: it needs {needs}")
    columns: dict[str, Any] = {**cells}
    for name in cells.keys() - texts:
        numbers, wrong = _numbers(cells[name], raw.usual_in(name)[0])
        text = np.asarray(filled(cells[name]), object)
        columns[name] = text if wrong.any() else numbers
    frame = pd.DataFrame(columns)
    if label:
        as_label = frame.rename(columns={label: "label"})
        dropped, _ = _decided(as_label, ["label"], raw.where, how)
        frame[label] = as_label["label"]
        frame = frame[~dropped]
    return frame


def _parsed_replies(table: dict[str, Any], words: Words, raw: "RawTable") -> list[str]:
    """Replace replies by their answers, and the reasons for missing ones; return a note."""
    ended = {name: raw.texts(name) for name in _ENDED if name in raw.titles}
    cells = pd.DataFrame({"text": table["answer"]} | ended, dtype=object)
    cells = cells.reindex(columns=["text", *_ENDED], fill_value="").fillna("")
    answers = []
    for text, finish, refusal, why in cells.itertuples(index=False):
        refuses = refusal.casefold() not in _NO_REFUSAL
        reply = Reply(None if why == "error" else text, finish or None, refusal=refuses)
        answers.append(parse_answer(reply, words))
    values = pd.Series([answer.value for answer in answers], dtype=object)
    reasons = pd.Series([answer.reason for answer in answers], dtype=object)
    reasons = reasons.mask(
        (cells == "").all(axis=1), ""
    )  # nobody knows why a cell is blank
    table["answer"] = yes_or_no(values.map({"yes": 1, "no": 0}))
    table["reason"] = as_names(reasons)
    unread = values.isna()
    if not unread.any():
        return []
    counts = reasons[unread].replace("", "blank").value_counts()
    listed = ", ".join(f"{reason} {n:,}" for reason, n in counts.items())
    note = f"{counts.sum():,} of {len(values):,} replies hold no answer: {listed}"
    examples = frequent_texts(cells["text"][unread])
    if examples:
        note += f". Most frequent: {'; '.join(examples)}"
    return [f"{note}."]


def open_file(path: Path, layout: Mapping[str, Any] = {}) -> "RawTable":
    """Open a file of predictions."""
    with failing_as(FwcError, f"cannot read {path}: "):
        content = path.read_bytes()
    return open_results(path, content, **layout)


def repeated_note(answers: "RawTable", *given: str | None) -> list[str]:
    """A note on rows that are equal without the columns `given`; [] for none."""
    from fwc_llm.data.table_checks import repeated_rows

    columns, _ = answers.readable()  # faults of unused columns do not matter
    others = {title: texts for title, texts in columns.items() if title not in given}
    repeated, material = repeated_rows(pd.DataFrame(others))
    return [f"{repeated}."] if material else []


def filled(texts: "Names", text: str = "") -> "Names":
    """The texts with another text for missing values."""
    if (texts.codes < 0).any():
        return as_names(pd.Series(texts).astype(object).fillna(text))
    return texts


def as_numbers(
    cells: "Names",
    column: str,
    kind: str,
    rows: Sequence[Any] | None = None,
    usual: Written = "",
) -> Floats:
    """Parse a column's texts as numbers (n,), all in one notation; NaN for a missing one. `usual`
    is as of `RawTable.usual_in`.

    `kind` is a key of `_NUMBERS`. `rows` (n,) are the row numbers in the file, for errors.
    """
    numbers, wrong = _numbers(cells, usual)
    least, most, kind_name, how = _NUMBERS[kind]
    places = np.flatnonzero(wrong | (numbers < least) | (numbers > most)).tolist()
    if places:
        listed = ", ".join(
            f"row {rows[position] if rows else position + 1} {cells[position]!r:.40}"
            for position in places[:_SHOWN]
        )
        raise FwcError(
            f"{column!r} is not {kind_name} in {len(places):,} of {len(cells):,} rows "
            f"({listed}): write "
            f"numbers{how}"
        )
    return numbers


def _numbers(cells: "Names", usual: Written) -> tuple[Floats, Any]:
    """The numbers (n,) of texts, NaN for others, and a mask of those that are neither number nor
    marker of a missing one. All have one unit, or none: 87 % is 0.87.
    """
    counts = pd.Series(1, index=pd.Index(cells.categories))
    profile = notation(counts, usual)
    kinds = {*map(kind_of, profile.units)}
    units = units_of(cells.categories) if len(kinds) > 1 else {}
    values = [
        np.nan if units.get(text, ("", ""))[1] else profile.number(text)
        for text in cells.categories
    ]
    known = np.array([*values, np.nan]) / (100 if kinds == {"%"} else 1)
    wrong = np.isnan(known)
    markers = [is_marker(text) for text in cells.categories]
    wrong[:-1] &= ~np.array(markers, dtype=np.bool_)
    wrong[-1] = False  # the code of a missing value is -1
    return known[cells.codes], wrong[cells.codes]


def _above_median(frame: pd.DataFrame) -> "pd.Categorical[str]":
    """Answers (n,): yes for scores above the median of their arm's."""
    arms = frame["arm"] if "arm" in frame else np.zeros(len(frame))
    scores = frame.groupby(arms, observed=True)["score"]
    above = scores.transform(lambda of_arm: over_median(of_arm.to_numpy(np.float64)))
    return yes_or_no(above)


def answered_at(shares: Floats, threshold: float) -> "pd.Categorical[str]":
    """Answers (n,): yes for `shares` (n,) of at least the threshold, missing for NaN."""
    if not 0.0 <= threshold <= 1.0:
        raise FwcError(
            f"--threshold {threshold:g} is not from 0 to 1: answers are yes where P(yes) reaches it"
        )
    return yes_or_no(np.where(np.isnan(shares), np.nan, shares >= threshold))
