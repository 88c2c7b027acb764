"""Renders a row and examples as chat messages `[{"role": …, "content": …}, …]`.

A template set is a folder with `system.j2`, `shots.j2` and `query.j2`; prompts/README.md lists
their variables. `questions.j2` holds the question for decision models, which take it separately
from the input. A set without this file uses that of the set `decision`. A template adds a message
by calling `message(role)`. Messages are never parsed from text, so no cell can end a message or
begin another (`prompt_rows.py` defines what a cell may show).

System messages and examples are rendered once per `Prompt` and come first, so that providers can
cache them. The queried row follows.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache, partial
from operator import is_
from pathlib import Path
from traceback import extract_tb
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.exceptions import TemplateNotFound, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fwc_llm.cell_rules import TaskRow
from fwc_llm.errors import FwcError, checked, did_you_mean, require
from fwc_llm.files import PATH, read_text, resource_dir
from fwc_llm.models.base import CRITERIA, QUESTION
from fwc_llm.models.client import STATED, AnswerFormat
from fwc_llm.prompt_rows import ShownColumns, ShownRow, clean, decimal
from fwc_llm.sanitize import Fields, Json, utf8_safe
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, as_task, has_row, ids_of, revealing_columns
from fwc_llm.words import REFER

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.models.base import ChatMessage, Message

    Row = Mapping[Any, Any] | pd.Series  # column names to values

EDITS = ("removal", "instruction", "unweighted")
_FILES = ("system.j2", "shots.j2", "query.j2")
_QUESTIONS = "questions.j2"
_ROLES = ("system", "developer", "user", "assistant")


class Prompt:
    """Builds prompts for one task, one set of examples and one template set.

    `template` is the name of a set (see `templates`) or a folder of your own. Its templates are
    trusted code: Jinja's sandbox denies them access to the system, but does not limit their running
    time. `edits` are of `EDITS`. With `question_apart`, for decision models, the question is a
    message of role `question` after the row. With `stated`, the model has to reply with P(yes).
    """

    def __init__(
        self,
        task: "Task",
        shots: "Shots | None" = None,
        template: str | Path = "default",
        edits: Collection[str] = (),
        question_apart: bool = False,
        stated: bool = False,
    ) -> None:
        for edit in edits:
            if edit not in EDITS:
                raise FwcError(
                    f"a prompt has no edit {edit!r}{did_you_mean(edit, EDITS)}"
                )
        self._templates = _template_set(template)
        if stated and task.refers:
            raise FwcError(
                f"{task.name!r} has a third answer, which no probability of yes can give: leave "
                f"answer_format 'probability' out, or leave refer out of the task file"
            )
        if stated and not self._templates.uses("probability"):
            raise FwcError(
                f"{self._templates.folder} has no sentence that asks for a probability: write one "
                "between {% if probability %} and {% endif %}"
            )
        self._question_apart = question_apart
        self._criteria: dict[str, str] = {}
        self._criteria.update(task.rules.criteria.items())
        if task.refers:
            self._criteria.setdefault("refer", "A person should decide.")
        self._cells = ShownColumns(
            task, revealing_columns(task) if "removal" in edits else ()
        )
        weighted = "unweighted" not in edits
        # A decision model answers in its own words.
        says = {"yes": "yes", "no": "no", "refer": ""}
        if not question_apart:
            says |= task.rules.words
        elif task.refers:
            says["refer"] = REFER
        self._refer = "" if question_apart else says["refer"]
        examples = [
            ShownExample(
                self._cells,
                example.values,
                says[example.label],
                weight if weighted else None,
            )
            for example, weight in (shots.shown() if shots is not None else ())
        ]
        self._variables: Json = {
            "task": SimpleNamespace(
                name=task.name, title=task.title, question=task.question
            ),
            "m": len(examples),
            **says,
            "weighted": any(example.weight is not None for example in examples),
            "fair": "",
            "probability": stated,
            "only_for": partial(_only_for, task.name, self._templates.folder.name),
            "question_apart": partial(
                _question_apart, self._templates.folder.name, question_apart
            ),
        }
        fixed, last = self._around(examples)
        if "instruction" in edits:
            attributes = " or ".join(
                clean(task.column(name).text) for name in task.protected
            )
            self._variables["fair"] = "group" if "removal" in edits else attributes
            plain = fixed, last
            fixed, last = self._around(examples)
            if (fixed, last) == plain:
                why = (
                    "has no sentence for `instruction`: write one between {% if fair %} and {% "
                    "endif %}"
                )
                raise FwcError(f"{self._templates.folder / 'system.j2'} {why}")
        self._fixed, self._last = tuple(fixed), tuple(last)

    def _around(
        self, examples: "list[ShownExample]"
    ) -> "tuple[list[Message], list[Message]]":
        """The messages before the row (system, examples), and those after it (questions)."""
        fixed = self._templates.render("system.j2", self._variables)
        if examples:
            fixed += self._templates.render(
                "shots.j2", {**self._variables, "examples": examples}
            )
        questions: list[Message] = []
        if self._question_apart:
            questions.append(self._templates.question(self._variables))
            names = {"true": "yes", "false": "no", "refer": "refer"}
            for answer, meant in names.items():
                words = self._criteria.get(meant)
                if words:
                    questions.append(
                        {
                            "role": QUESTION,
                            "name": f"{CRITERIA}{answer}",
                            "content": words,
                        }
                    )
        return fixed, questions

    @property
    def prefix(self) -> "list[Message]":
        """The messages that every prompt begins with: system and examples."""
        return [message.copy() for message in self._fixed]

    def build(self, row: "TaskRow | Row") -> "list[ChatMessage]":
        """All messages of the prompt for a record, or a row of the cleaned table.

        An outcome in `row` is ignored. Pass raw rows of a file through `Task.record` first.
        """
        values = row.values if isinstance(row, TaskRow) else dict(row.items())
        query = self._templates.render(
            "query.j2", {**self._variables, "row": ShownRow(self._cells, values)}
        )
        if not query or query[-1]["role"] != "user":
            raise FwcError(
                f"{self._templates.folder / 'query.j2'}: its last message must have the role user"
            )
        messages = [*self.prefix, *query, *(message.copy() for message in self._last)]
        if not any(self._refer in message["content"] for message in messages):
            where = self._templates.folder / "system.j2"
            raise FwcError(
                f"{where} says nothing of the third answer, {self._refer!r}: write {{{{ refer }}}} "
                f"beside {{{{ yes }}}} and {{{{ no }}}}"
            )
        return messages


class ShownExample(ShownRow):
    """An example in a template: a row, its `label` in words, its `weight` as text."""

    def __init__(
        self, cells: ShownColumns, values: Fields, label: str, weight: str | None
    ) -> None:
        super().__init__(cells, values)
        self.label = label
        self.weight = weight


@checked
def build_prompt(
    task: "str | Path | Task",
    row: "TaskRow | Row",
    shots: "Shots | None" = None,
    template: str | Path = "default",
    allow_changed_data: bool = False,
    answer_format: AnswerFormat = "word",
) -> "list[ChatMessage]":
    """Build the chat messages that ask about `row`, with the examples `shots`.

    `row` is a record, a row of `task.test()` or `task.pool()`, or a raw row of the table's file;
    raw rows are cleaned by `Task.record`. `template` is the name of a template set or a folder.
    With the `answer_format` "probability" the model is asked for P(yes) and not for a word. System
    messages and examples are rendered once for repeated calls with the same arguments. `FwcError`
    for a row that is one of the examples: it has an example's cells, and is not another row of the
    table, by id and cells; and, unless `allow_changed_data`, for examples of another table.
    """
    from fwc_llm.shots.storage import check_task

    task = as_task(task)
    record = task.record(row)
    if shots is not None:
        require(
            shots,
            Shots,
            "the examples",
            "give Shots, as select_shots and load_shots return",
        )
        check_task(shots, task, allow_changed_data, "the set of examples")
        _refuse_example(task, row, record, shots)
    stated = answer_format == STATED
    key = (task, shots, _template_set(template), stated)
    for before, prompt in _recent:
        if all(map(is_, before, key)):
            return prompt.build(record)
    prompt = Prompt(task, shots, template, stated=stated)
    _recent.appendleft((key, prompt))
    return prompt.build(record)


def _refuse_example(task: "Task", given: Any, record: TaskRow, shots: Shots) -> None:
    """`FwcError` if the cells are an example's, and the row is not somebody who is alike."""
    for example in shots.examples:
        if not record.values.items() <= example.values.items():
            continue
        ids = ids_of(task, given, record)
        is_own = has_row(task, example.row, example.values)
        if not ids or not is_own or example.row in ids:
            raise FwcError(
                f"the row is among its own examples, as {example.row!r}, or has the same cells: "
                f"ask about a row of task.test(), choose the examples without it (candidates=), or "
                f"ask without examples"
            )


