"""`evaluate` runs an evaluation; `prepare` plans it, and `Job` executes it."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack

from fwc_llm.errors import FwcError, InterruptedRunError, StorageError, checked
from fwc_llm.evaluation.classifiers import about
from fwc_llm.evaluation.experiment_file import (
    FILE_NAME,
    experiment_text,
    relative,
    saved_name,
    task_option,
)
from fwc_llm.evaluation.result import Result
from fwc_llm.files import in_shell
from fwc_llm.models import Client, Model, is_local, open_model, traits
from fwc_llm.models.base import FromTable
from fwc_llm.models.bodies import asks_json
from fwc_llm.models.client import STATED
from fwc_llm.models.functions import BatchFunction, Function, as_model
from fwc_llm.models.openai.prices import Price, no_price, price_of, why_unpriced
from fwc_llm.notices import Say, context_of_caller, tell
from fwc_llm.options import split_options, takes
from fwc_llm.progress import Progress, choose
from fwc_llm.runs.batch import BatchRun, batches_under_way
from fwc_llm.runs.budget import Budget, Forecast, forecast
from fwc_llm.runs.execute import Execution, ExecutionSummary, Watch
from fwc_llm.runs.folder import RunFolder, file_name
from fwc_llm.runs.journal import Journal, PlannedCall
from fwc_llm.runs.plan import Plan, describe_asked, make_plan
from fwc_llm.runs.results import write_questions
from fwc_llm.runs.settings import Settings
from fwc_llm.sanitize import Fields, Json
from fwc_llm.shots import save_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, as_task

if TYPE_CHECKING:
    from fwc_llm.keywords import EvaluateKeywords

T = TypeVar("T")
P = ParamSpec("P")


class Classifier(Protocol):
    """A fitted classifier, such as scikit-learn's."""

    def predict_proba(self, X: Any, /) -> Any:
        """Probabilities (n, 2) of n rows, in the order of `classes_`; without it, P(yes) last."""


@takes(Settings, Client)
@checked
def evaluate(
    task: str | Path | Task,
    model: str | Model | Function | BatchFunction | Classifier,
    arms: Sequence[str | Shots] = ("zero", "balanced", "fwc"),
    *,
    out: str | Path | None = None,
    settings: Settings | None = None,
    client: Client | None = None,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    cancel_batch: bool = False,
    progress: bool | None = None,
    on_step: Say | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: "Unpack[EvaluateKeywords]",
) -> Result:
    """Ask `model` about test rows of `task`; measure accuracy and parity of each arm.

    `task` is a name, a task file or a `Task`. `model` is a name, a `Model`, a function of the
    messages that returns text, P(yes) or a `Reply` (see `FunctionModel`), or a fitted classifier
    with `predict_proba`, which gets columns of the table in the place of a prompt. `arms` are
    strategy names, files of saved shots (ending in .json) or `Shots`. The run's folder is `out`, by
    default ./runs/<time>-<task>-<model>. If `out` has an interrupted run, that run continues. The
    function also works inside a running event loop; `aevaluate` does not block it.

    `settings` has the options of the experiment, `client` those of the service. An option of either
    may also be passed by name, which overrides `settings` or `client`.

    `data_dir` is the folder of the data. `allow_changed_data` accepts saved shots although the data
    has changed.
    `cancel_batch` stops batches of an interrupted call; by default, the run waits for their
    replies.

    Progress is shown in a notebook and on a terminal; `progress` False hides it. `on_step(text)`
    and `on_progress(progress)` receive it instead. Notices are `RunWarning`s: adapted defaults,
    requests without a reply, replies without an answer.

    Errors: `FwcError` for bad input, before any request; `ProviderError` if the provider rejects
    the run; `InterruptedRunError` on Ctrl-C. The answers before one of the last two are saved, and
    scored in the error's attribute `result`.
    """
    settings, client = split_options(
        evaluate,
        options,
        Settings() if settings is None else settings,
        Client() if client is None else client,
    )
    taken = on_step is not None or on_progress is not None
    display = choose(False if progress is None and taken else progress)
    with display.working("reading the table") as step:
        job = prepare(
            task,
            model,
            arms,
            settings,
            client,
            data_dir,
            allow_changed_data,
            on_step or step,
        )
    for note in job.plan.notes:
        tell(note)
    with display.asking(job.plan.n_calls) as state:
        result = job.run(out, on_progress or state, cancel_batch)
    for note in (*result.missing, *result.remarks):
        tell(note)
    return result


