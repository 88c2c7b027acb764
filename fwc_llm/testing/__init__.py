"""Answers for applications' own tests: OpenAI's SDK without key, cost or network.

    def test_the_desk_decides(fwc_openai):          # a pytest fixture; the surrogate answers
        fwc_openai.use("No")                        # or something else does
        assert decide(PERSON) == "no"
        assert len(fwc_openai.calls) == 1

    with fwc_llm.testing.answers("Yes") as openai:  # the same without pytest
        ...

Every call of the SDK (`openai` 3, clients sync and async) to chat completions, responses and decisions is
answered here, and so is every request to System One (`/systemone`) through its transport; any other call, and
any other request through the SDK's transport that would leave this machine, fails the test by name. Calls of
a client with another transport (aiohttp, a mock) are not intercepted.
"""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.models.surrogate.protocol import Call, Failure
    from fwc_llm.testing.answering import Answers, answers

__all__ = ["Answers", "Call", "Failure", "answers"]

if not TYPE_CHECKING:  # a type checker knows the names above
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "answering"))
