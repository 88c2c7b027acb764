"""Answers an application's calls from a source of answers, and records the calls."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import httpx2

from fwc_llm.answers import parse_answer, probability
from fwc_llm.errors import FwcError
from fwc_llm.models import Client, is_local
from fwc_llm.models.base import Reply
from fwc_llm.models.replay import PREFIX, Replay
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.protocol import (
    PATHS,
    Call,
    Failure,
    read_call,
    respond,
    simulated,
)
from fwc_llm.sanitize import Fields

NO_KEY = "sk-fwc-llm-testing-is-no-key"

Answer: TypeAlias = "str | bool | float | Reply | Exception | Surrogate | Fields | None"
Source: TypeAlias = "Answer | Path | Sequence[Answer] | Callable[[Call], Answer]"


@contextmanager
def answers(source: Source = None) -> "Iterator[Answers]":
    """Answer all calls of OpenAI's SDK in the block; yields `Answers` with `calls`.

    `source` determines the answers:

    None or a `Surrogate`     the simulated model; it needs prompts of this package
    text                      this text ("Yes"); for a decision, "yes" and "no" are probabilities of
                              1 and 0
    number                    P(yes); a chat gets the likelier word and its log-probabilities
    `fwc_llm.Reply`           this reply, for example a refusal, a truncated reply, or one with
                              usage
    `Failure(429)`            an HTTP error
    other exception           raised instead of a connection
    mapping with "choices", "output" or "answers"    a whole response body, for example a recorded
                                                     one
    any other mapping         answers by key: the first key found in the last message selects the
                              answer
    list                      answers, one for each call in turn
    a `pathlib.Path`          the folder of a run: its recorded replies to the same messages
    function                  returns any of these for a `Call`; None for an unexpected call

    If OPENAI_API_KEY is not set, it has a dummy value within the block.

    At the end of the block, raises `AssertionError` for unexpected calls, and the function's
    exception, if any. Raises `FwcError` for other sources.
    """
    answering = Answers(source)
    send = httpx2.HTTPTransport.handle_request
    send_async = httpx2.AsyncHTTPTransport.handle_async_request

    def handle(self: Any, request: httpx2.Request) -> httpx2.Response:
        if _passes(request):
            return send(self, request)
        return answering.respond(request, request.read())

    async def handle_async(self: Any, request: httpx2.Request) -> httpx2.Response:
        if _passes(request):
            return await send_async(self, request)
        return answering.respond(request, await request.aread())

    try:
        with (
            patch.object(httpx2.HTTPTransport, "handle_request", handle),
            patch.object(
                httpx2.AsyncHTTPTransport, "handle_async_request", handle_async
            ),
            patch.dict(
                os.environ, {"OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", NO_KEY)}
            ),
        ):
            yield answering
    except Exception as error:
        answering.check(error)
        raise
    answering.check()


def _passes(request: httpx2.Request) -> bool:
    """Whether a request is for a local server and not for a mocked interface."""
    return is_local(str(request.url)) and not request.url.path.endswith(PATHS)


class Answers:
    """Answers calls from a source; `calls` has every answered call."""

    def __init__(self, source: Source = None) -> None:
        self.calls: list[Call] = []
        self._unexpected: Counter[str] = Counter()
        self._raised: Exception | None = None
        self.use(source)

    def use(self, source: Source) -> None:
        """Answer from `source` from now on; see `fwc_llm.testing.answers`."""
        self._source = _answerer(source)

    def respond(self, request: httpx2.Request, content: bytes) -> httpx2.Response:
        """The response to a request; raises the exception that the source returns, if any."""
        url = request.url
        if url.host == "api.openai.com":
            path = url.path
        else:
            path = f"{url.scheme}://{url.host}{url.path}"
        try:
            if request.method != "POST" or not path.endswith(PATHS):
                raise self._refused(f"{request.method} {path}")
            call = read_call(path, content)
            self.calls.append(call)
            status = 200
            headers = {}
            body = respond(call, self._answer)
        except Failure as failure:
            status = failure.status
            headers = dict(failure.headers)
            body = failure.body
        return httpx2.Response(status, headers=headers, json=body, request=request)

    def _answer(self, call: Call) -> Reply | Fields:
        """The source's answer; exceptions of the test's function are kept for `check`."""
        try:
            answer: Reply | Fields | Exception | None = self._source(call)
            if isinstance(answer, Surrogate):
                return self._simulated(answer, call)
            if not isinstance(answer, Mapping | Exception | None):
                answer = _as_reply(answer)
        except Failure:
            raise
        except Exception as error:
            self._raised = self._raised or error
            raise Failure(
                400,
                f"fwc_llm.testing: the test's function raised {type(error).__name__}",
            ) from None
        if answer is None:
            raise self._refused(
                f"POST {call.path} ({call.messages[-1]['content'][:80]!r})"
            )
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Mapping) or call.question is None:
            return answer
        word = parse_answer(answer).value  # yes or no is a probability of 1 or 0
        p = probability(answer)
        return replace(
            answer, p_yes=float(word == "yes") if p is None and word is not None else p
        )

    def _simulated(self, surrogate: Surrogate, call: Call) -> Reply:
        """The surrogate's reply; a prompt that it cannot read needs an answer from the test."""
        try:
            return simulated(surrogate, call)
        except Failure as failure:
            if failure.code == "unreadable_prompt":
                lacks = "without an answer set by `use`: the surrogate cannot read the prompt"
                self._refused(f"{call.path} {lacks}")
            raise

    def _refused(self, call: str) -> Failure:
        self._unexpected[call] += 1
        return Failure(400, f"fwc_llm.testing: the test did not expect {call}")

    def check(self, cause: Exception | None = None) -> None:
        """Raise the function's first exception, or `AssertionError` for unexpected calls."""
        if self._raised is not None:
            raise self._raised
        if self._unexpected:
            calls = ", ".join(
                f"{name} ({times} times)" if times > 1 else name
                for name, times in self._unexpected.items()
            )
            raise AssertionError(
                f"calls that the test did not expect: {calls}"
            ) from cause


