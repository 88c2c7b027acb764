"""`evaluate`: plan, ask, score. The whole line in one function."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.errors import FwcError, InterruptedRunError, StorageError
from fwc_llm.models.base import Model
from fwc_llm.runs.folder import FORMAT, RunFolder, file_name, versions
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.plan import Plan, Settings, make_plan
from fwc_llm.runs.results import Result, score, write_questions
from fwc_llm.shots.base import Shots

if TYPE_CHECKING:
    from fwc_llm.runs.budget import Budget
    from fwc_llm.runs.execute import Outcome, Progress
    from fwc_llm.tasks import Task

_MODEL_OPTIONS = {
    "base_url", "api_key_env", "logprobs", "params", "max_tokens", "rpm", "tpm", "deadline",
}  # fmt: skip


def evaluate(
    task: "str | Task",
    model: str | Model,
    arms: Sequence[str | Shots] = ("zero", "balanced", "fwc"),
    n_test: int = 200,
    base_parity: float | None = 0.5,
    repeats: int = 1,
    seed: int = 0,
    out: str | Path | None = None,
    **options: Any,
) -> Result:
    """Ask `model` about test rows of `task`, once per arm, and measure accuracy and demographic parity.

    `arms` are strategy names, files of saved shots (ending in .json) or `Shots`. Each of the `repeats`
    draws `n_test` rows with the given `base_parity`, and its examples, from `seed` + its number. The run's
    folder is `out`, by default ./runs/<time>-<task>-<model>. Options: every field of
    `Settings` (m, epsilon, template, orders, weights, redraw, counterfactual, strategy_options), those of
    the client (base_url, api_key_env, logprobs, params, max_tokens, rpm, tpm, deadline), `concurrency`,
    `data_dir`, `allow_changed_data`, `max_cost`, `batch`, `cancel_batch`, and the callbacks `on_step(text)`
    and `on_progress(progress)`.

    With `out` naming the folder of an interrupted run, it continues where that stopped. Works inside a
    running event loop too (notebooks).

    Errors: `FwcError` for bad input, before any request; `ProviderError` when the provider rejects the run
    and `InterruptedRunError` on Ctrl-C, both with what was answered scored and kept (attribute `result`).
    """
    from fwc_llm.models import open_model
    from fwc_llm.models.openai.prices import price_of
    from fwc_llm.runs.budget import Budget
    from fwc_llm.tasks import load_task

    data_dir = options.pop("data_dir", None)
    concurrency = options.pop("concurrency", 8)
    allow_changed_data = options.pop("allow_changed_data", False)
    max_cost, batch = options.pop("max_cost", None), options.pop("batch", False)
    cancel_batch = options.pop("cancel_batch", False)
    on_step, on_progress = options.pop("on_step", None), options.pop("on_progress", None)
    model_options = {name: options.pop(name) for name in list(options) if name in _MODEL_OPTIONS}
    try:
        settings = Settings(n_test=n_test, base_parity=base_parity, repeats=repeats, seed=seed, **options)
    except TypeError as error:
        raise FwcError(f"evaluate: unknown option ({error})") from None
    task = load_task(task, data_dir) if isinstance(task, str) else task
    if isinstance(model, str):
        model = open_model(model, concurrency=concurrency, **model_options)
    plan = make_plan(task, arms, settings, allow_changed_data, on_step)
    budget = Budget(model, price_of(model.name), max_cost) if max_cost is not None else None
    return run_plan(plan, model, out, concurrency, budget, on_progress, batch, cancel_batch)


def run_plan(
    plan: Plan,
    model: Model,
    out: str | Path | None = None,
    concurrency: int = 8,
    budget: "Budget | None" = None,
    on_progress: "Callable[[Progress], None] | None" = None,
    batch: bool = False,
    cancel_batch: bool = False,
) -> Result:
    """Ask everything that the plan holds and the folder does not, then score. See `evaluate`.

    Batches that an earlier pass sent off are waited for and collected first, also without `batch`: what they
    answer is paid for. `cancel_batch` asks the service to stop them.
    """

    async def ask() -> "Outcome":
        from fwc_llm.runs.batch import batches_under_way, run_batch
        from fwc_llm.runs.execute import execute

        if batch or cancel_batch or batches_under_way(folder.path):  # the rest is asked live
            await run_batch(
                model, plan.calls(), journal, folder.path, progress=on_progress, budget=budget,
                begin=batch and not cancel_batch, cancel=cancel_batch,
            )  # fmt: skip
        return await execute(model, plan.calls(), journal, concurrency, on_progress, plan.n_calls, budget)

    folder = RunFolder(Path(out)) if out else RunFolder.default(plan.task.name, model.name)
    begun = folder.begun
    if not begun:
        _refuse_early(model, plan, concurrency)
    folder.create()
    with Journal(folder.path) as journal:
        with _before_any_request():
            if begun:
                folder.begin(describe(plan, model))
            else:
                _write_examples(folder, plan)
            write_questions(folder, plan)
            folder.begin(describe(plan, model))  # last: a folder with a run.json is complete
        try:
            outcome = _run(ask())
        except FwcError as error:
            with suppress(FwcError):  # where the disk is full, the first error says why
                error.result = score(folder, journal)  # type: ignore[attr-defined]
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            interrupted = InterruptedRunError(
                f"interrupted; what was answered is in {folder.path}, "
                f"and the same command with --out {folder.path} continues"
            )
            interrupted.result = score(folder, journal)  # type: ignore[attr-defined]
            raise interrupted from None
        return score(folder, journal, outcome.stopped)


@contextmanager
def _before_any_request() -> Iterator[None]:
    """What cannot be written while nothing was asked yet is a refusal like any other (exit code 2)."""
    try:
        yield
    except StorageError as error:
        raise FwcError(str(error)) from None


def describe(plan: Plan, model: Model) -> dict[str, Any]:
    """The content of run.json: all that decides the run, and the versions it ran with."""
    return {
        "format": FORMAT,
        "task": plan.task.name,
        "title": plan.task.title,
        "protected": list(plan.task.protected),
        "model": model.name,
        "parameters": dict(model.parameters),
        "simulated": bool(model.simulated or plan.task.simulated),
        "simulated_answers": bool(model.simulated),
        "arms": [arm.name for arm in plan.arms],
        "sources": {arm.name: arm.source for arm in plan.arms},
        "settings": plan.settings.as_json(),
        "fingerprint": plan.task.fingerprint,
        "calls": plan.n_calls,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
        "command": " ".join(Path(word).name if i == 0 else word for i, word in enumerate(sys.argv)),
    }


def _write_examples(folder: RunFolder, plan: Plan) -> None:
    """Write the shots of every arm and repeat, and one full prompt per arm."""
    from fwc_llm.shots import save_shots

    for repeat in plan.repeats:
        for arm in plan.arms:
            if arm.name in repeat.shots:
                path = folder.path / "shots" / f"{file_name(arm.name)}-{repeat.index}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                save_shots(repeat.shots[arm.name], path)
    for arm in plan.arms:
        folder.write_json(f"prompts/{file_name(arm.name)}.json", list(plan.prompt(arm)))


def _refuse_early(model: Model, plan: Plan, concurrency: int) -> None:
    """Refuse, before anything is written, what the model would refuse: no key, prompts it cannot take.

    A model may have `require_key()` and `check(messages)`, which raise `FwcError`. A run that was begun is
    not looked at again: what is answered already needs neither.
    """
    from fwc_llm.models.openai.prices import price_of
    from fwc_llm.runs.budget import check_context

    if concurrency < 1:
        raise FwcError(f"concurrency is {concurrency}: at least one request must be under way at once")
    if (require_key := getattr(model, "require_key", None)) is not None:
        require_key()
    if (check := getattr(model, "check", None)) is not None:
        for call in plan.first_calls():
            check(call.messages)
    check_context(model, plan.first_calls(), price_of(model.name))


def _run(work: "Coroutine[Any, Any, Outcome]") -> "Outcome":
    """Run a coroutine to its end, in a thread of its own when this one already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "fwc-llm-evaluate") as thread:
        return thread.submit(asyncio.run, work).result()