_recent: "deque[tuple[tuple[Task, Shots | None, TemplateSet, bool], Prompt]]" = deque(
    maxlen=8
)


def split_edits(source: str) -> tuple[str, tuple[str, ...]]:
    """Split an arm into strategy (or file) and edits: "fwc+instruction"."""
    base = source
    edits = []
    while base.rpartition("+")[2] in EDITS:
        base, _, edit = base.rpartition("+")
        edits.append(edit)
    if len(set(edits)) < len(edits):
        raise FwcError(f"the arm {source!r} names {edits[0]!r} twice")
    return base or "zero", tuple(reversed(edits))


def _only_for(task: str, template: str, *tasks: str) -> str:
    """Template function `only_for`: `FwcError` unless `task` is one of `tasks`."""
    if task not in tasks:
        problem = f"the template set {template!r} is written for the task {' or '.join(tasks)}"
        raise FwcError(
            f"{problem} and does not fit {task!r}: use --template default or a folder of your own"
        )
    return ""


def _question_apart(template: str, separate: bool) -> str:
    """Template function `question_apart`: `FwcError` in a chat (`apart` is False)."""
    if not separate:
        problem = (
            f"the template set {template!r} is for decision models (--api): it does not say the "
            f"question"
        )
        raise FwcError(f"{problem}; for chats use --template default")
    return ""


