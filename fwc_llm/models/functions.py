"""Any function as a model: it takes the messages and gives text, P(yes) or a `Reply` (docs/providers.md)."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import Messages, Reply
from fwc_llm.models.returned import kind, one_line, read_answer
from fwc_llm.models.threads import Thread
from fwc_llm.untrusted import finite, visible

PREFIX = "python:"
TIMEOUT = 300.0
_MOST_HUNG = 30  # calls that never came back; their threads cannot be ended
_TURNS = 5  # of the event loop, in which those who were just answered ask again

Answer: TypeAlias = str | float | Reply
Function: TypeAlias = Callable[[Messages], Answer | Awaitable[Answer]]


@runtime_checkable
class BatchFunction(Protocol):
    """Answers many conversations at once: one answer for each, in their order; sync or async.

    An answer is what a function may return. An exception in the place of an answer is that row's error.
    """

    def ask_many(self, conversations: Sequence[Messages]) -> Any:
        """Return as many answers as there are conversations."""


class FunctionModel:
    """A function, or an object with `ask_many`, behind the interface of a model.

    function    takes the messages and returns text, P(yes) from 0 to 1, or a `Reply`; sync or async
    name        what the run calls it; by default "python:" with the function's module and qualified name
    parameters  what else can change an answer (a version, a temperature): part of a request's identity
    timeout     seconds for one answer (a batch: for each row of it)
    threads     how many threads call a sync function at once. One calls it by default, one row after
                another, since many models must not be called by two; an async one is called as often at
                once as the run's `concurrency` says
    simulated   true when the answers are a simulation; every output then says so

    What the function returns but should not, what it raises, and no answer in time become the row's error,
    which names what happened. Only `ProviderError` stops the run, and 30 calls that never came back.

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
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise FwcError(f"name is {name!r}: give the function a name in words")
        if name is not None and (visible(name) != name or {"\n", "\t"} & set(name)):
            raise FwcError(f"name is {name!r}: give one without control characters")
        _check_parameters(parameters)
        self.simulated = simulated
        self._in_batches = isinstance(function, BatchFunction)
        self._function: Any = function
        self._qualified = qualified_name(function)
        self.name = name or PREFIX + self._qualified
        self.parameters: Mapping[str, Any] = {
            "function": self._qualified,
            **_bound(function),
            **(parameters or {}),
        }
        self._timeout, self._threads = float(timeout), threads
        self._idle: list[Thread] = []
        self._hung = 0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._waiting: list[tuple[Messages, asyncio.Future[Any]]] = []
        self._asking: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"FunctionModel({self.name!r})"

    async def ask(self, messages: Messages) -> Reply:
        """Call the function; whatever it does is at most this row's error."""
        began = asyncio.get_running_loop().time()
        copies: Messages = [{**message} for message in messages]  # the function may change what it is given
        try:
            if self._in_batches:
                answer = await self._in_a_batch(copies)
            else:
                answer = await self._call(self._function, copies, self._timeout)
            reply = read_answer(answer)
        except ProviderError:
            raise
        except Exception as error:
            reply = Reply(text=None, error=_said(error))
        return replace(reply, latency=reply.latency or asyncio.get_running_loop().time() - began)

    async def aclose(self) -> None:
        """Let the threads that wait for work end; one inside the function cannot be stopped."""
        for thread in self._idle:
            thread.close()
        self._idle.clear()
        if self._asking is not None:
            self._asking.cancel()
        self._asking, self._waiting = None, []

    async def _call(self, function: Callable[[Any], Any], argument: Any, seconds: float) -> Any:
        """The value of a function of the user's, awaited if need be, within `seconds`."""
        if _is_async(function):
            return await _within(function(argument), seconds)
        async with self._semaphore():
            value = await self._in_a_thread(partial(function, argument), seconds)
        return await _within(value, seconds) if inspect.isawaitable(value) else value

    async def _in_a_thread(self, call: Callable[[], Any], seconds: float) -> Any:
        thread = self._idle.pop() if self._idle else Thread("fwc-llm-function")
        try:
            value = await _within(thread.run(call), seconds)
        except asyncio.CancelledError:
            thread.close()  # it ends when the function returns, if it ever does
            raise
        except NoAnswerError:
            thread.close()
            self._hung += 1
            if self._hung >= _MOST_HUNG:
                raise ProviderError(
                    f"{self._qualified} has not come back from {self._hung} calls: the run is stopped; what "
                    "was answered is kept, and the same command continues there"
                ) from None
            raise
        except Exception:
            self._idle.append(thread)
            raise
        self._idle.append(thread)
        return value

    def _semaphore(self) -> asyncio.Semaphore:
        """As many turns as threads; a new one for each event loop."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Semaphore(self._threads)
        return self._turn[1]

    async def _in_a_batch(self, messages: Messages) -> Any:
        """This row's answer from the next batch: all that wait when the one before it has come back."""
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
            batch = [(messages, answer) for messages, answer in self._waiting if not answer.done()]
            self._waiting = []
            if not batch:
                return
            try:
                found = await self._answers([messages for messages, _ in batch])
            except asyncio.CancelledError:
                for _, answer in batch:
                    answer.cancel()
                raise
            except Exception as error:
                found = [error] * len(batch)
            for (_, answer), value in zip(batch, found, strict=True):
                if answer.done():
                    continue
                if isinstance(value, Exception):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)

    async def _answers(self, conversations: list[Messages]) -> list[Any]:
        """What `ask_many` returns, as a list of the right length."""
        value = await self._call(self._function.ask_many, conversations, self._timeout * len(conversations))
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise TypeError(f"ask_many returned {kind(value)}, not a list with an answer for each row")
        found = list(value)
        if len(found) != len(conversations):
            raise ValueError(f"ask_many returned {len(found)} answers to {len(conversations)} rows")
        return found


