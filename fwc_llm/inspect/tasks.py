"""Our tasks as tasks of Inspect: `fwc_llm/adult`, `fwc_llm/census`, …, and `fwc_llm/taskfile` for your own.

A task's arguments are the settings of `fwc-llm eval`; its samples are the questions of such a run.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample

from fwc_llm.errors import FwcError
from fwc_llm.inspect.errors import shown_by_inspect
from fwc_llm.inspect.log import FORMAT, KEY
from fwc_llm.inspect.scoring import ask, decision
from fwc_llm.models.inspect.outputs import to_chat
from fwc_llm.runs.settings import Settings
from fwc_llm.tasks import load_task, task_names

if TYPE_CHECKING:
    from fwc_llm.runs.plan import Plan


_D = Settings()
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
_OPEN = {"epsilon", "base_parity"}  # may be null: no limit, drawn uniformly
logger = logging.getLogger(__name__)


def _plan(name: str, shots: Any, data_dir: Any, allow_changed_data: bool, **given: Any) -> "Plan":
    from fwc_llm.runs.plan import make_plan

    if not isinstance(given["template"], str) or "," in given["template"]:
        sets = _names("template", given["template"]) or (_D.template,)
        given |= {"template": sets[0], "templates": sets if len(sets) > 1 else ()}
    known = {one.name: given[one.name] for one in fields(Settings) if one.name in given}
    settings = Settings(**{name: _checked(name, value) for name, value in known.items()})
    plan = make_plan(load_task(name, data_dir), _names("shots", shots), settings, allow_changed_data)
    for note in plan.notes:
        logger.warning("%s: %s", name, note)
    if any("name" in message for call in plan.first_calls for message in call.messages):
        logger.warning("Inspect's messages carry no names: those of the template are left out")
    return plan


def _checked(name: str, value: Any) -> Any:
    """A task argument of the type that the setting has. `FwcError` otherwise."""
    if name == "templates":
        return value
    if name == "orders":
        return _names("order", value)
    if name == "strategy_options":
        if isinstance(value, dict):
            return value
        raise FwcError(f"the task argument 'options' is {value!r}: write NAME: VALUE in braces")
    default = getattr(_D, name)
    if value is default or (value is None and name in _OPEN):  # a default may move, an equal number not
        return value
    kind = next(one for one in _WORDS if isinstance(default, one))
    fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise FwcError(f"the task argument {name!r} is {value!r}: it must be {_WORDS[kind]}")
    return float(value) if kind is float else value


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
        m: int = _D.m,
        epsilon: float | None = _D.epsilon,
        n_test: int = _D.n_test,
        base_parity: float | None = _D.base_parity,
        repeats: int = _D.repeats,
        seed: int = _D.seed,
        template: str | Sequence[str] = _D.template,
        order: str | Sequence[str] = "",
        weights: str = _D.weights,
        redraw: str = _D.redraw,
        counterfactual: bool = _D.counterfactual,
        options: dict[str, Any] | None = None,
        logprobs: bool = False,
        data_dir: str | None = None,
        allow_changed_data: bool = False,
        file: str | None = None,
        **unknown: Any,
    ) -> Task:
        with shown_by_inspect():
            if unknown:
                raise FwcError(
                    f"fwc_llm/{name} has no task argument {next(iter(unknown))!r}; it takes {_ARGUMENTS}"
                )
            if (file is None) is (name == _OWN):
                raise FwcError(
                    f"fwc_llm/{_OWN} takes the task argument 'file', a task file (.toml); no other task does"
                )
            plan = _plan(
                file or name, shots, data_dir, allow_changed_data, m=m, epsilon=epsilon, n_test=n_test,
                base_parity=base_parity, repeats=repeats, seed=seed, template=template, orders=order,
                weights=weights, redraw=redraw, counterfactual=counterfactual,
                strategy_options=options or {},
            )  # fmt: skip
            return _task(plan, logprobs)

    build.__doc__ = f"Decisions over the table {name!r}: accuracy and demographic parity."
    registered: Callable[..., Task] = task(name=name)(build)
    return registered


_OWN = "taskfile"
_ARGUMENTS = (
    "shots, m, epsilon, n_test, base_parity, repeats, seed, template, order, weights, redraw, "
    "counterfactual, options, logprobs, data_dir and allow_changed_data"
)
TASKS = {name: _build(name) for name in (*task_names(), _OWN)}
