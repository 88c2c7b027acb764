"""Executes a run's calls: a worker pool that sends each unanswered request once."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fwc_llm.errors import FunctionError, FwcError, ProviderError
from fwc_llm.models.base import Attempts, Model, Reply, traits
from fwc_llm.models.functions import EstimatorModel, FunctionModel
from fwc_llm.models.openai.prices import Price
from fwc_llm.notices import LOG
from fwc_llm.progress import Progress
from fwc_llm.runs.budget import Budget
from fwc_llm.runs.journal import Journal, PlannedCall, call_id, parameters_json
from fwc_llm.runs.settings import Settings
from fwc_llm.runs.unread import KEPT_BACK, NO_P, frequent_texts, unread_remedy
from fwc_llm.sanitize import Fields, Json

FIRST = 12  # first replies of an arm, one of which must hold an answer
EARLY = 20  # first replies, about which a line is said if most are alike
_MOST_ALIKE = 19
_MOST_UNREAD = 10
_REPORT_SECONDS = 0.1
_PAUSE_SECONDS = 1.0  # between two reports of a pause
_LATELY = 50  # number of latest replies for the rate, because speed varies over a run
# Wait for requests under way after a fatal error or at the cost limit, because they may be charged
# for.
_GRACE_SECONDS = 5.0
_Raising = FunctionModel | EstimatorModel  # what raised is known


@dataclass(frozen=True)
class ExecutionSummary:
    """Numbers of calls by result; `stopped` is the reason for an early end, or None."""

    done: int  # got a reply
    errors: int  # got none
    skipped: int  # were answered in an earlier pass
    stopped: str | None = None


@dataclass
class Execution:
    """Sends all calls without an answer in the journal, `concurrency` at a time.

    `calls` is consumed lazily. Each reply is written to the
    journal before it counts: after an error or a cancellation (Ctrl-C), the journal has all replies
    that came.
    """

    model: Model
    calls: Iterable[PlannedCall]
    journal: Journal
    concurrency: int = 8
    progress: Callable[[Progress], None] | None = (
        None  # called about ten times per second and at the end
    )
    total: int | None = None
    budget: Budget | None = None
    price: Price | None = None  # for the cost in `progress`
    watch: "Watch | None" = None

    def __post_init__(self) -> None:
        self.parameters, self.about = parameters_json(self.model), traits(self.model)
        self.limit = self.budget or Budget(self.model)
        self.left = iter(self.calls)
        self.done = self.errors = self.skipped = 0
        self.answers = Counter(yes=0, no=0, unread=0)
        self.under_way: set[str] = set()
        self.stopped: str | None = None
        self.closing = False
        self.settled = asyncio.Event()
        self.reported = time.monotonic()
        self.lately = deque([self.reported], _LATELY + 1)  # times of the latest replies

    async def run(self) -> ExecutionSummary:
        """Send the calls; `ProviderError` if the provider rejects the run or `watch` stops it."""
        self.limit.start(self.journal)
        workers = [asyncio.create_task(self.work()) for _ in range(self.concurrency)]
        waiting = asyncio.create_task(self._report_pauses())
        try:
            finished, pending = await asyncio.wait(
                workers, return_when=asyncio.FIRST_EXCEPTION
            )
            failure = next(
                (worker.exception() for worker in finished if worker.exception()), None
            )
            if failure is not None:
                if pending:
                    await asyncio.wait(pending, timeout=_GRACE_SECONDS)
                raise failure
        finally:
            for task in (*workers, waiting):
                task.cancel()
            await asyncio.gather(*workers, waiting, return_exceptions=True)
            await self.model.aclose()
            self.report()
        failed = self.errors and not self.done + self.skipped
        if failed and self.watch is not None and isinstance(self.model, _Raising):
            raise self.watch.failure("any row", self.journal.records())
        return ExecutionSummary(self.done, self.errors, self.skipped, self.stopped)

    async def _report_pauses(self) -> None:
        """While the service makes everybody wait, no reply comes that would be reported."""
        while self.progress is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
            if self.about.pause_left() >= _PAUSE_SECONDS:
                self.report()

    async def work(self) -> None:
        """Process one call after another; after an exception, none begins."""
        try:
            while not self.closing and (call := next(self.left, None)) is not None:
                await self._answer(call)
        except BaseException:
            self.closing = True
            self.settled.set()
            raise

    async def _answer(self, call: PlannedCall) -> None:
        request = call_id(self.parameters, call)
        if self.journal.answered(request) or request in self.under_way:
            self.skipped += 1
            return
        self.under_way.add(request)
        while self.watch is not None and not self.watch.begin(call):
            if not await self.wait():
                return
        attempts = _Attempts(self, call)
        if not await attempts.again():
            return
        try:
            if self.about.ask_row is not None and call.context is not None:
                reply = await self.about.ask_row(call.messages, call.context)
            elif self.about.ask_within is not None:
                reply = await self.about.ask_within(call.messages, attempts)
            else:
                reply = await self.model.ask(call.messages)
        except (asyncio.CancelledError, ProviderError):
            attempts.lost(billed=True)
            if attempts.unknown:  # a continued run counts its possible cost
                with suppress(FwcError):
                    self._keep(
                        request,
                        call,
                        Reply(None, error="stopped before a reply came"),
                        attempts,
                    )
            raise
        attempts.settle(reply)
        record = self._keep(request, call, reply, attempts)  # before it is used
        self.under_way.discard(request)
        self.errors += reply.text is None
        self.done += reply.text is not None
        self.lately.append(time.monotonic())
        if self.watch is not None:
            self.watch.end(call, record)
        self.settled.set()
        if time.monotonic() - self.reported >= _REPORT_SECONDS:
            self.report()
            # Yield to Ctrl-C and other tasks, because a model may never wait. To yield after every
            # reply costs a fifth of the speed: each request then re-checks all idle connections.
            await asyncio.sleep(0)

    def _keep(
        self, request: str, call: PlannedCall, reply: Reply, attempts: "_Attempts"
    ) -> Json:
        unknown = attempts.unknown
        record = self.limit.keep(self.journal, request, call, reply, unknown)
        if reply.text is not None:
            self.answers[record["answer"] or "unread"] += 1
            if self.answers.total() == EARLY and (early := early_words(self.answers)):
                LOG.warning(early)
        return record

    async def wait(self) -> bool:
        """Wait until another call ends; False if no worker may begin another call."""
        if not self.closing:
            self.settled.clear()
            await self.settled.wait()
        return not self.closing

    def stop(self, why: str) -> None:
        """Let no worker begin another call; `why` is the reason."""
        self.stopped, self.closing = why, True
        self.settled.set()

    def report(self) -> None:
        """Call `progress` with the current state."""
        self.reported = time.monotonic()
        if self.progress is None:
            return
        seconds = max(self.reported - self.lately[0], 1e-9)
        rate = (len(self.lately) - 1) / seconds
        if self.price:
            cost = self.journal.cost(self.price)
        else:
            cost = None
        pause = self.about.pause_left()
        numbers = self.done, self.errors, self.skipped, self.total
        with suppress(OSError, ValueError):  # a closed terminal must not end the run
            waiting = len(self.under_way)
            self.progress(Progress(*numbers, rate, cost, pause, self.answers, waiting))


class _Attempts(Attempts):
    """The attempts at one call, within the run's budget."""

    def __init__(self, run: Execution, call: PlannedCall) -> None:
        self._run, self._budget, self._call = run, run.limit, call
        self._open = False  # whether an attempt is under way
        self._reserved = 0.0  # dollars for it
        self.unknown = 0  # attempts that may be charged, but whose usage the service did not report

    async def again(self) -> bool:
        """Reserve an attempt's worst case, perhaps after a wait; False if none is allowed."""
        self._reserved = self._budget.most(self._call.messages)
        while not self._budget.reserve(self._reserved):
            if not self._budget.under_way:
                self._run.stop(self._budget.why)
            if not await self._run.wait():
                return False
        self._open = True
        return True

    def lost(self, billed: bool) -> None:
        """Count the attempt's full reserve if it was `billed`, else release it."""
        self._close(0.0, int(billed))
        self._run.settled.set()

    def settle(self, reply: Reply) -> None:
        """Count the successful attempt, and earlier ones made without permission."""
        unknown = 0 if self._run.about.ask_within is not None else reply.attempts - 1
        if reply.usage is None:
            self._close(0.0, unknown + 1)
        else:
            self._close(self._budget.dollars(reply.usage), unknown)

    def _close(self, dollars: float, unknown: int) -> None:
        if not self._open:
            return
        self._open = False
        self._budget.settle(self._reserved, dollars, unknown)
        may_cost = self._budget.price is not None
        if may_cost or self._run.about.ask_within is not None:  # others ask no service
            self.unknown += unknown


