"""Asking a `ChatModel` in tests: short waits, one planted key, one question."""

import asyncio
import json
from datetime import date
from typing import Any

import respx

from fwc_llm.models import Reply
from fwc_llm.models.openai.chat import ChatModel

KEY = "sk-planted-0123456789abcdefghij"
MESSAGES = [{"role": "system", "content": "Answer yes or no."}, {"role": "user", "content": "Is it?"}]


def ask(model: Any, times: int = 1) -> Reply:
    async def go() -> Reply:
        for _ in range(times):
            reply = await model.ask(MESSAGES)
        await model.aclose()
        return reply

    return asyncio.run(go())


def sent(route: respx.Route, index: int = 0) -> dict[str, Any]:
    return json.loads(route.calls[index].request.content)


def quick(name: str = "gpt-4", **options: Any) -> ChatModel:
    """Seen from a day on which no model had ended."""
    usual = {"backoff": 0.001, "timeout": 5.0, "today": date(2025, 1, 1)}
    return ChatModel(name, **usual | {"deadline": 5.0} | options)
