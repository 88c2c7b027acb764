"""Decisions and System One from the server's side: typed questions are checked, answered or refused.

Pure functions from JSON to JSON, like `completions.py`. The surrogate knows one question, whether a person's
income is high. It takes every yes/no question for that one, and one that says "no", "not" or "or less" for
its opposite.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fwc_llm.models.base import Message, Messages
from fwc_llm.models.decisions.conversation import conversation
from fwc_llm.models.surrogate.completions import ApiError, model_card, read_messages
from fwc_llm.models.surrogate.model import NAME, Surrogate
from fwc_llm.models.surrogate.reading import UnreadablePromptError

_MOST_QUESTIONS = 400
_OPPOSITE = re.compile(r"(?<!yes or )\b(?:no|not)\b(?!-)|\bor less\b", re.IGNORECASE)
_DECISIONS_FIELDS = {
    "model", "input", "questions", "prompt_cache_key", "prompt_cache_options", "safety_identifier"
}  # fmt: skip
_SYSTEMONE_FIELDS = {"model", "state", "questions"}


def read_input(given: Any) -> list[Message]:
    """The input of a decision as messages; a text is one of the user. Raises `ApiError`."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return read_messages(given)


def read_state(given: Any) -> list[Message]:
    """The state of System One as a message: a text, or an object, a line an attribute. Raises `ApiError`."""
    if isinstance(given, Mapping):
        given = "\n".join(f"- {name}: {value}" for name, value in given.items())
    if not isinstance(given, str):
        raise ApiError(422, "'state' must be text or an object", "invalid_type", "state")
    return read_input(given)


def decide(body: Any, model: Surrogate) -> dict[str, Any]:
    """Answer a request body of POST /v1/decisions. Raises `ApiError`."""
    checked = _checked(body, _DECISIONS_FIELDS, 400)
    questions = check_questions(checked)
    messages = read_input(checked.get("input"))
    answers = [
        {"type": "predicate", "name": name, "probability": round(p_yes(model, messages, words, "input"), 6)}
        for name, words in ((one.get("name"), _instructions(one, "predicate", 400)) for one in questions)
    ]
    return {"answers": answers, "model": _served(), "usage": usage(messages, len(answers))}


def answer_nouls(body: Any, model: Surrogate) -> dict[str, Any]:
    """Answer a request body of POST /v1/systemone. Raises `ApiError`."""
    checked = _checked(body, _SYSTEMONE_FIELDS, 422)
    questions = check_nouls(checked)
    messages = read_state(checked.get("state"))
    answers = {
        name: {"type": "noul", "noul": round(p_yes(model, messages, words, "state"), 6)}
        for name, words in ((name, _instructions(one, "noul", 422)) for name, one in questions.items())
    }
    counted = usage(messages, len(answers))
    short = {name: counted[name] for name in ("input_tokens", "output_tokens")}
    return {"model": _served(), "answers": answers, "usage": short}


def check_questions(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The questions of a request to /v1/decisions. Raises `ApiError`."""
    questions = body.get("questions")
    if not isinstance(questions, list) or not 1 <= len(questions) <= _MOST_QUESTIONS:
        raise ApiError(
            400, f"'questions' must be a list of 1 to {_MOST_QUESTIONS} questions", param="questions"
        )
    return _objects(questions, 400)


def check_nouls(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The questions of a request to /v1/systemone by their names. Raises `ApiError`."""
    questions = body.get("questions")
    if not isinstance(questions, Mapping) or not questions:
        raise ApiError(422, "'questions' must be an object with at least one question", param="questions")
    return dict(zip(questions, _objects(questions.values(), 422), strict=True))


def p_yes(model: Surrogate, messages: Messages, question: str, place: str) -> float:
    """The simulated P(yes) of a question about an input, which is a conversation or one text."""
    if not any(message["role"] == "assistant" for message in messages):
        messages = conversation("\n\n".join(message["content"] for message in messages))
    try:
        p = model.p_yes(messages)
    except UnreadablePromptError as error:
        raise ApiError(400, str(error), "unreadable_prompt", place) from None
    return 1.0 - p if _OPPOSITE.search(question) else p


def usage(messages: Messages, answers: int) -> dict[str, Any]:
    """Token counts of a decision; words are counted."""
    words = sum(len(message["content"].split()) for message in messages)
    return {
        "input_tokens": words,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answers,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": words + answers,
    }


def _checked(body: Any, fields: set[str], status: int) -> Mapping[str, Any]:
    """A request body with no other fields, for this model."""
    if not isinstance(body, Mapping):
        raise ApiError(400, "The request body is not a JSON object")
    if unknown := sorted(map(str, set(body) - fields)):
        raise ApiError(status, f"Unknown parameter: '{unknown[0]}'", "unknown_parameter", unknown[0])
    if not isinstance(body.get("model"), str):
        raise ApiError(status, "You must provide a model parameter", param="model")
    model_card(body["model"], 0)
    return body


def _objects(questions: Iterable[Any], status: int) -> list[Mapping[str, Any]]:
    found = [question for question in questions if isinstance(question, Mapping)]
    if len(found) < len(list(questions)):
        raise ApiError(status, "a question is not an object", "invalid_type", "questions")
    return found


def _instructions(question: Mapping[str, Any], kind: str, status: int) -> str:
    if question.get("type") != kind:
        raise ApiError(
            status,
            f"the surrogate answers questions of the type '{kind}' alone",
            "invalid_value",
            "questions",
        )
    if not isinstance(question.get("instructions"), str):
        raise ApiError(status, "'instructions' is not text", "invalid_type", "questions")
    return str(question["instructions"])


def _served() -> str:
    return f"{NAME} (simulated)"
