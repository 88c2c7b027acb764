"""Reads a service's response into a `Reply`: chat completions, the Responses API, and lines of a
batch.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fwc_llm.models.base import FILTERED, Reply, Usage, ending_of
from fwc_llm.models.openai.retry import body_failure, http_failure
from fwc_llm.sanitize import (
    Fields,
    list_of,
    mapping_of,
    parse_finite,
    parse_json,
    parse_uint,
    truncate,
)

RESPONSE_FORMAT = "response_format"
FORM = "fwc_llm_answer"  # name of the JSON schema of an answer
# The text before the answer's first letter. llama.cpp's grammar allows a code fence around the
# object.
_JSON_ANSWER = re.compile(r'\s*(?:```(?:json)?\s*)?\{\s*"answer"\s*:\s*"')
_END_OF_REASONING = "</think>"
_REASONING = re.compile(
    "think|reason", re.IGNORECASE
)  # types of parts that are no answer
_WAITS = re.compile(
    "(?:function|custom_tool|computer|(?:local_)?shell|apply_patch)_call$"
)
_BLOCKED = re.compile(r"block|filter|prohibit|safety", re.IGNORECASE)
_LONGEST_NAME = 200  # characters of a token or a model's name
_MOST_LOGPROBS = 100
_MOST_TOKENS = 1_000_000_000  # of one request; a larger count is invalid
_LONGEST_ANSWER = 12  # tokens of one word


@dataclass
class _Said:
    """What a response says, wherever it says it."""

    text: str = ""
    refusal: bool = False
    finish: str | None = None
    reasoned: bool = False


def read_reply(body: Any, latency: float = 0.0) -> Reply:
    """The reply in a response of chat completions or of the Responses API; else `AttemptError`.

    The text of a reply that ended by an unknown word is None, and its `finish_reason` is the word.
    """
    choice = _first_choice(body)
    message = choice.get("message")
    content = mapping_of(body)
    if failure := content.get("error") or choice.get("error"):
        raise body_failure({"error": failure})  # whatever stands beside it
    if isinstance(message, Mapping):
        azure = _is_filtered(choice.get("content_filter_results"))
        finish = FILTERED if azure else _word_in(choice, "finish_reason")
        reply = _said([{**message, "type": "message"}], finish)
    elif isinstance(content.get("output"), list):
        cut = _word_in(mapping_of(content.get("incomplete_details")), "reason")
        reply = _said(content["output"], cut or _word_in(content, "status"))
    elif _is_blocked(content):
        reply = _Said(finish=FILTERED)
    else:
        raise body_failure(body)
    refuses = reply.refusal or reply.finish == "refusal"
    unfinished = not refuses and ending_of(reply.finish) == "unfinished"
    why = f"the service broke off its reply (finish_reason {reply.finish!r})"
    return Reply(
        text=None if unfinished else truncate(reply.text),
        error=why if unfinished else None,
        finish_reason=reply.finish,
        refusal=refuses,
        reasoned=reply.reasoned,
        logprobs=None
        if refuses or unfinished
        else _logprobs(choice.get("logprobs"), reply.text),
        usage=_usage_in(body, bool(reply.text)),
        model=name_in(body, "model"),
        fingerprint=name_in(body, "system_fingerprint"),
        latency=latency,
        raw=body,
    )


def read_batch_line(line: Fields) -> Reply:
    """The reply in a line of a batch's result file; `AttemptError` if it has none."""
    response = mapping_of(line.get("response"))
    status = parse_uint(response.get("status_code"), 600) or 200
    body = response.get("body")
    error = line.get("error")
    if error:  # the service did not process the request
        status = 400
        body = {"error": error}
    if status == 200:
        return read_reply(body)
    failure = http_failure(status, body, {})
    if failure.filtered:
        return Reply("", finish_reason=FILTERED)
    raise failure


def _said(items: list[Any], finish: str | None) -> _Said:
    """What a response says in its items: those of the Responses API, or the message of a chat."""
    reply = _Said(finish=finish)
    for item in map(mapping_of, items):
        kind = str(item.get("type"))
        if kind == "message":
            _add_parts(reply, item.get("content"))
            _add_parts(reply, {"refusal": item.get("refusal")})
        thoughts = item.get("reasoning_content") or item.get("reasoning")
        reply.reasoned |= bool(thoughts or _REASONING.search(kind))
        calls = (
            item.get("tool_calls") or item.get("function_call") or _WAITS.match(kind)
        )
        reply.refusal |= bool(calls)
    return reply


def _add_parts(reply: _Said, content: Any) -> None:
    """Add a text, a part or a list of parts; without another text, that of a refusal."""
    for part in content if isinstance(content, list) else [content]:
        part = {"text": part} if isinstance(part, str) else mapping_of(part)
        if _REASONING.search(str(part.get("type"))):
            continue
        text = part.get("text")
        refusal = part.get("refusal")
        reply.text += text if isinstance(text, str) else ""
        if refusal:
            reply.refusal = True
            reply.text = reply.text or (refusal if isinstance(refusal, str) else "")


def _first_choice(body: Any) -> Fields:
    """The choice of the lowest index in a response; an empty one without choices."""
    choices = map(mapping_of, list_of(mapping_of(body).get("choices")))
    return min(
        choices, key=lambda choice: parse_uint(choice.get("index")) or 0, default={}
    )


def _is_blocked(body: Fields) -> bool:
    """Whether a response without a reply says that a filter blocked the prompt."""
    feedback = mapping_of(body.get("prompt_feedback") or body.get("promptFeedback"))
    word = str(_word_in(body, "finish_reason"))
    blocked = _BLOCKED.search(word) or _is_filtered(body.get("prompt_filter_results"))
    return bool(feedback.get("block_reason") or feedback.get("blockReason") or blocked)


