"""Chat completions, Responses, Decisions and System One from the server's side: calls read, bodies written.

Functions from JSON to JSON: `serve.py` puts them on a socket, `fwc_llm.testing` under OpenAI's SDK. What
would change an answer is honoured or refused with 400; `max_tokens`, `stop` and their like are ignored.
"""

import json
import math
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fwc_llm.errors import FwcError
from fwc_llm.models.base import SIMULATED, Message, Reply, Usage
from fwc_llm.models.decisions import conversation
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.reading import UnreadablePromptError, apart

PATHS = CHAT, RESPONSES, DECISIONS, SYSTEMONE = "/chat/completions", "/responses", "/decisions", "/systemone"
_P_YES = {"predicate": "probability", "noul": "noul"}  # kinds of yes/no questions, where P(yes) stands
# The surrogate knows one question. It takes every yes/no question for that one, and these for its opposite.
_OPPOSITE = re.compile(r"(?<!yes or )\b(?:no|not)\b(?!-)|\bor less\b", re.IGNORECASE)
_ABOUT_RECORD = re.compile(r"About record (\d+):")
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

Answer: TypeAlias = "str | bool | float | Reply | Exception | Surrogate | Mapping[str, Any] | None"
Body: TypeAlias = "Mapping[str, Any] | str"  # JSON, or the text of an event stream


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 (users read it as a noun: answer with a Failure(429))
    """An HTTP error in place of an answer. The SDK retries some of them, unless it is told not to."""

    status: int
    message: str = "a failure that the test asked for"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The response body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Call:
    """One request that an application sent.

    `messages` are those of a chat, or the input of a decision with its `questions`; `question` is the one
    that a function is asked about. `form` is the JSON schema that the answer must have, `tool` the function
    that must be called with it.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    messages: Sequence[Message]
    question: Mapping[str, Any] | None = None
    questions: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    form: Mapping[str, Any] | None = field(default=None, repr=False)
    tool: str | None = None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model", ""))


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Part(_Strict):
    text: str


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]
    name: str | None = None


_Messages = Annotated[list[_Message], Field(min_length=1)]
_Tools = list[dict[str, Any]] | None
_Choice = Literal["none", "auto", "required"] | dict[str, Any] | None


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
    response_format: dict[str, Any] | None = None
    tools: _Tools = None
    tool_choice: _Choice = None
    functions: None = None  # what came before tools


class _Responses(_Strict):
    model: str
    input: str | _Messages
    instructions: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    stream: bool | None = None
    text: dict[str, Any] | None = None
    tools: _Tools = None
    tool_choice: _Choice = None
    background: Literal[False] | None = None
    previous_response_id: None = None  # no conversation is kept
    conversation: None = None


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


def read_call(path: str, body: Any) -> Call:
    """The call to one of the `PATHS`. Raises `Failure`."""
    by_name = path.endswith(SYSTEMONE)
    if path.endswith(DECISIONS) and isinstance(body, dict):
        by_name = "state" in body  # System One's format, at the other's address
    kinds: dict[str, type[BaseModel]] = {CHAT: _Chat, RESPONSES: _Responses}
    kind = _SystemOne if by_name else next((kinds[end] for end in kinds if path.endswith(end)), _Decisions)
    try:
        asked: Any = kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        status = 422 if by_name else 400
        raise Failure(
            status, f"{place or 'body'}: {first['msg']}", "invalid_value", param=place or None
        ) from None
    if by_name:
        state = asked.state
        if not isinstance(state, str):
            state = "\n".join(f"- {name}: {value}" for name, value in state.items())
        questions = [{**question, "name": name} for name, question in asked.questions.items()]
        return Call(path, body, _messages(state), questions=questions)
    if isinstance(asked, _Decisions):
        return Call(path, body, _messages(asked.input), questions=asked.questions)
    if isinstance(asked, _Chat):
        form = asked.response_format or {}
        tool, schema = _forced_tool(asked, lambda each: each.get("function") or {})
        form = {**form, **(form.get("json_schema") or {})}
        messages = _messages(asked.messages)
    else:
        form = (asked.text or {}).get("format") or {}
        tool, schema = _forced_tool(asked, lambda each: each)
        messages = _messages(asked.input)
        if asked.instructions:
            messages = [{"role": "system", "content": asked.instructions}, *messages]
    if (
        schema is None
        and (kind_of_text := (body.get("response_format") or form).get("type", "text")) != "text"
    ):
        if kind_of_text not in {"json_object", "json_schema"}:
            raise Failure(400, f"no text has the format {kind_of_text!r}", "invalid_value")
        schema = form.get("schema") or {}
    return Call(path, body, messages, form=schema, tool=tool)


def _forced_tool(asked: Any, function: Callable[[Any], Any]) -> tuple[str | None, Mapping[str, Any] | None]:
    """The name and the parameters of the function that must be called; None where text will do."""
    choice = asked.tool_choice
    if choice in (None, "none", "auto"):
        return None, None
    wanted = None if choice == "required" else function(choice).get("name")
    for each in map(function, asked.tools or ()):
        if each.get("name") and wanted in (None, each["name"]):
            return str(each["name"]), each.get("parameters") or {}
    raise Failure(400, "tool_choice names no function among the tools", "invalid_value", param="tool_choice")


def _messages(shown: "str | Sequence[_Message]") -> list[Message]:
    """Messages with parts of text joined; one text is the user's."""
    if isinstance(shown, str):
        return [{"role": "user", "content": shown}]
    plain: list[Message] = []
    for message in shown:
        parts = message.content
        content = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        plain.append({"role": message.role, "content": content})
        if message.name is not None:
            plain[-1]["name"] = message.name
    return plain


