"""Registers tasks, solver, scorer, metrics and surrogate with Inspect.

The tasks `fwc_llm/adult`, `fwc_llm/census`, … and `fwc_llm/taskfile` take the settings of `fwc-llm
eval` as arguments. Their samples are the questions of such a run. Importing this module registers
everything.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    GenerateConfig,
    ModelAPI,
    get_model,
    model_output_from_openai,
    modelapi,
)
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from fwc_llm.answers import read_answer
from fwc_llm.errors import FwcError
from fwc_llm.inspect.log import FORMAT, KEY, default_options
from fwc_llm.models.client import STATED
from fwc_llm.models.inspect import from_chat, to_chat, to_reply
from fwc_llm.models.surrogate.model import NAME, Surrogate
from fwc_llm.models.surrogate.protocol import CHAT, Call, chat_body
from fwc_llm.options import extended
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Json
from fwc_llm.tasks import load_task, task_names
from fwc_llm.words import YES_NO, spellings

if TYPE_CHECKING:
    from fwc_llm.runs.plan import Plan

_REASONS = {"refused": "refusal", "filtered": "refusal", "empty": "no_response"}
_AT_ONCE = 100
logger = logging.getLogger(__name__)


def refused(why: str) -> Exception:
    """An error that Inspect prints without a traceback, with brackets escaped."""
    error: Exception = PrerequisiteError("fwc-llm: " + why.replace("[", "\\["))
    return error


@solver
def ask(logprobs: bool = False) -> Solver:
    """Solver that asks as `fwc-llm eval`; the user's parameters take precedence."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = get_model()
        chosen = model.config.merge(active_generate_config())
        options = default_options(model.name, chosen, logprobs)
        return await generate(state, **options)

    return solve


@metric(scores="unreduced")
def decisions() -> Metric:
    """Metric: coverage, accuracy and parity of each arm, over all repeats.

    Undefined values are left out. With several arms, the names are ARM/METRIC.
    """

    def compute(scores: list[SampleScore]) -> Mapping[str, float]:
        from fwc_llm.metrics.arm_estimates import ArmEstimates
        from fwc_llm.metrics.counts import CODES, METRICS
        from fwc_llm.metrics.variance import arrays_of

        rows = _rows(scores)
        arms = list(dict.fromkeys(row["arm"] for row in rows))
        values = {}
        for arm in arms:
            of_arm = [row for row in rows if row["arm"] == arm]
            sample, _ = arrays_of(
                [CODES[row["answer"]] for row in of_arm],
                [CODES[row["label"]] for row in of_arm],
                [row["group"] for row in of_arm],
            )
            estimates = ArmEstimates(sample)
            for name in ("coverage", *METRICS):
                value = estimates[name].value
                if value == value:
                    values[f"{arm}/{name}" if len(arms) > 1 else name] = value
        return values

    return compute


def _rows(scores: list[SampleScore]) -> list[Json]:
    """The questions with their answers; a repeated question belongs to the next epoch."""
    numbers: dict[Any, int] = {}
    rows = []
    for sample_score in scores:
        row = dict(sample_score.sample_metadata or {})
        if row.get("variant"):
            continue
        epoch = numbers[sample_score.sample_id] = (
            numbers.get(sample_score.sample_id, -1) + 1
        )
        # Any number works that differs between repeats and epochs.
        row["repeat"] = row["repeat"] * 1_000_000 + epoch
        reason = (sample_score.score.metadata or {}).get("reason", "")
        rows.append(row | {"answer": sample_score.score.answer or "", "reason": reason})
    return rows


@scorer(metrics=[decisions()])
def decision() -> Scorer:
    """Scorer with `read_answer`: "C" is right, "I" is wrong, "N" is unread."""

    async def score(state: TaskState, target: Target) -> Score:
        reply = to_reply(state.output)
        words = state.metadata.get("words") or YES_NO
        stated = state.metadata.get("answer_format") == STATED
        reading = read_answer(reply, words, stated=stated)
        answer = reading.answer
        right = (
            "N" if answer.value is None else "C" if answer.value == target.text else "I"
        )
        return Score(
            value=right,
            answer=answer.value,
            explanation=reply.text if reply.text is not None else reply.error,
            reason=_REASONS.get(answer.reason, "invalid_response_format")
            if answer.reason
            else None,
            metadata={"reason": answer.reason, "p_yes": reading.p_yes},
        )

    return score


def _plan(
    name: str, shots: Any, data_dir: Any, allow_changed_data: bool, **options: Any
) -> "Plan":
    from fwc_llm.runs.plan import make_plan

    sets = _names("template", options.pop("template", ""))
    if sets:
        options |= {"template": sets[0], "templates": sets if len(sets) > 1 else ()}
    try:
        settings = Settings(**options)
    except FwcError as error:
        raise FwcError(f"a task argument of fwc_llm/{name}: {error}") from None
    plan = make_plan(
        load_task(name, data_dir), _names("shots", shots), settings, allow_changed_data
    )
    for note in plan.notes:
        logger.warning("%s: %s", name, note)
    if any("name" in message for call in plan.first_calls for message in call.messages):
        logger.warning(
            "Inspect's messages carry no names: those of the template are left out"
        )
    return plan


