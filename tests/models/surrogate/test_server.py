"""The surrogate behind real HTTP: with OpenAI's own client, with ours, and with requests that are wrong."""

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
from typing import Any, Literal
from urllib.parse import urlsplit

import openai
import pytest
from pydantic import BaseModel

from fwc_llm import evaluate
from fwc_llm.models.base import Message
from fwc_llm.models.decisions import Parts
from fwc_llm.models.surrogate.model import FORMS, Surrogate
from fwc_llm.prompts import Prompt
from fwc_llm.shots import select_shots
from fwc_llm.tasks import load_task
from tests.faults.loopback import serving

PERSON = (
    "age 39, workclass Private, education {}, highest education level {}, marital status {}, occupation {}, "
    "relationship Husband, race White, sex {}, capital gain 0, capital loss 0, hours per week 40, "
    "native country United-States"
)
MANAGED = ("Masters", 14, "Married-civ-spouse", "Exec-managerial", "Male")
CLERICAL = ("HS-grad", 9, "Never-married", "Adm-clerical", "Female")
MANAGER: list[Message] = [{"role": "user", "content": PERSON.format(*MANAGED)}]
CLERK: list[Message] = [{"role": "user", "content": PERSON.format(*CLERICAL)}]


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
    assert (completion.model, completion.object) == ("surrogate (simulated)", "chat.completion")
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


def test_the_responses_api_answers_as_the_chat_does(client: openai.OpenAI) -> None:
    text: str = MANAGER[0]["content"]
    asked: Any = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    whole: Any = client.responses.create(model="surrogate", input=text, **asked)
    assert (whole.output_text, whole.status, whole.model) == ("yes", "completed", "surrogate (simulated)")
    assert whole.metadata["system_fingerprint"].startswith("SIMULATED")
    assert len(whole.output[0].content[0].logprobs[0].top_logprobs) == 2
    assert whole.usage.input_tokens == len(text.split())
    messages: Any = [{"role": "user", "content": [{"type": "input_text", "text": text}]}]
    instructed: Any = {"model": "surrogate", "input": messages, "instructions": "Say yes or no."}
    assert client.responses.create(**instructed).output_text == "yes"
    for refused in ({"previous_response_id": "resp_1"}, {"stream": True}):
        with pytest.raises(openai.BadRequestError, match=next(iter(refused))):
            client.responses.create(**instructed, **refused)


class Decision(BaseModel):
    high_income: bool
    answer: Literal["Yes", "No"]


class Reasoned(BaseModel):
    reason: str
    high_income: bool


TOOL: Any = {"type": "function", "function": {"name": "decide", "parameters": Decision.model_json_schema()}}


def test_structured_answers_and_tools_are_honoured_or_refused(client: openai.OpenAI) -> None:
    wanted = Decision(high_income=True, answer="Yes")
    chat: Any = {"model": "surrogate", "messages": MANAGER}
    answer: Any = {"model": "surrogate", "input": MANAGER}
    assert client.chat.completions.parse(**chat, response_format=Decision).choices[0].message.parsed == wanted
    assert client.responses.parse(**answer, text_format=Decision).output_parsed == wanted
    for choice in ("required", {"type": "function", "function": {"name": "decide"}}):
        (call,) = ask(client, MANAGER, tools=[TOOL], tool_choice=choice).choices[0].message.tool_calls
        assert Decision.model_validate_json(call.function.arguments) == wanted
    answer |= {"tools": [{"type": "function", **TOOL["function"], "strict": True}], "tool_choice": "required"}
    (item,) = client.responses.create(**answer).output
    assert Decision.model_validate_json(item.arguments) == wanted
    assert ask(client, MANAGER, tools=[TOOL], tool_choice="auto").choices[0].message.content == "yes"
    with pytest.raises(openai.BadRequestError, match="'reason'"):
        client.chat.completions.parse(**chat, response_format=Reasoned)
    other = {"type": "function", "function": {"name": "other"}}
    for refused in ({"tool_choice": other, "tools": [TOOL]}, {"response_format": {"type": "xml"}}):
        with pytest.raises(openai.BadRequestError):
            ask(client, MANAGER, **refused)