def respond(call: Call, answer_to: Callable[[Call], Answer]) -> Body:
    """The response body, from the answer to a call or, one after the other, to each of its questions.

    The answer to a question is P(yes), the text of a choice, a whole answer, or None for a refusal.
    Raises an answer that is an exception, and `Failure` for what cannot be answered.
    """
    if call.questions:
        return _decision_body(call, answer_to)
    answer = _raised(answer_to(call))
    if isinstance(answer, Mapping):
        return answer
    reply = (
        simulated_reply(call, answer)
        if isinstance(answer, Surrogate)
        else replace(as_reply(answer), model=call.model)
    )
    if call.form is not None and not reply.refusal and not _is_json(reply.text):
        raise Failure(400, "the answer is no JSON object, which the request asks for", "invalid_value")
    return _responses_body(call, reply) if call.path.endswith(RESPONSES) else _chat_body(call, reply)


def _raised(answer: Answer) -> Answer:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _is_json(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


def as_reply(answer: Any) -> Reply:
    """An answer as a reply; `FwcError` where it is none."""
    if isinstance(answer, Reply):
        return replace(answer, text=answer.text or "")
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, str):
        return Reply(answer, finish_reason="stop")
    if isinstance(answer, int | float) and 0 <= answer <= 1:
        p = min(max(float(answer), 1e-9), 1 - 1e-9)
        pairs = sorted([("yes", math.log(p)), ("no", math.log1p(-p))], key=lambda pair: -pair[1])
        return Reply(pairs[0][0], finish_reason="stop", logprobs=tuple(pairs))
    raise FwcError(f"{answer!r} is no answer: give text, a probability, a Reply or a Failure")


def simulated_reply(call: Call, model: Surrogate) -> Reply:
    """The surrogate's reply to a chat; temperature and seed are its own unless the request names others."""
    temperature, seed = call.body.get("temperature"), call.body.get("seed")
    answerer = Surrogate(
        model.temperature if temperature is None else temperature, model.seed if seed is None else seed
    )
    try:
        reply = answerer.reply(call.messages)
    except UnreadablePromptError as error:
        raise Failure(400, str(error), "unreadable_prompt", param="messages") from None
    if call.form is None:
        return reply
    return replace(reply, text=json.dumps(_filled(call.form, reply.text == "yes")), logprobs=None)


