"""The surrogate behind real HTTP: with OpenAI's own client, with ours, and with requests that are wrong."""

import asyncio
import http.client
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from fwc_llm import evaluate
from fwc_llm.errors import FwcError
from fwc_llm.models import open_model
from fwc_llm.models.base import Message
from fwc_llm.models.decisions import take_apart
from fwc_llm.models.surrogate.model import Surrogate
from fwc_llm.models.surrogate.serve import SurrogateServer, serving
from fwc_llm.prompts import Prompt
from fwc_llm.shots import select_shots
from fwc_llm.tasks import load_task

PERSON = (
    "age 39, workclass Private, education {education}, highest education level {level}, marital status "
    "{marital}, occupation {occupation}, relationship Husband, race White, sex {sex}, capital gain 0, "
    "capital loss 0, hours per week 40, native country United-States"
)
MANAGER: list[Message] = [
    {
        "role": "user",
        "content": PERSON.format(
            education="Masters",
            level=14,
            marital="Married-civ-spouse",
            occupation="Exec-managerial",
            sex="Male",
        ),
    }
]
CLERK: list[Message] = [
    {
        "role": "user",
        "content": PERSON.format(
            education="HS-grad", level=9, marital="Never-married", occupation="Adm-clerical", sex="Female"
        ),
    }
]


@pytest.fixture
def url() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, messages: list[Message], **options: Any) -> Any:
    return client.chat.completions.create(model="surrogate", messages=messages, **options)  # type: ignore[arg-type]


def test_openais_client_gets_an_answer_with_everything_a_completion_has(client: openai.OpenAI) -> None:
    completion = ask(client, MANAGER, temperature=0, max_tokens=20)
    choice = completion.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "yes", "stop")
    assert choice.logprobs is None
    assert ask(client, CLERK).choices[0].message.content == "no"
    assert completion.model == "surrogate (simulated)"
    assert completion.object == "chat.completion"
    assert completion.id.startswith("chatcmpl-")
    assert completion.system_fingerprint.startswith("SIMULATED ")
    words = len(MANAGER[0]["content"].split())
    usage = completion.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (words, 1, words + 1)


def test_an_answer_can_be_streamed(client: openai.OpenAI) -> None:
    chunks = list(ask(client, MANAGER, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == "yes"
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices] == [None, "stop"]
    assert chunks[-1].usage.completion_tokens == 1
    assert {chunk.model for chunk in chunks} == {"surrogate (simulated)"}


def test_another_model_and_an_unreadable_prompt_are_refused_as_the_api_does(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match=r"did not find 'age'.* in 'hi'") as unreadable:
        ask(client, [{"role": "user", "content": "hi"}])
    assert (unreadable.value.code, unreadable.value.param) == ("unreadable_prompt", "messages")


def test_a_key_can_be_required() -> None:
    with serving(key="sesame") as url:
        with openai.OpenAI(base_url=url, api_key="sesame") as right:
            assert ask(right, MANAGER).choices[0].message.content == "yes"
        with (
            openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as wrong,
            pytest.raises(openai.AuthenticationError) as refused,
        ):
            wrong.models.list()
        assert refused.value.code == "invalid_api_key"
        assert "wrong" not in str(refused.value.body)


def test_our_client_gets_the_same_answers_over_http(url: str) -> None:
    async def compare() -> None:
        model = open_model("surrogate", base_url=url, logprobs=True)
        try:
            for messages in (MANAGER, CLERK):
                over_http, direct = await model.ask(messages), Surrogate().reply(messages)
                assert over_http.text == direct.text
                assert dict(over_http.logprobs or ()) == pytest.approx(dict(direct.logprobs or ()))
                assert (over_http.usage, over_http.model) == (direct.usage, "surrogate (simulated)")
            assert model.simulated
        finally:
            await model.aclose()

    asyncio.run(compare())


# What is below has no client of OpenAI's between it and the socket.


def connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)


def send(
    wire: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, Any]]:
    wire.request(method, path, body if isinstance(body, bytes | None) else json.dumps(body))
    reply = wire.getresponse()
    return reply.status, json.loads(reply.read())


