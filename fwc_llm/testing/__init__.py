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
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    import httpx2

    from fwc_llm.models.surrogate.protocol import Call, Failure
    from fwc_llm.testing.answering import Answers, Source

__all__ = ["Answers", "Call", "Failure", "answers"]

NO_KEY = "sk-fwc-llm-testing-is-no-key"


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
    """Let `answering` have every request through httpx2 while the block runs."""
    import httpx2

    send, send_async = httpx2.HTTPTransport.handle_request, httpx2.AsyncHTTPTransport.handle_async_request

    def handle(self: Any, request: httpx2.Request) -> httpx2.Response:
        return send(self, request) if _passes(request) else _answered(answering, request, request.read())

    async def handle_async(self: Any, request: httpx2.Request) -> httpx2.Response:
        if _passes(request):
            return await send_async(self, request)
        return _answered(answering, request, await request.aread())

    key = {"OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", NO_KEY)}
    with (
        patch.object(httpx2.HTTPTransport, "handle_request", handle),
        patch.object(httpx2.AsyncHTTPTransport, "handle_async_request", handle_async),
        patch.dict(os.environ, key),
    ):
        yield


def _passes(request: "httpx2.Request") -> bool:
    """Whether a request stays on this machine and is none that is answered here: a test's own server."""
    from fwc_llm.models import is_local
    from fwc_llm.models.surrogate.protocol import PATHS

    return is_local(str(request.url)) and not request.url.path.endswith(PATHS)


def _answered(answering: "Answers", request: "httpx2.Request", content: bytes) -> "httpx2.Response":
    import httpx2

    url = request.url
    path = url.path if url.host == "api.openai.com" else f"{url.scheme}://{url.host}{url.path}"
    status, body, headers = answering.respond(request.method, path, content)
    kind = "text/event-stream" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else json.dumps(dict(body))
    return httpx2.Response(
        status, headers={"content-type": kind, **headers}, content=text.encode(), request=request
    )


if not TYPE_CHECKING:  # a type checker knows the names above
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Answers", "Call", "Failure"), "answering"))
