"""The SDK's transport, intercepted: no connection is made, and none can be made by accident."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from threading import Lock
from typing import Any

import httpx2

from fwc_llm.testing.answering import ENDINGS, Answers, Raise, Response

NO_KEY = "sk-fwc-llm-testing-is-no-key"
_active: list[Answers] = []  # the innermost block is last
_genuine: dict[str, Any] = {}
_lock = Lock()


@contextmanager
def intercepted(answering: Answers) -> Iterator[None]:
    """Let `answering` have every request through httpx2, while the block runs."""
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


def _handle(self: httpx2.HTTPTransport, request: httpx2.Request) -> httpx2.Response:
    if _passes(request):
        response: httpx2.Response = _genuine["sync"](self, request)
        return response
    return _answered(request, request.read())


async def _handle_async(self: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
    if _passes(request):
        response: httpx2.Response = await _genuine["asynchronous"](self, request)
        return response
    return _answered(request, await request.aread())


def _passes(request: httpx2.Request) -> bool:
    """Whether a request stays on this machine and is none that is answered here: a test's own server."""
    if request.url.path.endswith(ENDINGS):
        return False
    host = request.url.host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _answered(request: httpx2.Request, content: bytes) -> httpx2.Response:
    try:
        response = _active[-1].respond(request.method, _named(request.url), content)
    except Raise as raised:
        raise raised.error from None
    return httpx2.Response(
        response.status, headers=_headers(response), content=_content(response), request=request
    )


def _named(url: httpx2.URL) -> str:
    """The path; the host too, where it is not OpenAI's."""
    return url.path if url.host == "api.openai.com" else f"{url.scheme}://{url.host}{url.path}"


def _headers(response: Response) -> dict[str, str]:
    kind = "text/event-stream" if isinstance(response.body, str) else "application/json"
    return {"content-type": kind, **response.headers}


def _content(response: Response) -> bytes:
    body = response.body
    return (body if isinstance(body, str) else json.dumps(dict(body))).encode()
