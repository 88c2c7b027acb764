"""The server's side of Chat Completions, Responses, Decisions and System One.

A parameter that would change the answer is honoured, or refused with status 400; others are ignored.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from fwc_llm.models.base import SIMULATED, Message, Reply, Usage
from fwc_llm.models.decisions import conversation
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.prompt_reader import UnreadablePromptError, apart

PATHS = CHAT, RESPONSES, DECISIONS, SYSTEMONE = "/chat/completions", "/responses", "/decisions", "/systemone"
_P_YES = {"predicate": "probability", "noul": "noul"}  # type of a yes/no question: the key of P(yes)
# The surrogate can answer one question, and takes every yes/no question for it. A question that matches this
# pattern is taken for its negation.
_OPPOSITE = re.compile(r"(?<!yes or )\b(?:no|not)\b(?!-)|\bor less\b", re.IGNORECASE)
_ABOUT_RECORD = re.compile(r"About record (\d+):")
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

Body: TypeAlias = "Mapping[str, Any] | str"  # JSON, or the text of an event stream


@dataclass(eq=False)
class Failure(Exception):  # noqa: N818 (users read it as a noun: answer with a Failure(429))
    """An HTTP error instead of an answer; the SDK retries some of them, by default."""

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


def _invalid(message: str, param: str | None = None) -> Failure:
    return Failure(400, message, "invalid_value", param=param)


@dataclass(frozen=True)
class Call:
    """One request of an application.

    `messages` are those of a chat, or the input of the decision `questions`; `question` is the question to
    answer now. `form` is the JSON schema required for the answer. `tool` is the function that the answer must
    call with it. `choice` is the answer's index, from 0, if a chat asks for `n` answers.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    messages: Sequence[Message]
    question: Mapping[str, Any] | None = None
    questions: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    form: Mapping[str, Any] | None = field(default=None, repr=False)
    tool: str | None = None
    choice: int = 0

    @property
    def model(self) -> str:
        """The requested model's name."""
        return str(self.body.get("model", ""))


class _ContentPart(BaseModel, strict=True):
    text: str


