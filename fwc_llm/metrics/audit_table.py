"""Check a table of answers, and convert it to the input of statistics."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError
from fwc_llm.meaning import Meaning, MeaningRule, read_meaning, text_of
from fwc_llm.metrics.counts import Codes, Floats, levels_of
from fwc_llm.metrics.prediction_powered import MOST, FeatureTable, assisted_answers
from fwc_llm.metrics.run_answers import (
    CROSSING,
    ArmAnswers,
    RunAnswers,
    as_names,
    mapped,
    names_of,
    one_name,
    questions_of,
)
from fwc_llm.metrics.sampling_design import MIN_GROUP, WORST, SamplingDesign, Unread
from fwc_llm.metrics.variance import UNREAD_WORDS
from fwc_llm.sanitize import listed
from fwc_llm.words import UNKNOWN, merge_spellings, merged_categories, spellings_note

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import Names

DESIGNS = ("group", "group and label")
FILE_ROW = "row of the file"  # name of an index that has row numbers of the file
_SHOWN = 8  # values that an error lists, at most
_PERSON = (
    "if the column has people with several rows, name it as cluster, and give every line its own "
    "row"
)
_LOOKS = {
    "weight": ("weight", "fnlwgt", "wgt"),
    "cluster": ("person_id", "applicant_id", "user_id", "person"),
}


@dataclass(frozen=True)
class OutcomeRules:
    """How columns of answers and labels are read.

    `rule` holds for all columns together, `positive` has values of single columns ("answer",
    "label"). Errors call the table `where` and its columns by their `titles`. `known` are values
    that other tables of the same kind have; those of a table that is read are added.
    """

    rule: MeaningRule = field(default_factory=MeaningRule)
    positive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: str = "the answers"
    titles: Mapping[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def meaning(
        self, names: Sequence[str], counts: Mapping[str, int], first: Mapping[str, Any]
    ) -> Meaning:
        """What the values of the columns `names`, taken together, mean."""
        rule = self.rule
        if self.positive:
            rule = replace(rule, positive=self.positive.get(names[0], rule.positive))
        title = " and ".join(self.titles.get(name, name) for name in names)
        known = dict.fromkeys(sorted(self.known), 0) | dict(counts)
        return read_meaning(known, f"{self.where}: {title}", rule, first)


def from_frame(
    frame: pd.DataFrame,
    design: str = "group",
    attributes: Sequence[str] = (),
    *,
    answer: str = "answer",
    protected: Sequence[str] = (),
    label: str | None = "label",
    outcomes: OutcomeRules | None = None,
    unknown: Collection[str] | None = (),
    p_yes: str | None = "p_yes",
    weight: str | None = None,
    cluster: str | None = None,
    given: str | None = None,
    min_group: int = MIN_GROUP,
    margin: float = 0.05,
    against: str = "",
    unread: Unread = WORST,
    least_groups: int = 2,
) -> RunAnswers:
    """Check a table of answers, and return them; `fwc_llm.audit` explains columns and arguments.

    With `unknown` None, spellings of an unknown category are not merged.
    """
    if design not in DESIGNS:
        raise FwcError(f"the design is {design!r}: choose {' or '.join(map(repr, DESIGNS))}")
    if label == "label" and label not in frame.columns and protected:
        label = None
    if isinstance(protected, str):
        protected = [protected]
    else:
        protected = list(protected)
    groups = protected or ["group"]
    columns = [answer, *([label] if label is not None else [])]
    needed = [*groups, *columns, *(name for name in (weight, cluster, given) if name is not None)]
    if p_yes not in (None, "p_yes"):
        needed.append(p_yes)
    for name in needed:
        if name not in frame.columns:
            raise FwcError(f"the answers have no column {name!r}: they need {', '.join(needed)}")
    twice = [name for name in groups if [*groups, *columns].count(name) > 1]
    if twice:
        raise FwcError(
            f"the protected column {twice[0]!r} is named twice, or is the answer or the label"
        )
    if unread not in UNREAD_WORDS:
        raise FwcError(f"unread is {unread!r}: choose {', '.join(map(repr, UNREAD_WORDS))}")
    if not 0 <= margin < 1:
        raise FwcError(f"the margin is {margin:g}: it is a share, from 0 to less than 1")
    if not len(frame):
        raise FwcError("there are no answers to audit")
    if "repeat" in frame.columns and "row" not in frame.columns:
        raise FwcError("the column 'repeat' needs 'row': name the row that each answer is about")
    frame, notes = decided(frame, columns, outcomes or OutcomeRules(), groups)
    n = len(frame)
    usual = {"arm": "answers", "repeat": "0", "examples": ""}
    names = {name: _text(frame, name, otherwise) for name, otherwise in usual.items()}
    if "row" in frame.columns:
        row = _text(frame, "row")
    else:
        row = names_of(np.arange(n), list(map(str, range(n))))
    levels = [_text(frame, name) for name in groups]
    for place, name in enumerate(protected if unknown is not None else ()):
        levels[place], merged = _merged(name, levels[place], unknown or ())
        notes += merged
    if protected:
        group = _crossed(levels)
    else:
        group = levels[0]
    answers = _two_kinds(frame, answer, True)
    if label is None:
        truth = np.zeros(n)
    else:
        truth = _two_kinds(frame, label, False)
    reason = _text(frame, "reason", "", True)
    whole = ArmAnswers(
        repeat=_in_order(names["repeat"]),
        row=row,
        variant=one_name("", n),
        group=group,
        label=truth.astype(np.int8),
        answer=answers,
        reason=empty_but(reason, np.isnan(answers)),
        p_yes=np.full(n, np.nan)
        if p_yes not in frame.columns
        else _numbers(frame, str(p_yes), 0.0, 1.0),
        examples=names["examples"],
        weight=None if weight is None else _numbers(frame, weight, 0.0, np.inf),
        cluster=None if cluster is None else _text(frame, cluster),
        stratum=None if given is None else _text(frame, given),
    )
    if whole.weight is not None and not (np.isfinite(whole.weight).all() and whole.weight.any()):
        raise FwcError("every row needs a weight of 0 or more, and not all may be 0")
    _check_rows(whole, frame.index)
    by_arm = {arm: whole.where(names["arm"] == arm) for arm in names["arm"].unique().tolist()}
    check_arms(by_arm)
    for name, level in zip(groups, levels, strict=True):
        if len(level.categories) < least_groups:
            raise FwcError(
                f"all rows have the {name} {level[0]!r}: there are no two groups to compare"
            )
    first = next(iter(by_arm.values()))
    if against not in ("", "all", *by_arm):
        raise FwcError(f"there is no arm {against!r}: the arms are {', '.join(by_arm)}")
    return RunAnswers(
        by_arm,
        groups_by_rate(first, label is not None),
        SamplingDesign(
            labels_fixed=design == DESIGNS[1],
            min_group=min_group,
            margin=margin,
            labelled=label is not None,
            unread=unread,
        ),
        attributes=tuple(attributes or protected),
        unused=(
            *notes,
            *unused_columns(map(str, frame.columns), {*needed, *names, "row"}, weight, cluster),
        ),
        against=against,
    )


def with_population(
    frame: pd.DataFrame, population: pd.DataFrame, key: str, columns: Sequence[str]
) -> pd.DataFrame:
    """Add to answers those of the `columns` that only the population has."""
    lacking = [name for name in columns if name not in frame.columns and name in population.columns]
    if not lacking or key not in frame.columns or key not in population.columns:
        return frame
    rows = population[key].astype(str)
    asked = frame[key].astype(str)
    if rows.duplicated().any():
        raise FwcError(
            f"the population has two rows {rows[rows.duplicated()].iloc[0]!r} in {key}: keep one"
        )
    lost = asked[~asked.isin(rows)].tolist()
    if lost:
        raise FwcError(f"the population lacks the row {lost[0]!r}, which has an answer")
    found = population.set_axis(rows)[lacking].reindex(asked).set_axis(frame.index)
    return frame.join(found)  # not `assign`, because a column may have any name


def of_population(
    answered: RunAnswers,
    population: pd.DataFrame,
    key: str,
    label: str | None = None,
    outcomes: OutcomeRules | None = None,
    unknown: Collection[str] = (),
    cluster: str | None = None,
) -> RunAnswers:
    """Assist every value by predictions for the rows of `population` that were not asked about.

    Its column `key` names rows like the answers' `row`. All its columns but this one, the protected
    ones, `label` and `cluster` are features.
    """
    groups = list(answered.attributes) or ["group"]
    if answered.design.labelled:
        target = label
    else:
        target = None
    used = [key, *groups, *filter(None, (cluster, target))]
    missing = [name for name in used if name not in population.columns]
    if missing:
        raise FwcError(f"the population has no column {missing[0]!r}: it needs {', '.join(used)}")
    for name in used:
        if population[name].isna().to_numpy().any():
            raise FwcError(f"rows of the population have no {name}: fill it in, or leave them out")
    truth = np.zeros(len(population))
    if target is not None:
        population, _ = decided(population, [target], outcomes or OutcomeRules(), groups)
        truth = _two_kinds(population, target, False)
    several = any(UNKNOWN in group.split(CROSSING) for group in answered.groups)
    levels = [_merged(name, _text(population, name), unknown, several)[0] for name in groups]
    group = np.asarray(_crossed(levels) if answered.attributes else levels[0], object)
    rows = pd.Index(np.asarray(_text(population, key), object))
    asked = {name for sample in answered.answers.values() for name in sample.row}
    others = population.loc[:, ~population.columns.isin([*used, "answer", "label"])]
    # A column that is constant in all rows not asked about only shows who was asked.
    tells = others[~rows.isin(asked)].head(MOST).astype(str).nunique() > 1
    titles = list(map(str, others.columns[tells.to_numpy()]))
    features = others.loc[:, tells.to_numpy()].set_axis(map(str, range(tells.sum())), axis=1)
    if cluster:
        people = np.asarray(_text(population, cluster), object)
    else:
        people = None
    table = FeatureTable(rows, group, truth.astype(np.int64), features, people, titles)
    return assisted_answers(answered, table)


def groups_by_rate(answers: ArmAnswers, labelled: bool = True) -> tuple[str, ...]:
    """Return the groups, sorted by rising (weighted) base rate or, without labels, by rising
    rate of yes.
    """
    names, member = levels_of(answers.group)
    if labelled:
        yes = answers.label
    else:
        yes = np.nan_to_num(answers.answer)
    if labelled:
        counted = np.ones(len(answers))
    else:
        counted = ~np.isnan(answers.answer)
    if answers.weight is None:
        weight = counted
    else:
        weight = answers.weight * counted
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.bincount(member, weight * yes) / np.bincount(member, weight)
    return tuple(names[place] for place in np.argsort(rates, kind="stable"))


def by_attribute(crossed: RunAnswers) -> dict[str, RunAnswers]:
    """Return the answers grouped by each attribute and, if there are several, by all crossed."""
    names = crossed.attributes
    if len(names) < 2:
        return dict.fromkeys(names, crossed)
    alone = {}
    whole = replace(crossed, assists={}, assist=False)
    for place, name in enumerate(names):
        answers = {
            arm: replace(a, group=mapped(a.group, lambda group: group.split(CROSSING)[place]))  # noqa: B023
            for arm, a in crossed.answers.items()
        }
        groups = groups_by_rate(next(iter(answers.values())), crossed.design.labelled)
        alone[name] = replace(whole, answers=answers, groups=groups, attributes=(name,))
    return {**alone, CROSSING.join(names): crossed}


def empty_but(names: "Names", mask: Any) -> "Names":
    """Return the names where a mask (n,) is true, and empty texts elsewhere."""
    return as_names(np.where(mask, np.asarray(names, object), ""))


def _merged(
    name: str, levels: "Names", unknown: Collection[str], several: bool = False
) -> "tuple[Names, list[str]]":
    """Merge spellings of a group, and of unknown, in one attribute; return its levels, and
    notes.
    """
    notes = list[str]()
    counts = Counter(
        dict(
            zip(
                levels.categories,
                np.bincount(levels.codes, minlength=len(levels.categories)).tolist(),
                strict=True,
            )
        )
    )
    spelled = merge_spellings(counts)
    if spelled:
        levels = mapped(levels, lambda level: spelled.get(level, level))
        notes.append(f"{spellings_note(name, spelled)}.")
    merged = merged_categories(levels.categories, unknown, several)
    if merged and merged != [UNKNOWN]:
        others = listed([level for level in merged if level != UNKNOWN], _SHOWN, repr)
        notes.append(
            f"In {name}, {others} count as {UNKNOWN}: the category of these people is not known."
        )
        levels = mapped(levels, lambda level: UNKNOWN if level in merged else level)
    return levels, notes


def _crossed(columns: Sequence["Names"]) -> "Names":
    """Cross several columns: join their levels by " & "."""
    whole, *others = [
        mapped(names, lambda text: text.replace(CROSSING, " and ")) for names in columns
    ]
    for names in others:
        many = len(names.categories)
        pairs, place = np.unique(
            whole.codes.astype(np.int64) * many + names.codes, return_inverse=True
        )
        texts = [
            f"{whole.categories[p // many]}{CROSSING}{names.categories[p % many]}" for p in pairs
        ]
        whole = names_of(place, texts)
    return whole


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


def _text(frame: pd.DataFrame, name: str, otherwise: str = "", empty: bool = False) -> "Names":
    """Return a column as text; refuse a missing value, unless `empty` makes it an empty text."""
    if name not in frame.columns:
        return one_name(otherwise, len(frame))
    names: Any = _column(frame, name).array
    whole = name == "row" and getattr(names, "categories", np.zeros(0)).dtype == "str"
    if whole and not ((names.codes < 0) | (names == "")).any():
        return as_names(names)  # already texts: save a pass over a million rows
    code, values = _coded(frame, name)
    if (code < 0).any():
        if not empty:
            raise FwcError(f"line {int(np.argmax(code < 0)) + 1} of the answers has no {name}")
        code = np.where(code < 0, len(values), code)
        values = [*values, ""]
    return names_of(code, list(map(str, values)))


def decided(
    frame: pd.DataFrame, names: Sequence[str], outcomes: OutcomeRules, groups: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with yes, no or missing in `names`, and a note on rows left out."""
    kinds = {True: 1, False: 0, None: -1}
    left_out = np.zeros(len(frame), dtype=np.bool_)
    frame = frame.copy(deep=False)
    found = Counter[str]()
    for together in [[name] for name in names] if outcomes.positive else [list(names)]:
        coded = {name: _coded(frame, name) for name in together}
        counts = Counter[str]()
        first: dict[str, Any] = {}
        for code, values in coded.values():
            for kind, position, rows in zip(
                *np.unique(code, return_index=True, return_counts=True), strict=True
            ):
                if kind >= 0:
                    counts[text_of(values[kind])] += int(rows)
                    if frame.index.name == FILE_ROW:
                        first.setdefault(text_of(values[kind]), frame.index[position])
        found += counts
        if not counts:
            continue
        meaning = outcomes.meaning(together, dict(counts.most_common()), first)
        for name, (code, values) in coded.items():
            texts = [text_of(value) for value in values]
            means = np.array([*(kinds[meaning.of(text)] for text in texts), -1])[code]
            left_out |= np.array([*(text in meaning.dropped for text in texts), False])[code]
            frame[name] = pd.Categorical.from_codes(means, pd.Index(["no", "yes"], dtype=object))
    outcomes.known.update(found)
    if "row" in frame.columns and left_out.any():  # arms and repeats must have the same rows
        left_out = frame["row"].isin(frame["row"][left_out]).to_numpy()
    if not left_out.any():
        return frame, []
    lost = Counter(zip(*(frame.loc[left_out, name].astype(str) for name in groups), strict=True))
    by_group = ", ".join(f"{CROSSING.join(group)} {n:,}" for group, n in lost.most_common(_SHOWN))
    titles = " or ".join(outcomes.titles.get(name, name) for name in names)
    rows = f"{lost.total():,} of {len(frame):,} rows"
    return frame[~left_out], [
        f"{rows} are left out, whose {titles} is neither yes nor no: {by_group}."
    ]


