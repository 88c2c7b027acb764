"""Azure OpenAI over HTTP: its address, its key header, and the same reading of replies."""

import asyncio
from typing import Any

import pytest

from fwc_llm.errors import ProviderError
from fwc_llm.models import open_model
from fwc_llm.models.openai.chat import AzureModel
from tests.faults.loopback import Handler, HttpReply, completion, refusal
from tests.models.asking import MESSAGES, over_http
from tests.refusals import refused

KEY = "azure-planted-0123456789"


def ask(answer: HttpReply | Handler, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(base_url: str) -> AzureModel:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", base_url)
        return AzureModel("azure:my-deployment", backoff=0.001)

    return over_http(answer, make)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")


def test_a_deployment_is_asked_in_azures_way(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(
        [HttpReply("", 503), HttpReply(completion("Yes", "gpt-4o-2024-08-06"))]
    )
    (reply,), _, seen = ask(lambda request: next(answers), monkeypatch)
    assert (reply.text, reply.model, reply.attempts) == ("Yes", "gpt-4o-2024-08-06", 2)
    assert (
        seen[0].path
        == "/v1/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
    )
    assert seen[0].headers["api-key"] == KEY
    assert "sk-other" not in str(seen[0].headers)
    assert seen[0].json()["messages"] == MESSAGES


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            refusal(404, "The API deployment does not exist", "DeploymentNotFound"),
            "does not know .* deployments",
        ),
        (
            refusal(401, "Access denied due to invalid subscription key", "401"),
            "key in AZURE_OPENAI_API_KEY",
        ),
    ],
)
def test_a_wrong_deployment_stops(
    answer: HttpReply, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProviderError, match=words):
        ask(answer, monkeypatch)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://mine.openai.azure.com", KEY),
        ("https://mine.openai.azure.us/", KEY),
        ("https://mine.cognitiveservices.azure.com", KEY),
        ("http://127.0.0.1:9", KEY),
        ("http://mine.openai.azure.com", None),
        ("https://openai.azure.com.evil.example", None),
        ("https://evil.example/mine.openai.azure.com/", None),
        ("http://127.0.0.1:8", None),
    ],
)
def test_the_key_is_for_azures_domains_and_the_endpoint_that_is_named(
    url: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9/")
    sdk = AzureModel("azure:d", base_url=url).sdk()
    assert sdk.api_key == (expected or "no-key")


def test_what_is_missing_is_named_before_any_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with refused("set AZURE_OPENAI_ENDPOINT"):
        open_model("azure:my-deployment")
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9")
    model = open_model("azure:my-deployment")
    with refused("set the environment variable AZURE_OPENAI_API_KEY"):
        asyncio.run(model.ask(MESSAGES))
    assert model.name == "azure:my-deployment"