def _in_this_loop(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The function as a coroutine: it runs in a thread, and its coroutines in the caller's loop."""

    async def work(
        context: contextvars.Context, *arguments: P.args, **options: P.kwargs
    ) -> T:
        caller = _Caller(asyncio.get_running_loop())
        context.run(_caller.set, caller)
        call = partial(context.run, partial(function, *arguments, **options))
        working = asyncio.get_running_loop().run_in_executor(None, call)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            caller.cancel()
            with suppress(FwcError):  # the answers so far are saved
                await working
            raise

    @wraps(function)
    def run(*arguments: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        return work(context_of_caller(), *arguments, **options)

    return run


@dataclass
class _Caller:
    """The loop of an `aevaluate`, and what runs in it."""

    loop: asyncio.AbstractEventLoop
    working: "Future[Any] | None" = None
    cancelled: bool = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, called from another thread."""
        working = asyncio.run_coroutine_threadsafe(work, self.loop)
        self.working = working
        if self.cancelled:
            working.cancel()
        try:
            return working.result()
        except CancelledError:
            raise asyncio.CancelledError from None

    def cancel(self) -> None:
        """Cancel what runs, and what will."""
        self.cancelled = True
        if self.working is not None:
            self.working.cancel()


_caller: contextvars.ContextVar[_Caller | None] = contextvars.ContextVar(
    "caller", default=None
)
aevaluate = _in_this_loop(evaluate)
aevaluate.__name__ = aevaluate.__qualname__ = "aevaluate"


def prepare(
    task: "str | Path | Task",
    model: str | Model | Function | BatchFunction | Classifier,
    arms: Sequence[str | Shots],
    settings: Settings,
    client: Client,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    on_step: Say | None = None,
    named: str | None = None,
    no_rows: bool = False,
    fail_if: Sequence[str] = (),
) -> "Job":
    """Plan a run as `evaluate` does; send no request and write no file.

    `named` is the name or file of a task that is passed as a `Task`. `fail_if` are the gates
    (conditions that no arm may meet), by which reports choose the best arm.
    """
    named_chat = isinstance(model, str) and settings.api == "chat"
    without = not (client.logprobs or settings.stated)
    needs_p = named_chat and settings.threshold is not None and without
    if needs_p:
        client = client.updated(logprobs=True)
    table = as_task(task, data_dir)
    answerer = _opened(model, client, settings, table)
    # A model in this process always returns log-probabilities.
    gives = (
        needs_p and answerer.parameters.get("logprobs") and not traits(answerer).local
    )
    if gives:
        tell(
            f"--threshold {settings.threshold} needs P(yes): --logprobs is switched on"
        )
    plan = make_plan(table, arms, settings, allow_changed_data, on_step, None, answerer)
    options_given = {
        "task": task_option(named or task),
        "data_dir": data_dir,
        "allow_changed_data": allow_changed_data,
        "no_rows": no_rows,
        "fail_if": list(fail_if) or None,
        "protected": None
        if table.protected in ((), table.rules.usual)
        else ",".join(table.protected),
    }
    return Job(plan, answerer, client, options_given)


@dataclass(frozen=True)
class Job:
    """A planned run."""

    plan: Plan
    model: Model
    client: Client
    further: Fields = field(
        default_factory=dict
    )  # options that are not in plan and client

    @cached_property
    def price(self) -> Price | None:
        """The model's price; None if unknown."""
        if traits(self.model).local:
            return no_price(self.model.name)
        return price_of(
            self.model.name,
            self.client.prices,
            self.plan.settings.api,
            self.client.params,
        )

    @property
    def why_unpriced(self) -> str:
        """Why `price` is None, and what to do."""
        return why_unpriced(
            self.model.name,
            self.client.prices,
            self.plan.settings.api,
            self.client.params,
        )

    def forecast(self) -> Forecast:
        """Forecast the run's requests, tokens and cost, without sending a request."""
        plan = self.plan
        return forecast(self.model, self.client, plan.calls(), plan.n_calls, self.price)

    def run(
        self,
        out: str | Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        cancel_batch: bool = False,
        on_resume: Callable[[int], None] | None = None,
        elsewhere: float = 0.0,
    ) -> Result:
        """Ask the questions that have no reply in the folder `out`; score all answers.

        The run first waits for batches of an earlier pass, whose replies are paid for. `on_resume`
        gets the number of questions that a continued run has answered before. `elsewhere` is the
        cost of other runs under the same limit, in dollars.
        """
        budget = self.budget(elsewhere)
        folder = RunFolder.for_run(out, self.plan.task.name, self.model.name)
        begun = folder.begun
        if not begun:
            self.preflight()
        folder.create()
        stated = self.plan.settings.stated
        with Journal(folder.path, self.plan.task.spellings, stated) as journal:
            try:
                described = self._description(folder.path)
                if begun:
                    folder.begin(described)
                else:
                    write_examples(folder, self.plan)
                    self.write_options(folder.path, traits(self.model).opened_as)
                write_questions(folder, self.plan)
                folder.begin(described)  # last: a folder with a run.json is complete
            except (
                StorageError
            ) as error:  # before the first request, this is bad input (exit code 2)
                raise FwcError(str(error)) from None
            if begun and on_resume is not None:
                on_resume(min(len(journal), self.plan.n_calls))
            try:
                outcome = self.ask(
                    self.plan, journal, budget, on_progress, cancel_batch
                )
            except (FwcError, KeyboardInterrupt, asyncio.CancelledError) as caught:
                stopped: FwcError = interrupted(folder.path)
                if isinstance(caught, FwcError):
                    stopped = caught
                with suppress(FwcError):  # if the disk is full, the first error says so
                    stopped.result = self._result(folder, journal)  # type: ignore[assignment]
                raise stopped from stopped.__cause__
            return self._result(folder, journal, outcome.stopped)

    def _result(
        self, folder: RunFolder, journal: Journal, stopped: str | None = None
    ) -> Result:
        from fwc_llm.runs.recorded_run import score_run

        results, run = score_run(folder, journal, stopped, self._assisting)
        return Result(folder.path, results, self.plan.task, run)

    @property
    def _assisting(self) -> Task | None:
        """The table that answers are predicted from, with `assist`."""
        return self.plan.task if self.plan.settings.assist else None

    def budget(self, elsewhere: float = 0.0) -> Budget | None:
        """The run's cost limit; None without a limit, or for a model that costs nothing."""
        most = self.client.max_cost
        about = traits(self.model)
        if most is None or about.simulated or about.reference or about.local:
            return None
        if self.price is None:
            raise FwcError(f"--max-cost cannot be kept: {self.why_unpriced}")
        return Budget(self.model, self.price, most, elsewhere=elsewhere)

    def ask(
        self,
        plan: Plan,
        journal: Journal,
        budget: Budget | None,
        on_progress: Callable[[Progress], None] | None,
        cancel_batch: bool,
        watched: Collection[str] | None = None,
    ) -> ExecutionSummary:
        """Send the calls of `plan` that have no reply in the journal; watch all arms, or some."""
        model = self.model
        watch = Watch(model, journal, plan.settings, watched)

        async def work() -> ExecutionSummary:
            if (
                self.client.batch
                or cancel_batch
                or batches_under_way(journal.path.parent)
            ):
                begin = self.client.batch and not cancel_batch
                batches = BatchRun(
                    model, plan.calls, journal, on_progress, budget, begin, cancel_batch
                )
                left = await batches.run()
                if left and begin and not self.client.finish_live:
                    stopped = batches.stopped or self._why_left(left, journal)
                    answered = plan.n_calls - len(left)
                    return ExecutionSummary(0, len(left), answered, stopped)
                if left and begin:
                    tell(
                        f"asked live, because batches left them: {self._price_of(left)}"
                    )
            execution = Execution(
                model,
                plan.calls(),
                journal,
                self.client.concurrency,
                on_progress,
                plan.n_calls,
                budget,
                None if self._on_this_machine else self.price,
                None if self.client.no_watch else watch,
            )
            return await execution.run()

        return run_async(work())

    @property
    def _on_this_machine(self) -> bool:
        about = traits(self.model)
        return about.local or is_local(about.address or self.client.base_url)

    def _price_of(self, calls: Mapping[str, PlannedCall]) -> str:
        live = self.client.updated(batch=False)
        left = calls.values()
        dollars = forecast(self.model, live, left, len(left), self.price).dollars_most
        price = (
            "the price is not known" if dollars is None else f"at most ${dollars:.2f}"
        )
        return f"{len(calls):,} requests, {price}"

    def _why_left(self, left: Mapping[str, PlannedCall], journal: Journal) -> str:
        """Why batches left calls without a reply, and what it costs to ask them live."""
        last = {
            record["request"]: str(record.get("error")) for record in journal.records()
        }
        reasons = Counter(why for request, why in last.items() if request in left)
        listed = "; ".join(
            f"{number:,} of them: {why}" for why, number in reasons.most_common(3)
        )
        remedy = f"--finish-live asks them one by one: {self._price_of(left)}"
        return (
            f"batches left {len(left):,} requests without a reply ({listed}): {remedy}"
        )

    def _description(self, folder: Path) -> Json:
        """The content of run.json for a run in `folder`."""
        task, model, about = self.plan.task, self.model, traits(self.model)
        described = describe_asked(
            self.plan, model.name, model.parameters, about.simulated, about.reference
        )
        further = {
            "local": about.local,
            "task_folder": task.rules.folder and relative(task.rules.folder, folder),
            "no_rows": self.further.get("no_rows"),
            "fail_if": self.further.get("fail_if"),
        }
        return described | {name: value for name, value in further.items() if value}

    def write_options(self, folder: Path, model: str) -> None:
        """Write the experiment file for `model`, and copies of shots files."""
        text = experiment_text(self.plan, self.client, model, folder, **self.further)
        RunFolder(folder).write_text(FILE_NAME, text)
        for source, shots in self.plan.saved.items():
            arm = next(arm for arm in self.plan.arms if arm.source == source)
            save_shots(shots, folder / saved_name(arm), force=True)

    def with_model(self, name: str) -> "Job":
        """A job with the same plan and the model `name`."""
        if name == self.model.name:
            return self
        model = _opened(name, self.client, self.plan.settings, self.plan.task)
        return replace(self, model=model)

    def used(self, folder: Path) -> float:
        """The cost so far of the run in `folder`, in dollars; 0 without a known price."""
        if self.price is None or not RunFolder(folder).begun:
            return 0.0
        with Journal(folder) as journal:
            return journal.cost(self.price)

    def preflight(self) -> None:
        """`FwcError` for a missing key, a cost limit without price, unusable prompts."""
        self.budget()
        about = traits(self.model)
        about.require_key()
        for call in self.plan.first_calls:
            try:
                about.check(call.messages)
            except FwcError as error:
                raise FwcError(f"arm {call.arm!r}, row {call.row}: {error}") from None
        if self.price is not None and self.price.context is not None:
            first = self.plan.first_calls
            # Raises for too long a prompt.
            forecast(self.model, self.client, first, len(first), self.price)


def interrupted(folder: Path) -> InterruptedRunError:
    """The error for an interruption, with the way to continue in `folder`."""
    return InterruptedRunError(
        f"interrupted; the same command with --out {in_shell(folder)} continues"
    )


def _opened(model: Any, client: Client, settings: Settings, task: Task) -> Model:
    """The model for a task; `FwcError` if it lacks the api, answer format or batches wanted."""
    if isinstance(model, str):
        words = tuple(task.rules.words.values())
        model = open_model(
            model,
            client,
            api=settings.api,
            answer_format=settings.answer_format,
            words=words,
        )
    answerer = about(as_model(model, client.deadline), task)
    api = traits(answerer).api
    if settings.api not in {"chat", api}:
        who = "use a model of a service with this protocol (--base-url)"
        raise FwcError(f"{answerer.name} does not support --api {settings.api}: {who}")
    form = settings.answer_format
    gives_p = api != "chat" or isinstance(answerer, FromTable)
    unable = {"json": not asks_json(answerer.parameters), STATED: gives_p}
    if unable.get(form):
        raise FwcError(
            f"{answerer.name} does not support --answer-format {form}: leave it out"
        )
    settings.check_logprobs(client.logprobs)
    if api != "chat" and client.batch:
        raise FwcError(f"--batch does not work with --api {api}: leave out --batch")
    return answerer


def write_examples(folder: RunFolder, plan: Plan) -> None:
    """Write the shots of every arm and repeat, and one full prompt per arm."""
    for repeat in plan.repeats:
        for arm in plan.arms:
            if arm.name in repeat.shots:
                path = (
                    folder.path / "shots" / f"{file_name(arm.name)}-{repeat.index}.json"
                )
                save_shots(repeat.shots[arm.name], path, force=True)
    for call in plan.first_calls:
        folder.write_json(f"prompts/{file_name(call.arm)}.json", list(call.messages))


_BEAT = 0.5  # seconds; on Windows, Ctrl-C does not interrupt a wait without a timeout


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a second thread, or for `aevaluate` in its loop; Ctrl-C cancels it."""
    caller = _caller.get()
    if caller is not None:
        return caller.run(work)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def cancellable() -> T:
        asking = asyncio.create_task(work)
        started.set_result((asyncio.get_running_loop(), asking))
        return await asking

    context = context_of_caller()  # keeps the thread's output in this notebook cell
    with ThreadPoolExecutor(1, "fwc-llm-evaluate") as thread:
        outcome = thread.submit(context.run, asyncio.run, cancellable())
        try:
            while not wait([outcome], _BEAT).done:
                pass
            return outcome.result()
        except KeyboardInterrupt:
            loop, asking = started.result()
            with suppress(RuntimeError):  # the loop may have just ended
                loop.call_soon_threadsafe(asking.cancel)
            raise
