"""From a reply to yes, no or a reason why it is neither (docs/protocol.md, "Parsing").

The first run of letters decides, in any case; never a substring ("I cannot" is no "no"). A reply that holds
both words is ambiguous. What is not parsed is kept apart by reason, because refusals are not random.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fwc_llm.models.base import Reply

Reason = Literal["", "refused", "truncated", "filtered", "empty", "ambiguous", "other", "error"]

# Providers list at most 20 tokens; one that is not listed has at most 1/20. Below that mass of yes and no, a
# spelling that was cut off could turn P(yes) over.
LEAST_MASS = 0.05
_WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+")  # letters with their accents
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|unable to|cannot|(?:can|won)['’]?t"
    r"|i (?:could|would|will|do|am)\s?(?:not|n['’]t)|i['’]m not|as an? (?:ai|artificial|language|large))\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(r'\s*\{\s*"answer"\s*:\s*"\w+"\s*\}\s*')
_TOKEN = re.compile(r"[^\w]*Ġ?[^\w]*(yes|no)[^\w]*", re.IGNORECASE)


@dataclass(frozen=True)
class Answer:
    """A parsed reply: `value` "yes" or "no", or None with the `reason`."""

    value: Literal["yes", "no"] | None
    reason: Reason = ""


def parse_answer(reply: Reply) -> Answer:
    """The answer in `reply`.

    Reasons: error (no reply at all), refused, filtered (by the provider), empty, truncated (cut off before an
    answer), ambiguous (yes and no), other.
    """
    if reply.text is None:
        return Answer(None, "error")
    if reply.refusal:
        return Answer(None, "refused")
    if reply.finish_reason == "content_filter":
        return Answer(None, "filtered")
    truncated = reply.finish_reason == "length"
    words = [word.lower() for word in _WORD.findall(reply.text)]
    if _OBJECT.fullmatch(reply.text):
        words = words[1:]
    if not words and not reply.text.strip():
        return Answer(None, "truncated" if truncated else "empty")
    if {"yes", "no"} <= set(words):
        return Answer(None, "ambiguous")
    if words and words[0] == "yes":
        return Answer("yes")
    if words and words[0] == "no":
        return Answer("no")
    if _REFUSAL.search(reply.text):
        return Answer(None, "refused")
    return Answer(None, "truncated" if truncated else "other")


def probability(reply: Reply) -> float | None:
    """P(yes) of a reply, in [0, 1]: by its log-probabilities, else what the model itself says; or None."""
    if reply.logprobs:
        return p_yes(reply.logprobs)
    p = reply.p_yes
    return abs(p) if p is not None and 0.0 <= p <= 1.0 else None  # no -0.0, which CSV takes for a formula


def p_yes(logprobs: Iterable[tuple[str, float]] | None) -> float | None:
    """P(yes), in [0, 1], from `logprobs`: (token, natural-log probability) pairs of the first answer token.

    The probability of all spellings of yes (" Yes", "yes.", "▁YES") over that of all spellings of yes and
    no. None where both together have less than `LEAST_MASS`: of what the model almost never says, the part
    that is yes says nothing about its answer (docs/statistics.md, "P(yes)").
    """
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in logprobs or ():
        if (spelling := _TOKEN.fullmatch(token)) and not math.isnan(logprob):
            mass[spelling[1].lower()] += math.exp(min(logprob, 0.0))
    total = mass["yes"] + mass["no"]
    return mass["yes"] / total if total >= LEAST_MASS else None