def _answerer(source: Any) -> Callable[[Call], Any]:
    """The function that returns the answer to a call, or None for an unexpected call."""
    if source is None:
        source = Surrogate()
    if isinstance(source, Path):
        replay = Replay(f"{PREFIX}{source}", Client())
        return lambda call: replay.next_reply(call.messages)
    if isinstance(source, str | int | float):
        source = _as_reply(source)  # raises for an invalid answer
    if (
        isinstance(source, Mapping)
        and not {"choices", "answers", "output"} & source.keys()
    ):
        return lambda call: next(
            (
                answer
                for key, answer in source.items()
                if key in call.messages[-1]["content"]
            ),
            None,
        )
    if isinstance(source, Reply | Surrogate | Exception | Mapping):
        return lambda call: source
    if isinstance(source, Sequence):
        left = iter(source)
        return lambda call: next(left, None)
    if callable(source):
        return source  # type: ignore[no-any-return]
    raise FwcError(
        f"{type(source).__name__} is not a source of answers: see help(fwc_llm.testing.answers)"
    )


def _as_reply(answer: Any) -> Reply:
    """Convert an answer to a reply; `FwcError` if the answer is invalid."""
    if isinstance(answer, Reply):
        return replace(answer, text=answer.text or "")
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, str):
        return Reply(answer, finish_reason="stop")
    if isinstance(answer, int | float) and 0 <= answer <= 1:
        p = min(max(float(answer), 1e-9), 1 - 1e-9)
        pairs = sorted(
            [("yes", math.log(p)), ("no", math.log1p(-p))], key=lambda pair: -pair[1]
        )
        return Reply(pairs[0][0], finish_reason="stop", logprobs=tuple(pairs))
    raise FwcError(
        f"{answer!r} is not an answer: give text, a probability, a Reply or a Failure"
    )
