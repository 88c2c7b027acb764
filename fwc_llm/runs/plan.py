"""The plan of a run: its arms, test rows, first names (`probe`), examples and calls."""

import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from fwc_llm.answers import PARSER
from fwc_llm.cell_rules import TaskRow
from fwc_llm.errors import FwcError, require
from fwc_llm.models.base import Message, Messages, Model, RowContext, Training, traits
from fwc_llm.notices import Say
from fwc_llm.prompts import Prompt, split_edits
from fwc_llm.runs.defaults import fit_defaults
from fwc_llm.runs.folder import (
    COUNTERFACTUAL,
    FORMAT,
    ROW_COLUMNS,
    THRESHOLD,
    command,
    file_name,
    versions,
)
from fwc_llm.runs.journal import PlannedCall
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import Split, draw_split, draw_validation_rows, population
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import (
    accepted_options,
    is_per_row,
    load_shots,
    order_shots,
    select_shots,
)
from fwc_llm.shots.base import Shots
from fwc_llm.shots.select import ORDERS, check_order
from fwc_llm.shots.storage import check_task
from fwc_llm.tasks import Task, with_columns
from fwc_llm.words import ANSWERS, LANGUAGES

if TYPE_CHECKING:
    import pandas as pd


_LIST = "give a list, for example ['zero', 'fwc']"


@dataclass(frozen=True)
class Arm:
    """One way to prompt.

    `source` is a strategy or a shots file, `edits` are those of the prompt's text ("removal",
    "instruction", "unweighted"). Without `template`, that of the settings is used. `family` is the
    name without order and template: arms of one family show the same examples.
    """

    name: str
    source: str
    order: str | None = None
    edits: tuple[str, ...] = ()
    template: str | None = None
    family: str = ""


def read_arms(
    sources: Sequence[str | Shots],
    settings: Settings,
    task: Task,
    allow_changed_data: bool,
) -> tuple[tuple[Arm, ...], dict[str, Shots]]:
    """One arm per source and template; and the user's own examples by source."""
    if isinstance(sources, str):
        raise FwcError(f"the arms are the text {sources!r}: {_LIST}")
    require(sources, Sequence, "the value of --shots", _LIST)
    if not sources:
        raise FwcError("no arm is named: give --shots a list, for example zero and fwc")
    saved: dict[str, Shots] = {}
    arms: list[Arm] = []
    for source in sources:
        remedy = "give a strategy, a file of shots, or Shots"
        require(source, (str, Shots), "an arm", remedy)
        if isinstance(source, Shots):
            check_task(source, task, allow_changed_data, "an arm's Shots")
            arm = Arm(source.strategy, f"shots-{len(saved)}")
            saved[arm.source] = source
        else:
            arm = _named(source)
            if arm.source.endswith(".json") and arm.source not in saved:
                shots = load_shots(arm.source, task, allow_changed_data)
                saved[arm.source] = shots
        arms += _variations(arm, settings)
    _check_distinct(arms)
    return tuple(arms), saved


def short_name(template: str) -> str:
    """A template set's name; for a folder, the last part of its path."""
    return Path(template).name or template


def _named(text: str) -> Arm:
    """The arm that a text names: STRATEGY or FILE, +EDIT, @ORDER."""
    name, order = text, None
    if text.endswith(tuple(f"@{order}" for order in ORDERS)):
        name, _, order = text.rpartition("@")
    source, edits = split_edits(name)
    if source.endswith(".json"):
        name = "+".join((Path(source).stem, *edits))
    else:
        is_per_row(source)  # an unknown strategy is refused here, before any work
    return Arm(name, source, order, edits)


def _variations(arm: Arm, settings: Settings) -> Iterator[Arm]:
    """Yield an arm in each template; its name has the order, and the template if there are more."""
    for template in settings.templates or [None]:
        parts = [arm.name, arm.order]
        if len(settings.templates) > 1:
            parts.append(short_name(template or ""))
        name = "@".join(filter(None, parts))
        yield replace(arm, name=name, template=template, family=arm.name)


