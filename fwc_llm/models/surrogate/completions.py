"""The chat-completions protocol from the server's side: a request body is checked, answered or refused.

Pure functions from JSON to JSON; `serve.py` puts them on a socket. Only what a client can notice is imitated:
a parameter without meaning for a one-word answer (`max_tokens`, `stop`, `user`, …) is accepted and ignored.
"""

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from fwc_llm.models.base import Message, Reply, Usage
from fwc_llm.models.surrogate.model import NAME, Surrogate
from fwc_llm.models.surrogate.reading import UnreadablePromptError

_ROLES = ("system", "developer", "user", "assistant")
_MOST_LOGPROBS = 20


class ApiError(Exception):
    """An error as the protocol has it: HTTP status, and the fields of its JSON body."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    @property
    def body(self) -> dict[str, Any]:
        """The response body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def models(created: int) -> dict[str, Any]:
    """The body of GET /v1/models: the surrogate alone."""
    return {"object": "list", "data": [model_card(NAME, created)]}


def model_card(name: str, created: int) -> dict[str, Any]:
    """The body of GET /v1/models/NAME; raises `ApiError` 404 for any other model."""
    if name != NAME:
        raise ApiError(
            404,
            f"The model `{name}` does not exist: this server has only `{NAME}`",
            "model_not_found",
            "model",
        )
    return {"id": NAME, "object": "model", "created": created, "owned_by": "fwc-llm (simulated)"}


def complete(body: Any, model: Surrogate) -> dict[str, Any] | str:
    """Answer a request body of POST /v1/chat/completions.

    The response body, or with `"stream": true` the text of the whole event stream. `temperature` and `seed`
    are those of `model` unless the request names its own. Raises `ApiError`.
    """
    if not isinstance(body, Mapping):
        raise ApiError(400, "The request body is not a JSON object")
    name = _field(body, "model", str, None)
    if name is None:
        raise ApiError(400, "You must provide a model parameter", param="model")
    model_card(name, 0)
    messages = read_messages(body.get("messages"))
    if _field(body, "n", int, 1) != 1:
        raise ApiError(400, "'n' must be 1: the surrogate has one answer", "unsupported_value", "n")
    temperature = float(_field(body, "temperature", (int, float), model.temperature))
    if not 0 <= temperature <= 2 and "temperature" in body:
        raise ApiError(400, "'temperature' must lie between 0 and 2", "invalid_value", "temperature")
    answerer = Surrogate(temperature, _field(body, "seed", int, model.seed))
    _top_logprobs(body)
    try:
        reply = answerer.reply(messages)
    except UnreadablePromptError as error:
        raise ApiError(400, str(error), "unreadable_prompt", "messages") from None
    return respond(body, reply, f"fp_{answerer.parameters['coefficients']}")


def respond(body: Mapping[str, Any], reply: Reply, fingerprint: str | None = None) -> dict[str, Any] | str:
    """The response body that gives `reply` to the request `body`, or the text of its event stream.

    Raises `ApiError` for options of the request that make no sense.
    """
    top = _top_logprobs(body)
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": reply.model,
        "system_fingerprint": fingerprint,
    }
    logprobs = None if top is None or not reply.logprobs else _logprobs(reply, top)
    if _field(body, "stream", bool, False):
        options = _field(body, "stream_options", Mapping, {})
        return _events(head, reply, logprobs, bool(options.get("include_usage")))
    choice = {
        "index": 0,
        "message": _message(reply),
        "logprobs": logprobs,
        "finish_reason": reply.finish_reason,
    }
    return {**head, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


def _message(reply: Reply) -> dict[str, Any]:
    content, refusal = (None, reply.text) if reply.refusal else (reply.text, None)
    return {"role": "assistant", "content": content, "refusal": refusal}


def _field(body: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
    """`body[name]`, or the default where it is absent or null; raises where it has another type."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ApiError(400, f"Invalid type for '{name}': {type(value).__name__}", "invalid_type", name)
    return value


def _top_logprobs(body: Mapping[str, Any]) -> int | None:
    """How many alternatives are wanted beside the answer, or None without log-probabilities."""
    wanted, top = _field(body, "logprobs", bool, False), _field(body, "top_logprobs", int, 0)
    if not 0 <= top <= _MOST_LOGPROBS:
        raise ApiError(
            400, f"'top_logprobs' must lie between 0 and {_MOST_LOGPROBS}", "invalid_value", "top_logprobs"
        )
    if top and not wanted:
        raise ApiError(400, "'top_logprobs' needs 'logprobs' to be true", "invalid_value", "top_logprobs")
    return top if wanted else None


def read_messages(messages: Any) -> list[Message]:
    """The messages of a request, checked; parts of text become one text. Raises `ApiError`."""
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "'messages' must be a list with at least one message", param="messages")
    checked: list[Message] = []
    for i, message in enumerate(messages):
        place = f"messages[{i}]"
        if not isinstance(message, Mapping):
            raise ApiError(400, f"'{place}' is not an object", "invalid_type", place)
        if message.get("role") not in _ROLES:
            raise ApiError(
                400, f"'{place}.role' must be one of {', '.join(_ROLES)}", "invalid_value", f"{place}.role"
            )
        content = message.get("content")
        if isinstance(content, list):  # parts of a message, which must all be text
            texts = [part.get("text") for part in content if isinstance(part, Mapping)]
            whole = len(texts) == len(content) and all(isinstance(text, str) for text in texts)
            content = "".join(map(str, texts)) if whole else None
        if not isinstance(content, str):
            raise ApiError(400, f"'{place}.content' is not text", "invalid_type", f"{place}.content")
        checked.append({"role": message["role"], "content": content})
        if isinstance(name := message.get("name"), str):
            checked[-1]["name"] = name
    return checked


def _logprobs(reply: Reply, top: int) -> dict[str, Any]:
    """The answer's single token, and the likeliest `top` of both answers."""

    def entry(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    said, *_ = pairs = reply.logprobs or ()
    likeliest = sorted(pairs, key=lambda pair: -pair[1])[:top]
    return {
        "content": [{**entry(*said), "top_logprobs": [entry(*pair) for pair in likeliest]}],
        "refusal": None,
    }


def _usage(reply: Reply) -> dict[str, int]:
    """Token counts; the surrogate has no tokens, so words are counted."""
    usage = reply.usage or Usage()
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _events(head: Mapping[str, Any], reply: Reply, logprobs: Any, include_usage: bool) -> str:
    """The answer as server-sent events: a chunk with the word, one that ends, the usage if asked for."""

    def chunk(choices: list[dict[str, Any]], **more: Any) -> str:
        return json.dumps({**head, "object": "chat.completion.chunk", "choices": choices, **more})

    chunks = [
        chunk([{"index": 0, "delta": _message(reply), "logprobs": logprobs, "finish_reason": None}]),
        chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reply.finish_reason}]),
    ]
    if include_usage:
        chunks.append(chunk([], usage=_usage(reply)))
    return "".join(f"data: {text}\n\n" for text in (*chunks, "[DONE]"))
