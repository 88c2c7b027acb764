"""Reads requests to OpenAI's interfaces and builds the bodies that answer them, for tests of
applications.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fwc_llm.models.base import SIMULATED, Message, Messages, Reply, Usage
from fwc_llm.models.decisions import conversation
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.prompt_reader import UnreadablePromptError
from fwc_llm.sanitize import Fields, Json

PATHS = CHAT, RESPONSES, DECISIONS = "/chat/completions", "/responses", "/decisions"
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 (users read it as a noun: answer with a Failure(429))
    """An HTTP error instead of an answer; the SDK retries some of them, by default."""

    status: int
    message: str = "a failure that the test asked for"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    param: str | None = None

    @property
    def body(self) -> Json:
        """The response body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "param": self.param, "code": self.code}
        return {"error": {**error, "type": kind}}


def _invalid(message: str, param: str | None = None) -> Failure:
    return Failure(400, message, "invalid_value", param=param)


@dataclass(frozen=True)
class Call:
    """One request of an application.

    `messages` are those of a chat, or the input of the decision `questions`; `question` is the
    question to answer now. `form` is the JSON schema required for the answer.
    """

    path: str
    body: Fields = field(repr=False)
    messages: Sequence[Message]
    question: Fields | None = None
    questions: Sequence[Fields] = field(default=(), repr=False)
    form: Fields | None = field(default=None, repr=False)

    @property
    def model(self) -> str:
        """The requested model's name."""
        return str(self.body.get("model", ""))


def read_call(path: str, content: bytes) -> Call:
    """Parse a request to one of the `PATHS`; `Failure` for an invalid request."""
    try:
        body = json.loads(content)
        return _call(path, body)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _invalid(f"the request's body cannot be read: {error!r}") from None


def _call(path: str, body: Fields) -> Call:
    if path.endswith(DECISIONS):
        if not body["questions"]:
            raise _invalid("questions: at least one is needed", "questions")
        messages = _messages(body["input"])
        return Call(path, body, messages, questions=body["questions"])
    if body.get("stream") or (body.get("n") or 1) > 1:
        raise _invalid("answers come whole and alone: leave out stream and n")
    is_chat = path.endswith(CHAT)
    messages = _messages(body["messages"] if is_chat else body["input"])
    if body.get("instructions"):
        messages.insert(0, {"role": "system", "content": body["instructions"]})
    if is_chat:
        text_format = body.get("response_format")
    else:
        text_format = (body.get("text") or {}).get("format")
    return Call(path, body, messages, form=_schema(text_format or {}))


def _messages(given: Any) -> list[Any]:
    """The messages of a request, whose content may be text or parts of text."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [{**message, "content": _joined(message["content"])} for message in given]


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)


def _schema(text_format: Fields) -> Fields | None:
    """The JSON schema of a text format; None for plain text."""
    kind = text_format.get("type", "text")
    if kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        raise _invalid(f"no text has the format {kind!r}")
    named_schema = text_format.get("json_schema") or text_format
    schema: Fields = named_schema.get("schema") or {}
    return schema


def respond(call: Call, answer_to: Callable[[Call], Reply | Fields]) -> Fields:
    """Build the response body from `answer_to`, called for each answer of `call`.

    A mapping is taken unchanged, as the whole body or the answer to one question.
    """
    if call.questions:
        return _decision_body(call, answer_to)
    reply = answer_to(call)
    if isinstance(reply, Mapping):
        return reply
    if call.form is not None and not reply.refusal and not _is_json(reply.text):
        raise _invalid(
            "the answer is not a JSON object, which the request asks for: set one"
        )
    if call.path.endswith(RESPONSES):
        return _responses_body(call, reply)
    return chat_body(call, reply)


def _is_json(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


def simulated(model: Surrogate, call: Call) -> Reply:
    """The surrogate's reply to a chat or question; a chat may set temperature and seed."""
    own = {"temperature": model.temperature, "seed": model.seed}
    asked = {name: call.body[name] for name in own if call.body.get(name) is not None}
    try:
        if call.question is None:
            return Surrogate(**own | asked, form=model.form).reply(call.messages)
        p = _simulated_p_yes(model, call.messages)
        return Reply(
            "", p_yes=p, model=f"{model.name} (simulated)", fingerprint=SIMULATED
        )
    except UnreadablePromptError as error:
        where = "messages" if call.question is None else "input"
        raise Failure(400, str(error), "unreadable_prompt", param=where) from None