def _two_kinds(frame: pd.DataFrame, name: str, unknown: bool) -> Floats:
    """Return a column of `decided` as 1 and 0; a missing value is NaN if `unknown`, else
    refused.
    """
    code = frame[name].cat.codes.to_numpy(np.float64)
    if (code < 0).any() and not unknown:
        raise FwcError(f"line {int(np.argmax(code < 0)) + 1} of the answers has no {name}")
    return np.where(code < 0, np.nan, code)


def _column(frame: pd.DataFrame, name: str) -> "pd.Series[Any]":
    if frame[name].ndim > 1:
        raise FwcError(f"the answers have two columns {name!r}: rename one of them")
    return frame[name]


def _coded(frame: pd.DataFrame, name: str) -> tuple[Any, list[Any]]:
    """Return codes of a column's distinct values, −1 for missing and empty ones, and these
    values.
    """
    column = _column(frame, name)
    categories = isinstance(column.dtype, pd.CategoricalDtype)
    code, different = pd.factorize(column.array if categories else column.to_numpy(dtype=object))
    values: list[Any] = different.tolist()
    if "" in values:
        code = np.where(
            code == values.index(""), -1, np.where(code > values.index(""), code - 1, code)
        )
        values.remove("")
    return code, values


def _numbers(frame: pd.DataFrame, name: str, least: float, most: float) -> Floats:
    """Return a column of numbers from `least` to `most`; a missing value is NaN."""
    column = _column(frame, name)
    try:
        numbers = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise FwcError(
            f"{name} must hold numbers from {least:g} to {most:g}; correct the texts in it"
        ) from None
    wrong = (numbers < least) | (numbers > most)
    if wrong.any():
        raise FwcError(
            f"line {int(np.argmax(wrong)) + 1} of the answers has a {name} outside [{least:g}, "
            f"{most:g}]"
        )
    return numbers


