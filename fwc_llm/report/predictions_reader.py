"""Reads a file of predictions as the table for an audit.

Groups, outcomes and numbers are read by the rules of tasks: `words.groups_of`,
`meaning.read_meaning` and `task_inference.amounts`.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from fwc_llm.answers import Reason, parse_answer
from fwc_llm.cell_rules import MARKS, kind_of, plain_text, units_of, without_marks
from fwc_llm.data.clean_table import counted, crossed, missing_by_answer
from fwc_llm.data.task_inference import amounts, how_written
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as
from fwc_llm.meaning import MeaningRule, about_empty, is_ticked, own_rules, read_meaning
from fwc_llm.metrics.adverse_impact import over_median
from fwc_llm.metrics.audit_table import FILE_ROW, AnswerTable, unused_columns
from fwc_llm.metrics.counts import CODES, Floats
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.run_answers import as_names, mapped
from fwc_llm.models.base import Reply
from fwc_llm.notices import spoken
from fwc_llm.report.external_results import open_results
from fwc_llm.runs.unread import frequent_texts
from fwc_llm.sanitize import Counts, Json, listed
from fwc_llm.taskfile import Written
from fwc_llm.words import (
    CROSSING,
    GROUPS_REMEDY,
    UNKNOWN,
    Words,
    fault_of_groups,
    folded,
    groups_of,
    is_marker,
    titled,
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
_LARGEST = float(np.finfo(np.float64).max)
_NUMBERS = {  # numeric columns: (smallest value, largest value, name, hint on the notation)
    "p_yes": (
        0.0,
        1.0,
        "P(yes)",
        " from 0 to 1 (0.87 for 87 %), and leave a cell empty where there is none",
    ),
    "score": (-_LARGEST, _LARGEST, "a number", " in one unit"),
    "weight": (0.0, _LARGEST, "a weight", " of at least 0"),
}


# Columns that are read by these names if the caller names no other
USUAL = "answer", "label", "p_yes", "arm", "repeat", "row", "examples"


def columns_of(
    named: Mapping[str, str | None], protected: Sequence[str], titles: Sequence[str]
) -> dict[str, str]:
    """The column of each part: the named one, or else the one that is called like the part.

    `named` has None for a part that the caller does not name, "" for one that is not to be read.
    """
    columns = {part: titled(name, titles) for part, name in named.items() if name}
    free = {*titles} - {*columns.values(), *protected}
    if "score" in columns:  # its values above the median are the answers
        free.discard("answer")
    found = [part for part in USUAL if part in free and named.get(part) is None]
    return columns | {part: part for part in found}


@dataclass(frozen=True)
class HowRead:
    """What a caller says of a table of answers.

    `columns` maps the audit's columns to those of the table. `rules` say what the values of
    "answer" and "label" mean; columns with the same rule are read together (see `own_rules`).
    `words` are those for yes and no in replies of models, which are parsed; None: the answers are
    values, or numbers that mean yes `above` one. Words in `unknown` mean an unknown group. Without
    an answer column, the answer is yes if `p_yes` is at least `threshold` (None: 0.5), or if
    `score` exceeds its median. `values` (of "answer" and "label") and `groups` (by protected
    column) are those of earlier files. `alone`: each decision counts once, without weights or
    people.
    """

    columns: Mapping[str, str]
    protected: Sequence[str] = ()
    rules: Mapping[str, MeaningRule] = field(default_factory=dict)
    words: Words | None = None
    unknown: Collection[str] = ()
    above: float | None = None
    threshold: float | None = None
    missing: str = "refuse"
    values: Mapping[str, Collection[str]] = field(default_factory=dict)
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    alone: bool = False

    @property
    def grouped(self) -> Sequence[str]:
        """The columns of groups: `protected`, or "group" alone, whose levels are as they are."""
        return self.protected or ["group"]

    @property
    def refers(self) -> bool:
        """Whether a third answer is among the values of answers and labels."""
        return bool(self.rule("answer").refer) or "refer" in (self.words or ())

    def rule(self, name: str) -> MeaningRule:
        """The rule of "answer" or "label"."""
        return self.rules.get(name, MeaningRule())


def read_answers(raw: "RawTable", how: HowRead) -> AnswerTable:
    """Read a file or data frame as the table for an audit."""
    columns = how.columns
    _check_names(how)
    table: Json = {role: raw.texts(title) for role, title in columns.items()}
    if not table.keys() & {"answer", "p_yes", "score"}:
        ways = "predictions (--answer) or probabilities (--p-yes)"
        raise FwcError(f"no column has the answers: name that of {ways}")
    if "answer" in table and how.threshold is not None:
        raise FwcError(
            f"--threshold makes answers of --p-yes, and the column {columns['answer']!r} gives "
            f"answers: leave out one of them (--answer '' reads no answers)"
        )
    if how.above is not None:
        _check_above(how)
    for part in {"arm", "repeat"} & table.keys() - {"row"}:
        if "row" not in table and len(table[part].categories) > (part == "arm"):
            needs = "the id of the row that an answer is about"
            ways = f"name it, --row 'COLUMN'; or read no {part}, --{part} ''"
            raise FwcError(f"the column {columns[part]!r} needs 'row', {needs}: {ways}")
    groups, told_groups = _groups(raw, how)
    notes = [f"{doubt}." for doubt in [raw.sum_rows] if doubt]
    if how.words is not None:
        notes += _parsed_replies(table, how.words, raw)
    elif "reason" in raw.titles:
        reasons = filled(raw.texts("reason"))
        if set(reasons.unique()) <= set(get_args(Reason)):
            table["reason"] = reasons

    def numbers(name: str, kind: str) -> Floats:
        usual = raw.usual_in(columns[name])[0]
        found = as_numbers(table[name], columns[name], kind, raw.numbers, usual)
        notes.extend(_without_marks(table[name], columns[name], found))
        return found

    if how.above is not None and "answer" in table:
        given = numbers("answer", "score")
        table["answer"] = np.where(np.isnan(given), np.nan, given > how.above)
    read = [name for name in ("answer", "label") if name in columns]
    if how.words is not None or how.above is not None:
        read = [name for name in read if name != "answer"]
    for name in read:
        # Beside answers, an empty label may be an unknown one.
        rule = how.rule(name)
        is_meant = len(read) < 2 or is_ticked(table[name].categories, rule)
        if rule.of_empty and is_meant:
            table[name] = filled(table[name])
    for name in _NUMBERS.keys() & table:
        table[name] = numbers(name, name)
    if "answer" not in table and "p_yes" in table:
        threshold = HALF if how.threshold is None else how.threshold
        table["answer"] = answered_at(table["p_yes"], threshold)
    used = {*columns.values(), *how.grouped}

    def repeats(person: str) -> bool:
        ids = {"row": table.get("row", raw.numbers), "person": raw.texts(person)}
        rows = pd.DataFrame(ids).drop_duplicates()
        return how.alone or not rows["person"].is_unique

    chosen = columns.get("weight"), columns.get("cluster")
    notes += unused_columns(raw.titles, used, *chosen, repeats, how.alone)
    if (
        not {"cluster", "row"} & table.keys()
    ):  # without ids, equal rows may be the same person
        notes += repeated_note(raw, *map(columns.get, ("answer", "p_yes", "score")))
    frame = pd.DataFrame(table, pd.Index(raw.numbers, name=FILE_ROW))
    groups.index = frame.index
    values = {
        name: dict.fromkeys(sorted(how.values.get(name, ())), 0) | counted(frame[name])
        for name in read
    }
    rules: Mapping[str, MeaningRule] = {name: how.rule(name) for name in read}
    if len(read) > 1:
        rules = own_rules(rules, values)
    ticked = {
        name: about_empty({**values[name], "": int(frame[name].isna().sum())}, rule)
        for name, rule in rules.items()
    }
    neither, pooled, problems = _decided(frame, values, rules, raw, how)
    needed = [name for name in columns if name not in _MAY_BE_EMPTY]
    empty = frame[needed].isna() & ~neither[:, None]
    bias = _label_bias(frame, groups, raw, how)
    if how.missing == "refuse":
        problems += [*bias, *_lacking(empty, raw, how)] if empty.any(axis=None) else []
        if ticked.get("answer"):
            both = "name the values of yes and no"
            problems.append(f"if it is no answer, {both}, or --missing 'drop'")
    about = [f"{columns[name]}: {told}" for name, told in ticked.items() if told]
    if problems:
        raise FwcError("; ".join(filter(None, [*about, *problems, raw.sum_rows])))
    notes += [f"{told}." for told in about]
    titles = " or ".join(columns[name] for name in read)
    kept, lost = _kept(frame, groups, neither, empty, titles, how)
    lost += [f"{note}." for note in bias]
    frame = frame[kept]
    if "score" in frame:
        frame["above"] = _above_median(frame)
        frame["answer"] = frame["answer" if "answer" in frame else "above"]
    told = tuple(map(spoken, [*lost, *pooled, *told_groups, *notes]))
    return AnswerTable(frame, groups[kept], told, values, told[: len(lost)])


def _check_above(how: HowRead) -> None:
    """Raise `FwcError` for answers that no number can make."""
    rule = how.rule("answer")
    if "answer" not in how.columns or how.words is not None:
        raise FwcError(
            "--above makes answers of a column of numbers: name it, --answer 'COLUMN'; it is "
            "nothing for --reply and --score, and the line of --p-yes is --threshold"
        )
    is_of_answer = rule.column or "label" not in how.columns
    named = rule.positive or rule.negative or rule.others
    if rule.refer or (is_of_answer and named):
        raise FwcError(
            "--above says which answers mean yes, and so do --positive, --negative, --refer and "
            "--others: leave out one of them"
        )


def _check_names(how: HowRead) -> None:
    """Raise `FwcError` for columns that cannot go together."""
    taken = [*how.protected, how.columns.get("answer"), how.columns.get("label")]
    for name in how.protected:
        if taken.count(name) > 1:
            raise FwcError(
                f"the protected column {name!r} is named twice, or is the answer or the label"
            )


def _groups(raw: "RawTable", how: HowRead) -> tuple[pd.DataFrame, list[str]]:
    """The groups (n, columns) of the table, and notes."""
    found: dict[str, Names] = {}
    notes = list[str]()
    for name in how.grouped:
        texts = raw.texts(name)
        counts = counted(pd.Series(texts))
        how_numbers = how_written(
            pd.Series(counts, pd.Index(counts, dtype="str")),
            "protected",
            raw.usual_in(name)[0],
        )
        fault = fault_of_groups(plain_text(how_numbers, text) for text in counts)
        if fault:
            raise FwcError(
                f"{raw.where}: the protected column {name!r} has {fault}: {GROUPS_REMEDY}"
            )
        groups: Mapping[str, str] = {}
        if how.protected:
            known = how.groups.get(name)
            groups, told = groups_of(name, counts, how.unknown, known, "--unknown")
            notes += [f"{note}." for note in told]
        blank = int((texts.codes < 0).sum())
        if blank:
            of_all = f"{blank:,} of {len(texts):,} rows"
            note = f"{of_all} have no {name} and are of the group {UNKNOWN!r}"
            if len(counts) == 1:
                note += "; if an empty cell is a group, write its name into these cells"
            notes.append(f"{note}.")
        merged = {text: groups.get(text, text) for text in (*counts, UNKNOWN)}
        found[name] = mapped(filled(texts, UNKNOWN), merged.__getitem__)
    return pd.DataFrame(found), notes


def _decided(
    frame: pd.DataFrame,
    values: Mapping[str, Counts],
    rules: Mapping[str, MeaningRule],
    raw: "RawTable",
    how: HowRead,
) -> tuple[Any, list[str], list[str]]:
    """Replace texts of the columns in `values` by 1, 0 or NaN for yes, no or missing.

    `values` has the number of rows of each text, 0 for those of earlier files. Return a mask (n,)
    of rows that are left out, notes and problems. Columns with one rule are read together.
    """
    texts = frame[[*values]]
    neither = np.zeros(len(frame), dtype=np.bool_)
    notes = list[str]()
    problems = list[str]()
    for rule in dict.fromkeys(rules.values()):
        together = [name for name in values if rules[name] == rule]
        held = Counter({"": 0} if rule.of_empty else {})  # may come in a later file
        for name in together:
            held.update(values[name])
        if not held.total():
            continue
        titles = " and ".join(how.columns[name] for name in together)
        try:
            meaning = read_meaning(
                dict(held.most_common()), f"{raw.where}: {titles}", rule
            )
        except FwcError as error:
            problems.append(str(error))
            continue
        means = meaning.codes
        for name in together:
            own = {text: n for text, n in values[name].items() if n}
            plain = {*map(folded, meaning.yes)} <= {"yes", "1", "true"}
            if rule.column or not plain or len(means.keys() & own) > 2:
                notes.append(f"{meaning.sentence(how.columns[name], own)}.")
            unknown = meaning.unknown if name == "label" else ()
            neither |= texts[name].isin([*meaning.dropped, *unknown]).to_numpy()
            frame[name] = texts[name].map(means).astype(np.float64)
    if problems and how.columns.get("label") == "label":
        problems.append("if no column has true answers: --label ''")
    return neither, notes, problems


def _label_bias(
    frame: pd.DataFrame, groups: pd.DataFrame, raw: "RawTable", how: HowRead
) -> list[str]:
    """A note on labels that are missing for one answer more often than for the other; `FwcError` if
    an arm's answers differ, but not those that have a label, of all people or of one group.

    So it is where the true outcome is known only of people who were approved. Few rows with a
    label, or few without, may agree by chance.
    """
    if "label" not in frame or "answer" not in frame or frame["answer"].dtype != float:
        return []
    arms = frame.get("arm", np.zeros(len(frame)))
    title = how.columns["label"]
    missing = frame["label"].isna()
    everybody = {"": [""] * len(frame)}
    together = {CROSSING.join(how.grouped): crossed(groups, how.grouped)}
    people = {**everybody, **groups, **together}
    for of in people.values():
        for (who, _), answers in frame["answer"].groupby([of, arms], observed=True):
            lacks = missing[answers.index]
            labelled = answers[~lacks]
            alike = labelled.nunique() == 1 < answers.nunique()
            enough = len(labelled) >= _ENOUGH and missing_by_answer(lacks, answers)
            if alike and enough:
                whose = f" of {who}" * bool(who)
                raise FwcError(
                    f"{raw.where}: all rows{whose} with a value in column {title} have the same "
                    f"answer, and others do not, so that error rates cannot be known from these "
                    f"rows: read no true outcomes, --label '', to compare rates of yes"
                )
    uneven = missing_by_answer(missing, frame["answer"])
    return [f"{title} is {uneven}: all numbers are of the others"] * bool(uneven)


def _lacking(empty: pd.DataFrame, raw: "RawTable", how: HowRead) -> Iterator[str]:
    """Yield what to do about the empty cells of each column."""
    for name in empty.columns[empty.any()]:
        n = int(empty[name].sum())
        without = ""
        if name == "label":
            without = "without --label, rates of yes are of all rows; "
        yield (
            f"{raw.where}:{empty[name].idxmax()}: no value in column {how.columns[name]} "
            f"({n:,} row{'s' * (n > 1)} in total); {without}"
            f"--missing 'drop' leaves such rows out"
        )


def _kept(
    frame: pd.DataFrame,
    groups: pd.DataFrame,
    neither: Any,
    empty: pd.DataFrame,
    titles: str,
    how: HowRead,
) -> tuple[Any, list[str]]:
    """A mask (n,) of rows that have an answer or none, and all else that is needed; notes."""
    lost = empty.any(axis=1).to_numpy()
    without = ", ".join(how.columns[name] for name in empty.columns[empty.any()])
    masks = {
        f"are left out, whose {titles} is neither yes nor no": neither,
        f"have no {without} and are left out": lost,
    }
    notes = list[str]()
    for fate, mask in masks.items():
        if mask.any():
            of_groups = Counter(crossed(groups[mask], how.grouped).tolist())
            by_group = listed(of_groups.most_common(), _MOST, "{0[0]} {0[1]:,}".format)
            notes.append(f"{mask.sum():,} of {len(frame):,} rows {fate}: {by_group}.")
    lost = lost | neither
    if "row" in frame:  # arms and repeats must have the same rows
        lost = lost | frame["row"].isin(frame["row"][neither]).to_numpy()
    return ~lost, notes


def _parsed_replies(table: Json, words: Words, raw: "RawTable") -> list[str]:
    """Replace replies by their answers, and the reasons for missing ones; return a note."""
    ended = {name: raw.texts(name) if name in raw.titles else "" for name in _ENDED}
    cells = pd.DataFrame({"text": table["answer"], **ended}).astype(object).fillna("")
    values = []
    reasons = []
    for text, finish, refusal, why in cells.itertuples(index=False):
        refuses = refusal.casefold() not in _NO_REFUSAL
        reply = Reply(None if why == "error" else text, finish or None, refusal=refuses)
        answer = parse_answer(reply, words)
        blank = not (
            text or finish or refusal or why
        )  # nobody knows why a cell is blank
        values.append(CODES.get(answer.value or "", np.nan))
        reasons.append("" if blank else answer.reason)
    table["answer"] = np.array(values)
    table["reason"] = as_names(reasons)
    unread = np.isnan(table["answer"])
    if not unread.any():
        return []
    counts = Counter(reason or "blank" for reason in np.array(reasons)[unread].tolist())
    by_reason = ", ".join(f"{reason} {n:,}" for reason, n in counts.most_common())
    note = f"{counts.total():,} of {len(values):,} replies hold no answer: {by_reason}"
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

    others = [
        k for k, title in enumerate(answers.titles) if title and title not in given
    ]
    repeated, material = repeated_rows(map(answers.cells_of, others))
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
    """Parse a column's texts as numbers (n,), all in one notation and unit; NaN for a missing one.
    `usual` is as of `RawTable.usual_in`.

    `kind` is a key of `_NUMBERS`: 87 % is 87, and as P(yes) 0.87. `rows` (n,) are the row numbers
    in the file, for errors.
    """
    profile = amounts(pd.Series(1, index=pd.Index(cells.categories)), usual)
    kinds = {*map(kind_of, profile.units)}
    units = units_of(cells.categories) if len(kinds) > 1 else {}
    values = [
        np.nan if units.get(text, ("", ""))[1] else profile.number(text)
        for text in cells.categories
    ]
    is_percent = kind == "p_yes" and kinds == {"%"}
    unread = [
        math.isnan(number) and not is_marker(text)
        for text, number in zip(cells.categories, values, strict=True)
    ]
    # The code of a missing value is -1.
    known: Floats = np.array([*values, np.nan])
    numbers: Floats = known[cells.codes] / (100 if is_percent else 1)
    wrong = np.array([*unread, False])[cells.codes]
    least, most, kind_name, how = _NUMBERS[kind]
    places = np.flatnonzero(wrong | (numbers < least) | (numbers > most)).tolist()
    if places:

        def place(position: int) -> str:
            return f"row {rows[position] if rows else position + 1} {cells[position]!r:.40}"

        raise FwcError(
            f"{column!r} is not {kind_name} in {len(places):,} of {len(cells):,} rows "
            f"({listed(places, _SHOWN, place)}): write numbers{how}"
        )
    return numbers


def _without_marks(cells: "Names", title: str, numbers: Floats) -> list[str]:
    """A note on numbers (n,) that were read without their marks; [] for none."""
    marked = [text for text in cells.categories if without_marks(text, MARKS) != text]
    for text in itertools.filterfalse(is_marker, marked):
        (number,) = np.unique(numbers[cells == text])
        return [f"{title}: read without marks, {text!r} as {number:.10g}."]
    return []


def _above_median(frame: pd.DataFrame) -> "pd.Series[Any]":
    """Answers (n,): 1 for scores above the median of their arm's."""
    arms = frame.get("arm", np.zeros(len(frame)))
    scores = frame.groupby(arms, observed=True)["score"]
    above = scores.transform(lambda of_arm: over_median(of_arm.to_numpy(np.float64)))
    return above.astype(np.float64)


def answered_at(shares: Floats, threshold: float) -> Floats:
    """Answers (n,): 1 for `shares` (n,) of at least the threshold, NaN for NaN."""
    if not 0.0 <= threshold <= 1.0:
        raise FwcError(
            f"--threshold {threshold:g} is not from 0 to 1: answers are yes where P(yes) reaches it"
        )
    return np.where(np.isnan(shares), np.nan, shares >= threshold)