def _simulated_p_yes(model: Surrogate, messages: Messages) -> float:
    """The simulated P(yes) about an input, whatever its questions say."""
    if not any(message["role"] == "assistant" for message in messages):
        messages = conversation("\n\n".join(message["content"] for message in messages))
    return model.p_yes(messages)


def _decision_body(call: Call, answer_to: Callable[[Call], Reply | Fields]) -> Fields:
    """The response body with answers to all questions of a call; `usage` counts words."""
    answers = []
    model = call.model
    fingerprint = None
    for question in call.questions:
        kind = question.get("type")
        name = question.get("name")
        answer = answer_to(replace(call, question=question))
        if isinstance(answer, Mapping):
            if "answers" in answer:
                return answer
            answers.append({"type": kind, "name": name, **answer})
            continue
        if kind != "predicate":
            raise _invalid(
                f"{kind!r} is not a type of yes/no question: it needs a whole answer",
                "questions",
            )
        value = (
            {"type": "refusal"}
            if answer.p_yes is None
            else {"probability": round(answer.p_yes, 6)}
        )
        answers.append({"type": kind, "name": name, **value})
        model = answer.model or model
        fingerprint = answer.fingerprint
    words = sum(len(message["content"].split()) for message in call.messages)
    usage = _counts(Usage(words, len(answers)), "input", "output")
    return {
        "answers": answers,
        "model": model,
        "usage": usage,
        "system_fingerprint": fingerprint,
    }


def _counts(usage: Usage, prompt: str, completion: str) -> Json:
    """The `usage` object, with the interface's names `prompt` and `completion`."""
    return {
        f"{prompt}_tokens": usage.prompt_tokens,
        f"{completion}_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        f"{prompt}_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": 0,
        },
        f"{completion}_tokens_details": {"reasoning_tokens": 0},
    }


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def chat_body(call: Call, reply: Reply) -> Json:
    """The response body with `reply` to a chat."""
    return {
        "id": _new_id("chatcmpl"),
        "created": int(time.time()),
        "model": reply.model or call.model,
        "system_fingerprint": reply.fingerprint,
        "object": "chat.completion",
        "choices": [_choice(call, reply)],
        "usage": _counts(reply.usage or Usage(), "prompt", "completion"),
    }


def _choice(call: Call, reply: Reply) -> Json:
    """The choice in the response to a chat."""
    request = call.body
    content, refusal = (None, reply.text) if reply.refusal else (reply.text, None)
    message: Json = {"role": "assistant", "content": content, "refusal": refusal}
    logprobs = None
    if request.get("logprobs") and reply.logprobs:
        logprobs = {"content": [_token(call, reply.logprobs)], "refusal": None}
    return {
        "index": 0,
        "logprobs": logprobs,
        "finish_reason": reply.finish_reason,
        "message": message,
    }


def _responses_body(call: Call, reply: Reply) -> Json:
    """The response body with `reply` for the Responses API."""
    part: Json = {"type": "output_text", "text": reply.text, "annotations": []}
    if reply.refusal:
        part = {"type": "refusal", "refusal": reply.text}
    reason = _INCOMPLETE.get(str(reply.finish_reason))
    status = "incomplete" if reason else "completed"
    item: Json = {
        "type": "message",
        "id": _new_id("msg"),
        "role": "assistant",
        "status": status,
        "content": [part],
    }
    return {
        "id": _new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": reply.model or call.model,
        "output": [item],
        "metadata": {"system_fingerprint": reply.fingerprint}
        if reply.fingerprint
        else {},
        "usage": _counts(reply.usage or Usage(), "input", "output"),
    }


def _token(call: Call, logprobs: Sequence[tuple[str, float]]) -> Json:
    """The log-probability entry of the answer, with the likeliest tokens."""

    def entry(token: str, logprob: float) -> Json:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    top = call.body.get("top_logprobs") or 0
    likeliest = sorted(logprobs, key=lambda pair: -pair[1])[:top]
    return entry(*logprobs[0]) | {"top_logprobs": [entry(*pair) for pair in likeliest]}
