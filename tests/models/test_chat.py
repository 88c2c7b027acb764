"""What the client sends, and what it makes of what comes back; addresses that lead nowhere."""

from functools import partial
from typing import Any

import pytest
import respx

from fwc_llm.answers import probability
from fwc_llm.models import Usage
from fwc_llm.models.bodies import read_reply
from fwc_llm.models.openai.chat import ChatModel
from tests.command import corpus
from tests.faults.loopback import HttpReply, completion, with_logprobs
from tests.faults.table import Raw
from tests.models.asking import KEY, MESSAGES, ask, over_http, quick, sent
from tests.refusals import refused


def test_the_request_holds_what_was_asked_for_and_no_more(
    provider: respx.MockRouter,
) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    ask(quick("gpt-4"))
    assert sent(route) == {
        "model": "gpt-4",
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 20,
    }
    ask(quick(max_tokens=5, logprobs=True, params={"temperature": 0.7, "top_p": 0.5}))
    assert sent(route, 1) == {
        "model": "gpt-4",
        "messages": MESSAGES,
        "temperature": 0.7,
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 20,
        "top_p": 0.5,
    }
    assert route.calls[0].request.headers["authorization"] == f"Bearer {KEY}"


def test_a_reasoning_model_gets_no_temperature_and_its_own_limit(
    provider: respx.MockRouter,
) -> None:
    route = provider.post("/chat/completions").respond(
        json=completion("Yes", "gpt-5-mini")
    )
    model = quick("gpt-5-mini")
    ask(model)
    assert sent(route) == {
        "model": "gpt-5-mini",
        "messages": MESSAGES,
        "max_completion_tokens": 2000,
    }
    assert "no temperature" in model.notices[0]


@pytest.mark.parametrize("name", ["model", "messages", "stream", "n"])
def test_parameters_of_our_own_are_refused(name: str) -> None:
    with refused(rf"leave out params\[.{name}"):
        quick(params={name: 1})


