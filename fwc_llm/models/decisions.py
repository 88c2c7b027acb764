"""Decision models: a typed question about an input, answered with P(yes).

`decisions` is OpenAI's Decisions API: questions and answers are lists, the input is messages or one
text. `systemone` is TypeSafe's System One format: questions and answers are objects keyed by name,
the input (`state`) is one text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models.base import (
    CRITERIA,
    QUESTION,
    Message,
    Messages,
    Reply,
    likelier,
    role_of,
)
from fwc_llm.models.bodies import name_in, read_usage
from fwc_llm.models.openai.chat import ChatModel, check_parameters
from fwc_llm.models.openai.retry import AttemptError, FailureScope, body_failure
from fwc_llm.sanitize import (
    Fields,
    Json,
    as_single_line,
    list_of,
    mapping_of,
    parse_finite,
)
from fwc_llm.words import ANSWERS, REFER

MAIN = "answer"  # the question's name in a request
_KEYS = {
    "decisions": ("probability",),
    "systemone": ("noul", "probability"),
}  # keys of P(yes) in an answer
_YES_OR_NO = (None, "predicate", "noul")  # types of answers whose probability is P(yes)
_ANSWER_TOKENS = 8  # upper limit: the answer has no text
_OURS = {"model", "input", "state", "questions"}
_ROLES = "roles"  # key of an adaptable setting: whether the input is sent as messages
# Services that take System One's format at /decisions (docs.perplexity.ai; third parties for the
# other two).
_MIXED = {"api.perplexity.ai", "openrouter.ai", "api.portkey.ai"}
_ABOUT_ROLES = re.compile(
    r"\brole|\binput\b|\bmessages?\b|valid string|must be (a )?(string|text)", re.I
)
_NO_ENDPOINT = {404, 405, 501}
_CUT = (
    "truncated",
    "state_tokens_dropped",
    "truncated_questions",
)  # keys that report a truncated input
_EXAMPLE = re.compile(
    r"^Answer:[ \t]*(yes|no|refer)\.?[ \t]*$", re.IGNORECASE | re.MULTILINE
)


class Parts:
    """A prompt: `question`, `input`, and `criteria` of true and false.

    Without a message of role question, the last message is the question.
    """

    def __init__(self, messages: Messages) -> None:
        questions = {
            m.get("name") or MAIN: m["content"]
            for m in messages
            if m["role"] == QUESTION
        }
        # The services have no names of messages.
        turns = (
            Message(role=role_of(m), content=m["content"])
            for m in messages
            if m["role"] != QUESTION
        )
        self.input = tuple(turns)
        meant = [name for name in questions if name.startswith(CRITERIA)]
        self.criteria = {name.removeprefix(CRITERIA): questions[name] for name in meant}
        self.question = questions.get(
            MAIN, self.input[-1]["content"] if self.input else ""
        )

    @property
    def has_roles(self) -> bool:
        """Whether the input has messages of other roles than user."""
        return any(message["role"] != "user" for message in self.input)

    @property
    def text(self) -> str:
        """The input as one text; the answer of an example is a paragraph "Answer: …"."""
        return "\n\n".join(
            f"Answer: {message['content']}"
            if message["role"] == "assistant"
            else message["content"]
            for message in self.input
        )


def _question(parts: Parts) -> Json:
    """The question in OpenAI's format: a choice if there is a third answer."""
    question: Json = {"name": MAIN}
    if REFER not in parts.criteria:
        instructions = _with_criteria(parts)
        return {"type": "predicate", "instructions": instructions, **question}
    meant = zip(ANSWERS, ("false", "true", REFER), strict=True)
    choices = [
        {"value": answer, "description": parts.criteria.get(key, answer)}
        for answer, key in meant
    ]
    question |= {"type": "choice", "instructions": parts.question, "choices": choices}
    return question


def _with_criteria(parts: Parts) -> str:
    """The question with its criteria as text."""
    meant = (
        f"{answer.capitalize()}: {words}" for answer, words in parts.criteria.items()
    )
    return "\n".join([parts.question, *meant])


