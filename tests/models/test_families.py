"""What families.toml says of models: what they accept, when they end, and what the client says of it."""

from datetime import date, timedelta
from typing import Any

import pytest
import respx

from fwc_llm.models.openai.prices import ending_of, family_of, price_of
from tests.cli.conftest import fwc as fwc
from tests.faults.loopback import completion
from tests.models.asking import KEY, ask, quick, sent

TODAY = date(2026, 11, 22)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4o", (False, False, False)),
        ("gpt-5-chat-latest", (False, False, False)),
        ("o3", (True, True, False)),
        ("ft:o4-mini:us", (True, True, False)),
        ("gpt-5-mini-2025-08-07", (True, True, False)),
        ("gpt-5.1", (True, True, True)),
        ("openai/GPT-5.6-luna", (True, True, True)),
        ("gpt-6-luna", (True, False, True)),
        ("gpt-6.1-terra", (True, False, True)),
        ("gpt-6.1-sol", (True, False, False)),
        ("gpt-12", (True, False, True)),
    ],
)
def test_the_family_of_a_name(name: str, family: tuple[bool, bool, bool]) -> None:
    of = family_of(name)
    assert (of.reasons, of.known, of.effort_none) == family


def test_logprobs_switch_reasoning_off_where_nothing_was_set(
    provider: respx.MockRouter,
) -> None:
    route = provider.post("/chat/completions").respond(json=completion("Yes", "gpt-5.4-mini"))
    model = quick("gpt-5.4-mini", logprobs=True)
    ask(model)
    body = sent(route)
    assert (body["reasoning_effort"], body["temperature"], body["logprobs"]) == ("none", 0, True)
    assert body["max_completion_tokens"] == 20
    assert model.parameters["reasoning_effort"] == "none"  # part of what identifies a request
    (notice,) = model.notices
    assert "reasoning_effort=none is sent (--param reasoning_effort=… says otherwise)" in notice


@pytest.mark.parametrize(
    ("name", "options", "effort"),
    [
        ("gpt-5.4-mini", {}, None),
        ("gpt-5.4-mini", {"logprobs": True, "params": {"reasoning_effort": "low"}}, "low"),
        ("gpt-5", {"logprobs": True}, None),
        ("gpt-6.2-sol", {"logprobs": True}, None),
        ("gpt-4o", {"logprobs": True}, None),
    ],
)
def test_nothing_is_switched_off_elsewhere(name: str, options: dict[str, Any], effort: str | None) -> None:
    model = quick(name, **options)
    assert model.parameters.get("reasoning_effort") == effort
    refused = any("may refuse to give log-probabilities" in notice for notice in model.notices)
    assert refused == (name != "gpt-4o" and bool(options))


def test_the_announced_ends() -> None:
    ending = ending_of("gpt-5-mini-2025-08-07")
    assert ending is not None
    assert ending.words(TODAY) == (
        "gpt-5-mini-2025-08-07 ends on 2026-12-11 (in 19 days); named successor gpt-6-luna"
    )
    assert ending.words(date(2026, 12, 11)).startswith("gpt-5-mini-2025-08-07 ended on 2026-12-11")
    terse = ending_of("gpt-5.1")
    assert terse is not None
    assert terse.words(TODAY) == "gpt-5.1 ends on 2027-04-01 (in 130 days)"
    assert ending_of("gpt-6-luna") is None
    assert ending_of("gpt-4-mystery") is None
    dated = ending_of("gpt-4o-2024-05-13")
    assert dated is not None
    assert dated.day == date(2026, 10, 23)  # earlier than gpt-4o


@pytest.mark.parametrize(("before", "said"), [(61, False), (60, True), (0, True), (-400, True)])
def test_an_end_within_sixty_days_is_said(before: int, said: bool) -> None:
    model = quick("gpt-4o", today=date(2027, 1, 14) - timedelta(days=before))
    assert bool(model.notices) == said
    elsewhere = quick("gpt-4o", today=date(2027, 1, 14), base_url="http://127.0.0.1:1/v1")
    assert not elsewhere.notices  # another service has its own models


def test_the_key_is_hidden_although_something_was_said_before_it_was_there(
    provider: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    model = quick("gpt-4", today=TODAY)
    assert model.notices
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider.post("/chat/completions").respond(json=completion(f"Yes {KEY}"))
    assert KEY not in str(ask(model).text)


def test_no_price_is_invented() -> None:
    for name in ("gpt-5.1", "gpt-5.5", "gpt-6.3-sol", "gpt-6-terra"):
        assert price_of(name) is None, name
    for name in ("gpt-6-luna", "gpt-6.1-terra", "gpt-6.2-sol", "gpt-5.4-mini"):
        price = price_of(name)
        assert price is not None
        assert price.date >= "2026-11-21"
        assert "third parties" in price.source
