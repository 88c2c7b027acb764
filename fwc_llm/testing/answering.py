"""What answers the calls of an application under test: a source, and what was asked of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fwc_llm.answers import parse_answer, probability
from fwc_llm.errors import FwcError
from fwc_llm.models.base import Reply
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.protocol import PATHS, Answer, Body, Call, Failure, as_reply, read_call, respond

Source: TypeAlias = "Answer | Sequence[Answer] | Callable[[Call], Answer]"


class Answers:
    """Answers calls from a source, and keeps them: `calls` holds every request that was answered."""

    def __init__(self, source: Source = None) -> None:
        self.calls: list[Call] = []
        self._unexpected: Counter[str] = Counter()
        self._raised: Exception | None = None
        self.use(source)

    def use(self, source: Source) -> None:
        """Answer from `source` from now on; see `fwc_llm.testing.answers`."""
        self._source = _answerer(source)

    def respond(self, method: str, path: str, content: bytes) -> tuple[int, Body, Mapping[str, str]]:
        """Status, body and headers of the response; a call that is not expected gets a 400.

        Raises an exception that the source gives, as a connection would.
        """
        try:
            if method != "POST" or not path.endswith(PATHS):
                raise self._refused(f"{method} {path}")
            call = read_call(path, content)
            self.calls.append(call)
            return 200, respond(call, self._answer), {}
        except Failure as failure:
            return failure.status, failure.body, failure.headers

    def _answer(self, call: Call) -> Answer:
        """The source's answer. What the test's own function does wrong is kept for `check`."""
        try:
            answer: Answer = self._source(call)
            if not isinstance(answer, Surrogate | Mapping | Exception | None):
                as_reply(answer)
        except Exception as error:
            self._raised = self._raised or error
            raise Failure(
                400, f"fwc_llm.testing: the test's function raised {type(error).__name__}"
            ) from None
        if answer is None:
            raise self._refused(f"POST {call.path} ({call.messages[-1]['content'][:80]!r})")
        if isinstance(answer, Exception):
            raise answer
        if call.question is None or isinstance(answer, Surrogate | Mapping):
            return answer
        reply = as_reply(answer)  # yes or no is a probability of 1 or 0
        word = parse_answer(reply).value
        p = None if reply.refusal else probability(reply)
        return float(word == "yes") if p is None and word is not None else p

    def _refused(self, what: str) -> Failure:
        self._unexpected[what] += 1
        return Failure(400, f"fwc_llm.testing: the test did not expect {what}")

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
    """What gives the answer to a call, None where there is none."""
    if source is None:
        source = Surrogate()
    if isinstance(source, str | int | float | Reply):
        as_reply(source)  # refuse at once what is no answer
        return lambda call: source
    if isinstance(source, Mapping) and not {"choices", "answers", "output"} & source.keys():
        return lambda call: next(
            (answer for key, answer in source.items() if key in call.messages[-1]["content"]), None
        )
    if isinstance(source, Surrogate | Exception | Mapping):
        return lambda call: source
    if isinstance(source, Sequence):
        left = iter(source)
        return lambda call: next(left, None)
    if callable(source):
        return source  # type: ignore[no-any-return]
    raise FwcError(f"{type(source).__name__} is no source of answers: see help(fwc_llm.testing.answers)")
