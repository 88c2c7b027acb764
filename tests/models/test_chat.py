"""What the client sends, what it makes of what comes back, and when it stops, waits or gives a row up."""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest
import respx

from fwc_llm.errors import FwcError, ProviderError
from fwc_llm.models import Reply, open_model
from fwc_llm.models.chat import ChatModel
from fwc_llm.models.failures import http_failure, retry_after
from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal, serve

KEY = "sk-planted-0123456789abcdefghij"
MESSAGES = [{"role": "system", "content": "Answer yes or no."}, {"role": "user", "content": "Is it?"}]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(model: Any, times: int = 1) -> Reply:
    async def go() -> Reply:
        for _ in range(times):
            reply = await model.ask(MESSAGES)
        await model.aclose()
        return reply

    return asyncio.run(go())


def sent(route: respx.Route, index: int = 0) -> dict[str, Any]:
    return json.loads(route.calls[index].request.content)


def quick(name: str = "gpt-4", **options: Any) -> ChatModel:
    return ChatModel(name, **{"backoff": 0.001, "timeout": 5.0, "deadline": 5.0} | options)


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


# --- failures that stop the run


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            refusal(401, "Incorrect API key provided", "invalid_api_key"),
            ["rejects the key", "OPENAI_API_KEY"],
        ),
        (refusal(400, "litellm.AuthenticationError: Invalid API key"), ["rejects the key"]),
        (refusal(403, "Country not supported"), ["Country not supported"]),
        (
            refusal(404, "The model `gpt-4` does not exist", "model_not_found", param="model"),
            ["does not know the model 'gpt-4'", "may be retired", "platform.openai.com/docs/deprecations"],
        ),
        (HttpReply("<html>nope</html>", 404), ["does not know the model"]),
        (
            refusal(429, "You exceeded your current quota", "insufficient_quota"),
            ["quota is used up", "billing"],
        ),
        (refusal(400, "Unrecognized request argument supplied: foo"), ["Unrecognized request argument"]),
        (
            refusal(400, "Unsupported parameter: 'logprobs'", "unsupported_parameter", param="logprobs"),
            ["refuses the parameter 'logprobs'", "--logprobs"],
        ),
        (HttpReply({"error": {"message": "bad key", "code": 401}}), ["rejects the key"]),
        (HttpReply({"detail": "Not authenticated"}, 401), ["Not authenticated"]),
        (HttpReply({"error": "invalid_token"}, 401), ["invalid_token"]),
    ],
)
def test_a_rejected_run_stops_at_once_with_one_line(
    provider: respx.MockRouter, response: HttpReply, words: list[str]
) -> None:
    body = response.encode().partition(b"\r\n\r\n")[2]
    route = provider.post("/chat/completions").respond(response.status, content=body)
    with pytest.raises(ProviderError) as caught:
        ask(quick(logprobs=True))
    assert caught.value.exit_code == 3
    assert route.call_count == 1
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_model_behind_a_base_url_says_where_to_look() -> None:
    async def go() -> None:
        async with serve(lambda request: refusal(404, "no such model")) as url:
            model = quick("my-model", base_url=f"{url}/v1")
            with pytest.raises(ProviderError, match=rf"{url}/v1/models lists what it serves"):
                await model.ask(MESSAGES)
            await model.aclose()

    asyncio.run(go())


