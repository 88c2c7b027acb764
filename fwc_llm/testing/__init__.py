"""Mocks OpenAI's SDK in tests of applications, without key, cost or network.

    def test_the_desk_decides(fwc_openai):          # a pytest fixture; the surrogate answers
        fwc_openai.use("No")                        # from now on, the answer is "No"
        assert decide(PERSON) == "no"
        assert len(fwc_openai.calls) == 1

    with fwc_llm.testing.answers("Yes") as openai:  # the same without pytest
        ...

Every call of the SDK (`openai` 3, sync and async clients) to chat completions, responses and
decisions is answered. Any other call of the SDK, and any other request through its transport to
another machine, fails the test with an error that names the request. Calls through another
transport (aiohttp, a mock) are not intercepted.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.models.surrogate.protocol import Call, Failure
    from fwc_llm.testing.answering import Answers, answers

__all__ = ["Answers", "Call", "Failure", "answers"]

if not TYPE_CHECKING:  # type checkers use the imports above
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "answering"))
