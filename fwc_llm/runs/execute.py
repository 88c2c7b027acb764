"""Executes a run's calls: a worker pool that sends each unanswered request once."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fwc_llm.errors import FunctionError, FwcError, ProviderError
from fwc_llm.models.base import Attempts, Model, Reply, Usage, traits
from fwc_llm.models.estimators import EstimatorModel
from fwc_llm.models.functions import FunctionModel
from fwc_llm.models.openai.prices import Price
from fwc_llm.notices import LOG
from fwc_llm.progress import Progress
from fwc_llm.runs.budget import Budget, WorstCase
from fwc_llm.runs.journal import (
    Journal,
    PlannedCall,
    call_id,
    make_record,
    parameters_json,
)
from fwc_llm.runs.unread import KEPT_BACK, frequent_texts, unread_remedy

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
        self.worst_case = (
            self.budget.worst_case if self.budget is not None else WorstCase(self.model)
        )
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
        if self.budget is not None:
            self.budget.start(self.journal)
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
        ours = isinstance(self.model, FunctionModel | EstimatorModel)
        if failed and ours and self.watch is not None:
            raise self.watch.failure("any row", self.model)
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
            if self.watch is not None and request not in self.under_way:
                self.watch.take(call, request)
            return
        self.under_way.add(request)
        while self.watch is not None and not self.watch.begin(call):
            if not await self.wait():
                return
        attempts = _Attempts(self, call)
        if not await attempts.again():
            return
        try:
            if self.about.ask_row is not None and call.asked is not None:
                reply = await self.about.ask_row(call.messages, call.asked)
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
        self._keep(request, call, reply, attempts)  # write the reply before using it
        self.under_way.discard(request)
        self.errors += reply.text is None
        self.done += reply.text is not None
        self.lately.append(time.monotonic())
        if self.watch is not None:
            self.watch.end(call)
            if reply.text is not None:
                self.watch.take(call, request)
            elif isinstance(self.model, FunctionModel | EstimatorModel):
                self.watch.fail(call, request, self.model)
        self.settled.set()
        if time.monotonic() - self.reported >= _REPORT_SECONDS:
            self.report()
            # Yield to Ctrl-C and other tasks, because a model may never wait. To yield after every
            # reply costs a fifth of the speed: each request then re-checks all idle connections.
            await asyncio.sleep(0)

    def _keep(
        self, request: str, call: PlannedCall, reply: Reply, attempts: "_Attempts"
    ) -> None:
        record = make_record(request, call, reply, self.journal.words)
        if attempts.unknown:
            record |= {
                "unknown_attempts": attempts.unknown,
                "most_usage": dict(vars(attempts.most())),
            }
        self.journal.append(record)
        if reply.text is None:
            return
        self.answers[record["answer"] or "unread"] += 1
        if self.answers.total() == EARLY and (early := early_words(self.answers)):
            LOG.warning(early)

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
    """The attempts at one call, within the run's budget, if any."""

    def __init__(self, run: Execution, call: PlannedCall) -> None:
        self._run, self._budget, self._call = run, run.budget, call
        self._open = False  # whether an attempt is under way
        self._reserved = 0.0  # dollars for it
        self.unknown = 0  # attempts that may be charged, but whose usage the service did not report

    async def again(self) -> bool:
        """Reserve an attempt's worst case, perhaps after a wait; False if none is allowed."""
        if self._budget is not None:
            self._reserved = self._budget.dollars(
                self._run.worst_case(self._call.messages)
            )
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
        if self._run.about.ask_within is not None:
            unknown = 0
        else:
            unknown = reply.attempts - 1
        if reply.usage is None:
            self._close(0.0, unknown + 1)
        else:
            if self._budget is None:
                dollars = 0.0
            else:
                dollars = self._budget.dollars(reply.usage)
            self._close(dollars, unknown)

    def most(self) -> Usage:
        """The largest usage of one attempt, by what is known now."""
        return self._run.worst_case(self._call.messages)

    def _close(self, dollars: float, unknown: int) -> None:
        if not self._open:
            return
        self._open = False
        if self._budget is not None:
            self._budget.settle(self._reserved, dollars, unknown)
        if (
            self._budget is not None or self._run.about.ask_within is not None
        ):  # others ask no service
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
    """Stops a run if none of an arm's first 12 replies holds an answer."""

    def __init__(
        self, model: Model, journal: Journal, arms: Collection[str] | None = None
    ) -> None:
        self._model, self._journal, self._arms = model, journal, arms
        self._read: set[str] = set()
        self._unread: defaultdict[str, list[str]] = defaultdict(list)
        self._under_way: Counter[str] = Counter()

    def _watches(self, call: PlannedCall) -> bool:
        chosen = self._arms is None or call.arm in self._arms
        return chosen and call.arm not in self._read

    def begin(self, call: PlannedCall) -> bool:
        """Whether the call may be sent now; else it must wait for other calls of its arm."""
        if (
            self._watches(call)
            and self._under_way[call.arm] + len(self._unread[call.arm]) >= FIRST
        ):
            return False
        self._under_way[call.arm] += 1
        return True

    def end(self, call: PlannedCall) -> None:
        """Count a call as ended."""
        self._under_way[call.arm] -= 1

    def take(self, call: PlannedCall, request: str) -> None:
        """Check a call's reply; `UnreadError` for the twelfth without an answer."""
        if not self._watches(call):
            return
        reason = self._journal.answerless.get(bytes.fromhex(request))
        if reason is None:
            self._read.add(call.arm)
        if reason is None or reason in KEPT_BACK:
            return
        self._unread[call.arm].append(request)
        if len(unread := self._unread[call.arm]) != FIRST:
            return
        texts = (
            record["text"]
            for record in self._journal.records()
            if record["request"] in unread
        )
        reasons = Counter(
            self._journal.answerless[bytes.fromhex(record)] for record in unread
        )
        counted = ", ".join(
            f"{number} {reason}" for reason, number in reasons.most_common()
        )
        examples = "; ".join(frequent_texts(texts)) or "they are empty"
        remedy = unread_remedy(reasons, self._model.parameters)
        raise UnreadError(
            f"none of the first {FIRST} replies of {call.arm} holds an answer ({counted}; "
            f"{examples}): "
            f"{remedy}, with a new --out folder; the replies are kept, and "
            f"--set no_watch=true "
            "continues this run"
        )

    def fail(
        self, call: PlannedCall, request: str, model: FunctionModel | EstimatorModel
    ) -> None:
        """Note that a function gave no reply; `FunctionError` after the twelfth of an arm."""
        if not self._watches(call):
            return
        self._unread[call.arm].append(request)
        if len(self._unread[call.arm]) == FIRST:
            raise self.failure(f"the first {FIRST} rows of {call.arm}", model)

    def failure(self, rows: str, model: Any) -> FunctionError:
        """The error of a function that gave no reply to some rows; its cause is the exception."""
        errors = Counter(
            record["error"] for record in self._journal.records() if record["error"]
        )
        reasons = "; ".join(
            f"{number} times: {error}" for error, number in errors.items()
        )
        failure = FunctionError(f"{model.name} gave no reply to {rows} ({reasons})")
        failure.__cause__ = model.raised
        return failure
