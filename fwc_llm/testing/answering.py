"""What a call of OpenAI's SDK is answered: from a test's source to a response body."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Reply
from fwc_llm.models.surrogate.completions import ApiError, complete, read_messages, respond
from fwc_llm.models.surrogate.decisions import (
    check_nouls,
    check_questions,
    p_yes,
    read_input,
    read_state,
    usage,
)
from fwc_llm.models.surrogate.model import NAME, Surrogate
from fwc_llm.testing.decisions import decide

CHAT, DECISIONS, SYSTEMONE = ENDINGS = "/chat/completions", "/decisions", "/systemone"


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


@dataclass(frozen=True)
class Response:
    """What goes back to the SDK."""

    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str] = field(default_factory=dict)


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
        self._next = _from(_recorded(source) if isinstance(source, Path) else source)

    def respond(self, method: str, path: str, content: bytes) -> Response:
        """The response to a request; one that is not expected gets an error that the SDK does not retry."""
        try:
            if method != "POST" or not path.endswith(ENDINGS):
                raise UnexpectedCallError(f"{method} {path}")
            return self._respond(path, json.loads(content))
        except UnexpectedCallError as error:
            self._unexpected[str(error)] += 1
            why = f"fwc_llm.testing: the test did not expect {error}"
        except ApiError as error:
            return Response(error.status, error.body, {"x-should-retry": "false"})
        except Exception as error:  # of the test's own function: raised again at the end of the block
            self._raised = self._raised or error
            why = f"fwc_llm.testing: the test's function raised {type(error).__name__}"
        return Response(400, ApiError(400, why).body, {"x-should-retry": "false"})

    def _respond(self, path: str, body: Mapping[str, Any]) -> Response:
        if path.endswith(CHAT):
            messages = read_messages(body.get("messages"))
        else:
            has_state = path.endswith(SYSTEMONE)
            messages = read_state(body.get("state")) if has_state else read_input(body.get("input"))
        call = Call(path, body, messages)
        self.calls.append(call)
        if not path.endswith(CHAT):
            return self._decide(call)
        answer = self._next(call)
        if isinstance(answer, Surrogate):
            return Response(200, complete({**body, "model": NAME}, answer))
        if (other := _no_reply(answer)) is not None:
            return other
        return Response(200, respond(body, replace(_reply(answer), model=call.model)))

    def _decide(self, call: Call) -> Response:
        by_name = call.path.endswith(SYSTEMONE)
        questions: Sequence[Mapping[str, Any]]
        if by_name:
            questions = [{**one, "name": name} for name, one in check_nouls(call.body).items()]
        else:
            questions = check_questions(call.body)
        answers: list[dict[str, Any]] = []
        for question in questions:
            answer = self._next(replace(call, question=question))
            if isinstance(answer, Surrogate):
                words = str(question.get("instructions", ""))
                answer = p_yes(answer, call.messages, words, "state" if by_name else "input")
            if isinstance(answer, Failure | Exception) or (
                isinstance(answer, Mapping) and "answers" in answer
            ):
                return _no_reply(answer) or Response(200, {})
            answers.append(decide(question, answer if isinstance(answer, Mapping) else _reply(answer)))
        given = {str(answer.pop("name")): answer for answer in answers} if by_name else answers
        counted = usage(call.messages, len(answers))
        return Response(200, {"answers": given, "model": call.model, "usage": counted})

    def check(self, cause: Exception | None = None) -> None:
        """Raise what went wrong in answering: calls that were not expected, errors of the function."""
        if self._raised is not None:
            raise self._raised
        if self._unexpected:
            named = ", ".join(
                f"{name} ({times} times)" if times > 1 else name for name, times in self._unexpected.items()
            )
            raise AssertionError(f"calls that the test did not expect: {named}") from cause


def _from(source: Any) -> Callable[[Call], Any]:
    """What gives the answer to a call."""
    if source is None or isinstance(source, Surrogate):
        surrogate = source or Surrogate()
        return lambda call: surrogate
    if isinstance(source, str | int | float | Reply | Failure | Exception):
        _reply_or_failure(source)
        return lambda call: source
    if isinstance(source, Mapping):
        whole = "choices" in source or "answers" in source
        return (lambda call: source) if whole else lambda call: _found(source, call)
    if callable(source):
        return lambda call: _expected(source(call), call)
    if isinstance(source, Sequence):
        return _one_by_one(iter(source), len(source))
    raise FwcError(f"{type(source).__name__} is no source of answers: see help(fwc_llm.testing.answers)")


def _found(recorded: Mapping[str, Any], call: Call) -> Any:
    asked = call.messages[-1]["content"]
    return _expected(next((answer for key, answer in recorded.items() if key in asked), None), call)


def _one_by_one(left: Iterator[Any], number: int) -> Callable[[Call], Any]:
    def take(call: Call) -> Any:
        answer = next(left, None)
        if answer is None:
            raise UnexpectedCallError(f"POST {call.path}, after {number} recorded answers")
        return answer

    return take


def _expected(answer: Any, call: Call) -> Any:
    if answer is None:
        raise UnexpectedCallError(f"POST {call.path} ({call.messages[-1]['content'][:80]!r})")
    return answer


def _recorded(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FwcError(f"{path}, a file of recorded answers, cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FwcError(f"{path}, a file of recorded answers, is not JSON: {error}") from None
    if not isinstance(content, list | dict):
        raise FwcError(f"{path} holds no recorded answers: it must be a list or an object")
    return content


def _no_reply(answer: Any) -> Response | None:
    """A failure, or the whole body of a response."""
    if isinstance(answer, Exception):
        raise Raise(answer)
    if isinstance(answer, Failure):
        error = {
            "message": answer.message,
            "type": "invalid_request_error",
            "param": None,
            "code": answer.code,
        }
        return Response(answer.status, {"error": error}, answer.headers)
    if isinstance(answer, Mapping):
        return Response(200, answer)
    return None


class Raise(BaseException):
    """Carries an exception that the test wants raised where a connection would be made."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _reply_or_failure(answer: Any) -> None:
    if not isinstance(answer, Failure | Exception):
        _reply(answer)


def _reply(answer: Any) -> Reply:
    """An answer as a reply; `FwcError` where it is none."""
    import math

    if isinstance(answer, Reply):
        return answer if answer.text is not None else replace(answer, text="")
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    if isinstance(answer, str):
        return Reply(answer, finish_reason="stop")
    if isinstance(answer, int | float) and 0 <= answer <= 1:
        p = min(max(float(answer), 1e-9), 1 - 1e-9)
        pairs = [("yes", math.log(p)), ("no", math.log1p(-p))]
        pairs.sort(key=lambda pair: -pair[1])
        return Reply(pairs[0][0], finish_reason="stop", logprobs=tuple(pairs))
    raise FwcError(f"{answer!r} is no answer: give text, a probability, a Reply or a Failure")
