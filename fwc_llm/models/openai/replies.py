"""From the JSON of a chat completion to a `Reply`: nothing optional is relied upon."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.models.base import Reply, Usage
from fwc_llm.models.openai.failures import body_failure
from fwc_llm.untrusted import finite, shortened, whole

_LONGEST_TOKEN = 200  # characters
_LONGEST_NAME = 200
_MOST_LOGPROBS = 100
_MOST_TOKENS = 1_000_000_000  # of one request; a count beyond is none


def read_reply(body: Any, attempts: int = 1, latency: float = 0.0) -> Reply:
    """The reply in a chat-completions response body.

    Errors: `AttemptError` when the body is no completion (an error object, HTML, no choices).
    """
    choices = body.get("choices") if isinstance(body, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if choice is None or not isinstance(message, Mapping):
        raise body_failure(body)
    refusal = message.get("refusal")
    text = _text(message.get("content")) or (refusal if isinstance(refusal, str) else "")
    return Reply(
        text=shortened(text),
        finish_reason=_string(choice.get("finish_reason")),
        refusal=bool(refusal),
        logprobs=_logprobs(choice.get("logprobs")),
        usage=read_usage(body.get("usage")),
        model=_string(body.get("model")),
        fingerprint=_string(body.get("system_fingerprint")),
        attempts=attempts,
        latency=latency,
        raw=body,
    )


def read_usage(usage: Any) -> Usage | None:
    """Token counts, each 0 where the service sends no such number; None when it sends none at all."""
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _count(value: Any) -> int:
    return whole(value, _MOST_TOKENS) or 0


def _string(value: Any) -> str | None:
    return shortened(value, _LONGEST_NAME) if isinstance(value, str) else None


def _text(content: Any) -> str:
    """The message's text; some servers send a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return ""


def _logprobs(logprobs: Any) -> tuple[tuple[str, float], ...] | None:
    """The top tokens where the answer begins: at the first token that holds a letter."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        return None
    for position in content:
        if isinstance(position, Mapping) and any(
            letter.isalpha() for letter in str(position.get("token") or "")[:_LONGEST_TOKEN]
        ):
            top = position.get("top_logprobs")
            pairs = [
                (str(each.get("token"))[:_LONGEST_TOKEN], logprob)
                for each in (top[:_MOST_LOGPROBS] if isinstance(top, list) else [])
                if isinstance(each, Mapping) and (logprob := finite(each.get("logprob"))) is not None
            ]
            return tuple(pairs) or None
    return None
