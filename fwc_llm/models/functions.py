"""Functions and fitted classifiers as models (docs/providers.md).

A function gets the messages; anything with `predict_proba` answers from rows of the table.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import redirect_stdout
from contextvars import copy_context
from copy import copy
from dataclasses import replace
from functools import partial
from numbers import Real
from operator import attrgetter
from threading import Thread
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from fwc_llm.errors import FwcError, ProviderError, checked, require
from fwc_llm.models.base import (
    FromTable,
    Messages,
    Model,
    Reply,
    RowContext,
    Usage,
    likelier,
)
from fwc_llm.models.identity import digest_of_fitted, digest_of_function, qualified_name
from fwc_llm.sanitize import (
    Fields,
    Json,
    as_single_line,
    clean_text,
    described,
    kind_of,
    parse_finite,
)
from fwc_llm.user_code import import_named

_WANTED = "give text, P(yes) from 0 to 1, or a Reply"


def read_answer(answer: Any) -> Reply:
    """Convert a function's result to a reply, with an error if it is invalid."""
    if isinstance(answer, Reply):
        return _checked(answer)
    if isinstance(answer, str):
        return Reply(text=clean_text(answer))
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return Reply(text=None, error=f"it returned {kind_of(answer)}: {_WANTED}")
    value: Any = answer
    if not 0.0 <= value <= 1.0:  # NaN fails too
        return Reply(
            text=None,
            error=f"it returned {str(value)[:20]}, which is not a probability: {_WANTED}",
        )
    return Reply(text=likelier(value), p_yes=float(value))


def _checked(reply: Reply) -> Reply:
    """The reply, cleaned for the journal; with an error if a field is invalid."""
    try:
        reply = TypeAdapter(Reply).validate_python(vars(reply))
        json.dumps(reply.raw)
        raw = reply.raw
    except ValidationError as wrong:
        field = str(wrong.errors()[0]["loc"][0])
        return Reply(
            text=None,
            error=f"it returned a Reply whose {field} is {kind_of(getattr(reply, field))}",
        )
    except (TypeError, ValueError):
        raw = None
    if reply.p_yes is not None and not 0.0 <= reply.p_yes <= 1.0:
        return Reply(
            text=None, error="it returned a Reply whose p_yes is not a probability"
        )
    error = (
        "it gave no text and no reason"
        if reply.text is None and not reply.error
        else reply.error
    )
    return replace(
        reply,
        text=None if reply.text is None else clean_text(reply.text),
        error=None if error is None else as_single_line(error),
        logprobs=tuple(
            pair for pair in reply.logprobs or () if parse_finite(pair[1]) is not None
        )
        or None,
        latency=parse_finite(reply.latency) or 0.0,
        raw=raw,
    )


PREFIX = "python:"
OURS = ("azure:", "baseline", "gguf:", "python:", "replay:", "smollm2", "surrogate")
TIMEOUT = 300.0
LARGEST_BATCH = 64
_MOST_HUNG = 10  # calls that never return, after which the run stops: their threads cannot be ended
# event-loop passes before a batch, so that workers that just got a reply can add their next row
_TURNS = 5
Answer: TypeAlias = str | float | Reply
Function: TypeAlias = Callable[[Messages], Answer | Awaitable[Answer]]


@runtime_checkable
class BatchFunction(Protocol):
    """An object that answers many conversations in one call, sync or async."""

    def ask_many(self, conversations: Sequence[Messages]) -> Any:
        """Answer at most 64 conversations in order; an exception is a row's error."""


