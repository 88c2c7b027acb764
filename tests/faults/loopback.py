"""A small HTTP/1.1 server on a free loopback port, for services that behave as a test says."""

import asyncio
import json
import math
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import responses
from typing import Any

from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.protocol import read_call, respond, simulated


@dataclass(frozen=True)
class HttpRequest:
    """What a client sent; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class HttpReply:
    """What the server sends: after `delay` seconds, and only the first `cut` bytes of the body
    if given.
    """

    body: Any = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None

    def encode(self) -> bytes:
        """The whole response; a body that is neither text nor bytes is sent as JSON."""
        if isinstance(self.body, bytes):
            body = self.body
            kind = "application/octet-stream"
        elif isinstance(self.body, str):
            body, kind = (
                self.body.encode(),
                "text/html" if self.body.startswith("<") else "text/plain",
            )
        else:
            body = json.dumps(self.body).encode()
            kind = "application/json"
        headers = {
            "content-type": kind,
            "content-length": str(len(body)),
            **self.headers,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        status = f"HTTP/1.1 {self.status} {responses.get(self.status, 'Status')}\r\n"
        return (status + head + "\r\n").encode() + (
            body if self.cut is None else body[: self.cut]
        )


Handler = Callable[[HttpRequest], "HttpReply | Awaitable[HttpReply]"]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    """Serve until the block ends; gives the address, for example http://127.0.0.1:40001."""
    connections: set[asyncio.Task[None]] = set()

    async def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            with suppress(
                ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
            ):
                await _answer_all(handler, reader, writer)
        finally:
            connections.discard(task)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=512)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@contextmanager
def serve_in_thread(handler: Handler) -> Iterator[str]:
    """`serve` in a thread of its own, for tests that start other processes. The handler runs
    there.
    """
    ready = threading.Event()
    state: dict[str, Any] = {}

    async def run() -> None:
        state["stop"], state["loop"] = asyncio.Event(), asyncio.get_running_loop()
        async with serve(handler) as url:
            state["url"] = url
            ready.set()
            await state["stop"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    if not ready.wait(10.0):
        raise RuntimeError("the loopback server did not start")
    try:
        yield state["url"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join(10.0)


@contextmanager
def serving() -> Iterator[str]:
    """The surrogate behind loopback HTTP; gives the base URL."""

    def answer(request: HttpRequest) -> HttpReply:
        body = respond(
            read_call(request.path, request.body), partial(simulated, Surrogate())
        )
        return HttpReply(body)

    with serve_in_thread(answer) as url:
        yield f"{url}/v1"


class Service:
    """Answers a request by what it asks for, with a text or a reply; keeps the bodies of all."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer, self.bodies = answer, list[Any]()

    def __call__(self, request: HttpRequest) -> HttpReply:
        self.bodies.append(request.json())
        reply = self.answer(self.bodies[-1])
        return reply if isinstance(reply, HttpReply) else HttpReply(completion(reply))


def completion(
    text: str | None, model: str = "test-model", **changes: Any
) -> dict[str, Any]:
    """A chat completion as OpenAI sends it; `changes` replace keys of the body."""
    usage: Any = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
    usage["prompt_tokens_details"] = {"cached_tokens": 64}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": model,
        "choices": [choice],
        "usage": usage,
        "system_fingerprint": "fp_1",
        **changes,
    }


def with_logprobs(body: Any, *positions: tuple[str, Mapping[str, float]]) -> Any:
    """The completion with its tokens, each with the likeliest at its place and their
    probabilities.
    """
    content = [_position(token, top) for token, top in positions]
    body["choices"][0]["logprobs"] = {"content": content}
    return body


def _position(token: str, top: Mapping[str, float]) -> dict[str, Any]:
    likeliest = [{"token": text, "logprob": math.log(p)} for text, p in top.items()]
    logprob = math.log(top.get(token, 1.0))
    return {"token": token, "logprob": logprob, "top_logprobs": likeliest}


def decision(
    p: Any = 0.75,
    model: str = "test-model",
    names: Sequence[str] = ("answer",),
    **changes: Any,
) -> dict[str, Any]:
    """A response of POST /v1/decisions, with P(yes) `p` for every question; `changes` replace
    keys.
    """
    usage: Any = {"input_tokens": 100, "output_tokens": 1, "total_tokens": 101}
    usage["input_tokens_details"] = {"cached_tokens": 64, "cache_write_tokens": 0}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    answers = [{"type": "predicate", "name": name, "probability": p} for name in names]
    return {"answers": answers, "model": model, "usage": usage, **changes}


def nouls(
    p: Any = 0.75,
    model: str = "test-model",
    names: Sequence[str] = ("answer",),
    **changes: Any,
) -> dict[str, Any]:
    """A response of POST /v1/systemone, with P(yes) `p` for every question; `changes` replace
    keys.
    """
    answers = {name: {"type": "noul", "noul": p} for name in names}
    return {
        "model": model,
        "answers": answers,
        "usage": {"input_tokens": 100},
        **changes,
    }


def answered(request: HttpRequest, yes: bool) -> dict[str, Any]:
    """What a service answers to a request at any of the three addresses; P(yes) has two
    decimals.
    """
    p = 0.83 if yes else 0.21
    if request.path.endswith("/chat/completions"):
        return completion("Yes" if yes else "No")
    questions = request.json()["questions"]
    if request.path.endswith("/systemone"):
        return nouls(p, names=list(questions))
    return decision(p, names=[question["name"] for question in questions])


def asked(request: HttpRequest) -> Any:
    """What a request is about, at any of the three addresses."""
    body = request.json()
    return body.get("messages") or [
        body.get("input") or body.get("state"),
        body["questions"],
    ]


def refusal(
    status: int, message: str, code: str | None = None, **details: Any
) -> HttpReply:
    """An error as OpenAI sends it."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": code,
        **details,
    }
    return HttpReply({"error": error}, status)


async def _answer_all(
    handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        parts = (line.partition(":") for line in head[1:-2])
        headers = {name.lower(): value.strip() for name, _, value in parts}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("transfer-encoding") == "chunked":
            body = await _read_chunks(reader)
        reply = handler(HttpRequest(method, path, headers, body))
        if not isinstance(reply, HttpReply):
            reply = await reply
        if reply.delay:
            await asyncio.sleep(reply.delay)
        writer.write(reply.encode())
        if reply.cut is not None:
            await writer.drain()
            writer.transport.abort()
            return
        await writer.drain()


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body