def _is_filtered(results: Any) -> bool:
    """Whether Azure's results of content filters name one that filtered."""
    return '"filtered": true' in json.dumps(results)


def _word_in(part: Fields, field: str) -> str | None:
    """A word in a field; one of another type as it would be printed, and None for a blank."""
    value = part.get(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return truncate(value if isinstance(value, str) else repr(value), _LONGEST_NAME)


def asks_json(parameters: Fields) -> bool:
    """Whether these parameters enforce an answer in JSON."""
    form = mapping_of(parameters.get(RESPONSE_FORMAT))
    return bool(mapping_of(form.get("json_schema")).get("name") == FORM)


def json_answer(text: str) -> Any:
    """The answer in a JSON reply; None without one."""
    try:
        return mapping_of(parse_json(text)).get("answer")
    except ValueError:
        return None


def _usage_in(body: Any, has_text: bool) -> Usage | None:
    usage = body.get("usage")
    by_chat = read_usage(usage, "prompt_tokens", "completion_tokens", has_text)
    return by_chat or (
        read_usage(usage, "input_tokens", "output_tokens", has_text)
        if "output" in body
        else None
    )


def read_usage(
    usage: Any, prompt: str, completion: str, has_text: bool = False
) -> Usage | None:
    """Counts in `usage` under these names; None if one of them is not known.

    A prompt has tokens, and so has a reply that `has_text`: 0 is then unknown, too. Tokens of
    reasoning, and those in the total that are in neither count, were written by the model.
    """
    usage = mapping_of(usage)
    prompt_tokens = parse_uint(usage.get(prompt), _MOST_TOKENS)
    completion_tokens = parse_uint(usage.get(completion), _MOST_TOKENS)
    total = parse_uint(usage.get("total_tokens"), _MOST_TOKENS) or 0
    if (
        not prompt_tokens
        or completion_tokens is None
        or (has_text and not completion_tokens)
    ):
        return None
    details = mapping_of(usage.get(f"{prompt}_details"))
    cached = (
        parse_uint(details.get("cached_tokens"), prompt_tokens + 1) or 0
    )  # else at the full price
    written = parse_uint(
        details.get("cache_write_tokens") or 0, prompt_tokens - cached + 1
    )
    if written is None:
        return None
    of_reply = mapping_of(usage.get(f"{completion}_details"))
    reasoning = parse_uint(of_reply.get("reasoning_tokens"), _MOST_TOKENS) or 0
    most = max(completion_tokens, total - prompt_tokens, reasoning)
    return Usage(prompt_tokens, most, cached, written)


def name_in(body: Fields, field: str) -> str | None:
    """The text in a field of a service's response, shortened; None for other values."""
    value = body.get(field)
    if isinstance(value, str):
        return truncate(value, _LONGEST_NAME)
    return None


def _logprobs(logprobs: Any, text: str) -> tuple[tuple[str, float], ...] | None:
    """The words that may begin the answer, with their log-probabilities; None without an answer.

    The answer begins at the first letter after any reasoning; in JSON, at the first letter of the
    value of "answer", and the tokens lose their part before it. A word is followed along the tokens
    that the model chose, however it is split: "Y" and "ES" are the word "YES".
    """
    positions = list(map(mapping_of, list_of(mapping_of(logprobs).get("content"))))
    tokens = [
        str(position.get("token") or "")[:_LONGEST_NAME] for position in positions
    ]
    written = "".join(tokens)
    start = len("".join(written.rpartition(_END_OF_REASONING)[:2]))
    opened = _JSON_ANSWER.match(written, start)
    if json_answer(text) is not None and not opened:
        return None
    if _letters(text) not in _letters(written):  # the tokens are of another text
        return None
    letters = (
        index for index in range(start, len(written)) if written[index].isalpha()
    )
    answer = opened.end() if opened else next(letters, len(written))
    end = 0
    for index, token in enumerate(tokens):
        begin = end
        end = end + len(token)
        if end > answer:
            before = token[: answer - begin] if opened else ""
            return tuple(_words(positions[index:], tokens[index:], before)) or None
    return None


def _letters(text: str) -> str:
    """The ASCII letters and digits of a text: tokenizers write spaces and others in their own
    ways.
    """
    return re.sub("[^a-z0-9]", "", text.casefold())


def _words(
    positions: Sequence[Fields], tokens: Sequence[str], before: str
) -> Iterator[tuple[str, float]]:
    """Yield the words at the first position; that of the chosen tokens is followed to its end."""
    chosen = ""
    so_far = 0.0
    for index in range(min(len(tokens), _LONGEST_ANSWER)):
        token = tokens[index].removeprefix(before)
        goes_on = index + 1 < len(tokens) and tokens[index + 1][:1].isalpha()
        followed: float | None = None
        for other, logprob in _top_tokens(positions[index].get("top_logprobs"), before):
            if other == token and goes_on:
                followed = logprob
            else:
                yield chosen + other, so_far + logprob
        if followed is None:
            return
        before = ""
        chosen = chosen + token
        so_far = so_far + followed


def _top_tokens(top: Any, before: str) -> Iterator[tuple[str, float]]:
    """Yield (token, log-probability) of tokens that begin with `before`, without it."""
    for entry in map(mapping_of, list_of(top)[:_MOST_LOGPROBS]):
        logprob = parse_finite(entry.get("logprob"))
        token = str(entry.get("token"))[:_LONGEST_NAME]
        if logprob is not None and token.startswith(before):
            yield token.removeprefix(before), logprob