def test_an_answer_in_a_form_comes_with_its_probability_and_n_of_them(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    asked: Any = {"response_format": form, "logprobs": True, "top_logprobs": 2}
    first, second = ask(client, MANAGER, **asked, n=2).choices
    assert (first.index, second.index) == (0, 1)
    assert json.loads(first.message.content) == {"answer": "yes"}
    tokens = first.logprobs.content
    assert "".join(token.token for token in tokens) == first.message.content
    assert {top.token for top in tokens[1].top_logprobs} == {"yes", "no"}
    drawn = {
        ask(client, CLERK, temperature=2, n=20, seed=seed).choices[0].message.content for seed in range(9)
    }
    each = ask(client, CLERK, temperature=2, n=20)
    assert drawn == {choice.message.content for choice in each.choices} == {"yes", "no"}
    assert each.usage.completion_tokens == 20


def test_an_answer_in_a_form_is_the_one_in_words_whatever_the_examples_capitals() -> None:
    shown: list[Message] = [*CLERK, {"role": "assistant", "content": "No"}]
    shown += [*MANAGER, {"role": "assistant", "content": "Yes"}]
    schema: Any = {"type": "json_schema", "json_schema": {"schema": Decision.model_json_schema()}}
    for form in FORMS:
        with serving(model=Surrogate(form=form)) as url, openai.OpenAI(base_url=url, api_key="any") as client:
            for person in (MANAGER, CLERK):
                direct = Surrogate(form=form).reply([*shown, *person])
                words = ask(client, [*shown, *person], logprobs=True).choices[0]
                assert words.message.content == direct.text in ("Yes", "No")
                assert words.logprobs.content[0].logprob == pytest.approx(direct.logprobs[0][1])
                content = ask(client, [*shown, *person], response_format=schema).choices[0].message.content
                assert Decision.model_validate_json(content).answer == direct.text


def test_another_model_and_an_unreadable_prompt_are_refused_as_the_api_does(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match=r"did not find 'age'.* in 'hi'") as unreadable:
        ask(client, [{"role": "user", "content": "hi"}])
    assert (unreadable.value.code, unreadable.value.param) == ("unreadable_prompt", "messages")


def test_a_key_can_be_required() -> None:
    with serving(key="sesame") as url, openai.OpenAI(base_url=url, api_key="sesame", max_retries=0) as client:
        assert ask(client, MANAGER).choices[0].message.content == "yes"
        with pytest.raises(openai.AuthenticationError) as refused:
            client.with_options(api_key="wrong").models.list()
    assert refused.value.code == "invalid_api_key"
    assert "wrong" not in str(refused.value.body)


# What is below has no client of OpenAI's between it and the socket.


def connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)


def send(wire: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    wire.request(method, path, body if isinstance(body, bytes | None) else json.dumps(body))
    reply = wire.getresponse()
    return reply.status, json.loads(reply.read())


def good(**changes: Any) -> dict[str, Any]:
    return {"model": "surrogate", "messages": MANAGER, **changes}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        *((body, 400, "could not parse the JSON") for body in (b"{", b"[" * 100_000, b"\xff\xfe\xff", b"")),
        ([], 400, "body"), ({"messages": MANAGER}, 400, "model"),
        (good(model="gpt-4"), 404, "`gpt-4` does not exist"), (good(n=0), 400, "n:"),
        (good(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), 400, "messages.0.content"),
        (good(messages=[{"role": "user", "content": "\ud800"}]), 400, ""),
        (good(temperature=math.nan), 400, "temperature"), (good(top_logprobs=21), 400, "top_logprobs"),
    ],
)  # fmt: skip
def test_wrong_requests_leave_the_connection(url: str, body: Any, status: int, words: str) -> None:
    wire = connection(url)
    got, reply = send(wire, "POST", "/v1/chat/completions", body)
    assert (got, reply["error"]["type"]) == (status, "invalid_request_error")
    assert words in reply["error"]["message"]
    kept = wire.sock
    assert send(wire, "POST", "/v1/chat/completions", good())[0] == 200
    assert wire.sock is kept is not None


