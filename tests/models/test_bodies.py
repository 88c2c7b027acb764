"""What a response says is read, and nothing that it did not say: whatever fields are missing or
odd.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.answers import Answer, parse_answer, read_answer
from fwc_llm.models.base import ending_of
from fwc_llm.models.bodies import read_batch_line, read_reply
from fwc_llm.models.openai.retry import AttemptError
from tests.command import corpus

ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just("")
    | st.just(" ")
    | st.just([])
    | st.just({})
)
FINISHED = ("stop", "STOP", "end_turn", "completed", "tool_calls")
ENDINGS = (
    st.sampled_from(
        [
            *FINISHED,
            "length",
            "content_filter",
            "error",
            "abort",
            "insufficient_system_resource",
            "SPII",
            "RECITATION",
            "guardrail_intervened",
            "unknown",
        ]
    )
    | st.text(max_size=12)
    | ODD
)
WORDS = st.sampled_from(["Yes", "No"])


def parts(word: str) -> st.SearchStrategy[Any]:
    """A word as content, where a message has it, with odd neighbours."""
    text = st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "output_text"]), "text": st.just(word)}
    )
    thought = st.fixed_dictionaries(
        {"type": st.just("thinking"), "text": st.sampled_from(["Yes", "No"])}
    )
    return st.just(word) | st.lists(thought, max_size=2).flatmap(
        lambda before: text.map(lambda part: [*before, part])
    )


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A response of chat completions or of the Responses API that says a word, and the word."""
    word = draw(WORDS)
    content = draw(parts(word))
    if draw(st.booleans()):
        choice: dict[str, Any] = {"message": {"content": content}}
        choice |= draw(
            st.fixed_dictionaries(
                {}, optional={"finish_reason": ENDINGS, "logprobs": ODD}
            )
        )
        body: dict[str, Any] = {"choices": [choice]}
    else:
        item = {"type": "message", "content": content}
        body = {"output": [item]} | draw(
            st.fixed_dictionaries(
                {}, optional={"status": ENDINGS, "incomplete_details": ODD}
            )
        )
    counts = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), ODD)
    fields = dict.fromkeys(("model", "id", "error"), ODD)
    fields["usage"] = ODD | st.fixed_dictionaries({}, optional=counts)
    odd = st.fixed_dictionaries({}, optional=fields)
    return body | draw(odd), word


@given(bodies())
def test_an_answer_is_the_word_that_was_said_and_none_without_a_known_end(
    case: tuple[Any, str],
) -> None:
    body, word = case
    try:
        reply = read_reply(body)
    except AttemptError:
        return
    value = parse_answer(reply).value
    assert value in (None, word.lower())
    if reply.ending in ("filtered", "unfinished"):
        assert value is None
    if reply.usage is not None:
        assert min(reply.usage.prompt_tokens, reply.usage.completion_tokens) > 0


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "response": ODD
            | st.fixed_dictionaries({}, optional={"status_code": ODD, "body": ODD}),
            "error": ODD,
            "custom_id": ODD,
        },
    )
)
def test_a_line_of_a_batch_without_a_reply_has_no_answer(line: dict[str, Any]) -> None:
    try:
        reply = read_batch_line(line)
    except AttemptError:
        return
    assert parse_answer(reply).value is None


@given(st.text(alphabet=st.characters(categories=("L",)), min_size=1, max_size=20))
def test_a_word_that_nobody_knows_is_no_end(word: str) -> None:
    known = (*FINISHED, "end", "eos", "complete", "refusal")
    if word.casefold() not in map(str.casefold, known):
        assert ending_of(word) != "finished"


@pytest.mark.parametrize("case", corpus("bodies"))
def test_why_a_response_holds_no_answer(case: dict[str, Any]) -> None:
    assert parse_answer(read_reply(case["body"])).reason == case["reason"]


def test_tokens_of_reasoning_are_paid_for_whatever_the_count_beside_them() -> None:
    usage = {
        "prompt_tokens": 171,
        "completion_tokens": 1,
        "completion_tokens_details": {"reasoning_tokens": 5000},
    }
    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    reply = read_reply({"choices": [choice], "usage": usage})
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 5000


@pytest.mark.parametrize("place", ["body", "choice"])
def test_an_error_beside_an_answer_is_no_answer(place: str) -> None:
    choice: dict[str, Any] = {"message": {"content": "yes"}, "finish_reason": "stop"}
    body: dict[str, Any] = {"choices": [choice]}
    (body if place == "body" else choice)["error"] = {
        "message": "upstream failed",
        "code": 502,
    }
    with pytest.raises(AttemptError, match="502: upstream failed"):
        read_reply(body)


@given(
    st.sampled_from(["tool_calls", "function_call"]),
    st.sampled_from(FINISHED),
    st.sampled_from(["yes", "No.", "", None]),
)
def test_a_call_of_a_tool_is_no_answer_whatever_stands_beside_it(
    field: str, finish: str, text: str | None
) -> None:
    call = {"name": "decide", "arguments": '{"answer": "no"}'}
    message = {"content": text, field: [call] if field == "tool_calls" else call}
    top = {"token": text or "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes"}]}
    choice = {
        "message": message,
        "finish_reason": finish,
        "logprobs": {"content": [top]},
    }
    reading = read_answer(read_reply({"choices": [choice]}))
    assert (reading.answer, reading.p_yes) == (Answer(None, "refused"), None)
    said = {"type": "message", "content": [{"type": "output_text", "text": "yes"}]}
    for kind, reason in (("function_call", "refused"), ("web_search_call", "")):
        items = {"output": [{"type": kind}, said], "status": "completed"}
        assert parse_answer(read_reply(items)).reason == reason


@given(st.permutations(["yes", "no", "no", "no"]), ODD)
def test_the_first_of_several_choices_is_found_by_its_index(
    words: list[str], odd: Any
) -> None:
    """Whatever their order; an index that is no number counts as 0."""
    choices = [
        {"index": int(word == "no") * (1 + number), "message": {"content": word}}
        for number, word in enumerate(words)
    ]
    assert parse_answer(read_reply({"choices": choices})).value == "yes"
    alone = {"index": odd, "message": {"content": "yes"}}
    assert parse_answer(read_reply({"choices": [alone]})).value == "yes"
