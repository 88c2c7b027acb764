"""Any function as a model: it takes the messages and gives text, P(yes) or a `Reply` (docs/providers.md).

A sync function is called in a daemon thread, one row after another: it may hang without keeping the process
from ending, and libraries keep their connections per thread.
"""

import asyncio
import contextvars
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from numbers import Real
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply
from fwc_llm.untrusted import finite, one_line, shortened, storable, visible

PREFIX = "python:"
TIMEOUT = 300.0
LARGEST_BATCH = 64
_MOST_HUNG = 10  # calls that never came back; their threads cannot be ended
_TURNS = 5  # of the event loop, in which those who were just answered ask again

Answer: TypeAlias = str | float | Reply
Function: TypeAlias = Callable[[Messages], Answer | Awaitable[Answer]]


@runtime_checkable
class BatchFunction(Protocol):
    """Answers many conversations at once: one answer for each, in their order; sync or async.

    An answer is what a function may return. An exception in the place of an answer is that row's error.
    """

    def ask_many(self, conversations: Sequence[Messages]) -> Any:
        """Return as many answers as there are conversations: at most 64."""


class FunctionModel:
    """A function, or an object with `ask_many`, behind the interface of a model.

    function    takes the messages and returns text, P(yes) from 0 to 1, or a `Reply`; sync or async
    name        what the run calls it; by default "python:" with the function's module and qualified name
    parameters  what else can change an answer (a version, a temperature): part of a request's identity
    timeout     seconds for one call of the function, or of `ask_many`
    threads     how many threads call a sync function at once. One calls it by default, one row after
                another, since many models must not be called by two; an async one is called as often at
                once as the run's `concurrency` says
    simulated   true when the answers are a simulation; every output then says so

    What the function returns but should not, what it raises, and no answer in time become the row's error,
    which names what happened. Only `ProviderError` stops the run, and 10 calls that never came back.

    Errors: `FwcError` for what is no function of the messages, and for options that make no sense.
    """

    def __init__(
        self,
        function: Function | BatchFunction,
        name: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
        threads: int = 1,
        simulated: bool = False,
    ) -> None:
        _check_function(function)
        if not finite(timeout) or timeout <= 0:
            raise FwcError(f"timeout is {timeout!r}: give seconds above 0")
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise FwcError(f"threads is {threads!r}: give a whole number from 1 up")
        if name is not None and (not isinstance(name, str) or not name.strip() or not name.isprintable()):
            raise FwcError(f"name is {name!r}: give the function a name in words")
        try:
            json.dumps(dict(parameters or {}), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise FwcError(f"parameters cannot be written as JSON ({one_line(str(error))})") from None
        self.simulated = simulated
        self._in_batches = isinstance(function, BatchFunction)
        self._function: Any = function.ask_many if isinstance(function, BatchFunction) else function
        self._qualified = qualified_name(function)
        self.name = name or PREFIX + self._qualified
        self.parameters: Mapping[str, Any] = {
            "function": self._qualified,
            **_bound(function),
            **(parameters or {}),
        }
        self._timeout, self._threads = float(timeout), threads
        self._idle: list[_Worker] = []
        self._hung = 0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._waiting: list[tuple[Messages, asyncio.Future[Any]]] = []
        self._asking: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"FunctionModel({self.name!r})"

    async def ask(self, messages: Messages) -> Reply:
        """Call the function; whatever it does is at most this row's error."""
        began = asyncio.get_running_loop().time()
        copies: Messages = [{**message} for message in messages]  # the function may change them
        try:
            answer = await (self._in_a_batch(copies) if self._in_batches else self._call(copies))
            reply = read_answer(answer)
        except ProviderError:
            raise
        except Exception as error:
            reply = Reply(text=None, error=_words(error))
        return replace(reply, latency=reply.latency or asyncio.get_running_loop().time() - began)

    async def aclose(self) -> None:
        """Let the threads that wait for work end; one inside the function cannot be stopped."""
        for worker in self._idle:
            worker.close()
        self._idle.clear()
        if self._asking is not None:
            self._asking.cancel()
        self._asking, self._waiting = None, []

    async def _call(self, argument: Any) -> Any:
        """The function's value, awaited if need be, within `timeout`."""
        if _is_async(self._function):
            return await self._within(self._function(argument))
        async with self._semaphore():
            value = await self._in_a_thread(partial(self._function, argument))
        return await self._within(value) if inspect.isawaitable(value) else value

    async def _in_a_thread(self, call: Callable[[], Any]) -> Any:
        worker = self._idle.pop() if self._idle else _Worker()
        lost = False
        try:
            return await self._within(worker.run(call))
        except (asyncio.CancelledError, NoAnswerError) as error:
            lost = True
            self._hung += isinstance(error, NoAnswerError)
            if self._hung >= _MOST_HUNG:
                raise ProviderError(
                    f"{self._qualified} has not come back from {self._hung} calls: the run is stopped; what "
                    "was answered is kept, and the same command continues there"
                ) from None
            raise
        finally:
            # A lost worker ends when the function returns, if it ever does.
            worker.close() if lost else self._idle.append(worker)

    async def _within(self, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise NoAnswerError(f"it gave no answer within {self._timeout:g} s") from None
            raise  # the function's own
        except SystemExit as error:  # it would end the process, with the function's exit code
            raise RuntimeError(f"SystemExit: {error}") from None

    def _semaphore(self) -> asyncio.Semaphore:
        """As many turns as threads; a new one for each event loop."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Semaphore(self._threads)
        return self._turn[1]

    async def _in_a_batch(self, messages: Messages) -> Any:
        """This row's answer from the next batch: those that wait when the one before it has come back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((messages, answer))
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask_batches())
        return await answer

    async def _ask_batches(self) -> None:
        while True:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            waiting = [(messages, answer) for messages, answer in self._waiting if not answer.done()]
            batch, self._waiting = waiting[:LARGEST_BATCH], waiting[LARGEST_BATCH:]
            if not batch:
                return
            try:
                values = _list_of(await self._call([messages for messages, _ in batch]), len(batch))
            except asyncio.CancelledError:
                for _, answer in (*batch, *self._waiting):
                    answer.cancel()
                raise
            except Exception as error:
                values = [error] * len(batch)
            for (_, answer), value in zip(batch, values, strict=True):
                if not answer.done():
                    answer.set_exception(value) if isinstance(value, Exception) else answer.set_result(value)


class NoAnswerError(Exception):
    """A function took too long."""


class _Worker:
    """One daemon thread, for one call after another."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=self._work, name="fwc-llm-function", daemon=True).start()

    def run(self, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        """A future of the call's value; an exception of the call becomes the future's."""
        future: Future[Any] = Future()
        self._calls.put((future, partial(contextvars.copy_context().run, call)))
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """End once the present call has come back."""
        self._calls.put(None)

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            future, call = work
            with suppress(InvalidStateError):  # too late: nobody waits any more
                try:
                    future.set_result(call())
                except InvalidStateError:
                    raise
                except BaseException as error:
                    usual = isinstance(error, Exception) and not isinstance(error, StopIteration)
                    future.set_exception(error if usual else RuntimeError(f"{type(error).__name__}: {error}"))


def _list_of(value: Any, length: int) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"ask_many returned {_kind(value)}, not a list with an answer for each row")
    answers = list(value)
    if len(answers) != length:
        raise ValueError(f"ask_many returned {len(answers)} answers to {length} rows")
    return answers


def read_answer(answer: Any) -> Reply:
    """What a function returned, as a reply; what it should not have returned is an error in words."""
    wanted = "a function must return text, P(yes) from 0 to 1, or a Reply"
    if isinstance(answer, Reply):
        return _checked(answer)
    if isinstance(answer, str):
        return Reply(text=shortened(storable(answer)))
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return Reply(text=None, error=f"it returned {_kind(answer)}: {wanted}")
    value: Any = answer
    if not 0.0 <= value <= 1.0:  # NaN fails too
        return Reply(text=None, error=f"it returned {str(value)[:20]}, which is no probability: {wanted}")
    return Reply(text="yes" if value >= 0.5 else "no", p_yes=float(value))


def _checked(reply: Reply) -> Reply:
    """The reply as a journal can hold it; one with fields of other types is an error in words."""
    from pydantic import TypeAdapter, ValidationError

    try:
        reply = TypeAdapter(Reply).validate_python(vars(reply))
        raw = reply.raw if json.dumps(reply.raw) else None
    except ValidationError as wrong:
        field = wrong.errors()[0]["loc"][0]
        words = f"it returned a Reply whose {field} is {_kind(getattr(reply, str(field)))}"
        return Reply(text=None, error=words)
    except (TypeError, ValueError):
        raw = None
    if any(p is not None and not 0.0 <= p <= 1.0 for p in (reply.p_yes, *(reply.others or {}).values())):
        return Reply(text=None, error="it returned a Reply whose p_yes is no probability")
    error = "it gave no text and no reason" if reply.text is None and not reply.error else reply.error
    return replace(
        reply,
        text=None if reply.text is None else shortened(storable(reply.text)),
        error=None if error is None else one_line(error),
        logprobs=tuple(pair for pair in reply.logprobs or () if finite(pair[1]) is not None) or None,
        latency=finite(reply.latency) or 0.0,
        raw=raw,
    )


def as_model(model: Any, timeout: float = TIMEOUT) -> Any:
    """`model` as an object with the members of `Model`, where it is a function or an object with `ask_many`.

    Errors: `FwcError` for anything else: a class, an object that lacks a member, what cannot be called.
    """
    if isinstance(model, type):
        raise FwcError(f"the model is the class {model.__name__}: give an object, {model.__name__}(…)")
    missing = [name for name in ("name", "parameters", "ask", "aclose") if not hasattr(model, name)]
    if not missing:
        named = isinstance(model.name, str) and bool(model.name.strip())
        if not (named and isinstance(model.parameters, Mapping) and callable(model.ask)):
            raise FwcError(
                f"{_kind(model)} is no model: name must be text, parameters a mapping, ask a function"
            )
        return model
    if callable(model) or isinstance(model, BatchFunction):
        return FunctionModel(model, timeout=timeout)
    lacks = f", which lacks {', '.join(missing)}" if len(missing) < 4 else ""
    raise FwcError(
        f"the model is {_kind(model)}{lacks}: give a name, a function of the messages, or an object with "
        "name, parameters, ask and aclose (fwc_llm.Model)"
    )


def qualified_name(function: Any) -> str:
    """Where a function is from: its module and qualified name, of an object its class's."""
    inner = function.func if isinstance(function, partial) else function
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', None) or '?'}:{named.__qualname__}"


def _check_function(function: Any) -> None:
    called = function.ask_many if isinstance(function, BatchFunction) else function
    if isinstance(function, type) or not callable(called):
        raise FwcError(f"{_kind(function)} is no function: give one that takes the messages and returns text")
    try:
        inspect.signature(called).bind([])
    except ValueError:  # some built-in functions have no signature
        return
    except TypeError as error:
        raise FwcError(
            f"{qualified_name(function)} cannot be called with the messages alone ({error}): give a function "
            "of one argument, for example by functools.partial"
        ) from None


def _bound(function: Any) -> dict[str, Any]:
    """What `functools.partial` has bound, as far as it has a lasting form."""
    if not isinstance(function, partial):
        return {}

    def lasting(value: Any) -> Any:
        return value if isinstance(value, str | int | float | bool | None) else _kind(value)

    named = {name: lasting(value) for name, value in function.keywords.items()}
    return {"bound": [*map(lasting, function.args), named]}


def _is_async(function: Any) -> bool:
    inner = function.func if isinstance(function, partial) else function
    return any(map(inspect.iscoroutinefunction, (inner, vars(type(inner)).get("__call__"))))


def _words(error: Exception) -> str:
    """What a function raised, on one line."""
    if isinstance(error, NoAnswerError):
        return str(error)
    return one_line(f"it raised {type(error).__name__}: {error}".rstrip(": "))


def _kind(value: Any) -> str:
    """A value's type with an article; never its content, which may be anything."""
    if value is None:
        return "nothing (None)"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {visible(name)}"