def early_words(answers: Mapping[str, int]) -> str:
    """A sentence on the first replies if most are alike or many unread, else ""."""
    commonest = max(answers, key=answers.__getitem__)
    alike = answers[commonest] >= _MOST_ALIKE
    if not alike and answers["unread"] < _MOST_UNREAD:
        return ""
    counts = ", ".join(f"{number} {name}" for name, number in answers.items() if number)
    remedy = "if these are wrong, stop the run: no reply is lost"
    return f"the first {EARLY} replies: {counts}; {remedy}"


class UnreadError(ProviderError):
    """None of an arm's first 12 replies holds an answer: exit code 3."""


class Watch:
    """Stops a run if none of an arm's first 12 replies holds an answer.

    For a threshold, a reply has to hold P(yes), too.
    """

    def __init__(
        self,
        model: Model,
        journal: Journal,
        settings: Settings,
        arms: Collection[str] | None = None,
    ) -> None:
        self._model = model
        self._arms = arms
        self._needs_p = settings.threshold is not None
        self._stated = settings.stated
        self._read: set[str] = set()
        self._unread: defaultdict[str, list[Fields]] = defaultdict(list)
        self._under_way: Counter[str] = Counter()
        for record in journal.records() if len(journal) else ():
            if record["text"] is not None:
                self._note(record)

    def _watches(self, arm: str) -> bool:
        return arm not in self._read and (self._arms is None or arm in self._arms)

    def begin(self, call: PlannedCall) -> bool:
        """Whether the call may be sent now; else it must wait for other calls of its arm."""
        self._check(call.arm)
        waiting = self._under_way[call.arm] + len(self._unread[call.arm])
        if self._watches(call.arm) and waiting >= FIRST:
            return False
        self._under_way[call.arm] += 1
        return True

    def end(self, call: PlannedCall, record: Fields) -> None:
        """Count a call as ended; `UnreadError` for the twelfth reply without an answer.

        A row without any reply counts if a function was asked, which then is a `FunctionError`.
        """
        self._under_way[call.arm] -= 1
        if record["text"] is not None or isinstance(self._model, _Raising):
            self._note(record)
            self._check(call.arm)

    def _note(self, record: Fields) -> None:
        arm = record.get("arm") or ""
        reason = record.get("reason")
        if record.get("answer") and self._needs_p and record.get("p_yes") is None:
            reason = NO_P
        if not reason:
            self._read.add(arm)
        elif reason not in KEPT_BACK and self._watches(arm):
            self._unread[arm].append({**record, "reason": reason})

    def _check(self, arm: str) -> None:
        unread = self._unread[arm]
        if not self._watches(arm) or len(unread) < FIRST:
            return
        if any(record["text"] is None for record in unread):
            raise self.failure(f"the first {FIRST} rows of {arm}", unread)
        reasons = Counter(record["reason"] for record in unread)
        counted = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common())
        texts = (record["text"] for record in unread)
        examples = "; ".join(frequent_texts(texts)) or "they are empty"
        remedy = unread_remedy(reasons, self._model.parameters, self._stated)
        raise UnreadError(
            f"none of the first {FIRST} replies of {arm} holds an answer ({counted}; {examples}): "
            f"{remedy}, with a new --out folder; the replies are kept, and --set no_watch=true "
            "continues this run"
        )

    def failure(self, rows: str, records: Iterable[Fields]) -> FunctionError:
        """The error of a function that gave no reply to some rows; its cause is the exception."""
        errors = Counter(record["error"] for record in records if record["error"])
        reasons = "; ".join(f"{n} times: {error}" for error, n in errors.items())
        failure = FunctionError(
            f"{self._model.name} gave no reply to {rows} ({reasons})"
        )
        failure.__cause__ = getattr(self._model, "raised", None)
        return failure
