"""`evaluate`: plan, ask and score a run in one call; `prepare` plans it, `Job` counts, asks and scores it."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from fwc_llm.errors import FwcError, IncompleteRunError, InterruptedRunError, ProviderError, StorageError
from fwc_llm.evaluation.experiment_file import FILE_NAME, experiment_text, relative, saved_name, task_option
from fwc_llm.evaluation.result import Result
from fwc_llm.models import Client, Model, is_local, open_model, traits
from fwc_llm.models.functions import BatchFunction, Function, as_model
from fwc_llm.models.openai.chat import RESPONSE_FORMAT, asks_json, json_answer
from fwc_llm.models.openai.prices import Price, no_price, price_of
from fwc_llm.options import split_options, takes
from fwc_llm.progress import Progress, choose
from fwc_llm.runs.batch import batches_under_way, run_batch
from fwc_llm.runs.budget import Budget, Forecast, forecast
from fwc_llm.runs.execute import KEPT_BACK, ExecutionSummary, Watch, execute
from fwc_llm.runs.folder import RunFolder, file_name
from fwc_llm.runs.journal import Journal, PlannedCall, call_id, parameters_json
from fwc_llm.runs.plan import Plan, describe_asked, make_plan
from fwc_llm.runs.results import write_questions
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.splits import design_of
from fwc_llm.runs.threshold_selection import TRIED, check_probability
from fwc_llm.sanitize import replace_invisible
from fwc_llm.shots import save_shots
from fwc_llm.shots.base import Shots
from fwc_llm.tasks import Task, load_task

_TRIALS = 4


@takes(Settings, Client)
def evaluate(
    task: str | Path | Task,
    model: str | Model | Function | BatchFunction,
    arms: Sequence[str | Shots] = ("zero", "balanced", "fwc"),
    *,
    out: str | Path | None = None,
    settings: Settings | None = None,
    client: Client | None = None,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    max_prompt_tokens: int | None = None,
    cancel_batch: bool = False,
    reference: bool = False,
    progress: bool | None = None,
    on_step: Callable[[str], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """Ask `model` about test rows of `task`, once per arm, and measure accuracy and demographic parity.

    `task` is a name, a task file or a `Task`; `model` a name, a `Model`, or a function of the messages that
    returns text, P(yes) or a `Reply` (see `FunctionModel`). `arms` are strategy names, files
    of saved shots (ending in .json) or `Shots`. The run's folder is `out`, by default
    ./runs/<time>-<task>-<model>; an interrupted run continues in its own. Works inside a running event loop.

    `settings` has the experiment's options, `client` the service's. Every option of both may also be given by
    name, and then overrides theirs.

    `data_dir` is the folder of the data, `allow_changed_data` accepts saved shots although the data has
    changed. `max_prompt_tokens` lowers m to the largest whose prompts fit. `cancel_batch` ends batches that
    an earlier pass sent; by default their replies are collected first. `reference` adds answers of plain
    models to the same rows, to report and statistics.

    Progress is shown in a notebook and on a terminal; `progress` False hides it. `on_step(text)` and
    `on_progress(progress)` receive it instead.

    Errors: `FwcError` for bad input, before any request; `ProviderError` when the provider rejects the run
    and `InterruptedRunError` on Ctrl-C. Both keep the answers so far and score them (attribute `result`).
    """
    settings, client = split_options(options, settings or Settings(), client or Client())
    taken = on_step is not None or on_progress is not None
    shown = choose(False if progress is None and taken else progress)
    with shown.working("reading the table") as step:
        job = prepare(
            task, model, arms, settings, client, data_dir, allow_changed_data, on_step or step, shown.say,
            reference, max_prompt_tokens=max_prompt_tokens,
        )  # fmt: skip
    for note in job.plan.notes:
        shown.say(note)
    with shown.asking(job.plan.n_calls) as state:
        return job.run(out, on_progress or state, cancel_batch)


def prepare(
    task: "str | Path | Task",
    model: str | Model | Function | BatchFunction,
    arms: Sequence[str | Shots],
    settings: Settings,
    client: Client,
    data_dir: str | Path | None = None,
    allow_changed_data: bool = False,
    on_step: Callable[[str], None] | None = None,
    notice: Callable[[str], None] | None = None,
    reference: bool = False,
    named: str | None = None,
    no_rows: bool = False,
    fail_if: Sequence[str] = (),
    max_prompt_tokens: int | None = None,
) -> "Job":
    """Plan a run: open the model, read the table, draw rows, choose examples. Nothing is asked or written.

    See `evaluate` for the arguments. `notice` receives the notes of the model's client. `named` is the name
    or the file that the task was read from, where it is a value; `no_rows` leaves rows out of reports;
    `fail_if` are the conditions that no arm may meet, by which reports name the best one.
    """
    if client.max_cost is not None and not settings.model_fields_set & {"n_test", "stopping"}:
        settings = settings.updated(stopping="confidence-sequence") if settings.until_decided else settings
    named_chat = isinstance(model, str) and settings.api == "chat"
    needs_p = named_chat and settings.threshold is not None and not client.logprobs
    client = client.updated(logprobs=True) if needs_p else client
    if isinstance(model, str):
        answerer = open_model(model, client, api=settings.api, notice=notice)
    else:
        answerer = as_model(model, client.deadline)
    # A model in this process gives log-probabilities in any case.
    gives = needs_p and answerer.parameters.get("logprobs") and not traits(answerer).local
    if notice is not None and gives:
        notice(f"--threshold {settings.threshold} needs P(yes): --logprobs is switched on")
    check_api(answerer, settings, client)
    table = task if isinstance(task, Task) else load_task(task, data_dir)
    plan = make_plan(table, arms, settings, allow_changed_data, on_step, None, answerer, max_prompt_tokens)
    asked = {
        "task": task_option(named or task), "data_dir": data_dir, "allow_changed_data": allow_changed_data,
        "no_rows": no_rows, "fail_if": list(fail_if) or None,
        "reference": reference, "data": table.data or None,
        "protected": None if table.protected in ((), table.usual) else ",".join(table.protected),
    }  # fmt: skip
    return Job(plan, answerer, client, asked, reference)


@dataclass(frozen=True)
class Job:
    """A planned run: its questions, its model and its client; `reference` adds reference lines to it."""

    plan: Plan
    model: Model
    client: Client
    asked: Mapping[str, Any] = field(default_factory=dict)  # options besides those of plan and client
    reference: bool = False

    @cached_property
    def price(self) -> Price | None:
        """The model's price, or None if it is not known."""
        if traits(self.model).local:
            return no_price(self.model.name)
        return price_of(self.model.name, self.client.prices, self.plan.settings.api)

    @cached_property
    def expected_questions(self) -> dict[str, Any] | None:
        """What a run that asks until it is decided is expected to ask; see `questions_until_decided`."""
        from fwc_llm.runs.sample_sizes import questions_until_decided

        settings, arms = self.plan.settings, [arm.name for arm in self.plan.arms]
        drawn = settings.n_test, settings.base_parity, settings.repeats, settings.min_group
        return questions_until_decided(design_of(self.plan.task, *drawn), settings, arms)

    def forecast(self) -> Forecast:
        """Count what the run would use; nothing is asked."""
        return forecast(self.model, self.plan.calls(), self.price, self.client.batch)

    def run(
        self,
        out: str | Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        cancel_batch: bool = False,
        on_resume: Callable[[int], None] | None = None,
        elsewhere: float = 0.0,
    ) -> Result:
        """Ask all questions of the plan that have no reply in the folder `out`, then score. See `evaluate`.

        Also without `batch`, it first waits for batches that an earlier pass sent: their replies are paid
        for. `cancel_batch` asks the service to stop them. `on_resume` receives how many questions of a run
        that continues are answered. `elsewhere` is what other runs under the same limit have cost.
        """
        budget = self.budget(elsewhere)
        folder = RunFolder(Path(out)) if out else RunFolder.default(self.plan.task.name, self.model.name)
        begun = folder.begun
        if not begun:
            self.preflight()
        folder.create()
        until = self.plan.settings.until_decided
        part = self.plan.part(self.plan.looks[0]) if until else self.plan
        with Journal(folder.path, self.plan.task.spellings) as journal:
            before = folder.describe() if begun else {}
            self.settle_format(self.plan.first_calls, journal, before.get("parameters"), budget)
            try:
                described = self._description(folder.path)
                if begun:
                    folder.begin(described)
                else:
                    _write_examples(folder, self.plan)
                    self.write_options(folder.path, traits(self.model).opened_as)
                write_questions(folder, part)
                folder.begin(described)  # last: a folder with a run.json is complete
                if until:
                    folder.change(calls=part.n_questions, ended="", expected=self.expected_questions)
            except StorageError as error:  # before the first request it counts as bad input (exit code 2)
                raise FwcError(str(error)) from None
            if begun and on_resume is not None:
                on_resume(min(len(journal), self.plan.n_calls))
            watch = None if self.client.no_watch else Watch(self.model, journal)
            ask = partial(self.ask, journal=journal, budget=budget, watch=watch)
            try:
                live = traits(self.model).api == "chat" and not self.client.batch  # batches take hours
                if live and self.plan.settings.threshold is not None:
                    calls = list(islice(self.plan.calls(), TRIED))
                    ask(lambda: iter(calls), len(calls))
                    check_probability(self.model, calls, journal)
                ask = partial(ask, on_progress=on_progress, cancel_batch=cancel_batch)
                if until:
                    outcome = self._until_decided(folder, journal, ask, on_progress)
                else:
                    outcome = ask(self.plan.calls, self.plan.n_calls)
            except (FwcError, KeyboardInterrupt, asyncio.CancelledError) as caught:
                stopped = caught if isinstance(caught, FwcError) else interrupted(folder.path)
                with suppress(FwcError):  # if the disk is full, the first error says so
                    stopped.result = self._result(folder, journal)  # type: ignore[assignment]
                raise stopped from None
            result = self._result(folder, journal, outcome.stopped)
        if self.reference and result.unanswered < result.data["requests"]:
            from fwc_llm.report.reference_models import add_references

            add_references([folder.path], self.plan.task)
        return result

    def _until_decided(
        self,
        folder: RunFolder,
        journal: Journal,
        ask: Callable[..., ExecutionSummary],
        on_progress: Callable[[Progress], None] | None,
    ) -> ExecutionSummary:
        """Ask about more and more rows, in their order, until all conditions are decided at a look. A part is
        answered as a whole before the next is asked, so that no answer's speed matters.
        """
        from fwc_llm.gates.decide import all_decided
        from fwc_llm.runs.recorded_run import read_run, score_run

        asked, arms = 0, len(self.plan.arms)
        for rows in self.plan.looks:
            if self.client.batch and asked and rows < min(2 * asked, self.plan.looks[-1]):
                continue  # a batch may take hours: few looks
            part, before = self.plan.part(rows), arms * asked

            def tell(news: Progress, before: int = before) -> None:
                if on_progress is not None:
                    on_progress(replace(news, skipped=news.skipped + before))

            outcome = ask(partial(part.calls, asked), self.plan.n_calls, on_progress=tell)
            if outcome.stopped and asked:
                folder.change(ended=outcome.stopped)
                return replace(outcome, stopped=None)
            if outcome.stopped or (outcome.errors and not outcome.done + outcome.skipped):
                return outcome
            write_questions(folder, part)
            folder.change(calls=part.n_questions)
            asked = rows
            score_run(folder, journal, None, self.plan.task if self.plan.settings.assist else None)
            if all_decided(self.plan.settings.until_decided, read_run(folder.path).answered):
                break
        return outcome

    def _result(self, folder: RunFolder, journal: Journal, stopped: str | None = None) -> Result:
        from fwc_llm.runs.recorded_run import score_run

        table = self.plan.task if self.plan.settings.assist else None
        return Result(folder.path, score_run(folder, journal, stopped, table), self.plan.task)

    def budget(self, elsewhere: float = 0.0) -> Budget | None:
        """The limit in dollars, for a client with one and a model that costs; `FwcError` without a price."""
        most, about = self.client.max_cost, traits(self.model)
        if most is None or about.simulated or about.reference or about.local:
            return None
        return Budget(self.model, self.price, most, elsewhere=elsewhere)

    def ask(
        self,
        calls: Callable[[], Iterator[PlannedCall]],
        total: int,
        journal: Journal,
        budget: Budget | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        cancel_batch: bool = False,
        watch: Watch | None = None,
    ) -> ExecutionSummary:
        """Ask the `total` calls that `calls()` yields and the journal does not answer; `watch` looks on."""
        model, batch, folder = self.model, self.client.batch, journal.path.parent
        here = traits(model).local or is_local(traits(model).address or self.client.base_url)

        async def work() -> ExecutionSummary:
            if batch or cancel_batch or batches_under_way(folder):  # the rest is asked live
                await run_batch(
                    model, calls(), journal, folder, progress=on_progress, budget=budget,
                    begin=batch and not cancel_batch, cancel=cancel_batch,
                )  # fmt: skip
            asked = self.client.concurrency, on_progress, total, budget, None if here else self.price
            return await execute(model, calls(), journal, *asked, watch)

        return run_async(work())

    def settle_format(
        self,
        calls: Iterable[PlannedCall],
        journal: Journal,
        recorded: Mapping[str, Any] | None,
        budget: Budget | None = None,
    ) -> None:
        """Settle on one form of the answers for the whole run, as the client's `answer_format` says.

        At most four of the `calls` are asked for JSON, live; their replies are those of the run. With "auto"
        all are asked for words unless each comes as JSON. A run that continues keeps to its `recorded`
        parameters.

        Errors: `ProviderError` where the format is "json" and the service does not give it,
        `IncompleteRunError` at the limit of cost.
        """
        wanted, answer_in = self.client.answer_format, traits(self.model).answer_in
        if wanted == "word" or answer_in is None:
            return
        words = tuple(self.plan.task.words.values())
        answer_in("word" if recorded is not None and not asks_json(recorded) else "json", words, "")
        if recorded is not None or (wanted == "json" and self.client.batch):
            return
        asked = list(islice(calls, _TRIALS))
        problem = self._tried(asked, journal, budget)
        if not problem:
            answer_in("json", words, f"in a trial it answered {len(asked)} questions of the run in JSON")
        elif wanted == "auto":
            journal.set_aside()
            answer_in("word", words, f"it gives no answer in JSON ({problem})")
        else:
            remedy = "use --answer-format word, or auto"
            raise ProviderError(f"{self.model.name} gives no answer in JSON ({problem}): {remedy}")

    def _tried(self, calls: Sequence[PlannedCall], journal: Journal, budget: Budget | None) -> str:
        """Ask the calls one after the other; return why one has no answer in JSON, or ""."""
        live = replace(self, client=self.client.updated(batch=False))
        parameters = parameters_json(self.model)
        for call in calls:
            try:
                outcome = live.ask(partial(iter, [call]), 1, journal, budget)
            except ProviderError as error:
                if RESPONSE_FORMAT in str(error):
                    return str(error)
                raise
            if outcome.stopped:
                raise IncompleteRunError(outcome.stopped)
            request = call_id(parameters, call)
            reply = next(each for each in reversed([*journal.records()]) if each["request"] == request)
            if reply["reason"] in KEPT_BACK:
                continue
            if reply["text"] is None or json_answer(reply["text"]) not in self.plan.task.words.values():
                text = replace_invisible(" ".join((reply["text"] or "").split()))
                return str(reply["error"] or f"it replied “{text[:80]}”")
        return ""

    def _description(self, folder: Path) -> dict[str, Any]:
        """The content of run.json in `folder`: everything that determines the run, and the versions used."""
        task, model, about = self.plan.task, self.model, traits(self.model)
        described = describe_asked(self.plan, model.name, model.parameters, about.simulated, about.reference)
        told = {
            "local": about.local,
            "task_folder": task.folder and relative(task.folder, folder),
            "data": task.data and relative(task.data, folder),
            "no_rows": self.asked.get("no_rows"),
            "fail_if": self.asked.get("fail_if"),
        }
        return described | {name: value for name, value in told.items() if value}

    def write_options(self, folder: Path, model: str) -> None:
        """Write the experiment file, for this model or several, and the examples that were given."""
        text = experiment_text(self.plan, self.client, model, folder, **self.asked)
        RunFolder(folder).write_text(FILE_NAME, text)
        for source, shots in self.plan.saved.items():
            arm = next(arm for arm in self.plan.arms if arm.source == source)
            save_shots(shots, folder / saved_name(arm))

    def with_model(self, name: str, notice: Callable[[str], None] | None = None) -> "Job":
        """The same questions to another model."""
        if name == self.model.name:
            return self
        model = open_model(name, self.client, api=self.plan.settings.api, notice=notice)
        check_api(model, self.plan.settings, self.client)
        return replace(self, model=model)

    def used(self, folder: Path) -> float:
        """The cost of the run in a folder so far, in dollars; 0 where no price is known."""
        if self.price is None or not RunFolder(folder).begun:
            return 0.0
        with Journal(folder) as journal:
            return journal.cost(self.price)

    def preflight(self) -> None:
        """Before anything is written, refuse what the model would refuse: a missing key, a limit of cost
        without a price, unusable prompts.
        """
        self.budget()
        about = traits(self.model)
        about.require_key()
        for call in self.plan.first_calls:
            try:
                about.check(call.messages)
            except FwcError as error:
                raise FwcError(f"arm {call.arm!r}, row {call.row}: {error}") from None
        if self.price is not None and self.price.context is not None:
            forecast(self.model, self.plan.first_calls, self.price)  # does a prompt exceed the window?


