"""The two formats on the wire, OpenAI's Decisions API and System One: from questions to JSON, and back."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.models.base import Usage
from fwc_llm.models.decisions.conversation import Asked
from fwc_llm.models.openai.failures import AttemptError, Reach
from fwc_llm.untrusted import finite, whole

_MOST_TOKENS = 1_000_000_000
_ROUNDING = 1e-6  # a sum of probabilities may end this far outside of [0, 1]
_YES_OR_NO = (
    None,
    "predicate",
    "noul",
)  # types of answers whose probability is that of a yes; some name none


Answers = Mapping[str, Mapping[str, Any]]  # by the names of their questions


class Decisions:
    """`POST /v1/decisions`: questions and answers in order. `keys` are the names of P(yes) in an answer."""

    name, address, takes_roles, keys = "decisions", "/decisions", True, ("probability",)

    def body(self, model: str, asked: Asked, roles: bool) -> dict[str, Any]:
        """A predicate for every question; with `roles` the input is messages, else one text."""
        return {
            "model": model,
            "input": [dict(message) for message in asked.input] if roles else asked.text,
            "questions": [
                {"type": "predicate", "name": name, "instructions": words}
                for name, words in asked.questions.items()
            ],
        }

    def answers(self, body: Mapping[str, Any], asked: Asked) -> Answers | None:
        """By their names where all have one that was asked, else by their order."""
        found = body.get("answers")
        if not isinstance(found, list) or len(found) != len(asked.questions):
            return None
        if not all(isinstance(answer, Mapping) for answer in found):
            return None
        names = [str(answer.get("name")) for answer in found]
        in_order = names if set(names) == set(asked.questions) else list(asked.questions)
        return dict(zip(in_order, found, strict=True))


class SystemOne:
    """`POST /v1/systemone`: questions and answers by name, the state as one text."""

    name, address, takes_roles, keys = "systemone", "/systemone", False, ("noul", "probability")

    def body(self, model: str, asked: Asked, roles: bool) -> dict[str, Any]:
        """A noul for every question."""
        return {
            "model": model,
            "state": asked.text,
            "questions": {
                name: {"type": "noul", "instructions": words} for name, words in asked.questions.items()
            },
        }

    def answers(self, body: Mapping[str, Any], asked: Asked) -> Answers | None:
        """By name."""
        found = body.get("answers")
        if not isinstance(found, Mapping):
            return None
        named = {name: found.get(name) for name in asked.questions}
        answers = {name: answer for name, answer in named.items() if isinstance(answer, Mapping)}
        return answers if len(answers) == len(named) else None


FORMATS: Mapping[str, Decisions | SystemOne] = {"decisions": Decisions(), "systemone": SystemOne()}


def p_yes(answer: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    """P(yes) in an answer, or None for a refusal. Raises `AttemptError` where it is no probability."""
    if answer.get("type") == "refusal" or answer.get("refusal"):
        return None
    kind = answer.get("type")
    if kind not in _YES_OR_NO:
        raise AttemptError(Reach.UNCLEAR, f"an answer that is no P(yes) (its type is {_said(kind)})", 200)
    given = next((answer[key] for key in keys if key in answer), None)
    value = finite(given)
    if value is None or not -_ROUNDING <= value <= 1.0 + _ROUNDING:
        sent = any(key in answer for key in keys)  # NaN and what no float can hold arrive as None
        said = (
            f"it is {_said(given)}" if given is not None else "it is no number" if sent else "there is none"
        )
        raise AttemptError(Reach.UNCLEAR, f"an answer without a probability from 0 to 1 ({said})", 200)
    return min(abs(max(value, 0.0)), 1.0)  # not -0.0


def read_usage(usage: Any) -> Usage | None:
    """Token counts, each 0 where the service sends no such number; None when it sends none at all."""
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("input_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    counts = usage.get("input_tokens"), usage.get("output_tokens"), cached
    return Usage(*(whole(count, _MOST_TOKENS) or 0 for count in counts))


def _said(value: Any) -> str:
    """A value as JSON would tell it apart: a text in quotes."""
    return repr(value)[:40]
