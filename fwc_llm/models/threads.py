"""A thread that calls a user's function, one call after another, and never keeps the process from ending."""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread as PlainThread
from typing import Any


class Thread:
    """One daemon thread, for one call after another: libraries keep pools and connections per thread."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        PlainThread(target=self._work, name=name, daemon=True).start()

    def run(self, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        """A future of the call's value; an exception of the call becomes the future's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(value: Any, error: BaseException | None) -> None:
            if future.done():  # too late, or nobody waits any more
                return
            if error is None:
                future.set_result(value)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                future.set_exception(error)
            else:  # SystemExit and its kind end a process, StopIteration cannot be set: neither is meant here
                future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(call)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the event loop has ended meanwhile
                loop.call_soon_threadsafe(settle, value, error)

        self._calls.put(work)
        return future

    def close(self) -> None:
        """End once the present call has come back."""
        self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