def conversation(text: str) -> list[Message]:
    """Split a text of `Parts.text` into messages: examples, answers, last record."""
    pieces = _EXAMPLE.split(text)  # record, answer, record, answer, …
    return [
        {"role": "assistant" if index % 2 else "user", "content": piece.strip()}
        for index, piece in enumerate(pieces)
    ]


def answer_in(body: Any) -> Fields:
    """The answer to the one question of a request; else `AttemptError`."""
    answers = mapping_of(body).get("answers")
    found: list[Fields]
    if isinstance(answers, Mapping):
        found = [mapping_of(answers.get(MAIN))]
    else:
        listed = map(mapping_of, list_of(answers))
        found = [answer for answer in listed if str(answer.get("name") or MAIN) == MAIN]
    if mapping_of(body).get("error") or not isinstance(body, Mapping):
        raise body_failure(body)
    if len(found) != 1 or not found[0]:
        raise AttemptError(
            FailureScope.ATTEMPT, "a response without an answer to the question", 200
        )
    return found[0]


def _p_yes_of_choice(answer: Fields) -> float | None:
    """P(yes) among yes and no in an answer that chose among three; None for a refusal."""
    if answer.get("type") != "choice":
        return p_yes(answer, ())
    stated = map(mapping_of, list_of(answer.get("probabilities")))
    of = {one.get("value"): parse_finite(one.get("probability")) for one in stated}
    known = [of.get(word) for word in ANSWERS]
    shares = [share for share in known if share is not None and 0.0 <= share <= 1.0]
    if answer.get("choice") not in ANSWERS or len(shares) < len(ANSWERS):
        raise AttemptError(
            FailureScope.UNCLEAR,
            f"an answer without a choice of {', '.join(ANSWERS)}, and its probabilities",
            200,
        )
    no, yes, _ = shares
    return yes / (yes + no) if yes + no > 0 else None


def p_yes(answer: Fields, keys: tuple[str, ...]) -> float | None:
    """P(yes) in an answer, in [0, 1]; None for a refusal; else `AttemptError`."""
    if answer.get("type") == "refusal" or answer.get("refusal"):
        return None
    if answer.get("type") not in _YES_OR_NO:
        kind = repr(answer["type"])[:40]
        raise AttemptError(
            FailureScope.UNCLEAR,
            f"an answer that is not a P(yes) (its type is {kind})",
            200,
        )
    value = next((answer[key] for key in keys if key in answer), "missing")
    number = parse_finite(value)
    if number is None or not 0.0 <= number <= 1.0:
        text = repr(value)[:40]
        raise AttemptError(
            FailureScope.UNCLEAR,
            f"an answer without a probability from 0 to 1 ({text})",
            200,
        )
    return abs(number)  # not -0.0


def _said_of_cuts(part: Any) -> str:
    """A part of a response's statement that the input was truncated; "" without one."""
    part = mapping_of(part)
    cuts = {name: part[name] for name in _CUT if part.get(name)}
    return ", ".join(
        f"{name}: {as_single_line(str(value))[:40]}" for name, value in cuts.items()
    )


