"""`fwc-llm doctor`: what it says of this installation, and that it says nothing of keys."""

import json
import socket
from typing import Any

import pytest

from tests.command import Outcome, Run
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve_in_thread


def checks(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {one["check"]: one for one in json.loads(outcome.out)["checks"]}


def test_a_sound_installation_is_said_to_be_one(fwc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    outcome = fwc("doctor", code=0)
    assert "planted" not in outcome.out + outcome.err
    lines = outcome.out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "note"}
    assert all("; " in line for line in lines if line.startswith("note"))  # what to do
    for what in ("python", "numba", "extra parquet", "key OPENAI_API_KEY"):
        assert any(what in line for line in lines), what


def test_what_is_broken_is_named_with_code_2(fwc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FWC_LLM_DATA", "/no/such/folder")
    monkeypatch.setenv("OPENAI_API_KEY", " sk-planted\n")
    outcome = fwc("doctor", "--api-key-env", "MY_KEY", "--json", code=2)
    assert "see above" in outcome.line
    found = checks(outcome)
    broken = {name for name, one in found.items() if one["state"] == "broken"}
    assert broken == {"FWC_LLM_DATA", "key MY_KEY"}
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "")
    found = checks(fwc("doctor", "--json"))
    assert found["key AZURE_OPENAI_API_KEY"]["found"] == "not set"
    assert found["key OPENAI_API_KEY"]["found"] == "set, but with white space"


def test_a_service_is_asked_where_named_and_without_a_key(fwc: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    seen: list[HttpRequest] = []

    def answer(request: HttpRequest) -> HttpReply:
        seen.append(request)
        return HttpReply(completion("yes"), 401)

    with serve_in_thread(answer) as url:
        fwc("doctor", code=0)
        assert not seen
        secret = url.replace("//", "//me:secret@") + "/v1?key=secret"
        outcome = fwc("doctor", "--base-url", secret, "--json", code=0)
    assert len(seen) == 1
    assert "planted" not in repr(seen)
    assert "secret" not in outcome.out
    (name,) = (name for name in checks(outcome) if name.startswith("service"))
    assert checks(outcome)[name]["found"] == "answers, and wants a key (HTTP 401)"


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/v1", "no address", "http://[::1", "http://\x00"])
def test_an_address_without_a_server_is_broken(fwc: Run, url: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        outcome = fwc("doctor", "--base-url", url.format(port=free.getsockname()[1]), code=2)
    assert "no answer" in outcome.out
    assert "Traceback" not in outcome.err
