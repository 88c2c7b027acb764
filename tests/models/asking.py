"""Asking a `ChatModel` in tests: short waits, one planted key, one question."""

import asyncio
import json
from typing import Any

import respx

from fwc_llm.models import Messages, Reply
from fwc_llm.models.openai.chat import ChatModel
from tests.faults.loopback import Handler, HttpReply, HttpRequest, serve

KEY = "sk-planted-0123456789abcdefghij"
MESSAGES = [
    {"role": "system", "content": "Answer yes or no."},
    {"role": "user", "content": "Is it?"},
]


def ask(model: Any, messages: Messages = MESSAGES, times: int = 1) -> Reply:
    """The last reply of a model that is asked so many times."""

    async def go() -> Reply:
        try:
            return [await model.ask(messages) for _ in range(times)][-1]
        finally:
            await model.aclose()

    return asyncio.run(go())


def over_http(
    answer: HttpReply | Handler,
    make: Any = None,
    messages: Messages = MESSAGES,
    times: int = 1,
    together: bool = False,
    **options: Any,
) -> tuple[list[Reply], Any, list[HttpRequest]]:
    """The replies of a model behind a loopback server, asked so many times; the model; its
    requests.
    """
    requests: list[HttpRequest] = []

    def handler(request: HttpRequest) -> Any:
        requests.append(request)
        return answer(request) if callable(answer) else answer

    async def go() -> tuple[list[Reply], Any]:
        async with serve(handler) as url:
            model = (make or quick)(base_url=f"{url}/v1", **options)
            try:
                if together:
                    return await asyncio.gather(
                        *(model.ask(messages) for _ in range(times))
                    ), model
                return [await model.ask(messages) for _ in range(times)], model
            finally:
                await model.aclose()

    return *asyncio.run(go()), requests


def sent(route: respx.Route, index: int = 0) -> dict[str, Any]:
    return json.loads(route.calls[index].request.content)


def quick(name: str = "gpt-4", **options: Any) -> ChatModel:
    usual = {"backoff": 0.001, "timeout": 5.0, "deadline": 5.0}
    return ChatModel(name, **usual | options)


def coin(messages: Messages) -> str:
    """An answer that depends on the row alone, whatever its group."""
    if sum(messages[-1]["content"].encode()) % 2:
        return "yes"
    return "no"