def _check_distinct(arms: Sequence[Arm]) -> None:
    """Raise `FwcError` for two arms whose files would have one name."""
    files = [file_name(arm.name) for arm in arms]
    for arm in arms:
        if files.count(file_name(arm.name)) > 1:
            remedy = "give each arm once, and shots files and template folders distinct names"
            raise FwcError(f"the arm {arm.name!r} is named twice: {remedy}")


FIRST_NAME = "first name"  # key of the first name in a changed row


@cache
def _file() -> Json:
    return tomllib.loads(
        Path(__file__).with_name("first_names.toml").read_text(encoding="utf-8")
    )


def _word(level: str) -> str:
    word = level.strip().lower()
    return str(_file()["same"].get(word, word))


def named_levels(task: Task) -> dict[str, list[str]]:
    """Levels with first names, by attribute with at least two of them; else `FwcError`."""
    lists = _file()["names"]
    sexes = set(lists)
    races = set(lists["female"])
    by_attribute = {}
    without = []
    for attribute in task.protected:
        levels = sorted(map(str, task.pool()[attribute].unique()))
        listed = [level for level in levels if _word(level) in sexes | races]
        without += [level for level in levels if level not in listed]
        if len(listed) > 1:
            by_attribute[attribute] = listed
    if not by_attribute:
        knows = f"the probe `names` knows female and male, Black and white ({_file()['source']})"
        raise FwcError(
            f"there are no lists of first names for the levels {', '.join(without)}: {knows}"
        )
    return by_attribute


def with_first_name(messages: Messages, values: Fields) -> Messages:
    """Append the first name in `values`, if any, to the record in `messages`."""
    if FIRST_NAME not in values:
        return messages
    index = max(
        index for index, message in enumerate(messages) if message["role"] == "user"
    )
    text = messages[index]["content"].rstrip()
    if text.splitlines()[-1].startswith("- "):
        mark = "- first name"
    else:
        mark = "First name"
    changed: Message = {
        **messages[index],
        "content": f"{text}\n{mark}: {values[FIRST_NAME]}",
    }
    return [*messages[:index], changed, *messages[index + 1 :]]


