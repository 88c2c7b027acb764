"""Check a table of answers, and convert it to the input of statistics."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fwc_llm.errors import FwcError
from fwc_llm.meaning import Meaning, MeaningRule, read_meaning
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
from fwc_llm.metrics.sampling_design import SamplingDesign
from fwc_llm.sanitize import listed
from fwc_llm.words import (
    UNKNOWN,
    merge_spellings,
    merged_categories,
    one_part,
    spellings_note,
)

if TYPE_CHECKING:
    from fwc_llm.metrics.run_answers import Names

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
        counted = dict.fromkeys(sorted(self.known), 0) | dict(counts)
        return read_meaning(counted, f"{self.where}: {title}", rule, first)


def answers_of(
    frame: pd.DataFrame,
    protected: Sequence[str],
    design: SamplingDesign,
    *,
    answer: str = "answer",
    unknown: Collection[str] | None = (),
    attributes: Sequence[str] = (),
    against: str = "",
    notes: Sequence[str] = (),
    least_groups: int = 2,
) -> RunAnswers:
    """The answers in a table of `read_answers`; `fwc_llm.audit` explains columns and arguments.

    Without `protected`, the column "group" has the groups. With `unknown` None, spellings of an
    unknown category are not merged.
    """
    n = len(frame)
    if not n:
        raise FwcError("there are no answers to audit")

    def texts(name: str, usual: str = "") -> "Names":
        return as_names(frame[name].array) if name in frame else one_name(usual, n)

    def numbers(name: str) -> Floats:
        return frame[name].to_numpy(np.float64)

    told = [*notes]
    levels = {name: texts(name) for name in protected or ["group"]}
    for name in protected if unknown is not None else ():
        levels[name], merged = _merged(name, levels[name], unknown or ())
        told += merged
    answers = _two_kinds(frame, answer)
    arms = texts("arm", "answers")
    whole = ArmAnswers(
        repeat=_in_order(texts("repeat", "0")),
        row=texts("row") if "row" in frame else as_names(frame.index.astype(str)),
        variant=one_name("", n),
        group=_crossed([*levels.values()]) if protected else levels["group"],
        label=(_two_kinds(frame, "label") if "label" in frame else np.zeros(n)).astype(
            np.int8
        ),
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
        attributes=tuple(attributes or protected),
        unused=tuple(told),
        against=against,
    )


def from_population(
    keys: "Names", population: pd.DataFrame, key: str, columns: Sequence[str]
) -> "dict[str, Names]":
    """The cells of `columns` in the population's rows with these keys (n,)."""
    rows = population[key].astype(str)
    if rows.duplicated().any():
        raise FwcError(
            f"the population has two rows {rows[rows.duplicated()].iloc[0]!r} in {key}: keep one"
        )
    lost = keys[~keys.isin(rows)].tolist()
    if lost:
        raise FwcError(f"the population lacks the row {lost[0]!r}, which has an answer")
    found = population.set_axis(rows)[columns].reindex(keys)
    return {name: pd.Categorical(found[name]) for name in columns}


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
    target = label if answered.design.labelled else None
    used = [key, *groups, *filter(None, (cluster, target))]
    missing = [name for name in used if name not in population.columns]
    if missing:
        raise FwcError(
            f"the population has no column {missing[0]!r}: it needs {', '.join(used)}"
        )
    truth = np.zeros(len(population))
    if target is not None:
        population, _ = decided(
            population, [target], outcomes or OutcomeRules(), groups
        )
        truth = _two_kinds(population, target)
    for name in used:
        if population[name].isna().to_numpy().any():
            raise FwcError(
                f"rows of the population have no {name}: fill it in, or leave them out"
            )
    several = any(UNKNOWN in group.split(CROSSING) for group in answered.groups)
    column = {name: as_names(population[name].to_numpy(object)) for name in used}
    levels = [_merged(name, column[name], unknown, several)[0] for name in groups]
    group = np.asarray(_crossed(levels) if answered.attributes else levels[0], object)
    rows = pd.Index(np.asarray(column[key], object))
    answered_rows = {
        name for sample in answered.answers.values() for name in sample.row
    }
    others = population.loc[:, ~population.columns.isin([*used, "answer", "label"])]
    # A column that is constant in all rows not asked about only shows who was asked.
    tells = others[~rows.isin(answered_rows)].head(MOST).astype(str).nunique() > 1
    titles = list(map(str, others.columns[tells.to_numpy()]))
    features = others.loc[:, tells.to_numpy()].set_axis(
        map(str, range(tells.sum())), axis=1
    )
    people = np.asarray(column[cluster], object) if cluster else None
    table = FeatureTable(rows, group, truth.astype(np.int64), features, people, titles)
    return assisted_answers(answered, table)