class NoAnswerError(Exception):
    """A function took too long."""


def as_model(model: Any, timeout: float = TIMEOUT) -> Any:
    """`model` as an object with the members of `Model`, where it is a function or an object with `ask_many`.

    Errors: `FwcError` for anything else: a class, an object that lacks a member, what cannot be called.
    """
    members = [name for name in ("name", "parameters", "ask", "aclose") if hasattr(model, name)]
    if isinstance(model, type):
        raise FwcError(f"the model is the class {model.__name__}: give an object, {model.__name__}(…)")
    if len(members) == 4:
        _check_members(model)
        return model
    if callable(model) or isinstance(model, BatchFunction):
        return FunctionModel(model, timeout=timeout)
    missing = ", ".join(name for name in ("name", "parameters", "ask", "aclose") if name not in members)
    lacks = f", which lacks {missing}" if members else ""
    raise FwcError(
        f"the model is {kind(model)}{lacks}: give a name, a function of the messages, or an object with "
        "name, parameters, ask and aclose (fwc_llm.Model)"
    )


def _check_members(model: Any) -> None:
    """Refuse a model whose members are not what they should be, such as a mock of one."""
    if not isinstance(model.name, str) or not model.name.strip():
        raise FwcError(f"the model's name is {kind(model.name)}: it must be text")
    if not isinstance(model.parameters, Mapping):
        raise FwcError(f"the parameters of {model.name} are {kind(model.parameters)}: they must be a mapping")
    for name in ("ask", "aclose"):
        if not callable(getattr(model, name)):
            raise FwcError(f"{name} of {model.name} is {kind(getattr(model, name))}: it must be a function")


def qualified_name(function: Any) -> str:
    """Where a function is from: its module and qualified name, of an object its class's."""
    inner = function.func if isinstance(function, partial) else function
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', None) or '?'}:{named.__qualname__}"


def _check_function(function: Any) -> None:
    if isinstance(function, type) or not (callable(function) or isinstance(function, BatchFunction)):
        raise FwcError(f"{kind(function)} is no function: give one that takes the messages and returns text")
    called = function.ask_many if isinstance(function, BatchFunction) else function
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # of some built-in functions nothing is known
        return
    try:
        signature.bind([])
    except TypeError as error:
        raise FwcError(
            f"{qualified_name(function)} cannot be called with the messages alone ({error}): give a function "
            "of one argument, for example by functools.partial"
        ) from None


def _check_parameters(parameters: Any) -> None:
    """Refuse what cannot be written into a request's identity."""
    if parameters is None:
        return
    if not isinstance(parameters, Mapping):
        raise FwcError(f"parameters is {kind(parameters)}: give a mapping of names to values")
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise FwcError(f"parameters has {kind(name)} as a name: give names in words")
        try:
            json.dumps(value, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            raise FwcError(
                f"parameters[{name!r}] is {kind(value)} that JSON cannot hold: give texts, numbers, "
                "true and false, or lists and mappings of them"
            ) from None


def _bound(function: Any) -> dict[str, Any]:
    """What `functools.partial` has bound, as far as it has a lasting form."""
    if not isinstance(function, partial):
        return {}
    plain = (str, int, float, bool, type(None))
    values = [value if isinstance(value, plain) else kind(value) for value in function.args]
    named = {k: value if isinstance(value, plain) else kind(value) for k, value in function.keywords.items()}
    return {"bound": [*values, named]}


def _is_async(function: Any) -> bool:
    inner = function.func if isinstance(function, partial) else function
    called = vars(type(inner)).get("__call__")  # of an object
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(called)


async def _within(work: Awaitable[Any], seconds: float) -> Any:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise NoAnswerError(f"it gave no answer within {seconds:g} s") from None
        raise  # the function's own
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("it cancelled itself") from None


def _said(error: Exception) -> str:
    """What a function raised, on one line."""
    if isinstance(error, NoAnswerError):
        return str(error)
    try:
        words = str(error)
    except Exception:
        words = ""
    return one_line(f"it raised {type(error).__name__}: {words}".rstrip(": "))
