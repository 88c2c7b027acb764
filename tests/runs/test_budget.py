"""What a run costs: known before, bounded during."""

import asyncio
import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import evaluate
from fwc_llm.models import Client
from fwc_llm.models.base import Attempts, Messages, Reply, Usage
from fwc_llm.models.bodies import read_reply
from fwc_llm.models.decisions import DecisionModel
from fwc_llm.models.openai.chat import ChatModel
from fwc_llm.models.openai.prices import Price, price_of, why_unpriced
from fwc_llm.runs.budget import Budget, forecast
from fwc_llm.runs.execute import Execution
from fwc_llm.runs.journal import Journal, PlannedCall
from fwc_llm.tasks import census_task
from tests.command import Run, corpus
from tests.faults.loopback import (
    HttpReply,
    HttpRequest,
    answered,
    completion,
    serve_in_thread,
)
from tests.refusals import refused

PRICE = Price(
    model="test",
    input=10.0,
    cached=1.0,
    output=100.0,
    batch=0.5,
    context=2000,
    date="2026-01-01",
)


class Counter:
    """A token is a character."""

    exact = True

    def count(self, messages: Messages) -> int:
        return sum(len(message["content"]) for message in messages)


class Model(ChatModel):
    used = Usage(1000, 5, 0)

    async def ask_within(self, messages: Messages, attempts: Attempts) -> Reply:
        await asyncio.sleep(0.001)
        return Reply("Yes", usage=self.used)


def calls(n: int, tail: int = 100) -> list[PlannedCall]:
    system: Any = {"role": "system", "content": "s" * 1500}
    users: Any = [
        {"role": "user", "content": f"{i:03}".ljust(tail, "x")} for i in range(n)
    ]
    return [
        PlannedCall("fwc", 0, f"test:{i}", "", [system, user], fixed=1)
        for i, user in enumerate(users)
    ]


def test_a_forecast_counts_everything() -> None:
    numbers = forecast(Model("test"), Client(), calls(10), 10, PRICE, Counter())  # type: ignore[arg-type]
    assert (numbers.requests, numbers.prompt_tokens, numbers.longest_prompt) == (
        10,
        16_000,
        1600,
    )
    assert numbers.completion_tokens == 10 * 20
    # From the second call on: 1,500 common tokens, in steps of 128.
    assert numbers.cached_tokens == 9 * 1408
    assert numbers.dollars_most == pytest.approx((16_000 * 10 + 200 * 100) / 1e6)
    assert numbers.dollars == pytest.approx(
        ((16_000 - 12_672) * 10 + 12_672 * 1 + 200 * 100) / 1e6
    )
    half = forecast(Model("test"), Client(batch=True), calls(10), 10, PRICE, Counter())  # type: ignore[arg-type]
    assert half.dollars_most == pytest.approx((16_000 * 10 + 200 * 100) / 2e6)


def test_a_prompt_beyond_the_context_is_refused() -> None:
    with refused("test:0 has 1990 tokens and its reply up to 20: "):
        forecast(Model("test"), Client(), calls(1, tail=490), 1, PRICE, Counter())  # type: ignore[arg-type]
    forecast(Model("test"), Client(), calls(1, tail=480), 1, PRICE, Counter())  # type: ignore[arg-type]


def run(folder: Path, model: Model, max_cost: float) -> tuple[Any, Budget]:
    budget = Budget(model, PRICE, max_cost, Counter())  # type: ignore[arg-type]
    with Journal(folder) as journal:
        return asyncio.run(
            Execution(model, calls(50), journal, budget=budget).run()
        ), budget


def test_the_limit_is_never_passed_and_holds_over_several_runs(tmp_path: Path) -> None:
    model = Model(
        "test"
    )  # a request may cost 1600·10 + 20·100 = 0.018, and really costs 0.0105 dollars
    outcome, budget = run(tmp_path, model, 0.1)
    assert "stopped before --max-cost" in str(outcome.stopped)
    assert budget.spent <= 0.1
    assert budget.spent == pytest.approx(outcome.done * 0.0105)
    assert outcome.done == 8, (
        "what a reply did not use comes back before the run gives up"
    )
    again, _ = run(tmp_path, model, 0.1)
    assert again.done == 0, "what was spent before counts"
    more, budget = run(tmp_path, model, 1.0)
    assert more.stopped is None
    assert budget.spent == pytest.approx(50 * 0.0105)


def test_without_a_reported_usage_the_worst_case_counts(tmp_path: Path) -> None:
    model = Model("test")
    model.used = None  # type: ignore[assignment]
    outcome, budget = run(tmp_path, model, 0.1)
    assert outcome.done == 5
    assert (
        "is used (at most: for some attempts the service sent no token counts)"
        in str(outcome.stopped)
    )
    assert budget.spent == pytest.approx(5 * 0.018)


def test_a_limit_is_a_positive_number() -> None:
    for wrong in (0.0, -1.0, float("nan")):
        with refused(r"max_cost: .*greater than 0"):
            Client(max_cost=wrong)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-4-turbo-2024-04-09", "gpt-4-turbo"),
        ("gpt-4-mystery", None),
        ("openai/gpt-4o", "gpt-4o"),
        ("azure:gpt-4o", "gpt-4o"),
    ],
)
def test_prices_cover_dated_versions_and_nothing_else(
    name: str, known: str | None
) -> None:
    price = price_of(name)
    assert (price.model if price else None) == known


