"""From calls to journal: a pool of workers that asks what is not answered yet, and nothing twice."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from fwc_llm.models.base import Model, traits
from fwc_llm.models.openai.prices import Price
from fwc_llm.progress import Progress
from fwc_llm.runs.budget import Budget
from fwc_llm.runs.journal import Call, Journal, call_id, make_record, parameters_json

_REPORT_SECONDS = 0.1
# After a fatal error or at the cost limit, what is already under way may still come in (it may be paid for).
_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    `done` calls got a reply, `errors` did not, `skipped` had been answered before. `stopped` says why the
    run ended before its last call (the cost limit), or is None.
    """

    done: int
    errors: int
    skipped: int
    stopped: str | None = None


async def execute(
    model: Model,
    calls: Iterable[Call],
    journal: Journal,
    concurrency: int = 8,
    progress: Callable[[Progress], None] | None = None,
    total: int | None = None,
    budget: Budget | None = None,
    price: Price | None = None,
) -> Outcome:
    """Ask every call that the journal does not answer, at most `concurrency` at once.

    `calls` is consumed lazily: memory does not grow with its length. Each reply is journaled before it
    counts. `progress` is called about ten times a second and at the end; `price` gives its cost. The model's
    connections are closed at the end; it opens new ones when it is asked again.

    Errors: `ProviderError` when the provider rejects the run, `StorageError` when the journal cannot be
    written, `FwcError` when a key is missing; on these and on cancellation (Ctrl-C) the journal keeps all
    that was answered.
    """
    run = _Run(model, iter(calls), journal, progress, total, budget, price)
    if budget is not None:
        budget.start(journal)
    workers = [asyncio.create_task(run.work()) for _ in range(concurrency)]
    try:
        finished, pending = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        failure = next((worker.exception() for worker in finished if worker.exception()), None)
        if failure is not None:
            if pending:
                await asyncio.wait(pending, timeout=_GRACE_SECONDS)
            raise failure
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await model.aclose()
        run.report()
    return Outcome(run.done, run.errors, run.skipped, run.stopped)


@dataclass
class _Run:
    """The state that the workers of one `execute` share."""

    model: Model
    calls: Iterator[Call]
    journal: Journal
    progress: Callable[[Progress], None] | None
    total: int | None
    budget: Budget | None
    price: Price | None

    def __post_init__(self) -> None:
        self.parameters, self.ask_row = parameters_json(self.model), traits(self.model).ask_row
        self.done = self.errors = self.skipped = 0
        self.under_way: set[str] = set()
        self.stopped: str | None = None
        self.closing = False
        self.settled = asyncio.Event()
        self.began = self.reported = time.monotonic()

    async def work(self) -> None:
        """Answer one call after another; where that fails, nobody begins another."""
        try:
            while not self.closing and (call := next(self.calls, None)) is not None:
                await self._answer(call)
        except BaseException:
            self.closing = True
            self.settled.set()
            raise

    async def _answer(self, call: Call) -> None:
        request = call_id(self.parameters, call)
        if self.journal.answered(request) or request in self.under_way:
            self.skipped += 1
            return
        self.under_way.add(request)
        reserved = await self._reserve(call)
        if reserved is None:
            return
        if self.ask_row is None or call.asked is None:
            reply = await self.model.ask(call.messages)
        else:
            reply = await self.ask_row(call.messages, call.asked)
        self.journal.append(
            make_record(request, call, reply, self.journal.words)
        )  # before anything else looks at it
        if self.budget is not None:
            self.budget.settle(reserved, reply.usage, answered=reply.text is not None)
            self.settled.set()
        self.under_way.discard(request)
        self.errors += reply.text is None
        self.done += reply.text is not None
        if time.monotonic() - self.reported >= _REPORT_SECONDS:
            self.report()
            # Lets Ctrl-C and others in, which a model that never waits would keep out. Yielding after every
            # reply makes each request re-check all idle connections: a fifth of the speed.
            await asyncio.sleep(0)

    async def _reserve(self, call: Call) -> float | None:
        """Set the worst case of a call aside, waiting for others to come back; None when there is no room."""
        if self.budget is None:
            return 0.0
        dollars = self.budget.worst_case(call.messages)
        while not self.budget.reserve(dollars):
            if not self.budget.under_way:
                self.stopped, self.closing = self.budget.why, True
            if self.closing:
                return None
            self.settled.clear()
            await self.settled.wait()
        return dollars

    def report(self) -> None:
        """Tell the progress."""
        self.reported = time.monotonic()
        if self.progress is None:
            return
        rate = (self.done + self.errors) / max(self.reported - self.began, 1e-9)
        cost = self.journal.cost(self.price) if self.price else None
        with suppress(OSError, ValueError):  # a closed terminal must not end the run
            self.progress(Progress(self.done, self.errors, self.skipped, self.total, rate, cost))
