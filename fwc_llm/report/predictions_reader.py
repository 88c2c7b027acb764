"""Reads a file of predictions as the table for an audit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from fwc_llm.answers import Reason, parse_answer
from fwc_llm.cell_rules import as_number, as_plain
from fwc_llm.errors import FwcError
from fwc_llm.files import failing_as
from fwc_llm.metrics.adverse_impact import over_median
from fwc_llm.metrics.audit_table import (
    FILE_ROW,
    OutcomeRules,
    decided,
    from_population,
    unused_columns,
    yes_or_no,
)
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.decision_thresholds import HALF
from fwc_llm.metrics.run_answers import as_names
from fwc_llm.models.base import Reply
from fwc_llm.report.external_results import open_results
from fwc_llm.runs.unread import frequent_texts
from fwc_llm.taskfile import UNKNOWN
from fwc_llm.words import YES_NO, Words, group_key

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.data.raw_table import RawTable
    from fwc_llm.metrics.run_answers import Names
    from fwc_llm.taskfile import Written

_ENDED = ("finish_reason", "refusal", "reason")  # columns on how a reply ended
_NO_REFUSAL = (
    "",
    "no",
    "false",
    "0",
)  # other cells of a column `refusal`: yes, or its text
_SHOWN = 5  # most rows that an error lists
# Names of the audit's own columns, which a protected column must not have.
_OURS = {"answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason"}
_OURS |= {"weight", "cluster", "given", "score", "above"}
_MOST_LEVELS = 200  # of one attribute: all pairs of groups are compared
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


def read_answers(
    raw: "RawTable",
    columns: Mapping[str, str],
    protected: Sequence[str],
    outcomes: OutcomeRules,
    threshold: float = HALF,
    missing: str = "refuse",
    population: "pd.DataFrame | None" = None,
    key: str = "",
    replies: bool = False,
) -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """Read a file or data frame as the table for an audit, indexed by `FILE_ROW`; also return
    notes.

    `columns` maps the audit's columns to those of the table. With `replies`, answers are parsed
    from texts of models; words for yes are `outcomes.positive["answer"]`, those for no
    `outcomes.rule.negative`. Without an answer column, the answer is yes if `p_yes` is at least
    `threshold`, or if `score` exceeds its median. Protected columns that the table lacks are taken
    from `population`, by its column `key`.
    """
    import pandas as pd

    if not protected:
        raise FwcError("name at least one protected column")
    outcome_columns = [columns.get("answer"), columns.get("label")]
    twice = [
        name for name in protected if [*protected, *outcome_columns].count(name) > 1
    ]
    if twice:
        raise FwcError(
            f"the protected column {twice[0]!r} is named twice, or is the answer or the label"
        )
    if "repeat" in columns and "row" not in columns:
        raise FwcError(
            "the column 'repeat' needs 'row': name the row that each answer is about"
        )
    clash = sorted(_OURS.intersection(protected))
    if clash:
        raise FwcError(
            f"the protected column {clash[0]!r} has a name that the audit uses itself: rename it "
            f"in "
            f"{raw.where}"
        )
    names = dict.fromkeys((*columns.values(), *protected))
    elsewhere = (
        () if population is None else [name for name in protected if name in population]
    )
    lacking = [name for name in elsewhere if name not in raw.titles]
    cells = {name: raw.texts(name) for name in names if name not in lacking}
    if population is not None and lacking:
        cells |= from_population(cells[columns["row"]], population, key, lacking)
    for name in protected:
        levels = len({*map(group_key, cells[name].categories)})
        if levels > _MOST_LEVELS:
            raise FwcError(
                f"{raw.where}: the protected column {name!r} has {levels:,} different values, more "
                f"than the {_MOST_LEVELS} that can be judged: name a column of groups, or merge them"
            )
    table: dict[str, Any] = {name: cells[column] for name, column in columns.items()}
    notes = list[str]()
    if replies:
        notes += _parsed_replies(table, outcomes, raw)
    elif "reason" in raw.titles:
        reasons = filled(raw.texts("reason"))
        if set(reasons.unique()) <= set(get_args(Reason)):
            table["reason"] = reasons
    given = outcomes.rule.positive or outcomes.positive
    if "answer" in table and not replies and not given:
        shares = {as_number(cell) for cell in table["answer"].categories}
        if len(shares) > 2 and all(
            share is not None and 0.0 <= share <= 1.0 for share in shares
        ):
            remedy = outcomes.rule.option("p_yes", [columns["answer"]])
            raise FwcError(
                f"{columns['answer']!r} looks like probabilities: name it as such, {remedy}"
            )
    for name in _NUMBERS.keys() & table:
        table[name] = as_numbers(table[name], columns[name], name, raw.numbers)
    if "answer" not in table and "p_yes" in table:
        table["answer"] = answered_at(table["p_yes"], threshold)
    elif "answer" not in table:
        table["answer"] = answered_at(over_median(table["score"]), HALF)
    notes += unused_columns(
        raw.titles, set(cells), columns.get("weight"), columns.get("cluster")
    )
    if not {"cluster", "row"}.intersection(
        columns
    ):  # without ids, equal rows may be the same person
        told = [columns.get(name) for name in ("answer", "p_yes", "score")]
        notes += repeated_note(raw, *told)
    index = pd.Index(raw.numbers, name=FILE_ROW)
    frame = pd.DataFrame({**table, **{name: cells[name] for name in protected}}, index)
    read = {"answer", "label"} - ({"answer"} if replies else set())
    named = [name for name in columns if name in read]
    if named:
        frame, left_out = decided(frame, named, outcomes, protected)
        notes = [*left_out, *notes]
    frame, lost = _without_missing(
        frame, protected, columns, missing, raw.where, outcomes
    )
    return frame, (*lost, *notes)


def _parsed_replies(
    table: dict[str, Any], outcomes: OutcomeRules, raw: "RawTable"
) -> list[str]:
    """Replace replies by their answers, and the reasons for missing ones; return a note."""
    import pandas as pd

    words: Words = YES_NO
    positive = outcomes.positive.get("answer")
    if positive:
        typed = {"yes": positive, "no": outcomes.rule.negative}
        words = {side: ",".join(values).split(",") for side, values in typed.items()}
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


def _without_missing(
    table: "pd.DataFrame",
    protected: Sequence[str],
    columns: Mapping[str, str],
    rule: str,
    where: "Path | str",
    outcomes: OutcomeRules,
) -> "tuple[pd.DataFrame, list[str]]":
    """Apply the rule for missing values; return the table and a note."""
    import pandas as pd

    from fwc_llm.data.clean_table import crossed

    needed = [*protected, *(columns.keys() - {"answer", "p_yes", "score", "reason"})]
    empty = table[needed].isna()
    empty = empty.loc[:, empty.any()]
    lacking = [str(name) for name in empty]
    for name in lacking:
        lacks = empty[name]
        if rule == "refuse" or (rule == "group" and name not in protected):
            grouped = f"; {outcomes.rule.option('missing', ['group'])} makes one group of them"
            n = int(lacks.sum())
            raise FwcError(
                f"{where}:{lacks.idxmax()}: no value in column {columns.get(name, name)} "
                f"({n:,} row{'s' * (n > 1)} in total); {outcomes.rule.option('missing', ['drop'])} "
                f"leaves "
                f"such rows out{grouped * (name in protected)}"
            )
    if empty.empty:
        return table, []
    groups = {name: table[name].astype(object).fillna(UNKNOWN) for name in protected}
    lost = empty.any(axis=1)
    counts = Counter(crossed(pd.DataFrame(groups)[lost], protected).tolist())
    by_group = ", ".join(f"{group} {n:,}" for group, n in counts.most_common())
    names = ", ".join(columns.get(name, name) for name in lacking)
    fate = "left out" if rule == "drop" else f"of the group {UNKNOWN!r}"
    note = f"{lost.sum():,} of {len(table):,} rows have no {names} and are {fate}: {by_group}."
    if rule == "drop":
        return table[~lost], [note]
    return table.assign(
        **{name: as_names(levels) for name, levels in groups.items()}
    ), [note]


def open_file(path: Path, layout: Mapping[str, Any] = {}) -> "RawTable":
    """Open a file of predictions."""
    with failing_as(FwcError, f"cannot read {path}: "):
        content = path.read_bytes()
    return open_results(path, content, **layout)


def repeated_note(answers: "RawTable", *given: str | None) -> list[str]:
    """A note on rows that are equal without the columns `given`; [] for none."""
    import pandas as pd

    from fwc_llm.data.table_checks import repeated_rows

    columns, _ = answers.readable()  # faults of unused columns do not matter
    others = {title: texts for title, texts in columns.items() if title not in given}
    repeated, material = repeated_rows(pd.DataFrame(others))
    return [f"{repeated}."] if material else []


def filled(texts: "Names") -> "Names":
    """The texts with "" for missing values."""
    if (texts.codes < 0).any():
        return texts.add_categories([""]).fillna("")
    return texts


def population_of(
    table: "RawTable", key: str, texts: Sequence[str | None]
) -> "pd.DataFrame":
    """All columns of a table, numeric where possible, except `key` and `texts`."""
    import pandas as pd

    columns, _ = table.readable([key])
    frame = pd.DataFrame(columns, dtype=object)
    for name, cells in frame.items():
        numbers = pd.to_numeric(cells, errors="coerce")
        if name not in (key, *texts):
            is_numeric = numbers.isna().equals(cells.isna())
            frame[name] = numbers if is_numeric else cells.fillna("")
    return frame


def as_numbers(
    cells: "Names", column: str, kind: str, rows: Sequence[Any] | None = None
) -> Floats:
    """Parse a column's texts as numbers (n,), all in one notation; "" is NaN.

    `kind` is a key of `_NUMBERS`. `rows` (n,) are the row numbers in the file, for errors.
    """
    ways: Sequence[Written] = (
        ("", "1.234,5") if kind == "p_yes" else ("", "1,234.5", "1.234,5")
    )
    texts = [None if "%" in text else text for text in cells.categories]
    read = [[as_number(as_plain(text or "%", way)) for text in texts] for way in ways]
    values = min(read, key=lambda values: values.count(None))
    known = [np.inf if value is None else value for value in values]
    numbers = np.array([*known, np.nan])[
        cells.codes
    ]  # the code of a missing value is -1
    least, most, kind_name, how = _NUMBERS[kind]
    wrong = np.flatnonzero((numbers < least) | (numbers > most)).tolist()
    if wrong:
        listed = ", ".join(
            f"row {rows[position] if rows else position + 1} {cells[position]!r:.40}"
            for position in wrong[:_SHOWN]
        )
        raise FwcError(
            f"{column!r} is not {kind_name} in {len(wrong):,} of {len(cells):,} rows ({listed}): write "
            f"numbers{how}"
        )
    return np.asarray(numbers, np.float64)


def answered_at(shares: Floats, threshold: float) -> "pd.Categorical[str]":
    """Answers (n,): yes for `shares` (n,) of at least the threshold, missing for NaN."""
    return yes_or_no(np.where(np.isnan(shares), np.nan, shares >= threshold))
