"""Answers for applications' own tests: OpenAI's SDK without key, cost or network.

    def test_the_desk_decides(fwc_openai):          # a pytest fixture; the surrogate answers
        fwc_openai.use("No")                        # or something else does
        assert decide(PERSON) == "no"
        assert len(fwc_openai.calls) == 1

    with fwc_llm.testing.answers("Yes") as openai:  # the same without pytest
        ...

Every call of the SDK (`openai` 3, clients sync and async) to chat completions and decisions is answered
here, and so is every request to System One (`/systemone`) through its transport; any other call, and any
other request through the SDK's transport that would leave this machine, fails the test by name. A client
that was given another transport (aiohttp, a mock) is not seen.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.testing.answering import Answers, Call, Failure, Source

__all__ = ["Answers", "Call", "Failure", "answers"]


@contextmanager
def answers(source: "Source" = None) -> "Iterator[Answers]":
    """Answer all calls of OpenAI's SDK while the block runs; the value has the `calls`.

    `source` says what is answered:

    None or a `Surrogate`     the simulated model: it reads the prompt, which must be one of ours
    text                      that text ("Yes"); in a decision, yes or no is a probability of 1 or 0
    number                    P(yes); a chat answers with the likelier word and its log-probabilities
    `fwc_llm.Reply`           a refusal, a reply that was cut off, its usage
    `Failure(429)`            an HTTP error; an exception is raised where a connection would be made
    mapping with "choices" or "answers"    the whole body of a response, for example a recorded one
    any other mapping         recorded answers: that of the first key found in the last message
    list                      recorded answers, one after the other
    `Path` of a .json file    recorded answers: a list or a mapping as above
    function                  any of these, from the `Call`; None where the call is not expected

    Where no OPENAI_API_KEY is set, one that is no key is set for the block.

    Raises `AssertionError` at the end of the block for calls that were not expected, and what the function
    raised. Raises `FwcError` for a source that is none of these.
    """
    from fwc_llm.testing.answering import Answers
    from fwc_llm.testing.transport import intercepted

    answering = Answers(source)
    try:
        with intercepted(answering):
            yield answering
    except Exception as error:
        answering.check(error)
        raise
    answering.check()


if not TYPE_CHECKING:  # a type checker knows the names above
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Answers", "Call", "Failure"), "answering"))