def _filled(schema: Mapping[str, Any], yes: bool) -> dict[str, Any]:
    """The answer in the form of a JSON schema: truth values, choices of yes and no, or a single text."""
    fields = schema.get("properties") or {"answer": {"type": "string"}}
    values: dict[str, Any] = {}
    for name, each in fields.items():
        if "$ref" in each:
            each = (schema.get("$defs") or {}).get(str(each["$ref"]).rpartition("/")[2], {})
        words = {str(word).lower(): word for word in each.get("enum") or ()}
        if each.get("type") == "boolean":
            values[name] = yes
        elif {"yes", "no"} <= set(words):
            values[name] = words["yes" if yes else "no"]
        elif each.get("type") == "string" and not words and len(fields) == 1:
            values[name] = "yes" if yes else "no"
        else:
            raise Failure(400, f"the surrogate says yes or no, which is no {name!r}", "invalid_value")
    return values


def simulated_p_yes(call: Call, question: Mapping[str, Any], model: Surrogate) -> float:
    """The simulated P(yes) of a question about an input, which is a conversation or one text."""
    messages = call.messages
    about = _ABOUT_RECORD.match(str(question.get("instructions", "")))
    if about and (parts := apart(messages[-1]["content"])) and 0 < int(about[1]) <= len(parts):
        before = messages[-1]["content"].partition("Record 1:")[0]
        part = before + parts[int(about[1]) - 1]
        messages = [*messages[:-1], {**messages[-1], "content": part}]
    if not any(message["role"] == "assistant" for message in messages):
        messages = conversation("\n\n".join(message["content"] for message in messages))
    if question.get("type") not in _P_YES:
        raise Failure(400, "the surrogate answers yes/no questions alone", "invalid_value", param="questions")
    try:
        p = model.p_yes(messages)
    except UnreadablePromptError as error:
        raise Failure(400, str(error), "unreadable_prompt", param="input") from None
    asked = str(question.get("instructions", "")).partition("\nTrue: ")[0]  # without criteria
    return 1.0 - p if _OPPOSITE.search(asked) else p


def _decision_body(call: Call, answer_to: Callable[[Call], Answer]) -> Mapping[str, Any]:
    """The answers to a call's questions; as tokens, words are counted."""
    answers, simulated = [], False
    for question in call.questions:
        answer: Any = _raised(answer_to(replace(call, question=question)))
        if isinstance(answer, Mapping) and "answers" in answer:
            return answer
        if isinstance(answer, Surrogate):
            answer, simulated = simulated_p_yes(call, question, answer), True
        answers.append(_answer_body(question, answer))
    words = sum(len(message["content"].split()) for message in call.messages)
    usage: dict[str, Any] = {
        "input_tokens": words, "output_tokens": len(answers), "total_tokens": words + len(answers),
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    named: Any = answers
    if "state" in call.body:
        named = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in answers}
    model, mark = (f"{call.model} (simulated)", SIMULATED) if simulated else (call.model, None)
    return {"answers": named, "model": model, "usage": usage, "system_fingerprint": mark}


