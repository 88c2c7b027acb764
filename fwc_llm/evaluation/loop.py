"""Run the asking to its end in an event loop that does not sleep through Ctrl-C."""

import asyncio
import contextvars
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
# Python handles a signal once the main thread wakes. One that arrives just before it goes to sleep, or in
# another thread, does not wake it: without a beat, a run whose model hangs would not notice Ctrl-C.
_BEAT = 0.5


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine, run in a second thread if this one already runs an event loop.

    An interruption of this thread cancels the work, also in the second one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awake(work))
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


async def _awake(work: Coroutine[Any, Any, T]) -> T:
    beating = asyncio.create_task(_beat())
    try:
        return await work
    finally:
        beating.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(_BEAT)
