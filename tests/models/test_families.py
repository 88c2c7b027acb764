"""What families.toml says of models: what they accept, and what the client says of it."""

from typing import Any

import pytest
import respx

from fwc_llm.models import Usage
from fwc_llm.models.openai.prices import family_of, price_of
from tests.faults.loopback import completion
from tests.models.asking import KEY, ask, quick, sent


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-5-chat-latest", (False, False)),
        ("o3", (True, False)),
        ("ft:o4-mini:us", (True, False)),
        ("gpt-5-mini-2025-08-07", (True, False)),
        ("openai/GPT-5.6-luna", (True, True)),
        ("gpt-6.1-terra", (True, True)),
        ("gpt-6.1-sol", (True, False)),
    ],
)
def test_the_family_of_a_name(name: str, family: tuple[bool, bool]) -> None:
    of = family_of(name)
    assert (of.reasons, of.effort_none, of.openai) == (*family, True)


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", True),
        ("qwen3:8b", True),
        ("Qwen/Qwen3-4B-Thinking-2507", True),
        ("Qwen3-30B-A3B-Instruct-2507", False),
        ("openai/gpt-oss-120b", True),
        ("kimi-k2-instruct", False),
        ("grok-4-fast-non-reasoning", False),
        ("llama-3.3-70b-instruct", False),
    ],
)
def test_a_reasoning_model_of_another_maker_gets_room(name: str, reasons: bool) -> None:
    sent = quick(name).parameters
    assert sent == {"temperature": 0, "max_tokens": 2000 if reasons else 20}
    assert quick(name, max_tokens=50).parameters["max_tokens"] == 50


def test_logprobs_switch_reasoning_off_where_nothing_was_set(
    provider: respx.MockRouter,
) -> None:
    route = provider.post("/chat/completions").respond(
        json=completion("Yes", "gpt-5.4-mini")
    )
    model = quick("gpt-5.4-mini", logprobs=True)
    ask(model)
    expected = {
        "reasoning_effort": "none",
        "temperature": 0,
        "logprobs": True,
        "max_completion_tokens": 20,
    }
    assert expected.items() <= sent(route).items()
    assert (
        model.parameters["reasoning_effort"] == "none"
    )  # part of what identifies a request
    (notice,) = model.notices
    assert (
        "reasoning_effort=none is sent (to send another value: --param reasoning_effort=…)"
        in notice
    )


def test_the_key_is_hidden_although_something_was_said_before_it_was_there(
    provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    model = quick("gpt-5-mini")
    assert model.notices
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.post("/chat/completions").respond(json=completion(f"Yes {KEY}"))
    assert KEY not in str(ask(model).text)


def test_what_is_written_to_the_cache_and_long_requests_cost_more() -> None:
    price: Any = price_of("gpt-6-luna")
    plain = Usage(1000, 10)
    written = Usage(1000, 10, 200, 600)
    assert price.dollars(plain) == pytest.approx((1000 * 0.10 + 10 * 0.50) / 1e6)
    assert price.dollars(written) == pytest.approx(
        (200 * 0.10 + 200 * 0.01 + 600 * 0.125 + 10 * 0.50) / 1e6
    )
    long = (2 * 300_000 * 0.10 + 1.5 * 10 * 0.50) / 1e6
    assert price.dollars(Usage(300_000, 10), longest=300_000) == pytest.approx(long)
    decisions: Any = price_of("gpt-6-luna", api="decisions")
    assert decisions.dollars(Usage(1000, 10, 1000)) == 0.0
