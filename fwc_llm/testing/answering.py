"""What a call of OpenAI's SDK is answered: from a test's source to a response body."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from fwc_llm.answers import parse_answer, probability
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Reply
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.protocol import (
    PATHS,
    ApiError,
    Request,
    chat_body,
    decide,
    decision_body,
    read_request,
    surrogate_p_yes,
    surrogate_reply,
)


@dataclass(frozen=True)
class Call:
    """One request that the application sent.

    `messages` are those of a chat, or the input of a decision; `question` is the one that a function is
    asked about, where the request has several.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    messages: Sequence[Message]
    question: Mapping[str, Any] | None = None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model", ""))


@dataclass(frozen=True)
class Failure:
    """An HTTP error in place of an answer. The SDK retries some of them, unless it is told not to."""

    status: int
    message: str = "a failure that the test asked for"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = "str | bool | float | Reply | Failure | Exception | Mapping[str, Any] | None"
Source: TypeAlias = "Answer | Surrogate | Path | Sequence[Answer] | Callable[[Call], Answer]"
_Response: TypeAlias = "tuple[int, Mapping[str, Any] | str, Mapping[str, str]]"  # status, body, headers


class UnexpectedCallError(Exception):
    """No answer was given for a call; the text names it."""


class Answers:
    """Answers calls from a source, and keeps them: `calls` holds every request that was answered."""

    def __init__(self, source: Source = None) -> None:
        self.calls: list[Call] = []
        self._unexpected: Counter[str] = Counter()
        self._raised: Exception | None = None
        self.use(source)

    def use(self, source: Source) -> None:
        """Answer from `source` from now on; see `fwc_llm.testing.answers`."""
        self._next = _answerer(_recorded(source) if isinstance(source, Path) else source)

    def respond(self, method: str, path: str, content: bytes) -> _Response:
        """The response to a request; one that is not expected gets an error that the SDK does not retry.

        Raises an exception that the source gives, as a connection would.
        """
        answer: Any = None
        try:
            if method != "POST" or not path.endswith(PATHS):
                raise UnexpectedCallError(f"{method} {path}")
            request = read_request(path, json.loads(content))
            call = Call(path, request.body, request.messages)
            self.calls.append(call)
            answer, body = self._decide(request, call) if request.questions else self._chat(request, call)
            if body is not None:
                return 200, body, {}
        except UnexpectedCallError as error:
            self._unexpected[str(error)] += 1
            answer = Failure(400, f"fwc_llm.testing: the test did not expect {error}")
        except ApiError as error:
            return error.status, error.body, {"x-should-retry": "false"}
        except Exception as error:  # of the test's own function: raised again at the end of the block
            self._raised = self._raised or error
            answer = Failure(400, f"fwc_llm.testing: the test's function raised {type(error).__name__}")
        if isinstance(answer, Exception):
            raise answer
        return answer.status, ApiError(answer.status, answer.message, answer.code).body, answer.headers

    def _chat(self, request: Request, call: Call) -> tuple[Any, Any]:
        """The answer, and the response body that it makes; None for a failure."""
        answer = self._next(call)
        if isinstance(answer, Failure | Exception):
            return answer, None
        if isinstance(answer, Mapping):
            return answer, answer
        if isinstance(answer, Surrogate):
            return answer, chat_body(request, surrogate_reply(request, answer))
        return answer, chat_body(request, replace(_reply(answer), model=call.model))

    def _decide(self, request: Request, call: Call) -> tuple[Any, Any]:
        decided = []
        for question in request.questions:
            answer = self._next(replace(call, question=question))
            if isinstance(answer, Failure | Exception):
                return answer, None
            if isinstance(answer, Mapping) and "answers" in answer:
                return answer, answer
            if isinstance(answer, Surrogate):
                answer = surrogate_p_yes(request, question, answer)
            elif not isinstance(answer, Mapping):
                answer = _decision(question, _reply(answer))
            decided.append(decide(question, answer))
        return None, decision_body(request, decided, call.model)

    def check(self, cause: Exception | None = None) -> None:
        """Raise what went wrong in answering: calls that were not expected, errors of the function."""
        if self._raised is not None:
            raise self._raised
        if self._unexpected:
            named = ", ".join(
                f"{name} ({times} times)" if times > 1 else name for name, times in self._unexpected.items()
            )
            raise AssertionError(f"calls that the test did not expect: {named}") from cause


def _answerer(source: Any) -> Callable[[Call], Any]:
    """What gives the answer to a call."""
    if source is None or isinstance(source, Surrogate):
        surrogate = source or Surrogate()
        return lambda call: surrogate
    if isinstance(source, str | int | float | Reply | Failure | Exception):
        if not isinstance(source, Failure | Exception):
            _reply(source)  # refuse at once what is no answer
        return lambda call: source
    if isinstance(source, Mapping):
        if "choices" in source or "answers" in source:
            return lambda call: source
        return lambda call: _expected(
            next((answer for key, answer in source.items() if key in call.messages[-1]["content"]), None),
            call,
        )
    if callable(source):
        return lambda call: _expected(source(call), call)
    if isinstance(source, Sequence):
        left = iter(source)

        def take(call: Call) -> Any:
            for answer in left:
                return answer
            raise UnexpectedCallError(f"POST {call.path}, after {len(source)} recorded answers")

        return take
    raise FwcError(f"{type(source).__name__} is no source of answers: see help(fwc_llm.testing.answers)")


def _expected(answer: Any, call: Call) -> Any:
    if answer is None:
        raise UnexpectedCallError(f"POST {call.path} ({call.messages[-1]['content'][:80]!r})")
    return answer


def _recorded(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FwcError(f"{path}, a JSON file of recorded answers, cannot be read: {error}") from None


def _reply(answer: Any) -> Reply:
    """An answer as a reply; `FwcError` where it is none."""
    if isinstance(answer, Reply):
        return replace(answer, text=answer.text or "")
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, str):
        return Reply(answer, finish_reason="stop")
    if isinstance(answer, int | float) and 0 <= answer <= 1:
        p = min(max(float(answer), 1e-9), 1 - 1e-9)
        pairs = sorted([("yes", math.log(p)), ("no", math.log1p(-p))], key=lambda pair: -pair[1])
        return Reply(pairs[0][0], finish_reason="stop", logprobs=tuple(pairs))
    raise FwcError(f"{answer!r} is no answer: give text, a probability, a Reply or a Failure")


def _decision(question: Mapping[str, Any], reply: Reply) -> float | str | None:
    """What a reply says to a question: P(yes), or 1 and 0 for yes and no; the text for a choice."""
    if question.get("type") == "choice":
        return reply.text
    if not reply.refusal and (p := probability(reply)) is not None:
        return p
    word = parse_answer(reply).value
    return None if word is None else float(word == "yes")