def unused_columns(
    columns: Iterable[str], used: Collection[str], weight: str | None, cluster: str | None
) -> tuple[str, ...]:
    """Return notes on unused columns that look like weights or a person's id."""
    others = [name for name in columns if name not in used]
    notes = []
    for kind, own in (("weight", weight), ("cluster", cluster)):
        if own is None and (like := [name for name in others if name.lower() in _LOOKS[kind]]):
            notes.append(
                f"The column {like[0]!r} looks like a {kind} and is not used: name it with "
                f"--{kind}."
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
            place = int(np.argmax(other))
            if index.name == FILE_ROW:
                where = f" (row {index[place]} of the file)"
            else:
                where = ""
            raise FwcError(
                f"the row id {answers.row[place]!r} has two {name}s{where}, but an id has one "
                f"group and one "
                f"label: {_PERSON}"
            )


def check_arms(by_arm: Mapping[str, ArmAnswers]) -> None:
    """Raise `FwcError` unless all arms were asked the same questions, each question once."""
    names = list(by_arm)
    asked = dict(zip(names, questions_of(list(by_arm.values())), strict=True))
    for arm, keys in asked.items():
        again = pd.Series(keys).duplicated()
        if again.any():
            row = by_arm[arm].row[int(again.argmax())]
            raise FwcError(
                f"the arm {arm!r} has two answers to the row {row!r} in one repeat; {_PERSON}"
            )
    for arm in names[1:]:
        for lacking, having in ((arm, names[0]), (names[0], arm)):
            lost = ~np.isin(asked[having], asked[lacking])
            if lost.any():
                lines = by_arm[having].where(lost)
                row = min(zip(map(str, lines.repeat), lines.row, strict=True))[1]
                raise FwcError(
                    f"the arm {lacking!r} lacks the row {row!r}, which {having!r} has: "
                    "arms are compared on the same questions"
                )