def test_a_price_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        'date = "2030-01-01"\n[models]\n"mine" = { input = 1, output = 2 }\n'
    )
    price: Any = price_of("mine", file)
    assert (price.cached, price.date, price.context) == (1.0, "2030-01-01", None)
    assert price.dollars(Usage(1_000_000, 1_000_000, 500_000)) == pytest.approx(3.0)
    assert price_of("gpt-4", file) is None


def test_a_parameter_that_changes_the_price_needs_a_factor(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    listed = 'date = "2030-01-01"\n[models]\nmine = { input = 1, output = 2 }\n'
    file.write_text(
        listed + "[parameters.service_tier]\nflex = 0.5\n[parameters.web]\nTrue = 3\n"
    )
    usual: Any = price_of("mine", file, sent={"temperature": 0, "max_tokens": 20})
    changed: Any = price_of("mine", file, sent={"service_tier": "flex", "web": True})
    assert (usual.input, usual.output) == (1.0, 2.0)
    assert (changed.input, changed.cached, changed.output) == (1.5, 1.5, 3.0)
    for sent in (
        {"service_tier": "priority"},
        {"web": False},
        {"tools": []},
        {"extra_body": {"x": 1}},
    ):
        assert price_of("mine", file, sent=sent) is None
        assert next(iter(sent)) in why_unpriced("mine", file, "chat", sent)


def test_a_limit_is_refused_without_a_price(fwc: Run, out: Path) -> None:
    words = "eval --task census --n-test 13 --shots zero --m 4"
    service = ("--base-url", "http://127.0.0.1:9/v1", "--max-cost", 1, "--out", out)
    assert (
        "no price of my-model is known"
        in fwc(words, "--model", "my-model", *service, code=2).line
    )
    tier = "--model gpt-5-mini --param service_tier=priority"
    assert (
        "the parameter service_tier is not known"
        in fwc(f"{words} {tier}", *service, code=2).line
    )
    free = "--model gpt-5-mini --param seed=1"
    free = f"{free} --param service_tier=default"
    assert "$" in fwc(f"{words} {free} --dry-run", code=0).out


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        'date = "x"\n[models]\na = 3\n',
        'date = "x"\n[models]\na = { input = -1, output = 1 }\n',
    ],
)
def test_a_file_that_is_no_price_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with refused(r"prices\.toml"):
        price_of("gpt-4", file)


def _lost(body: Any, kind: str) -> HttpReply:
    if kind == "cut":
        return HttpReply(body, cut=10)
    return HttpReply("oops", 500) if kind == "status 500" else HttpReply("<html>", 200)


@pytest.mark.parametrize("concurrency", [1, 96])
@pytest.mark.parametrize("options", [{}, {"api": "decisions"}], ids=str)
def test_a_service_that_bills_and_loses_replies_stays_within_the_limit(
    options: Any, concurrency: int, tmp_path: Path, out: Path
) -> None:
    """It takes a tenth of a dollar and more for each attempt, and loses four of five replies."""
    prices = tmp_path / "prices.toml"
    prices.write_text(
        'date = "2030-01-01"\n[models]\nmine = { input = 1000, output = 4000 }\n'
    )
    price: Any = price_of("mine", prices)
    attempts = itertools.count()
    bill = [0.0]

    def service(request: HttpRequest) -> HttpReply:
        number = next(attempts)
        chat = request.path.endswith("/chat/completions")
        used = Usage(len(request.body) // 5, 2 if chat else 1)
        bill[0] += price.dollars(used)
        body = answered(request, True)
        names = (
            ("prompt_tokens", "completion_tokens")
            if chat
            else ("input_tokens", "output_tokens")
        )
        body["usage"] = dict(
            zip(names, (used.prompt_tokens, used.completion_tokens), strict=True)
        )
        if number % 5 == 4:
            return HttpReply(body)
        return _lost(body, ("cut", "status 500", "html")[number % 3])

    kind: Any = partial(DecisionModel, **options) if "api" in options else ChatModel
    with serve_in_thread(service) as url:
        for most in (2.0, 3.0):
            result = evaluate(
                census_task(600, 300),
                kind("mine", base_url=f"{url}/v1", backoff=0.001),
                ("zero",),
                out=out,
                n_test=40,
                base_parity=None,
                prices=prices,
                max_cost=most,
                concurrency=concurrency,
                progress=False,
                **options,
            )
            assert "stopped before --max-cost" in result.data["stopped"]
            assert 0.2 * most < bill[0] <= most
            assert (
                result.data["unknown_usage"]["prompt_tokens"]
                > result.data["usage"]["prompt_tokens"]
            )
            spent = bill[0]
            with Journal(out) as journal:
                assert spent <= journal.cost(price) <= most


@pytest.mark.parametrize("case", corpus("usages"))
def test_what_is_not_known_of_a_usage_is_not_zero(case: dict[str, Any]) -> None:
    expected = case["known"] and Usage(*case["known"])
    assert read_reply(completion("Yes", usage=case["usage"])).usage == expected


def test_what_costs_more_than_its_worst_case_is_expected_from_then_on(
    tmp_path: Path,
) -> None:
    model = Model("test")
    model.used = Usage(
        1600, 200, 0
    )  # ten times the tokens of the limit: 0.036 dollars, not 0.018
    outcome, budget = run(tmp_path, model, 0.4)
    assert outcome.done >= 8
    assert budget.dollars(budget.worst_case(calls(1)[0].messages)) >= 0.036