def _names(argument: str, value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text with commas."""
    if isinstance(value, str):
        parts = value.split(",")
    else:
        parts = value
    if not isinstance(parts, list | tuple) or not all(
        isinstance(part, str) for part in parts
    ):
        raise FwcError(
            f"the task argument {argument!r} is {value!r}: name one, or several with commas"
        )
    return tuple(part.strip() for part in parts if part.strip())


def _task(plan: "Plan", logprobs: bool) -> Task:
    """The Inspect task of a plan, ordered by row, so that `--limit` cuts few rows apart."""
    from fwc_llm.runs.plan import describe_asked
    from fwc_llm.shots.storage import shots_json

    places: dict[tuple[int, str], int] = {}

    def place(group: Any) -> tuple[int, int]:
        repeat = group[0].repeat
        row = group[0].row
        return repeat, places.setdefault((repeat, row), len(places))

    further: Json = {}
    if plan.task.spellings != spellings("", YES_NO):
        further["words"] = plan.task.spellings
    if plan.settings.stated:
        further["answer_format"] = STATED
    samples = [
        Sample(
            input=to_chat(call.messages),
            target=question["label"],
            id="/".join(
                filter(None, (call.arm, str(call.repeat), call.row, call.variant))
            ),
            metadata=question | further,
        )
        for call, question in sorted(
            zip(plan.calls(), plan.questions(), strict=True), key=place
        )
    ]
    chosen = [
        {"arm": arm, "repeat": repeat.index, "shots": shots_json(shots)}
        for repeat in plan.repeats
        for arm, shots in repeat.shots.items()
    ]
    run = describe_asked(plan, "", {}, simulated=False)
    return Task(
        dataset=MemoryDataset(samples, name=plan.task.name),
        solver=ask(logprobs),
        scorer=decision(),
        metadata={
            KEY: {"format": FORMAT, "run": run, "shots": chosen, "logprobs": logprobs}
        },
    )


def _build(name: str) -> Callable[..., Task]:
    """Register the Inspect task for a task of this package."""

    def build(
        shots: str | Sequence[str] = "zero,balanced,fwc",
        options: Json | None = None,
        logprobs: bool = False,
        data_dir: str | None = None,
        allow_changed_data: bool = False,
        file: str | None = None,
        **settings: Any,
    ) -> Task:
        try:
            if (file is None) is (name == _OWN):
                raise FwcError(
                    f"fwc_llm/{_OWN} takes the task argument 'file', a task file (.toml); no other "
                    f"task does"
                )
            plan = _plan(
                file or name,
                shots,
                data_dir,
                allow_changed_data,
                strategy_options=options or {},
                **settings,
            )
            plan.settings.check_logprobs(logprobs)
            if plan.settings.answer_format == "json":
                raise FwcError(
                    "answer_format json is for fwc-llm eval: Inspect asks for words, or for a "
                    "probability"
                )
        except FwcError as error:
            raise refused(str(error)) from error
        return _task(plan, logprobs)

    build.__doc__ = (
        f"Decisions over the table {name!r}: accuracy and demographic parity."
    )
    parameters = [
        parameter
        for parameter in Settings.parameters()
        if parameter.name not in _RENAMED
    ]
    registered: Callable[..., Task] = task(name=name)(extended(build, parameters))
    return registered


_OWN = "taskfile"
_RENAMED = ("templates", "strategy_options")
TASKS = {name: _build(name) for name in (*task_names(), _OWN)}


class SurrogateAPI(ModelAPI):  # type: ignore[misc]
    """The surrogate as a model of Inspect; a request sets temperature and seed."""

    def __init__(
        self, model_name: str, config: GenerateConfig | None = None, **options: Any
    ) -> None:
        super().__init__(model_name, config=config or GenerateConfig())
        unknown = sorted(options.keys() - {"base_url", "api_key"})
        if model_name != NAME or unknown:
            if unknown:
                subject = f"option {unknown[0]!r}"
            else:
                subject = f"model {model_name!r}"
            raise refused(
                f"there is no {subject} of fwc: the one model is fwc/{NAME}, without options"
            )

    async def generate(
        self, input: list[Any], tools: Any, tool_choice: Any, config: GenerateConfig
    ) -> Any:
        """Answer at once; `UnreadablePromptError` for a prompt without a readable person."""
        messages = from_chat(input)
        reply = Surrogate(config.temperature or 0.0, config.seed or 0).reply(messages)
        request = {"model": NAME, "logprobs": True, "top_logprobs": 2}
        return await model_output_from_openai(
            chat_body(Call(CHAT, request, messages), reply)
        )

    async def count_text_tokens(self, text: str) -> int:
        """The number of words: the surrogate has no tokens."""
        return len(text.split())

    def max_connections(self) -> int:
        """The number of rows that Inspect asks about at the same time."""
        return _AT_ONCE


@modelapi(name="fwc")
def fwc() -> type[ModelAPI]:
    """Register the provider `fwc`."""
    return SurrogateAPI