def good(**changes: Any) -> dict[str, Any]:
    return {"model": "surrogate", "messages": MANAGER, **changes}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        *((body, 400, "could not parse the JSON") for body in (b"{", b"[" * 100_000, b"\xff\xfe\xff", b"")),
        ([], 400, "body"),
        ({"messages": MANAGER}, 400, "model"),
        (good(model=7), 400, "model"),
        (good(model="gpt-4"), 404, "`gpt-4` does not exist"),
        (good(messages=None), 400, "messages"),
        (good(messages=[{"role": "user"}]), 400, "messages.0.content"),
        (good(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), 400, "messages.0.content"),
        (good(messages=[{"role": "user", "content": "\ud800"}]), 400, ""),
        (good(temperature=2.5), 400, "temperature"),
        (good(temperature=math.nan), 400, "temperature"),
        (good(n=2), 400, "n:"),
        (good(logprobs=True, top_logprobs=21), 400, "top_logprobs"),
        (good(stream="yes"), 400, "stream"),
    ],
)
def test_wrong_requests_are_refused_and_the_connection_goes_on(
    url: str, body: Any, status: int, words: str
) -> None:
    wire = connection(url)
    got, reply = send(wire, "POST", "/v1/chat/completions", body)
    assert got == status
    assert words in reply["error"]["message"]
    assert reply["error"]["type"] == "invalid_request_error"
    kept = wire.sock
    assert send(wire, "POST", "/v1/chat/completions", good())[0] == 200
    assert wire.sock is kept is not None


def test_text_in_parts_is_read_and_null_is_absent(url: str) -> None:
    parts = [{"type": "text", "text": MANAGER[0]["content"][:50]}]
    parts.append({"type": "text", "text": MANAGER[0]["content"][50:]})
    body = good(messages=[{"role": "user", "content": parts}], temperature=None, stream=None, n=1)
    status, reply = send(connection(url), "POST", "/v1/chat/completions", body)
    assert (status, reply["choices"][0]["message"]["content"]) == (200, "yes")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models/surrogate", 405),
        ("GET", "/", 404),
        ("POST", "/v1/embeddings", 404),
        ("BREW", "/v1/models", 501),
    ],
)
def test_other_paths_and_methods(url: str, method: str, path: str, status: int) -> None:
    got, reply = send(connection(url), method, path, {"model": "surrogate"})
    assert got == status
    assert reply["error"]["message"]