def _joined(content: str | list[_ContentPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


class _InputMessage(BaseModel, strict=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str | list[_ContentPart], AfterValidator(_joined)]
    name: str | None = None


_Messages = Annotated[list[_InputMessage], Field(min_length=1)]


class _Schema(BaseModel, extra="allow"):
    """A part of a request that may hold a JSON schema, or the schema itself."""

    type: str | list[str] | None = None
    name: str | None = None
    enum: list[Any] | None = None
    properties: "dict[str, _Schema] | None" = None
    defs: Annotated["dict[str, _Schema] | None", Field(alias="$defs")] = None
    schema_: Annotated["_Schema | None", Field(alias="schema")] = None
    parameters: "_Schema | None" = None
    function: "_Schema | None" = None
    format: "_Schema | None" = None
    json_schema: "_Schema | None" = None


def _has_form(value: dict[str, Any]) -> dict[str, Any]:
    _Schema.model_validate(value)
    return value


_Form = Annotated[dict[str, Any], AfterValidator(_has_form)]


class _Asked(BaseModel, strict=True):
    model: str
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[_Form] | None = None
    tool_choice: Literal["none", "auto", "required"] | _Form | None = None


class _Chat(_Asked):
    input: Annotated[_Messages, Field(alias="messages")]
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stream: bool | None = None
    seed: int | None = None
    logprobs: bool | None = None
    stream_options: dict[str, Any] | None = None
    response_format: _Form | None = None
    functions: None = None  # replaced by `tools`


class _Responses(_Asked):
    input: str | _Messages
    instructions: str | None = None
    include: list[str] | None = None
    text: _Form | None = None
    stream: Literal[False] | None = None
    background: Literal[False] | None = None
    previous_response_id: None = None  # the server stores no conversations
    conversation: None = None


class _Question(BaseModel, strict=True, extra="allow"):
    instructions: str


class _Decisions(BaseModel, strict=True):
    model: str
    input: str | _Messages
    questions: Annotated[list[_Question], Field(min_length=1, max_length=400)]


class _SystemOne(BaseModel, strict=True):
    model: str
    input: Annotated[str | dict[str, Any], Field(alias="state")]
    questions: Annotated[dict[str, _Question], Field(min_length=1)]


_BODIES: dict[str, type[BaseModel]] = dict(
    zip(PATHS, (_Chat, _Responses, _Decisions, _SystemOne), strict=True)
)


def read_call(path: str, content: bytes) -> Call:
    """Parse a request to one of the `PATHS`; `Failure` for an invalid request."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise Failure(400, "We could not parse the JSON body of your request") from None
    interface = next(end for end in PATHS if path.endswith(end))
    if interface == DECISIONS and isinstance(body, dict) and "state" in body:
        interface = SYSTEMONE  # the System One format, sent to /decisions
    try:
        parsed: Any = _BODIES[interface].model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        failure = _invalid(f"{where or 'body'}: {first['msg']}", where or None)
        raise replace(failure, status=422) if interface == SYSTEMONE else failure from None
    given = parsed.input
    if isinstance(given, dict):
        given = "\n".join(f"- {name}: {value}" for name, value in given.items())
    if isinstance(given, str):
        messages: list[Any] = [{"role": "user", "content": given}]
    else:
        messages = [message.model_dump(exclude_none=True) for message in given]
    if interface in (DECISIONS, SYSTEMONE):
        asked = body["questions"]
        if interface == SYSTEMONE:
            asked = [{**question, "name": name} for name, question in asked.items()]
        return Call(path, body, messages, questions=asked)
    if body.get("instructions"):
        messages.insert(0, {"role": "system", "content": body["instructions"]})
    tool, schema = _forced_tool(parsed)
    form = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    if schema is None and (kind := form.get("type", "text")) != "text":
        if kind not in ("json_object", "json_schema"):
            raise _invalid(f"no text has the format {kind!r}")
        schema = (form.get("json_schema") or form).get("schema") or {}
    return Call(path, body, messages, form=schema, tool=tool)


def _forced_tool(parsed: _Asked) -> tuple[str | None, Mapping[str, Any] | None]:
    """(name, parameters) of the function that must be called, or (None, None)."""
    if parsed.tool_choice in (None, "none", "auto"):
        return None, None
    choice = {} if isinstance(parsed.tool_choice, str) else parsed.tool_choice or {}
    wanted = (choice.get("function") or choice).get("name")
    for each in parsed.tools or ():
        tool = each.get("function") or each  # the Responses API does not nest it
        if tool.get("name") and wanted in (None, tool["name"]):
            return str(tool["name"]), tool.get("parameters") or {}
    raise _invalid("tool_choice names no function among the tools", "tool_choice")


def respond(call: Call, answer_to: Callable[[Call], Reply | Mapping[str, Any]]) -> Body:
    """Build the response body from `answer_to`, called for each answer of `call`.

    A mapping is taken unchanged, as the whole body or the answer to one question.
    """
    if call.questions:
        return _decision_body(call, answer_to)
    replies = []
    for choice in range(call.body.get("n") or 1):
        reply = answer_to(replace(call, choice=choice))
        if isinstance(reply, Mapping):
            return reply
        if call.form is not None and not reply.refusal and not _is_json(reply.text):
            raise _invalid("the answer is not a JSON object, which the request asks for")
        replies.append(reply)
    if call.path.endswith(RESPONSES):
        return _responses_body(call, replies[0])
    return chat_body(call, *replies)


def encoded(body: Body) -> tuple[str, bytes]:
    """(content type, content) of a response."""
    if isinstance(body, str):
        return "text/event-stream", body.encode()
    return "application/json", json.dumps(dict(body)).encode()


def _is_json(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


def simulated(model: Surrogate, call: Call) -> Reply:
    """The surrogate's reply to a chat or question; a chat may set temperature and seed."""
    try:
        if call.question is not None:
            p = _simulated_p_yes(call, call.question, model)
            return Reply("", p_yes=p, model=f"{model.name} (simulated)", fingerprint=SIMULATED)
        temperature, seed = call.body.get("temperature"), call.body.get("seed")
        reply = Surrogate(
            model.temperature if temperature is None else temperature,
            (model.seed if seed is None else seed) + call.choice,
            model.form,
        ).reply(call.messages)
    except UnreadablePromptError as error:
        where = "messages" if call.question is None else "input"
        raise Failure(400, str(error), "unreadable_prompt", param=where) from None
    if call.form is None:
        return reply
    said = reply.text in ("yes", "Yes")
    texts = [json.dumps(_filled(call.form, yes)) for yes in (said, not said)]
    begin = next(index for index, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1])
    words = (text[begin:].rstrip('"}') for text in texts)  # from the first differing character on
    logprobs = [(word, logprob) for word, (_, logprob) in zip(words, reply.logprobs or (), strict=False)]
    return replace(reply, text=texts[0], logprobs=tuple(logprobs) or None)


def _filled(schema: Mapping[str, Any], yes: bool) -> dict[str, Any]:
    """Fill a JSON schema with the answer; `Failure` for fields that it does not fit."""
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
            raise _invalid(f"the surrogate says yes or no, which is no {name!r}")
    return values


def _simulated_p_yes(call: Call, question: Mapping[str, Any], model: Surrogate) -> float:
    """The simulated P(yes) of a question about a call's input."""
    messages, instructions = call.messages, str(question.get("instructions", ""))
    about = _ABOUT_RECORD.match(instructions)
    if about and (parts := apart(messages[-1]["content"])) and 0 < int(about[1]) <= len(parts):
        before = messages[-1]["content"].partition("Record 1:")[0]
        part = before + parts[int(about[1]) - 1]
        messages = [*messages[:-1], {**messages[-1], "content": part}]
    if not any(message["role"] == "assistant" for message in messages):
        messages = conversation("\n\n".join(message["content"] for message in messages))
    p = model.p_yes(messages)
    return 1.0 - p if _OPPOSITE.search(instructions.partition("\nTrue: ")[0]) else p  # ignores the criteria


def _decision_body(call: Call, answer_to: Callable[[Call], Reply | Mapping[str, Any]]) -> Mapping[str, Any]:
    """The response body with answers to all questions of a call; `usage` counts words."""
    answers, model, fingerprint = [], call.model, None
    for question in call.questions:
        kind, name = question.get("type"), question.get("name")
        answer = answer_to(replace(call, question=question))
        if isinstance(answer, Mapping):
            if "answers" in answer:
                return answer
            answers.append({"type": kind, "name": name, **answer})
            continue
        if kind not in tuple(_P_YES):
            raise _invalid(f"{kind!r} is not a type of yes/no question: it needs a whole answer", "questions")
        value = {"type": "refusal"} if answer.p_yes is None else {_P_YES[kind]: round(answer.p_yes, 6)}
        answers.append({"type": kind, "name": name, **value})
        model, fingerprint = answer.model or model, answer.fingerprint
    words = sum(len(message["content"].split()) for message in call.messages)
    usage = _counts(Usage(words, len(answers)), "input", "output")
    by_name: Any = {each.pop("name"): each for each in answers} if "state" in call.body else answers
    return {"answers": by_name, "model": model, "usage": usage, "system_fingerprint": fingerprint}


def _counts(usage: Usage, prompt: str, completion: str) -> dict[str, Any]:
    """The `usage` object, with the interface's names `prompt` and `completion`."""
    return {
        f"{prompt}_tokens": usage.prompt_tokens, f"{completion}_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        f"{prompt}_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        f"{completion}_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def chat_body(call: Call, *replies: Reply) -> Body:
    """The response body with `replies` to a chat, or its event stream."""
    request, usage = call.body, replies[0].usage or Usage()
    completion = sum((reply.usage or Usage()).completion_tokens for reply in replies)
    counts = _counts(replace(usage, completion_tokens=completion), "prompt", "completion")
    head = {
        "id": _new_id("chatcmpl"), "created": int(time.time()), "model": replies[0].model or call.model,
        "system_fingerprint": replies[0].fingerprint,
    }  # fmt: skip
    choices = [_choice(call, reply, index) for index, reply in enumerate(replies)]
    if not request.get("stream"):
        return {**head, "object": "chat.completion", "choices": choices, "usage": counts}
    chunks: list[dict[str, Any]] = []
    for choice in choices:
        begun = {**choice, "delta": choice.pop("message"), "finish_reason": None}
        del begun["message"]
        chunks += [{"choices": [begun]}, {"choices": [{**choice, "delta": {}, "logprobs": None}]}]
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": counts})
    texts = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {text}\n\n" for text in (*texts, "[DONE]"))


def _choice(call: Call, reply: Reply, index: int) -> dict[str, Any]:
    """One of the `choices` in the response to a chat."""
    request = call.body
    content, refusal = (None, reply.text) if reply.refusal else (reply.text, None)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": refusal}
    reason = reply.finish_reason
    if call.tool is not None and content is not None:
        function = {"name": call.tool, "arguments": content}
        tool = {"index": 0, "id": _new_id("call"), "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [tool]}
        reason = "tool_calls" if request.get("tool_choice") == "required" else reason
    tokens = _tokens(call, reply) if request.get("logprobs") else []
    logprobs = {"content": tokens, "refusal": None} if tokens else None
    return {"index": index, "logprobs": logprobs, "finish_reason": reason, "message": message}


def _responses_body(call: Call, reply: Reply) -> Body:
    """The response body with `reply` for the Responses API."""
    request = call.body
    part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
    if "message.output_text.logprobs" in (request.get("include") or ()):
        part["logprobs"] = _tokens(call, reply)
    if reply.refusal:
        part = {"type": "refusal", "refusal": reply.text}
    reason = _INCOMPLETE.get(str(reply.finish_reason))
    status = "incomplete" if reason else "completed"
    item: dict[str, Any] = {
        "type": "message", "id": _new_id("msg"), "role": "assistant", "status": status, "content": [part],
    }  # fmt: skip
    if call.tool is not None and not reply.refusal:
        item = {
            "type": "function_call", "id": _new_id("fc"), "call_id": _new_id("call"), "status": status,
            "name": call.tool, "arguments": reply.text,
        }  # fmt: skip
    return {
        "id": _new_id("resp"), "object": "response", "created_at": int(time.time()), "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": reply.model or call.model, "output": [item],
        "metadata": {"system_fingerprint": reply.fingerprint} if reply.fingerprint else {},
        "instructions": request.get("instructions"), "parallel_tool_calls": True,
        "temperature": request.get("temperature"), "tools": request.get("tools") or [],
        "tool_choice": request.get("tool_choice") or "auto",
        "usage": _counts(reply.usage or Usage(), "input", "output"),
    }  # fmt: skip


def _tokens(call: Call, reply: Reply) -> list[dict[str, Any]]:
    """Log-probability entries of the answer, and of the JSON around it."""

    def entry(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    if not reply.logprobs:
        return []
    answer, top = reply.logprobs[0], call.body.get("top_logprobs") or 0
    likeliest = sorted(reply.logprobs, key=lambda pair: -pair[1])[:top]
    tokens = [{**entry(*answer), "top_logprobs": [entry(*pair) for pair in likeliest]}]
    if call.form is not None and answer[0] in (reply.text or ""):
        before, _, after = (reply.text or "").rpartition(answer[0])
        around = [{**entry(text, 0.0), "top_logprobs": [entry(text, 0.0)][:top]} for text in (before, after)]
        tokens = [around[0], *tokens, around[1]]
    return tokens