class FunctionModel:
    """A model from a function, or from an object with `ask_many`.

    function    takes the messages and returns text, P(yes) from 0 to 1, or a `Reply`; sync or async
    name        the model's name in the run; by default "python:" and the function's module and
                qualified name
    parameters  other values that can change an answer (a version, a temperature); part of each
                request's hash, as are the function's code and the values that it reads
    timeout     seconds for one call of the function or of `ask_many`
    threads     number of threads that call a sync function; 1 by default, because many models are
                not thread-safe; an async function runs in up to `concurrency` calls at the same
                time
    simulated   true if the answers are simulated; every output then says so

    An invalid result, an exception or a timeout becomes the row's error. `ProviderError`,
    `SystemExit`, `KeyboardInterrupt`, 10 calls that never return, or no reply to any of an arm's
    first 12 rows stop the run.

    Errors: `FwcError` for invalid options.
    """

    @checked
    def __init__(
        self,
        function: Function | BatchFunction,
        name: str | None = None,
        parameters: Fields | None = None,
        timeout: float = TIMEOUT,
        threads: int = 1,
        simulated: bool = False,
    ) -> None:
        kinds: Any = (Callable, BatchFunction)
        require(function, kinds, "the model", "give a function of the messages")
        self._in_batches = isinstance(function, BatchFunction)
        self._function: Any = (
            function.ask_many if isinstance(function, BatchFunction) else function
        )
        self._qualified = qualified_name(function)
        self.name = name or PREFIX + self._qualified
        if not parse_finite(timeout) or timeout <= 0:
            raise FwcError(f"timeout is {timeout!r}: give seconds above 0")
        if threads < 1:
            raise FwcError(f"threads is {threads!r}: give a whole number from 1 up")
        if not self.name.strip() or not self.name.isprintable():
            raise FwcError(f"name is {name!r}: give the function a name in words")
        try:
            given = dict(parameters or {})
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise FwcError(
                f"parameters cannot be written as JSON ({described(error)})"
            ) from None
        self.simulated = simulated
        self.parameters: Json = {
            "function": self._qualified,
            "code": digest_of_function(function),
            **given,
        }
        self._timeout, self._threads = float(timeout), threads
        self.raised: Exception | None = None  # the latest exception of the function
        self._hung = 0
        self._begin()

    def _begin(self) -> None:
        """Reset: no queued rows and no running calls."""
        self._turn, self._batch_turn = asyncio.Semaphore(self._threads), asyncio.Lock()
        self._waiting: list[tuple[Messages, asyncio.Future[Any]]] = []

    async def ask(self, messages: Messages) -> Reply:
        """Call the function; a failure is an error of this row alone."""
        began = asyncio.get_running_loop().time()
        copies: Messages = [
            {**message} for message in messages
        ]  # the function may change them
        try:
            reply = read_answer(
                await (
                    self._in_a_batch(copies) if self._in_batches else self._call(copies)
                )
            )
        except ProviderError:
            raise
        except Exception as error:
            if isinstance(error, NoAnswerError):
                words = str(error)
            else:
                words = f"it raised {described(error)}"
                self.raised = error
            reply = Reply(text=None, error=words)
        return replace(
            reply, latency=reply.latency or asyncio.get_running_loop().time() - began
        )

    async def aclose(self) -> None:
        """Drop waiting calls; a running call cannot be stopped."""
        self._begin()

    async def _call(self, argument: Any) -> Any:
        """The function's result, awaited if it is awaitable, within `timeout`."""
        async with self._turn:
            call = _in_a_thread(partial(self._function, argument))
            try:
                value = await self._within(asyncio.wrap_future(call))
            except asyncio.CancelledError:
                call.add_done_callback(_close)
                raise
            except NoAnswerError:
                self._hung += 1
                if self._hung < _MOST_HUNG:
                    raise
                raise ProviderError(
                    f"{self._qualified} has not returned from {self._hung} calls: the run is "
                    f"stopped; the "
                    "answers are kept, and the same command continues the run"
                ) from None
        if inspect.isawaitable(value):
            return await self._within(value)
        return value

    async def _within(self, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise NoAnswerError(
                    f"it gave no answer within {self._timeout:g} s"
                ) from None
            raise  # raised by the function itself
        except SystemExit as error:  # would end the process without saving the answers
            raise _ended(error) from None

    async def _in_a_batch(self, messages: Messages) -> Any:
        """This row's answer; one row sends all waiting rows as a batch."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((messages, answer))
        async with self._batch_turn:
            if not answer.done():
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                batch = self._waiting[:LARGEST_BATCH]
                try:
                    value = await self._call([row for row, _ in batch])
                    if isinstance(value, str | bytes | Mapping) or not hasattr(
                        value, "__iter__"
                    ):
                        problem = "not a list with an answer for each row"
                        raise TypeError(
                            f"ask_many returned {kind_of(value)}, {problem}"
                        )
                    values = list(value)
                    if len(values) != len(batch):
                        raise ValueError(
                            f"ask_many returned {len(values)} answers to {len(batch)} rows"
                        )
                except Exception as error:
                    values = [error] * len(batch)
                self._waiting = self._waiting[len(batch) :]
                for (_, waiting), value in zip(batch, values, strict=True):
                    waiting.set_result(value)
        value = answer.result()
        if isinstance(value, Exception):
            raise value
        return value


class NoAnswerError(Exception):
    """The function did not answer within its timeout."""


def _close(call: "Future[Any]") -> None:
    """Close the coroutine, if any, that a call returned and nobody awaits."""
    if call.exception() is None and inspect.iscoroutine(call.result()):
        call.result().close()


def _ended(error: BaseException) -> ProviderError:
    """The end of the run, which a function asked for."""
    return ProviderError(
        f"the function raised {described(error)}: the run is stopped; the answers are kept"
    )


def _in_a_thread(call: Callable[[], Any]) -> "Future[Any]":
    """Run `call` in a daemon thread: a pool would wait at exit for hanging calls."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call))
        except (KeyboardInterrupt, SystemExit) as error:
            future.set_exception(_ended(error))
        except (
            BaseException
        ) as error:  # an event loop gives StopIteration another meaning
            usual = isinstance(error, Exception) and not isinstance(
                error, StopIteration
            )
            future.set_exception(error if usual else RuntimeError(described(error)))

    Thread(target=work, name="fwc-llm-function", daemon=True).start()
    return future


def as_model(model: Any, timeout: float = TIMEOUT) -> Model:
    """A model, a function or an object with `ask_many` as a `Model`; else `FwcError`."""
    if isinstance(model, type):
        raise FwcError(
            f"the model is the class {model.__name__}: give an object, {model.__name__}(…)"
        )
    if isinstance(model, Model):
        if not (
            isinstance(model.name, str)
            and model.name.strip()
            and isinstance(model.parameters, Mapping)
        ):
            raise FwcError(
                f"{kind_of(model)} is not a model: name must be text, parameters a mapping"
            )
        return model
    if hasattr(model, "predict_proba"):
        return EstimatorModel(model)
    if callable(model) or isinstance(model, BatchFunction):
        return FunctionModel(model, timeout=timeout)
    missing = [
        name
        for name in ("name", "parameters", "ask", "aclose")
        if not hasattr(model, name)
    ]
    if len(missing) < 4:
        lacks = f", which lacks {', '.join(missing)}"
    else:
        lacks = ""
    raise FwcError(
        f"the model is {kind_of(model)}{lacks}: give a name, a function of the messages, or an "
        f"object with "
        "name, parameters, ask and aclose (fwc_llm.Model)"
    )


def imported_model(name: str, timeout: float) -> Model:
    """Import the model or function of `python:MODULE:NAME`, as a `Model`."""
    module_name, _, path = name.removeprefix(PREFIX).partition(":")
    if not module_name or not path:
        raise FwcError(f"{name!r} names no function: write {PREFIX}module:function")
    module = _run(f"{name!r} cannot be imported", lambda: import_named(module_name))
    try:
        value = attrgetter(path)(module)
    except AttributeError:
        raise FwcError(
            f"{name!r} cannot be found: {module_name} has no {path}"
        ) from None
    return as_model(value, timeout=timeout)


def _run(name: str, call: Callable[[], Any]) -> Any:
    """Call third-party code: exceptions become `FwcError`, prints go to stderr."""
    try:
        with redirect_stdout(sys.stderr):
            return call()
    except FwcError:
        raise
    except (Exception, SystemExit) as error:
        raise FwcError(f"{name}: {described(error)}") from None


class EstimatorModel(FromTable):
    """A classifier that was fitted on columns of the task's table; it reads no prompt.

    It gets a data frame of one row: of the frame that `load_task` got, with its own dtypes, else of
    `task.pool()` and `task.test()`. A model that does not remember its columns gets all but the
    outcome. Which class means yes, the task decides; of a model without `classes_`, P(yes) is the
    last of two columns, or the only one. `raised` is its latest exception.

    Errors: `FwcError` for a classifier that is not fitted, or was fitted on an array, and for
    probabilities that are not those of one row.
    """

    local = True
    _row: Callable[[RowContext], Any]
    _shapes: Collection[tuple[int, ...]] = ((1, 2), (1, 1), (1,))
    _yes: int

    def __init__(self, estimator: Any) -> None:
        kind = type(estimator)
        if hasattr(estimator, "fit") and not hasattr(estimator, "classes_"):
            raise FwcError(
                f"{kind_of(estimator)} is not fitted, or has no classes_: call fit first, or set "
                f"classes_"
            )
        names = getattr(estimator, "feature_names_in_", None)
        if names is None and hasattr(estimator, "n_features_in_"):
            raise FwcError(
                f"{kind_of(estimator)} was fitted on an array, so it is not known which columns it "
                f"needs: fit it on a data frame, such as task.pool()[[…]]"
            )
        if hasattr(estimator, "classes_"):
            self._shapes = ((1, 2),)
        self.estimator = estimator
        self.names = None if names is None else [*names]
        self.name = f"python:{kind.__module__}:{kind.__qualname__}"
        self.parameters: Fields = {"fitted": digest_of_fitted(estimator)}
        self.raised: Exception | None = None

    def asked_by(self, row: Callable[[RowContext], Any], yes: int) -> "EstimatorModel":
        """The model for a task: `row` makes the data frame of one row, `yes` is a class's place."""
        model = copy(self)
        model._row = row
        model._yes = yes
        return model

    async def ask_row(self, messages: Messages, context: RowContext) -> Reply:
        """Answer for the row, with P(yes); the messages are ignored. An exception is an error."""
        import numpy as np

        row = self._row(context)
        try:
            predict = partial(self.estimator.predict_proba, row)
            found = await asyncio.to_thread(predict)
            shape = np.shape(found)
        except Exception as error:
            self.raised = error
            return Reply(text=None, error=f"it raised {described(error)}")
        if hasattr(found, "columns") or shape not in self._shapes:
            raise FwcError(
                f"predict_proba of {self.name} gave {kind_of(found)} of shape {shape} for one "
                f"row: give an array (1, 2) of P(no) and P(yes), in the order of classes_"
            )
        reply = read_answer(np.ravel(found)[self._yes])
        return replace(reply, finish_reason="stop", usage=Usage(), model=self.name)