def raw(url: str, text: bytes) -> bytes:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as wire:
        wire.sendall(text)
        wire.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: wire.recv(65536), b""))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 411),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 411),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"nonsense\r\n\r\n", 400),
        (b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_what_is_no_request_is_refused_in_json(url: str, head: bytes, status: int) -> None:
    reply = raw(url, head)
    assert str(status).encode() in reply[:40] or status == 400  # HTTP/0.9 has no status line
    assert b'{"error": ' in reply


def test_clients_that_hang_up_leave_no_trace(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    raw(url, b"")
    raw(url, b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    assert send(connection(url), "GET", "/v1/models")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_taken_port_is_named() -> None:
    with (
        SurrogateServer(Surrogate()) as server,
        pytest.raises(FwcError, match=rf"cannot listen on 127.0.0.1, port {server.server_port}"),
    ):
        SurrogateServer(Surrogate(), port=server.server_port)


def test_it_answers_to_a_second_name_and_its_answers_stay_marked() -> None:
    async def go(url: str) -> None:
        model = open_model("gpt-4", base_url=url)
        assert not model.simulated
        reply = await model.ask(MANAGER)
        await model.aclose()
        assert (reply.text, reply.model) == ("yes", "surrogate (simulated)")
        assert str(reply.fingerprint).startswith("SIMULATED")
        assert model.simulated

    with serving(name="gpt-4") as url:
        asyncio.run(go(url))
        assert send(connection(url), "GET", "/v1/models/gpt-4")[0] == 200
        wire = connection(url)
        wire.request("GET", "/v1/models")
        assert wire.getresponse().headers["x-fwc-llm-answers"] == "SIMULATED"


def test_a_run_is_marked_by_its_replies_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = {"arms": ("zero",), "n_test": 8, "out": tmp_path / "run", "progress": False}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    with serving(name="gpt-4") as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        task = load_task("census")
        result = evaluate(task, "gpt-4", **asked)
    assert result.data["simulated_answers"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["simulated_answers"]
    assert "simulated" in str(result).casefold()
    assert evaluate(task, "gpt-4", **asked).data == result.data  # the server is gone, nothing is asked


# --- decisions and System One

QUESTION = {"type": "predicate", "name": "q", "instructions": "Is the income high?"}
NOUL = {"type": "noul", "instructions": "Is the income high?"}


@pytest.fixture(scope="module")
def prompts() -> dict[str, Any]:
    """One row with weighted examples: as a chat, and as the wordings of the other sets for decisions."""
    census = load_task("census")
    shots = select_shots(census, "random", 6, progress=False)
    row = census.test().iloc[3]
    made: dict[str, Any] = {"chat": Prompt(census, shots).build(row)}
    for template in ("decision", "default", "paper", "decodingtrust"):
        made[template] = Prompt(census, shots, template, questions="several").build(row)
    return made


@pytest.mark.parametrize("template", ["decision", "default", "paper", "decodingtrust"])
def test_every_wording_and_format_means_what_the_chat_means(
    url: str, client: openai.OpenAI, prompts: dict[str, Any], template: str
) -> None:
    p = Surrogate().p_yes(prompts["chat"])
    asked = take_apart(prompts[template])
    nouls = {name: {"type": "noul", "instructions": words} for name, words in asked.questions.items()}
    body = {"model": "surrogate", "state": asked.text, "questions": nouls}
    _, reply = send(connection(url), "POST", "/v1/systemone", body)
    assert {name: answer["noul"] for name, answer in reply["answers"].items()} == pytest.approx(
        {"answer": p, "negation": 1 - p, "paraphrase": p}, abs=1e-6
    )
    assert reply["model"] == "surrogate (simulated)"
    assert reply["usage"]["input_tokens"] == len(asked.text.split())
    for shown in (asked.text, [dict(message) for message in asked.input]):
        decision = client.decisions.create(model="surrogate", input=shown, questions=[QUESTION])  # type: ignore[arg-type, list-item]
        answer: Any = decision.answers[0]
        assert (answer.type, answer.name) == ("predicate", "q")
        assert answer.probability == pytest.approx(p, abs=1e-6)


def test_a_state_may_be_an_object(url: str) -> None:
    census = load_task("census")
    row = census.test().iloc[3]
    text = Prompt(census, None, questions="one").build(row)[-2]["content"]
    state = dict(line.removeprefix("- ").split(": ") for line in text.splitlines()[1:])
    body = {"model": "surrogate", "state": state, "questions": {"q": NOUL}}
    _, reply = send(connection(url), "POST", "/v1/systemone", body)
    assert reply["answers"]["q"]["noul"] == pytest.approx(
        Surrogate().p_yes(Prompt(census, None).build(row)), abs=1e-6
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("systemone", {"state": "x", "questions": {}}, 422, "questions"),
        ("systemone", {"state": "x", "questions": {"q": 7}}, 422, "questions.q"),
        ("systemone", {"statt": "x", "questions": {"q": NOUL}}, 422, "state"),
        ("systemone", {"state": "x", "questions": {"q": {**NOUL, "type": "score"}}}, 400, "yes/no"),
        ("systemone", {"model": "jev", "state": "x", "questions": {"q": NOUL}}, 404, "`jev` does not exist"),
        ("systemone", {"state": "nobody", "questions": {"q": NOUL}}, 400, "cannot read this prompt"),
        ("decisions", {"input": "x", "questions": []}, 400, "questions"),
        ("decisions", {"input": "x", "questions": [QUESTION] * 401}, 400, "questions"),
        ("decisions", {"input": "x", "questions": [QUESTION], "temperature": 0}, 400, "temperature"),
        ("decisions", {"questions": [QUESTION]}, 400, "input"),
    ],
)
def test_wrong_decisions_are_refused(url: str, path: str, body: Any, status: int, words: str) -> None:
    got, reply = send(connection(url), "POST", f"/v1/{path}", {"model": "surrogate", **body})
    assert got == status
    assert words in reply["error"]["message"]


@pytest.mark.slow
def test_the_command_serves_says_where_and_stops_on_control_c() -> None:
    command = [sys.executable, "-m", "fwc_llm", "serve-surrogate", "--port", "0", "--require-key", "MY_KEY"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MY_KEY": "sesame"},
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", url)
    with openai.OpenAI(base_url=url, api_key="sesame") as client:
        assert ask(client, MANAGER).choices[0].message.content == "yes"
        process.send_signal(signal.SIGINT)  # with the connection still open
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert "simulation" in err
    assert "sesame" not in err
    assert "Traceback" not in err