def _answer_body(question: Mapping[str, Any], answer: Any) -> dict[str, Any]:
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
        raise Failure(400, f"a question of the type {kind!r} needs a whole answer", "invalid_value")
    return {"type": "refusal", "name": name}


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def _chat_body(call: Call, reply: Reply) -> Body:
    """The response that gives `reply` to a chat; the text of an event stream where that is asked for."""
    asked, usage = call.body, reply.usage or Usage()
    head = {
        "id": _new_id("chatcmpl"),
        "created": int(time.time()),
        "model": reply.model or call.model,
        "system_fingerprint": reply.fingerprint,
    }
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    content, refusal = (None, reply.text) if reply.refusal else (reply.text, None)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal}
    reason = reply.finish_reason
    if call.tool is not None and content is not None:
        function = {"name": call.tool, "arguments": content}
        tool = {"index": 0, "id": _new_id("call"), "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [tool]}
        reason = "tool_calls" if asked.get("tool_choice") == "required" else reason
    tokens = _tokens(reply, asked.get("top_logprobs") or 0) if asked.get("logprobs") else []
    logprobs = {"content": tokens, "refusal": None} if tokens else None
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": counts}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "logprobs": each, "finish_reason": end}]}
        for delta, each, end in [(message, logprobs, None), ({}, None, reason)]
    ]
    if (asked.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": counts})
    texts = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {text}\n\n" for text in (*texts, "[DONE]"))


def _responses_body(call: Call, reply: Reply) -> Body:
    """The response that gives `reply` in the Responses API; its event stream where that is asked for."""
    asked, usage = call.body, reply.usage or Usage()
    part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
    if "message.output_text.logprobs" in (asked.get("include") or ()):
        part["logprobs"] = _tokens(reply, asked.get("top_logprobs") or 0)
    if reply.refusal:
        part = {"type": "refusal", "refusal": reply.text}
    status = "incomplete" if reply.finish_reason in _INCOMPLETE else "completed"
    item: dict[str, Any] = {
        "type": "message", "id": _new_id("msg"), "role": "assistant", "status": status, "content": [part],
    }  # fmt: skip
    if call.tool is not None and not reply.refusal:
        item = {
            "type": "function_call", "id": _new_id("fc"), "call_id": _new_id("call"), "status": status,
            "name": call.tool, "arguments": reply.text,
        }  # fmt: skip
    body = {
        "id": _new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": _INCOMPLETE[str(reply.finish_reason)]}
        if status != "completed"
        else None,
        "model": reply.model or call.model,
        "output": [item],
        "metadata": {"system_fingerprint": reply.fingerprint} if reply.fingerprint else {},
        "instructions": asked.get("instructions"),
        "parallel_tool_calls": True,
        "temperature": asked.get("temperature"),
        "tools": asked.get("tools") or [],
        "tool_choice": asked.get("tool_choice") or "auto",
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }
    if not asked.get("stream"):
        return body
    return "".join(
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(_events(body, item, part))
    )


def _events(
    body: Mapping[str, Any], item: Mapping[str, Any], part: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The events of a response with one output item, in their order."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    at: dict[str, Any] = {"output_index": 0}
    if item["type"] == "function_call":
        name, key, value, within = "function_call_arguments", "arguments", item["arguments"], {}
        empty = {**item, "arguments": "", "status": "in_progress"}
    else:
        key = "text" if part["type"] == "output_text" else "refusal"
        name, value, within = str(part["type"]), part[key], {"content_index": 0}
        empty = {**item, "content": [], "status": "in_progress"}
    yield {"type": "response.output_item.added", **at, "item": empty}
    at |= {"item_id": item["id"], **within}
    logprobs = {"logprobs": part.get("logprobs", [])} if key == "text" else {}
    if within:
        yield {"type": "response.content_part.added", **at, "part": {**part, key: ""}}
    yield {"type": f"response.{name}.delta", **at, "delta": value, **logprobs}
    yield {"type": f"response.{name}.done", **at, key: value, **logprobs}
    if within:
        yield {"type": "response.content_part.done", **at, "part": part}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": f"response.{body['status']}", "response": body}


def _tokens(reply: Reply, top: int) -> list[dict[str, Any]]:
    """The answer's single token with its log-probability, and the likeliest `top` of both answers."""

    def entry(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    if not reply.logprobs:
        return []
    likeliest = sorted(reply.logprobs, key=lambda pair: -pair[1])[:top]
    return [{**entry(*reply.logprobs[0]), "top_logprobs": [entry(*pair) for pair in likeliest]}]