def test_without_a_key_nothing_is_sent(
    provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    route = provider.post("/chat/completions").respond(json=completion("Yes"))
    model = (
        quick()
    )  # a run that is answered already needs no key, so this is not an error yet
    with refused("set the environment variable OPENAI_API_KEY") as caught:
        ask(model)
    assert (caught.value.exit_code, route.call_count) == (2, 0)


def test_a_key_with_odd_characters_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nx")
    with refused("characters that no key has") as caught:
        ask(quick())
    assert KEY not in str(caught.value)


def test_no_cookie_is_kept() -> None:
    answer = HttpReply(completion("Yes"), headers={"set-cookie": "a=b; Path=/"})
    assert not [
        request
        for request in over_http(answer, times=2)[2]
        if "cookie" in request.headers
    ]


def test_the_variable_of_the_sdk_names_the_service_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(base_url: str) -> ChatModel:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{base_url}/")
        model = quick()
        assert model.address == base_url
        return model

    _, model, (request,) = over_http(HttpReply(completion("Yes", "gpt-4")), make)
    assert model.notices == [
        f"gpt-4 is asked at {model.address}, which OPENAI_BASE_URL names"
    ]
    assert (
        request.headers["authorization"] == f"Bearer {KEY}"
    )  # the two variables belong together
    assert quick(base_url="http://127.0.0.1:9/v1").address == "http://127.0.0.1:9/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "not an address")
    with refused("not an http"):
        quick()


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"base_url": url}
            for url in (
                "http://me:hush-hush@host/v1",
                "me:hush-hush@host",
                "http://h?x=hush",
                "http://h#hush",
                "http://sk-hush-hush-hush:99999",
            )
        ),
        {"api_key_env": "hush-hush"},
        {"api_key_env": "AB12HUSH"},
        {"params": {"extra_headers": {"Authorization": "hush-hush"}}},
        {"params": {"x": "Bearer hush-hush"}},
    ],
)
def test_no_message_repeats_a_key_or_a_password(options: dict[str, Any]) -> None:
    with refused() as caught:
        ask(quick(**options))
    assert "hush" not in str(caught.value).lower()


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://host:99999/v1",
        "http://host:x/v1",
        "http://",
        "http://ho st/v1",
        "http://h\n/v1",
        "http://h\x1b[2J/v1",
        "http://\ud800/v1",
        "http://h:0/v1",
        "//host/v1",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with refused("is not an http") as caught:
        quick(base_url=url)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("HTTPS_PROXY", "nonsense://x"),
        ("HTTP_PROXY", "http://[::1"),
        ("SSL_CERT_FILE", "/nowhere/cert.pem"),
        ("ALL_PROXY", "http://h:port"),
    ],
)
def test_an_environment_without_a_way_out(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    model = quick(base_url="https://host.example/v1")
    with refused(r"no connection to .* can be set up.*HTTPS_PROXY") as caught:
        model.require_key()
    assert caught.value.exit_code == 2


def test_a_simulation_is_marked_whatever_it_is_called() -> None:
    for name, fingerprint in (("gpt-4", "SIMULATED 1"), ("surrogate (simulated)", "")):
        body = completion("Yes", name, system_fingerprint=fingerprint)
        _, model, _ = over_http(HttpReply(body))
        assert model.simulated
    assert not quick().simulated


def test_a_reply_is_read_whole(provider: respx.MockRouter) -> None:
    top = [
        {"token": "Yes", "logprob": -0.1, "bytes": None},
        {"token": " no", "logprob": -2.5, "bytes": None},
    ]
    content = [
        {"token": "\n", "top_logprobs": []},
        {"token": "Yes", "logprob": -0.1, "top_logprobs": top},
    ]
    body = completion("Yes", "gpt-4-0613")
    body["choices"][0] |= {"logprobs": {"content": content}, "finish_reason": "length"}
    provider.post("/chat/completions").respond(json=body)
    reply = ask(quick())
    assert (reply.text, reply.finish_reason, reply.refusal, reply.error) == (
        "Yes",
        "length",
        False,
        None,
    )
    assert (reply.logprobs, reply.usage) == (
        (("Yes", -0.1), (" no", -2.5)),
        Usage(100, 1, 64),
    )
    assert (reply.model, reply.fingerprint, reply.attempts) == ("gpt-4-0613", "fp_1", 1)
    assert reply.raw == body


@pytest.mark.parametrize("case", corpus("p_yes"))
def test_p_yes_follows_the_tokens_of_the_answer(case: dict[str, Any]) -> None:
    body = with_logprobs(completion(case["text"]), *case["tokens"])
    expected = case["p_yes"] and pytest.approx(case["p_yes"], abs=0.001)
    assert probability(read_reply(body)) == expected


def test_another_model_than_asked_for_is_said_once(provider: respx.MockRouter) -> None:
    provider.post("/chat/completions").respond(json=completion("Yes", "llama-3"))
    notices: list[str] = []
    ask(quick(notice=notices.append), times=3)
    assert notices == ["OpenAI answers as 'llama-3', not as 'gpt-4'"]


@pytest.mark.parametrize(
    ("served", "is_said"),
    [
        ("gpt-4", False),
        ("openai/gpt-4-0613", False),
        ("gpt-4:latest", False),
        ("GPT-4", False),
        ("gpt-4-turbo", True),
        ("gpt-4o", True),
        ("gpt-5", True),
        ("not-gpt-4", True),
    ],
)
def test_a_version_is_the_same_model_and_a_smaller_one_is_not(
    provider: respx.MockRouter, served: str, is_said: bool
) -> None:
    provider.post("/chat/completions").respond(json=completion("Yes", served))
    notices: list[str] = []
    ask(quick(notice=notices.append))
    assert bool(notices) == is_said


def test_a_response_that_nobody_asked_for_is_nobody_s_answer() -> None:
    """A broken proxy sends each response a second time, with the opposite word."""
    both = [HttpReply(completion(word, "m")).encode() for word in ("Yes", "No")]
    notices: list[str] = []
    make = partial(quick, "m", notice=notices.append)
    replies, _, _ = over_http(Raw(b"".join(both)), make, times=20)
    assert {reply.text for reply in replies} == {"Yes"}
    assert ["more than one response" in notice for notice in notices] == [True]
