"""Check a table of answers, and convert it to the input of statistics."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import Codes, Floats, levels_of, undefined_is_nan
from fwc_llm.metrics.run_answers import (
    ArmAnswers,
    ByArm,
    RunAnswers,
    as_names,
    names_of,
    one_name,
    questions_of,
)
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.notices import spoken
from fwc_llm.sanitize import Texts
from fwc_llm.words import CROSSING

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import Names

FILE_ROW = "row of the file"  # name of an index that has row numbers of the file
_PERSON = (
    "if the column has people with several rows, name it as cluster, and read no row ids, "
    "--row ''"
)
_LOOKS = {
    "weight": ("weight", "fnlwgt", "wgt"),
    "cluster": ("person_id", "applicant_id", "user_id", "person"),
}
ALONE = {  # what follows where each decision counts once, alone
    "weight": "every decision counts once",
    "cluster": "several decisions of one person make these intervals too narrow",
}


@dataclass(frozen=True)
class AnswerTable:
    """The table for an audit: `frame` (n rows, indexed by `FILE_ROW`) and `groups`, with notes.

    `frame` has answers and labels as 1, 0 and NaN, and further columns by their part; with scores,
    "above" says whether they exceed the median of their arm. `groups` has a column for each
    protected attribute; `values` has the texts of "answer" and "label", also of earlier files.
    `left_out` are the notes on rows that are not in `frame`.
    """

    frame: pd.DataFrame
    groups: pd.DataFrame
    notes: Texts
    values: Mapping[str, Collection[str]]
    left_out: Texts = ()


def answers_of(
    read: AnswerTable,
    design: SamplingDesign,
    *,
    answer: str = "answer",
    against: str = "",
    least_groups: int = 2,
) -> RunAnswers:
    """The answers in a table of `read_answers`; `fwc_llm.audit` explains columns and arguments."""
    frame = read.frame
    n = len(frame)
    if not n:
        raise FwcError("there are no answers to audit")

    def texts(name: str, usual: str = "") -> "Names":
        return as_names(frame[name].array) if name in frame else one_name(usual, n)

    def numbers(name: str) -> Floats:
        return frame[name].to_numpy(np.float64)

    levels = {str(name): as_names(read.groups[name].array) for name in read.groups}
    answers = numbers(answer)
    arms = texts("arm", "answers")
    whole = ArmAnswers(
        repeat=_in_order(texts("repeat", "0")),
        row=texts("row") if "row" in frame else as_names(frame.index.astype(str)),
        variant=one_name("", n),
        group=_crossed([*levels.values()]),
        label=(numbers("label") if "label" in frame else np.zeros(n)).astype(np.int8),
        answer=answers,
        reason=empty_but(texts("reason"), np.isnan(answers)),
        p_yes=numbers("p_yes") if "p_yes" in frame else np.full(n, np.nan),
        examples=texts("examples"),
        weight=numbers("weight") if "weight" in frame else None,
        cluster=texts("cluster") if "cluster" in frame else None,
        stratum=texts("given") if "given" in frame else None,
    )
    if whole.weight is not None and not whole.weight.any():
        raise FwcError("every row has the weight 0: at least one must count")
    _check_rows(whole, frame.index)
    by_arm = {arm: whole.where(arms == arm) for arm in arms.unique().tolist()}
    check_arms(by_arm)
    for name, level in levels.items():
        if len(level.categories) < least_groups:
            raise FwcError(
                f"all rows have the {name} {level[0]!r}: there are no two groups to compare"
            )
    first = next(iter(by_arm.values()))
    if against not in ("", "all", *by_arm):
        raise FwcError(f"there is no arm {against!r}: the arms are {', '.join(by_arm)}")
    return RunAnswers(
        by_arm,
        groups_by_rate(first, design.labelled),
        design,
        attributes=tuple(name for name in levels if name != "group"),
        unused=read.notes,
        against=against,
    )


@undefined_is_nan
def groups_by_rate(answers: ArmAnswers, labelled: bool = True) -> Texts:
    """Return the groups, sorted by rising (weighted) base rate or, without labels, by rising
    rate of yes.
    """
    names, member = levels_of(answers.group)
    yes = answers.label if labelled else answers.answer
    weight = np.where(
        np.isnan(yes), 0.0, 1.0 if answers.weight is None else answers.weight
    )
    rates = np.bincount(member, weight * np.nan_to_num(yes)) / np.bincount(
        member, weight
    )
    return tuple(names[index] for index in np.argsort(rates, kind="stable"))


def empty_but(names: "Names", mask: Any) -> "Names":
    """Return the names where a mask (n,) is true, and empty texts elsewhere."""
    return as_names(np.where(mask, np.asarray(names, object), ""))


def _crossed(columns: Sequence["Names"]) -> "Names":
    """Cross several columns: join their levels by " & "."""
    rows = pd.DataFrame(dict(enumerate(columns))).groupby(
        [*range(len(columns))], observed=True
    )
    levels = rows.size().index.to_frame().itertuples(index=False)
    return names_of(rows.ngroup().to_numpy(), [*map(CROSSING.join, levels)])


def _in_order(names: "Names") -> Codes:
    """Number the repeats from 0, in the order of their numbers, or of their names if not all are
    numbers.
    """
    different, _ = levels_of(names)
    if all(name.isdecimal() for name in different):
        ordered = sorted(different, key=int)
    else:
        ordered = different
    return names.set_categories(ordered).codes.astype(np.int64)


def unused_columns(
    columns: Iterable[str],
    used: Collection[str],
    weight: str | None,
    cluster: str | None,
    repeats: Callable[[str], bool],
    alone: bool = False,
) -> Texts:
    """Return notes on unused columns that look like weights or a person's id.

    `repeats` says whether a person has several rows by a column; `alone` where each decision counts
    once, alone.
    """
    others = [name for name in columns if name not in used]
    notes = []
    for kind, chosen in (("weight", weight), ("cluster", cluster)):
        like = [name for name in others if name.lower() in _LOOKS[kind]]
        if kind == "cluster":
            like = [name for name in like if repeats(name)]
        if like and chosen is None:
            remedy = f"name it, {spoken(f'--{kind} {like[0]!r}')}"
            if alone:
                remedy = ALONE[kind]
            notes.append(
                f"The column {like[0]!r} looks like a {kind} and is not used: {remedy}."
            )
    return tuple(notes)


def _check_rows(answers: ArmAnswers, index: "pd.Index[Any]") -> None:
    """Refuse a row with two groups or labels in its arms and repeats; `index` is that of the
    table.
    """
    for name, values in (("label", answers.label), ("group", answers.group.codes)):
        first = pd.Series(values).groupby(answers.row.codes).transform("first")
        other = first.to_numpy() != values
        if other.any():
            position = int(np.argmax(other))
            raise FwcError(
                f"the row id {answers.row[position]!r} has two {name}s (row "
                f"{index[position]} of the "
                f"file), but an id has one group and one label: {_PERSON}"
            )


def check_arms(by_arm: ByArm) -> None:
    """Raise `FwcError` unless all arms were asked the same questions, each question once."""
    names = list(by_arm)
    questions = dict(zip(names, questions_of(list(by_arm.values())), strict=True))
    for arm, keys in questions.items():
        again = pd.Series(keys).duplicated()
        if again.any():
            row = by_arm[arm].row[int(again.argmax())]
            raise FwcError(
                f"the arm {arm!r} has two answers to the row {row!r} in one repeat; "
                f"{_PERSON}"
            )
    for arm in names[1:]:
        for lacking, having in ((arm, names[0]), (names[0], arm)):
            lost = ~np.isin(questions[having], questions[lacking])
            if lost.any():
                lines = by_arm[having].where(lost)
                row = min(zip(map(str, lines.repeat), lines.row, strict=True))[1]
                raise FwcError(
                    f"the arm {lacking!r} lacks the row {row!r}, which {having!r} has: "
                    "arms are compared on the same questions"
                )
