"""From what a user's function returned to a `Reply` that a journal can hold."""

import json
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from fwc_llm.models.base import Reply, Usage
from fwc_llm.untrusted import finite, shortened, storable, visible

_LONGEST_ERROR = 300
_WANTED = "a function must return text, P(yes) from 0 to 1, or a Reply"


def read_answer(answer: Any) -> Reply:
    """What a function returned, as a reply; what it should not have returned is an error in words."""
    if isinstance(answer, Reply):
        return _checked(answer)
    if isinstance(answer, str):
        return Reply(text=shortened(storable(answer)))
    probability = _number(answer)
    if probability is None:
        return Reply(text=None, error=f"it returned {kind(answer)}: {_WANTED}")
    if not 0.0 <= probability <= 1.0:  # NaN fails too
        return Reply(text=None, error=f"it returned {probability:g}, which is no probability: {_WANTED}")
    return Reply(text="yes" if probability >= 0.5 else "no", p_yes=probability)


def _number(value: Any) -> float | None:
    """A real number, numpy's among them, as a float; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return float("inf")


def _checked(reply: Reply) -> Reply:
    """The reply with what a journal can hold; its text must be text or missing."""
    if reply.text is not None and not isinstance(reply.text, str):
        return Reply(text=None, error=f"it returned a Reply whose text is {kind(reply.text)}")
    try:
        json.dumps(reply.raw, default=str)
        raw = reply.raw
    except (TypeError, ValueError, RecursionError):
        raw = None
    try:
        pairs = [(str(token), finite(value)) for token, value in reply.logprobs or ()]
    except (TypeError, ValueError):
        return Reply(text=None, error="it returned a Reply whose logprobs are not pairs of token and number")
    if reply.p_yes is not None and not _is_probability(reply.p_yes):
        return Reply(text=None, error="it returned a Reply whose p_yes is no probability")
    known = tuple((storable(token), value) for token, value in pairs if value is not None)
    usage = reply.usage if isinstance(reply.usage, Usage) and _counts(reply.usage) else None
    text = None if reply.text is None else shortened(storable(reply.text))
    error = "it gave no text and no reason" if text is None and not reply.error else reply.error
    return replace(
        reply,
        text=text,
        error=None if error is None else one_line(str(error)),
        finish_reason=_text(reply.finish_reason),
        refusal=bool(reply.refusal),
        logprobs=known or None,
        p_yes=None if reply.p_yes is None else float(reply.p_yes),
        others=_others(reply.others),
        usage=usage,
        model=_text(reply.model),
        fingerprint=_text(reply.fingerprint),
        attempts=_whole(reply.attempts),
        latency=finite(reply.latency) or 0.0,
        raw=raw,
    )


def _is_probability(value: Any) -> bool:
    number = _number(value)
    return number is not None and 0.0 <= number <= 1.0


def _others(value: Any) -> dict[str, float | None] | None:
    if not isinstance(value, Mapping):
        return None
    return {str(k): float(p) if _is_probability(p) else None for k, p in value.items()} or None


def _text(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def _counts(usage: Usage) -> bool:
    return all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in vars(usage).values())


def one_line(text: str) -> str:
    """What code of others says, on one line of bounded length that a terminal can show."""
    line = " ".join(shortened(text, 10 * _LONGEST_ERROR).split())
    return shortened(visible(storable(line)), _LONGEST_ERROR)


def kind(value: Any) -> str:
    """A value's type with an article; never its content, which may be anything."""
    if value is None:
        return "nothing (None)"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