class _Sandbox(ImmutableSandboxedEnvironment):
    def make_globals(self, d: Any) -> Any:
        return {
            **self.globals,
            **(d or {}),
        }  # Jinja's ChainMap would take a third of the rendering time


class TemplateSet:
    """The templates of a folder, compiled in a sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = _Sandbox(
            loader=FileSystemLoader(folder),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters["decimal"] = decimal
        self._compiled = {}
        for file in (
            *_FILES,
            *((_QUESTIONS,) if (folder / _QUESTIONS).is_file() else ()),
        ):
            try:
                self._compiled[file] = environment.get_template(file)
            except TemplateNotFound:
                raise FwcError(
                    f"{folder} is not a template set: it has no {file}"
                ) from None
            except Exception as error:
                raise self._mistake(file, error) from None

    def render(self, file: str, variables: Fields) -> "list[Message]":
        """The messages that the template `file` adds when rendered with `variables`."""
        messages: list[Message] = []

        def message(
            role: str, name: str | None = None, *, caller: Callable[[], str]
        ) -> str:
            roles = (QUESTION,) if file == _QUESTIONS else _ROLES
            if role not in roles:
                raise FwcError(
                    f"{self.folder / file}: no role {role!r}, only {', '.join(roles)}"
                )
            content = utf8_safe(caller().strip())
            if not content:
                raise FwcError(
                    f"{self.folder / file}: a message of role {role!r} is empty"
                )
            messages.append({"role": role, "content": content})
            if name is not None:
                messages[-1]["name"] = utf8_safe(str(name))
            return ""

        try:
            outside = self._compiled[file].render(variables, message=message)
        except FwcError:
            raise
        except (
            Exception
        ) as error:  # whatever the expressions of a user's template can raise
            raise self._mistake(file, error) from None
        if outside.strip():
            raise FwcError(
                f"{self.folder / file}: text outside a message: {outside.strip()[:60]!r}"
            )
        return messages

    def uses(self, variable: str) -> bool:
        """Whether a template of the folder uses the variable."""
        used = re.compile(rf"\{{[{{%][^}}]*\b{variable}\b")
        return any(used.search(read_text(file)) for file in self.folder.glob("*.j2"))

    def question(self, variables: Fields) -> "Message":
        """The question as a message of its own."""
        if _QUESTIONS not in self._compiled:
            return _compiled(_built_in()["decision"], ()).question(variables)
        messages = self.render(_QUESTIONS, variables)
        if len(messages) != 1 or "name" in messages[0]:
            raise FwcError(
                f"{self.folder / _QUESTIONS}: write one message, without a name: the question"
            )
        return messages[0]

    def _mistake(self, file: str, error: Exception) -> FwcError:
        """`error` as an `FwcError` with the template's file and line."""
        file_name = str(self.folder / file)
        line = 0
        if isinstance(error, TemplateSyntaxError):
            file_name = error.filename or file_name
            line = error.lineno
        for step in extract_tb(
            error.__traceback__
        ):  # frames of templates have the templates' file names
            if step.filename.endswith(".j2"):
                file_name = step.filename
                line = step.lineno or 0
        reason = " ".join(str(error).split()) or type(error).__name__
        return FwcError(f"{file_name}{f', line {line}' if line else ''}: {reason}")


def templates() -> tuple[str, ...]:
    """The names of the template sets that come with the package."""
    return tuple(_built_in())


@cache
def _built_in() -> dict[str, Path]:
    return {
        file.parent.name: file.parent
        for file in sorted(resource_dir("prompts").glob("*/query.j2"))
    }


def _template_set(template: str | Path) -> TemplateSet:
    """The built-in set `template`, or that in a folder, recompiled after changes."""
    require(
        template, PATH, "template", f"name one ({', '.join(templates())}) or a folder"
    )
    folder = _built_in().get(str(template))
    if folder is not None:
        return _compiled(folder, ())
    folder = Path(template)
    if not str(template) or not folder.is_dir():
        there = f"there are {', '.join(templates())}, or name a folder with {', '.join(_FILES)}"
        raise FwcError(f"no template set {str(template)!r}: {there}")
    changed = (
        (file.name, file.stat().st_mtime_ns) for file in sorted(folder.glob("*.j2"))
    )
    return _compiled(folder, tuple(changed))


@lru_cache(maxsize=32)
def _compiled(folder: Path, changed: tuple[tuple[str, int], ...]) -> TemplateSet:
    return TemplateSet(folder)
