"""Chat completions, Decisions and System One from the server's side: requests are read, replies are written.

Pure functions from JSON to JSON. `serve.py` puts them on a socket, `fwc_llm.testing` under OpenAI's SDK. Only
what a client can notice is imitated: `max_tokens`, `stop` and their like are accepted and ignored.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fwc_llm.models.base import SIMULATED, Message, Reply, Usage
from fwc_llm.models.decisions import conversation
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.reading import UnreadablePromptError

PATHS = CHAT, DECISIONS, SYSTEMONE = "/chat/completions", "/decisions", "/systemone"
_P_YES = {"predicate": "probability", "noul": "noul"}  # kinds of yes/no questions, where P(yes) stands
# The surrogate knows one question. It takes every yes/no question for that one, and these for its opposite.
_OPPOSITE = re.compile(r"(?<!yes or )\b(?:no|not)\b(?!-)|\bor less\b", re.IGNORECASE)


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


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Part(_Strict):
    text: str


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None


_Messages = Annotated[list[_Message], Field(min_length=1)]


class _Chat(_Strict):
    model: str
    messages: _Messages
    n: Literal[1] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None


class _Decisions(_Strict, extra="forbid"):
    model: str
    input: str | _Messages
    questions: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=400)]
    prompt_cache_key: Any = None
    prompt_cache_options: Any = None
    safety_identifier: Any = None


class _SystemOne(_Strict, extra="forbid"):
    model: str
    state: str | dict[str, Any]
    questions: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


@dataclass(frozen=True)
class Request:
    """A request as read: `messages` of a chat, or the input of a decision with its `questions`."""

    path: str
    body: Mapping[str, Any] = field(repr=False)
    messages: list[Message]
    questions: Sequence[Mapping[str, Any]] = ()


def read_request(path: str, body: Any) -> Request:
    """The request to one of the `PATHS`. Raises `ApiError`."""
    chat, by_name = path.endswith(CHAT), path.endswith(SYSTEMONE)
    read = _Chat if chat else _SystemOne if by_name else _Decisions
    try:
        request: Any = read.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ApiError(
            422 if by_name else 400, f"{place or 'body'}: {first['msg']}", "invalid_value", place
        ) from None
    if chat:
        return Request(path, body, _plain(request.messages))
    if not by_name:
        shown = request.input
        messages = _user(shown) if isinstance(shown, str) else _plain(shown)
        return Request(path, body, messages, request.questions)
    state = request.state
    if not isinstance(state, str):
        state = "\n".join(f"- {name}: {value}" for name, value in state.items())
    questions = [{**question, "name": name} for name, question in request.questions.items()]
    return Request(path, body, _user(state), questions)


def _user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def _plain(messages: Sequence[_Message]) -> list[Message]:
    """Messages with parts of text joined."""
    plain: list[Message] = []
    for message in messages:
        parts = message.content
        content = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        plain.append({"role": message.role, "content": content})
        if message.name is not None:
            plain[-1]["name"] = message.name
    return plain


def respond(request: Request, model: Surrogate) -> dict[str, Any] | str:
    """The surrogate's response body, or the text of its event stream. Raises `ApiError`."""
    if not request.questions:
        return chat_body(request, surrogate_reply(request, model))
    answers = [decide(question, surrogate_p_yes(request, question, model)) for question in request.questions]
    return decision_body(request, answers, f"{request.body['model']} (simulated)", SIMULATED)


def surrogate_reply(request: Request, model: Surrogate) -> Reply:
    """The surrogate's reply to a chat; temperature and seed are its own unless the request names others."""
    temperature, seed = request.body.get("temperature"), request.body.get("seed")
    answerer = Surrogate(
        model.temperature if temperature is None else temperature, model.seed if seed is None else seed
    )
    try:
        return answerer.reply(request.messages)
    except UnreadablePromptError as error:
        raise ApiError(400, str(error), "unreadable_prompt", "messages") from None


