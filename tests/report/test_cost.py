"""What a run used and cost, live and through the Batch API."""

from typing import Any

import pytest

from fwc_llm.models.openai.prices import price_of
from fwc_llm.report.cost import cost, cost_line


def results(**changes: Any) -> dict[str, Any]:
    tokens = {"prompt_tokens": 1_000_000, "completion_tokens": 1_000, "cached_tokens": 0}
    return {"model": "gpt-4o", "simulated": False, "requests": 5, "unanswered": 0, "usage": tokens, **changes}


def test_dollars_are_tokens_times_prices() -> None:
    price = price_of("gpt-4o")
    assert price is not None
    found = cost(results())
    assert found["dollars"] == pytest.approx(price.input + price.output / 1000)
    assert found["price_date"] == price.date


def test_a_simulation_and_an_unknown_model_have_no_dollars() -> None:
    assert "dollars" not in cost(results(simulated=True))
    assert "dollars" in cost(results(simulated=True, simulated_answers=False)), "a real model, simulated rows"
    assert "dollars" not in cost(results(model="my-model"))
    assert cost_line(results(model="my-model")).startswith("used 1,000,000 prompt tokens")
    assert "$" in cost_line(results())
