"""The decisions protocol from the server's side: typed questions about an input, each with its answer."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.answers import p_yes, parse_answer
from fwc_llm.models.base import Message, Reply
from fwc_llm.models.surrogate.completions import ApiError, read_messages


def read_input(given: Any) -> list[Message]:
    """The input of a decision as messages; a text is one of the user. Raises `ApiError`."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return read_messages(given)


def decide(question: Mapping[str, Any], answer: Mapping[str, Any] | Reply) -> dict[str, Any]:
    """The answer to one question: a whole one as it is, else what a reply says to it.

    A predicate takes the reply's P(yes), or 1 and 0 for yes and no; a choice the choice that the text names;
    what does not fit is a refusal. Raises `ApiError` for a question of a kind that a reply cannot answer.
    """
    kind, name = question.get("type"), question.get("name")
    if isinstance(answer, Mapping):
        return {"type": kind, "name": name, **answer}
    if kind == "predicate":
        probability = _probability(answer)
        if probability is not None:
            return {"type": "predicate", "name": name, "probability": probability}
    elif kind == "choice":
        values = [each.get("value") for each in question.get("choices") or () if isinstance(each, Mapping)]
        chosen = next((value for value in values if str(value).lower() == str(answer.text).lower()), None)
        if chosen is not None:
            shares = [{"value": value, "probability": float(value == chosen)} for value in values]
            found = {"choice": chosen, "confidence": 1.0, "probabilities": shares}
            return {"type": "choice", "name": name, **found}
    else:
        raise ApiError(400, f"fwc_llm.testing: give the whole answer to a question of the type {kind!r}")
    return {"type": "refusal", "name": name}


def _probability(reply: Reply) -> float | None:
    if not reply.refusal and (probability := p_yes(reply.logprobs)) is not None:
        return round(probability, 6)
    said = parse_answer(reply).value
    return None if said is None else float(said == "yes")