class DecisionModel(ChatModel):
    """A service's decision model, which answers typed questions in the format `api`.

    The input is sent as messages if format and service accept roles, else as one text. A reply has
    P(yes) in `p_yes`.
    """

    completion_limit = _ANSWER_TOKENS  # type: ignore[assignment]

    def __init__(
        self, name: str, *arguments: Any, api: str = "decisions", **options: Any
    ) -> None:
        if api not in _KEYS:
            raise FwcError(f"api is {api!r}: choose 'chat', 'decisions' or 'systemone'")
        self.api = api
        super().__init__(name, *arguments, **options)
        self._sent[_ROLES] = api == "decisions"
        mixed = urlsplit(self._base_url or "").hostname in _MIXED
        self._format = "systemone" if mixed else api
        self._path = "/decisions" if mixed else f"/{api}"
        if mixed:
            self._tell(
                f"{self.where} expects System One's format at /decisions: this format is sent"
            )
        if api == "systemone" and self._base_url is None:
            raise FwcError(
                "--api systemone needs the service's address: OpenAI does not speak it, so name a "
                "server "
                "that does with --base-url"
            )

    def _request_parameters(self, words: Sequence[str]) -> Fields:
        """The format and the chosen parameters, which are part of a request's identity."""
        options = self._options
        for_chats = {
            "logprobs": options.logprobs,
            "max_tokens": options.max_tokens is not None,
            "answer_format": bool(words),
        }
        name = next((name for name, is_set in for_chats.items() if is_set), "")
        if name:
            raise FwcError(
                f"{name!r} is for chats: a decision model gives P(yes) itself, with nothing to "
                f"limit; leave "
                f"it out with --api {self.api}"
            )
        check_parameters(options.params, _OURS)
        return {"api": self.api, **options.params}

    def request_body(self, messages: Messages) -> Json:
        """The request's body for `messages`."""
        parts = Parts(messages)
        body: Json
        if self._format == "decisions":
            with_roles = self._sent[_ROLES] and parts.has_roles
            body = {
                "input": [dict(message) for message in parts.input]
                if with_roles
                else parts.text,
                "questions": [_question(parts)],
            }
        else:
            if REFER in parts.criteria:
                raise FwcError(
                    f"{self.where} answers yes or no in this format, and the task has a third "
                    f"answer: ask a chat model, or use --api decisions"
                )
            question: Json = {"type": "noul", "instructions": parts.question}
            if parts.criteria:
                question["criteria"] = parts.criteria
            body = {"state": parts.text, "questions": {MAIN: question}}
        return {"model": self._served_name, **body, **self._options.params}

    def read(self, body: Any, messages: Messages) -> Reply:
        """The reply in a response to `messages`; `AttemptError` if it is missing."""
        answer = answer_in(body)
        text: str
        if REFER in Parts(messages).criteria:
            p = _p_yes_of_choice(answer)
            text = str(answer.get("choice"))
            refuses = answer.get("type") != "choice"
        else:
            p = p_yes(answer, _KEYS[self._format])
            text = likelier(p or 0.0)
            refuses = p is None
        cut = ", ".join(
            filter(None, map(_said_of_cuts, (body, body.get("usage"), answer)))
        )
        if cut and self._options.strict:
            raise ProviderError(
                f"{self.where} reports that it truncated an input ({cut}): use fewer examples or a "
                f"shorter "
                "template, or leave out --strict"
            )
        if cut:
            self._tell(
                f"{self.where} reports that it truncated some inputs: results.json counts them"
            )
        return Reply(
            text="" if refuses else text,
            refusal=refuses,
            p_yes=p,
            truncated=bool(cut),
            usage=read_usage(body.get("usage"), "input_tokens", "output_tokens"),
            model=name_in(body, "model"),
            fingerprint=name_in(body, "system_fingerprint"),
            raw=body,
        )

    def failure_of(self, error: Exception) -> AttemptError:
        """As for chats; a service that lacks the endpoint stops the run."""
        failure = super().failure_of(error)
        if failure.status in _NO_ENDPOINT:
            return replace(failure, scope=FailureScope.RUN)
        return failure

    def _adapt(self, failure: AttemptError, messages: Messages, sent: Fields) -> bool:
        """Change to one text where roles are refused; return whether to send again."""
        about_roles = failure.parameter.startswith("input") or _ABOUT_ROLES.search(
            failure.reason
        )
        unclear = failure.status in {400, 422} and failure.scope in {
            FailureScope.RUN,
            FailureScope.UNCLEAR,
        }
        if not (unclear and about_roles and sent[_ROLES]):
            return False
        if not Parts(messages).has_roles:
            return False
        self._sent = {**self._sent, _ROLES: False}
        self._tell(
            f"{self.where} does not accept several roles: every prompt is sent as one text"
        )
        return True

    def explain(self, failure: AttemptError) -> str:
        """As for chats; for a missing endpoint or model, name another format or model."""
        if failure.about_model:
            why = f"does not answer POST {self._path} with the model {self.name!r}"
            remedy = (
                "name one that it serves for decisions, or ask this one with --api chat"
            )
        elif failure.status in _NO_ENDPOINT:
            if self.api == "decisions":
                other = "systemone"
            else:
                other = "decisions"
            why = f"has no POST {self._path}: it does not speak --api {self.api}"
            remedy = f"check the base URL, or try --api {other} or --api chat"
        else:
            return super().explain(failure)
        return f"{self.where} {why} ({failure}): {remedy}"
