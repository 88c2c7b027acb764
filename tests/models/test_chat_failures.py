"""When the client stops a run, gives a row up, tries again, or adapts to what a model refuses."""

import asyncio
import re
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest
import respx

from fwc_llm.answers import parse_answer
from fwc_llm.errors import ProviderError
from fwc_llm.models import Reply
from fwc_llm.models.openai.retry import retry_after
from tests.command import corpus
from tests.faults.loopback import HttpReply, HttpRequest, completion, refusal
from tests.models.asking import KEY, MESSAGES, ask, over_http, quick, sent


@pytest.mark.parametrize("case", corpus("refusals"))
def test_a_refusal_ends_the_run_or_is_an_answer_or_gives_the_row_up(
    provider: respx.MockRouter, case: dict[str, Any]
) -> None:
    content = HttpReply(case["body"]).encode().partition(b"\r\n\r\n")[2]
    route = provider.post("/chat/completions").respond(
        case["status"], headers=case.get("headers"), content=content
    )
    if case["ends"] == "run":
        with pytest.raises(ProviderError, match=case["words"]) as caught:
            ask(quick(logprobs=True))
        assert (caught.value.exit_code, route.call_count) == (3, 1)
        assert not {"\n", KEY} & {*str(caught.value), *str(caught.value).split()}
        return
    reply = ask(quick())
    assert route.call_count == case.get("attempts", 1)
    if case["ends"] == "filtered":
        assert (reply.text, reply.finish_reason) == ("", "content_filter")
        assert parse_answer(reply).reason == "filtered"
    else:
        assert reply.text is None
        assert str(reply.error).startswith("the service refuses this row")


def test_many_failures_in_a_row_stop_the_run(provider: respx.MockRouter) -> None:
    route = provider.post("/chat/completions").respond(500)
    with pytest.raises(ProviderError, match=r"failed 7 times in a row .*500"):
        ask(quick(breaker=7, deadline=60.0))
    assert route.call_count == 7


def test_a_short_outage_does_not_stop_a_run_that_works(
    provider: respx.MockRouter,
) -> None:
    good = httpx.Response(200, json=completion("Yes"))
    bad = httpx.Response(502)
    route = provider.post("/chat/completions").mock(
        side_effect=[good, *[bad] * 9, good]
    )
    assert ask(quick(breaker=3), times=2).text == "Yes"
    assert route.call_count == 11


# Where nothing listens, and what often does.
def test_a_server_that_does_not_run_is_said_after_two_attempts() -> None:
    with pytest.raises(
        ProviderError, match=r"nothing listens.*is the server running.*base_url"
    ) as caught:
        ask(quick(base_url="http://127.0.0.1:1/v1", deadline=60.0))
    assert caught.value.exit_code == 3


def test_the_deadline_of_a_row_covers_all_its_attempts(
    provider: respx.MockRouter,
) -> None:
    provider.post("/chat/completions").respond(500, text="oops")
    began = time.monotonic()
    reply = ask(quick(deadline=1.5, backoff=0.05, breaker=10_000))
    assert time.monotonic() - began < 30.0
    assert reply.text is None
    assert re.search(r"deadline of 1\.5 s .*500: oops", str(reply.error))


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
        model = quick(
            base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1",
            deadline=0.3,
        )
        reply = await model.ask(MESSAGES)
        await model.aclose()
        server.close()
        return reply

    assert "no response within 0." in str(asyncio.run(go()).error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, 120.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("message", "parameter", "expected"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported here. Use "
            "'max_completion_tokens'.",
            "max_tokens",
            {"temperature": 0, "max_completion_tokens": 20},
        ),
        (
            "Unsupported value: 'temperature' does not support 0 with this model. Only 1 is "
            "supported.",
            "temperature",
            {"max_tokens": 20},
        ),
    ],
)
def test_refusals_adapt(
    provider: respx.MockRouter, message: str, parameter: str, expected: Any
) -> None:
    first = httpx.Response(
        400, json=refusal(400, message, "unsupported_value", param=parameter).body
    )
    good = httpx.Response(200, json=completion("Yes", "gpt-4"))
    route = provider.post("/chat/completions").mock(side_effect=[first, good, good])
    model = quick()
    identity = dict(model.parameters)
    assert ask(model, times=2).text == "Yes"
    for index in (1, 2):
        assert sent(route, index) == {"model": "gpt-4", "messages": MESSAGES} | expected
    assert len(model.notices) == 1
    assert model.parameters == identity, (
        "a request's identity does not change with the adaptation"
    )


def test_what_the_user_set_is_never_adapted(provider: respx.MockRouter) -> None:
    refused = refusal(
        400, "Unsupported value", "unsupported_value", param="temperature"
    )
    route = provider.post("/chat/completions").respond(400, json=refused.body)
    with pytest.raises(ProviderError, match="refuses the parameter 'temperature'"):
        ask(quick(params={"temperature": 0.5}))
    assert route.call_count == 1


def test_workers_that_hit_the_same_refusal_adapt_together() -> None:
    async def handler(request: HttpRequest) -> HttpReply:
        await asyncio.sleep(0.02)
        for name in ("max_tokens", "temperature"):
            if name in request.json():
                return refusal(
                    400,
                    f"Unsupported parameter: '{name}'",
                    "unsupported_parameter",
                    param=name,
                )
        return HttpReply(completion("Yes", "gpt-4"))

    replies, model, _ = over_http(handler, times=8, together=True)
    assert [reply.text for reply in replies] == ["Yes"] * 8
    assert len(model.notices) == 2
