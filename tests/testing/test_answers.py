"""Applications' tests: what the SDK's calls are answered, and that nothing leaves the machine."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from fwc_llm import Reply, build_prompt, evaluate, load_task
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.testing import Answers, Call, answers
from fwc_llm.testing.plugin import fwc_openai as fwc_openai
from tests.faults.loopback import HttpReply, serve_in_thread
from tests.refusals import refused

HELLO: Any = [{"role": "user", "content": "Is it?"}]
QUESTION: Any = {"type": "predicate", "instructions": "Is it?", "name": "q"}


def chat(messages: Any = HELLO, **options: Any) -> Any:
    return openai.OpenAI().chat.completions.create(
        model="gpt-6-luna", messages=messages, **options
    )


def said(messages: Any = HELLO, **options: Any) -> str | None:
    return chat(messages, **options).choices[0].message.content


def decision(
    given: Any = "Is it?", questions: Any = (QUESTION,), **options: Any
) -> Any:
    asked = {"model": "gpt-6-luna", "input": given, "questions": questions, **options}
    return openai.OpenAI().decisions.create(**asked).answers


@pytest.mark.slow
def test_the_surrogate_answers_chats_and_decisions_of_both_clients(
    fwc_openai: Answers,
) -> None:
    task = load_task("census")
    prompt: Any = build_prompt(task, task.test().iloc[0])
    ours = Surrogate().reply(prompt)
    assert chat(prompt).choices[0].message.content == ours.text

    async def asked() -> tuple[Any, Any]:
        async with openai.AsyncOpenAI() as client:
            decided = await client.decisions.create(
                model="x", input=prompt, questions=[QUESTION]
            )
            return decided, await client.chat.completions.create(
                model="x", messages=prompt
            )

    decided, completion = asyncio.run(asked())
    assert completion.choices[0].message.content == ours.text
    assert decided.answers[0].probability == pytest.approx(
        Surrogate().p_yes(prompt), abs=1e-6
    )
    assert decided.answers == decision(prompt)
    paths = [call.path.removeprefix("/v1/") for call in fwc_openai.calls]
    assert paths == ["chat/completions", "decisions", "chat/completions", "decisions"]
    assert [call.model for call in fwc_openai.calls] == [
        "gpt-6-luna",
        "x",
        "x",
        "gpt-6-luna",
    ]
    assert fwc_openai.calls[0].messages == prompt == fwc_openai.calls[1].messages


@pytest.mark.parametrize(
    ("source", "text", "probability"),
    [
        ("Yes.", "Yes.", 1.0),
        ("no", "no", 0.0),
        (True, "yes", 1.0),
        (0.25, "no", 0.25),
        (1, "yes", 1.0),
        (Reply("Yes", logprobs=(("Yes", -0.5), ("No", -2.0))), "Yes", 0.817574),
        ("Who knows", "Who knows", None),
        (Reply("I will not", refusal=True), None, None),
    ],
)
def test_fixed_answers(
    source: Any, text: str | None, probability: float | None
) -> None:
    with answers(source):
        message = chat().choices[0].message
        assert message.content == text
        assert message.refusal == ("I will not" if text is None else None)
        (answer,) = decision()
        if probability is None:
            assert (answer.type, answer.name) == ("refusal", "q")
        else:
            assert (answer.type, answer.probability) == (
                "predicate",
                pytest.approx(probability, abs=1e-6),
            )


def test_a_function_sees_the_call() -> None:
    def answer(call: Call) -> Any:
        if call.question is not None:
            return 0.9 if call.question["name"] == "q" else 0.1
        if "it" in call.messages[-1]["content"]:
            return "Yes"
        return "No"

    with answers(answer) as given:
        assert said() == "Yes"
        both = decision(questions=[QUESTION, QUESTION | {"name": "r"}])
        assert [one.probability for one in both] == [0.9, 0.1]
        assert len(given.calls) == 2
        given.use("changed")
        assert said() == "changed"


def test_recorded_answers() -> None:
    with answers("recorded"):
        body = chat().model_dump()
    for source in ([body, "No"], {"Is it": body, "Other": "No"}):
        with answers(source):
            assert said() == "recorded"
            assert said([{"role": "user", "content": "Other"}]) == "No"


def embedded() -> None:
    openai.OpenAI().embeddings.create(model="m", input="x")


def elsewhere() -> None:
    httpx2.get("https://weather.example/today")


def twice() -> None:
    for _ in range(2):
        chat()


@pytest.mark.parametrize(
    ("source", "act", "named"),
    [
        ("Yes", embedded, "POST /v1/embeddings"),
        ("Yes", elsewhere, "GET https://weather.example/today"),
        (["Yes"], twice, r"POST /v1/chat/completions \('Is it\?'\)"),
        ({"Other": "Yes"}, chat, r"POST /v1/chat/completions \('Is it\?'\)"),
        (lambda call: None, chat, r"POST /v1/chat/completions \('Is it\?'\)"),
    ],
)
@pytest.mark.parametrize("swallowed", [False, True])
def test_unexpected_calls_fail(
    source: Any, act: Callable[[], Any], named: str, swallowed: bool
) -> None:
    """Also where the application catches whatever happens."""

    def application() -> None:
        try:
            act()
        except Exception:
            if not swallowed:
                raise

    with (
        pytest.raises(
            AssertionError, match=f"^calls that the test did not expect: {named}$"
        ),
        answers(source),
    ):
        application()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (3.5, "3.5 is not an answer"),
        (object(), "not a source of"),
        (Path("a.json"), "folder of a run"),
    ],
)
def test_what_is_no_source_is_refused(source: Any, words: str) -> None:
    with refused(words), answers(source):
        pass


def test_everything_is_as_before_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    before = (
        httpx2.HTTPTransport.handle_request,
        httpx2.AsyncHTTPTransport.handle_async_request,
    )
    with (
        pytest.raises(AssertionError, match="embeddings"),
        answers("outer"),
        pytest.raises(openai.BadRequestError),
    ):
        embedded()
    with answers("outer"):
        assert os.environ["OPENAI_API_KEY"]
        with answers("inner"):
            assert said() == "inner"
        assert said() == "outer"
    assert before == (
        httpx2.HTTPTransport.handle_request,
        httpx2.AsyncHTTPTransport.handle_async_request,
    )
    assert "OPENAI_API_KEY" not in os.environ


def test_a_tests_own_server_is_still_reached() -> None:
    with (
        serve_in_thread(lambda request: HttpReply("hello")) as url,
        answers("Yes") as given,
    ):
        assert httpx2.get(f"{url}/anything").text == "hello"
        client = openai.OpenAI(base_url=f"{url}/v1")
        assert (
            client.chat.completions.create(model="x", messages=HELLO)
            .choices[0]
            .message.content
            == "Yes"
        )
        assert len(given.calls) == 1


@pytest.mark.slow
def test_our_own_client_is_answered_too(fwc_openai: Answers, tmp_path: Path) -> None:
    """A whole evaluation by name of a model, without a key: the surrogate behind OpenAI's
    address.
    """
    there = evaluate(
        "census", "gpt-4", ("zero",), n_test=16, logprobs=True, out=tmp_path / "a"
    )
    here = evaluate("census", "surrogate", ("zero",), n_test=16, out=tmp_path / "b")
    assert there.records.plain() == here.records.plain()
    assert len(fwc_openai.calls) == 16
    assert fwc_openai.calls[0].body["temperature"] == 0


def test_a_forgotten_answer_fails_the_test_even_if_the_application_catches_the_error() -> (
    None
):
    def application() -> None:
        with answers(), suppress(openai.OpenAIError):
            said()

    with pytest.raises(AssertionError, match="without an answer set by `use`"):
        application()