def name_variants(
    levels: Mapping[str, list[str]], row: str, values: Fields
) -> Iterator[tuple[str, Fields]]:
    """Yield (variant, values) of the row with a first name for each level.

    Names imply a sex and a race. One is the level to try; the other is that of the row if the row
    states it, else white, or a sex drawn by the row's id.
    """
    lists = _file()["names"]
    drawn = crc32(row.encode())
    words = {_word(str(value)) for value in values.values() if isinstance(value, str)}
    sex = next((sex for sex in lists if sex in words), list(lists)[drawn % 2])
    race = next((race for race in lists[sex] if race in words), "white")
    for attribute, names in levels.items():
        for level in names:
            word = _word(level)
            chosen = lists[word][race] if word in lists else lists[sex][word]
            first = chosen[drawn // 2 % len(chosen)]
            yield f"names:{attribute}={level}", {**values, FIRST_NAME: first}


@dataclass(frozen=True)
class Repeat:
    """One repeat; with K samples of every prompt, K of them differ only in `index`.

    `shots` lacks arms with new examples for every row. `validation` has the rows of the pool on
    which a threshold is chosen; it may be empty.
    """

    index: int
    seed: int
    split: "Split" = field(repr=False)
    shots: Mapping[str, Shots] = field(repr=False)
    validation: "pd.DataFrame" = field(repr=False)

    def rows(self, validation: bool) -> "pd.DataFrame":
        """The test rows, or with `validation` the validation rows."""
        if validation:
            return self.validation
        return self.split.test


class _PlannedQuestion(NamedTuple):
    """One question: the row at `position` of a repeat, with the `values` of the variant."""

    repeat: Repeat
    arm: Arm
    position: int
    question: Json
    values: Fields


@dataclass(frozen=True)
class Plan:
    """A whole run before its first request.

    `moved` has a sentence for each default that was adjusted, `saved` the user's own examples by
    source.
    """

    task: Task
    arms: tuple[Arm, ...]
    settings: Settings
    repeats: tuple[Repeat, ...]
    moved: tuple[str, ...] = ()
    saved: Mapping[str, Shots] = field(default_factory=dict, repr=False)
    _builders: dict[tuple[int, str], Prompt] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def notes(self) -> list[str]:
        """Sentences to show before the run."""
        notes = list(self.moved)
        more = self.n_threshold_calls
        if more:
            rows = len(self.repeats[0].rows(validation=True))
            where = f"{rows:,} rows of the pool in each arm and repeat"
            threshold = self.settings.threshold
            notes.append(f"--threshold {threshold} adds {more:,} requests: {where}")
        return [*notes, *self._word_notes]

    @property
    def _word_notes(self) -> list[str]:
        """Notes on answers in other words than yes and no, for chats."""
        yes = self.task.rules.words["yes"]
        no = self.task.rules.words["no"]
        if self.settings.question_apart or self.settings.stated:
            return []
        if (yes, no) == ("yes", "no"):
            pairs = zip(*self.task.spellings.values(), strict=False)
            further = [" and ".join(pair) for pair in pairs if pair in LANGUAGES]
            note = f"the question is not English: {', '.join(further)} are also read as yes and no"
            return [note] * bool(further)
        alike = yes[0].casefold() == no[0].casefold() or not (
            yes[0].isalpha() and no[0].isalpha()
        )
        return [
            f"{yes!r} and {no!r} may begin with the same token: P(yes) is then unknown"
        ] * alike

    @property
    def n_calls(self) -> int:
        """The number of the run's requests."""
        return self.n_threshold_calls + self.n_questions

    @cached_property
    def n_threshold_calls(self) -> int:
        """The number of requests about validation rows, for the choice of a threshold."""
        return len(self.arms) * sum(
            len(repeat.rows(validation=True)) for repeat in self.repeats
        )

    @cached_property
    def n_questions(self) -> int:
        """The number of planned answers about test rows."""
        tests = [repeat.split.test for repeat in self.repeats]
        variants = sum(1 for _ in self.variants(*next(rows_of(tests[0]))))
        return sum(map(len, tests)) * len(self.arms) * variants

    def questions(self, validation: bool = False) -> Iterator[Json]:
        """Yield the questions about test rows, or with `validation` of the pool."""
        for planned in self._planned_questions(validation):
            yield planned.question

    def calls(self) -> Iterator[PlannedCall]:
        """Yield the requests."""
        trainings = {
            repeat.index: cache(partial(_training, self.task, repeat))
            for repeat in self.repeats
        }
        for validation in (True, False):
            for planned in self._planned_questions(validation):
                repeat = planned.repeat
                arm = planned.arm.name
                builder = self._builder(
                    repeat, planned.arm, planned.position, validation
                )
                fixed = len(builder.prefix) if arm in repeat.shots else 0
                row = planned.question["row"]
                variant = planned.question["variant"]
                training = trainings[repeat.index]
                row_values = planned.values
                context = RowContext(
                    row, repeat.index, row_values, training, arm, variant
                )
                messages = with_first_name(builder.build(row_values), row_values)
                yield PlannedCall(
                    arm, repeat.index, row, variant, messages, context, fixed
                )

    def _planned_questions(self, validation: bool) -> Iterator["_PlannedQuestion"]:
        """Yield what is asked about the test (or validation) rows of every repeat and arm."""
        rules = self.task.rules
        named_columns = (rules.weight, rules.cluster, self.settings.given)
        for repeat in self.repeats:
            rows = repeat.rows(validation)
            groups = self.task.sensitive(rows)
            labels = self.task.labels(rows)
            columns = {
                name: rows[column].astype(str).tolist()
                for name, column in zip(ROW_COLUMNS, named_columns, strict=True)
                if column
            }
            for arm in self.arms:
                for position, (row, values) in enumerate(rows_of(rows)):
                    variants = self.variants(row, values)
                    if validation:
                        variants = iter([(THRESHOLD, values)])
                    further = {name: cells[position] for name, cells in columns.items()}
                    for variant, row_values in variants:
                        question = {
                            "arm": arm.name,
                            "repeat": repeat.index,
                            "row": row,
                            "variant": variant,
                            "group": groups[position],
                            "label": ANSWERS[labels[position]],
                            **further,
                        }
                        yield _PlannedQuestion(
                            repeat, arm, position, question, row_values
                        )

    @cached_property
    def first_calls(self) -> tuple[PlannedCall, ...]:
        """The first request of every arm, for checks and as a sample."""
        row = str(self.repeats[0].split.test.index[0])
        return tuple(
            PlannedCall(arm.name, 0, row, "", self.prompt(arm)) for arm in self.arms
        )

    def prompt(self, arm: Arm, position: int = 0) -> Messages:
        """An arm's messages for the test row at `position` of the first repeat."""
        repeat = self.repeats[0]
        values = next(rows_of(repeat.split.test.iloc[[position]]))[1]
        return self._builder(repeat, arm, position).build(values)

    def _builder(
        self, repeat: Repeat, arm: Arm, position: int, validation: bool = False
    ) -> Prompt:
        """The prompt builder of an arm for a row, cached if other rows can use it."""
        shots = repeat.shots.get(arm.name)
        shared = shots is not None or not (position or validation)
        key = repeat.seed, arm.name  # equal for all samples of a prompt
        if shared and key in self._builders:
            return self._builders[key]
        settings = self.settings
        if shots is None:  # the arm chooses new examples for every row
            _, query = next(rows_of(repeat.rows(validation).iloc[[position]]))
            entropy = [repeat.seed, position, *[1] * validation]
            seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
            shots = _select(self.task, arm, settings, repeat.split, seed, query)
        template = arm.template or settings.template
        prompt = Prompt(
            self.task,
            shots,
            template,
            arm.edits,
            settings.question_apart,
            settings.stated,
        )
        if shared:
            self._builders[key] = prompt
        return prompt

    @cached_property
    def _levels(self) -> dict[str, list[str]]:
        pool = self.task.pool()
        return {name: sorted(pool[name].unique()) for name in self.task.protected}

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        if "names" in self.settings.probe:
            return named_levels(self.task)
        return {}

    def variants(self, row: str, values: Fields) -> Iterator[tuple[str, Fields]]:
        """Yield (variant, values): the row itself, then probes and counterfactuals."""
        yield "", values
        if self._named:
            yield from name_variants(self._named, row, values)
        for name in self.task.protected if self.settings.counterfactual else ():
            for level in self._levels[name]:
                if level != values[name]:
                    changed = {**values, name: level}
                    group = " & ".join(
                        str(changed[attribute]) for attribute in self.task.protected
                    )
                    yield COUNTERFACTUAL + group, changed


def make_plan(
    task: Task,
    sources: Sequence[str | Shots],
    settings: Settings,
    allow_changed_data: bool = False,
    progress: Say | None = None,
    split: "Split | None" = None,
    model: Model | None = None,
) -> Plan:
    """Draw the test rows and choose the examples of every repeat.

    Repeat r has the seed `settings.seed` + r, and equal test rows in all arms, none of which equals
    an example of a saved shots file. `split` has rows that were drawn before.
    """
    api = settings.api if model is None else traits(model).api
    arms, saved = read_arms(sources, settings, task, allow_changed_data)
    taken = [accepted_options(arm.source) for arm in arms if arm.source not in saved]
    for name in settings.strategy_options:
        if not any(names is None or name in names for names in taken):
            raise FwcError(f"none of the strategies has an option {name!r}")
    task = _judged(task, settings, [arm.name for arm in arms])
    chooses = any(arm.source not in saved and arm.source != "zero" for arm in arms)
    settings, notes = fit_defaults(task, settings, chooses, api)
    if task.refers:
        _check_refers(task, settings, model)
    if model is not None:  # before choosing examples, which may take minutes
        for template in settings.wordings:
            traits(model).check(
                bare_prompt(task, template, settings.question_apart, settings.stated)
            )
    bare = Plan(
        task, arms, settings, (), (*notes, *_table_notes(task, settings)), saved
    )
    return _drawn(bare, progress, split)


def _drawn(plan: Plan, progress: Say | None, split: "Split | None") -> Plan:
    """Complete a plan with the rows and examples of every repeat."""
    task = plan.task
    settings = plan.settings
    fixed_values = [
        example.values for shots in plan.saved.values() for example in shots.examples
    ]
    repeats: list[Repeat] = []
    for index in range(settings.repeats):
        seed = settings.seed + index
        drawn = split or draw_split(
            task, settings.n_test, settings.base_parity, seed, fixed_values
        )
        validation, drawn = draw_validation_rows(
            task, drawn, settings, seed, fixed_values
        )
        chosen = _examples(plan, drawn, index, progress)
        again = range(index * settings.samples, (index + 1) * settings.samples)
        repeats += [Repeat(sample, seed, drawn, chosen, validation) for sample in again]
    plan = replace(plan, repeats=tuple(repeats))
    plan.first_calls  # noqa: B018 (raises template errors before anything is written)
    plan.n_questions  # noqa: B018 (raises errors of impossible probes)
    return plan


def _examples(
    plan: Plan, drawn: "Split", index: int, progress: Say | None
) -> dict[str, Shots]:
    """The examples of every arm in a repeat, but for arms with new examples for every row."""
    settings = plan.settings
    seed = settings.seed + index
    in_given_order = dict(plan.saved)
    found = dict[str, Shots]()
    for arm in plan.arms:
        source = arm.source
        if source not in in_given_order and not is_per_row(source):
            if progress and source != "zero":
                of = f"repeat {index + 1} of {settings.repeats}"
                progress(f"choosing examples: {arm.name}, {of}")
            in_given_order[source] = _select(
                plan.task, arm, settings, drawn, seed, None
            )
        if source in in_given_order:
            order = arm.order or "given"
            found[arm.name] = order_shots(in_given_order[source], order, seed)
    return found


def _judged(task: Task, settings: Settings, arms: Sequence[str]) -> Task:
    """The task with the settings' weights and people; `FwcError` if they are invalid."""
    from fwc_llm.metrics.sampling_design import NOT_ASSISTED

    if settings.against not in ("", "all", *arms):
        raise FwcError(
            f"against is {settings.against!r}: name an arm ({', '.join(arms)}), or all"
        )
    if "weight" in settings.model_fields_set:
        weight = settings.weight or ""
    else:
        weight = task.rules.weight
    cluster = settings.cluster or ""
    if settings.assist and (weight or cluster):
        raise FwcError(NOT_ASSISTED)
    if (weight, cluster) != (task.rules.weight, task.rules.cluster):
        task = with_columns(task, weight, cluster)
    for name in filter(None, (cluster, settings.given)):
        if task.column(name).name in (*task.protected, task.outcome):
            raise FwcError(
                f"{name!r} is a protected attribute or the outcome: name another column"
            )
    return task


def _check_refers(task: Task, settings: Settings, model: Model | None) -> None:
    """`FwcError` for settings and models that have no third answer."""
    excluded = {
        "a base parity": settings.base_parity is not None,
        "a threshold on P(yes)": settings.threshold is not None,
        "assist": settings.assist,
    }
    if model is not None:
        excluded[f"the model {model.name}"] = traits(model).reference
    for what, is_set in excluded.items():
        if is_set:
            raise FwcError(
                f"{task.name!r} has a third answer, refer, which {what} does not know: name "
                f"another, or leave refer out of the task file"
            )


def _table_notes(task: Task, settings: Settings) -> tuple[str, ...]:
    """Notes on revealing columns, repeated rows, possible weights and people."""
    from fwc_llm.metrics.audit_table import unused_columns

    checks = task.checks.as_json(task.rules.cluster)
    notes = [
        f"column {name}: {sentence}" if name else sentence
        for name, sentence in checks.items()
    ]
    if task.rules.folder is None or not task.text:
        return tuple(notes)
    names = [item.name for item in task.rules.fields]
    used = {*task.protected, task.outcome}
    weight = (
        "" if "weight" in settings.model_fields_set else task.rules.weight or None
    )  # "none" was chosen
    rows = task.pool()

    def repeats(person: str) -> bool:
        return person not in rows or not rows[person].is_unique

    return (*notes, *unused_columns(names, used, weight, settings.cluster, repeats))


def _training(task: Task, repeat: Repeat) -> Training:
    """The training data of a repeat: the pool without validation rows."""
    from fwc_llm.shots.examples import features_frame

    pool = repeat.split.pool.drop(index=repeat.validation.index)
    if pool.empty:
        raise FwcError("no row is left to fit the model on: lower --n-test")
    return Training(features_frame(task, pool, protected=True), task.labels(pool))


def bare_prompt(
    task: Task, template: str, question_apart: bool = False, stated: bool = False
) -> Messages:
    """The prompt for the task's first test row, without examples."""
    prompt = Prompt(task, None, template, (), question_apart, stated)
    return prompt.build(next(rows_of(task.test().head(1)))[1])


def default_model(task: Task) -> str:
    """The default model: the surrogate if it can read the prompts, else baseline."""
    from fwc_llm.models.surrogate.model import Surrogate

    try:
        Surrogate().check(bare_prompt(task, "default"))
    except FwcError:
        return "baseline"
    return "surrogate"


def rows_of(frame: "pd.DataFrame") -> Iterator[tuple[str, Json]]:
    """Yield (row id, values) of every row."""
    names = frame.columns.tolist()
    columns = (frame[name].astype(object) for name in names)
    for row, *cells in zip(frame.index, *columns, strict=True):
        yield str(row), dict(zip(names, cells, strict=True))


def _select(
    task: Task,
    arm: Arm,
    settings: Settings,
    split: "Split",
    seed: int,
    query: Fields | None,
) -> Shots:
    """An arm's examples, in its order if they are for one row alone."""
    accepted = accepted_options(
        arm.source
    )  # None: a strategy that declares none takes all
    given = settings.strategy_options.items()
    row = TaskRow(task.name, query) if query is not None else None
    order = arm.order if query is not None else None
    return select_shots(
        task,
        arm.source,
        settings.m,
        settings.epsilon,
        seed,
        split.pool,
        split.candidates,
        query=row,
        order=check_order(order or "given"),
        progress=False,
        **{name: x for name, x in given if accepted is None or name in accepted},
    )


def describe_asked(
    plan: Plan, model: str, parameters: Fields, simulated: bool, reference: bool = False
) -> Json:
    """The content of run.json; the arguments after `plan` describe the model."""
    task = plan.task
    described = {
        "format": FORMAT,
        "task": task.name,
        "title": task.title,
        "protected": list(task.protected),
        "parser": PARSER,
        "words": task.spellings,
        "model": model,
        "parameters": dict(parameters),
        "simulated": simulated or task.simulated,
        "simulated_answers": simulated,
        "reference": reference,
        "arms": [arm.name for arm in plan.arms],
        "sources": {arm.name: arm.source for arm in plan.arms},
        "settings": plan.settings.as_json(),
        "fingerprint": task.fingerprint,
        "calls": plan.n_questions,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "command": command(),
        "rows": task.rows.as_json() if task.rows else None,
        "population": population(task),
    }
    further = {
        "table_checks": task.checks.as_json(task.rules.cluster),
        "task_file": task.text,  # lets a report work with this folder and the data alone
    }
    return described | {name: value for name, value in further.items() if value}
