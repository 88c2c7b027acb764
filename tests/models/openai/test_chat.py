"""What the client sends, and what it makes of what comes back."""

import asyncio
from typing import Any

import httpx
import pytest
import respx

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models import open_model
from fwc_llm.models.openai.chat import ChatModel
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve
from tests.models.asking import KEY, MESSAGES, ask, quick, sent


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


# --- the canary: without it, a change of the SDK's transport would let tests reach out


def test_respx_intercepts_the_sdk(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    assert ask(quick()).text == "Yes"
    assert route.call_count == 1
    assert route.calls[0].request.url == "https://api.openai.com/v1/chat/completions"


def test_an_unmatched_request_does_not_go_out(provider: respx.MockRouter) -> None:
    with pytest.raises(respx.models.AllMockedAssertionError):
        ask(quick())


# --- what is sent


def test_the_request_holds_what_was_asked_for_and_no_more(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    ask(quick("gpt-4"))
    assert sent(route) == {"model": "gpt-4", "messages": MESSAGES, "temperature": 0, "max_tokens": 20}
    assert route.calls[0].request.headers["authorization"] == f"Bearer {KEY}"


def test_a_reasoning_model_gets_no_temperature_and_its_own_limit(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes", "gpt-5-mini"))
    model = quick("gpt-5-mini")
    ask(model)
    assert sent(route) == {"model": "gpt-5-mini", "messages": MESSAGES, "max_completion_tokens": 2000}
    assert "no temperature" in model.notices[0]

    plain = quick("gpt-5.6-luna", params={"reasoning_effort": "none"})
    assert plain.parameters == {"temperature": 0, "max_completion_tokens": 20, "reasoning_effort": "none"}


def test_options_reach_the_service(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    ask(quick(max_tokens=5, logprobs=True, params={"temperature": 0.7, "top_p": 0.5}))
    assert sent(route) == {
        "model": "gpt-4", "messages": MESSAGES, "temperature": 0.7, "max_tokens": 5,
        "logprobs": True, "top_logprobs": 20, "top_p": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["model", "messages", "stream", "n"])
def test_parameters_of_our_own_are_refused(name: str) -> None:
    with pytest.raises(FwcError, match=f"leave out --param {name}"):
        ChatModel("gpt-4", params={name: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "localhost:8000"}, "not an http"),
        ({"base_url": "ftp://host/v1"}, "not an http"),
        ({"base_url": "http://me:hush@host/v1"}, "^the base URL of host holds a user, a password"),
        ({"base_url": "https://host/v1?key=hush"}, "^the base URL of host holds a user, a password"),
        ({"rpm": 0}, "rpm is 0"),
        ({"deadline": -1.0}, "deadline is -1"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FwcError, match=message):
        ChatModel("gpt-4", **options)


# --- keys


def test_without_a_key_nothing_is_sent(provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    model = quick()  # a run that is answered already needs no key, so this is no error yet
    with pytest.raises(FwcError, match="set the environment variable OPENAI_API_KEY") as caught:
        ask(model)
    assert caught.value.exit_code == 2
    assert route.call_count == 0


def test_a_key_with_odd_characters_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nx")
    with pytest.raises(FwcError, match="characters that no key has") as caught:
        ask(quick())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "expected"), [(None, "Bearer no-key"), ("OTHER_KEY", "Bearer other-secret")]
)
def test_another_service_gets_only_the_key_that_is_named(
    variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "account-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}")
    monkeypatch.setenv("OTHER_KEY", "other-secret")
    seen: list[dict[str, str]] = []

    def handler(request: HttpRequest) -> HttpReply:
        seen.append(request.headers)
        return HttpReply(completion("Yes"))

    async def go() -> None:
        async with serve(handler) as url:
            model = quick(base_url=f"{url}/v1", api_key_env=variable)
            await model.ask(MESSAGES)
            await model.aclose()

    asyncio.run(go())
    assert seen[0]["authorization"] == expected
    assert KEY not in str(seen)
    assert "account-secret" not in str(seen)


def test_the_environment_does_not_redirect_the_key(
    provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    ask(quick())
    assert route.call_count == 1


def test_an_echoed_key_is_not_kept(provider: respx.MockRouter) -> None:
    provider.post("/chat/completions").respond(json=completion("Yes", debug=f"Bearer {KEY}"))
    assert KEY not in repr(ask(quick()).raw)
    provider.post("/chat/completions").mock(
        return_value=httpx.Response(401, json={"error": {"message": f"Incorrect API key provided: {KEY}"}})
    )
    with pytest.raises(ProviderError) as caught:
        ask(quick())
    assert KEY not in str(caught.value)
    assert KEY not in repr(quick())


def test_a_placeholder_for_a_key_does_not_change_replies(
    provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    provider.post("/chat/completions").respond(json=completion("Yes"))
    assert ask(quick()).text == "Yes"


# --- what comes back


def test_a_reply_is_read_whole(provider: respx.MockRouter) -> None:
    top = [{"token": "Yes", "logprob": -0.1, "bytes": None}, {"token": " no", "logprob": -2.5, "bytes": None}]
    content = [
        {"token": "\n", "logprob": 0, "top_logprobs": []},
        {"token": "Yes", "logprob": -0.1, "top_logprobs": top},
    ]
    body = completion("Yes", "gpt-4-0613")
    body["choices"][0] |= {"logprobs": {"content": content}, "finish_reason": "length"}
    provider.post("/chat/completions").respond(json=body)
    reply = ask(quick())
    assert (reply.text, reply.finish_reason, reply.refusal, reply.error) == ("Yes", "length", False, None)
    assert reply.logprobs == (("Yes", -0.1), (" no", -2.5))
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (
        100,
        1,
        64,
    )
    assert (reply.model, reply.fingerprint, reply.attempts) == ("gpt-4-0613", "fp_1", 1)
    assert reply.raw == body


@pytest.mark.parametrize(
    ("message", "text", "refused"),
    [
        ({"content": None, "refusal": "I can't."}, "I can't.", True),
        ({"content": None}, "", False),
        ({}, "", False),
        ({"content": [{"type": "text", "text": "Yes"}]}, "Yes", False),
        ({"content": " yes", "refusal": None}, " yes", False),
    ],
)
def test_replies_of_many_servers(
    provider: respx.MockRouter, message: dict[str, Any], text: str, refused: bool
) -> None:
    provider.post("/chat/completions").respond(json={"choices": [{"message": message}]})
    reply = ask(quick())
    assert (reply.text, reply.refusal, reply.usage, reply.model, reply.logprobs) == (
        text,
        refused,
        None,
        None,
        None,
    )


def test_another_model_than_asked_for_is_said_once(provider: respx.MockRouter) -> None:
    provider.post("/chat/completions").respond(json=completion("Yes", "llama-3"))
    notices: list[str] = []
    ask(quick(notice=notices.append), times=3)
    assert notices == ["OpenAI answers as 'llama-3', not as 'gpt-4'"]


def test_open_model_chooses_by_name() -> None:
    assert open_model("gpt-4").name == "gpt-4"
    model = open_model("my/model", base_url="http://127.0.0.1:1/v1", seed=3, concurrency=2)
    assert (model.name, model.simulated) == ("my/model", False)


@pytest.mark.parametrize(
    ("name", "url", "said"),
    [
        ("o3", None, "o3 is a reasoning model"),
        ("gpt-9-luna", None, "gpt-9-luna is taken for a reasoning model, by its name"),
        ("o3", "http://127.0.0.1:1/v1", "o3 is taken for a reasoning model, by its name"),
    ],
)
def test_what_is_not_known_to_reason_is_not_said_to(name: str, url: str | None, said: str) -> None:
    assert said in ChatModel(name, base_url=url).notices[0]