def surrogate_p_yes(request: Request, question: Mapping[str, Any], model: Surrogate) -> float:
    """The simulated P(yes) of a question about an input, which is a conversation or one text."""
    messages = request.messages
    if not any(message["role"] == "assistant" for message in messages):
        messages = conversation("\n\n".join(message["content"] for message in messages))
    if question.get("type") not in _P_YES:
        raise ApiError(400, "the surrogate answers yes/no questions alone", "invalid_value", "questions")
    try:
        p = model.p_yes(messages)
    except UnreadablePromptError as error:
        raise ApiError(400, str(error), "unreadable_prompt", "input") from None
    return 1.0 - p if _OPPOSITE.search(str(question.get("instructions", ""))) else p


def decide(question: Mapping[str, Any], answer: Mapping[str, Any] | float | str | None) -> dict[str, Any]:
    """The answer to one question: a whole one as it is, else P(yes), or the value of a choice, or None."""
    kind, name = question.get("type"), question.get("name")
    if isinstance(answer, Mapping):
        return {"type": kind, "name": name, **answer}
    if kind in _P_YES and isinstance(answer, float):
        return {"type": kind, "name": name, _P_YES[kind]: round(answer, 6)}
    if kind == "choice":
        values = [each.get("value") for each in question.get("choices") or () if isinstance(each, Mapping)]
        for chosen in values:
            if str(chosen).lower() == str(answer).lower():
                shares = [{"value": value, "probability": float(value == chosen)} for value in values]
                return {
                    "type": kind, "name": name, "choice": chosen, "confidence": 1.0, "probabilities": shares,
                }  # fmt: skip
    elif kind not in _P_YES:
        raise ApiError(400, f"a question of the type {kind!r} needs a whole answer", "invalid_value")
    return {"type": "refusal", "name": name}


def decision_body(
    request: Request, answers: Sequence[dict[str, Any]], model: str, fingerprint: str | None = None
) -> dict[str, Any]:
    """The response body with the answers to a request's questions; as tokens, words are counted."""
    words = sum(len(message["content"].split()) for message in request.messages)
    total = words + len(answers)
    usage: dict[str, Any] = {"input_tokens": words, "output_tokens": len(answers), "total_tokens": total}
    if request.path.endswith(SYSTEMONE):
        named = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in answers}
        return {"model": model, "answers": named, "usage": usage, "system_fingerprint": fingerprint}
    usage |= {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {"answers": list(answers), "model": model, "usage": usage, "system_fingerprint": fingerprint}


def chat_body(request: Request, reply: Reply) -> dict[str, Any] | str:
    """The response body that gives `reply` to a chat; the text of an event stream where that is asked for."""
    asked, usage = request.body, reply.usage or Usage()
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": reply.model or asked["model"],
        "system_fingerprint": reply.fingerprint,
    }
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    content, refusal = (None, reply.text) if reply.refusal else (reply.text, None)
    message = {"role": "assistant", "content": content, "refusal": refusal}
    logprobs = _logprobs(reply, asked.get("top_logprobs") or 0) if asked.get("logprobs") else None
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reply.finish_reason}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": counts}
    deltas = [(message, logprobs, None), ({}, None, reply.finish_reason)]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "logprobs": each, "finish_reason": reason}]}
        for delta, each, reason in deltas
    ]
    if (asked.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": counts})
    texts = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {text}\n\n" for text in (*texts, "[DONE]"))


def _logprobs(reply: Reply, top: int) -> dict[str, Any] | None:
    """The answer's single token, and the likeliest `top` of both answers."""
    if not reply.logprobs:
        return None

    def entry(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    likeliest = sorted(reply.logprobs, key=lambda pair: -pair[1])[:top]
    first = {**entry(*reply.logprobs[0]), "top_logprobs": [entry(*pair) for pair in likeliest]}
    return {"content": [first], "refusal": None}


def model_card(name: str, created: int) -> dict[str, Any]:
    """The body of GET /v1/models/NAME."""
    return {"id": name, "object": "model", "created": created, "owned_by": "fwc-llm (simulated)"}
