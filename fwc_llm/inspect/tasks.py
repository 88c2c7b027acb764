"""Our tasks as tasks of Inspect: `fwc_llm/adult`, `fwc_llm/census`, …, and `fwc_llm/taskfile` for your own.

A task's arguments are the settings of `fwc-llm eval`; its samples are the questions of such a run.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample

from fwc_llm.errors import FwcError
from fwc_llm.inspect.errors import shown_by_inspect
from fwc_llm.inspect.log import FORMAT, KEY
from fwc_llm.inspect.scoring import ask, decision
from fwc_llm.models.inspect import to_chat
from fwc_llm.options import extended
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import load_task, task_names

if TYPE_CHECKING:
    from fwc_llm.runs.plan import Plan


logger = logging.getLogger(__name__)


def _plan(name: str, shots: Any, data_dir: Any, allow_changed_data: bool, **given: Any) -> "Plan":
    from fwc_llm.runs.plan import make_plan

    if sets := _names("template", given.pop("template", "")):
        given |= {"template": sets[0], "templates": sets if len(sets) > 1 else ()}
    try:
        settings = Settings(**given)
    except FwcError as error:
        raise FwcError(f"a task argument of fwc_llm/{name}: {error}") from None
    plan = make_plan(load_task(name, data_dir), _names("shots", shots), settings, allow_changed_data)
    for note in plan.notes:
        logger.warning("%s: %s", name, note)
    if any("name" in message for call in plan.first_calls for message in call.messages):
        logger.warning("Inspect's messages carry no names: those of the template are left out")
    return plan


def _names(argument: str, value: Any) -> tuple[str, ...]:
    """Names from a list, or from text with commas (Inspect's command line makes a list of that)."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise FwcError(f"the task argument {argument!r} is {value!r}: name one, or several with commas")
    return tuple(part.strip() for part in parts if part.strip())


def _samples(plan: "Plan") -> list[Sample]:
    """The run's questions, all arms of a row beside each other, so that a limit cuts no row apart."""
    from fwc_llm.runs.results import questions

    numbers: dict[tuple[int, str], int] = {}
    asked = []
    for call, question in zip(plan.calls(), questions(plan), strict=True):
        place = numbers.setdefault((call.repeat, call.row), len(numbers))
        asked.append((call.repeat, place, call, question))
    asked.sort(key=lambda one: one[:2])
    return [
        Sample(
            input=to_chat(call.messages),
            target=question["label"],
            id="/".join(filter(None, (call.arm, str(call.repeat), call.row, call.variant))),
            metadata=question,
        )
        for _, _, call, question in asked
    ]


def _task(plan: "Plan", logprobs: bool) -> Task:
    from fwc_llm.evaluation.job import describe_asked
    from fwc_llm.shots.storage import shots_json

    chosen = [
        {"arm": arm, "repeat": repeat.index, "shots": shots_json(shots)}
        for repeat in plan.repeats
        for arm, shots in repeat.shots.items()
    ]
    run = describe_asked(plan, "", {}, simulated=False)
    return Task(
        dataset=MemoryDataset(_samples(plan), name=plan.task.name),
        solver=ask(logprobs),
        scorer=decision(),
        metadata={KEY: {"format": FORMAT, "run": run, "shots": chosen, "logprobs": logprobs}},
    )


def _build(name: str) -> Callable[..., Task]:
    """The Inspect task of one of our tasks."""

    def build(
        shots: str | Sequence[str] = "zero,balanced,fwc",
        order: str | Sequence[str] = "",
        options: dict[str, Any] | None = None,
        logprobs: bool = False,
        data_dir: str | None = None,
        allow_changed_data: bool = False,
        file: str | None = None,
        **settings: Any,
    ) -> Task:
        with shown_by_inspect():
            if (file is None) is (name == _OWN):
                raise FwcError(
                    f"fwc_llm/{_OWN} takes the task argument 'file', a task file (.toml); no other task does"
                )
            plan = _plan(
                file or name, shots, data_dir, allow_changed_data, orders=_names("order", order),
                strategy_options=options or {}, **settings,
            )  # fmt: skip
            return _task(plan, logprobs)

    build.__doc__ = f"Decisions over the table {name!r}: accuracy and demographic parity."
    shown = [one for one in Settings.parameters() if one.name not in _RENAMED]
    registered: Callable[..., Task] = task(name=name)(extended(build, shown))
    return registered


_OWN = "taskfile"
_RENAMED = ("orders", "templates", "strategy_options")
TASKS = {name: _build(name) for name in (*task_names(), _OWN)}
