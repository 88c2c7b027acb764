"""The surrogate's answers as OpenAI's client reads them: chats, responses, forms and decisions."""

from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from fwc_llm.models.base import Message
from fwc_llm.testing import answers

PERSON = (
    "age 39, workclass Private, education {}, highest education level {}, marital status {}, "
    "occupation {}, "
    "relationship Husband, race White, sex {}, capital gain 0, capital loss 0, hours per week 40, "
    "native country United-States"
)
MANAGED = ("Masters", 14, "Married-civ-spouse", "Exec-managerial", "Male")
CLERICAL = ("HS-grad", 9, "Never-married", "Adm-clerical", "Female")
MANAGER: list[Message] = [{"role": "user", "content": PERSON.format(*MANAGED)}]
CLERK: list[Message] = [{"role": "user", "content": PERSON.format(*CLERICAL)}]


@pytest.fixture
def client() -> Iterator[openai.OpenAI]:
    with answers(), openai.OpenAI(max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, messages: list[Message], **options: Any) -> Any:
    return client.chat.completions.create(
        model="surrogate", messages=messages, **options
    )  # type: ignore[arg-type]


def test_openais_client_gets_an_answer_with_everything_a_completion_has(
    client: openai.OpenAI,
) -> None:
    completion = ask(client, MANAGER, temperature=0, max_tokens=20)
    choice = completion.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == (
        "assistant",
        "yes",
        "stop",
    )
    assert choice.logprobs is None
    assert ask(client, CLERK).choices[0].message.content == "no"
    assert (completion.model, completion.object) == (
        "surrogate (simulated)",
        "chat.completion",
    )
    assert completion.id.startswith("chatcmpl-")
    assert completion.system_fingerprint.startswith("SIMULATED ")
    words = len(MANAGER[0]["content"].split())
    usage = completion.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (
        words,
        1,
        words + 1,
    )


def test_the_responses_api_answers_as_the_chat_does(client: openai.OpenAI) -> None:
    text: str = MANAGER[0]["content"]
    whole: Any = client.responses.create(model="surrogate", input=text)
    assert (whole.output_text, whole.status, whole.model) == (
        "yes",
        "completed",
        "surrogate (simulated)",
    )
    assert whole.metadata["system_fingerprint"].startswith("SIMULATED")
    assert whole.usage.input_tokens == len(text.split())
    messages: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": text}]}
    ]
    instructed: Any = {
        "model": "surrogate",
        "input": messages,
        "instructions": "Say yes or no.",
    }
    assert client.responses.create(**instructed).output_text == "yes"


class Decision(BaseModel):
    high_income: bool
    answer: Literal["Yes", "No"]


def test_a_structured_answer_is_the_one_that_the_test_set() -> None:
    wanted = Decision(high_income=True, answer="Yes")
    with answers(wanted.model_dump_json()), openai.OpenAI(max_retries=0) as client:
        chat: Any = {"model": "surrogate", "messages": MANAGER}
        parsed = client.chat.completions.parse(**chat, response_format=Decision)
        assert parsed.choices[0].message.parsed == wanted
        answer: Any = {"model": "surrogate", "input": MANAGER}
        read = client.responses.parse(**answer, text_format=Decision)
        assert read.output_parsed == wanted
        with pytest.raises(openai.BadRequestError):
            ask(client, MANAGER, response_format={"type": "xml"})


def test_the_surrogate_fills_no_form(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="not a JSON object"):
        client.chat.completions.parse(
            model="surrogate",
            messages=MANAGER,
            response_format=Decision,  # type: ignore[arg-type]
        )


def test_a_chat_has_the_probability_of_its_answer(client: openai.OpenAI) -> None:
    (choice,) = ask(client, MANAGER, logprobs=True, top_logprobs=2).choices
    (token,) = choice.logprobs.content
    assert token.token == choice.message.content
    assert {top.token for top in token.top_logprobs} == {"yes", "no"}
    for wanted in ({"n": 2}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match="whole and alone"):
            ask(client, MANAGER, **wanted)


def test_an_unreadable_prompt_is_refused() -> None:
    def application() -> None:
        with answers(), openai.OpenAI(max_retries=0) as client:
            with pytest.raises(
                openai.BadRequestError, match=r"did not find 'age'.* in 'hi'"
            ) as unreadable:
                ask(client, [{"role": "user", "content": "hi"}])
            assert (unreadable.value.code, unreadable.value.param) == (
                "unreadable_prompt",
                "messages",
            )

    with pytest.raises(AssertionError, match="the surrogate cannot read the prompt"):
        application()
