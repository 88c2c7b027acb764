"""What is sent besides the messages: little, and nothing that the model is known to refuse."""

import re
from collections.abc import Mapping
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.models.openai.families import family_of

ANSWER_TOKENS = 20  # enough for "Yes" and for telling a refusal from it (DecodingTrust's limit)
REASONING_TOKENS = 2000  # the limit of a reasoning model includes its reasoning
TOP_LOGPROBS = 20
_FEWER_TOP_LOGPROBS = 5
_SECRET = re.compile(r"api.?key|authorization|password|secret", re.IGNORECASE)
_OURS = {"model", "messages", "stream", "n"}
_LIMITS = ("max_tokens", "max_completion_tokens")


EFFORT = "reasoning_effort"


def is_reasoning(name: str) -> bool:
    """Whether a model of this name is taken to reason before it answers (families.toml)."""
    return family_of(name).reasons


def is_known_to_reason(name: str) -> bool:
    """Whether a model of this name at OpenAI's own service surely reasons; later ones only seem to."""
    return "/" not in name and family_of(name).known


def switches_off(name: str, params: Mapping[str, Any], logprobs: bool) -> bool:
    """Whether reasoning is switched off because log-probabilities need that and the user set nothing."""
    family = family_of(name)
    return logprobs and family.reasons and family.effort_none and EFFORT not in params


def request_parameters(
    name: str, params: Mapping[str, Any], max_tokens: int | None = None, logprobs: bool = False
) -> dict[str, Any]:
    """The parameters of every request: temperature 0, a small limit, and what the user set (`params`).

    A reasoning model gets `max_completion_tokens` (its reasoning included) and no temperature, unless
    `reasoning_effort` is set to "none"; `logprobs` sets that where the model accepts it and the user set
    nothing. `store` is never set here.

    Errors: `FwcError` for a parameter that this client sets itself (model, messages, stream, n).
    """
    if secret := sorted(name for name in params if _SECRET.search(name)):
        raise FwcError(
            f"parameter {secret[0]!r} looks like a key, which a run's files would show: put the key into an "
            "environment variable and name that with --api-key-env"
        )
    if taken := sorted(_OURS & set(params)):
        raise FwcError(
            f"parameter {taken[0]!r} cannot be set: the client sets it itself; leave out --param {taken[0]}"
        )
    if max_tokens is not None and max_tokens < 1:
        raise FwcError(f"max_tokens is {max_tokens}: a reply needs at least 1")
    off = switches_off(name, params, logprobs)
    reasons = is_reasoning(name) and params.get(EFFORT) != "none" and not off
    sent: dict[str, Any] = {} if reasons else {"temperature": 0}
    if off:
        sent[EFFORT] = "none"
    if not any(limit in params for limit in _LIMITS):
        limit = _LIMITS[1] if is_reasoning(name) else _LIMITS[0]
        sent[limit] = max_tokens or (REASONING_TOKENS if reasons else ANSWER_TOKENS)
    if logprobs:
        sent |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return sent | dict(params)


def completion_limit(parameters: Mapping[str, Any]) -> int | None:
    """The most tokens that a reply can have under these parameters; None when there is no limit."""
    limits = [int(parameters[name]) for name in _LIMITS if isinstance(parameters.get(name), int)]
    return max(limits, default=None)


def adapted(parameters: Mapping[str, Any], refused: str) -> tuple[dict[str, Any], str] | None:
    """Parameters without the one that the model refuses, and what to say; None if we know no way."""
    sent = dict(parameters)
    if refused not in sent:
        return None
    value = sent.pop(refused)
    if refused == "temperature":
        return sent, "it accepts no temperature: sent without, so replies may vary"
    if refused in _LIMITS:
        other = _LIMITS[1 - _LIMITS.index(refused)]
        return sent | {other: value}, f"it takes {other} in place of {refused}: sent so"
    if refused == "top_logprobs" and value > _FEWER_TOP_LOGPROBS:
        fewer = {refused: _FEWER_TOP_LOGPROBS}
        return sent | fewer, f"it gives at most {_FEWER_TOP_LOGPROBS} top_logprobs: sent so"
    return None