def interrupted(folder: Path) -> InterruptedRunError:
    """Return the error that says how to continue what was interrupted in `folder`."""
    return InterruptedRunError(f"interrupted; the same command with --out {quote(str(folder))} continues")


def check_api(model: Model, settings: Settings, client: Client) -> None:
    """Refuse a model that does not take its question by the settings' api, or not in batches."""
    api = traits(model).api
    if settings.api not in {"chat", api}:
        who = "use a model of a service with this protocol (--base-url; `fwc-llm serve-surrogate`)"
        raise FwcError(f"{model.name} does not support --api {settings.api}: {who}")
    if client.answer_format == "json" and traits(model).answer_in is None:
        raise FwcError(f"{model.name} does not support --answer-format json: leave it out")
    if api != "chat" and client.batch:
        raise FwcError(f"--batch does not work with --api {api}: leave out --batch")


def _write_examples(folder: RunFolder, plan: Plan) -> None:
    """Write the shots of every arm and repeat, and one full prompt per arm."""
    for repeat in plan.repeats:
        for arm in plan.arms:
            if arm.name in repeat.shots:
                path = folder.path / "shots" / f"{file_name(arm.name)}-{repeat.index}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                save_shots(repeat.shots[arm.name], path)
    for call in plan.first_calls:
        folder.write_json(f"prompts/{file_name(call.arm)}.json", list(call.messages))


T = TypeVar("T")
_BEAT = 0.5  # seconds; on Windows a wait without end does not notice Ctrl-C


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a second thread, since this one may run a loop; an interruption here cancels it."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def cancellable() -> T:
        asking = asyncio.create_task(work)
        started.set_result((asyncio.get_running_loop(), asking))
        return await asking

    context = contextvars.copy_context()  # output of the other thread belongs to this notebook cell
    with ThreadPoolExecutor(1, "fwc-llm-evaluate") as thread:
        outcome = thread.submit(context.run, asyncio.run, cancellable())
        try:
            while not wait([outcome], _BEAT).done:
                pass
            return outcome.result()
        except KeyboardInterrupt:
            loop, asking = started.result()
            with suppress(RuntimeError):  # it has just ended by itself
                loop.call_soon_threadsafe(asking.cancel)
            raise
