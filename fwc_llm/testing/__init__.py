"""Answers for applications' own tests: OpenAI's SDK without key, cost or network.

    def test_the_desk_decides(fwc_openai):          # a pytest fixture; the surrogate answers
        fwc_openai.use("No")                        # or something else does
        assert decide(PERSON) == "no"
        assert len(fwc_openai.calls) == 1

    with fwc_llm.testing.answers("Yes") as openai:  # the same without pytest
        ...

Every call of the SDK (`openai` 3, clients sync and async) to chat completions, responses and decisions is
answered here, and so is every request to System One (`/systemone`) through its transport; any other call, and
any other request through the SDK's transport that would leave this machine, fails the test by name. A client
that was given another transport (aiohttp, a mock) is not seen.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    import httpx2

    from fwc_llm.models.surrogate.protocol import Call, Failure
    from fwc_llm.testing.answering import Answers, Source

__all__ = ["Answers", "Call", "Failure", "answers"]

NO_KEY = "sk-fwc-llm-testing-is-no-key"
_active: "list[Answers]" = []  # the innermost block is last
_genuine: dict[str, Any] = {}
_lock = Lock()


@contextmanager
def answers(source: "Source" = None) -> "Iterator[Answers]":
    """Answer all calls of OpenAI's SDK while the block runs; the value has the `calls`.

    `source` says what is answered:

    None or a `Surrogate`     the simulated model: it reads the prompt, which must be one of ours
    text                      that text ("Yes"); in a decision, yes or no is a probability of 1 or 0
    number                    P(yes); a chat answers with the likelier word and its log-probabilities
    `fwc_llm.Reply`           a refusal, a reply that was cut off, its usage
    `Failure(429)`            an HTTP error; an exception is raised where a connection would be made
    mapping with "choices", "output" or "answers"    a whole response body, for example a recorded one
    any other mapping         recorded answers: that of the first key found in the last message
    list                      recorded answers, one after the other
    `Path` of a .json file    recorded answers: a list or a mapping as above
    function                  any of these, from the `Call`; None where the call is not expected

    Where no OPENAI_API_KEY is set, one that is no key is set for the block.

    Raises `AssertionError` at the end of the block for calls that were not expected, and what the function
    raised. Raises `FwcError` for a source that is none of these.
    """
    from fwc_llm.testing.answering import Answers

    answering = Answers(source)
    try:
        with _intercepted(answering):
            yield answering
    except Exception as error:
        answering.check(error)
        raise
    answering.check()


@contextmanager
def _intercepted(answering: "Answers") -> Iterator[None]:
    """Let `answering` have every request through httpx2, while the block runs."""
    import httpx2

    with _lock:
        if not _active:
            _genuine.update(
                sync=httpx2.HTTPTransport.handle_request,
                asynchronous=httpx2.AsyncHTTPTransport.handle_async_request,
                key=os.environ.get("OPENAI_API_KEY"),
            )
            httpx2.HTTPTransport.handle_request = _handle  # type: ignore[method-assign]
            httpx2.AsyncHTTPTransport.handle_async_request = _handle_async  # type: ignore[method-assign]
            os.environ.setdefault("OPENAI_API_KEY", NO_KEY)
        _active.append(answering)
    try:
        yield
    finally:
        with _lock:
            _active.remove(answering)
            if not _active:
                httpx2.HTTPTransport.handle_request = _genuine["sync"]  # type: ignore[method-assign]
                httpx2.AsyncHTTPTransport.handle_async_request = _genuine["asynchronous"]  # type: ignore[method-assign]
                if _genuine["key"] is None:
                    os.environ.pop("OPENAI_API_KEY", None)


def _handle(self: Any, request: "httpx2.Request") -> Any:
    return _genuine["sync"](self, request) if _passes(request) else _answered(request, request.read())


async def _handle_async(self: Any, request: "httpx2.Request") -> Any:
    if _passes(request):
        return await _genuine["asynchronous"](self, request)
    return _answered(request, await request.aread())


def _passes(request: "httpx2.Request") -> bool:
    """Whether a request stays on this machine and is none that is answered here: a test's own server."""
    from fwc_llm.models import is_local
    from fwc_llm.models.surrogate.protocol import PATHS

    return is_local(str(request.url)) and not request.url.path.endswith(PATHS)


def _answered(request: "httpx2.Request", content: bytes) -> "httpx2.Response":
    import httpx2

    url = request.url
    path = url.path if url.host == "api.openai.com" else f"{url.scheme}://{url.host}{url.path}"
    status, body, headers = _active[-1].respond(request.method, path, content)
    kind = "text/event-stream" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(dict(body))
    return httpx2.Response(
        status, headers={"content-type": kind, **headers}, content=text.encode(), request=request
    )


if not TYPE_CHECKING:  # a type checker knows the names above
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Answers", "Call", "Failure"), "answering"))