def test_many_failures_in_a_row_stop_the_run(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(500)
    with pytest.raises(ProviderError, match=r"failed 7 times in a row .*500"):
        ask(quick(breaker=7, deadline=60.0))
    assert route.call_count == 7


def test_a_short_outage_does_not_stop_a_run_that_works(provider: respx.MockRouter) -> None:
    good, bad = httpx.Response(200, json=completion("Yes")), httpx.Response(502)
    route = provider.post("/chat/completions").mock(side_effect=[good, *[bad] * 9, good])
    assert ask(quick(breaker=3), times=2).text == "Yes"
    assert route.call_count == 11


def test_a_server_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(ProviderError, match="the connection failed"):
        ask(quick(base_url="http://127.0.0.1:9/v1", breaker=3))


# --- failures of one row


@pytest.mark.parametrize(
    "response",
    [
        refusal(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        refusal(400, "The response was filtered", "content_filter"),
        HttpReply(
            {"error": {"message": "blocked", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, 400
        ),
        refusal(413, "too large"),
    ],
)
def test_a_row_that_can_never_succeed_is_given_up_at_once(
    provider: respx.MockRouter, response: HttpReply
) -> None:
    body = response.encode().partition(b"\r\n\r\n")[2]
    route = provider.post("/chat/completions").respond(response.status, content=body)
    reply = ask(quick())
    assert reply.text is None
    assert reply.error is not None
    assert reply.error.startswith("the service refuses this row")
    assert route.call_count == 1


def test_an_unknown_refusal_is_tried_three_times(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(422, json={"detail": "Unprocessable"})
    reply = ask(quick())
    assert (reply.text, reply.attempts, route.call_count) == (None, 3, 3)
    assert reply.error == "the service refuses this row (422: Unprocessable)"


# --- failures that pass


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500, text="Internal Server Error"),
        httpx.Response(503, headers={"retry-after": "0"}),
        httpx.Response(429, headers={"retry-after-ms": "1"}, json={"error": {"message": "slow down"}}),
        httpx.Response(408),
        httpx.Response(409),
        httpx.Response(200, text="<html>maintenance</html>"),
        httpx.Response(200, text='{"choices": [{"mess'),
        httpx.Response(200, text=""),
        httpx.Response(200, json={"choices": None}),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, json={"choices": [{"message": None}]}),
        httpx.Response(200, json={"error": {"message": "upstream"}}),
        httpx.Response(200, json="a string"),
        httpx.Response(200, content=b"\xff\xfe\x00"),
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("gone"),
        httpx.ReadTimeout("slow"),
    ],
)
def test_passing_failures_are_tried_again(provider: respx.MockRouter, response: Any) -> None:
    if isinstance(response, Exception):
        import httpx2

        response = getattr(httpx2, type(response).__name__)(str(response))
    route = provider.post("/chat/completions").mock(
        side_effect=[response, httpx.Response(200, json=completion("No"))]
    )
    reply = ask(quick())
    assert (reply.text, reply.attempts, route.call_count) == ("No", 2, 2)


def test_the_deadline_of_a_row_covers_all_its_attempts(provider: respx.MockRouter) -> None:
    provider.post("/chat/completions").respond(500, text="oops")
    began = time.monotonic()
    reply = ask(quick(deadline=0.2, backoff=0.05, breaker=10_000))
    assert time.monotonic() - began < 5.0
    assert reply.text is None
    assert reply.error is not None
    assert "deadline of 0.2 s" in reply.error
    assert "500: oops" in reply.error


def test_a_dripping_response_does_not_pass_the_deadline() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        with suppress(asyncio.CancelledError):
            while not writer.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.02)

    async def go() -> Reply:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        model = quick(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", deadline=0.3)
        reply = await model.ask(MESSAGES)
        await model.aclose()
        server.close()
        return reply

    reply = asyncio.run(go())
    assert reply.error is not None
    assert "no response within 0." in reply.error


def test_a_wait_beyond_reason_is_cut_short() -> None:
    reply = HttpReply({"error": {"message": "x"}}, 429, {"retry-after": "86400"})
    assert http_failure(429, reply.body, reply.headers).retry_after == 120.0


def test_a_wait_beyond_the_deadline_gives_the_row_up_at_once(provider: respx.MockRouter) -> None:
    provider.post("/chat/completions").respond(
        429, headers={"retry-after": "120"}, json={"error": {"message": "x"}}
    )
    began = time.monotonic()
    assert ask(quick()).text is None
    assert time.monotonic() - began < 4.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, 120.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


# --- adaptation


@pytest.mark.parametrize(
    ("message", "parameter", "expected"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens'.",
            "max_tokens",
            {"temperature": 0, "max_completion_tokens": 20},
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model. Only 1 is supported.",
            "temperature",
            {"max_tokens": 20},
        ),
        ("Unsupported parameter: 'temperature'", None, {"max_tokens": 20}),
    ],
)
def test_a_refused_parameter_is_adapted_once_and_said_once(
    provider: respx.MockRouter, message: str, parameter: str | None, expected: dict[str, Any]
) -> None:
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": parameter,
        "code": "unsupported_value",
    }
    first = httpx.Response(400, json={"error": error})
    good = httpx.Response(200, json=completion("Yes", "gpt-4"))
    route = provider.post("/chat/completions").mock(side_effect=[first, good, good])
    model = quick()
    identity = dict(model.parameters)
    assert ask(model, times=2).text == "Yes"
    for index in (1, 2):
        assert sent(route, index) == {"model": "gpt-4", "messages": MESSAGES} | expected
    assert len(model.notices) == 1
    assert model.parameters == identity, "a request's identity does not change with the adaptation"


def test_what_the_user_set_is_never_adapted(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(
        400,
        json={"error": {"message": "Unsupported value", "param": "temperature", "code": "unsupported_value"}},
    )
    with pytest.raises(ProviderError, match="refuses the parameter 'temperature'"):
        ask(quick(params={"temperature": 0.5}))
    assert route.call_count == 1


def test_workers_that_hit_the_same_refusal_adapt_together() -> None:
    calls: list[dict[str, Any]] = []

    async def handler(request: HttpRequest) -> HttpReply:
        calls.append(request.json())
        await asyncio.sleep(0.02)
        if "max_tokens" in calls[-1] or "temperature" in request.json():
            name = "max_tokens" if "max_tokens" in request.json() else "temperature"
            return refusal(400, f"Unsupported parameter: '{name}'", "unsupported_parameter", param=name)
        return HttpReply(completion("Yes", "gpt-4"))

    async def go() -> list[Reply]:
        async with serve(handler) as url:
            model = quick(base_url=f"{url}/v1")
            replies = await asyncio.gather(*(model.ask(MESSAGES) for _ in range(8)))
            await model.aclose()
            assert len(model.notices) == 2
            return replies

    assert [reply.text for reply in asyncio.run(go())] == ["Yes"] * 8


def test_a_model_without_a_way_out_stops(provider: respx.MockRouter) -> None:
    def never(request: Any) -> httpx.Response:
        name = next(
            name for name in ("max_tokens", "max_completion_tokens") if name in json.loads(request.content)
        )
        error = {
            "message": f"Unsupported parameter: '{name}'",
            "param": name,
            "code": "unsupported_parameter",
        }
        return httpx.Response(400, json={"error": error})

    route = provider.post("/chat/completions").mock(side_effect=never)
    with pytest.raises(ProviderError, match="max_completion_tokens"):
        ask(quick())
    assert route.call_count == 2


def test_open_model_chooses_by_name() -> None:
    assert open_model("gpt-4").name == "gpt-4"
    model = open_model("my/model", base_url="http://127.0.0.1:1/v1", seed=3, concurrency=2)
    assert (model.name, model.simulated) == ("my/model", False)