def groups_by_rate(answers: ArmAnswers, labelled: bool = True) -> tuple[str, ...]:
    """Return the groups, sorted by rising (weighted) base rate or, without labels, by rising
    rate of yes.
    """
    names, member = levels_of(answers.group)
    yes = answers.label if labelled else answers.answer
    weight = np.where(
        np.isnan(yes), 0.0, 1.0 if answers.weight is None else answers.weight
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.bincount(member, weight * np.nan_to_num(yes)) / np.bincount(
            member, weight
        )
    return tuple(names[index] for index in np.argsort(rates, kind="stable"))


def by_attribute(crossed: RunAnswers) -> Iterator[RunAnswers]:
    """Yield the answers grouped by each of several attributes alone, then by all crossed."""
    names = crossed.attributes
    if len(names) < 2:
        names = ()
    unassisted = replace(crossed, assists={}, assist=False)
    for number, name in enumerate(names):
        level = partial(_level, number)
        answers = {
            arm: replace(a, group=mapped(a.group, level))
            for arm, a in crossed.answers.items()
        }
        groups = groups_by_rate(next(iter(answers.values())), crossed.design.labelled)
        yield replace(unassisted, answers=answers, groups=groups, attributes=(name,))
    yield crossed


def _level(number: int, group: str) -> str:
    """The level of one attribute of a crossed group."""
    return group.split(CROSSING)[number]


def empty_but(names: "Names", mask: Any) -> "Names":
    """Return the names where a mask (n,) is true, and empty texts elsewhere."""
    return as_names(np.where(mask, np.asarray(names, object), ""))


def _merged(
    name: str, levels: "Names", unknown: Collection[str], several: bool = False
) -> "tuple[Names, list[str]]":
    """Merge spellings of a group, and of unknown, in one attribute; return its levels, and
    notes.
    """
    counts: Any = levels.value_counts().to_dict()
    spelled = merge_spellings(counts)
    usual = [spelled.get(level, level) for level in levels.categories]
    merged = merged_categories(dict.fromkeys(usual), unknown, several)
    notes = [f"{spellings_note(name, spelled)}."] if spelled else []
    others = [level for level in merged if level != UNKNOWN]
    if others:
        notes.append(
            f"In {name}, {listed(others, _SHOWN, repr)} count as {UNKNOWN}: the category of these "
            f"people is not known."
        )
    return names_of(
        levels.codes, [UNKNOWN if level in merged else level for level in usual]
    ), notes


def _crossed(columns: Sequence["Names"]) -> "Names":
    """Cross several columns: join their levels by " & "."""
    rows = pd.DataFrame(dict(enumerate(columns))).groupby(
        [*range(len(columns))], observed=True
    )
    levels = rows.size().index.to_frame().itertuples(index=False)
    return names_of(
        rows.ngroup().to_numpy(), [CROSSING.join(map(one_part, one)) for one in levels]
    )


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


def decided(
    frame: pd.DataFrame,
    names: Sequence[str],
    outcomes: OutcomeRules,
    groups: Sequence[str],
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with yes, no or missing in `names`, and a note on rows left out."""
    left_out = np.zeros(len(frame), dtype=np.bool_)
    frame = frame.copy(deep=False)
    found = set[str]()
    for together in [[name] for name in names] if outcomes.positive else [list(names)]:
        texts = pd.concat([frame[name].astype(object) for name in together]).dropna()
        if texts.empty:
            continue
        found.update(texts.unique())
        first = texts.drop_duplicates()
        row_of = dict(zip(first, first.index, strict=True))
        counts: Any = texts.value_counts().to_dict()
        meaning = outcomes.meaning(together, counts, row_of)
        means = dict.fromkeys(meaning.no, 0) | dict.fromkeys(meaning.yes, 1)
        for name in together:
            left_out |= frame[name].isin(meaning.dropped).to_numpy()
            frame[name] = yes_or_no(frame[name].map(means))
    outcomes.known.update(found)
    if (
        "row" in frame.columns and left_out.any()
    ):  # arms and repeats must have the same rows
        left_out = frame["row"].isin(frame["row"][left_out]).to_numpy()
    if not left_out.any():
        return frame, []
    lost = Counter(
        zip(*(frame.loc[left_out, name].astype(str) for name in groups), strict=True)
    )
    by_group = ", ".join(
        f"{CROSSING.join(group)} {n:,}" for group, n in lost.most_common(_SHOWN)
    )
    titles = " or ".join(outcomes.titles.get(name, name) for name in names)
    rows = f"{lost.total():,} of {len(frame):,} rows"
    return frame[~left_out], [
        f"{rows} are left out, whose {titles} is neither yes nor no: {by_group}."
    ]


def yes_or_no(values: Any) -> "pd.Categorical[str]":
    """Answers or labels (n,) from numbers: 1 is yes, 0 no, NaN missing."""
    codes = np.nan_to_num(np.asarray(values, np.float64), nan=-1).astype(np.int8)
    return pd.Categorical.from_codes(codes, pd.Index(["no", "yes"], dtype=object))


def _two_kinds(frame: pd.DataFrame, name: str) -> Floats:
    """Return a column of `yes_or_no` as 1, 0 and NaN."""
    code = frame[name].cat.codes.to_numpy(np.float64)
    return np.where(code < 0, np.nan, code)


def unused_columns(
    columns: Iterable[str],
    used: Collection[str],
    weight: str | None,
    cluster: str | None,
) -> tuple[str, ...]:
    """Return notes on unused columns that look like weights or a person's id."""
    others = [name for name in columns if name not in used]
    notes = []
    for kind, chosen in (("weight", weight), ("cluster", cluster)):
        if chosen is None and (
            like := [name for name in others if name.lower() in _LOOKS[kind]]
        ):
            notes.append(
                f"The column {like[0]!r} looks like a {kind} and is not used: name it as {kind}."
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
                f"the row id {answers.row[position]!r} has two {name}s (row {index[position]} of the "
                f"file), but an id has one group and one label: {_PERSON}"
            )


def check_arms(by_arm: Mapping[str, ArmAnswers]) -> None:
    """Raise `FwcError` unless all arms were asked the same questions, each question once."""
    names = list(by_arm)
    questions = dict(zip(names, questions_of(list(by_arm.values())), strict=True))
    for arm, keys in questions.items():
        again = pd.Series(keys).duplicated()
        if again.any():
            row = by_arm[arm].row[int(again.argmax())]
            raise FwcError(
                f"the arm {arm!r} has two answers to the row {row!r} in one repeat; {_PERSON}"
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
