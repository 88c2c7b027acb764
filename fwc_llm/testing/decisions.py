"""The decisions protocol from the server's side: typed questions about an input, each with its answer."""

from collections.abc import Mapping
from typing import Any

from fwc_llm.answers import parse_answer, probability
from fwc_llm.models.base import Reply
from fwc_llm.models.surrogate.completions import ApiError

_P_YES = {
    "predicate": "probability",
    "noul": "noul",
}  # the kinds of yes/no questions, and where P(yes) stands


def decide(question: Mapping[str, Any], answer: Mapping[str, Any] | Reply) -> dict[str, Any]:
    """The answer to one question: a whole one as it is, else what a reply says to it.

    A predicate or a noul takes the reply's P(yes), or 1 and 0 for yes and no; a choice the choice that the
    text names; what does not fit is a refusal. Raises `ApiError` for a question of a kind that a reply cannot
    answer.
    """
    kind, name = question.get("type"), question.get("name")
    if isinstance(answer, Mapping):
        return {"type": kind, "name": name, **answer}
    if kind in _P_YES:
        p_yes = _p_yes(answer)
        if p_yes is not None:
            return {"type": kind, "name": name, _P_YES[kind]: p_yes}
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


def _p_yes(reply: Reply) -> float | None:
    if not reply.refusal and (p_yes := probability(reply)) is not None:
        return round(p_yes, 6)
    said = parse_answer(reply).value
    return None if said is None else float(said == "yes")