@pytest.mark.parametrize(
    "header", [b"transfer-encoding: chunked", b"content-length: -1", b"content-length: 99999999999"]
)
def test_a_body_without_a_usable_length_is_refused(url: str, header: bytes) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as wire:
        wire.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + header + b"\r\n\r\n")
        wire.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: wire.recv(65536), b""))
    assert b" 411 " in reply[:40]
    assert b'{"error": ' in reply


def test_a_run_is_marked_by_its_replies_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = {"arms": ("zero",), "n_test": 8, "out": tmp_path / "run", "progress": False}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    with serving(name="gpt-4") as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        result = evaluate("census", "gpt-4", **asked)
    assert result.data["simulated_answers"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["simulated_answers"]
    assert "simulated" in str(result).casefold()
    assert evaluate("census", "gpt-4", **asked).data == result.data  # the server is gone, nothing is asked


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
def test_every_wording_is_the_chat(url: str, client: openai.OpenAI, prompts: Any, template: str) -> None:
    p = Surrogate().p_yes(prompts["chat"])
    asked = Parts(prompts[template])
    nouls = {name: {"type": "noul", "instructions": words} for name, words in asked.questions.items()}
    body = {"model": "surrogate", "state": asked.text, "questions": nouls}
    _, reply = send(connection(url), "POST", "/v1/systemone", body)
    assert send(connection(url), "POST", "/v1/decisions", body)[1] == reply
    assert {name: answer["noul"] for name, answer in reply["answers"].items()} == pytest.approx(
        {"answer": p, "negation": 1 - p, "paraphrase": p}, abs=1e-6
    )
    assert reply["model"] == "surrogate (simulated)"
    assert reply["usage"]["input_tokens"] == len(asked.text.split())
    shown: Any
    for shown in (asked.text, [dict(message) for message in asked.input]):
        (answer,) = client.decisions.create(model="surrogate", input=shown, questions=[QUESTION]).answers
        assert (answer.type, answer.name) == ("predicate", "q")
        assert answer.probability == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("systemone", {"state": "x", "questions": {"q": 7}}, 422, "questions.q"),
        ("systemone", {"state": PERSON.format(*MANAGED), "questions": {"q": {**NOUL, "type": "score"}}},
         400, "yes/no"),
        ("systemone", {"model": "jev", "state": "x", "questions": {"q": NOUL}}, 404, "`jev` does not exist"),
        ("systemone", {"state": "nobody", "questions": {"q": NOUL}}, 400, "cannot read this prompt"),
        ("decisions", {"input": "x", "questions": [QUESTION] * 401}, 400, "questions"),
        ("decisions", {"input": "x", "questions": [{"type": "predicate"}]}, 400, "instructions"),
        ("systemone", {"state": "x", "questions": {"q": {"type": "noul"}}}, 422, "instructions"),
    ],
)  # fmt: skip
def test_wrong_decisions_are_refused(url: str, path: str, body: Any, status: int, words: str) -> None:
    got, reply = send(connection(url), "POST", f"/v1/{path}", {"model": "surrogate", **body})
    assert got == status
    assert words in reply["error"]["message"]


@pytest.mark.slow
def test_the_command_serves_says_where_and_stops_on_control_c() -> None:
    command = [sys.executable, "-m", "fwc_llm", "serve-surrogate", "--port", "0", "--require-key", "MY_KEY"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process: Any = subprocess.Popen(command, env={**os.environ, "MY_KEY": "sesame"}, **pipes)
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", url)
    with openai.OpenAI(base_url=url, api_key="sesame") as client:
        assert ask(client, MANAGER).choices[0].message.content == "yes"
        process.send_signal(signal.SIGINT)  # with the connection still open
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "simulation" in err
    assert not re.search("sesame|Traceback", err)
